//! A link that loses what is larger than it carries.

use tack_link::compose::BoxedLink;
use tack_link::{Arrival, Direction, Link, Losses, Packet, Time};

/// A link with a maximum size of packets. It tells the sender nothing, as a path whose ICMP
/// messages are filtered.
pub struct Narrow {
    link: BoxedLink,
    largest: u32,
    /// In the order of [`Direction::index`].
    dropped: [u64; 2],
}

impl Narrow {
    /// The link, for IP packets of up to that size.
    pub const fn new(link: BoxedLink, largest: u32) -> Self {
        Self { link, largest, dropped: [0; 2] }
    }
}

impl Link for Narrow {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        if packet.size > self.largest {
            self.dropped[direction.index()] += 1;
        } else {
            self.link.send(direction, packet, now);
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.link.next_event()
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        self.link.arrival(now)
    }

    fn losses(&self, direction: Direction) -> Losses {
        let prescribed = self.dropped[direction.index()];
        self.link.losses(direction) + Losses { prescribed, ..Losses::default() }
    }

    fn corrupted(&self, direction: Direction) -> u64 {
        self.link.corrupted(direction)
    }

    fn marked(&self, direction: Direction) -> u64 {
        self.link.marked(direction)
    }
}
