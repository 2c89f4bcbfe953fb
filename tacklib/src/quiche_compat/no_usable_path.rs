//! Connections that quiche has left without a path.
//!
//! What: tells when the next datagram must not get to quiche before it has been asked for a packet.
//! Why: quiche (0.30) goes back to an older path when the validation of the one in use fails, for which
//! it is enough on a server that a timer expires once. If the peer stays where it is, quiche follows
//! it, and has no path that it thinks works until it has sent the challenge: one more datagram before
//! that, and it closes the connection with an internal error. Nor must its timer be handled before: two
//! paths are active then, and where one has probes to send quiche adds `usize::MAX` to the window of the other
//! (`delivery_rate_check_if_app_limited`): the sum wraps in release builds, where it does no harm, and
//! panics in debug builds. Upstream: not reported. To delete: when
//! quiche keeps a path whose validation is running.

use quiche::BufFactory;

/// Whether quiche has no path that it would send on: its send quantum is zero then.
pub fn is_without_path<F: BufFactory>(connection: &quiche::Connection<F>) -> bool {
    connection.send_quantum() == 0
}
