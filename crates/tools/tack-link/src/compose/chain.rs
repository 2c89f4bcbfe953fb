//! Links behind each other.

use super::BoxedLink;
use super::network::{Network, Route};
use crate::{Arrival, Direction, Link, Losses, Packet, Time};

/// Links behind each other: packets go forward from the first to the last, and in reverse from
/// the last to the first. Without a link in it, packets arrive as they are sent.
pub struct Chain(Network<Line>);

impl Chain {
    /// A chain of these links, which must be empty.
    pub fn new(links: Vec<BoxedLink>) -> Self {
        let line = Line { len: links.len() };
        Self(Network::new(links, line))
    }
}

struct Line {
    len: usize,
}

impl Route for Line {
    fn next(&self, from: Option<usize>, direction: Direction, _: u32) -> Option<usize> {
        match (direction, from) {
            (Direction::Forward, None) => Some(0).filter(|first| *first < self.len),
            (Direction::Forward, Some(from)) => Some(from + 1).filter(|next| *next < self.len),
            (Direction::Reverse, from) => from.unwrap_or(self.len).checked_sub(1),
        }
    }
}

impl Link for Chain {
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
