//! When quiche may have MAX_STREAMS to send.
//!
//! What: tells whether quiche has just done with a stream of the peer. Why: MAX_STREAMS that waits with an
//! acknowledgement stops a peer that has opened all streams it may and sends nothing more: no acknowledgement
//! is due then. quiche does not say when it has one. It sends one when it has done with a stream of the peer and the
//! peer may open half as many as at first, or less (0.30, `should_update_max_streams_uni`). How many the peer has
//! opened is in packets that the layer does not read, so quiche is asked about each stream that it has done with;
//! a question in vain costs no packet but the acknowledgement of the stream's end, which is due then anyway.
//! Upstream: no hook. To delete: when quiche tells whether it has anything to send but an acknowledgement.

use quiche::BufFactory;

/// Whether quiche has done with a stream that the peer has opened, and may let it open another.
pub fn gives_back_stream<F: BufFactory>(
    connection: &quiche::Connection<F>,
    stream_id: u64,
) -> bool {
    // RFC 9000 section 2.1: bit 0 is the initiator.
    let is_own = (stream_id & 1 == 1) == connection.is_server();
    !is_own && connection.stream_closed(stream_id)
}
