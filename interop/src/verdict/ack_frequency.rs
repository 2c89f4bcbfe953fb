//! What ACK_FREQUENCY saves: a transfer with TACK at our end, one with plain quiche, and one with
//! TACK again that asks the peer for nothing, so that the request is the only difference.
//!
//! Packets without stream data are counted. Most of them only acknowledge; some stacks put a window
//! update into each, and the wire does not show which of the two was the reason. The count is held
//! against what the frames that reached the peer allow it. Time decides nothing here: a busy
//! machine delays packets, but makes no end acknowledge more of them.

use std::fmt;

use super::{Evidence, Side, Verdict};
use crate::wire::{Frequency, Signals};

/// Acknowledgements and window updates together: one of each for an acknowledgement that is
/// allowed.
const WITH_WINDOW_UPDATES: f64 = 2.0;
/// The share of the packets without a request that is tolerated above the bound: an acknowledgement
/// for what arrives out of order, and window updates at the peer's own rate.
const TOLERATED: f64 = 0.1;
/// A peer may acknowledge earlier than it was asked to. One that counts no further than this, as
/// quicly does, has to halve its acknowledgements at least.
const LEAST_COUNT: u64 = 10;
const LEAST_SAVED: f64 = 0.5;
/// Goodput counts as kept from this ratio on. It is reported and decides nothing.
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

/// ACK_FREQUENCY between TACK peers has another meaning: no bound follows from it.
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
    let bound = Bound::new(with, unasked);
    let savings = Savings { with, without: unasked, than: "without ACK_FREQUENCY" };
    let beside = Savings { with, without: plain, than: "with plain quiche" };
    let goodput = goodput(with, unasked);
    let note = format!("{savings}; {bound}; {goodput}; {beside}");
    let fail = |what: &str| Verdict::Fail { reason: format!("{what}: {note}") };
    if frames(with) == 0 {
        fail("our end sent no ACK_FREQUENCY")
    } else if frames(unasked) > 0 {
        fail("our end sent ACK_FREQUENCY where it was told not to")
    } else if bound.asks_for_nothing(with, unasked) {
        let what = "its frames ask for no fewer acknowledgements than come without them";
        Verdict::Unsupported { by: Side::Ours, reason: format!("{what}: {note}") }
    } else if !bound.is_kept(with, unasked) {
        fail("the peer sent more ACK packets than the frames allow")
    } else {
        Verdict::Pass { note: Some(note) }
    }
}

fn goodput(with: &Evidence, unasked: &Evidence) -> String {
    let ratio = with.goodput() / unasked.goodput().max(1e-9);
    let kept = if ratio >= KEPT_GOODPUT { "kept" } else { "not kept" };
    format!(
        "goodput {ratio:.2} of that without ACK_FREQUENCY, which counts as {kept} (from \
         {KEPT_GOODPUT} on) and decides nothing"
    )
}

/// The packets without data that the peer may send for each of our data packets.
struct Bound {
    /// As the frames say.
    asked: f64,
    /// If it counts no further than [`LEAST_COUNT`].
    counting: f64,
    /// Those that only acknowledge, as the frames say: no window update is among them.
    only_acks: f64,
    frames: usize,
}

impl Bound {
    fn new(with: &Evidence, unasked: &Evidence) -> Self {
        let tolerated = TOLERATED * acks(unasked);
        let of = |most| with.for_each_data_packet_of(allowed(with, most));
        Self {
            asked: WITH_WINDOW_UPDATES * of(u64::MAX) + tolerated,
            counting: of(LEAST_COUNT) + tolerated,
            only_acks: of(u64::MAX) + TOLERATED * only_acks(unasked),
            frames: in_force(with.our_signals()).len(),
        }
    }

    /// Whether a peer that heeds no frame keeps to the bound: window updates have their share in
    /// it, and may be no more than without.
    fn shows_nothing(&self, unasked: &Evidence) -> bool {
        self.asked >= acks(unasked)
    }

    /// Whether that is so of the packets that only acknowledge too, and the peer has not saved so
    /// much that it must have heeded a frame.
    fn asks_for_nothing(&self, with: &Evidence, unasked: &Evidence) -> bool {
        self.shows_nothing(unasked)
            && self.only_acks >= only_acks(unasked)
            && !are_halved(with, unasked)
    }

    fn is_kept(&self, with: &Evidence, unasked: &Evidence) -> bool {
        let halved = are_halved(with, unasked);
        if self.shows_nothing(unasked) {
            return halved || only_acks(with) <= self.only_acks;
        }
        acks(with) <= self.asked || (acks(with) <= self.counting && halved)
    }
}

fn are_halved(with: &Evidence, unasked: &Evidence) -> bool {
    acks(with) <= (1.0 - LEAST_SAVED) * acks(unasked)
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} frames reached it and allow {:.0} ({:.0} that only acknowledge), or {:.0} to a \
             peer that counts to {LEAST_COUNT} at most",
            self.frames,
            1000.0 * self.asked,
            1000.0 * self.only_acks,
            1000.0 * self.counting
        )
    }
}

