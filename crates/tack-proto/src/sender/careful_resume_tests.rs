//! Each phase, and each reason not to enter or to leave it.

use super::CarefulResumePhase::{Normal, Reconnaissance, SafeRetreat, Unvalidated, Validating};
use super::CarefulResumeTrigger as Trigger;
use super::*;
use crate::sender::testing::{Harness, MS, PACKET, RTT};
use crate::sender::{PathId, SenderConfig};

const MSS: u64 = PACKET as u64;
const IW: u64 = INITIAL_WINDOW_PACKETS * MSS;

/// 200 Mbit/s over 40 ms.
const SAVED: CcParameters =
    CcParameters { saved_cwnd: 1_000_000, saved_rtt: RTT, saved_at: 1_000_000 };

fn resuming(saved: CcParameters) -> Harness {
    Harness::with(|config| config.saved = Some(saved))
}

/// Sends the initial window, and has it acknowledged a round trip later.
fn confirm(harness: &mut Harness) {
    let sent = harness.send(INITIAL_WINDOW_PACKETS);
    harness.pass(RTT);
    harness.tack(&[sent], None).unwrap();
}

/// Sends whatever may be sent for so long, a millisecond at a time; the bytes.
fn send_for(harness: &mut Harness, time: Duration) -> u64 {
    let (end, mut packets) = (harness.now + time, 0);
    while harness.now < end {
        while harness.sender.may_send(harness.now, true) {
            harness.send(1);
            packets += 1;
        }
        harness.pass(MS);
    }
    packets * MSS
}

/// Sends for so long what may be sent, over a path that takes all of it, and has it acknowledged each
/// 10 ms.
fn exchange(harness: &mut Harness, time: Duration) {
    let (end, mut acked) = (harness.now + time, harness.next);
    let mut sent = std::collections::VecDeque::new();
    while harness.now < end {
        send_for(harness, 10 * MS);
        sent.push_back((harness.now, harness.next));
        if let Some((_, next)) = sent.pop_front_if(|(at, _)| harness.now >= *at + RTT) {
            if next > acked {
                harness.tack(&[acked..=next - 1], None).unwrap();
            }
            acked = next;
        }
    }
}

fn state(harness: &Harness) -> (CarefulResumePhase, Option<Trigger>) {
    harness.sender.careful_resume()
}

/// A sender whose jump has arrived; the first packet behind the initial window, and the last.
fn jumped(saved: CcParameters) -> (Harness, u64, u64) {
    let mut harness = resuming(saved);
    confirm(&mut harness);
    let first = harness.next;
    send_for(&mut harness, RTT + 2 * MS);
    harness.pass(RTT);
    let last = harness.next - 1;
    (harness, first, last)
}

#[test]
fn without_saved_parameters_nothing_differs() {
    let mut harness = Harness::new();
    confirm(&mut harness);
    send_for(&mut harness, RTT);
    assert_eq!(state(&harness), (Normal, None));
    assert!(harness.sender.in_flight() < 7 * IW, "what is proven, and a train of half as much");
}

// TACK-6.7-2
#[test]
fn no_more_than_the_initial_window_leaves_before_the_path_is_confirmed() {
    let mut harness = resuming(SAVED);
    assert_eq!(send_for(&mut harness, RTT), IW);
    assert_eq!(state(&harness), (Reconnaissance, None));
    let first = harness.next - INITIAL_WINDOW_PACKETS;
    let last = harness.next - 1;
    // Too little for a loss.
    harness.tack(&[last..=last, first..=last - 2], None).unwrap();
    send_for(&mut harness, 2 * MS);
    assert_eq!(state(&harness).0, Reconnaissance, "a packet of the initial window is missing");
}

// TACK-6.7-3, TACK-6.7-4
#[test]
fn half_of_the_saved_window_leaves_within_a_round_trip_and_no_faster() {
    let mut harness = resuming(SAVED);
    confirm(&mut harness);
    let quarter = send_for(&mut harness, RTT / 4);
    assert_eq!(state(&harness), (Unvalidated, Some(Trigger::PathConfirmed)));
    let bound = SAVED.saved_cwnd / 2 / 4 + 3 * IW;
    assert!((100_000..bound).contains(&quarter), "{quarter} B in a quarter of a round trip");
    send_for(&mut harness, 2 * RTT);
    let in_flight = harness.sender.in_flight();
    assert!(in_flight <= SAVED.saved_cwnd / 2, "{in_flight} B");
    assert!(in_flight + 2 * MSS > SAVED.saved_cwnd / 2, "{in_flight} B");
}

