//! Receive-buffer bubbles (RBBs): the stream bytes that are missing in front of
//! bytes that have arrived (section VI-B of the paper).
//!
//! Packet numbers say which packets arrived, and a range of them can be
//! forgotten after some TACKs; bubbles say what the application still waits
//! for, however long ago the rest came.
//!
//! What a hostile peer can make this record store is bounded. Where a bound is
//! reached the *highest* blocks of a stream, or streams that came last, are not
//! recorded. The sender then learns less from the bubbles, and what it learns
//! stays true of every byte below the last of them: a bubble may come out too
//! long, and a sender never takes a bubble alone for a loss.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Instant;

use crate::frame::Stream;

/// Streams followed at a time (TACK-9-3).
const MAX_STREAMS: usize = 1024;

/// Blocks of all streams, some 200 KiB of memory. A TACK of 1,400 bytes lists
/// about 350 bubbles.
const MAX_BLOCKS: usize = 4096;

/// Finished streams remembered, so that a repetition that comes late does not
/// open their record again. One that is forgotten shows as a bubble that the
/// sender has no use for.
const MAX_FINISHED: usize = 256;

/// Received bytes with a bubble in front of them.
#[derive(Clone, Copy, Debug)]
struct Block {
    end: u64,
    /// The packet that made the bubble known: it is not filled by what was sent
    /// before that packet and has arrived.
    revealed_by: Packet,
}

/// A packet and when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Packet number.
    pub number: u64,
    /// Its arrival.
    pub arrival: Instant,
}

#[derive(Debug, Default)]
struct Record {
    /// Everything below has arrived: what the application can read, or has.
    in_order: u64,
    /// Blocks behind bubbles, by their first byte: disjoint, none touching
    /// another or `in_order`.
    blocks: BTreeMap<u64, Block>,
    /// The stream's length, once it is known.
    length: Option<u64>,
}

/// What has arrived of each stream.
#[derive(Debug, Default)]
pub struct ReceiveBuffer {
    streams: BTreeMap<u64, Record>,
    /// Blocks of all streams together.
    blocks: usize,
    finished: VecDeque<u64>,
    /// The stream to list first, so that each has its turn where a TACK cannot
    /// hold the bubbles of all.
    first_listed: u64,
}

impl ReceiveBuffer {
    /// Packet `packet` has brought `frame`. O(log n) in streams and blocks; data
    /// in order allocates nothing but the record of a new stream.
    pub fn on_stream(&mut self, packet: Packet, frame: &Stream) {
        let data = frame.data();
        let id = frame.stream_id;
        let Some(record) = self.streams.get_mut(&id) else {
            let whole = frame.fin && data.start == 0;
            if whole {
                self.remember_finished(id);
            } else if self.streams.len() < MAX_STREAMS && !self.finished.contains(&id) {
                self.streams.insert(id, Record::default());
                self.on_stream(packet, frame);
            }
            return;
        };
        if frame.fin {
            record.length = Some(data.end);
        }
        if data.start <= record.in_order {
            record.in_order = record.in_order.max(data.end);
            self.blocks -= record.absorb_blocks();
        } else if !data.is_empty() {
            let before = record.blocks.len();
            record.insert_block(data, packet);
            self.blocks = self.blocks + record.blocks.len() - before;
            if self.blocks > MAX_BLOCKS {
                record.blocks.pop_last();
                self.blocks -= 1;
            }
        }
        if record.length.is_some_and(|length| record.in_order >= length) {
            self.forget(id);
        }
    }

    /// Whether the stream is in the record, or was.
    pub fn knows(&self, stream_id: u64) -> bool {
        self.streams.contains_key(&stream_id) || self.finished.contains(&stream_id)
    }

    /// The peer has given the stream up: nothing of it is missing any more.
    pub fn on_reset(&mut self, stream_id: u64) {
        self.forget(stream_id);
    }

