//! Path challenges for which there is no room.
//!
//! What: tells when to name the active path to quiche, because a challenge to another one may block it. Why: quiche
//! (0.30) sends a challenge before anything else. While the anti-amplification limit of that challenge's address
//! (RFC 9000 section 8.1) leaves no room for it, a server sends nothing over any path, until the idle timeout. An
//! attacker who forwards one of the client's datagrams from another address can cause that. quiche does not look for
//! challenges if the caller names the path. Upstream: not reported. To delete: when quiche skips paths whose limit
//! leaves no room.

use quiche::{BufFactory, PathStats};

use super::AddressPair;

/// Whether a challenge to another path may be why quiche writes nothing, where the peer sends over the active path.
#[cold]
pub fn may_be_blocked<F: BufFactory>(
    connection: &quiche::Connection<F>,
    (local, peer): AddressPair,
) -> bool {
    let is_in_use =
        |path: &PathStats| path.active && path.local_addr == local && path.peer_addr == peer;
    // Packets for a path that the peer has left would be lost. And with two active paths quiche panics in debug
    // builds if one has packets in flight (`no_usable_path.rs`).
    let (in_use, others): (Vec<_>, Vec<_>) = connection.path_stats().partition(is_in_use);
    let is_unproven = |path: &PathStats| {
        connection.is_path_validated(path.local_addr, path.peer_addr) == Ok(false)
    };
    !in_use.is_empty()
        && !others.iter().any(|path| path.active)
        && others.iter().any(is_unproven)
}
