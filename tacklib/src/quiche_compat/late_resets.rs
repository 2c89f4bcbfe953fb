//! Streams that are reset behind their end.
//!
//! What: in place of a RESET_STREAM for a stream whose end has come and that lacks something in between, quiche gets
//! the rest of the stream as zeros, a piece with each packet, and the application an error in place of them. Why: quiche (0.30,
//! `RecvBuf::reset`) does not tell of such a reset: the stream is never readable again, is never forgotten, and the
//! peer may never open another one instead. A video that resets what it could not repeat in time stops when so many
//! frames are lost as streams may be open. Streams that go both ways are often read by `quiche::h3`, which must not
//! take zeros for a body, unless this end has stopped reading: where all of such a stream has come, quiche does not get
//! the reset, and the application gets the stream (RFC 9000 section 3.2 allows both); where something lacks, the reset
//! stays what it is for quiche. So does one of a stream that an application reads from quiche itself. Upstream: not
//! reported. To delete: when quiche makes a stream readable that is reset behind its end.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use quiche::BufFactory;
use tack_proto::varint;

use super::stopped_reads::{Dropped, drop_readable};

/// Zeros for each byte that has come: what a stream lacks was sent, and a good part of the rest has come.
const ZEROS_PER_BYTE: u64 = 2;

/// Zeros that are due to a connection at first, before all that has come of it is counted.
const FIRST_ZEROS: u64 = 256 * 1024;

/// Zeros that a connection may save up.
const MOST_ZEROS: u64 = 4 << 20;

/// Zeros in place of one packet: they are encrypted, decrypted and copied while it is received, and quiche holds them
/// against each piece of the stream that has come in between.
const MOST_OF_PACKET: u64 = 4 * 1024;

/// Zeros that go into a packet at least, if not all of the rest does: to seal it again takes time, too. And the most that a
/// stream gets at first: one makes it readable, and more than one packet is seldom missing at a place.
const LEAST_PIECE: u64 = 1500;

/// Streams that wait and that one packet looks at: none takes longer for more of them.
const LOOKED_AT: usize = 16;

/// STREAM with an offset and a length (RFC 9000 section 19.8).
const STREAM: u64 = 0x08 | 0x04 | 0x02;

/// A stream that was reset behind its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateReset {
    /// The stream.
    pub stream_id: u64,
    /// The application's error code.
    pub error: u64,
    /// Where the stream ends.
    pub final_size: u64,
}

/// Whether a stream may be filled: no end goes back on it, or this one `is_stopped` and drops what comes.
pub const fn may_fill(stream_id: u64, is_stopped: bool) -> bool {
    stream_id & 2 != 0 || is_stopped
}

/// What quiche gets of a stream in place of its reset, or of the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The stream.
    pub reset: LateReset,
    /// Where that ends.
    pub end: u64,
    /// It is the first of the stream.
    pub is_first: bool,
}

impl Fill {
    /// Whether quiche has all of the stream with it.
    const fn is_last(&self) -> bool {
        self.end >= self.reset.final_size
    }
}

/// A stream of which quiche has yet to get something.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The stream.
    pub reset: LateReset,
    /// Where that which quiche has got ends.
    filled: Option<u64>,
    /// The application has been told: what comes is dropped, with what was behind it.
    is_told: bool,
}

impl Waiting {
    const fn new(reset: LateReset) -> Self {
        Self { reset, filled: None, is_told: false }
    }
}

/// What streams that are reset get in place of what they lack. The first piece makes a stream readable, and once it is
/// read the next one goes where it lacks something again.
#[derive(Debug)]
pub struct LateFills {
    /// Zeros that may be written. A peer that claims long streams and sends little of them would keep this end busy.
    zeros: u64,
    /// Streams that are not whole.
    waiting: BTreeMap<u64, Waiting>,
    /// The one of them that was looked at last.
    looked_at: Option<u64>,
}

impl Default for LateFills {
    fn default() -> Self {
        Self { zeros: FIRST_ZEROS, waiting: BTreeMap::new(), looked_at: None }
    }
}

