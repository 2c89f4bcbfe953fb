//! What an application did with the quiche connection itself.
//!
//! What: notes that the application had `&mut quiche::Connection`, and tells whether something to send
//! may have come up. Why: whoever is given the quiche connection writes and reads streams that the layer
//! does not see, and quiche does not tell whether it has anything to send. What can be seen is whether
//! the room for writing has shrunk, a stream was opened or a DATAGRAM was queued. Upstream: no hook. To
//! delete: when quiche tells whether it has data to send.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use quiche::BufFactory;

/// Writable streams looked at; a connection with more is taken to have changed.
const MAX_STREAMS: usize = 64;

/// So many streams that the peer has stopped are remembered before it is asked which of them are over.
const MOST_STOPPED: usize = 64;

/// How the connection looked when the application last had it.
#[derive(Debug, Default)]
pub struct ExternalAccess {
    happened: bool,
    look: Option<u64>,
    /// Streams that are not looked at: asking quiche for the capacity of one that
    /// the peer has stopped would take the news from the application.
    stopped: BTreeSet<u64>,
    /// At so many of them those are forgotten that are over.
    tidies_at: usize,
}

impl ExternalAccess {
    /// The application was given the quiche connection.
    pub fn on_access(&mut self) {
        self.happened = true;
    }

    /// The peer has asked not to be sent on these streams.
    pub fn on_stopped<F: BufFactory>(
        &mut self,
        connection: &quiche::Connection<F>,
        stream_ids: &[u64],
    ) {
        self.stopped.extend(stream_ids);
        if self.stopped.len() > self.tidies_at.max(MOST_STOPPED) {
            self.stopped.retain(|id| !connection.stream_closed(*id));
            self.tidies_at = 2 * self.stopped.len();
        }
    }

    /// Whether it was since the last [`take`](Self::take).
    pub fn has_happened(&self) -> bool {
        self.happened
    }

    /// Whether something to send may have come up since the last call.
    pub fn take<F: BufFactory>(&mut self, connection: &mut quiche::Connection<F>) -> bool {
        self.happened = false;
        let look = self.look_at(connection);
        let changed = look.is_none() || look != self.look;
        self.look = look;
        changed
    }

    fn look_at<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
    ) -> Option<u64> {
        self.stopped.retain(|id| !connection.stream_closed(*id));
        let mut hasher = DefaultHasher::new();
        connection.peer_streams_left_bidi().hash(&mut hasher);
        connection.peer_streams_left_uni().hash(&mut hasher);
        connection.dgram_send_queue_len().hash(&mut hasher);
        connection.local_error().is_some().hash(&mut hasher);
        for (at, stream_id) in connection.writable().enumerate() {
            if at == MAX_STREAMS {
                return None;
            }
            if !self.stopped.contains(&stream_id) {
                (stream_id, connection.stream_capacity(stream_id).ok()).hash(&mut hasher);
            }
        }
        Some(hasher.finish())
    }
}