    /// Stream and missing bytes of each bubble (TACK-4.5-2), lowest offset first, stream by
    /// stream. Of each stream they end where a packet numbered `young` or above
    /// has revealed one: that may still be reordering, and what lies behind it
    /// cannot be listed without it.
    pub fn bubbles(
        &self,
        young: u64,
    ) -> impl Iterator<Item = (u64, Range<u64>)> + Clone + use<'_> {
        self.in_turn().flat_map(move |(id, record)| {
            record
                .bubbles()
                .take_while(move |(_, revealed_by)| revealed_by.number < young)
                .map(move |(missing, _)| (id, missing))
        })
    }

    /// The first `listed` of [`Self::bubbles`] have been reported: where those were
    /// not all, another stream begins the next time.
    pub fn on_listed(&mut self, listed: usize, young: u64) {
        let streams = || self.bubbles(young).map(|(id, _)| id);
        let next = match (streams().next(), streams().nth(listed)) {
            // One stream has filled the TACK: it will find the same bubbles first.
            (Some(first), Some(left_out)) if left_out == first => first.saturating_add(1),
            (_, Some(left_out)) => left_out,
            (_, None) => return,
        };
        self.first_listed = next;
    }

    /// The packet that revealed the last of the first `count` bubbles, or of as
    /// many as there are; `None` without any.
    pub fn revealer(&self, count: usize) -> Option<Packet> {
        let bubbles = self.streams.values().flat_map(Record::bubbles);
        bubbles
            .take(count)
            .map(|(_, revealed_by)| revealed_by)
            .max_by_key(|packet| packet.number)
    }

    /// The streams that have bubbles, beginning with the one whose turn it is.
    fn in_turn(&self) -> impl Iterator<Item = (u64, &Record)> + Clone {
        let first = self.streams.range(self.first_listed..);
        let then = self.streams.range(..self.first_listed);
        first.chain(then).map(|(&id, record)| (id, record))
    }

    fn forget(&mut self, id: u64) {
        if let Some(record) = self.streams.remove(&id) {
            self.blocks -= record.blocks.len();
            self.remember_finished(id);
        }
    }

    fn remember_finished(&mut self, id: u64) {
        if self.finished.len() == MAX_FINISHED {
            self.finished.pop_front();
        }
        self.finished.push_back(id);
    }
}

