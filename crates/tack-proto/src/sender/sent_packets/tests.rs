use super::*;
use crate::bandwidth::Bandwidth;

const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(40);
const FLIGHT: FlightId = FlightId(1);

fn send(sent: &mut SentPackets, now: Instant, packet_number: u64) {
    send_on(sent, now, packet_number, FLIGHT);
}

fn send_on(sent: &mut SentPackets, now: Instant, packet_number: u64, flight: FlightId) {
    let packet = Leaving {
        packet_number,
        bytes: 1000,
        ack_eliciting: true,
        flight,
        is_probe: false,
        pace: Pace::default(),
        is_marked: false,
    };
    sent.on_sent(now, packet);
}

/// Ten packets of 1,000 bytes, one a millisecond.
fn ten() -> (SentPackets, Instant) {
    let t0 = crate::test_clock();
    let mut sent = SentPackets::new(t0, true, FLIGHT);
    for pn in 0..10 {
        send(&mut sent, t0 + pn as u32 * MS, pn);
    }
    (sent, t0)
}

/// Applies an acknowledgement if it checks.
fn ack(
    sent: &mut SentPackets,
    now: Instant,
    ranges: &[RangeInclusive<u64>],
) -> Result<AckOutcome, OptimisticAck> {
    sent.check(ranges.iter().cloned())?;
    let expected = sent.unacknowledged(ranges.iter().cloned());
    let outcome = sent.on_ack(now, ranges.iter().cloned(), &[], RTT);
    assert_eq!(outcome.acked, expected, "what was said before");
    Ok(outcome)
}

#[test]
fn an_acknowledgement_is_counted_once() {
    let (mut sent, t0) = ten();
    let outcome = ack(&mut sent, t0 + RTT, &[0..=4]).unwrap();
    assert_eq!((outcome.acked, outcome.acked_bytes), (vec![0..=4], 5000));
    let outcome = ack(&mut sent, t0 + RTT, &[2..=6]).unwrap();
    assert_eq!((outcome.acked, outcome.acked_bytes), (vec![5..=6], 2000));
    assert_eq!(sent.in_flight(), 3000);
    assert_eq!(sent.delivered(), 7000);
}

#[test]
fn a_number_that_no_stack_skips_to_is_not_recorded() {
    let (mut sent, t0) = ten();
    send(&mut sent, t0 + RTT, 1 << 32);
    assert_eq!((sent.next_packet_number(), sent.in_flight()), (10, 10_000));
    send(&mut sent, t0 + RTT, 20);
    assert_eq!((sent.next_packet_number(), sent.packets.len()), (21, 21));
}

#[test]
fn the_earliest_packet_has_waited_for_its_acknowledgement_the_largest_has_not() {
    let (mut sent, t0) = ten();
    ack(&mut sent, t0 + RTT, &[0..=1]).unwrap();
    let outcome = ack(&mut sent, t0 + RTT + 8 * MS, &[0..=8]).unwrap();
    assert_eq!(outcome.current.largest_rtt, Some(RTT));
    assert_eq!(outcome.current.earliest_rtt, Some(RTT + 6 * MS));
}

#[test]
fn three_newer_packets_make_a_loss_and_a_late_arrival_shows_it_spurious() {
    let (mut sent, t0) = ten();
    let outcome = ack(&mut sent, t0 + RTT, &[3..=4, 0..=0]).unwrap();
    assert_eq!(outcome.lost_packets, 1, "1 is three below 4; 2 is not");
    let outcome = ack(&mut sent, t0 + RTT, &[0..=5]).unwrap();
    assert_eq!((outcome.spurious, outcome.lost_packets), (1, 0));
    assert_eq!(sent.in_flight(), 4000);
}

