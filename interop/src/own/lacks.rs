//! What our own end cannot do, and why.

use crate::cli::OwnKind;
use crate::contract::Role;

/// What an own end lacks for a test case in a role; `None` if nothing.
pub fn lacks(kind: OwnKind, test_case: &str, role: Role) -> Option<&'static str> {
    match (test_case, role) {
        ("chacha20", Role::Client) => Some(
            "BoringSSL offers all cipher suites of TLS 1.3 that it has, and lets none be left out",
        ),
        ("v2", _) => Some("quiche speaks QUIC version 1 alone"),
        ("connectionmigration", _) => {
            Some("quiche neither sends nor reads preferred_address (RFC 9000 section 9.6)")
        }
        ("ecn", _) => Some("quiche neither marks packets nor reports marks"),
        ("ackfrequency-received", _) if kind == OwnKind::Quiche => {
            Some("quiche knows no ACK_FREQUENCY")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_server_takes_a_suite_that_our_client_cannot_choose() {
        assert!(lacks(OwnKind::Tack, "chacha20", Role::Client).is_some());
        assert_eq!(lacks(OwnKind::Tack, "chacha20", Role::Server), None);
        assert_eq!(lacks(OwnKind::Tack, "transfer", Role::Client), None);
    }
}
