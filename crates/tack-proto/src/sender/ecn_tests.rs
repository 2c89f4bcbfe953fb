//! ECN and what bubbles acknowledge (TACK-5.8-3, TACK-5.8-4).

use std::ops::Range;

use super::testing::{Harness, MS, RTT};
use crate::ecn::{Ecn, EcnState};
use crate::frame::EcnCounts;

/// A sender with ECT(0).
fn marking() -> Harness {
    Harness::with(|config| config.ecn = Ecn::Classic)
}

fn ect0(packets: u64) -> EcnCounts {
    EcnCounts { ect0: packets, ect1: 0, ce: 0 }
}

/// Sends a packet with these bytes of stream 1; its number.
fn send_bytes(harness: &mut Harness, bytes: Range<u64>) -> u64 {
    // STREAM with OFF and LEN, RFC 9000 section 19.8; integers of eight bytes (section 16).
    let mut payload = vec![0x0e, 1];
    for field in [bytes.start, bytes.end - bytes.start] {
        payload.extend((field | 0b11 << 62).to_be_bytes());
    }
    payload.resize(payload.len() + (bytes.end - bytes.start) as usize, 0);
    harness.sender.on_payload(harness.next, &payload);
    *harness.send(1).start()
}

#[test]
fn a_packet_that_bubbles_acknowledge_has_no_part_in_the_counts() {
    let mut harness = marking();
    let test = harness.send(10);
    harness.pass(RTT);
    harness.ecn = Some(ect0(10));
    harness.tack(&[test], None).unwrap();
    assert_eq!(harness.sender.ecn_state(), EcnState::Capable);
    let lost = send_bytes(&mut harness, 0..1000);
    send_bytes(&mut harness, 1000..2000);
    harness.pass(MS);
    let again = send_bytes(&mut harness, 0..1000);
    harness.pass(RTT);
    harness.ecn = Some(ect0(11));
    harness.bubbles = vec![(1, 1000..2000)];
    let outcome = harness.tack(&[again..=again], None).unwrap();
    assert_eq!(outcome.acked, [lost..=lost, again..=again]);
    assert_eq!(outcome.by_bubbles, 1);
    assert_eq!(harness.sender.ecn_state(), EcnState::Capable, "TACK-5.8-3");
}

#[test]
fn data_that_has_arrived_without_a_mark_does_not_pass_a_test() {
    let mut harness = marking();
    for packet in 0..10 {
        send_bytes(&mut harness, packet * 1000..packet * 1000 + 1000);
    }
    // The path drops what is marked. A probe repeats what the last one carried.
    harness.pass(3 * RTT);
    let again = send_bytes(&mut harness, 0..1000);
    harness.pass(RTT);
    harness.ecn = Some(ect0(0));
    harness.bubbles = vec![(1, 1000..9000)];
    let outcome = harness.tack(&[again..=again], None).unwrap();
    assert_eq!((outcome.by_bubbles, outcome.lost_packets), (1, 9));
    assert_eq!(harness.sender.ecn_state(), EcnState::Failed, "TACK-5.8-4");
}
