//! A link that loses what one end sends at times.

use std::ops::Range;
use std::time::Duration;

use tack_link::compose::BoxedLink;
use tack_link::{Arrival, Direction, Link, Losses, Packet, Time};

/// A link on which nothing of one direction arrives at times. What goes the other way does.
pub struct Muted {
    link: BoxedLink,
    direction: Direction,
    times: Vec<Range<Time>>,
    swallowed: u64,
}

impl Muted {
    /// The link, and when nothing of that direction comes out of it: when each such time begins,
    /// and how long it lasts.
    pub fn new(
        link: BoxedLink,
        direction: Direction,
        times: impl IntoIterator<Item = (Duration, Duration)>,
    ) -> Self {
        let times = times.into_iter();
        let times = times.map(|(start, length)| Time::from(start)..Time::from(start + length));
        Self { link, direction, times: times.collect(), swallowed: 0 }
    }
}

impl Link for Muted {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        self.link.send(direction, packet, now);
    }

    fn next_event(&self) -> Option<Time> {
        self.link.next_event()
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        loop {
            let arrival = self.link.arrival(now)?;
            let is_muted = arrival.direction == self.direction
                && self.times.iter().any(|time| time.contains(&arrival.at));
            if !is_muted {
                return Some(arrival);
            }
            self.swallowed += 1;
        }
    }

    fn losses(&self, direction: Direction) -> Losses {
        let prescribed = if direction == self.direction { self.swallowed } else { 0 };
        self.link.losses(direction) + Losses { prescribed, ..Losses::default() }
    }

    fn corrupted(&self, direction: Direction) -> u64 {
        self.link.corrupted(direction)
    }

    fn marked(&self, direction: Direction) -> u64 {
        self.link.marked(direction)
    }
}
