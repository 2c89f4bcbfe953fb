//! Which stream bytes the packets in flight carry, to hold bubbles against.
//!
//! A bubble list says of a stream: everything below its last bubble has arrived,
//! but for the bubbles. A packet whose bytes have all arrived needs no
//! acknowledgement of its own any more, even if every TACK that named it got lost.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::frame::{Bubbles, Frame, Frames};

/// Streams whose end is known exactly (TACK-7-14). Of others it is known to be no more than all
/// that has been sent.
const MAX_STREAMS: usize = 256;

/// Pieces of streams in packets on their way that are known, some 2 MB. Of older packets the
/// bubbles then say nothing.
const MAX_CARRIED: usize = 1 << 16;

/// The receiver lists bubbles that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadBubble {
    /// Beyond what was sent.
    #[error(
        "the peer misses bytes of stream {stream_id} up to {end}, where at most {sent} were \
         sent; it is faulty or lies"
    )]
    BeyondSent {
        /// The stream.
        stream_id: u64,
        /// Its claim.
        end: u64,
        /// Our record.
        sent: u64,
    },
    /// Overlapping, or without received bytes in between.
    #[error("the peer lists bubbles of stream {0} that overlap or touch; it is faulty or lies")]
    Overlap(u64),
    /// On a stream that only the peer sends on.
    #[error("the peer misses bytes of stream {0}, which only it sends on; it is faulty")]
    NotOurs(u64),
}

#[derive(Clone, Copy, Debug)]
struct Carried {
    pn: u64,
    stream_id: u64,
    offset: u64,
    len: u64,
}

/// The record.
#[derive(Debug, Default)]
pub struct StreamRecord {
    /// By packet number. Packets with anything else to acknowledge, and packets that were not
    /// looked into, are missing.
    carried: VecDeque<Carried>,
    /// One above the last byte sent of each stream.
    ends: BTreeMap<u64, u64>,
    /// No stream had more sent than this in packets that were not looked into.
    unseen: u64,
}

impl StreamRecord {
    /// Packet `pn` leaves with this payload; `sent_bytes` have left with it.
    pub fn on_payload(&mut self, pn: u64, payload: &[u8], sent_bytes: u64) {
        let mut only_data = true;
        let known = self.carried.len();
        for located in Frames::new(payload) {
            let Ok(located) = located else {
                self.on_unseen(sent_bytes);
                only_data = false;
                break;
            };
            match located.frame {
                Frame::Stream(stream) => {
                    self.on_end(stream.stream_id, stream.data().end, sent_bytes);
                    // Bubbles speak of bytes, not of the end of the stream.
                    only_data &= !stream.fin;
                    self.carried.push_back(Carried {
                        pn,
                        stream_id: stream.stream_id,
                        offset: stream.offset,
                        len: stream.len,
                    });
                }
                Frame::Ping => {}
                frame => only_data &= !frame.is_ack_eliciting(),
            }
        }
        if !only_data {
            self.carried.truncate(known);
        }
        // Nor may a packet lose a part of what it carries.
        while self.carried.len() > MAX_CARRIED
            && let Some(oldest) = self.carried.front().map(|carried| carried.pn)
        {
            self.forget_below(oldest + 1);
        }
    }

    /// A packet leaves that was not looked into; `sent_bytes` have left with it.
    pub fn on_unseen(&mut self, sent_bytes: u64) {
        self.unseen = sent_bytes;
    }

    /// Nothing waits for packets below `pn` any more.
    pub fn forget_below(&mut self, pn: u64) {
        while self.carried.front().is_some_and(|carried| carried.pn < pn) {
            self.carried.pop_front();
        }
    }

    /// Those of `packets`, which ascend, whose bytes have all arrived according to
    /// `bubbles`.
    pub fn delivered(&self, bubbles: &Bubbles<'_>, packets: &[u64]) -> Vec<u64> {
        let sorted = sorted(bubbles);
        let arrived = |pn: &&u64| {
            let mut carried = self.carried_by(**pn).peekable();
            carried.peek().is_some() && carried.all(|carried| has_arrived(&sorted, carried))
        };
        packets.iter().filter(arrived).copied().collect()
    }

