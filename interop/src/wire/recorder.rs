//! Keeps what passes the relay. The key log is complete only afterwards.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tack_emulator::relay::{Datagram, Observer};
use tack_tap::Direction;

/// What is kept of a datagram that arrived: the longest connection id, the byte before it, and behind
/// it enough to know the packet again.
const HEAD: usize = 1 + 20 + 16;
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

impl Event {
    /// When it happened.
    pub const fn at(&self) -> Duration {
        match self {
            Self::Sent(passage) | Self::Arrived(passage) => passage.at,
        }
    }
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
    /// It came out of the link.
    pub arrived: bool,
}

/// Records every datagram.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    record: Vec<Event>,
    /// Places in the record of what is still on its way, to the server and to the client.
    under_way: [VecDeque<usize>; 2],
}

impl Recorder {
    /// An empty record that begins now.
    pub fn new() -> Self {
        Self { start: Instant::now(), record: Vec::new(), under_way: Default::default() }
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
        Passage { at, direction, flow, server, path, len, bytes, arrived: false }
    }

    /// Finds what arrives among what is on its way: links keep the order. A bit may be flipped.
    fn note_arrival(&mut self, seen: &Datagram<'_>) {
        let Self { record, under_way, .. } = self;
        let under_way = &mut under_way[seen.direction.index()];
        let is_same = |place: &usize| {
            let Event::Sent(sent) = &record[*place] else { return false };
            (sent.server, sent.flow, sent.len) == (seen.server, seen.flow, seen.bytes.len())
                && differing_bits(&sent.bytes, seen.bytes) <= 1
        };
        let Some(found) = under_way.iter().position(is_same) else { return };
        // What was before it is lost.
        under_way.drain(..found);
        if let Some(Event::Sent(sent)) = under_way.pop_front().map(|place| &mut record[place]) {
            sent.arrived = true;
        }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Recorder {
    fn datagram(&mut self, seen: &Datagram<'_>) {
        self.under_way[seen.direction.index()].push_back(self.record.len());
        self.record.push(Event::Sent(self.passage(seen, usize::MAX)));
    }

    fn delivered(&mut self, seen: &Datagram<'_>) {
        self.note_arrival(seen);
        if seen.direction == tack_link::Direction::Reverse {
            let is_long = seen.bytes.first().is_some_and(|first| first & LONG_HEADER != 0);
            let kept = if is_long { usize::MAX } else { HEAD };
            self.record.push(Event::Arrived(self.passage(seen, kept)));
        }
    }
}

fn differing_bits(one: &[u8], other: &[u8]) -> u32 {
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_out_of_the_link_is_told_from_what_did_not() {
        let seen = |bytes| Datagram {
            direction: tack_link::Direction::Reverse,
            flow: 0,
            server: 0,
            path: 0,
            bytes,
        };
        let mut recorder = Recorder::new();
        let sent = [[1, 9], [2, 9], [3, 9], [4, 9]];
        for bytes in &sent {
            recorder.datagram(&seen(bytes));
        }
        recorder.delivered(&seen(&[2, 9]));
        recorder.delivered(&seen(&[4, 8])); // a bit of it was flipped
        let record = recorder.into_record();
        let arrived: Vec<_> = record
            .iter()
            .filter_map(|event| match event {
                Event::Sent(sent) => Some(sent.arrived),
                Event::Arrived(_) => None,
            })
            .collect();
        assert_eq!(arrived, [false, true, false, true]);
        assert_eq!(record.len(), 6);
    }
}
