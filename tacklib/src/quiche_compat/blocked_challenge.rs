//! Challenges for which there is no room.
//!
//! What: finds the path that quiche is to write for, where a challenge to another one holds it up. Why: quiche (0.30)
//! sends a challenge before all else, and over no path anything while a server may not send the address that
//! it is for as much as it needs (RFC 9000 section 8.1). Whoever sends on one of the client's datagrams from another
//! address can bring that about, and it lasts until the connection is idle for too long. quiche does not look
//! for challenges when it is told which path to write for. Upstream: not reported. To delete: when quiche passes over
//! paths that may not be sent what it has for them.

use quiche::{BufFactory, PathStats};

use super::AddressPair;

/// The path in use, if quiche, which has written nothing for any path, may have a challenge for another that is not
/// proven.
#[cold]
pub fn path_beside_blocked_challenge<F: BufFactory>(
    connection: &quiche::Connection<F>,
) -> Option<AddressPair> {
    let active = connection.path_stats().find(|path| path.active)?;
    let is_unproven = |path: PathStats| {
        !path.active && connection.is_path_validated(path.local_addr, path.peer_addr) == Ok(false)
    };
    connection.path_stats().any(is_unproven).then_some((active.local_addr, active.peer_addr))
}
