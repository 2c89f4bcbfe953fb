//! Records the datagrams that pass the relay. The key log is complete only afterwards.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use tack_emulator::relay::{Datagram, Observer};
use tack_link::Ecn;
use tack_tap::Direction;

/// The bytes that are kept of a datagram that arrived: the longest connection id, the byte before
/// it, and behind it enough to recognise the packet.
const HEAD: usize = 1 + 20 + 16;
const LONG_HEADER: u8 = 0x80;
/// A datagram that arrives with a flipped bit is looked for among so many that were sent last.
const SEARCHED: usize = 4096;

/// Something that happened between the ends.
#[derive(Clone, Debug)]
pub enum Event {
    /// An end sent a datagram.
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
    /// Time since the record began.
    pub at: Duration,
    /// Which way it went.
    pub direction: Direction,
    /// Number of the client.
    pub flow: u32,
    /// Number of the server.
    pub server: u32,
    /// How many addresses the client had before, as the server knows it.
    pub path: u32,
    /// The ECN field of its IP header, as it was sent or arrived.
    pub ecn: Ecn,
    /// Length of its UDP payload.
    pub len: usize,
    /// Its UDP payload.
    pub bytes: Vec<u8>,
    /// It came out of the link.
    pub arrived: bool,
}

/// What the link did to the order of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disorder {
    /// Datagrams that arrived again.
    pub duplicates: u64,
    /// Datagrams that arrived behind one that was sent later.
    pub overtaken: u64,
}

/// Records every datagram.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    record: Vec<Event>,
    /// In the order of [`tack_link::Direction::index`].
    lanes: [Lane; 2],
    disorder: Disorder,
}

/// What was sent in one direction.
#[derive(Debug, Default)]
struct Lane {
    /// Places in the record.
    sent: Vec<usize>,
    /// Those places, by server, flow and a hash of the datagram.
    by_content: HashMap<(u32, u32, u64), usize>,
    /// The latest place that has arrived.
    latest: Option<usize>,
}

impl Recorder {
    /// An empty record that begins now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            record: Vec::new(),
            lanes: Default::default(),
            disorder: Disorder::default(),
        }
    }

    /// What the link did to the order of datagrams.
    pub const fn disorder(&self) -> Disorder {
        self.disorder
    }

    /// Returns the record.
    pub fn into_record(self) -> Vec<Event> {
        self.record
    }

    fn passage(&self, seen: &Datagram<'_>, kept: usize) -> Passage {
        let Datagram { direction, flow, server, path, ecn, bytes } = *seen;
        let direction = match direction {
            tack_link::Direction::Forward => Direction::ToClient,
            tack_link::Direction::Reverse => Direction::ToServer,
        };
        let (at, len) = (self.start.elapsed(), bytes.len());
        let bytes = bytes[..len.min(kept)].to_vec();
        Passage { at, direction, flow, server, path, ecn, len, bytes, arrived: false }
    }

    fn note_arrival(&mut self, seen: &Datagram<'_>) {
        let lane = &self.lanes[seen.direction.index()];
        let unchanged = lane.by_content.get(&content(seen)).copied();
        let Some(place) = unchanged.or_else(|| self.with_a_flipped_bit(seen)) else { return };
        let Event::Sent(sent) = &mut self.record[place] else { return };
        let lane = &mut self.lanes[seen.direction.index()];
        self.disorder.duplicates += u64::from(sent.arrived);
        self.disorder.overtaken +=
            u64::from(!sent.arrived && lane.latest.is_some_and(|latest| latest > place));
        sent.arrived = true;
        lane.latest = lane.latest.max(Some(place));
    }

    /// The datagram that arrives with one bit flipped.
    fn with_a_flipped_bit(&self, seen: &Datagram<'_>) -> Option<usize> {
        let is_it = |place: &usize| {
            let Event::Sent(sent) = &self.record[*place] else { return false };
            !sent.arrived
                && (sent.server, sent.flow, sent.len)
                    == (seen.server, seen.flow, seen.bytes.len())
                && differing_bits(&sent.bytes, seen.bytes) == 1
        };
        let sent = &self.lanes[seen.direction.index()].sent;
        sent.iter().rev().take(SEARCHED).copied().find(is_it)
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Recorder {
    fn datagram(&mut self, seen: &Datagram<'_>) {
        let place = self.record.len();
        let lane = &mut self.lanes[seen.direction.index()];
        lane.sent.push(place);
        lane.by_content.insert(content(seen), place);
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

fn content(seen: &Datagram<'_>) -> (u32, u32, u64) {
    let mut hasher = DefaultHasher::new();
    seen.bytes.hash(&mut hasher);
    (seen.server, seen.flow, hasher.finish())
}

fn differing_bits(one: &[u8], other: &[u8]) -> u32 {
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bytes: &[u8]) -> Datagram<'_> {
        let direction = tack_link::Direction::Reverse;
        Datagram { direction, flow: 0, server: 0, path: 0, ecn: Ecn::NotEct, bytes }
    }

    /// A recorder of four datagrams that were sent, and which of them have arrived after these.
    fn arrived(deliveries: &[[u8; 2]]) -> (Vec<bool>, Disorder) {
        let mut recorder = Recorder::new();
        for byte in 1..=4 {
            recorder.datagram(&seen(&[byte, 9]));
        }
        for bytes in deliveries {
            recorder.delivered(&seen(bytes));
        }
        let disorder = recorder.disorder();
        let record = recorder.into_record();
        assert_eq!(record.len(), 4 + deliveries.len());
        let arrived = record.iter().filter_map(|event| match event {
            Event::Sent(sent) => Some(sent.arrived),
            Event::Arrived(_) => None,
        });
        (arrived.collect(), disorder)
    }

    #[test]
    fn what_came_out_of_the_link_is_told_from_what_did_not() {
        let (arrived, disorder) = arrived(&[[2, 9], [4, 8]]); // a bit of the fourth was flipped
        assert_eq!(arrived, [false, true, false, true]);
        assert_eq!(disorder, Disorder::default());
    }

    #[test]
    fn datagrams_that_were_overtaken_have_arrived_and_duplicates_are_counted() {
        let (arrived, disorder) = arrived(&[[2, 9], [1, 9], [4, 9], [4, 9]]);
        assert_eq!(arrived, [true, true, false, true]);
        assert_eq!(disorder, Disorder { duplicates: 1, overtaken: 1 });
    }
}
