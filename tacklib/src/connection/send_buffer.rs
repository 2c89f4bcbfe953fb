//! How much an application may write ahead.
//!
//! quiche takes whatever its congestion window has room for, and that window is
//! kept wide open: without a limit of our own an application would buffer 27 MB.

use std::collections::BTreeSet;

/// What has been written and not yet sent.
#[derive(Debug)]
pub struct SendBuffer {
    limit: usize,
    written: u64,
    /// `written` when last all of it had been sent.
    flushed: u64,
    /// Stream bytes sent since then, and quiche's count of repeated ones then.
    sent_since: u64,
    repeated_then: u64,
    /// Streams refused for lack of room, to be reported when there is some.
    blocked: BTreeSet<u64>,
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
            blocked: BTreeSet::new(),
        }
    }

    /// Room for writing, bytes.
    pub fn room(&self, connection: &quiche::Connection) -> usize {
        let repeated = connection.stats().stream_retrans_bytes - self.repeated_then;
        let sent = self.sent_since.saturating_sub(repeated);
        let buffered = (self.written - self.flushed).saturating_sub(sent);
        self.limit.saturating_sub(usize::try_from(buffered).unwrap_or(usize::MAX))
    }

    /// The application has written.
    pub fn on_written(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// A packet with stream data has left.
    pub fn on_sent(&mut self, stream_bytes: usize) {
        self.sent_since += stream_bytes as u64;
    }

    /// quiche has nothing left to send: what was estimated is known again.
    pub fn on_flushed(&mut self, connection: &quiche::Connection) {
        self.flushed = self.written;
        self.sent_since = 0;
        self.repeated_then = connection.stats().stream_retrans_bytes;
    }

    /// A stream was refused for lack of room.
    pub fn block(&mut self, stream_id: u64) {
        self.blocked.insert(stream_id);
    }

    /// A stream that was refused and can be written to now. An error counts as
    /// writable: writing is how the application learns of it.
    pub fn take_unblocked(&mut self, connection: &mut quiche::Connection) -> Option<u64> {
        let mut ids = self.blocked.iter().copied();
        let ready = ids.find(|id| connection.stream_capacity(*id) != Ok(0))?;
        self.blocked.remove(&ready);
        Some(ready)
    }
}
