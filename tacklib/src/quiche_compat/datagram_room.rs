//! DATAGRAMs that fit into no packet (RFC 9221).
//!
//! What: tells the longest DATAGRAM that a packet of the validated size holds; a longer one is refused, or dropped when
//! packets become shorter. Why: quiche (0.30, `dgram_max_writable_len` and `send_single`) takes a DATAGRAM that fits into
//! the probe of the path MTU that it is about to send, and holds it back, with all that are queued behind it, until a
//! packet may be as long as that. This may be never. Upstream: not reported. To delete: when quiche refuses what exceeds
//! the validated size, and passes over what has come to; `tests/path_mtu.rs` has to pass without it.

use quiche::BufFactory;
use tack_packet::TAG_LEN;

/// What of a packet is not content of its DATAGRAM, beside the connection id: the first byte, the longest packet
/// number, the tag of the AEAD, and type and length of the frame.
const OVERHEAD: usize = 1 + 4 + TAG_LEN + 1 + 2;

/// The longest DATAGRAM in a packet of `size` bytes, bytes.
pub fn longest_datagram<F: BufFactory>(
    connection: &quiche::Connection<F>,
    size: usize,
) -> usize {
    size.saturating_sub(OVERHEAD + connection.destination_id().len())
}
