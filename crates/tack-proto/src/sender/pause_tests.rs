//! Pauses of the application (TACK-6.4-4).

use std::time::Duration;

use super::Phase;
use super::testing::{Harness, MS, PACKET, RTT};

const PAUSE: Duration = Duration::from_secs(1);

/// A sender in ProbeBW whose application has nothing more to send, and nothing on its way.
fn paused() -> Harness {
    paused_at(10)
}

/// The same on a path that carries so many packets in a round trip.
fn paused_at(packets: u64) -> Harness {
    let mut harness = Harness::new();
    while harness.sender.phase() != Phase::ProbeBw {
        let numbers = harness.send(packets);
        harness.pass(RTT);
        harness.tack(&[numbers], None).unwrap();
    }
    harness.sender.on_app_limited();
    harness.pass(PAUSE);
    harness
}

/// Sends until a packet has to wait for its release; how many left at once.
fn burst(harness: &mut Harness) -> u64 {
    let mut sent = 0;
    while harness.sender.may_send(harness.now, true) {
        harness.send(1);
        sent += 1;
    }
    sent
}

#[test]
fn a_pause_of_the_application_is_no_outage_of_the_path() {
    let mut harness = paused();
    assert!(harness.sender.limits.path.is_outage(PAUSE));
    let numbers = harness.send(3);
    harness.pass(RTT);
    harness.tack(&[numbers], None).unwrap();
    assert_eq!(harness.sender.phase(), Phase::ProbeBw);
}

#[test]
fn a_pause_of_the_application_does_not_count_as_silence_of_a_slow_path() {
    let mut harness = paused_at(4);
    let sent = burst(&mut harness);
    assert!(!harness.sender.path.stands_still, "TACK-6.4-4");
    let allowed = harness.sender.inflight_cap() / PACKET as u64;
    assert!(sent >= allowed.min(10), "{sent} of {allowed}");
}

#[test]
fn the_initial_window_leaves_at_once_behind_a_pause() {
    let mut harness = paused();
    let sent = burst(&mut harness);
    assert!((10..=20).contains(&sent), "{sent}");
}

#[test]
fn what_leaves_behind_a_pause_is_application_limited_until_data_waits() {
    let mut harness = paused();
    for _ in 0..3 {
        // A PING, or all that there is.
        let numbers = harness.send(1);
        assert!(harness.sender.is_app_limited());
        harness.pass(RTT);
        harness.tack(&[numbers], None).unwrap();
    }
    let first = harness.next;
    burst(&mut harness);
    harness.pass(RTT);
    let last = harness.next - 1;
    harness.tack(&[first..=last], None).unwrap();
    harness.pass(MS);
    let numbers = harness.send(1);
    assert!(!harness.sender.is_app_limited());
    harness.pass(RTT);
    harness.tack(&[numbers], None).unwrap();
}

#[test]
fn a_burst_behind_a_pause_is_shorter_once_a_shallow_buffer_has_cut_one() {
    const HOLDS: u64 = 6;
    let mut harness = paused();
    let mut sent = Vec::new();
    for _ in 0..2 {
        let first = harness.next;
        sent.push(burst(&mut harness));
        harness.pass(RTT);
        harness.tack(&[first..=first + HOLDS.min(sent[sent.len() - 1]) - 1], None).unwrap();
        // What the buffer dropped comes again.
        let numbers = harness.send(10);
        harness.pass(RTT);
        harness.tack(&[numbers], None).unwrap();
        harness.sender.on_app_limited();
        harness.pass(PAUSE);
    }
    assert!(sent[0] >= 10, "{sent:?}");
    assert!(sent[1] <= HOLDS, "{sent:?}");
}
