//! DATAGRAM frames (RFC 9221) from our end, which the peer's application returns.

use super::{Evidence, Side, Verdict};

/// The transport parameter `max_datagram_frame_size`, RFC 9221 section 3.
const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
/// The share of the datagrams that has to come back. They are not repeated, and the queue of the
/// link may lose some.
const RETURNED: f64 = 0.9;

/// The verdict on the datagrams.
pub fn judge(evidence: &Evidence) -> Verdict {
    if !evidence.peers_parameters().any(|id| id == MAX_DATAGRAM_FRAME_SIZE) {
        let reason = "it does not announce max_datagram_frame_size".to_owned();
        return Verdict::Unsupported { by: Side::Peer, reason };
    }
    let signals = evidence.our_signals();
    let (sent, returned) = (signals.datagrams, signals.datagrams_returned);
    let note = format!("{returned} of {sent} DATAGRAM frames of our end came back unchanged");
    if sent == 0 {
        Verdict::Fail { reason: "our end sent no DATAGRAM frame".to_owned() }
    } else if (returned as f64) < RETURNED * sent as f64 {
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
    fn most_datagrams_have_to_come_back_from_a_peer_that_takes_them() {
        let mut evidence = good(PLAIN);
        let unable = judge(&evidence);
        assert!(matches!(unable, Verdict::Unsupported { by: Side::Peer, .. }), "{unable:?}");
        evidence.seen.greetings =
            vec![Greeting { client_parameters: vec![0x20], ..Greeting::default() }];
        assert!(reason(judge(&evidence)).contains("sent no DATAGRAM"));
        evidence.seen.asked_of_client.datagrams = 100;
        evidence.seen.asked_of_client.datagrams_returned = 89;
        assert!(reason(judge(&evidence)).starts_with("89 of 100"));
        evidence.seen.asked_of_client.datagrams_returned = 90;
        assert!(matches!(judge(&evidence), Verdict::Pass { note: Some(_) }));
    }
}