/// The frames that reached the peer, in their order.
fn in_force(signals: &Signals) -> Vec<&Frequency> {
    signals.frequencies.iter().filter(|frame| frame.arrived).collect()
}

/// The acknowledgements that the peer may send by draft-ietf-quic-ack-frequency-14 section 6: every
/// packet's until the first frame has come; from then on one for each count or delay that is
/// asked for, whichever comes first; and one at once for each IMMEDIATE_ACK and each gap. No delay
/// is shorter than the `min_ack_delay` that it announced. It counts to `most` packets.
fn allowed(evidence: &Evidence, most: u64) -> f64 {
    let signals = evidence.our_signals();
    let announced = evidence.seen.receiver(evidence.to_peer()).unwrap_or_default();
    let frames = in_force(signals);
    let end = Frequency {
        packets_before: signals.ack_eliciting,
        at_seconds: signals.ack_eliciting_until_seconds,
        ..Frequency::default()
    };
    let ends = frames.iter().copied().skip(1).chain([&end]);
    let first = frames.first().map_or(signals.ack_eliciting, |frame| frame.packets_before);
    let asked = frames.iter().zip(ends).map(|(frame, next)| {
        let count = frame.threshold.saturating_add(1).min(most);
        let delay_us = frame.max_ack_delay_us.max(announced.min_ack_delay_us.unwrap_or(0));
        let packets = next.packets_before.saturating_sub(frame.packets_before);
        let seconds = (next.at_seconds - frame.at_seconds).max(0.0);
        packets as f64 / count as f64 + seconds * 1e6 / delay_us.max(1) as f64
    });
    let to_peer = evidence.to_peer();
    let lost: u64 = evidence.seen.connections.iter().map(|seen| seen.sizes(to_peer).lost).sum();
    let at_once = lost + evidence.seen.counters(to_peer).immediate_acks;
    (first + at_once) as f64 + asked.sum::<f64>()
}

/// Two transfers side by side.
struct Savings<'a> {
    with: &'a Evidence,
    without: &'a Evidence,
    than: &'static str,
}

