//! Short TACKs behind a row of lost ones, which are left to a long one (TACK-5.4-7).

use super::testing::{Harness, PACKET, RTT};

/// Two TACKs arrive and `lost` do not. Of the packets that these would have reported the sixth was lost: its number,
/// behind that of the first.
fn after_lost(harness: &mut Harness, lost: u64) -> (u64, u64) {
    for _ in 0..2 {
        let numbers = harness.send(10);
        harness.pass(RTT / 4);
        harness.tack(&[numbers], None).unwrap();
    }
    let first = harness.next;
    harness.send(10 * (lost + 1));
    harness.pass(RTT / 4 * lost as u32);
    harness.sequence += lost;
    (first, first + 5)
}

#[test]
fn a_short_tack_behind_eight_lost_ones_is_left_to_the_long_one() {
    let mut harness = Harness::new();
    let (first, hole) = after_lost(&mut harness, 8);
    let newest = harness.next - 1;
    // It reports nothing below the hole: what did arrive there would be taken for lost.
    assert_eq!(harness.sequence % 4, 2);
    let outcome = harness.tack(&[hole + 1..=newest], None).unwrap();
    assert_eq!((outcome.acked_bytes, outcome.lost_packets), (0, 0));
    assert_eq!(harness.sender.stats().tacks_lost, 8, "its sequence counts");
    // Nor does the next, although none is missing before it.
    let outcome = harness.tack(&[hole + 1..=newest], None).unwrap();
    assert_eq!((outcome.acked_bytes, outcome.lost_packets), (0, 0));
    assert_eq!(harness.sequence % 4, 0);
    let outcome = harness.tack(&[hole + 1..=newest, first..=hole - 1], None).unwrap();
    assert_eq!(outcome.acked_bytes, (newest - first) * PACKET as u64);
    assert_eq!(outcome.lost_packets, 1);
}

#[test]
fn a_sender_whose_probe_timer_expires_waits_for_no_long_tack() {
    let mut harness = Harness::new();
    let (_, hole) = after_lost(&mut harness, 8);
    let newest = harness.next - 1;
    let outcome = harness.tack(&[hole + 1..=newest], None).unwrap();
    assert_eq!(outcome.acked_bytes, 0);
    harness.sender.on_probe_timeout();
    let outcome = harness.tack(&[hole + 1..=newest], None).unwrap();
    assert_eq!(outcome.acked_bytes, (newest - hole) * PACKET as u64);
}

#[test]
fn a_tack_with_as_many_ranges_as_a_long_one_counts() {
    let mut harness = Harness::new();
    let (first, _) = after_lost(&mut harness, 8);
    let ranges: Vec<_> = (0..32).rev().map(|i| first + 2 * i + 1..=first + 2 * i + 1).collect();
    assert_ne!(harness.sequence % 4, 0);
    let outcome = harness.tack(&ranges, None).unwrap();
    assert_eq!(outcome.acked_bytes, 32 * PACKET as u64);
}

#[test]
fn a_short_tack_behind_seven_lost_ones_is_complete() {
    let mut harness = Harness::new();
    let (first, hole) = after_lost(&mut harness, 7);
    assert_ne!(harness.sequence % 4, 0);
    // TACK-4.1-1: a receiver lists all that it got since the eighth TACK before, so nothing else has arrived.
    let outcome = harness.tack(&[hole + 1..=harness.next - 1], None).unwrap();
    assert_eq!(outcome.lost_packets, hole + 1 - first);
}

#[test]
fn a_short_tack_that_leaves_out_nothing_counts_behind_any_number_of_lost_ones() {
    let mut harness = Harness::new();
    let (first, _) = after_lost(&mut harness, 81);
    let newest = harness.next - 1;
    assert_ne!(harness.sequence % 4, 0);
    let outcome = harness.tack(&[first..=newest], None).unwrap();
    assert_eq!(outcome.acked_bytes, (newest + 1 - first) * PACKET as u64);
}