impl LateFills {
    /// A packet of so many bytes has come.
    #[inline]
    pub fn on_received(&mut self, bytes: usize) {
        let due = ZEROS_PER_BYTE.saturating_mul(bytes as u64);
        self.zeros = self.zeros.saturating_add(due).min(MOST_ZEROS);
    }

    /// Appends the STREAM frame that takes the place of a reset, or the next piece of the rest, of a stream of which `read`
    /// bytes were read, if that is known. `used` are the zeros of the packet so far. `None` if there are too few of them
    /// left for more than a first piece.
    pub fn fill(
        &self,
        reset: &LateReset,
        read: Option<u64>,
        used: &mut u64,
        frames: &mut Vec<u8>,
    ) -> Option<Fill> {
        let filled = self.waiting.get(&reset.stream_id).and_then(|waiting| waiting.filled);
        let from = filled.max(read)?;
        let lack = reset.final_size.saturating_sub(from);
        let left = self.zeros.min(MOST_OF_PACKET).saturating_sub(*used);
        let len = match filled {
            None => lack.min(left.clamp(1, LEAST_PIECE)),
            Some(_) if left < lack.min(LEAST_PIECE) => return None,
            Some(_) => lack.min(left),
        };
        *used += len;
        for value in [STREAM, reset.stream_id, from, len] {
            varint::put(frames, value);
        }
        // There are few of them.
        frames.resize(frames.len() + len as usize, 0);
        Some(Fill { reset: *reset, end: from + len, is_first: filled.is_none() })
    }

    /// Streams whose turn it is to get something. `is_stopped` tells of those that this end has stopped reading: what
    /// comes of them is dropped, too.
    pub fn next<'a>(
        &'a self,
        is_stopped: impl Fn(u64) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Waiting> {
        self.in_turn().filter(move |waiting| {
            let is_dropped = waiting.is_told || is_stopped(waiting.reset.stream_id);
            waiting.filled.is_none() || is_dropped
        })
    }

    fn in_turn(&self) -> impl Iterator<Item = &Waiting> {
        let (later, earlier) = match self.looked_at {
            Some(last) => ((Excluded(last), Unbounded), (Unbounded, Included(last))),
            None => ((Unbounded, Unbounded), (Unbounded, Excluded(0))),
        };
        let later = self.waiting.range(later);
        later.chain(self.waiting.range(earlier)).map(|(_, waiting)| waiting).take(LOOKED_AT)
    }

    /// Whether a stream is not whole.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The application was told of the reset of a stream, and reads it no more. Whether the stream is not whole.
    pub fn on_told(&mut self, stream_id: u64) -> bool {
        let Some(waiting) = self.waiting.get_mut(&stream_id) else { return false };
        waiting.is_told = true;
        true
    }

    /// A stream has been read to its end.
    pub fn forget(&mut self, stream_id: u64) {
        self.waiting.remove(&stream_id);
    }

    /// Whether the application wants no more of a stream that is not whole.
    pub fn is_told(&self, stream_id: u64) -> bool {
        self.waiting.get(&stream_id).is_some_and(|waiting| waiting.is_told)
    }

    /// quiche has accepted a packet with `used` zeros in these `fills`, and these streams have to wait.
    pub fn on_accepted(&mut self, used: u64, fills: &[Fill], left: &[LateReset]) {
        self.zeros = self.zeros.saturating_sub(used);
        for fill in fills {
            let Fill { reset, end, .. } = *fill;
            if fill.is_last() {
                self.waiting.remove(&reset.stream_id);
            } else {
                let waiting = self.waiting.entry(reset.stream_id);
                waiting.or_insert(Waiting::new(reset)).filled = Some(end);
            }
        }
        for reset in left {
            self.waiting.entry(reset.stream_id).or_insert(Waiting::new(*reset));
        }
    }

