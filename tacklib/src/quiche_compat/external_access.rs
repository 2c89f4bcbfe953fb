//! What an application did with the quiche connection itself.
//!
//! What: notes that the application had `&mut quiche::Connection`, and tells whether something to send
//! may have come up. Why: whoever is given the quiche connection writes and reads streams that the layer
//! does not see, and quiche does not tell whether it has anything to send. What can be seen is whether
//! the room for writing has shrunk, a stream was opened or a DATAGRAM was queued. Upstream: no hook. To
//! delete: when quiche tells whether it has data to send.

use std::hash::{DefaultHasher, Hash, Hasher};

use quiche::BufFactory;

use super::stopped_streams::StoppedStreams;

/// Writable streams looked at; a connection with more is taken to have changed.
const MAX_STREAMS: usize = 64;

/// How the connection looked when the application last had it.
#[derive(Debug, Default)]
pub struct ExternalAccess {
    happened: bool,
    look: Option<u64>,
}

impl ExternalAccess {
    /// The application was given the quiche connection.
    pub fn on_access(&mut self) {
        self.happened = true;
    }

    /// Whether it was since the last [`take`](Self::take).
    pub fn has_happened(&self) -> bool {
        self.happened
    }

    /// Whether something to send may have come up since the last call.
    pub fn take<F: BufFactory>(
        &mut self,
        connection: &mut quiche::Connection<F>,
        stopped: &StoppedStreams,
    ) -> bool {
        self.happened = false;
        let look = look_at(connection, stopped);
        let changed = look.is_none() || look != self.look;
        self.look = look;
        changed
    }
}

/// What can be seen; `None` where there are too many streams.
fn look_at<F: BufFactory>(
    connection: &mut quiche::Connection<F>,
    stopped: &StoppedStreams,
) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    connection.peer_streams_left_bidi().hash(&mut hasher);
    connection.peer_streams_left_uni().hash(&mut hasher);
    connection.dgram_send_queue_len().hash(&mut hasher);
    connection.local_error().is_some().hash(&mut hasher);
    for (at, stream_id) in connection.writable().enumerate() {
        if at == MAX_STREAMS {
            return None;
        }
        if !stopped.contains(stream_id) {
            (stream_id, connection.stream_capacity(stream_id).ok()).hash(&mut hasher);
        }
    }
    Some(hasher.finish())
}