    /// What packet `pn` carries, if all of it is known.
    fn carried_by(&self, pn: u64) -> impl Iterator<Item = &Carried> {
        let first = self.carried.partition_point(|carried| carried.pn < pn);
        self.carried.range(first..).take_while(move |carried| carried.pn == pn)
    }

    /// Refuses bubbles that cannot be. `is_server` says which streams only the peer sends on
    /// (TACK-7-9).
    pub fn check(&self, bubbles: &Bubbles<'_>, is_server: bool) -> Result<(), BadBubble> {
        let sorted = sorted(bubbles);
        for (stream_id, missing) in &sorted {
            // RFC 9000 section 2.1: bit 0 is the initiator, bit 1 the direction.
            if stream_id & 2 != 0 && (stream_id & 1 == 1) != is_server {
                return Err(BadBubble::NotOurs(*stream_id));
            }
            // Something has arrived behind a bubble.
            let sent = self.ends.get(stream_id).copied().unwrap_or(0).max(self.unseen);
            if missing.end >= sent {
                let (stream_id, end) = (*stream_id, missing.end);
                return Err(BadBubble::BeyondSent { stream_id, end, sent });
            }
        }
        for pair in sorted.windows(2) {
            let [(stream_id, missing), (next_stream, next)] = pair else { continue };
            if stream_id == next_stream && next.start <= missing.end {
                return Err(BadBubble::Overlap(*stream_id));
            }
        }
        Ok(())
    }

    fn on_end(&mut self, stream_id: u64, end: u64, sent_bytes: u64) {
        if let Some(known) = self.ends.get_mut(&stream_id) {
            *known = end.max(*known);
            return;
        }
        if self.ends.len() == MAX_STREAMS {
            self.ends.clear();
            self.unseen = sent_bytes;
        }
        self.ends.insert(stream_id, end);
    }
}

/// By stream and offset, whatever order a peer lists them in.
fn sorted(bubbles: &Bubbles<'_>) -> Vec<(u64, Range<u64>)> {
    let mut sorted: Vec<_> = bubbles.iter().collect();
    sorted.sort_unstable_by_key(|(id, missing)| (*id, missing.start));
    sorted
}

