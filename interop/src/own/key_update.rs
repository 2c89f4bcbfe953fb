//! Key updates by our end (RFC 9001 section 6.1).

use tacklib::Connection;

/// Why this build cannot initiate a key update; `None` if it can.
pub const UNSUPPORTED: Option<&str> =
    Some("quiche follows key updates, and this build cannot initiate one");

/// Updates the keys of the connection. Fails if it cannot be done, or not yet.
pub fn initiate(_connection: &mut Connection) -> quiche::Result<()> {
    Err(quiche::Error::InvalidState)
}
