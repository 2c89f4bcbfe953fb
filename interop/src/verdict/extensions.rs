//! The extensions of this project: TACK between its own ends, and what
//! draft-ietf-quic-ack-frequency lets a stock peer ask of it.

use std::time::Duration;

use tack_proto::transport_parameters::{ENABLE_TIMESTAMP, MIN_ACK_DELAY, TACK};

use super::{Evidence, Side, Verdict};
use crate::wire::Signals;

/// The part of our ACK packets that have to stay away if the peer asks for it.
const SAVED_ACKS: f64 = 0.5;
/// The share of the answers that must come within a round trip: an acknowledgement may wait for a
/// paced packet of the same end.
const TIMELY: f64 = 0.5;
/// The part of the delay that an end may hold an acknowledgement back for by which it has to come,
/// whatever a busy machine adds.
const HELD_BACK: f64 = 0.9;

/// The verdict on a transfer between TACK endpoints, and on one with plain quiche at our end.
pub fn judge_tack_so_far(made: &[Evidence]) -> Option<Verdict> {
    let [with, rest @ ..] = made else { return None };
    let announced = with.seen.receiver(with.to_peer()).unwrap_or_default();
    if !announced.tack {
        let reason = "it does not announce TACK".to_owned();
        return Some(Verdict::Unsupported { by: Side::Peer, reason });
    }
    let [without, ..] = rest else { return None };
    // The client receives.
    let (sender, receiver) = (&with.seen.to_client, &with.seen.to_server);
    for (frame, count) in
        [("TACK", receiver.tacks), ("IACK", receiver.iacks), ("TIMESTAMP", sender.timestamps)]
    {
        if count == 0 {
            return Some(Verdict::Fail { reason: format!("no {frame} was on the wire") });
        }
    }
    let (acks, plain) = (receiver.ack_packets, without.seen.to_server.ack_packets);
    let note = format!(
        "{} TACKs, {} IACKs and {} TIMESTAMPs; {acks} packets that only acknowledge, with plain \
         quiche {plain}",
        receiver.tacks, receiver.iacks, sender.timestamps
    );
    Some(if acks < plain {
        Verdict::Pass { note: Some(note) }
    } else {
        Verdict::Fail { reason: format!("not fewer acknowledgements: {note}") }
    })
}

/// The verdict on a transfer to our end from a peer that asks for fewer acknowledgements, and on
/// one to an end that does not announce that it can be asked.
pub fn judge_asked_so_far(made: &[Evidence]) -> Option<Verdict> {
    let [asked, rest @ ..] = made else { return None };
    let frequencies = &asked.peers_signals().frequencies;
    let Some(last) = frequencies.last() else {
        return Some(Verdict::Fail { reason: "the peer sent no ACK_FREQUENCY".to_owned() });
    };
    if !frequencies.is_sorted_by_key(|frequency| frequency.sequence) {
        return Some(Verdict::Fail { reason: "its sequence numbers go back".to_owned() });
    }
    let [unasked, ..] = rest else { return None };
    if !unasked.peers_signals().frequencies.is_empty() {
        let reason =
            "the peer sent ACK_FREQUENCY to an end that had not announced it".to_owned();
        return Some(Verdict::Fail { reason });
    }
    let (acks, plain) = (acks_of_ours(asked), acks_of_ours(unasked));
    let note = format!(
        "asked {} times, at last for one after more than {} packets or {:.0} ms; {:.0} ACK \
         packets of ours for 1000 data packets, {:.0} where it could not ask",
        frequencies.len(),
        last.threshold,
        last.max_ack_delay_us as f64 / 1e3,
        1000.0 * acks,
        1000.0 * plain
    );
    Some(if acks <= (1.0 - SAVED_ACKS) * plain {
        Verdict::Pass { note: Some(note) }
    } else {
        Verdict::Fail { reason: format!("our end did not obey: {note}") }
    })
}

fn acks_of_ours(evidence: &Evidence) -> f64 {
    let acks = evidence.seen.counters(evidence.to_peer()).ack_packets;
    acks as f64 / evidence.peers().data_packets.max(1) as f64
}

/// The verdict on a transfer with a peer that announces what our end does not know.
pub fn judge_greased(evidence: &Evidence) -> Verdict {
    let unknown: Vec<_> = evidence
        .peers_parameters()
        .filter(|id| !is_known(*id))
        .map(|id| format!("{id:#x}"))
        .collect();
    if unknown.is_empty() {
        let reason = "it sends no transport parameters that our end does not know".to_owned();
        return Verdict::Unsupported { by: Side::Peer, reason };
    }
    Verdict::Pass { note: Some(format!("ignored {}", unknown.join(", "))) }
}

/// RFC 9000 section 18.2, RFC 9221, RFC 9368, and this project's extensions.
const fn is_known(id: u64) -> bool {
    matches!(id, 0x00..=0x11 | 0x20 | TACK | MIN_ACK_DELAY | ENABLE_TIMESTAMP)
}