/// Whether the bytes lie below the last bubble of their stream and outside all of them.
fn has_arrived(sorted: &[(u64, Range<u64>)], carried: &Carried) -> bool {
    let end = carried.offset + carried.len;
    let at =
        sorted.partition_point(|(id, missing)| (*id, missing.start) < (carried.stream_id, end));
    let below = at.checked_sub(1).and_then(|at| sorted.get(at));
    let clear_below = below
        .is_none_or(|(id, missing)| *id != carried.stream_id || missing.end <= carried.offset);
    clear_below && sorted.get(at).is_some_and(|(id, _)| *id == carried.stream_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, TackFields, encode_tack};
    use crate::varint;

    /// A STREAM frame with offset and length, and data of zeros.
    fn stream(out: &mut Vec<u8>, id: u64, data: Range<u64>, fin: bool) {
        out.push(0x0e | u8::from(fin));
        for value in [id, data.start, data.end - data.start] {
            varint::put(out, value);
        }
        out.resize(out.len() + (data.end - data.start) as usize, 0);
    }

    /// Ten packets of ten bytes of stream 0.
    fn ten() -> StreamRecord {
        let mut record = StreamRecord::default();
        for pn in 0..10 {
            let mut payload = vec![];
            stream(&mut payload, 0, pn * 10..pn * 10 + 10, false);
            record.on_payload(pn, &payload, (pn + 1) * 40);
        }
        record
    }

    fn delivered(
        record: &StreamRecord,
        bubbles: &[(u64, Range<u64>)],
        largest: u64,
    ) -> Result<Vec<u64>, BadBubble> {
        let mut out = vec![];
        let listed = bubbles.iter().cloned();
        let fields = TackFields::default();
        encode_tack(&mut out, &fields, [0..=0].into_iter(), listed, 1000).unwrap();
        let located = Frames::new(&out).next().unwrap().unwrap();
        let Frame::Tack(tack) = located.frame else { panic!("{:?}", located.frame) };
        let bubbles = tack.bubbles.unwrap();
        record.check(&bubbles, true)?;
        Ok(record.delivered(&bubbles, &(0..=largest).collect::<Vec<_>>()))
    }

    #[test]
    fn what_lies_below_the_last_bubble_and_outside_of_all_has_arrived() {
        let bubbles = [(0, 20..30), (0, 55..60)];
        assert_eq!(delivered(&ten(), &bubbles, 9), Ok(vec![0, 1, 3, 4]));
        assert_eq!(delivered(&ten(), &bubbles, 3), Ok(vec![0, 1, 3]), "no newer than it acked");
    }

    #[test]
    fn a_packet_has_arrived_when_all_that_it_carries_has() {
        let mut record = ten();
        let with = |more: &[u8], fin| {
            let mut payload = vec![];
            stream(&mut payload, 0, 0..5, false);
            payload.extend_from_slice(more);
            stream(&mut payload, 0, 10..15, fin);
            payload
        };
        record.on_payload(10, &with(&[0x01, 0x00], false), 500); // PING, PADDING
        record.on_payload(11, &with(&[0x10, 9], false), 540); // MAX_DATA
        record.on_payload(12, &with(&[], true), 580);
        record.on_payload(13, &[0x01], 620);
        record.on_payload(14, &with(&[0x21], false), 660); // of no known type
        assert_eq!(delivered(&record, &[(0, 30..40)], 14), Ok(vec![0, 1, 2, 10]));
        assert_eq!(delivered(&record, &[(0, 12..13), (0, 30..40)], 14), Ok(vec![0, 2]));
    }

    #[test]
    fn bubbles_that_cannot_be_are_refused() {
        let beyond = |end, sent| Err(BadBubble::BeyondSent { stream_id: 0, end, sent });
        assert_eq!(delivered(&ten(), &[(0, 98..99)], 9).map(|all| all.len()), Ok(9));
        assert_eq!(delivered(&ten(), &[(0, 90..100)], 9), beyond(100, 100));
        // A stream that was never written to.
        let unknown = BadBubble::BeyondSent { stream_id: 4, end: 1, sent: 0 };
        assert_eq!(delivered(&ten(), &[(4, 0..1)], 9), Err(unknown));
        assert_eq!(delivered(&ten(), &[(2, 0..1)], 9), Err(BadBubble::NotOurs(2)));
        let overlap = Err(BadBubble::Overlap(0));
        assert_eq!(delivered(&ten(), &[(0, 20..30), (0, 25..28)], 9), overlap);
        assert_eq!(delivered(&ten(), &[(0, 20..30), (0, 30..32)], 9), overlap);
    }

    #[test]
    fn where_packets_were_not_looked_into_no_more_than_all_that_was_sent_is_missing() {
        let mut record = ten();
        record.on_unseen(440);
        assert_eq!(delivered(&record, &[(0, 200..439)], 9).map(|all| all.len()), Ok(10));
        assert_eq!(delivered(&record, &[(4, 200..439)], 9), Ok(vec![]));
        assert!(delivered(&record, &[(0, 200..440)], 9).is_err());
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_does_not_make_the_record_grow_for_ever() {
        let mut record = StreamRecord::default();
        let mut payload = vec![];
        for at in 0..10 {
            stream(&mut payload, 0, at * 20..at * 20 + 10, false);
        }
        for pn in 0..10_000 {
            record.on_payload(pn, &payload, (pn + 1) * 400);
        }
        assert!(record.carried.len() <= MAX_CARRIED);
        assert_eq!(record.carried.len() % 10, 0, "whole packets");
    }

    #[test]
    fn the_record_is_as_long_as_what_is_in_flight() {
        let mut record = ten();
        record.forget_below(7);
        assert_eq!(delivered(&record, &[(0, 98..99)], 9), Ok(vec![7, 8]));
        for id in 0..10_000 {
            let mut payload = vec![];
            stream(&mut payload, id * 4, 0..10, false);
            record.on_payload(10 + id, &payload, 1000 + id * 40);
            record.forget_below(id);
        }
        assert!(record.carried.len() <= 11 && record.ends.len() <= MAX_STREAMS);
        // The ends that were forgotten are bounded by the total.
        assert_eq!(delivered(&record, &[(0, 98..99)], 9), Ok(vec![]));
    }
}
