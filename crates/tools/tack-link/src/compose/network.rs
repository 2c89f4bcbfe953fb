//! Links that pass packets on to each other.

use std::collections::VecDeque;

use super::BoxedLink;
use crate::{Arrival, Direction, Link, Losses, Packet, Time};

/// Which way packets take through the elements of a network.
pub(super) trait Route {
    /// The element after `from`, or the first one if there is no `from` yet; `None` at the end.
    fn next(&self, from: Option<usize>, direction: Direction, flow: u32) -> Option<usize>;
}

/// Elements, and the way through them.
///
/// Whatever happens in the elements happens in the order of time, whichever element it happens
/// in; what happens at the same time happens in the order of the elements.
pub(super) struct Network<R> {
    elements: Vec<BoxedLink>,
    route: R,
    /// What has come out and has not been asked for yet, in order of arrival.
    arrived: VecDeque<Arrival>,
}

impl<R: Route> Network<R> {
    pub(super) const fn new(elements: Vec<BoxedLink>, route: R) -> Self {
        Self { elements, route, arrived: VecDeque::new() }
    }

    /// The element where something happens next, and when.
    fn next_step(&self) -> Option<(Time, usize)> {
        let events = self.elements.iter().map(Link::next_event);
        events.enumerate().filter_map(|(at, event)| Some((event?, at))).min()
    }

    /// Lets the next thing happen that is due at `now`; false if there is none.
    fn step(&mut self, now: Time) -> bool {
        let Some((at, element)) = self.next_step().filter(|(at, _)| *at <= now) else {
            return false;
        };
        if let Some(arrival) = self.elements[element].arrival(at) {
            self.pass_on(Some(element), arrival);
        }
        true
    }

    fn pass_on(&mut self, from: Option<usize>, arrival: Arrival) {
        let Arrival { at, direction, packet } = arrival;
        match self.route.next(from, direction, packet.flow) {
            Some(next) => self.elements[next].send(direction, packet, at),
            None => self.arrived.push_back(Arrival { at, direction, packet }),
        }
    }
}

impl<R: Route> Link for Network<R> {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        // An element must not get this packet before others that reach it earlier from inside.
        while self.step(now) {}
        self.pass_on(None, Arrival { at: now, direction, packet });
    }

    fn next_event(&self) -> Option<Time> {
        let arrived = self.arrived.front().map(|arrival| arrival.at);
        arrived.or_else(|| self.next_step().map(|(at, _)| at))
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        while self.arrived.is_empty() && self.step(now) {}
        self.arrived.pop_front()
    }

    fn losses(&self, direction: Direction) -> Losses {
        let losses = self.elements.iter().map(|element| element.losses(direction));
        losses.fold(Losses::default(), std::ops::Add::add)
    }

    fn corrupted(&self, direction: Direction) -> u64 {
        self.elements.iter().map(|element| element.corrupted(direction)).sum()
    }

    fn marked(&self, direction: Direction) -> u64 {
        self.elements.iter().map(|element| element.marked(direction)).sum()
    }
}
