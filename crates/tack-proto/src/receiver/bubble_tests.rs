//! When a receiver lists bubbles, and what a poor one reports.

use super::*;
use crate::frame::{Frame, Frames, Tack};

const MS: Duration = Duration::from_millis(1);

/// A receiver with L = 2, alpha = 10 ms, and an advertised number of packets of a round trip
/// go unreported; it has lost every tenth packet for some time.
fn lossy(unreported: u64, reported_gaps: Option<usize>) -> (Receiver, Instant, u64) {
    let mut now = crate::test_clock();
    let config = ReceiverConfig {
        max_ack_delay: 50 * MS,
        timestamp_exponent: 3,
        schedule: Schedule::Tack,
        reported_gaps,
        reports_arrivals: false,
    };
    let mut receiver = Receiver::new(now, config);
    receiver.on_frequency_update(&AckFrequency {
        sequence: 0,
        ack_eliciting_threshold: 1,
        requested_max_ack_delay_us: 10_000,
        reordering_threshold: unreported,
    });
    let mut next = 0;
    for _ in 0..40 {
        for _ in 0..9 {
            arrive(&mut receiver, now, next, None);
            next += 1;
        }
        next += 1;
        now += 10 * MS;
        assert!(receiver.write(now, Due::Tack, 1000, &mut Vec::new()));
    }
    assert!((receiver.loss_rate() - 0.1).abs() < 0.01);
    (receiver, now, next)
}

/// Packet `pn` arrives, with ten bytes of stream 0 at ten times `at`.
fn arrive(receiver: &mut Receiver, now: Instant, pn: u64, at: Option<u64>) {
    receiver.on_packet(
        now,
        Received {
            packet_number: pn,
            bytes: 1200,
            ack_eliciting: true,
            departure: None,
            ends_stream: false,
            ecn: EcnCodepoint::NotEct,
        },
    );
    if let Some(at) = at {
        let frame = Stream { stream_id: 0, offset: at * 10, len: 10, fin: false };
        receiver.on_stream(now, pn, &frame);
    }
}