#[test]
fn parameters_may_come_until_the_initial_window_has_left() {
    let mut harness = Harness::new();
    let sent = harness.send(INITIAL_WINDOW_PACKETS - 1);
    assert!(harness.sender.set_cc_parameters(SAVED));
    assert!(!harness.sender.set_cc_parameters(SAVED), "once");
    harness.pass(RTT);
    harness.tack(&[sent], None).unwrap();
    send_for(&mut harness, 10 * MS);
    assert_eq!(
        state(&harness),
        (Reconnaissance, None),
        "a packet of the initial window is missing"
    );
    harness.pass(RTT);
    harness.tack(&[0..=harness.next - 1], None).unwrap();
    send_for(&mut harness, 10 * MS);
    assert_eq!(state(&harness).0, Unvalidated);

    let mut harness = Harness::new();
    harness.send(INITIAL_WINDOW_PACKETS);
    assert!(!harness.sender.set_cc_parameters(SAVED), "too late");
    let mut harness = Harness::new();
    harness.send(5);
    harness.pass(RTT);
    harness.tack(&[1..=4], None).unwrap();
    assert!(!harness.sender.set_cc_parameters(SAVED), "a packet was lost");
}

#[test]
fn max_jump_bounds_whatever_was_saved() {
    let huge = CcParameters { saved_cwnd: PLAUSIBLE_CWND, ..SAVED };
    let mut harness = Harness::with(|config| {
        config.saved = Some(huge);
        config.max_jump = 300_000;
    });
    confirm(&mut harness);
    send_for(&mut harness, 3 * RTT);
    assert!(harness.sender.in_flight() <= 300_000);
    assert!(harness.sender.in_flight() > 290_000);
}

// TACK-6.7-2
#[test]
fn a_loss_in_the_initial_window_ends_it() {
    let mut harness = resuming(SAVED);
    let sent = harness.send(INITIAL_WINDOW_PACKETS);
    harness.pass(RTT);
    harness.tack(&[sent.start() + 1..=*sent.end()], None).unwrap();
    assert_eq!(state(&harness), (Normal, Some(Trigger::PacketLoss)));
    assert_eq!(harness.sender.cc_parameters(7), None, "they are deleted");
}

// TACK-6.7-2
#[test]
fn a_loss_before_the_jump_that_was_none_deletes_nothing() {
    let mut harness = resuming(SAVED);
    let sent = harness.send(INITIAL_WINDOW_PACKETS);
    harness.pass(RTT);
    let (first, last) = (*sent.start(), *sent.end());
    harness.tack(&[first + 2..=last], None).unwrap();
    assert_eq!(state(&harness), (Normal, Some(Trigger::PacketLoss)));
    harness.tack(&[first + 2..=last, first..=first], None).unwrap();
    assert_eq!(harness.sender.cc_parameters(7), None, "another one is still lost");
    harness.tack(&[first..=last], None).unwrap();
    assert_eq!(harness.sender.cc_parameters(7), Some(SAVED));
    assert_eq!(state(&harness).0, Normal, "this connection does not jump any more");
}

// TACK-6.7-3
#[test]
fn a_round_trip_of_half_or_of_more_than_ten_times_the_saved_one_is_another_paths() {
    for (saved_rtt, jumps) in [
        (RTT * 2, false),
        ((RTT * 2).saturating_sub(MS), true),
        (RTT / 10, true),
        ((RTT / 10).saturating_sub(MS / 10), false),
    ] {
        let mut harness = resuming(CcParameters { saved_rtt, ..SAVED });
        confirm(&mut harness);
        send_for(&mut harness, 10 * MS);
        let expected = if jumps {
            (Unvalidated, Some(Trigger::PathConfirmed))
        } else {
            (Normal, Some(Trigger::RttNotValidated))
        };
        assert_eq!(state(&harness), expected, "{saved_rtt:?}");
        assert_eq!(harness.sender.in_flight() > 5 * IW, jumps, "{saved_rtt:?}");
    }
}

