//! How much an application may write ahead.
//!
//! What: counts what is written and not yet sent, against a limit. Why: quiche takes whatever its
//! congestion window has room for, and that window is pinned open: without a limit of our own an
//! application would buffer 27 MB. quiche does not tell how much it buffers. Upstream: `tx_buffered` is
//! private. To delete: when quiche's controller is replaceable, or the buffered amount can be read.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use quiche::BufFactory;

use super::QuicheCounters;
use super::stopped_streams::StoppedStreams;

/// Streams that are remembered as refused before those that are gone are looked for.
const MOST_BLOCKED: usize = 4096;

/// What has been written and not yet sent.
#[derive(Debug)]
pub struct SendBuffer {
    limit: usize,
    written: u64,
    /// `written` when last all of it had been sent.
    flushed: u64,
    /// Stream bytes sent or given up since then, and quiche's count of repeated ones then.
    sent_since: u64,
    repeated_then: u64,
    /// What each stream has written since then, less what of it was sent.
    unsent: BTreeMap<u64, u64>,
    /// The sum of it.
    all_unsent: u64,
    /// A stream was dropped since then. quiche counts what is lost of such a stream as repeated, and does
    /// not repeat it.
    has_dropped: bool,
    /// Streams refused for lack of room, and how much each has to get before it is reported.
    blocked: BTreeMap<u64, usize>,
    /// Length of that at which those that are gone are forgotten.
    blocked_limit: usize,
    /// The one of them that was reported last: the next has its turn, or the first would have all the room.
    reported: Option<u64>,
}

impl SendBuffer {
    /// An empty buffer of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            written: 0,
            flushed: 0,
            sent_since: 0,
            repeated_then: 0,
            unsent: BTreeMap::new(),
            all_unsent: 0,
            has_dropped: false,
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
    pub fn room<F: BufFactory>(&self, connection: &quiche::Connection<F>) -> usize {
        let buffered = self.buffered(connection);
        self.limit.saturating_sub(usize::try_from(buffered).unwrap_or(usize::MAX))
    }

    /// What has been written and not sent, bytes.
    pub fn buffered<F: BufFactory>(&self, connection: &quiche::Connection<F>) -> u64 {
        let repeated = QuicheCounters::repeated_stream_bytes(connection)
            .saturating_sub(self.repeated_then);
        let sent = self.sent_since.saturating_sub(repeated);
        let buffered = (self.written - self.flushed).saturating_sub(sent);
        if self.has_dropped { buffered.min(self.all_unsent) } else { buffered }
    }

    /// The application has written to a stream.
    pub fn on_written(&mut self, stream_id: u64, bytes: usize) {
        self.written += bytes as u64;
        *self.unsent.entry(stream_id).or_default() += bytes as u64;
        self.all_unsent += bytes as u64;
    }

    /// A packet has left with `bytes` of stream data, of this stream where it is known.
    pub fn on_sent(&mut self, stream_id: Option<u64>, bytes: usize) {
        self.sent_since += bytes as u64;
        let Some(stream_id) = stream_id else { return };
        if let Some(unsent) = self.unsent.get_mut(&stream_id) {
            let fresh = (bytes as u64).min(*unsent);
            *unsent -= fresh;
            self.all_unsent -= fresh;
            if *unsent == 0 {
                self.unsent.remove(&stream_id);
            }
        }
    }

    /// Whether something that was written to a stream has not been sent, as far as that is known.
    pub fn has_unsent(&self, stream_id: u64) -> bool {
        self.unsent.get(&stream_id).is_some_and(|bytes| *bytes > 0)
    }

    /// The stream was reset, or the peer has stopped it: quiche has dropped what was not sent.
    pub fn on_dropped(&mut self, stream_id: u64) {
        let unsent = self.unsent.remove(&stream_id).unwrap_or_default();
        self.sent_since += unsent;
        self.all_unsent -= unsent;
        self.has_dropped = true;
    }

    /// quiche has nothing left to send: what was estimated is known again.
    pub fn on_flushed<F: BufFactory>(&mut self, connection: &quiche::Connection<F>) {
        if self.flushed == self.written && self.sent_since == 0 && !self.has_dropped {
            return;
        }
        self.flushed = self.written;
        self.sent_since = 0;
        self.unsent.clear();
        self.all_unsent = 0;
        self.has_dropped = false;
        self.repeated_then = QuicheCounters::repeated_stream_bytes(connection);
    }

    /// A stream was refused for lack of room, and cannot be written to before it gets `needed` bytes of it:
    /// reported earlier, it would be refused again, and an application that writes as long as streams are
    /// reported would never come to an end.
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
        let room = self.room(connection);
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
