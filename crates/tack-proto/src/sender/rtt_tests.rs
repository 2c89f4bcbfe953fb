//! Round trips from standard acknowledgements, RFC 9002 sections 5 and 6.1.2, and what acknowledgements
//! queue for on their own way.

use std::time::Duration;

use super::testing::{Harness, MS, PACKET, RTT};
use super::{PathModel, Peer, Phase, Sender};
use crate::bandwidth::Bandwidth;
use crate::frame::IackEvent;

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
fn what_waits_for_an_ack_includes_the_time_that_a_peer_cannot_but_wait() {
    let mut harness = Harness::with(|config| {
        let (min_ack_delay, max_ack_delay) = (20 * MS, 25 * MS);
        config.peer = Some(Peer::Stock { min_ack_delay, max_ack_delay });
    });
    harness.sender = Sender::new(harness.now, harness.sender.config, Some(2 * MS));
    for _ in 0..2 {
        let numbers = harness.send(12);
        harness.pass(2 * MS);
        harness.ack(&[numbers], Duration::ZERO).unwrap();
    }
    let sender = &harness.sender;
    assert_eq!((sender.phase(), sender.min_rtt()), (Phase::Startup, Some(2 * MS)));
    assert!(sender.bandwidth() >= Bandwidth::from_bytes_per_second(7_000_000));
    assert_eq!(sender.limits.path.ack_interval, 20 * MS, "TACK-8-1");
    assert!(sender.inflight_cap() >= sender.bandwidth().bytes_in(22 * MS));
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

/// A TACK for a packet sent `time` before, which queued on its way for `queue`.
fn queued_round_trip(harness: &mut Harness, time: u32, queue: u32) {
    let left = harness.now;
    let numbers = harness.send(1);
    harness.pass(time * MS);
    harness.sender.on_peer_data(2 * PACKET);
    harness.sender.on_ack_path_delay(harness.now, Some(queue * MS));
    harness.tack(&[numbers], Some(left)).unwrap();
}

#[test]
fn what_a_tack_queues_for_is_no_part_of_rtt_min_and_may_be_in_flight_besides() {
    let mut harness = Harness::new();
    queued_round_trip(&mut harness, 90, 50);
    assert_eq!(harness.sender.min_rtt(), Some(RTT));
    assert_eq!(harness.sender.limits.path.ack_path, 50 * MS);
    queued_round_trip(&mut harness, 85, 60);
    assert_eq!(harness.sender.min_rtt(), Some(RTT), "no more than is above it");
    let path = harness.sender.limits.path;
    let cap = |path| harness.sender.path.bbr.inflight_cap(path);
    // Startup begins with ten packets, whatever its little rate is.
    let path = PathModel { ack_path: 4000 * MS, ..path };
    let without = PathModel { ack_path: Duration::ZERO, ..path };
    assert!(cap(&path) > cap(&without));
}

#[test]
fn a_silence_while_tacks_queue_is_an_outage_later() {
    let mut harness = Harness::new();
    queued_round_trip(&mut harness, 90, 50);
    let path = harness.sender.limits.path;
    let wait = RTT + path.ack_interval + path.ack_late;
    assert!(!path.is_outage(wait + 50 * MS));
    assert!(path.is_outage(wait + 51 * MS));
}

#[test]
fn acks_of_a_stock_peer_count_as_queued_only_while_it_sends_data() {
    let ack_path = |peer_bytes| {
        let mut harness = Harness::with(|config| config.peer = None);
        harness.sender.on_peer_data(peer_bytes);
        round_trip(&mut harness, 140, 0);
        harness.sender.limits.path.ack_path
    };
    assert_eq!(ack_path(PACKET), Duration::ZERO, "one packet is no bulk");
    assert_eq!(ack_path(2 * PACKET), 100 * MS);
}

#[test]
fn a_departure_from_before_all_packets_that_were_acknowledged_since_the_last_tack_is_ignored() {
    let mut harness = Harness::new();
    let first_left = harness.now;
    let first = harness.send(5);
    harness.pass(RTT);
    harness.tack(&[first], Some(first_left)).unwrap();
    let left = harness.now;
    let second = harness.send(5);
    harness.pass(RTT);
    harness.tack(&[second], Some(first_left)).unwrap();
    assert_eq!(
        harness.sender.latest_rtt(),
        Some(RTT),
        "TACK-5.3-1: the largest one's, not two"
    );
    // An IACK may be the first to acknowledge what the TACK tells the time of.
    let third = harness.send(5);
    harness.pass(RTT);
    harness.iack(IackEvent::Loss, &[third]).unwrap();
    let third_left = left + RTT;
    let fourth = harness.send(5);
    harness.pass(RTT);
    harness.tack(&[fourth], Some(third_left)).unwrap();
    assert_eq!(harness.sender.latest_rtt(), Some(2 * RTT));
}