#[test]
fn a_longer_round_trip_slows_the_jump_down() {
    let rate = |saved_rtt| {
        let mut harness = resuming(CcParameters { saved_rtt, ..SAVED });
        confirm(&mut harness);
        send_for(&mut harness, 5 * MS);
        harness.sender.pacing_rate()
    };
    assert_eq!(rate(RTT), rate(RTT / 3), "the current round trip counts");
    assert_eq!(rate(RTT), Bandwidth::from_bytes_per_second(12_500_000));
}

#[test]
fn a_window_that_is_hardly_larger_than_the_initial_one_is_not_worth_a_jump() {
    let mut harness = resuming(CcParameters { saved_cwnd: 4 * IW - 1, ..SAVED });
    confirm(&mut harness);
    send_for(&mut harness, 5 * MS);
    assert_eq!(state(&harness), (Normal, Some(Trigger::CwndTooSmall)));
}

#[test]
fn values_that_no_path_has_are_ignored() {
    for wrong in [
        CcParameters { saved_cwnd: PLAUSIBLE_CWND + 1, ..SAVED },
        CcParameters { saved_rtt: Duration::ZERO, ..SAVED },
        CcParameters { saved_rtt: Duration::from_secs(61), ..SAVED },
    ] {
        assert_eq!(state(&resuming(wrong)), (Normal, None), "{wrong:?}");
    }
}

// TACK-6.7-4
#[test]
fn an_application_with_little_to_send_keeps_what_it_has_used() {
    let mut harness = resuming(SAVED);
    confirm(&mut harness);
    for after in [Reconnaissance, Reconnaissance, Normal] {
        send_for(&mut harness, 3 * MS);
        assert_eq!(state(&harness).0, Unvalidated);
        harness.sender.on_app_limited();
        harness.pass(RTT);
        harness.tack(&[0..=harness.next - 1], None).unwrap();
        assert_eq!(state(&harness), (after, Some(Trigger::RateLimited)));
        assert!(harness.sender.inflight_cap() < SAVED.saved_cwnd / 2);
    }
}

#[test]
fn a_jump_lasts_for_a_round_trip() {
    let mut harness = resuming(SAVED);
    confirm(&mut harness);
    send_for(&mut harness, 10 * MS);
    harness.pass(RTT);
    harness.sender.may_send(harness.now, false);
    assert_eq!(state(&harness), (Validating, Some(Trigger::RttExceeded)));
    let (in_flight, cap) = (harness.sender.in_flight(), harness.sender.inflight_cap());
    assert!(cap <= in_flight, "CWND is flight_size: {cap} B, {in_flight} B in flight");
}

// TACK-6.7-5
#[test]
fn the_jump_is_validated_when_all_of_it_has_arrived() {
    let (mut harness, first, last) = jumped(SAVED);
    assert_eq!(state(&harness), (Validating, Some(Trigger::LastUnvalidatedPacketSent)));
    assert_eq!(harness.sender.cc_parameters(7), None, "nothing is validated");
    harness.tack(&[first..=last - 1], None).unwrap();
    assert_eq!(state(&harness).0, Validating);
    harness.tack(&[last..=last], None).unwrap();
    assert_eq!(state(&harness), (Normal, Some(Trigger::LastUnvalidatedPacketAcknowledged)));
    let rate = harness.sender.bandwidth().megabits_per_second();
    assert!((40.0..60.0).contains(&rate), "{rate} Mbit/s are what was delivered");
}

#[test]
fn an_acknowledgement_of_the_first_unvalidated_packet_ends_the_jump() {
    let mut harness = resuming(SAVED);
    confirm(&mut harness);
    let first = harness.next;
    send_for(&mut harness, RTT * 3 / 4);
    assert_eq!(state(&harness).0, Unvalidated);
    harness.tack(&[first..=first + 40], None).unwrap();
    let trigger = Trigger::FirstUnvalidatedPacketAcknowledged;
    assert_eq!(state(&harness), (Validating, Some(trigger)));
}

