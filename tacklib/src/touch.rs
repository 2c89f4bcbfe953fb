//! What an application did with the quiche connection behind the layer's back.
//!
//! `quiche::h3`, and whoever else is given `&mut quiche::Connection`, reads and
//! writes streams that the layer does not see. What it can see is whether the
//! room for writing has shrunk, a stream was opened or a datagram was queued.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Writable streams looked at; a connection with more is taken to have changed.
const MAX_STREAMS: usize = 64;

/// Remembers how the connection looked.
#[derive(Debug, Default)]
pub struct Footprint {
    touched: bool,
    look: Option<u64>,
    /// Streams that are not looked at: asking quiche for the capacity of one that
    /// the peer has stopped would take the news from the application.
    stopped: BTreeSet<u64>,
}

impl Footprint {
    /// The application was given the quiche connection.
    pub fn touch(&mut self) {
        self.touched = true;
    }

    /// The peer has asked not to be sent on these streams.
    pub fn on_stopped(&mut self, stream_ids: &[u64]) {
        self.stopped.extend(stream_ids);
    }

    /// Whether it was since the last [`take`](Self::take).
    pub fn is_touched(&self) -> bool {
        self.touched
    }

    /// Whether something to send may have come up since the last call.
    pub fn take(&mut self, connection: &mut quiche::Connection) -> bool {
        self.touched = false;
        let look = self.look_at(connection);
        let changed = look.is_none() || look != self.look;
        self.look = look;
        changed
    }

    fn look_at(&mut self, connection: &mut quiche::Connection) -> Option<u64> {
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
