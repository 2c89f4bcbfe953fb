//! Keeps what passes the relay. The key log is complete only afterwards.

use std::time::{Duration, Instant};

use tack_emulator::relay::{Datagram, Observer};
use tack_tap::Direction;

/// What is kept of a datagram that arrived: the longest connection id and the byte before it.
const HEAD: usize = 1 + 20;
const LONG_HEADER: u8 = 0x80;

/// Something that happened between the ends.
#[derive(Clone, Debug)]
pub enum Event {
    /// An end sent a datagram, whatever the link made of it.
    Sent(Passage),
    /// A datagram was handed to the server, as the link left it. Only of those with a long header
    /// all bytes are kept.
    Arrived(Passage),
}

/// A datagram, and where it was when.
#[derive(Clone, Debug)]
pub struct Passage {
    /// Since the recorder was made.
    pub at: Duration,
    /// Which way it went.
    pub direction: Direction,
    /// Number of the client.
    pub flow: u32,
    /// Number of the server.
    pub server: u32,
    /// How many addresses the client had before, as the server knows it.
    pub path: u32,
    /// Length of its UDP payload.
    pub len: usize,
    /// Its UDP payload.
    pub bytes: Vec<u8>,
}

/// Records every datagram.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    record: Vec<Event>,
}

impl Recorder {
    /// An empty record that begins now.
    pub fn new() -> Self {
        Self { start: Instant::now(), record: Vec::new() }
    }

    /// What was recorded.
    pub fn into_record(self) -> Vec<Event> {
        self.record
    }

    fn passage(&self, seen: &Datagram<'_>, kept: usize) -> Passage {
        let Datagram { direction, flow, server, path, bytes } = *seen;
        let direction = match direction {
            tack_link::Direction::Forward => Direction::ToClient,
            tack_link::Direction::Reverse => Direction::ToServer,
        };
        let (at, len) = (self.start.elapsed(), bytes.len());
        let bytes = bytes[..len.min(kept)].to_vec();
        Passage { at, direction, flow, server, path, len, bytes }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Recorder {
    fn datagram(&mut self, seen: &Datagram<'_>) {
        self.record.push(Event::Sent(self.passage(seen, usize::MAX)));
    }

    fn delivered(&mut self, seen: &Datagram<'_>) {
        if seen.direction == tack_link::Direction::Reverse {
            let is_long = seen.bytes.first().is_some_and(|first| first & LONG_HEADER != 0);
            let kept = if is_long { usize::MAX } else { HEAD };
            self.record.push(Event::Arrived(self.passage(seen, kept)));
        }
    }
}