// TACK-6.7-6
#[test]
fn a_loss_makes_the_sender_retreat_to_half_of_what_has_arrived() {
    let (mut harness, first, last) = jumped(SAVED);
    harness.pass(RTT / 4);
    // 100 packets have arrived, one before them has not.
    harness.tack(&[first + 1..=first + 100], None).unwrap();
    assert_eq!(state(&harness), (SafeRetreat, Some(Trigger::PacketLoss)));
    let cap = harness.sender.inflight_cap();
    // What was in flight before the jump counts with it.
    assert!(cap <= 140 * MSS / 2 && cap > 50 * MSS, "PipeSize / 2 is {cap} B");
    assert!(harness.sender.bandwidth().bytes_in(RTT) <= cap, "no rate is left above it");
    assert_eq!(harness.sender.cc_parameters(7), None, "the parameters are deleted");
    assert!(!harness.sender.may_send(harness.now, true), "the path drains first");

    harness.pass(RTT / 2);
    harness.tack(&[first + 101..=last - 1], None).unwrap();
    assert_eq!(state(&harness).0, SafeRetreat);
    assert!(harness.sender.inflight_cap() <= cap, "CWND must not grow");
    assert!(harness.sender.bandwidth().bytes_in(RTT) <= cap, "what is measured is discarded");

    harness.tack(&[last..=last], None).unwrap();
    assert_eq!(state(&harness), (Normal, Some(Trigger::ExitRecovery)));
    assert!(harness.sender.inflight_cap() <= SAVED.saved_cwnd / 4 + 2 * IW, "PipeSize * Beta");
    assert_ne!(harness.sender.phase(), Phase::Startup);
}

// TACK-6.7-6
#[test]
fn a_path_that_turns_out_shorter_while_the_jump_is_sent_is_another() {
    let mut resume = CarefulResume::new(Some(SAVED), DEFAULT_MAX_JUMP);
    (resume.phase, resume.pipe_size, resume.round_trip) = (Unvalidated, 2 * IW, RTT);
    let news = Acknowledged {
        largest: 20,
        bytes: MSS,
        lost: 0,
        spurious: 0,
        ce: 0,
        in_flight: 3 * IW,
        min_rtt: Some(RTT / 2),
    };
    assert_eq!(resume.on_acknowledged(&news, MSS), Some(Order::Retreat(IW + MSS / 2, RTT)));
    assert_eq!(resume.state(), (SafeRetreat, Some(Trigger::PathChanged)));
}

// TACK-6.7-6
#[test]
fn a_mark_counts_as_a_loss_in_each_phase() {
    let news = Acknowledged {
        largest: 20,
        bytes: MSS,
        lost: 0,
        spurious: 0,
        ce: 1,
        in_flight: 3 * IW,
        min_rtt: Some(RTT),
    };
    for (before, after) in
        [(Reconnaissance, Normal), (Unvalidated, SafeRetreat), (Validating, SafeRetreat)]
    {
        let mut resume = CarefulResume::new(Some(SAVED), DEFAULT_MAX_JUMP);
        (resume.phase, resume.pipe_size) = (before, 2 * IW);
        let order = resume.on_acknowledged(&news, MSS);
        assert_eq!(resume.state(), (after, Some(Trigger::EcnCe)));
        assert_eq!(order.is_some(), after == SafeRetreat);
        assert_eq!(resume.kept(), None);
    }
}

#[test]
fn outside_startup_there_is_no_jump() {
    let mut resume = CarefulResume::new(Some(SAVED), DEFAULT_MAX_JUMP);
    resume.is_confirmed = true;
    let path = Harness::new().sender.limits.path;
    assert!(!resume.jump(crate::test_clock(), (IW, IW), &path, false));
    assert_eq!(resume.state(), (Normal, Some(Trigger::StartupOver)));
}

// TACK-6.7-8
#[test]
fn another_path_gets_no_jump_and_nor_does_the_first_one_afterwards() {
    let mut harness = resuming(SAVED);
    confirm(&mut harness);
    harness.sender.set_path(harness.now, PathId(1));
    assert_eq!(state(&harness), (Normal, None));
    harness.sender.set_path(harness.now, PathId::default());
    send_for(&mut harness, RTT);
    assert_eq!(state(&harness), (Normal, Some(Trigger::PathChanged)));
    assert!(harness.sender.in_flight() < 7 * IW);
}

// TACK-6.7-7
#[test]
fn what_was_not_used_is_kept_and_what_was_observed_replaces_it() {
    let mut harness = resuming(SAVED);
    assert_eq!(harness.sender.cc_parameters(7), Some(SAVED), "nothing speaks against them");
    confirm(&mut harness);
    assert_eq!(harness.sender.cc_parameters(7), Some(SAVED));
    let (mut harness, first, last) = jumped(SAVED);
    harness.tack(&[first..=last], None).unwrap();
    // Half of it was validated, and the path is not full.
    assert_eq!(harness.sender.cc_parameters(7), Some(SAVED));

    let (mut harness, first, last) = jumped(CcParameters { saved_cwnd: 150_000, ..SAVED });
    harness.tack(&[first..=last], None).unwrap();
    exchange(&mut harness, 6 * RTT);
    let observed = harness.sender.cc_parameters(7).unwrap();
    assert!(observed.saved_cwnd > 150_000, "{observed:?}");
    assert_eq!((observed.saved_rtt, observed.saved_at), (RTT, 7));
}

