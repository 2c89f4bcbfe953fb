//! Numbers skipped on purpose, and receivers that acknowledge them.

use super::testing::{Harness, MS, RTT};
use super::{OptimisticAck, Violation};
use crate::frame::IackEvent;

#[test]
fn a_claim_of_a_skipped_number_is_refused_in_every_frame() {
    let mut harness = Harness::new();
    harness.send(3);
    assert_eq!(harness.skip(), 3);
    harness.send(3);
    let refused = Err(Violation::OptimisticAck(OptimisticAck(3)));
    assert_eq!(harness.tack(&[0..=6], None).map(drop), refused);
    assert_eq!(harness.iack(IackEvent::Loss, &[0..=6]).map(drop), refused);
    assert_eq!(harness.ack(&[0..=6], MS).map(drop), refused);
    harness.tack(&[4..=6, 0..=2], None).unwrap();
    // However long ago.
    let numbers = harness.send(100);
    harness.tack(&[4..=*numbers.end(), 0..=2], None).unwrap();
    harness.send(10);
    assert_eq!(harness.tack(&[0..=6], None).map(drop), refused);
}

#[test]
fn a_skipped_number_is_reported_once_with_what_is_acknowledged_above_it() {
    let mut harness = Harness::new();
    harness.send(3);
    harness.skip();
    harness.send(3);
    assert_eq!(harness.tack(&[0..=1], None).unwrap().acked, [0..=1]);
    let outcome = harness.tack(&[5..=5, 0..=1], None).unwrap();
    assert_eq!(outcome.acked, [3..=3, 5..=5]);
    assert_eq!(outcome.lost_packets, 1, "2, and not 3");
    assert_eq!(harness.tack(&[4..=6], None).unwrap().acked, [4..=4, 6..=6]);
}

#[test]
fn a_peer_that_goes_on_sending_and_acknowledges_nothing_is_refused() {
    let mut harness = Harness::new();
    harness.send(10);
    harness.tack(&[0..=4], None).unwrap();
    harness.send(99_995);
    assert_eq!(
        harness.sender.check_answers(),
        Ok(()),
        "TACK-7-16: 100,000 are behind number 4"
    );
    harness.send(1);
    let refused = Err(Violation::AcknowledgesNothing { packets: 100_001 });
    assert_eq!(harness.sender.check_answers(), refused);
    harness.tack(&[0..=5], None).unwrap();
    assert_eq!(harness.sender.check_answers(), Ok(()));
}

#[test]
fn an_iack_that_is_left_to_the_next_tack_reports_no_skipped_number_either() {
    let mut harness = Harness::new();
    harness.send(3);
    harness.skip();
    harness.send(6);
    assert_eq!(harness.iack(IackEvent::Loss, &[5..=9]).unwrap().acked, []);
    assert_eq!(harness.iack(IackEvent::Other(77), &[5..=9]).unwrap().acked, []);
    let outcome = harness.iack(IackEvent::Reply, &[5..=9]).unwrap();
    assert_eq!(outcome.acked, [3..=3, 5..=9]);
}

#[test]
fn numbers_that_the_stack_leaves_out_by_itself_are_refused_and_never_reported() {
    let mut harness = Harness::new();
    harness.send(3);
    harness.next += 1;
    harness.send(3);
    let refused = Err(Violation::OptimisticAck(OptimisticAck(3)));
    assert_eq!(harness.tack(&[0..=6], None).map(drop), refused);
    assert_eq!(harness.tack(&[4..=6, 0..=2], None).unwrap().acked, [0..=2, 4..=6]);
}

/// A sender that skips when it is asked to, and a receiver that acknowledges everything from the
/// packet `lie` on, received or not; in how many round trips it is caught.
fn round_trips_until_caught(seed: u64, lie: u64) -> u32 {
    let random = seed.wrapping_mul(0x1234_5678_9abc_def1);
    let mut harness = Harness::with(|config| config.random = random);
    let mut rounds = 0;
    for round in 0..200_u64 {
        let window = harness.sender.inflight_cap() / super::testing::PACKET as u64;
        let first = harness.next;
        for number in 0..window {
            if harness.sender.wants_skip() {
                let random =
                    random.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (round << 32 | number);
                harness.sender.on_packet_skipped(harness.now, harness.next, random);
                harness.next += 1;
            }
            harness.send(1);
        }
        let left = harness.now;
        harness.pass(RTT);
        if harness.next <= lie {
            let skipped = harness.sender.skipped_between(first, harness.next - 1);
            let mut ranges = Vec::new();
            let mut end = harness.next - 1;
            for number in skipped.into_iter().rev() {
                ranges.push(number + 1..=end);
                end = number - 1;
            }
            ranges.push(first..=end);
            harness.tack(&ranges, Some(left)).unwrap();
            continue;
        }
        rounds += 1;
        if harness.tack(&[first..=harness.next - 1], Some(left)).is_err() {
            return rounds;
        }
    }
    panic!("never caught");
}

#[test]
fn an_optimistic_receiver_is_caught_within_three_round_trips_of_its_first_lie() {
    for random in 0..100 {
        for lie in [0, 1, 500, 5_000] {
            let rounds = round_trips_until_caught(random, lie);
            assert!(rounds <= 3, "seed {random}, lies from {lie}: {rounds} round trips");
        }
    }
}
