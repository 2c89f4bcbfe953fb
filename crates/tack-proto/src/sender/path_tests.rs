//! What belongs to a path stays with it (RFC 9000 section 9.4).

use super::PathId;
use super::paths::PathState;
use super::sent_packets::FlightId;
use super::testing::{Harness, MS, PACKET, RTT};
use crate::ecn::{Ecn, EcnState};
use crate::frame::{EcnCounts, IackEvent};

const OLD: PathId = PathId(0);
const NEW: PathId = PathId(1);

/// Round trips of 40 ms with twenty packets each.
fn exchange(harness: &mut Harness, rounds: u32) {
    for _ in 0..rounds {
        let left = harness.now;
        let numbers = harness.send(20);
        harness.pass(RTT);
        harness.tack(&[numbers], Some(left)).unwrap();
    }
}

#[test]
fn a_new_path_begins_with_nothing_of_the_old_one() {
    let mut harness = Harness::new();
    exchange(&mut harness, 5);
    harness.send(20);
    harness.sender.set_path(harness.now, NEW);
    assert_eq!(harness.sender.path(), NEW);
    assert_eq!((harness.sender.min_rtt(), harness.sender.smoothed_rtt()), (None, None));
    assert_eq!(harness.sender.bandwidth().bytes_per_second(), 0);
    assert_eq!(harness.sender.in_flight(), 0);
    assert_eq!(harness.sender.total_in_flight(), 20 * PACKET as u64);
}

#[test]
fn packets_of_the_old_path_say_nothing_of_the_new_one() {
    let mut harness = Harness::new();
    exchange(&mut harness, 5);
    let left = harness.now;
    let old = harness.send(20);
    harness.pass(MS);
    harness.sender.set_path(harness.now, NEW);
    let new = harness.send(5);
    harness.pass(10 * MS);
    harness.rate = Some(u64::MAX >> 2);
    let outcome = harness.tack(std::slice::from_ref(&old), Some(left)).unwrap();
    assert_eq!((outcome.acked, outcome.acked_bytes), (vec![old], 20 * PACKET as u64));
    assert_eq!((harness.sender.latest_rtt(), harness.sender.min_rtt()), (None, None));
    assert_eq!(harness.sender.bandwidth().bytes_per_second(), 0);
    assert_eq!(harness.sender.in_flight(), 5 * PACKET as u64);
    assert_eq!(harness.sender.total_in_flight(), 5 * PACKET as u64);
    // Those of the new one do, if the frame names the old ones too or not.
    harness.pass(90 * MS);
    harness.tack(&[0..=*new.end()], None).unwrap();
    assert_eq!(harness.sender.min_rtt(), Some(100 * MS));
}

#[test]
fn a_loss_on_the_old_path_frees_its_bytes_and_no_others() {
    let mut harness = Harness::new();
    let old = harness.send(10);
    harness.sender.set_path(harness.now, NEW);
    let new = harness.send(10);
    harness.pass(RTT);
    let outcome = harness.tack(&[new], None).unwrap();
    assert_eq!(outcome.lost_packets, 10);
    assert_eq!(harness.sender.total_in_flight(), 0);
    // Late, they are spurious losses, and tell nothing of reordering on the new path.
    let threshold = harness.sender.packet_threshold();
    assert_eq!(harness.tack(&[0..=19], None).unwrap().spurious, 10);
    assert_eq!(harness.sender.packet_threshold(), threshold);
    assert_eq!(*old.end(), 9);
}

#[test]
fn a_timing_block_from_before_the_change_is_no_round_trip_of_the_new_path() {
    let mut harness = Harness::new();
    let left = harness.now;
    harness.send(5);
    harness.pass(MS);
    harness.sender.set_path(harness.now, NEW);
    let new = harness.send(5);
    harness.pass(100 * MS);
    // A plain sample of the largest is 100 ms; the departure would make it 101.
    harness.tack(&[0..=*new.end()], Some(left)).unwrap();
    assert_eq!(harness.sender.latest_rtt(), Some(100 * MS));
    let left = harness.now;
    let numbers = harness.send(5);
    harness.pass(90 * MS);
    harness.tack(&[numbers], Some(left)).unwrap();
    assert_eq!(harness.sender.min_rtt(), Some(90 * MS));
}

#[test]
fn a_rate_that_spans_the_change_says_nothing_of_the_new_path() {
    let mut harness = Harness::new();
    exchange(&mut harness, 3);
    harness.sender.set_path(harness.now, NEW);
    harness.rate = Some(1);
    exchange(&mut harness, 1);
    let own = harness.sender.bandwidth().bytes_per_second();
    assert_eq!(own, 20 * PACKET as u64 * 25, "the own sample");
    // The rate of the third TACK is the new path's alone.
    let mut path = PathState::new(harness.now, NEW, FlightId(1), &harness.sender.config);
    path.enter(harness.now, 100, &harness.sender.limits.path);
    let owns: Vec<_> = [(7, 99), (8, 100), (9, 110), (10, 120)]
        .map(|(sequence, largest)| path.owns_rate(sequence, largest))
        .into();
    assert_eq!(owns, [false, false, false, true]);
}

#[test]
fn a_path_that_is_taken_up_again_goes_on_where_it_was() {
    let mut harness = Harness::new();
    exchange(&mut harness, 5);
    let (rtt, bandwidth) = (harness.sender.min_rtt(), harness.sender.bandwidth());
    let in_flight = harness.send(7);
    harness.sender.set_path(harness.now, NEW);
    harness.pass(29_000 * MS);
    harness.sender.set_path(harness.now, OLD);
    assert_eq!((harness.sender.min_rtt(), harness.sender.bandwidth()), (rtt, bandwidth));
    assert_eq!(harness.sender.in_flight(), 7 * PACKET as u64);
    harness.tack(&[in_flight], None).unwrap();
    assert_eq!(harness.sender.in_flight(), 0);
}

