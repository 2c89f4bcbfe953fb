//! Round trips from standard acknowledgements, RFC 9002 sections 5 and 6.1.2.

use std::time::Duration;

use super::testing::{Harness, MS, RTT};

/// A round trip of `time`, of which the peer says that it held the acknowledgement for `delay`.
fn round_trip(harness: &mut Harness, time: u32, delay: u32) {
    let numbers = harness.send(1);
    harness.pass(time * MS);
    harness.ack(&[numbers], delay * MS).unwrap();
}

#[test]
fn the_delay_of_an_ack_is_not_taken_off_before_the_minimum() {
    let mut harness = Harness::new();
    assert_eq!(harness.sender.min_rtt(), Some(RTT));
    round_trip(&mut harness, 41, 20);
    assert_eq!(harness.sender.min_rtt(), Some(RTT), "a claimed delay does not lower it");
    round_trip(&mut harness, 30, 20);
    assert_eq!(harness.sender.min_rtt(), Some(30 * MS));
}

#[test]
fn the_smoothed_round_trip_leaves_the_delay_out_within_bounds() {
    let smoothed = |time, delay| {
        let mut harness = Harness::new();
        round_trip(&mut harness, time, delay);
        harness.sender.smoothed_rtt().unwrap()
    };
    assert_eq!(smoothed(80, 16), (RTT * 7 + 64 * MS) / 8);
    assert_eq!(smoothed(80, 60), (RTT * 7 + 55 * MS) / 8, "at most max_ack_delay, 25 ms");
    assert_eq!(smoothed(50, 20), (RTT * 7 + 50 * MS) / 8, "not below the minimum");
}

#[test]
fn the_latest_round_trip_makes_a_loss_wait_if_it_is_longer_than_the_smoothed_one() {
    let mut harness = Harness::new();
    round_trip(&mut harness, 160, 0);
    // Smoothed: 55 ms, of which 9/8 are 61.9 ms.
    harness.send(1);
    harness.pass(100 * MS);
    let newer = harness.send(1);
    harness.pass(5 * MS);
    assert_eq!(harness.ack(&[newer], Duration::ZERO).unwrap().lost_packets, 0);
}

#[test]
fn no_loss_is_declared_within_a_millisecond() {
    let mut harness = Harness::with(|_| {});
    for _ in 0..100 {
        let numbers = harness.send(1);
        harness.pass(MS / 10);
        harness.ack(&[numbers], Duration::ZERO).unwrap();
    }
    harness.send(1);
    harness.pass(MS / 2);
    let newer = harness.send(1);
    harness.pass(MS / 10);
    assert_eq!(
        harness.ack(std::slice::from_ref(&newer), Duration::ZERO).unwrap().lost_packets,
        0,
        "0.6 ms"
    );
    harness.pass(MS / 2);
    assert_eq!(harness.ack(&[newer], Duration::ZERO).unwrap().lost_packets, 1);
}
