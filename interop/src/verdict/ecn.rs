//! Packets are marked for ECN, and marks are reported (RFC 9000 section 13.4).

use super::{Evidence, Side, Verdict, opposite};
use crate::wire::Signals;

/// The verdict on marks and counts of both ends.
///
/// Packets under other than 1-RTT keys are left out: RFC 9000 section 13.4.2 has each end choose which
/// packets it marks, and our end neither marks nor reports others.
pub fn judge(evidence: &Evidence) -> Verdict {
    let to_peer = evidence.to_peer();
    let (ours, peers) = (evidence.seen.asked(to_peer), evidence.seen.asked(opposite(to_peer)));
    let note = format!(
        "our end marked {} packets, and the peer reported {}; the peer marked {}, and our end \
         reported {}",
        ours.marked, peers.reported_marks, peers.marked, ours.reported_marks
    );
    if ours.marked == 0 {
        return Verdict::Fail { reason: format!("our end marked no packet: {note}") };
    }
    if let Err(reason) = reports(peers, ours) {
        return Verdict::Fail { reason: format!("our end {reason}: {note}") };
    }
    if peers.ecn_acks == 0 {
        // An end without access to the marks that reach it may stay silent, and may mark all the
        // same (RFC 9000 section 13.4.1): the wire does not tell whether it has that access.
        let lacks = if peers.marked == 0 {
            "it neither marks packets nor reports marks"
        } else {
            "it marks packets but reports no marks"
        };
        return Verdict::Unsupported { by: Side::Peer, reason: format!("{lacks}: {note}") };
    }
    if let Err(reason) = reports(ours, peers) {
        return Verdict::Fail { reason: format!("the peer {reason}: {note}") };
    }
    Verdict::Pass { note: Some(note) }
}

/// Whether the end that `answers` reports what reached it of what the other one marked.
fn reports(marks: &Signals, answers: &Signals) -> Result<(), &'static str> {
    if answers.reported_marks > marks.marked_arrived {
        return Err("reports more marks than reached it");
    }
    if marks.marked_arrived > 0 && answers.reported_marks == 0 {
        return Err("reports none of the marks that reached it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PLAIN, good, reason};
    use super::*;

    /// Our end marked ten packets of which nine arrived; what the peer reported and marked, and
    /// what our end reported of that.
    fn judged(peer_reports: u64, peer_marks: u64, we_report: u64) -> Verdict {
        let mut evidence = good(PLAIN);
        let ours = Signals {
            marked: 10,
            marked_arrived: 9,
            reported_marks: we_report,
            ecn_acks: u64::from(we_report > 0),
            ..Signals::default()
        };
        let peers = Signals {
            marked: peer_marks,
            marked_arrived: peer_marks,
            reported_marks: peer_reports,
            ecn_acks: u64::from(peer_reports > 0),
            ..Signals::default()
        };
        let is_to_server = evidence.to_peer() == tack_tap::Direction::ToServer;
        let (to_server, to_client) = if is_to_server { (ours, peers) } else { (peers, ours) };
        evidence.seen.asked_of_server = to_server;
        evidence.seen.asked_of_client = to_client;
        judge(&evidence)
    }

    #[test]
    fn both_ends_report_what_reached_them() {
        assert!(matches!(judged(9, 5, 5), Verdict::Pass { .. }));
        assert!(
            matches!(judged(9, 0, 0), Verdict::Pass { .. }),
            "a peer may count and not mark"
        );
        assert!(reason(judged(9, 5, 0)).starts_with("our end reports none"));
        assert!(reason(judged(9, 5, 6)).starts_with("our end reports more"));
        assert!(reason(judged(10, 5, 5)).starts_with("the peer reports more"));
    }

    #[test]
    fn a_peer_that_reports_nothing_lacks_it_whether_or_not_it_marks() {
        for (marked, what) in [(0, "it neither marks"), (5, "it marks packets but reports no")]
        {
            match judged(0, marked, marked) {
                Verdict::Unsupported { by: Side::Peer, reason } => {
                    assert!(reason.starts_with(what), "{reason}");
                }
                verdict => panic!("{verdict:?}"),
            }
        }
        assert!(reason(judged(0, 5, 0)).starts_with("our end reports none"));
    }
}