#[test]
fn data_that_has_arrived_according_to_bubbles_is_neither_lost_nor_counted_as_delivered() {
    let (mut sent, t0) = ten();
    let outcome = sent.on_ack(t0 + RTT, [8..=9, 6..=6].into_iter(), &[1, 2, 5], RTT);
    assert_eq!(outcome.acked, [1..=2, 5..=6, 8..=9]);
    assert_eq!((outcome.by_bubbles, outcome.lost_packets), (3, 3), "0, 3 and 4 are lost");
    assert_eq!((sent.delivered(), sent.in_flight()), (3000, 1000));
    // A number that names it after all changes nothing, nor do repetitions and lost ones.
    let outcome = sent.on_ack(t0 + RTT, [9..=9, 1..=2].into_iter(), &[0, 5], RTT);
    assert_eq!((outcome.acked, outcome.by_bubbles, outcome.spurious), (vec![], 0, 0));
}

#[test]
fn a_spurious_loss_shows_how_far_packets_may_be_apart() {
    let (mut sent, t0) = ten();
    assert_eq!(ack(&mut sent, t0 + RTT, &[1..=5]).unwrap().lost_packets, 1);
    ack(&mut sent, t0 + RTT, &[0..=6]).unwrap();
    assert_eq!(sent.packet_threshold(), 7, "0 was six below 6");
    for pn in 10..20 {
        send(&mut sent, t0 + RTT, pn);
    }
    assert_eq!(ack(&mut sent, t0 + RTT, &[8..=13]).unwrap().lost_packets, 0);
    assert_eq!(ack(&mut sent, t0 + RTT, &[8..=14]).unwrap().lost_packets, 1);
    // And by time: 5/4 of the round trip.
    let losses =
        |sent: &mut SentPackets, at| ack(sent, t0 + RTT + at, &[16..=16]).unwrap().lost_packets;
    assert_eq!(losses(&mut sent, 49 * MS), 0);
    assert_eq!(losses(&mut sent, 50 * MS), 1);
}

#[test]
fn an_old_hole_is_a_loss_whatever_its_distance() {
    let (mut sent, t0) = ten();
    let outcome = ack(&mut sent, t0 + 60 * MS, &[9..=9, 0..=7]).unwrap();
    assert_eq!(outcome.lost_packets, 1);
    assert_eq!(sent.in_flight(), 0);
}

#[test]
fn acknowledging_what_was_never_sent_is_refused() {
    let (mut sent, t0) = ten();
    assert_eq!(ack(&mut sent, t0, &[0..=10]).unwrap_err(), OptimisticAck(10));
    send(&mut sent, t0, 11);
    assert_eq!(ack(&mut sent, t0, &[9..=11]).unwrap_err(), OptimisticAck(10));
    assert_eq!(sent.in_flight(), 11_000, "a refused acknowledgement changes nothing");
}

#[test]
fn numbers_from_before_the_record_are_let_pass_where_it_does_not_see_all() {
    let t0 = crate::test_clock();
    let mut sent = SentPackets::new(t0, false, FLIGHT);
    assert!(ack(&mut sent, t0, &[3..=5]).unwrap().acked.is_empty());
    send(&mut sent, t0, 6);
    assert_eq!(ack(&mut sent, t0, &[4..=6]).unwrap().acked, [6..=6]);
    assert_eq!(ack(&mut sent, t0, &[4..=7]).unwrap_err(), OptimisticAck(7));
}

#[test]
fn the_sample_is_the_rate_of_the_slower_of_sending_and_acknowledging() {
    let (mut sent, t0) = ten();
    ack(&mut sent, t0 + RTT, &[0..=0]).unwrap();
    for pn in 10..20 {
        send(&mut sent, t0 + RTT + (pn - 10) as u32 * MS, pn);
    }
    // Everything up to 10 comes at half the speed at which it was sent.
    let outcome = ack(&mut sent, t0 + RTT + 20 * MS, &[1..=10]).unwrap();
    let sample = outcome.current.sample.unwrap();
    assert_eq!(sample.rate, Bandwidth::from_bytes_per_second(10_000 * 1000 / 40));
    assert!(!sample.app_limited);
}

