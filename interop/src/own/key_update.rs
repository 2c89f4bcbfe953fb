//! Key updates by our end (RFC 9001 section 6.1).

use tacklib::Connection;

/// Updates the keys of the connection. Fails with `InvalidState` as long as it is not allowed: before
/// the handshake is confirmed, and until the peer has followed the update before.
pub fn initiate(connection: &mut Connection) -> quiche::Result<()> {
    connection.initiate_key_update()
}
