use super::*;

const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(40);

/// Ten packets of 1,000 bytes, one a millisecond.
fn ten() -> (SentLedger, Instant) {
    let t0 = crate::test_clock();
    let mut ledger = SentLedger::new(t0, true);
    for pn in 0..10 {
        ledger.on_sent(t0 + pn as u32 * MS, pn, 1000, true);
    }
    (ledger, t0)
}

fn ack(
    ledger: &mut SentLedger,
    now: Instant,
    ranges: &[RangeInclusive<u64>],
) -> Result<Newly, OptimisticAck> {
    ledger.on_ack(now, ranges.iter().cloned(), &[], RTT)
}

#[test]
fn an_acknowledgement_is_counted_once() {
    let (mut ledger, t0) = ten();
    let newly = ack(&mut ledger, t0 + RTT, &[0..=4]).unwrap();
    assert_eq!((newly.acked, newly.acked_bytes), (vec![0..=4], 5000));
    let newly = ack(&mut ledger, t0 + RTT, &[2..=6]).unwrap();
    assert_eq!((newly.acked, newly.acked_bytes), (vec![5..=6], 2000));
    assert_eq!(ledger.in_flight(), 3000);
    assert_eq!(ledger.delivered(), 7000);
}

#[test]
fn the_earliest_packet_has_waited_for_its_acknowledgement_the_largest_has_not() {
    let (mut ledger, t0) = ten();
    ack(&mut ledger, t0 + RTT, &[0..=1]).unwrap();
    let newly = ack(&mut ledger, t0 + RTT + 8 * MS, &[0..=8]).unwrap();
    assert_eq!(newly.largest_rtt, Some(RTT));
    assert_eq!(newly.earliest_rtt, Some(RTT + 6 * MS));
}

#[test]
fn three_newer_packets_make_a_loss_and_a_late_arrival_shows_it_spurious() {
    let (mut ledger, t0) = ten();
    let newly = ack(&mut ledger, t0 + RTT, &[3..=4, 0..=0]).unwrap();
    assert_eq!(newly.lost_packets, 1, "1 is three below 4; 2 is not");
    let newly = ack(&mut ledger, t0 + RTT, &[0..=5]).unwrap();
    assert_eq!((newly.spurious, newly.lost_packets), (1, 0));
    assert_eq!(ledger.in_flight(), 4000);
}

#[test]
fn data_that_arrived_as_bubbles_tell_is_neither_lost_nor_counted_as_delivered() {
    let (mut ledger, t0) = ten();
    let newly = ledger.on_ack(t0 + RTT, [8..=9, 6..=6].into_iter(), &[1, 2, 5], RTT).unwrap();
    assert_eq!(newly.acked, [1..=2, 5..=6, 8..=9]);
    assert_eq!((newly.by_bubbles, newly.lost_packets), (3, 3), "0, 3 and 4 are lost");
    assert_eq!((ledger.delivered(), ledger.in_flight()), (3000, 1000));
    // A number that names it after all changes nothing, nor do repetitions and lost ones.
    let newly = ledger.on_ack(t0 + RTT, [9..=9, 1..=2].into_iter(), &[0, 5], RTT).unwrap();
    assert_eq!((newly.acked, newly.by_bubbles, newly.spurious), (vec![], 0, 0));
}

#[test]
fn a_spurious_loss_shows_how_far_packets_may_be_apart() {
    let (mut ledger, t0) = ten();
    assert_eq!(ack(&mut ledger, t0 + RTT, &[1..=5]).unwrap().lost_packets, 1);
    ack(&mut ledger, t0 + RTT, &[0..=6]).unwrap();
    assert_eq!(ledger.packet_threshold(), 7, "0 was six below 6");
    for pn in 10..20 {
        ledger.on_sent(t0 + RTT, pn, 1000, true);
    }
    assert_eq!(ack(&mut ledger, t0 + RTT, &[8..=13]).unwrap().lost_packets, 0);
    assert_eq!(ack(&mut ledger, t0 + RTT, &[8..=14]).unwrap().lost_packets, 1);
    // And by time: 5/4 of the round trip.
    let losses = |ledger: &mut SentLedger, at| {
        ack(ledger, t0 + RTT + at, &[16..=16]).unwrap().lost_packets
    };
    assert_eq!(losses(&mut ledger, 49 * MS), 0);
    assert_eq!(losses(&mut ledger, 50 * MS), 1);
}