impl Record {
    fn bubbles(&self) -> impl Iterator<Item = (Range<u64>, Packet)> + Clone + use<'_> {
        self.blocks.iter().scan(self.in_order, |received, (&start, block)| {
            let missing = *received..start;
            *received = block.end;
            Some((missing, block.revealed_by))
        })
    }

    /// Joins blocks that the bytes in order have reached; returns how many.
    fn absorb_blocks(&mut self) -> usize {
        let mut absorbed = 0;
        while let Some(first) = self.blocks.first_entry()
            && *first.key() <= self.in_order
        {
            self.in_order = self.in_order.max(first.remove().end);
            absorbed += 1;
        }
        absorbed
    }

    /// Adds bytes above `in_order`, which stay apart from it.
    fn insert_block(&mut self, data: Range<u64>, packet: Packet) {
        let Range { mut start, mut end } = data;
        if let Some((&first, before)) = self.blocks.range(..=start).next_back()
            && before.end >= start
        {
            if before.end >= end {
                return;
            }
            start = first;
        }
        // Every block in reach is joined: one removal for each insertion before, whatever a
        // frame spans. The bubble in front is that of the lowest.
        let mut revealed_by = None;
        while let Some((&next, block)) = self.blocks.range(start..).next()
            && next <= end
        {
            end = end.max(block.end);
            revealed_by.get_or_insert(block.revealed_by);
            self.blocks.remove(&next);
        }
        // A block in the middle of a bubble leaves two that are as old as it was.
        let revealed_by =
            revealed_by.unwrap_or_else(|| match self.blocks.range(end..).next() {
                Some((_, next)) if next.revealed_by.number < packet.number => next.revealed_by,
                _ => packet,
            });
        self.blocks.insert(start, Block { end, revealed_by });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn data(stream_id: u64, data: Range<u64>) -> Stream {
        Stream { stream_id, offset: data.start, len: data.end - data.start, fin: false }
    }

    fn last(stream_id: u64, bytes: Range<u64>) -> Stream {
        Stream { fin: true, ..data(stream_id, bytes) }
    }

    /// Receives frames, one in each packet, numbered from 0.
    fn received(frames: &[Stream]) -> ReceiveBuffer {
        let mut buffer = ReceiveBuffer::default();
        for (number, frame) in frames.iter().enumerate() {
            buffer.on_stream(packet(number as u64), frame);
        }
        buffer
    }

    fn packet(number: u64) -> Packet {
        Packet { number, arrival: crate::test_clock() }
    }

    fn all(buffer: &ReceiveBuffer) -> Vec<(u64, Range<u64>)> {
        buffer.bubbles(u64::MAX).collect()
    }

    #[test]
    fn bytes_missing_in_front_of_received_ones_are_a_bubble_until_they_come() {
        let mut buffer = received(&[data(0, 0..10), data(0, 20..30), data(0, 50..60)]);
        assert_eq!(all(&buffer), [(0, 10..20), (0, 30..50)]);
        buffer.on_stream(packet(3), &data(0, 10..20));
        assert_eq!(all(&buffer), [(0, 30..50)]);
        buffer.on_stream(packet(4), &data(0, 25..55));
        assert_eq!(all(&buffer), []);
        assert_eq!(buffer.blocks, 0);
    }

    #[test]
    fn bubbles_end_where_one_may_still_be_reordering() {
        let mut buffer = received(&[data(0, 0..10), data(0, 20..30), data(0, 40..50)]);
        assert_eq!(buffer.bubbles(2).collect::<Vec<_>>(), [(0, 10..20)]);
        assert_eq!(buffer.bubbles(1).count(), 0);
        // What is left of a bubble is as old as the bubble was.
        buffer.on_stream(packet(9), &data(0, 14..16));
        assert_eq!(buffer.bubbles(2).collect::<Vec<_>>(), [(0, 10..14), (0, 16..20)]);
    }

    #[test]
    fn finished_and_reset_streams_vanish_and_stay_away() {
        let mut buffer = received(&[last(0, 5..10), data(4, 5..10), data(0, 0..5)]);
        assert_eq!(all(&buffer), [(4, 0..5)]);
        buffer.on_reset(4);
        buffer.on_stream(packet(3), &last(8, 0..3));
        // Repetitions that were not needed.
        buffer.on_stream(packet(4), &data(0, 5..10));
        buffer.on_stream(packet(5), &data(4, 5..10));
        buffer.on_stream(packet(6), &data(8, 1..2));
        assert_eq!(all(&buffer), []);
        assert!(buffer.streams.is_empty());
        assert_eq!(buffer.blocks, 0);
    }

    #[test]
    fn streams_take_turns_where_not_all_bubbles_fit() {
        let frames: Vec<_> =
            [0, 4, 8].into_iter().flat_map(|id| [data(id, 2..3), data(id, 5..6)]).collect();
        let mut buffer = received(&frames);
        let mut reported = BTreeSet::new();
        for fits in [3, 1, 1, 1, 1] {
            reported.extend(buffer.bubbles(u64::MAX).take(fits).map(|(id, _)| id));
            buffer.on_listed(fits, u64::MAX);
        }
        assert_eq!(reported, BTreeSet::from([0, 4, 8]));
        buffer.first_listed = 4;
        buffer.on_listed(6, u64::MAX);
        assert_eq!(buffer.first_listed, 4, "all were reported");
    }

    #[test]
    fn the_revealer_of_the_oldest_bubble_is_the_packet_right_behind_it() {
        let buffer =
            received(&[data(0, 0..10), data(0, 20..30), data(0, 30..40), data(0, 50..60)]);
        assert_eq!(buffer.revealer(1).map(|packet| packet.number), Some(1));
        assert_eq!(buffer.revealer(9).map(|packet| packet.number), Some(3));
        assert_eq!(received(&[data(0, 0..10)]).revealer(1), None);
    }

    #[test]
    fn a_peer_that_leaves_holes_without_end_is_recorded_up_to_the_bounds() {
        let mut buffer = ReceiveBuffer::default();
        for at in 0..100_000 {
            buffer.on_stream(packet(at), &data(0, at * 2 + 1..at * 2 + 2));
        }
        assert_eq!(buffer.blocks, MAX_BLOCKS);
        assert_eq!(all(&buffer).first(), Some(&(0, 0..1)), "the highest are left out");
        for id in 1..100_000 {
            buffer.on_stream(packet(id), &data(id * 4, 1..2));
        }
        assert!(buffer.streams.len() <= MAX_STREAMS);
        assert_eq!(buffer.blocks, MAX_BLOCKS);
        // What has been recorded is still filled.
        buffer.on_stream(packet(0), &data(0, 0..1));
        assert_eq!(all(&buffer).first(), Some(&(0, 2..3)));
        for id in 0..100_000 {
            buffer.on_reset(id * 4);
        }
        assert_eq!((buffer.blocks, buffer.streams.len()), (0, 0));
        assert!(buffer.finished.len() <= MAX_FINISHED);
    }

    proptest! {
        #[test]
        fn bubbles_are_what_a_set_of_bytes_lacks_below_its_highest(
            frames in proptest::collection::vec((0u64..2, 0u64..120, 0u64..25), 0..80)
        ) {
            let mut buffer = ReceiveBuffer::default();
            let mut model = [BTreeSet::new(), BTreeSet::new()];
            for (number, (id, start, len)) in frames.into_iter().enumerate() {
                buffer.on_stream(packet(number as u64), &data(id, start..start + len));
                model[id as usize].extend(start..start + len);

                let mut lacking = BTreeSet::new();
                for (id, set) in model.iter().enumerate() {
                    let end = set.last().copied().unwrap_or(0);
                    lacking.extend((0..end).filter(|at| !set.contains(at)).map(|at| (id as u64, at)));
                }
                let listed = all(&buffer);
                let missing: BTreeSet<_> = listed
                    .iter()
                    .flat_map(|(id, missing)| missing.clone().map(|at| (*id, at)))
                    .collect();
                prop_assert_eq!(missing, lacking);
                // Two bubbles have received bytes between them, and ascend.
                for pair in listed.windows(2) {
                    prop_assert!(pair[0].0 < pair[1].0
                        || pair[0].0 == pair[1].0 && pair[0].1.end < pair[1].1.start);
                }
                let blocks: usize = buffer.streams.values().map(|r| r.blocks.len()).sum();
                prop_assert_eq!(buffer.blocks, blocks);
            }
        }
    }
}
