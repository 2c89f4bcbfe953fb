//! A link with black holes in time.

use super::{BoxedLink, Pauses};
use crate::{Arrival, Direction, Link, Losses, Packet, Time};

/// A link whose ends hear nothing at times: what would arrive meanwhile is lost, both ways, though
/// the link itself goes on. With [`Paused`](super::Paused) the same packets would come later.
pub struct Deaf {
    link: BoxedLink,
    times: Pauses,
    /// In the order of [`Direction::index`].
    swallowed: [u64; 2],
}

impl Deaf {
    /// The link, and when nothing comes out of it.
    pub const fn new(link: BoxedLink, times: Pauses) -> Self {
        Self { link, times, swallowed: [0; 2] }
    }
}

impl Link for Deaf {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        self.link.send(direction, packet, now);
    }

    fn next_event(&self) -> Option<Time> {
        self.link.next_event()
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        loop {
            let arrival = self.link.arrival(now)?;
            if !self.times.cover(arrival.at) {
                return Some(arrival);
            }
            self.swallowed[arrival.direction.index()] += 1;
        }
    }

    fn losses(&self, direction: Direction) -> Losses {
        let prescribed = self.swallowed[direction.index()];
        self.link.losses(direction) + Losses { prescribed, ..Losses::default() }
    }

    /// Those that nobody heard count as well.
    fn corrupted(&self, direction: Direction) -> u64 {
        self.link.corrupted(direction)
    }

    /// As [`corrupted`](Link::corrupted).
    fn marked(&self, direction: Direction) -> u64 {
        self.link.marked(direction)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compose::Duplex;
    use crate::pipe::{PipeConfig, Schedule};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn what_would_arrive_meanwhile_is_lost_and_counted_and_nothing_else() {
        let delay = Schedule::constant(MS(10));
        let config = PipeConfig { delay, ..PipeConfig::default() };
        let times = Pauses::new([(MS(100), MS(50))]).unwrap();
        let duplex = Duplex::new(&config, &config, 1).unwrap();
        let mut link = Deaf::new(Box::new(duplex), times);
        let mut arrived = Vec::new();
        for (direction, sent) in [
            (Direction::Forward, 89),
            (Direction::Forward, 90),
            (Direction::Reverse, 139),
            (Direction::Forward, 139),
            (Direction::Forward, 140),
        ] {
            let sent = Time::from(MS(sent));
            let packet = Packet::new(100, 0, sent, Vec::new());
            link.send(direction, packet, sent);
            while let Some(arrival) = link.next_event().and_then(|at| link.arrival(at)) {
                arrived.push(arrival.at.as_nanos() / 1_000_000);
            }
        }
        assert_eq!(arrived, [99, 150]);
        assert_eq!(link.losses(Direction::Forward).prescribed, 2);
        assert_eq!(link.losses(Direction::Reverse).prescribed, 1);
        assert_eq!(link.losses(Direction::Reverse).total(), 1);
    }
}