#[test]
fn an_old_hole_is_a_loss_whatever_its_distance() {
    let (mut ledger, t0) = ten();
    let newly = ack(&mut ledger, t0 + 60 * MS, &[9..=9, 0..=7]).unwrap();
    assert_eq!(newly.lost_packets, 1);
    assert_eq!(ledger.in_flight(), 0);
}

#[test]
fn acknowledging_what_was_never_sent_is_refused() {
    let (mut ledger, t0) = ten();
    assert_eq!(ack(&mut ledger, t0, &[0..=10]).unwrap_err(), OptimisticAck(10));
    ledger.on_sent(t0, 11, 1000, true);
    assert_eq!(ack(&mut ledger, t0, &[9..=11]).unwrap_err(), OptimisticAck(10));
    assert_eq!(ledger.in_flight(), 11_000, "a refused acknowledgement changes nothing");
}

#[test]
fn numbers_from_before_the_record_are_let_pass_where_it_does_not_see_all() {
    let t0 = crate::test_clock();
    let mut ledger = SentLedger::new(t0, false);
    assert!(ack(&mut ledger, t0, &[3..=5]).unwrap().acked.is_empty());
    ledger.on_sent(t0, 6, 1000, true);
    assert_eq!(ack(&mut ledger, t0, &[4..=6]).unwrap().acked, [6..=6]);
    assert_eq!(ack(&mut ledger, t0, &[4..=7]).unwrap_err(), OptimisticAck(7));
}

#[test]
fn the_sample_is_the_rate_of_the_slower_of_sending_and_acknowledging() {
    let (mut ledger, t0) = ten();
    ack(&mut ledger, t0 + RTT, &[0..=0]).unwrap();
    for pn in 10..20 {
        ledger.on_sent(t0 + RTT + (pn - 10) as u32 * MS, pn, 1000, true);
    }
    // Everything up to 10 comes at half the speed at which it was sent.
    let newly = ack(&mut ledger, t0 + RTT + 20 * MS, &[1..=10]).unwrap();
    let sample = newly.sample.unwrap();
    assert_eq!(sample.rate, Bandwidth::from_bytes_per_second(10_000 * 1000 / 40));
    assert!(!sample.app_limited);
}

#[test]
fn what_was_in_flight_when_the_application_paused_is_marked() {
    let (mut ledger, t0) = ten();
    ledger.on_app_limited();
    ledger.on_sent(t0 + 20 * MS, 10, 1000, true);
    let newly = ack(&mut ledger, t0 + RTT + 20 * MS, &[0..=10]).unwrap();
    assert!(newly.sample.unwrap().app_limited);
    ledger.on_sent(t0 + 80 * MS, 11, 1000, true);
    let newly = ack(&mut ledger, t0 + 120 * MS, &[11..=11]).unwrap();
    assert!(!newly.sample.unwrap().app_limited);
}

#[test]
fn an_instant_ack_that_skips_unreported_packets_is_recognised() {
    let (mut ledger, t0) = ten();
    ack(&mut ledger, t0 + RTT, &[0..=3]).unwrap();
    assert!(!ledger.leaves_unknown_below(4));
    assert!(ledger.leaves_unknown_below(6));
}

#[test]
fn settled_packets_leave_the_record() {
    let t0 = crate::test_clock();
    let mut ledger = SentLedger::new(t0, true);
    for pn in 0..100_000_u64 {
        ledger.on_sent(t0, pn, 1000, true);
        if pn % 10 == 9 {
            // One in ten is lost.
            ack(&mut ledger, t0, &[pn - 8..=pn]).unwrap();
        }
    }
    assert!(ledger.packets.len() < 1000, "{}", ledger.packets.len());
}
