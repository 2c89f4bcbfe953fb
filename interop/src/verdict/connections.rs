//! How many connections the clients made, and how these began.

use super::Evidence;
use crate::cases::Kind;
use crate::contract::Role;

/// Each client made one connection, or two where the test case is about the second; and the server
/// sent no Retry where the quic-interop-runner wants none.
pub fn as_expected(kind: Kind, evidence: &Evidence) -> Result<(), String> {
    let of_each_client = match kind {
        Kind::Resumption | Kind::ZeroRtt | Kind::RetryResumption => 2,
        _ => 1,
    };
    let (found, wanted) = (evidence.seen.connections.len(), evidence.clients * of_each_client);
    if found != wanted {
        return Err(format!("connections made: {found} instead of {wanted}"));
    }
    if matches!(kind, Kind::Handshake | Kind::Ecn) && evidence.seen.retries() > 0 {
        return Err(format!("{}, the server, sent a Retry", evidence.side(Role::Server)));
    }
    Ok(())
}