#[test]
fn a_stretch_of_a_quarter_of_a_sample_shows_the_rate_without_the_pause_before_it() {
    let (mut sent, t0) = ten();
    let mut recent = |ms: u32, range| {
        let outcome = ack(&mut sent, t0 + RTT + ms * MS, &[range]).unwrap();
        let sample = outcome.current.sample.unwrap();
        (sample.rate, sample.recent.unwrap())
    };
    let rate = Bandwidth::from_bytes_per_second;
    // They come at half the speed at which they left.
    assert_eq!(recent(0, 0..=0), (rate(25_000), rate(25_000)), "there is nothing before it");
    assert_eq!(recent(10, 1..=5), (rate(6000 * 1000 / 50), rate(25_000)), "10 ms of 50");
    assert_eq!(recent(14, 6..=7), (rate(8_000_000 / 54), rate(500_000)), "14 ms of 54");
    assert_eq!(recent(14, 8..=9).1, rate(500_000), "what comes together is no stretch");
}

#[test]
fn what_an_application_writes_behind_a_pause_is_application_limited() {
    let (mut sent, t0) = ten();
    assert!(!sent.restarts_from_idle());
    sent.on_run_dry();
    ack(&mut sent, t0 + RTT, &[0..=9]).unwrap();
    assert!(sent.restarts_from_idle(), "all has been acknowledged, and there was no more");
    for pn in 10..14 {
        send(&mut sent, t0 + 100 * MS, pn);
    }
    assert!(!sent.restarts_from_idle());
    let outcome = ack(&mut sent, t0 + 100 * MS + RTT, &[10..=13]).unwrap();
    assert!(outcome.current.sample.unwrap().app_limited);
    send(&mut sent, t0 + 200 * MS, 14);
    let outcome = ack(&mut sent, t0 + 200 * MS + RTT, &[14..=14]).unwrap();
    assert!(outcome.current.sample.unwrap().app_limited, "nothing has had to wait");
    sent.on_data_waits();
    send(&mut sent, t0 + 300 * MS, 15);
    let outcome = ack(&mut sent, t0 + 300 * MS + RTT, &[15..=15]).unwrap();
    assert!(!outcome.current.sample.unwrap().app_limited);
}

#[test]
fn what_was_in_flight_when_the_application_paused_is_marked() {
    let (mut sent, t0) = ten();
    sent.on_app_limited();
    send(&mut sent, t0 + 20 * MS, 10);
    let outcome = ack(&mut sent, t0 + RTT + 20 * MS, &[0..=10]).unwrap();
    assert!(outcome.current.sample.unwrap().app_limited);
    send(&mut sent, t0 + 80 * MS, 11);
    let outcome = ack(&mut sent, t0 + 120 * MS, &[11..=11]).unwrap();
    assert!(!outcome.current.sample.unwrap().app_limited);
}

#[test]
fn an_instant_ack_that_skips_unreported_packets_is_recognised() {
    let (mut sent, t0) = ten();
    ack(&mut sent, t0 + RTT, &[0..=3]).unwrap();
    assert!(!sent.leaves_unknown_below(4));
    assert!(sent.leaves_unknown_below(6));
}

#[test]
fn packets_that_nothing_waits_for_leave_the_record() {
    let t0 = crate::test_clock();
    let mut sent = SentPackets::new(t0, true, FLIGHT);
    for pn in 0..100_000_u64 {
        send(&mut sent, t0, pn);
        if pn % 10 == 9 {
            // One in ten is lost.
            ack(&mut sent, t0, &[pn - 8..=pn]).unwrap();
        }
    }
    assert!(sent.packets.len() < 1000, "{}", sent.packets.len());
}

/// What is in flight at most: what quiche's window of 20,000 packets leaves room for.
const MOST: u64 = 19_500;

fn most_in_flight() -> (SentPackets, Instant) {
    let t0 = crate::test_clock();
    let mut sent = SentPackets::new(t0, true, FLIGHT);
    for pn in 0..MOST {
        send(&mut sent, t0, pn);
    }
    (sent, t0)
}