    /// The streams that a packet has looked at have had their turn, but for one that got a piece and lacks more. Forgets
    /// those that quiche has done with.
    pub fn end_turn(&mut self, fills: &[Fill], is_over: impl Fn(u64) -> bool) {
        let over: Vec<u64> = self
            .in_turn()
            .map(|waiting| waiting.reset.stream_id)
            .filter(|id| is_over(*id))
            .collect();
        let last = self.in_turn().last().map(|waiting| waiting.reset.stream_id);
        let is_cut_short = fills.iter().any(|fill| !fill.is_last());
        if !is_cut_short {
            self.looked_at = last;
        }
        for stream_id in over {
            self.waiting.remove(&stream_id);
        }
    }
}

/// Streams that go both ways and that one packet resets behind their end, and whether all of each has come.
#[derive(Debug, Default)]
pub struct AskedStreams(Vec<(u64, bool)>);

impl AskedStreams {
    /// Whether all of a stream has come. To `ask` takes as long as what has come of it has pieces, and is not done twice.
    pub fn is_whole(&mut self, stream_id: u64, ask: impl FnOnce() -> bool) -> bool {
        let known = self.0.iter().find(|(id, _)| *id == stream_id);
        if let Some((_, is_whole)) = known {
            return *is_whole;
        }
        let is_whole = ask();
        self.0.push((stream_id, is_whole));
        is_whole
    }

    /// Those of which all has come.
    pub fn whole(&self) -> impl Iterator<Item = u64> {
        self.0.iter().filter(|(_, is_whole)| *is_whole).map(|(stream_id, _)| *stream_id)
    }
}

/// Those of which the application has not heard.
#[derive(Debug, Default)]
pub struct LateResets(BTreeMap<u64, u64>);

impl LateResets {
    /// quiche has taken the frame for it.
    pub fn on_filled(&mut self, reset: LateReset) {
        self.0.insert(reset.stream_id, reset.error);
    }

    /// Whether the application is told of a reset when it reads a stream.
    pub fn contains(&self, stream_id: u64) -> bool {
        self.0.contains_key(&stream_id)
    }

    /// The application wants no more of a stream.
    pub fn forget(&mut self, stream_id: u64) {
        self.0.remove(&stream_id);
    }