/// What the TACK of `now` says, and its length.
fn report<T>(receiver: &mut Receiver, now: Instant, read: impl Fn(&Tack<'_>) -> T) -> T {
    let mut out = Vec::new();
    assert!(receiver.write(now, Due::Tack, 1000, &mut out));
    let located = Frames::new(&out).next().unwrap().unwrap();
    let Frame::Tack(tack) = located.frame else { panic!("{:?}", located.frame) };
    read(&tack)
}

fn bubbles(tack: &Tack<'_>) -> Vec<(u64, std::ops::Range<u64>)> {
    tack.bubbles.iter().flatten().collect()
}

/// Packets with bytes 0 to 9, 20 to 29 and 60 to 99 of the stream.
fn two_bubbles(receiver: &mut Receiver, now: Instant, first: u64) {
    for at in [0, 2, 6, 7, 8, 9] {
        arrive(receiver, now, first + at, Some(at));
    }
}

#[test]
fn bubbles_are_listed_once_lost_tacks_hide_more_than_one_loss_of_a_round_trip() {
    for (unreported, listed) in [(0, 0), (8, 0), (12, 2)] {
        let (mut receiver, now, next) = lossy(unreported, None);
        two_bubbles(&mut receiver, now, next);
        let loss = Due::Iack(IackEvent::Loss);
        assert!(receiver.write(now + MS, loss, 1000, &mut Vec::new()));
        let found = report(&mut receiver, now + 10 * MS, bubbles);
        let expected = [(0, 10..20), (0, 30..60)];
        assert_eq!(found, expected[..listed], "{unreported} packets unreported");
        assert_eq!(receiver.stats().bubbles, listed as u64);
    }
}

#[test]
fn a_sender_that_asks_at_once_gets_the_bubbles_too() {
    for (unreported, due) in [(8, Due::Iack(IackEvent::Reply)), (12, Due::Tack)] {
        let (mut receiver, before, next) = lossy(unreported, None);
        let now = before + MS;
        two_bubbles(&mut receiver, now, next);
        receiver.on_immediate_ack(now);
        assert_eq!(receiver.due(now), Some(due), "{unreported} packets unreported");
        assert!(receiver.write(now, due, 1000, &mut Vec::new()));
        assert_ne!(receiver.due(now + MS), Some(due), "it was answered");
    }
}

#[test]
fn a_bubble_waits_for_the_iack_that_reports_its_loss() {
    let (mut receiver, now, next) = lossy(100, None);
    // The last hole of before has been reported; this one is one packet old.
    arrive(&mut receiver, now, next, Some(0));
    arrive(&mut receiver, now, next + 2, Some(2));
    assert_eq!(report(&mut receiver, now + MS, bubbles), []);
    // It becomes a loss, and the IACK leaves.
    arrive(&mut receiver, now + 2 * MS, next + 3, Some(3));
    arrive(&mut receiver, now + 2 * MS, next + 4, Some(4));
    assert_eq!(receiver.due(now + 2 * MS), Some(Due::Iack(IackEvent::Loss)));
    let loss = Due::Iack(IackEvent::Loss);
    assert!(receiver.write(now + 2 * MS, loss, 1000, &mut Vec::new()));
    assert_eq!(report(&mut receiver, now + 11 * MS, bubbles), [(0, 10..20)]);
    // Repeated until it is filled.
    arrive(&mut receiver, now + 12 * MS, next + 5, Some(6));
    assert_eq!(report(&mut receiver, now + 21 * MS, bubbles)[0], (0, 10..20));
}

#[test]
fn where_every_packet_is_acknowledged_no_iack_is_waited_for() {
    let (mut receiver, now, next) = lossy(100, None);
    receiver.on_frequency_update(&AckFrequency {
        sequence: 1,
        ack_eliciting_threshold: 0,
        requested_max_ack_delay_us: 0,
        reordering_threshold: 100,
    });
    arrive(&mut receiver, now, next, Some(0));
    arrive(&mut receiver, now, next + 2, Some(2));
    assert_eq!(report(&mut receiver, now, bubbles), [(0, 10..20)]);
}

#[test]
fn a_poor_tack_acknowledges_up_to_the_packet_behind_the_oldest_bubble() {
    let (mut receiver, now, next) = lossy(100, Some(1));
    arrive(&mut receiver, now, next, Some(0));
    arrive(&mut receiver, now + 4 * MS, next + 2, Some(2));
    for at in [6, 7, 8, 9] {
        arrive(&mut receiver, now + 5 * MS, next + at, Some(at));
    }
    let loss = Due::Iack(IackEvent::Loss);
    assert!(receiver.write(now + 6 * MS, loss, 1000, &mut Vec::new()));
    let (largest, delay, listed) = report(&mut receiver, now + 10 * MS, |tack| {
        (tack.ranges.largest(), tack.ack_delay_us, bubbles(tack))
    });
    assert_eq!((largest, delay), (next + 2, 6000), "that packet and its own delay");
    assert_eq!(listed, [(0, 10..20)]);
    // Filled, it makes room for the next.
    arrive(&mut receiver, now + 11 * MS, next + 10, Some(1));
    assert_eq!(report(&mut receiver, now + 20 * MS, |tack| tack.ranges.largest()), next + 6);
}

#[test]
fn a_bubble_that_is_never_filled_stops_a_poor_receiver_for_eight_tacks_only() {
    let (mut receiver, mut now, next) = lossy(0, Some(1));
    arrive(&mut receiver, now, next, Some(0));
    let mut largest = Vec::new();
    for pn in next + 2..next + 20 {
        arrive(&mut receiver, now, pn, Some(pn - next));
        now += 10 * MS;
        largest.push(report(&mut receiver, now, |tack| tack.ranges.largest()));
    }
    assert_eq!(largest[7], next + 2);
    assert_eq!(largest[8], next + 10);
    assert_eq!(largest[17], next + 19);
}
