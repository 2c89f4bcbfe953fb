//! What ACK_FREQUENCY saves: a transfer with TACK at our end, one with plain quiche, and one with
//! TACK again that asks the peer for nothing, so that only that is varied.
//!
//! What counts are packets without stream data. Most of them do nothing but acknowledge, but some
//! stacks put a window update into each, and nobody can tell which of the two was the reason.

use std::fmt;

use super::{Evidence, Side, Verdict};

/// The part of the ACK packets that ACK_FREQUENCY has to save.
const SAVED_ACKS: f64 = 0.8;
/// The part of the goodput that has to stay; two runs in real time are never quite equal.
const KEPT_GOODPUT: f64 = 0.9;

/// The verdict on transfers that went well by themselves.
pub fn judge_so_far(made: &[Evidence]) -> Option<Verdict> {
    match made {
        [with] => without_announcement(with),
        [with, plain] => judge_tacks(with, plain),
        [with, plain, unasked] => Some(judge(with, plain, unasked)),
        _ => None,
    }
}

fn without_announcement(with: &Evidence) -> Option<Verdict> {
    let announced = with.seen.receiver(with.to_peer()).unwrap_or_default();
    let reason = "it announces no min_ack_delay".to_owned();
    (!announced.tack && announced.min_ack_delay_us.is_none())
        .then_some(Verdict::Unsupported { by: Side::Peer, reason })
}

/// A TACK peer is not asked by ACK_FREQUENCY how often to acknowledge.
fn judge_tacks(with: &Evidence, plain: &Evidence) -> Option<Verdict> {
    let announced = with.seen.receiver(with.to_peer()).unwrap_or_default();
    let note = || format!("TACK: {}", Savings { with, without: plain, than: "plain quiche" });
    match with.peers().tacks {
        _ if !announced.tack => None,
        0 => Some(Verdict::Fail { reason: "it announced TACK and sent none".to_owned() }),
        _ => Some(Verdict::Pass { note: Some(note()) }),
    }
}

fn judge(with: &Evidence, plain: &Evidence, unasked: &Evidence) -> Verdict {
    let frames = |evidence: &Evidence| evidence.seen.counters(evidence.to_peer()).ack_frequency;
    let savings = Savings { with, without: unasked, than: "without ACK_FREQUENCY" };
    let beside = Savings { with, without: plain, than: "with plain quiche" };
    let note = format!("{savings}; {beside}");
    let fail = |what: &str| Verdict::Fail { reason: format!("{what}: {note}") };
    if frames(with) == 0 {
        fail("our end sent no ACK_FREQUENCY")
    } else if frames(unasked) > 0 {
        fail("our end sent ACK_FREQUENCY where it was told not to")
    } else if savings.saved() < SAVED_ACKS {
        fail("too many ACK packets")
    } else if with.goodput() < KEPT_GOODPUT * unasked.goodput() {
        fail("slower than without")
    } else {
        Verdict::Pass { note: Some(note) }
    }
}

/// Two transfers side by side.
struct Savings<'a> {
    with: &'a Evidence,
    without: &'a Evidence,
    than: &'static str,
}

impl Savings<'_> {
    /// The part of the ACK packets that is saved.
    fn saved(&self) -> f64 {
        1.0 - acks(self.with) / acks(self.without).max(1e-9)
    }
}

impl fmt::Display for Savings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { with, without, than } = *self;
        write!(
            f,
            "{:.0} ACK packets for 1000 data packets, {than} {:.0} ({:+.1} %), without those that \
             carry a window update too {:.0} and {:.0}; {:.1} and {:.1} Mbit/s",
            1000.0 * acks(with),
            1000.0 * acks(without),
            -100.0 * self.saved(),
            1000.0 * with.for_each_data_packet(with.peers().ack_packets),
            1000.0 * without.for_each_data_packet(without.peers().ack_packets),
            with.goodput() / 1e6,
            without.goodput() / 1e6
        )?;
        let late = with.late + without.late;
        if late > 0 {
            write!(f, "; the machine was busy: {late} datagrams were delivered late")?;
        }
        Ok(())
    }
}