impl fmt::Display for Savings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { with, without, than } = *self;
        let saved = 1.0 - acks(with) / acks(without).max(1e-9);
        write!(
            f,
            "{:.0} ACK packets for 1000 data packets, {than} {:.0} ({:+.1} %), without those that \
             carry a window update too {:.0} and {:.0}; {:.1} and {:.1} Mbit/s",
            1000.0 * acks(with),
            1000.0 * acks(without),
            -100.0 * saved,
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

/// Packets of the peer that only acknowledge, for each data packet of ours.
fn only_acks(evidence: &Evidence) -> f64 {
    evidence.for_each_data_packet(evidence.peers().ack_packets)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FREQUENCY, PLAIN, TACK, good, reason};
    use super::*;
    use crate::wire::Announced;

    /// Our server sends 1000 packets in a second.
    fn with_acks(peer: Announced, acks: u64, frames: &[Frequency]) -> Evidence {
        let mut evidence = good(peer);
        evidence.seen.to_server.packets = acks + 1;
        evidence.seen.to_server.data_packets = 1;
        evidence.seen.to_server.ack_packets = acks / 2;
        evidence.seen.to_client.ack_frequency = frames.len() as u64;
        evidence.seen.asked_of_client = Signals {
            frequencies: frames.to_vec(),
            ack_eliciting: 1000,
            ack_eliciting_until_seconds: 1.0,
            ..Signals::default()
        };
        evidence
    }

    /// One acknowledgement for a hundred packets, or for 25 ms.
    const ASKED: Frequency = Frequency {
        sequence: 0,
        threshold: 99,
        max_ack_delay_us: 25_000,
        at_seconds: 0.0,
        packets_before: 0,
        arrived: true,
    };

    fn judged(with: Evidence) -> Verdict {
        let plain = with_acks(FREQUENCY, 300, &[]);
        let unasked = with_acks(FREQUENCY, 500, &[]);
        judge_so_far(&[with, plain, unasked]).unwrap()
    }

    #[test]
    fn a_peer_has_to_keep_to_the_count_and_the_delay_that_it_was_asked_for() {
        // 10 by the count and 40 by the delay, twice as many with window updates, and a tenth of
        // 500.
        let passed = judged(with_acks(FREQUENCY, 150, &[ASKED]));
        let Verdict::Pass { note: Some(note) } = passed else { panic!("{passed:?}") };
        assert!(note.contains("without ACK_FREQUENCY 500 (-70.0 %)"), "{note}");
        assert!(note.contains("1 frames reached it and allow 150 (75 that only"), "{note}");
        assert!(note.contains("with plain quiche 300 (-50.0 %)"), "{note}");
        // Beyond that only a peer that counts to ten: 100 and 40, and a tenth.
        let capped = judged(with_acks(FREQUENCY, 190, &[ASKED]));
        assert!(matches!(capped, Verdict::Pass { .. }), "{capped:?}");
        let failed = reason(judged(with_acks(FREQUENCY, 191, &[ASKED])));
        assert!(failed.starts_with("the peer sent more ACK packets"), "{failed}");
        let failed = reason(judged(with_acks(FREQUENCY, 99, &[])));
        assert!(failed.starts_with("our end sent no ACK_FREQUENCY"), "{failed}");
    }

    #[test]
    fn frames_that_ask_for_what_comes_anyway_show_nothing_of_the_peer() {
        let short = Frequency { threshold: 1, max_ack_delay_us: 1_000, ..ASKED };
        let halved = judged(with_acks(FREQUENCY, 250, &[short]));
        assert!(matches!(halved, Verdict::Pass { .. }), "it heeded something: {halved:?}");
        for acks in [251, 500, 5000] {
            let verdict = judged(with_acks(FREQUENCY, acks, &[short]));
            let Verdict::Unsupported { by: Side::Ours, reason } = verdict else {
                panic!("{verdict:?}")
            };
            assert!(reason.starts_with("its frames ask for no fewer"), "{reason}");
        }
    }

    #[test]
    fn where_window_updates_hide_the_answer_packets_that_only_acknowledge_decide() {
        // 10 by the count and 230 by the delay: with as many window updates no fewer than the 500
        // that come anyway.
        let frame = Frequency { max_ack_delay_us: 4_348, ..ASKED };
        let judged = |only_acks| {
            let mut with = with_acks(FREQUENCY, 400, &[frame]);
            with.seen.to_server.ack_packets = only_acks;
            let plain = with_acks(FREQUENCY, 300, &[]);
            let mut unasked = with_acks(FREQUENCY, 500, &[]);
            unasked.seen.to_server.ack_packets = 400;
            judge_so_far(&[with, plain, unasked]).unwrap()
        };
        // And a tenth of 400.
        let passed = judged(279);
        assert!(matches!(passed, Verdict::Pass { .. }), "{passed:?}");
        assert!(reason(judged(281)).starts_with("the peer sent more ACK packets"));
    }

    #[test]
    fn a_shorter_delay_a_late_frame_or_a_lost_one_allows_more() {
        let with = |frames: &[Frequency]| allowed(&with_acks(FREQUENCY, 0, frames), u64::MAX);
        assert!((with(&[ASKED]) - 50.0).abs() < 1e-9);
        let short = Frequency { max_ack_delay_us: 10_000, ..ASKED };
        assert!((with(&[short]) - 110.0).abs() < 1e-9);
        let never = Frequency { max_ack_delay_us: 10, ..ASKED };
        let announced = FREQUENCY.min_ack_delay_us.unwrap() as f64;
        assert!((with(&[never]) - (10.0 + 1e6 / announced)).abs() < 1e-9);
        let late = Frequency { packets_before: 500, at_seconds: 0.5, ..ASKED };
        assert!((with(&[late]) - 525.0).abs() < 1e-9);
        assert!((with(&[Frequency { arrived: false, ..ASKED }]) - 1000.0).abs() < 1e-9);
        let two = [Frequency { threshold: 1, ..ASKED }, late];
        assert!((with(&two) - (250.0 + 20.0 + 5.0 + 20.0)).abs() < 1e-9);
    }

    #[test]
    fn goodput_is_told_and_decides_nothing() {
        let mut with = with_acks(FREQUENCY, 50, &[ASKED]);
        with.seen.data_seconds = 1.25;
        with.late = 3;
        let verdict = judged(with);
        let Verdict::Pass { note: Some(note) } = verdict else { panic!("{verdict:?}") };
        assert!(note.contains("goodput 0.80 of that"), "{note}");
        assert!(note.contains("not kept (from 0.9 on)"), "{note}");
        assert!(note.contains("3 datagrams were delivered late"), "{note}");
    }

    #[test]
    fn where_nothing_was_to_be_asked_nothing_is() {
        let asked = with_acks(FREQUENCY, 500, &[ASKED]);
        let made = [with_acks(FREQUENCY, 50, &[ASKED]), with_acks(FREQUENCY, 300, &[]), asked];
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
        let mut with = with_acks(TACK, 50, &[ASKED]);
        assert_eq!(judge_so_far(std::slice::from_ref(&with)), None);
        let plain = with_acks(TACK, 500, &[]);
        let silent = judge_so_far(&[with.clone(), plain.clone()]).unwrap();
        assert!(reason(silent).contains("sent none"));
        with.seen.to_server.tacks = 50;
        let passed = judge_so_far(&[with, plain]);
        assert!(matches!(passed, Some(Verdict::Pass { note: Some(_) })), "{passed:?}");
    }
}
