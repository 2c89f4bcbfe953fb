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
}

/// Packets that a link took and did not deliver, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// A queue was full.
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