    /// The application reads a stream. What it is told instead, and what was dropped of the stream.
    pub fn take<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stream_id: u64,
    ) -> Option<(quiche::Error, Dropped)> {
        if self.0.is_empty() {
            return None;
        }
        let error = self.0.remove(&stream_id)?;
        Some((quiche::Error::StreamReset(error), drop_readable(connection, stream_id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn reset(stream_id: u64, final_size: u64) -> LateReset {
        LateReset { stream_id, error: 5, final_size }
    }

    /// Fills a stream with a packet that quiche accepts.
    fn fill(fills: &mut LateFills, reset: &LateReset, read: Option<u64>) -> Option<Fill> {
        let (mut used, mut frames) = (0, Vec::new());
        let fill = fills.fill(reset, read, &mut used, &mut frames);
        let left = if fill.is_some() { vec![] } else { vec![*reset] };
        fills.on_accepted(used, fill.as_slice(), &left);
        fill
    }

    fn turns(fills: &LateFills) -> Vec<u64> {
        fills.next(|_| false).map(|waiting| waiting.reset.stream_id).collect()
    }

    #[test]
    fn the_rest_of_a_stream_is_zeros() {
        let (mut used, mut frames) = (0, Vec::new());
        let fills = LateFills::default();
        let short = fills.fill(&reset(7, 13), Some(10), &mut used, &mut frames).unwrap();
        assert!(short.is_first && short.is_last());
        assert_eq!(frames, [0x0e, 7, 10, 3, 0, 0, 0]);
        assert!(
            fills.fill(&reset(11, 5), Some(5), &mut used, &mut frames).is_some(),
            "all has been read"
        );
        assert!(
            fills.fill(&reset(15, 5), None, &mut used, &mut frames).is_none(),
            "it may have been"
        );
        assert!(may_fill(7, false) && may_fill(4, true) && !may_fill(4, false));
        assert_eq!((used, frames.len()), (3, 11));
    }

    #[test]
    fn a_long_rest_goes_on_where_it_was_left_once_the_application_knows() {
        let (mut fills, long) = (LateFills::default(), reset(7, 2 * MOST_OF_PACKET + 10));
        let first = fill(&mut fills, &long, Some(10)).unwrap();
        assert_eq!(
            (first.end, first.is_first, first.is_last()),
            (LEAST_PIECE + 10, true, false)
        );
        assert!(turns(&fills).is_empty(), "it may be readable to its end");
        assert_eq!(fills.next(|_| true).count(), 1);
        assert!(fills.on_told(7) && fills.is_told(7) && !fills.on_told(8));
        assert_eq!(turns(&fills), [7]);
        let second = fill(&mut fills, &long, Some(first.end)).unwrap();
        assert_eq!(second.end, first.end + MOST_OF_PACKET);
        // What was behind it has come.
        let last = fill(&mut fills, &long, Some(long.final_size - 1)).unwrap();
        assert_eq!((last.end, last.is_first, last.is_last()), (long.final_size, false, true));
        assert!(fills.is_empty());
    }

    #[test]
    fn one_packet_has_each_stream_told_of_and_fills_no_more_than_a_piece() {
        const STREAMS: u64 = 300;
        let (mut used, mut frames) = (0, Vec::new());
        let fills = LateFills::default();
        for stream_id in (0..STREAMS).map(|at| 4 * at + 2) {
            let fill = fills.fill(&reset(stream_id, 50_000), Some(0), &mut used, &mut frames);
            assert!(fill.is_some_and(|fill| fill.is_first && fill.end > 0));
        }
        assert!(used <= MOST_OF_PACKET + STREAMS, "{used}");
    }

    #[test]
    fn a_peer_gets_no_more_zeros_than_twice_what_it_sends() {
        const PACKET: usize = 40;
        let (mut fills, mut zeros) = (LateFills::default(), 0);
        let long = |n| reset(4 * n + 2, 1 << 20);
        for n in 0..10_000 {
            fills.on_received(PACKET);
            let before = fills.zeros;
            fill(&mut fills, &long(n), Some(0));
            fills.on_told(long(n).stream_id);
            fill(&mut fills, &long(n / 2), Some(0));
            zeros += before - fills.zeros;
            assert!(zeros <= FIRST_ZEROS + 2 * (n + 1) * PACKET as u64, "{zeros} after {n}");
        }
        fills.on_received(usize::MAX);
        assert_eq!(fills.zeros, MOST_ZEROS);
    }

    #[test]
    fn streams_that_wait_have_their_turn_one_after_the_other_and_few_at_once() {
        let mut fills = LateFills::default();
        let n = 3 * LOOKED_AT as u64;
        let left: Vec<_> = (0..n).map(|id| reset(id, 100)).collect();
        fills.on_accepted(0, &[], &left);
        let mut seen = Vec::new();
        for _ in 0..3 {
            assert_eq!(turns(&fills).len(), LOOKED_AT);
            seen.extend(turns(&fills));
            fills.end_turn(&[], |id| id == 5);
        }
        assert!(seen.into_iter().eq(0..n));
        assert_eq!(fills.waiting.len() as u64, n - 1, "one is over");
        assert_eq!(turns(&fills)[..2], [0, 1], "from the beginning");
        let cut_short = Fill { reset: reset(0, 100), end: 50, is_first: true };
        fills.end_turn(&[cut_short], |_| false);
        assert_eq!(turns(&fills)[..2], [0, 1], "it gets more");
    }

    #[test]
    fn a_stream_is_asked_about_once_whatever_the_answer_is() {
        let (mut asked, mut questions) = (AskedStreams::default(), 0);
        for _ in 0..10 {
            for stream_id in [4, 8] {
                let is_whole = asked.is_whole(stream_id, || {
                    questions += 1;
                    stream_id == 8
                });
                assert_eq!(is_whole, stream_id == 8);
            }
        }
        assert_eq!(questions, 2);
        assert!(asked.whole().eq([8]));
    }
}
