//! Packets to carry an acknowledgement.
//!
//! What: has quiche write a packet although it has nothing to send, so that the layer can put a TACK
//! or an ACK into it. Why: the layer cannot invent packets, because packet number and nonce would
//! collide with quiche's, and quiche writes an acknowledgement only while it thinks that it owes one
//! and the frame fits. Upstream: cloudflare/quiche issue 1538 asks for delayed acknowledgements; there
//! is no hook for frames of others. To delete: when quiche lets an application queue frames or decide
//! when to acknowledge.

use quiche::BufFactory;

/// Asks quiche to write a PING if it has nothing else, in the next packet of the active path.
///
/// The PING stays in the packet: quiche counts it as in flight and waits for its acknowledgement.
pub fn request_carrier<F: BufFactory>(
    connection: &mut quiche::Connection<F>,
) -> quiche::Result<()> {
    connection.send_ack_eliciting()
}