/// The verdict on a transfer in which our end hears nothing of the peer for a while: its probes ask
/// for an acknowledgement at once, and are answered so. Those count for which nothing else asks.
pub fn judge_immediate_ack(evidence: &Evidence) -> Verdict {
    let announced = evidence.seen.receiver(evidence.to_peer()).unwrap_or_default();
    let sent = evidence.seen.counters(evidence.to_peer()).immediate_acks;
    let theirs = evidence.peers().immediate_acks;
    if announced.min_ack_delay_us.is_none() && theirs == 0 {
        let reason = "it neither announces min_ack_delay nor sends IMMEDIATE_ACK".to_owned();
        return Verdict::Unsupported { by: Side::Peer, reason };
    }
    if announced.min_ack_delay_us.is_some() && sent == 0 {
        return Verdict::Fail { reason: "our end sent no IMMEDIATE_ACK".to_owned() };
    }
    let ours = Answers::new(evidence, evidence.our_signals());
    let peers = Answers::new(evidence, evidence.peers_signals());
    let note = format!("{}; {}", ours.note("of ours", sent), peers.note("of the peer", theirs));
    if sent > 0 && ours.times_ms.is_empty() {
        let reason = format!("no IMMEDIATE_ACK of our end decides anything: {note}");
        return Verdict::Fail { reason };
    }
    if ours.are_timely() && peers.are_timely() {
        Verdict::Pass { note: Some(note) }
    } else {
        Verdict::Fail { reason: note }
    }
}

/// The answers to the IMMEDIATE_ACKs of an end that decide something.
struct Answers {
    /// A round trip, and what a busy machine adds.
    limit_ms: f64,
    times_ms: Vec<f64>,
    /// Those that decide nothing.
    others: u64,
}

