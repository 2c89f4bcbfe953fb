//! Flows that share a link and have different ways behind it.

use super::network::{Network, Route};
use super::{BoxedLink, Duplex};
use crate::{Arrival, Direction, Link, Losses, Packet, Time};

/// A link that all flows share, and behind it one link for each flow: forward packets cross the
/// shared link first, reverse packets last.
///
/// The flow is [`Packet::flow`]; flows beyond the last link use the last. Without any, packets
/// cross the shared link alone.
pub struct PerFlow(Network<Star>);

impl PerFlow {
    /// A link of these, which must be empty.
    pub fn new(shared: BoxedLink, access: Vec<Duplex>) -> Self {
        let star = Star { flows: access.len() };
        let boxed = |link| Box::new(link) as BoxedLink;
        Self(Network::new(
            std::iter::once(shared).chain(access.into_iter().map(boxed)).collect(),
            star,
        ))
    }
}

/// The shared element is the first; that of flow 0 is the next.
struct Star {
    flows: usize,
}

impl Star {
    const SHARED: usize = 0;

    fn access(&self, flow: u32) -> Option<usize> {
        let last = self.flows.checked_sub(1)?;
        Some(1 + last.min(flow as usize))
    }
}

impl Route for Star {
    fn next(&self, from: Option<usize>, direction: Direction, flow: u32) -> Option<usize> {
        match (direction, from) {
            (Direction::Forward, None) => Some(Self::SHARED),
            (Direction::Forward, Some(Self::SHARED)) => self.access(flow),
            (Direction::Reverse, None) => self.access(flow).or(Some(Self::SHARED)),
            (Direction::Reverse, Some(at)) => Some(Self::SHARED).filter(|shared| *shared != at),
            (Direction::Forward, Some(_)) => None,
        }
    }
}

impl Link for PerFlow {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        self.0.send(direction, packet, now);
    }

    fn next_event(&self) -> Option<Time> {
        self.0.next_event()
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        self.0.arrival(now)
    }

    fn losses(&self, direction: Direction) -> Losses {
        self.0.losses(direction)
    }

    fn corrupted(&self, direction: Direction) -> u64 {
        self.0.corrupted(direction)
    }

    fn marked(&self, direction: Direction) -> u64 {
        self.0.marked(direction)
    }
}