#[test]
fn a_path_that_is_taken_up_again_in_a_probe_goes_on_at_its_rate() {
    let mut harness = Harness::new();
    while !harness.sender.path.bbr.probes() {
        exchange(&mut harness, 1);
    }
    assert!(harness.sender.pacing_rate() > harness.sender.bandwidth());
    harness.sender.set_path(harness.now, NEW);
    harness.pass(MS);
    harness.sender.set_path(harness.now, OLD);
    assert_eq!(harness.sender.pacing_rate(), harness.sender.bandwidth(), "TACK-5.7-2");
}

#[test]
fn after_thirty_seconds_it_begins_anew() {
    let mut harness = Harness::new();
    exchange(&mut harness, 5);
    let numbers = harness.send(7);
    harness.sender.set_path(harness.now, NEW);
    harness.pass(30_001 * MS);
    harness.sender.set_path(harness.now, OLD);
    assert_eq!(harness.sender.min_rtt(), None);
    assert_eq!(harness.sender.in_flight(), 0);
    // What was sent over it then is another flight's.
    harness.tack(&[numbers], None).unwrap();
    assert_eq!((harness.sender.min_rtt(), harness.sender.total_in_flight()), (None, 0));
}

#[test]
fn a_test_of_ecn_that_was_interrupted_does_not_end_the_one_that_repeats_it() {
    // TACK-5.8-4
    let mut harness = Harness::with(|config| config.ecn = Ecn::Classic);
    harness.send(10);
    harness.sender.set_path(harness.now, NEW);
    let other = harness.send(5);
    harness.pass(RTT);
    harness.sender.set_path(harness.now, OLD);
    let marked = harness.send(10);
    assert_eq!(harness.sender.ecn_state(), EcnState::Unknown, "all of the test is on its way");
    // The first ten got lost with the path.
    harness.pass(RTT);
    harness.tack(std::slice::from_ref(&other), None).unwrap();
    assert_eq!(harness.sender.ecn_state(), EcnState::Unknown, "and still is");
    harness.pass(RTT);
    harness.ecn = Some(EcnCounts { ect0: 15, ect1: 0, ce: 0 });
    harness.tack(&[*other.start()..=*marked.end()], None).unwrap();
    assert_eq!(harness.sender.ecn_state(), EcnState::Capable);
}

#[test]
fn four_paths_are_known_at_a_time() {
    let mut harness = Harness::new();
    exchange(&mut harness, 3);
    let rtt = harness.sender.min_rtt();
    for path in 1..=3 {
        harness.sender.set_path(harness.now, PathId(path));
    }
    harness.sender.set_path(harness.now, OLD);
    assert_eq!(harness.sender.min_rtt(), rtt);
    for path in 1..=4 {
        harness.sender.set_path(harness.now, PathId(path));
    }
    harness.sender.set_path(harness.now, OLD);
    assert_eq!(harness.sender.min_rtt(), None);
}

#[test]
fn a_packet_for_another_path_is_counted_there() {
    let mut harness = Harness::new();
    harness.send(3);
    harness.sender.set_path(harness.now, NEW);
    let release = harness.sender.release_time();
    let on_old = harness.send_on(Some(OLD), 1);
    let on_unknown = harness.send_on(Some(PathId(9)), 1);
    assert_eq!(harness.sender.in_flight(), 0);
    assert_eq!(harness.sender.total_in_flight(), 5 * PACKET as u64);
    assert_eq!(harness.sender.release_time(), release, "the pacer is the new path's");
    harness.pass(RTT);
    harness.iack(IackEvent::Reply, &[*on_old.start()..=*on_unknown.end()]).unwrap();
    assert_eq!(harness.sender.min_rtt(), None);
    harness.sender.set_path(harness.now, OLD);
    assert_eq!(harness.sender.in_flight(), PACKET as u64, "0 and 1 are lost");
}

#[test]
fn a_probe_of_the_path_mtu_yields_no_sample() {
    // TACK-6.5-11
    let mut harness = Harness::new();
    exchange(&mut harness, 5);
    let (bandwidth, rtt) = (harness.sender.bandwidth(), harness.sender.latest_rtt());
    let probe = harness.send_mtu_probe();
    assert_eq!(harness.sender.in_flight(), 0);
    assert_eq!(harness.sender.total_in_flight(), 2 * PACKET as u64);
    harness.pass(2 * RTT);
    let outcome = harness.tack(&[probe..=probe], None).unwrap();
    assert_eq!(outcome.acked, [probe..=probe]);
    assert_eq!(harness.sender.total_in_flight(), 0);
    assert_eq!((harness.sender.bandwidth(), harness.sender.latest_rtt()), (bandwidth, rtt));
}

#[test]
fn the_loss_of_a_probe_of_the_path_mtu_is_none_of_the_path() {
    // TACK-6.5-11
    let mut harness = Harness::new();
    exchange(&mut harness, 5);
    let probe = harness.send_mtu_probe();
    let left = harness.now;
    let numbers = harness.send(20);
    harness.pass(RTT);
    let outcome = harness.tack(&[numbers], Some(left)).unwrap();
    assert_eq!((outcome.lost_packets, outcome.current.lost_bytes), (1, 0));
    assert_eq!(harness.sender.was_delivered(probe), Some(false));
    assert_eq!(harness.sender.total_in_flight(), 0);
}
