//! Streams that are reset behind their end.
//!
//! What: in place of a RESET_STREAM for a stream whose end has come and that lacks something in between, quiche gets
//! the rest of the stream as zeros, and the application an error in place of them. Why: quiche (0.30,
//! `RecvBuf::reset`) does not tell of such a reset: the stream is never readable again, is never forgotten, and the
//! peer may never open another one instead. A video that resets what it could not repeat in time stops when so many
//! frames are lost as streams may be open. Streams that go both ways are often read by `quiche::h3`, which must not
//! take zeros for a body, unless this end has stopped reading: where all of such a stream has come, quiche does not get
//! the reset, and the application gets the stream (RFC 9000 section 3.2 allows both); where something lacks, the reset
//! stays what it is for quiche. So does one of a stream that an application reads from quiche itself. Upstream: not
//! reported. To delete: when quiche makes a stream readable that is reset behind its end.

use std::collections::BTreeMap;

use quiche::BufFactory;
use tack_proto::varint;

/// Zeros for each byte that has come: what a stream lacks was sent, and a good part of the rest has come.
const ZEROS_PER_BYTE: u64 = 2;

/// Zeros that are due to a connection at first, before all that has come of it is counted.
const FIRST_ZEROS: u64 = 256 * 1024;

/// Zeros that a connection may save up, unless one stream takes more: what some milliseconds of one core encrypt and copy.
const MOST_ZEROS: u64 = 4 << 20;

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

/// What streams that are reset get in place of what they lack.
#[derive(Debug)]
pub struct LateFills {
    /// Zeros that may be written. A peer that claims long streams and sends little of them would keep this end busy.
    zeros: u64,
    most_zeros: u64,
    /// Streams that have to wait for more.
    waiting: BTreeMap<u64, LateReset>,
}

impl Default for LateFills {
    fn default() -> Self {
        Self { zeros: FIRST_ZEROS, most_zeros: MOST_ZEROS, waiting: BTreeMap::new() }
    }
}

impl LateFills {
    /// A packet of so many bytes has come.
    #[inline]
    pub fn on_received(&mut self, bytes: usize) {
        let due = ZEROS_PER_BYTE.saturating_mul(bytes as u64);
        self.zeros = self.zeros.saturating_add(due).min(self.most_zeros);
    }

    /// Appends the STREAM frame that takes the place of a reset, of a stream of which `read` bytes were read. `used` are
    /// the zeros of the packet so far. False if there are too few of them.
    pub fn fill(
        &self,
        reset: &LateReset,
        read: u64,
        used: &mut u64,
        frames: &mut Vec<u8>,
    ) -> bool {
        let len = reset.final_size.saturating_sub(read);
        let fits = used.saturating_add(len) <= self.zeros;
        if let (true, Ok(zeros)) = (fits, usize::try_from(len)) {
            *used += len;
            for value in [STREAM, reset.stream_id, read, len] {
                varint::put(frames, value);
            }
            frames.resize(frames.len() + zeros, 0);
            return true;
        }
        false
    }

    /// The streams that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &LateReset> {
        self.waiting.values()
    }

    /// quiche has accepted a packet with `used` zeros, for these streams, and these have to wait.
    pub fn on_accepted(&mut self, used: u64, filled: &[LateReset], left: &[LateReset]) {
        self.zeros = self.zeros.saturating_sub(used);
        for reset in filled {
            self.waiting.remove(&reset.stream_id);
        }
        for reset in left {
            self.most_zeros = self.most_zeros.max(reset.final_size);
            self.waiting.insert(reset.stream_id, *reset);
        }
    }

    /// Forgets streams that quiche has done with.
    pub fn forget(&mut self, is_over: impl Fn(u64) -> bool) {
        self.waiting.retain(|stream_id, _| !is_over(*stream_id));
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

    /// The application reads a stream. What it is told instead, and how many bytes quiche had of the stream.
    pub fn take<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stream_id: u64,
    ) -> Option<(quiche::Error, usize)> {
        if self.0.is_empty() {
            return None;
        }
        let error = self.0.remove(&stream_id)?;
        let mut len = 0;
        while let Ok((discarded, is_end)) = connection.stream_discard(stream_id, usize::MAX) {
            len += discarded;
            if is_end {
                break;
            }
        }
        Some((quiche::Error::StreamReset(error), len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn reset(stream_id: u64, final_size: u64) -> LateReset {
        LateReset { stream_id, error: 5, final_size }
    }

    #[test]
    fn the_rest_of_a_stream_is_zeros() {
        let (mut used, mut frames) = (0, Vec::new());
        let fills = LateFills::default();
        assert!(fills.fill(&reset(7, 13), 10, &mut used, &mut frames));
        assert_eq!(frames, [0x0e, 7, 10, 3, 0, 0, 0]);
        assert!(!fills.fill(&reset(11, FIRST_ZEROS - 2), 0, &mut used, &mut frames));
        assert!(fills.fill(&reset(11, 5), 5, &mut used, &mut frames), "all has been read");
        assert!(may_fill(7, false) && may_fill(4, true) && !may_fill(4, false));
        assert_eq!((used, frames.len()), (3, 11));
    }

    #[test]
    fn a_peer_gets_no_more_zeros_than_twice_what_it_sends() {
        const PACKET: usize = 40;
        let (mut fills, mut zeros) = (LateFills::default(), 0);
        let mut frames = Vec::new();
        for n in 0..1000 {
            fills.on_received(PACKET);
            let (mut used, of_window) = (0, reset(4 * n + 2, 1 << 20));
            let waits: Vec<_> = fills.waiting().copied().collect();
            let mut filled = Vec::new();
            for reset in waits {
                if fills.fill(&reset, 0, &mut used, &mut frames) {
                    filled.push(reset);
                }
            }
            let is_filled = fills.fill(&of_window, 0, &mut used, &mut frames);
            let left = if is_filled { vec![] } else { vec![of_window] };
            fills.on_accepted(used, &filled, &left);
            zeros += used;
            frames.clear();
            assert!(zeros <= FIRST_ZEROS + 2 * (n + 1) * PACKET as u64, "{zeros} after {n}");
        }
        fills.forget(|stream_id| stream_id < 4 * 999);
        assert_eq!(fills.waiting().count(), 1);
    }

    #[test]
    fn zeros_are_saved_up_to_a_limit_or_for_the_longest_stream() {
        let mut fills = LateFills::default();
        fills.on_received(usize::MAX);
        assert_eq!(fills.zeros, MOST_ZEROS);
        fills.on_accepted(0, &[], &[reset(2, MOST_ZEROS + 1)]);
        fills.on_received(1);
        let (mut used, mut frames) = (0, Vec::new());
        assert!(fills.fill(&reset(2, MOST_ZEROS + 1), 0, &mut used, &mut frames));
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
