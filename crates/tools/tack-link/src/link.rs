//! What all links have in common.

use serde::{Deserialize, Serialize};

use crate::Time;

/// Which way a packet goes over a link.
///
/// The lab sends data forward and acknowledgements in reverse. On a Wi-Fi link the sender of
/// forward packets is the access point, unless the link is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the first end of the link to the second.
    Forward,
    /// From the second end to the first.
    Reverse,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Forward, Self::Reverse];

    /// The other one.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }

    /// A place in an array with one element for each direction.
    pub const fn index(self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Reverse => 1,
        }
    }
}

/// Something that a link carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Length of the IP packet in bytes: what counts for rates and queues.
    pub size: u32,
    /// Whose packet it is, for links that treat flows differently, and for whoever sent it.
    pub flow: u32,
    /// When it was sent. Links leave it as it is, so the delay is known on arrival.
    pub sent: Time,
    /// What it carries. May be empty where only sizes matter; links that corrupt packets flip
    /// bits in it.
    pub bytes: Vec<u8>,
    /// The ECN field of its IP header, which queues may set to [`Ecn::Ce`].
    pub ecn: Ecn,
}

impl Packet {
    /// A packet of a sender that does not use ECN.
    pub const fn new(size: u32, flow: u32, sent: Time, bytes: Vec<u8>) -> Self {
        Self { size, flow, sent, bytes, ecn: Ecn::NotEct }
    }

    /// The same packet with this ECN field.
    #[must_use]
    pub fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }
}

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ecn {
    /// `00`: the sender does not use ECN.
    #[default]
    NotEct,
    /// `01`: the sender asks for the treatment of L4S (RFC 9331 section 4.1).
    Ect1,
    /// `10`: the sender takes a mark for a loss (RFC 3168 section 5).
    Ect0,
    /// `11`: congestion experienced.
    Ce,
}

impl Ecn {
    /// The field of these two bits; higher bits do not count, so a whole traffic class octet of
    /// an IP header will do.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits of the field.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    /// Whether a queue may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Whether a DualQ takes the packet for L4S traffic: ECT(1) and CE (RFC 9331 section 5.1).
    pub const fn is_l4s(self) -> bool {
        matches!(self, Self::Ect1 | Self::Ce)
    }
}

/// A packet at the end of its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it came out of the link; not later than the time that was asked about.
    pub at: Time,
    /// Which way it went.
    pub direction: Direction,
    /// The packet.
    pub packet: Packet,
}

/// A link, or several behind each other.
///
/// The driver's loop: [`send`](Link::send) what the ends have to send, wait until
/// [`next_event`](Link::next_event), take all [`arrivals`](Link::arrival), start again. Time
/// never runs backwards from one call to the next.
pub trait Link {
    /// Puts a packet on the link. It may be lost at once, without a word, as on any link.
    fn send(&mut self, direction: Direction, packet: Packet, now: Time);

    /// When [`arrival`](Link::arrival) has to be called next: something arrives then, or the
    /// state of the link changes. `None`: not before the next packet is sent.
    fn next_event(&self) -> Option<Time>;

    /// The next packet that arrives at `now` or before, in order of arrival; `None` when there
    /// is no more, and then [`next_event`](Link::next_event) lies after `now`.
    fn arrival(&mut self, now: Time) -> Option<Arrival>;

    /// What was lost on the link so far in one direction.
    fn losses(&self, direction: Direction) -> Losses;

    /// How many packets it delivered, or will deliver, with a bit flipped.
    fn corrupted(&self, direction: Direction) -> u64;

    /// How many packets it set to [`Ecn::Ce`] so far in one direction. Those that had it before
    /// do not count.
    fn marked(&self, _: Direction) -> u64 {
        0
    }
}

impl<L: Link + ?Sized> Link for Box<L> {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        (**self).send(direction, packet, now);
    }

    fn next_event(&self) -> Option<Time> {
        (**self).next_event()
    }

    fn arrival(&mut self, now: Time) -> Option<Arrival> {
        (**self).arrival(now)
    }

    fn losses(&self, direction: Direction) -> Losses {
        (**self).losses(direction)
    }

    fn corrupted(&self, direction: Direction) -> u64 {
        (**self).corrupted(direction)
    }

    fn marked(&self, direction: Direction) -> u64 {
        (**self).marked(direction)
    }
}

/// Packets that a link took and did not deliver, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// A queue was full, or its AQM dropped the packet.
    pub queue: u64,
    /// Lost at random, as configured.
    pub random: u64,
    /// Given up after the last retry of the radio.
    pub retries: u64,
    /// Swallowed because the link was told to: these packets, or at this time.
    #[serde(default)]
    pub prescribed: u64,
}

impl Losses {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.queue + self.random + self.retries + self.prescribed
    }
}

impl std::ops::Add for Losses {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            queue: self.queue + other.queue,
            random: self.random + other.random,
            retries: self.retries + other.retries,
            prescribed: self.prescribed + other.prescribed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ecn_field_is_the_low_bits_of_the_traffic_class() {
        for (bits, ecn) in (0..).zip([Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]) {
            assert_eq!((Ecn::from_bits(bits), ecn.bits()), (ecn, bits));
            assert_eq!(Ecn::from_bits(0b1011_1000 | bits), ecn, "with a DSCP");
        }
    }

    #[test]
    fn a_packet_does_not_use_ecn_unless_told_to() {
        let packet = Packet::new(100, 0, Time::ZERO, Vec::new());
        assert_eq!(packet.ecn, Ecn::default());
        assert_eq!(packet.with_ecn(Ecn::Ect1).ecn, Ecn::Ect1);
    }
}
