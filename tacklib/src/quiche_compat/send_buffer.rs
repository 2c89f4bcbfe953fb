//! How much an application may write ahead.
//!
//! What: counts what is written and not yet sent, against a limit. Why: quiche takes whatever its
//! congestion window has room for, and that window is pinned open: without a limit of our own an
//! application would buffer 27 MB. quiche does not tell how much it buffers. Upstream: `tx_buffered` is
//! private. To delete: when quiche's controller is replaceable, or the buffered amount can be read.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use quiche::BufFactory;

use super::stopped_streams::StoppedStreams;

/// Streams that are remembered as refused before those that are gone are looked for.
const MOST_BLOCKED: usize = 4096;

/// What has been written and not yet sent.
#[derive(Debug)]
pub struct SendBuffer {
    limit: usize,
    unsent: BTreeMap<u64, Unsent>,
    /// The sum of it, bytes.
    all_unsent: u64,
    /// Streams refused for lack of room, and how much each has to get before it is reported.
    blocked: BTreeMap<u64, usize>,
    /// Length of that at which those that are gone are forgotten.
    blocked_limit: usize,
    /// The one of them that was reported last: the next has its turn, or the first would have all the room.
    reported: Option<u64>,
}

/// Offsets of a stream with data that has not left.
#[derive(Debug)]
struct Unsent {
    /// All data before has left: what is sent again does not count.
    sent: u64,
    /// All data before has been written.
    written: u64,
}

impl SendBuffer {
    /// An empty buffer of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            unsent: BTreeMap::new(),
            all_unsent: 0,
            blocked: BTreeMap::new(),
            blocked_limit: MOST_BLOCKED,
            reported: None,
        }
    }

    /// Sets how many bytes may wait.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Room for writing, bytes.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(usize::try_from(self.all_unsent).unwrap_or(usize::MAX))
    }

    /// What has been written and not sent, bytes.
    pub fn buffered(&self) -> u64 {
        self.all_unsent
    }

    /// The application has written `bytes` to a stream, up to offset `end`.
    pub fn on_written(&mut self, stream_id: u64, end: u64, bytes: usize) {
        let bytes = bytes as u64;
        let sent = end.saturating_sub(bytes);
        let unsent = self.unsent.entry(stream_id).or_insert(Unsent { sent, written: sent });
        unsent.written += bytes;
        self.all_unsent += bytes;
    }

    /// A packet has left with data of a stream up to offset `end`. quiche sends what is new in the order of the offsets.
    pub fn on_sent(&mut self, stream_id: u64, end: u64) {
        let Some(unsent) = self.unsent.get_mut(&stream_id) else { return };
        let fresh = end.min(unsent.written).saturating_sub(unsent.sent);
        unsent.sent += fresh;
        self.all_unsent -= fresh;
        if unsent.sent == unsent.written {
            self.unsent.remove(&stream_id);
        }
    }

    /// Whether something that was written to a stream has not been sent, as far as that is known.
    pub fn has_unsent(&self, stream_id: u64) -> bool {
        self.unsent.contains_key(&stream_id)
    }

    /// The stream was reset, or the peer has stopped it: quiche has dropped what was not sent.
    pub fn on_dropped(&mut self, stream_id: u64) {
        if let Some(Unsent { sent, written }) = self.unsent.remove(&stream_id) {
            self.all_unsent -= written - sent;
        }
    }

    /// quiche has nothing left to send, also where not all that has left was seen here.
    pub fn on_flushed(&mut self) {
        self.unsent.clear();
        self.all_unsent = 0;
    }

    /// Records that a write was refused for lack of room.
    ///
    /// The stream is not reported as writable before there are `needed` bytes of room: reported earlier, it
    /// would be refused again, and an application that writes as long as streams are reported would loop for ever.
    pub fn block<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stopped: &StoppedStreams,
        stream_id: u64,
        needed: usize,
    ) {
        self.blocked.insert(stream_id, needed);
        if self.blocked.len() > self.blocked_limit {
            self.forget_gone(connection, stopped);
        }
    }

    /// Applications that ask for all writable streams never take those that are blocked.
    #[cold]
    fn forget_gone<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stopped: &StoppedStreams,
    ) {
        self.blocked.retain(|id, _| !stopped.is_forgotten(connection, *id));
        self.blocked_limit = MOST_BLOCKED.max(2 * self.blocked.len());
    }

    /// Whether a stream was refused for lack of room, and has not been reported since.
    pub fn is_blocked(&self, stream_id: u64) -> bool {
        !self.blocked.is_empty() && self.blocked.contains_key(&stream_id)
    }

    /// The application writes no more to the stream.
    pub fn unblock(&mut self, stream_id: u64) {
        self.blocked.remove(&stream_id);
    }

    /// A stream that was refused and can be written to now. An error counts as
    /// writable, and that the peer has stopped it: writing is how the application learns of it.
    pub fn take_unblocked<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stopped: &StoppedStreams,
    ) -> Option<u64> {
        let room = self.room();
        let (later, earlier) = match self.reported {
            Some(last) => ((Excluded(last), Unbounded), (Unbounded, Included(last))),
            None => ((Unbounded, Unbounded), (Unbounded, Excluded(0))),
        };
        let mut blocked = self.blocked.range(later).chain(self.blocked.range(earlier));
        // There is never more room than the limit.
        let (&ready, _) = blocked.find(|&(&id, &needed)| {
            let needed = needed.clamp(1, self.limit.max(1));
            if stopped.contains(id) {
                return true;
            }
            match connection.stream_capacity(id) {
                Ok(capacity) => capacity.min(room) >= needed,
                Err(_) => true,
            }
        })?;
        self.blocked.remove(&ready);
        self.reported = Some(ready);
        Some(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_again_is_not_taken_for_new() {
        let mut buffer = SendBuffer::new(3000);
        buffer.on_written(4, 1000, 1000);
        buffer.on_written(4, 2500, 1500);
        for (end, left) in [(1200, 1300), (1200, 1300), (600, 1300), (2499, 1)] {
            buffer.on_sent(4, end);
            assert_eq!((buffer.buffered(), buffer.room()), (left, 3000 - left as usize));
            assert!(buffer.has_unsent(4));
        }
        buffer.on_sent(4, 2500);
        assert!(!buffer.has_unsent(4) && buffer.unsent.is_empty());
        buffer.on_written(4, 2600, 100);
        buffer.on_sent(4, 2500);
        assert_eq!(buffer.buffered(), 100);
    }

    #[test]
    fn what_was_dropped_of_a_stream_leaves_its_room() {
        let mut buffer = SendBuffer::new(3000);
        buffer.on_written(4, 1000, 1000);
        buffer.on_written(8, 5000, 500);
        buffer.on_sent(4, 100);
        buffer.on_dropped(4);
        buffer.on_dropped(12);
        buffer.on_sent(4, 200);
        assert_eq!(buffer.buffered(), 500);
        buffer.on_flushed();
        buffer.on_sent(8, 5000);
        assert_eq!(buffer.buffered(), 0);
    }
}
