//! Packet trains of Startup as the sender sends them (TACK-6.2-14).

use super::testing::{Harness, MS, PACKET, RTT};
use super::{INITIAL_WINDOW_PACKETS, Phase};

const IW: u64 = INITIAL_WINDOW_PACKETS * PACKET as u64;

#[test]
fn early_data_is_the_first_train() {
    let mut harness = Harness::new();
    for packet_number in 0..INITIAL_WINDOW_PACKETS {
        harness.sender.on_early_packet_sent(harness.now, packet_number, PACKET);
    }
    harness.next = INITIAL_WINDOW_PACKETS;
    assert_eq!(harness.sender.inflight_cap(), IW, "RFC 9002 section 7.2");
    harness.pass(RTT);
    harness.tack(&[0..=INITIAL_WINDOW_PACKETS - 1], None).unwrap();
    assert!(harness.sender.inflight_cap() > 6 * IW, "four times as much, and a train");
}

#[test]
fn a_train_leaves_at_four_times_the_rate_of_what_follows_it() {
    let mut harness = Harness::new();
    let first = harness.send(INITIAL_WINDOW_PACKETS);
    harness.pass(RTT);
    harness.tack(&[first], None).unwrap();
    let of_train = harness.sender.pacing_rate();
    let mut train = 0;
    while harness.sender.pacing_rate() == of_train {
        assert!(harness.sender.may_send(harness.now, true) || train > 0);
        harness.send(1);
        train += PACKET as u64;
        harness.now = harness.now.max(harness.sender.release_time());
    }
    assert_eq!(train, 2 * IW, "half of what four initial windows in a round trip are");
    assert_eq!(harness.sender.pacing_rate().scaled(4.0), of_train);
    assert!(harness.now < harness.epoch + RTT + RTT / 8 + MS);
    assert_eq!(harness.sender.phase(), Phase::Startup);
}
