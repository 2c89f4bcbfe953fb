//! Keeps what passes the relay. The key log is complete only afterwards.

use std::time::{Duration, Instant};

use tack_emulator::relay::Observer;
use tack_tap::Direction;

/// A datagram as its sender sent it, whatever the link made of it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Since the recorder was made.
    pub at: Duration,
    /// Which way it went.
    pub direction: Direction,
    /// Its UDP payload.
    pub bytes: Vec<u8>,
}

/// Records every datagram.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    record: Vec<Sent>,
}

impl Recorder {
    /// An empty record that begins now.
    pub fn new() -> Self {
        Self { start: Instant::now(), record: Vec::new() }
    }

    /// What was recorded.
    pub fn into_record(self) -> Vec<Sent> {
        self.record
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Recorder {
    fn datagram(&mut self, direction: tack_link::Direction, bytes: &[u8]) {
        let direction = match direction {
            tack_link::Direction::Forward => Direction::ToClient,
            tack_link::Direction::Reverse => Direction::ToServer,
        };
        self.record.push(Sent { at: self.start.elapsed(), direction, bytes: bytes.to_vec() });
    }
}