#[test]
fn a_small_window_is_not_saved() {
    let mut harness = Harness::new();
    confirm(&mut harness);
    assert_eq!(harness.sender.cc_parameters(7), None);
}

#[test]
fn parameters_are_read_as_they_were_written() {
    let bytes = SAVED.to_bytes();
    assert_eq!(CcParameters::from_bytes(&bytes), Some(SAVED));
    assert_eq!(CcParameters::from_bytes(&bytes[..24]), None);
    assert_eq!(CcParameters::from_bytes(&[&bytes[..], &[0]].concat()), None);
    assert_eq!(CcParameters::from_bytes(&[]), None);
    let mut other = bytes;
    other[0] = ENCODING + 1;
    assert_eq!(CcParameters::from_bytes(&other), None, "another version");
    assert_eq!(CcParameters::from_bytes(&[ENCODING; 25]), None, "no path is like that");
}

// TACK-6.7-1
#[test]
fn parameters_expire_and_none_are_from_the_future() {
    let lifetime = Duration::from_secs(60);
    for (now, current) in [(SAVED.saved_at, true), (SAVED.saved_at + 60, true)]
        .into_iter()
        .chain([(SAVED.saved_at + 61, false), (SAVED.saved_at - 1, false)])
    {
        assert_eq!(SAVED.is_current(now, lifetime), current, "{now}");
    }
}

#[test]
fn a_receiver_that_overstates_its_rate_gets_no_more_than_was_sent() {
    let (mut harness, first, last) = jumped(SAVED);
    harness.rate = Some(1_000_000_000);
    harness.tack(&[first..=last], None).unwrap();
    let rate = harness.sender.bandwidth().megabits_per_second();
    assert!(rate < 130.0, "{rate} Mbit/s");
}

#[test]
fn the_default_bounds_the_jump() {
    let config = SenderConfig::new(crate::profiles::Profile::DEFAULT, MSS, 1);
    assert_eq!((config.max_jump, config.saved), (DEFAULT_MAX_JUMP, None));
}

// TACK-6.7-6
#[test]
fn a_round_trip_that_the_peer_says_is_short_makes_no_retreat_fast() {
    let mut harness = resuming(SAVED);
    confirm(&mut harness);
    let first = harness.next;
    send_for(&mut harness, RTT / 2);
    let left = harness.now;
    harness.pass(MS / 10);
    harness.tack(&[first..=first + 100], Some(left)).unwrap();
    assert_eq!(state(&harness), (SafeRetreat, Some(Trigger::PathChanged)));
    let cap = 140 * MSS / 2;
    assert!(harness.sender.bandwidth().bytes_in(RTT) <= cap);
    harness.pass(RTT / 2);
    let last = harness.next - 1;
    harness.tack(&[first + 101..=last], None).unwrap();
    assert_eq!(state(&harness).0, Normal);
    assert!(harness.sender.bandwidth().bytes_in(RTT) <= cap, "nor what follows");
}

// TACK-6.7-8
#[test]
fn a_path_that_was_left_in_a_retreat_is_measured_when_it_is_taken_up_again() {
    let (mut harness, first, _) = jumped(SAVED);
    harness.pass(RTT / 4);
    harness.tack(&[first + 1..=first + 100], None).unwrap();
    assert_eq!(state(&harness).0, SafeRetreat);
    let retreated = harness.sender.bandwidth();
    harness.sender.set_path(harness.now, crate::sender::PathId(1));
    harness.send(1);
    harness.pass(RTT);
    harness.sender.set_path(harness.now, crate::sender::PathId(0));
    // The rest of the jump got lost with the path.
    let probes = harness.send(4);
    harness.pass(RTT);
    harness.tack(&[probes], None).unwrap();
    exchange(&mut harness, Duration::from_secs(4));
    let measured = harness.sender.bandwidth();
    assert!(
        2 * measured.bytes_per_second() > 3 * retreated.bytes_per_second(),
        "{retreated:?}, {measured:?}"
    );
}
