//! What our own end cannot do, and why.

use crate::cases::Kind;
use crate::contract::Role;
use crate::own_kind::OwnKind;

/// What our end lacks for a test case in a role; `None` if nothing.
pub fn lacks(kind: OwnKind, case: Kind, role: Role) -> Option<&'static str> {
    match (case, role) {
        (Kind::ChaCha20, Role::Client) => Some(
            "BoringSSL offers all cipher suites of TLS 1.3 that it has, and lets none be left out",
        ),
        (Kind::Version2, _) => Some("quiche speaks QUIC version 1 alone"),
        (Kind::Migration, _) => {
            Some("quiche neither sends nor reads preferred_address (RFC 9000 section 9.6)")
        }
        (Kind::Ecn, _) if kind == OwnKind::Quiche => {
            Some("quiche neither marks packets nor reports marks")
        }
        (Kind::AckFrequencyReceived, _) if kind == OwnKind::Quiche => {
            Some("quiche knows no ACK_FREQUENCY")
        }
        _ => None,
    }
}

/// What it lacks where it plays the peer.
pub fn lacks_as_peer(kind: OwnKind, case: Kind, role: Role) -> Option<&'static str> {
    match case {
        Kind::EmptyIds | Kind::LongIds => {
            Some("the connection ids of this project's endpoint have one length")
        }
        Kind::KeyUpdate if kind == OwnKind::Quiche => {
            Some("quiche follows key updates and initiates none")
        }
        _ => lacks(kind, case, role),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_server_takes_a_suite_that_our_client_cannot_choose() {
        assert!(lacks(OwnKind::Tack, Kind::ChaCha20, Role::Client).is_some());
        assert_eq!(lacks(OwnKind::Tack, Kind::ChaCha20, Role::Server), None);
        assert_eq!(lacks(OwnKind::Tack, Kind::Transfer, Role::Client), None);
    }

    #[test]
    fn plain_quiche_initiates_no_key_update_but_follows_that_of_our_end() {
        for role in [Role::Client, Role::Server] {
            assert_eq!(lacks(OwnKind::Tack, Kind::KeyUpdateByUs, role), None);
            assert_eq!(lacks_as_peer(OwnKind::Tack, Kind::KeyUpdate, role), None);
            assert!(lacks_as_peer(OwnKind::Quiche, Kind::KeyUpdate, role).is_some());
            assert_eq!(lacks_as_peer(OwnKind::Quiche, Kind::KeyUpdateByUs, role), None);
        }
    }

    #[test]
    fn our_end_needs_no_ids_of_another_length_to_serve_a_peer_that_has_them() {
        for case in [Kind::EmptyIds, Kind::LongIds] {
            assert_eq!(lacks(OwnKind::Tack, case, Role::Server), None);
            assert!(lacks_as_peer(OwnKind::Quiche, case, Role::Client).is_some());
        }
    }
}
