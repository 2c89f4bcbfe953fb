//! TIMESTAMP frames (draft-huitema-quic-ts-08) of the peer: each costs bytes in a packet, and our
//! end uses those of TACK peers alone.

use super::{Evidence, Verdict};

/// A peer sends TIMESTAMP if our end announces that it takes them, which it should do to TACK peers
/// only.
pub fn judge(evidence: &Evidence) -> Verdict {
    let mut sent = 0;
    let from_peer = super::opposite(evidence.to_peer());
    for connection in &evidence.seen.connections {
        let count = connection.counters(from_peer).timestamps;
        let ours = connection.receiver(from_peer).unwrap_or_default();
        let peers = connection.receiver(evidence.to_peer()).unwrap_or_default();
        sent += count;
        if count == 0 || (ours.tack && peers.tack) {
            continue;
        }
        let packets = connection.counters(from_peer).packets;
        let reason = if ours.timestamp {
            format!(
                "our end announces that it takes TIMESTAMP and does not use it: the peer sent \
                 {count} in {packets} packets"
            )
        } else {
            format!(
                "the peer sent {count} TIMESTAMP frames in {packets} packets, and our end had not \
                 announced that it takes them"
            )
        };
        return Verdict::Fail { reason };
    }
    Verdict::Pass { note: Some(format!("{sent} TIMESTAMP frames of the peer")) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, TACK, good, reason};
    use super::*;
    use crate::wire::Announced;

    fn judged(ours: Announced, peer: Announced, timestamps: u64) -> Verdict {
        let mut evidence = good(peer);
        evidence.seen.connections[0].server = Some(ours);
        evidence.seen.connections[0].to_server.timestamps = timestamps;
        judge(&evidence)
    }

    #[test]
    fn only_a_tack_peer_is_to_send_timestamps() {
        let asking = Announced { timestamp: true, ..TACK };
        assert!(matches!(judged(asking, TACK, 9), Verdict::Pass { .. }));
        assert!(matches!(judged(asking, PLAIN, 0), Verdict::Pass { .. }));
        let unused = reason(judged(asking, PLAIN, 450));
        assert!(unused.starts_with("our end announces"), "{unused}");
        assert!(unused.ends_with("450 in 500 packets"), "{unused}");
        let unasked = reason(judged(TACK, PLAIN, 1));
        assert!(unasked.starts_with("the peer sent 1 TIMESTAMP"), "{unasked}");
    }
}
