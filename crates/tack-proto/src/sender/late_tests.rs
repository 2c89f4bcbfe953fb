//! TACKs that come later than alpha (TACK-6.2-10), and silences that are outages (TACK-6.2-7).

use std::time::Duration;

use super::Phase;
use super::testing::{Harness, MS, RTT};

/// A sender in ProbeBW whose TACKs come each alpha.
fn steady() -> Harness {
    let harness = in_probe_bw(Harness::new());
    assert!(harness.sender.limits.path.ack_late < MS / 10);
    harness
}

fn in_probe_bw(mut harness: Harness) -> Harness {
    while harness.sender.phase() != Phase::ProbeBw {
        next_tack(&mut harness, RTT);
    }
    for _ in 0..100 {
        let alpha = alpha(&harness);
        next_tack(&mut harness, alpha);
    }
    harness
}

fn alpha(harness: &Harness) -> Duration {
    harness.sender.limits.path.ack_interval
}

/// The next TACK, so long after the last one; enough is on its way for all of that time.
fn next_tack(harness: &mut Harness, after: Duration) {
    let numbers = harness.send(10);
    harness.pass(after);
    harness.tack(&[numbers], None).unwrap();
}

#[test]
fn tacks_that_come_late_again_and_again_are_waited_for() {
    let mut harness = steady();
    let alpha = alpha(&harness);
    assert!(harness.sender.limits.path.is_outage(RTT + alpha + MS));
    for round in 0..20 {
        next_tack(
            &mut harness,
            alpha + if round % 2 == 0 { alpha / 2 } else { Duration::ZERO },
        );
    }
    let late = harness.sender.limits.path.ack_late;
    assert!((alpha / 2..=4 * alpha).contains(&late), "{late:?}");
    assert!(!harness.sender.limits.path.is_outage(RTT + alpha + alpha / 2), "TACK-6.2-10");
}

#[test]
fn a_path_that_stood_still_once_is_not_waited_for_longer() {
    let mut harness = steady();
    let alpha = alpha(&harness);
    next_tack(&mut harness, 2 * (RTT + alpha));
    for _ in 0..5 {
        next_tack(&mut harness, alpha);
    }
    assert!(harness.sender.limits.path.ack_late < MS / 10);
}

#[test]
fn whoever_holds_tacks_back_is_waited_for_no_longer_than_four_intervals() {
    let mut harness = steady();
    for _ in 0..100 {
        let path = harness.sender.limits.path;
        next_tack(&mut harness, path.longest_silence());
        next_tack(&mut harness, MS);
    }
    let path = harness.sender.limits.path;
    assert!(path.ack_late <= 4 * path.ack_interval, "{path:?}");
}

#[test]
fn where_there_is_one_tack_in_a_round_trip_or_less_one_may_be_missing() {
    let harness = in_probe_bw(Harness::with(|config| {
        config.frequency.shortest_interval = RTT;
        config.frequency.longest_interval = 2 * RTT;
    }));
    let path = harness.sender.limits.path;
    assert!(path.ack_late >= path.ack_interval, "{path:?}");
    assert!(!path.is_outage(RTT + 2 * path.ack_interval));
}
