//! A link with black holes in time.

use super::{BoxedLink, Pauses};
use crate::{Arrival, Direction, Link, Losses, Packet, Time};

/// A link whose ends hear nothing at times: what would arrive meanwhile is lost, both ways or one, though
/// the link itself goes on. With [`Paused`](super::Paused) the same packets would come later.
pub struct Deaf {
    link: BoxedLink,
    times: Pauses,
    /// The only one that is lost, if there is one.
    only: Option<Direction>,
    /// In the order of [`Direction::index`].
    swallowed: [u64; 2],
}

impl Deaf {
    /// The link, and when nothing comes out of it.
    pub const fn new(link: BoxedLink, times: Pauses) -> Self {
        Self { link, times, only: None, swallowed: [0; 2] }
    }

    /// The link, and when nothing of that direction comes out of it; what goes the other way does.
    pub const fn one_way(link: BoxedLink, direction: Direction, times: Pauses) -> Self {
        Self { link, times, only: Some(direction), swallowed: [0; 2] }
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
            let is_heard = self.only.is_some_and(|only| only != arrival.direction);
            if is_heard || !self.times.cover(arrival.at) {
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
        assert_eq!(arrivals(Deaf::new), ([99, 150].to_vec(), [2, 1]));
    }

    #[test]
    fn one_direction_can_be_lost_alone() {
        let reverse = |link, times| Deaf::one_way(link, Direction::Reverse, times);
        assert_eq!(arrivals(reverse), ([99, 100, 149, 150].to_vec(), [0, 1]));
    }

    /// When packets arrive, in ms, over a link that is deaf from 100 to 150 ms, and how many of each direction do not.
    fn arrivals(deaf: impl FnOnce(BoxedLink, Pauses) -> Deaf) -> (Vec<u64>, [u64; 2]) {
        let delay = Schedule::constant(MS(10));
        let config = PipeConfig { delay, ..PipeConfig::default() };
        let times = Pauses::new([(MS(100), MS(50))]).unwrap();
        let duplex = Duplex::new(&config, &config, 1).unwrap();
        let mut link = deaf(Box::new(duplex), times);
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
        let losses = [Direction::Forward, Direction::Reverse].map(|way| link.losses(way));
        assert_eq!(losses.map(|lost| lost.total()), losses.map(|lost| lost.prescribed));
        (arrived, losses.map(|lost| lost.prescribed))
    }
}
