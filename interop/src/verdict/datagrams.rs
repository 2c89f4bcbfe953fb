//! DATAGRAM frames (RFC 9221) from our end, which the peer's application returns.

use super::{Evidence, Side, Verdict};

/// The transport parameter `max_datagram_frame_size`, RFC 9221 section 3.
const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
/// The share of the datagrams that the peer acknowledged that it has to return. Nothing is repeated:
/// what the queue of the link or the socket of the peer loses counts for neither end, but the peer
/// may drop some that would have to wait (RFC 9221 section 5.4).
const RETURNED: f64 = 0.9;

/// The verdict on the datagrams.
pub fn judge(evidence: &Evidence) -> Verdict {
    if !evidence.peers_parameters().any(|id| id == MAX_DATAGRAM_FRAME_SIZE) {
        let reason = "it does not announce max_datagram_frame_size".to_owned();
        return Verdict::Unsupported { by: Side::Peer, reason };
    }
    let signals = evidence.our_signals();
    let (sent, returned) = (signals.datagrams, signals.datagrams_returned);
    let acknowledged = signals.datagrams_acknowledged;
    let note = format!(
        "our end sent {sent} DATAGRAM frames, the peer acknowledged {acknowledged} of them, and it \
         returned {returned} unchanged"
    );
    if acknowledged == 0 {
        Verdict::Fail {
            reason: format!("the peer acknowledged no DATAGRAM frame, of {sent} sent"),
        }
    } else if (returned as f64) < RETURNED * acknowledged as f64 {
        Verdict::Fail { reason: note }
    } else {
        Verdict::Pass { note: Some(note) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, good, reason};
    use super::*;
    use crate::wire::Greeting;

    #[test]
    fn a_peer_returns_most_of_the_datagrams_that_reach_it() {
        let mut evidence = good(PLAIN);
        let unable = judge(&evidence);
        assert!(matches!(unable, Verdict::Unsupported { by: Side::Peer, .. }), "{unable:?}");
        evidence.seen.greetings =
            vec![Greeting { client_parameters: vec![0x20], ..Greeting::default() }];
        evidence.seen.asked_of_client.datagrams = 100;
        assert!(reason(judge(&evidence)).contains("acknowledged no DATAGRAM frame"));
        evidence.seen.asked_of_client.datagrams_acknowledged = 90;
        evidence.seen.asked_of_client.datagrams_returned = 80;
        assert!(reason(judge(&evidence)).contains("acknowledged 90"));
        evidence.seen.asked_of_client.datagrams_returned = 81;
        assert!(matches!(judge(&evidence), Verdict::Pass { note: Some(_) }));
    }
}