/// Packets of the peer without data, for each data packet of ours.
fn acks(evidence: &Evidence) -> f64 {
    let peers = evidence.peers();
    evidence.for_each_data_packet(peers.packets.saturating_sub(peers.data_packets))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FREQUENCY, PLAIN, TACK, good, reason};
    use super::*;
    use crate::wire::Announced;

    fn with_acks(peer: Announced, acks: u64, ack_frequency: u64) -> Evidence {
        let mut evidence = good(peer);
        evidence.seen.to_server.packets = acks + 1;
        evidence.seen.to_server.data_packets = 1;
        evidence.seen.to_server.ack_packets = acks / 2;
        evidence.seen.to_client.ack_frequency = ack_frequency;
        evidence
    }

    fn judged(with: Evidence) -> Verdict {
        let plain = with_acks(FREQUENCY, 300, 0);
        let unasked = with_acks(FREQUENCY, 500, 0);
        judge_so_far(&[with, plain, unasked]).unwrap()
    }

    #[test]
    fn ack_frequency_has_to_save_four_fifths_of_the_acks_that_come_without_it() {
        let passed = judged(with_acks(FREQUENCY, 99, 1));
        let Verdict::Pass { note: Some(note) } = passed else { panic!("{passed:?}") };
        assert!(note.contains("without ACK_FREQUENCY 500 (-80.2 %)"), "{note}");
        assert!(note.contains("with plain quiche 300 (-67.0 %)"), "{note}");
        let failed = reason(judged(with_acks(FREQUENCY, 101, 1)));
        assert!(failed.starts_with("too many ACK packets: 101"), "{failed}");
        let failed = reason(judged(with_acks(FREQUENCY, 99, 0)));
        assert!(failed.starts_with("our end sent no ACK_FREQUENCY"), "{failed}");
    }

    #[test]
    fn ack_frequency_must_not_cost_goodput() {
        let mut with = with_acks(FREQUENCY, 50, 1);
        with.seen.data_seconds = 1.2;
        with.late = 3;
        let failed = reason(judged(with));
        assert!(failed.starts_with("slower than without"), "{failed}");
        assert!(failed.ends_with("3 datagrams were delivered late"), "{failed}");
    }

    #[test]
    fn where_nothing_was_to_be_asked_nothing_is() {
        let asked = with_acks(FREQUENCY, 500, 1);
        let made = [with_acks(FREQUENCY, 50, 1), with_acks(FREQUENCY, 300, 0), asked];
        assert!(reason(judge_so_far(&made).unwrap()).contains("told not to"));
    }

    #[test]
    fn a_peer_without_min_ack_delay_does_not_support_ack_frequency() {
        let verdict = judge_so_far(&[good(PLAIN)]);
        assert!(
            matches!(verdict, Some(Verdict::Unsupported { by: Side::Peer, .. })),
            "{verdict:?}"
        );
        assert_eq!(judge_so_far(&[good(FREQUENCY)]), None);
        assert_eq!(judge_so_far(&[good(FREQUENCY), good(FREQUENCY)]), None);
    }

    #[test]
    fn a_tack_peer_is_compared_with_plain_quiche_alone() {
        let mut with = with_acks(TACK, 50, 1);
        assert_eq!(judge_so_far(std::slice::from_ref(&with)), None);
        let plain = with_acks(TACK, 500, 0);
        let silent = judge_so_far(&[with.clone(), plain.clone()]).unwrap();
        assert!(reason(silent).contains("sent none"));
        with.seen.to_server.tacks = 50;
        let passed = judge_so_far(&[with, plain]);
        assert!(matches!(passed, Some(Verdict::Pass { note: Some(_) })), "{passed:?}");
    }
}