/// Entries that a packet of sixty acknowledgements of `ranges` makes the record visit.
fn visited_by_sixty(
    sent: &mut SentPackets,
    now: Instant,
    ranges: &[RangeInclusive<u64>],
) -> u64 {
    let before = sent.visited;
    for _ in 0..60 {
        ack(sent, now, ranges).unwrap();
    }
    sent.visited - before
}

#[test]
fn acknowledgements_that_repeat_what_is_known_visit_next_to_nothing() {
    let (mut sent, t0) = most_in_flight();
    ack(&mut sent, t0 + RTT, &[0..=MOST - 500]).unwrap();
    let old: Vec<_> = (0..11).rev().map(|n| n * 1000..=n * 1000 + 998).collect();
    let visited = visited_by_sixty(&mut sent, t0 + RTT, &old);
    assert!(visited <= 60 * 3, "{visited}");
}

#[test]
fn what_was_lost_is_not_looked_at_again() {
    let (mut sent, t0) = most_in_flight();
    let lost = ack(&mut sent, t0 + RTT, &[MOST - 2..=MOST - 2]).unwrap().lost_packets;
    assert_eq!(lost, MOST - 4, "all but the two below the largest and the one above it");
    let visited = visited_by_sixty(&mut sent, t0 + RTT, &[MOST - 2..=MOST - 2]);
    assert!(visited <= 60 * 5, "{visited}");
    let none = sent.left_out(std::iter::once(MOST - 2..=MOST - 2), usize::MAX);
    assert_eq!(none, [MOST - 4, MOST - 3]);
}

#[test]
fn packets_left_out_between_ranges_are_found_once() {
    let (sent, _) = ten();
    let left_out =
        |ranges: &[RangeInclusive<u64>], count| sent.left_out(ranges.iter().cloned(), count);
    assert_eq!(left_out(&[8..=8, 4..=6, 0..=1], 100), [2, 3, 7]);
    assert_eq!(left_out(&[8..=8, 4..=6, 0..=1], 2), [3, 7], "the newest");
    assert_eq!(left_out(&[5..=5], 100), [0, 1, 2, 3, 4]);
    assert_eq!(left_out(&[0..=0], 100), []);
}

#[test]
fn a_peer_that_acknowledges_nothing_does_not_make_the_record_grow_for_ever() {
    let t0 = crate::test_clock();
    let mut sent = SentPackets::new(t0, true, FLIGHT);
    for pn in 0..2 * MAX_RECORDED as u64 {
        send(&mut sent, t0, pn);
    }
    assert!(sent.packets.len() <= MAX_RECORDED && sent.unacknowledged.len() <= MAX_RECORDED);
    assert!(sent.total_in_flight() <= MAX_RECORDED as u64 * 1000);
    assert_eq!(sent.in_flight(), sent.total_in_flight());
    assert!(sent.leaves_unknown_below(2 * MAX_RECORDED as u64));
    ack(&mut sent, t0, &[2 * MAX_RECORDED as u64 - 10..=2 * MAX_RECORDED as u64 - 1]).unwrap();
    assert_eq!(sent.total_in_flight(), 0);
}

#[test]
fn answers_to_a_peer_that_never_acknowledges_are_not_kept_for_ever() {
    let t0 = crate::test_clock();
    let mut sent = SentPackets::new(t0, true, FLIGHT);
    for packet_number in 0..100_000 {
        let ack_eliciting = packet_number == 0;
        sent.on_sent(
            t0,
            Leaving {
                packet_number,
                bytes: 50,
                ack_eliciting,
                flight: FLIGHT,
                is_probe: false,
                pace: Pace::default(),
                is_marked: false,
            },
        );
        if packet_number % 100 == 50 {
            sent.on_withheld(t0, packet_number + 1);
        }
    }
    assert!(sent.skipped.len() <= MAX_SKIPPED && sent.withheld.len() <= MAX_SKIPPED);
    assert!(sent.packets.len() <= MAX_RECORDED);
}
