//! Challenges for which there is no room.
//!
//! What: tells when quiche is to write for the path in use, because a challenge to another one may hold it up. Why: quiche (0.30)
//! sends a challenge before all else, and over no path anything while a server may not send the address that
//! it is for as much as it needs (RFC 9000 section 8.1). Whoever sends on one of the client's datagrams from another
//! address can bring that about, and it lasts until the connection is idle for too long. quiche does not look
//! for challenges when it is told which path to write for. Upstream: not reported. To delete: when quiche passes over
//! paths that may not be sent what it has for them.

use quiche::{BufFactory, PathStats};

use super::AddressPair;

/// Whether quiche, which has written nothing for any path, may have a challenge for another than the one in use, where
/// the peer is.
#[cold]
pub fn may_be_blocked<F: BufFactory>(
    connection: &quiche::Connection<F>,
    (local, peer): AddressPair,
) -> bool {
    let is_in_use =
        |path: &PathStats| path.active && path.local_addr == local && path.peer_addr == peer;
    // What is sent where the peer is not would only be lost. And if quiche takes two paths to be in use, it panics in
    // debug builds where one has something in flight (`no_usable_path.rs`).
    let (in_use, others): (Vec<_>, Vec<_>) = connection.path_stats().partition(is_in_use);
    let is_unproven = |path: &PathStats| {
        connection.is_path_validated(path.local_addr, path.peer_addr) == Ok(false)
    };
    !in_use.is_empty()
        && !others.iter().any(|path| path.active)
        && others.iter().any(is_unproven)
}