impl Answers {
    fn new(evidence: &Evidence, signals: &Signals) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let way_ms = ms(evidence.round_trip) / 2.0;
        let answers = signals.answers_ms.iter().zip(&signals.holds_ms);
        // Held back for so long, the others would come within a round trip too.
        let deciding: Vec<_> = answers
            .filter(|(_, hold_ms)| way_ms + **hold_ms > ms(evidence.round_trip))
            .collect();
        // What a busy relay adds each way is no delay of an end. It makes no answer come sooner,
        // so none that was held back comes before the shortest of these delays is over.
        let shortest = deciding.iter().map(|(_, hold_ms)| **hold_ms).fold(f64::MAX, f64::min);
        let limit_ms = ms(evidence.round_trip + 2 * evidence.worst_lateness)
            .min(way_ms + HELD_BACK * shortest);
        let undecided = signals.answers_ms.len() - deciding.len();
        Self {
            limit_ms,
            times_ms: deciding.into_iter().map(|(time_ms, _)| *time_ms).collect(),
            others: signals.answered_anyway + undecided as u64,
        }
    }

    fn timely(&self) -> usize {
        self.times_ms.iter().filter(|ms| **ms <= self.limit_ms).count()
    }

    fn are_timely(&self) -> bool {
        self.timely() as f64 >= TIMELY * self.times_ms.len() as f64
    }

    fn note(&self, whose: &str, sent: u64) -> String {
        if sent == 0 {
            return format!("none {whose} was sent");
        }
        format!(
            "{sent} {whose}, {} answered with no other reason to, {} of these within {:.0} ms, the \
             slowest in {:.1} ms; {} answered that decide nothing",
            self.times_ms.len(),
            self.timely(),
            self.limit_ms,
            self.times_ms.iter().copied().fold(0.0, f64::max),
            self.others
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FREQUENCY, PLAIN, TACK as TACKS, good, reason};
    use super::*;
    use crate::contract::Role;
    use crate::wire::{Frequency, Greeting};

    #[test]
    fn tack_is_tacks_iacks_timestamps_and_fewer_acknowledgements() {
        let mut with = good(TACKS);
        with.seen.to_server.tacks = 40;
        with.seen.to_server.iacks = 2;
        with.seen.to_server.ack_packets = 42;
        assert_eq!(judge_tack_so_far(std::slice::from_ref(&with)), None);
        let without = good(PLAIN);
        let failed = judge_tack_so_far(&[with.clone(), without.clone()]).unwrap();
        assert_eq!(reason(failed), "no TIMESTAMP was on the wire");
        with.seen.to_client.timestamps = 9;
        let passed = judge_tack_so_far(&[with.clone(), without.clone()]).unwrap();
        assert!(matches!(passed, Verdict::Pass { note: Some(_) }), "{passed:?}");
        with.seen.to_server.ack_packets = 500;
        assert!(reason(judge_tack_so_far(&[with, without]).unwrap()).starts_with("not fewer"));
        let stock = judge_tack_so_far(&[good(FREQUENCY)]).unwrap();
        assert!(matches!(stock, Verdict::Unsupported { by: Side::Peer, .. }), "{stock:?}");
    }

    /// Our server receives 1000 packets and acknowledges so many times.
    fn received(acks: u64, frequencies: &[u64]) -> Evidence {
        let mut evidence = good(FREQUENCY);
        evidence.seen.to_server.data_packets = 1000;
        evidence.seen.to_client.ack_packets = acks;
        let frequencies = frequencies.iter().map(|sequence| Frequency {
            sequence: *sequence,
            threshold: 20,
            max_ack_delay_us: 25_000,
            ..Frequency::default()
        });
        evidence.seen.asked_of_server.frequencies = frequencies.collect();
        evidence
    }

    #[test]
    fn our_end_acknowledges_less_when_it_is_asked_to() {
        assert_eq!(judge_asked_so_far(&[received(50, &[0, 1])]), None);
        let judged = |asked| judge_asked_so_far(&[asked, received(500, &[])]).unwrap();
        let passed = judged(received(250, &[0, 1]));
        assert!(matches!(passed, Verdict::Pass { note: Some(_) }), "{passed:?}");
        assert!(reason(judged(received(251, &[0]))).starts_with("our end did not obey"));
        assert!(reason(judged(received(50, &[1, 0]))).contains("go back"));
        assert!(reason(judged(received(50, &[]))).contains("no ACK_FREQUENCY"));
        let unannounced = judge_asked_so_far(&[received(50, &[0]), received(500, &[0])]);
        assert!(reason(unannounced.unwrap()).contains("had not announced it"));
    }

    #[test]
    fn greased_takes_an_unknown_parameter() {
        let mut evidence = good(PLAIN);
        let greeting = Greeting {
            client_parameters: vec![0, 0x0f, 0x20, MIN_ACK_DELAY],
            server_parameters: vec![27],
            ..Greeting::default()
        };
        evidence.seen.greetings = vec![greeting];
        assert!(matches!(
            judge_greased(&evidence),
            Verdict::Unsupported { by: Side::Peer, .. }
        ));
        evidence.ours = Role::Client;
        assert_eq!(
            judge_greased(&evidence),
            Verdict::Pass { note: Some("ignored 0x1b".into()) }
        );
    }

    #[test]
    fn immediate_ack_is_answered_within_a_round_trip() {
        let mut evidence = good(FREQUENCY);
        assert!(reason(judge_immediate_ack(&evidence)).contains("our end sent no"));
        evidence.seen.to_client.immediate_acks = 4;
        evidence.seen.asked_of_client.holds_ms = vec![25.0; 4];
        evidence.seen.asked_of_client.answers_ms = vec![10.0, 39.0, 40.0];
        let passed = judge_immediate_ack(&evidence);
        assert!(matches!(passed, Verdict::Pass { note: Some(_) }), "{passed:?}");
        evidence.seen.asked_of_client.answers_ms = vec![10.0, 41.0, 60.0, 41.0];
        assert!(reason(judge_immediate_ack(&evidence)).contains("1 of these within 40 ms"));
        evidence.worst_lateness = Duration::from_millis(1);
        assert!(
            matches!(judge_immediate_ack(&evidence), Verdict::Pass { .. }),
            "the relay was late"
        );
        evidence.seen.asked_of_client.answers_ms.clear();
        assert!(reason(judge_immediate_ack(&evidence)).contains("decides anything"));
    }

    #[test]
    fn an_answer_that_no_delay_could_have_held_back_beyond_the_limit_decides_nothing() {
        let mut evidence = good(FREQUENCY);
        evidence.seen.to_client.immediate_acks = 2;
        evidence.seen.asked_of_client.answers_ms = vec![10.0, 30.0];
        // Half a round trip of 40 ms, and a delay.
        evidence.seen.asked_of_client.holds_ms = vec![10.0, 20.0];
        let nothing = reason(judge_immediate_ack(&evidence));
        assert!(nothing.contains("decides anything") && nothing.contains("2 answered that"));
        evidence.seen.asked_of_client.holds_ms = vec![10.0, 20.1];
        let passed = judge_immediate_ack(&evidence);
        assert!(matches!(passed, Verdict::Pass { .. }), "{passed:?}");
        evidence.seen.asked_of_client.answered_anyway = 3;
        let Verdict::Pass { note: Some(note) } = judge_immediate_ack(&evidence) else {
            panic!("{evidence:?}");
        };
        assert!(note.contains("4 answered that decide nothing"), "{note}");
    }

    #[test]
    fn a_busy_machine_makes_no_answer_timely_that_was_held_back() {
        let mut evidence = good(FREQUENCY);
        evidence.seen.to_client.immediate_acks = 1;
        evidence.worst_lateness = Duration::from_millis(50);
        evidence.seen.asked_of_client.holds_ms = vec![30.0];
        evidence.seen.asked_of_client.answers_ms = vec![50.0];
        assert!(reason(judge_immediate_ack(&evidence)).contains("0 of these within 47 ms"));
        evidence.seen.asked_of_client.answers_ms = vec![46.0];
        let passed = judge_immediate_ack(&evidence);
        assert!(matches!(passed, Verdict::Pass { .. }), "{passed:?}");
    }

    #[test]
    fn a_peer_that_knows_no_immediate_ack_does_not_support_it() {
        let verdict = judge_immediate_ack(&good(PLAIN));
        assert!(matches!(verdict, Verdict::Unsupported { by: Side::Peer, .. }), "{verdict:?}");
    }
}
