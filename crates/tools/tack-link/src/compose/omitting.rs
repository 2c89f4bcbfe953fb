//! A link that loses certain packets.

use super::BoxedLink;
use crate::{Arrival, Direction, Link, Losses, Packet, Time};

/// A link that loses packets by their place: the second to the seventh in reverse, say.
pub struct Omitting {
    link: BoxedLink,
    direction: Direction,
    /// Places among the packets that are sent in that direction, the first being 1.
    places: Vec<u64>,
    sent: u64,
    omitted: u64,
}

impl Omitting {
    /// The link, and the places of what it loses among all that is sent in `direction`, the first
    /// being 1.
    pub fn new(
        link: BoxedLink,
        direction: Direction,
        places: impl IntoIterator<Item = u64>,
    ) -> Self {
        Self { link, direction, places: places.into_iter().collect(), sent: 0, omitted: 0 }
    }
}

impl Link for Omitting {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        if direction == self.direction {
            self.sent += 1;
            if self.places.contains(&self.sent) {
                self.omitted += 1;
                return;
            }
        }
        self.link.send(direction, packet, now);
    }

    fn next_event(&self) -> Option<Time> {
        self.link.next_event()
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        self.link.arrival(now)
    }

    fn losses(&self, direction: Direction) -> Losses {
        let prescribed = if direction == self.direction { self.omitted } else { 0 };
        self.link.losses(direction) + Losses { prescribed, ..Losses::default() }
    }

    fn corrupted(&self, direction: Direction) -> u64 {
        self.link.corrupted(direction)
    }

    fn marked(&self, direction: Direction) -> u64 {
        self.link.marked(direction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::Duplex;
    use crate::pipe::PipeConfig;

    #[test]
    fn the_listed_packets_of_one_direction_are_lost_and_no_others() {
        let wire = PipeConfig::default();
        let duplex = Duplex::new(&wire, &wire, 1).unwrap();
        let mut link = Omitting::new(Box::new(duplex), Direction::Reverse, [2, 3, 9]);
        for flow in 1..=5 {
            for direction in Direction::ALL {
                let packet = Packet::new(100, flow, Time::ZERO, Vec::new());
                link.send(direction, packet, Time::ZERO);
            }
        }
        let arrived: Vec<_> = std::iter::from_fn(|| link.arrival(Time::ZERO)).collect();
        let of = |direction| {
            let arrived = arrived.iter().filter(move |arrival| arrival.direction == direction);
            arrived.map(|arrival| arrival.packet.flow).collect::<Vec<_>>()
        };
        assert_eq!(of(Direction::Forward), [1, 2, 3, 4, 5]);
        assert_eq!(of(Direction::Reverse), [1, 4, 5]);
        assert_eq!(link.losses(Direction::Reverse).prescribed, 2);
        assert_eq!(link.losses(Direction::Forward).total(), 0);
    }
}
