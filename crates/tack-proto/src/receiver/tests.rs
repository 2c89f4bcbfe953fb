use super::*;
use crate::frame::{Frame, Frames, Tack};

const MS: Duration = Duration::from_millis(1);

fn data(pn: u64) -> Received {
    Received {
        packet_number: pn,
        bytes: 1200,
        ack_eliciting: true,
        departure: None,
        ends_stream: false,
        ecn: EcnCodepoint::NotEct,
    }
}

fn config(schedule: Schedule) -> ReceiverConfig {
    ReceiverConfig {
        max_ack_delay: 50 * MS,
        timestamp_exponent: 3,
        schedule,
        reported_gaps: None,
        reports_arrivals: false,
    }
}

fn update(sequence: u64, threshold: u64, delay: Duration) -> AckFrequency {
    AckFrequency {
        sequence,
        ack_eliciting_threshold: threshold,
        requested_max_ack_delay_us: delay.as_micros() as u64,
        reordering_threshold: 1,
    }
}

/// A receiver to which L = 2 and alpha = 10 ms have been advertised.
fn steady() -> (Receiver, Instant) {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    receiver.on_packet(t0, data(0));
    receiver.on_frequency_update(&update(0, 1, 10 * MS));
    assert!(receiver.write(t0, Due::Tack, 1000, &mut Vec::new()));
    (receiver, t0)
}

#[test]
fn every_packet_is_acknowledged_until_the_sender_says_otherwise() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    for pn in 0..5 {
        let now = t0 + (pn as u32 + 1) * MS;
        receiver.on_packet(now, data(pn));
        assert_eq!(receiver.due(now), Some(Due::Tack));
        assert!(receiver.write(now, Due::Tack, 1000, &mut Vec::new()));
    }
    assert_eq!(receiver.due(t0 + 100 * MS), None);
}

#[test]
fn a_flood_of_packets_at_once_is_acknowledged_once_and_again_an_eighth_of_a_millisecond_later()
{
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    let mut acknowledgements = 0;
    for pn in 0..1000 {
        receiver.on_packet(t0, data(pn));
        if let Some(due) = receiver.due(t0) {
            assert!(receiver.write(t0, due, 1000, &mut Vec::new()));
            acknowledgements += 1;
        }
    }
    assert_eq!(acknowledgements, 1);
    assert_eq!(receiver.deadline(), Some(t0 + MS / 8));
    assert_eq!(receiver.due(t0 + MS / 8), Some(Due::Tack));
}

#[test]
fn a_schedule_of_its_own_leaves_the_frequency_update_its_other_uses() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::EveryPackets(4)));
    receiver.on_frequency_update(&update(0, 1, 10 * MS));
    for pn in 0..3 {
        receiver.on_packet(t0 + MS, data(pn));
    }
    assert_eq!(receiver.due(t0 + MS), None);
    assert_eq!(receiver.deadline(), Some(t0 + 51 * MS), "max_ack_delay");
    receiver.on_packet(t0 + 2 * MS, data(3));
    assert_eq!(receiver.due(t0 + 2 * MS), Some(Due::Tack));
    // The delivery rate still needs to know how long a TACK interval is.
    assert_eq!(receiver.interval, Some(10 * MS));
}

#[test]
fn holes_between_packets_that_elicit_nothing_are_not_reported() {
    let (mut receiver, t0) = steady();
    for pn in [1, 3, 5, 6, 7, 8] {
        receiver.on_packet(t0 + MS, Received { ack_eliciting: false, ..data(pn) });
    }
    assert_eq!(receiver.due(t0 + 40 * MS), None);
    assert_eq!(receiver.deadline(), None);
    receiver.on_packet(t0 + 40 * MS, data(9));
    assert!(receiver.due(t0 + 40 * MS).is_some());
}

#[test]
fn a_tack_that_is_all_but_due_takes_the_place_of_the_iack() {
    let (mut receiver, t0) = steady();
    for pn in [1, 2, 4, 5] {
        receiver.on_packet(t0 + MS, data(pn));
    }
    let late = t0 + 9 * MS;
    receiver.on_packet(late, data(6));
    assert_eq!(receiver.due(late), Some(Due::Tack));
}

#[test]
fn one_iack_reports_a_loss_and_the_tack_keeps_its_own_time() {
    let (mut receiver, t0) = steady();
    for pn in [1, 2, 4, 5, 6] {
        receiver.on_packet(t0 + MS, data(pn));
    }
    assert_eq!(receiver.due(t0 + MS), Some(Due::Iack(IackEvent::Loss)));
    let mut out = Vec::new();
    assert!(receiver.write(t0 + MS, Due::Iack(IackEvent::Loss), 1000, &mut out));
    let located = Frames::new(&out).next().unwrap().unwrap();
    let Frame::Iack(iack) = located.frame else { panic!("{:?}", located.frame) };
    assert_eq!(iack.ranges.largest(), 6);
    assert_eq!(iack.ranges.second_largest(), Some(2));
    assert_eq!(receiver.due(t0 + 9 * MS), None);
    assert_eq!(receiver.due(t0 + 10 * MS), Some(Due::Tack));
}

#[test]
fn an_iack_reaches_down_to_what_the_tacks_have_reported() {
    let (mut receiver, t0) = steady();
    let mut pn = 1;
    // Every fifth packet is lost between two TACKs.
    for _ in 0..20 {
        for _ in 0..4 {
            receiver.on_packet(t0 + MS, data(pn));
            pn += 1;
        }
        pn += 1;
    }
    let mut out = Vec::new();
    assert!(receiver.write(t0 + MS, Due::Iack(IackEvent::Loss), 1000, &mut out));
    let located = Frames::new(&out).next().unwrap().unwrap();
    let Frame::Iack(iack) = located.frame else { panic!("{:?}", located.frame) };
    assert_eq!(iack.ranges.smallest(), 0);
    assert_eq!(iack.ranges.len(), 20);
}

#[test]
fn ranges_are_repeated_in_several_tacks_and_then_dropped() {
    let (mut receiver, t0) = steady();
    let mut now = t0;
    let mut pn = 1;
    let mut counts = Vec::new();
    for _ in 0..20 {
        for _ in 0..50 {
            receiver.on_packet(now, data(pn));
            pn += 2;
        }
        now += 10 * MS;
        counts.push(read_tack(&mut receiver, now, |tack| tack.ranges.len()));
    }
    assert_eq!(counts[1], 100);
    assert_eq!(counts[19], 50 * REPETITIONS, "as often as promised, no longer");
}

/// The same, whose sender misses no TACK.
fn steady_where_all_tacks_arrive() -> (Receiver, Instant) {
    let (mut receiver, t0) = steady();
    let update = AckFrequency { reordering_threshold: 0, ..update(1, 1, 10 * MS) };
    receiver.on_frequency_update(&update);
    (receiver, t0)
}

/// Loses every fourth packet for `tacks` intervals; how many ranges the last four TACKs list, by their number modulo four.
fn lossy(receiver: &mut Receiver, t0: Instant, tacks: u64) -> [usize; 4] {
    let mut counts = [0; 4];
    let mut pn = 1;
    for tack in 1..=tacks {
        let now = t0 + tack as u32 * 10 * MS;
        for _ in 0..3 {
            receiver.on_packet(now, data(pn));
            pn += 1;
        }
        pn += 1;
        counts[(tack % 4) as usize] = read_tack(receiver, now, |tack| tack.ranges.len());
    }
    counts
}

fn read_tack<T>(receiver: &mut Receiver, now: Instant, of: impl Fn(&Tack<'_>) -> T) -> T {
    let mut out = Vec::new();
    assert!(receiver.write(now, Due::Tack, 4000, &mut out));
    let located = Frames::new(&out).next().unwrap().unwrap();
    let Frame::Tack(tack) = located.frame else { panic!("{:?}", located.frame) };
    of(&tack)
}

#[test]
fn one_tack_in_four_repeats_what_eight_have_reported() {
    let (mut receiver, t0) = steady_where_all_tacks_arrive();
    // TACK-4.1-2, TACK-4.1-5: the one of `steady` was the first.
    assert_eq!(
        lossy(&mut receiver, t0, 79),
        [LEAST_RANGES, REPETITIONS, REPETITIONS, REPETITIONS]
    );
}

#[test]
fn a_sender_that_misses_tacks_gets_long_ones_alone() {
    let (mut receiver, t0) = steady();
    assert_eq!(receiver.unreported, 1);
    assert_eq!(lossy(&mut receiver, t0, 79), [LEAST_RANGES; 4]);
}

#[test]
fn a_packet_that_is_older_than_eight_tacks_makes_the_next_one_long() {
    let (mut receiver, t0) = steady_where_all_tacks_arrive();
    lossy(&mut receiver, t0, 80);
    let now = t0 + 810 * MS;
    receiver.on_packet(now, data(4 * 70));
    receiver.on_packet(now, data(4 * 81));
    assert!(!is_long(receiver.sequence));
    let names_it = |tack: &Tack<'_>| tack.ranges.iter().any(|range| range.contains(&280));
    assert!(read_tack(&mut receiver, now, names_it));
    receiver.on_packet(now, data(4 * 81 + 1));
    assert!(!read_tack(&mut receiver, now, names_it), "once, while nothing else is lost");
}

/// The ranges of the TACK that is written now, in a packet of that number.
fn tack_in(receiver: &mut Receiver, now: Instant, carrier: u64) -> Vec<RangeInclusive<u64>> {
    let ranges = read_tack(receiver, now, |tack| tack.ranges.iter().collect());
    receiver.on_packet_sent(Some(carrier));
    ranges
}

// TACK-4.1-6
#[test]
fn what_the_sender_is_known_to_have_heard_is_named_no_more_unless_it_changes() {
    let (mut receiver, t0) = steady();
    for pn in [2, 4, 6] {
        receiver.on_packet(t0, data(pn));
    }
    assert_eq!(tack_in(&mut receiver, t0, 70), [6..=6, 4..=4, 2..=2, 0..=0]);
    receiver.on_packet(t0, data(8));
    assert_eq!(tack_in(&mut receiver, t0, 71).len(), 5, "nothing is known yet");
    receiver.on_acknowledgement(|pn| (pn == 70).then_some(true));
    receiver.on_packet(t0, data(9));
    assert_eq!(tack_in(&mut receiver, t0, 72), [8..=9, 6..=6], "in a long TACK or not");
    receiver.on_packet(t0, data(3));
    assert_eq!(tack_in(&mut receiver, t0, 73), [8..=9, 6..=6, 2..=4, 0..=0]);
    receiver.on_acknowledgement(|pn| (pn < 73).then_some(true));
    receiver.on_packet(t0, data(10));
    assert_eq!(
        tack_in(&mut receiver, t0, 74),
        [8..=10, 6..=6, 2..=4, 0..=0],
        "72 did not name it"
    );
    receiver.on_acknowledgement(|pn| Some(pn == 73));
    receiver.on_packet(t0, data(11));
    assert_eq!(tack_in(&mut receiver, t0, 75), [8..=11, 6..=6]);
}

// TACK-4.1-6
#[test]
fn numbers_that_arrived_elsewhere_take_back_what_is_known_unless_they_were_known_before() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    for pn in [5, 7] {
        receiver.on_packet(t0, data(pn));
    }
    tack_in(&mut receiver, t0, 70);
    receiver.on_acknowledgement(|_| Some(true));
    receiver.on_packet(t0, data(9));
    assert_eq!(tack_in(&mut receiver, t0, 71), [9..=9, 7..=7]);
    receiver.on_received_elsewhere(1..=2);
    assert_eq!(tack_in(&mut receiver, t0, 72), [9..=9, 7..=7, 5..=5, 1..=2]);
    receiver.on_acknowledgement(|_| Some(true));
    receiver.on_received_elsewhere(1..=2);
    receiver.on_packet(t0, data(11));
    assert_eq!(tack_in(&mut receiver, t0, 73), [11..=11, 9..=9]);
}

// TACK-4.1-6, TACK-5.4-7
#[test]
fn a_report_that_the_sender_may_leave_to_a_long_one_shows_nothing() {
    let (mut receiver, t0) = steady_where_all_tacks_arrive();
    lossy(&mut receiver, t0, 80);
    let mut pn = 4 * 80 + 1;
    let mut next = |receiver: &mut Receiver| {
        pn += 1;
        receiver.on_packet(t0 + 800 * MS, data(pn));
        let is_long = is_long(receiver.sequence);
        let ranges = tack_in(receiver, t0 + 800 * MS, pn).len();
        receiver.on_acknowledgement(|carrier| Some(carrier == pn));
        (is_long, ranges)
    };
    let reports = [(); 8].map(|()| next(&mut receiver));
    let first_long = reports.iter().position(|(is_long, _)| *is_long).unwrap();
    let before = &reports[..first_long];
    assert!(before.len() > 1 && before.iter().all(|(_, ranges)| *ranges > 2), "{reports:?}");
    assert_eq!(reports[first_long].1, LEAST_RANGES);
    assert!(reports[first_long + 1..].iter().all(|(_, ranges)| *ranges == 2), "{reports:?}");
}

// TACK-5.4-4
#[test]
fn an_iack_names_the_range_below_the_loss_though_the_sender_has_heard_of_it() {
    let (mut receiver, t0) = steady_where_all_tacks_arrive();
    for pn in 1..=9 {
        receiver.on_packet(t0, data(pn));
    }
    tack_in(&mut receiver, t0, 70);
    receiver.on_acknowledgement(|_| Some(true));
    receiver.on_packet(t0 + MS, data(11));
    let mut out = Vec::new();
    assert!(receiver.write(t0 + MS, Due::Iack(IackEvent::Loss), 1000, &mut out));
    let Frame::Iack(iack) = Frames::new(&out).next().unwrap().unwrap().frame else { panic!() };
    assert_eq!(iack.ranges.iter().collect::<Vec<_>>(), [11..=11, 0..=9]);
}

#[test]
fn the_tack_of_the_end_of_a_stream_is_long() {
    let (mut receiver, t0) = steady_where_all_tacks_arrive();
    lossy(&mut receiver, t0, 80);
    receiver.on_packet(t0 + 801 * MS, Received { ends_stream: true, ..data(4 * 80 + 1) });
    let ranges = read_tack(&mut receiver, t0 + 801 * MS, |tack| tack.ranges.len());
    assert_eq!(ranges, LEAST_RANGES);
}

#[test]
fn the_end_of_a_stream_is_acknowledged_at_once() {
    let (mut receiver, t0) = steady();
    receiver.on_packet(t0 + MS, Received { ends_stream: true, ..data(1) });
    assert_eq!(receiver.due(t0 + MS), Some(Due::Tack));
}

#[test]
fn old_frequency_updates_are_ignored() {
    let (mut receiver, _) = steady();
    receiver.on_frequency_update(&update(7, 3, 20 * MS));
    let rule = receiver.rule();
    receiver.on_frequency_update(&update(6, 9, 30 * MS));
    receiver.on_frequency_update(&update(7, 9, 30 * MS));
    assert_eq!(receiver.rule(), rule);
}

#[test]
fn a_stock_peers_reordering_threshold_decides_when_a_gap_is_reported() {
    for (threshold, at_once) in [(0, None), (1, Some(5)), (3, Some(7))] {
        let t0 = crate::test_clock();
        let mut receiver = Receiver::new(t0, config(Schedule::Tack));
        let asked = AckFrequency { reordering_threshold: threshold, ..update(0, 100, 20 * MS) };
        receiver.on_ack_frequency(&asked);
        receiver.on_packet(t0, data(0));
        receiver.on_ack_sent(t0);
        let due = [1, 2, 3, 5, 6, 7].into_iter().find(|pn| {
            receiver.on_packet(t0, data(*pn));
            receiver.due(t0).is_some()
        });
        assert_eq!(due, at_once, "threshold {threshold}");
    }
}

#[test]
fn a_stock_peer_may_ask_for_every_packet_and_for_a_longer_delay_than_was_announced() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    receiver.on_ack_frequency(&update(0, 0, 20 * MS));
    receiver.on_packet(t0, data(0));
    assert!(receiver.due(t0).is_some(), "threshold 0");
    receiver.on_ack_sent(t0);
    // It replaces the transport parameter's 50 ms.
    receiver.on_ack_frequency(&update(1, 9, 80 * MS));
    receiver.on_packet(t0, data(1));
    assert_eq!(receiver.deadline(), Some(t0 + 80 * MS));
    receiver.on_ack_frequency(&update(1, 0, 20 * MS));
    assert_eq!(receiver.due(t0), None, "an old frame");
}

#[test]
fn a_duplicate_changes_nothing() {
    let (mut receiver, t0) = steady();
    receiver.on_packet(t0 + MS, data(1));
    let bytes = receiver.delivery_rate.received_bytes();
    receiver.on_packet(t0 + 2 * MS, data(1));
    assert_eq!(receiver.pending(), 1);
    assert_eq!(receiver.delivery_rate.received_bytes(), bytes);
}

#[test]
fn an_immediate_ack_is_answered_with_an_iack() {
    let (mut receiver, t0) = steady();
    let asked = t0 + 6 * MS;
    receiver.on_packet(asked, data(1));
    receiver.on_immediate_ack(asked);
    assert_eq!(receiver.due(asked), Some(Due::Iack(IackEvent::Reply)));
    assert!(receiver.write(asked, Due::Iack(IackEvent::Reply), 1000, &mut Vec::new()));
    assert_eq!(receiver.due(t0 + 40 * MS), None);
}

#[test]
fn the_reply_reports_what_a_tack_would() {
    let (mut receiver, t0) = steady();
    for pn in (1..400).step_by(2) {
        receiver.on_packet(t0 + MS, data(pn));
        if pn % 100 == 99 {
            assert!(receiver.write(t0 + MS, Due::Tack, 4000, &mut Vec::new()));
        }
    }
    receiver.on_packet(t0 + 2 * MS, data(401));
    let mut out = Vec::new();
    assert!(receiver.write(t0 + 2 * MS, Due::Iack(IackEvent::Reply), 4000, &mut out));
    let located = Frames::new(&out).next().unwrap().unwrap();
    let Frame::Iack(iack) = located.frame else { panic!("{:?}", located.frame) };
    assert_eq!((iack.ranges.largest(), iack.ranges.smallest()), (401, 0));
}

#[test]
fn a_peer_that_keeps_asking_is_answered_a_few_times_for_each_round_trip() {
    let (mut receiver, t0) = steady();
    let mut answers = 0;
    // 100 ms in which every packet asks; alpha is 10 ms.
    for pn in 1..=200_u64 {
        let now = t0 + (pn / 2) as u32 * MS;
        receiver.on_packet(now, data(pn));
        receiver.on_immediate_ack(now);
        if let Some(due @ Due::Iack(IackEvent::Reply)) = receiver.due(now) {
            answers += 1;
            assert!(receiver.write(now, due, 1000, &mut Vec::new()));
        }
    }
    assert!((60..=70).contains(&answers), "one for three packets: {answers}");
    let mut answers = 0;
    for pn in 201..=300_u64 {
        let now = t0 + 100 * MS + (pn - 200) as u32 * 2 * MS;
        receiver.on_packet(now, data(pn));
        receiver.on_immediate_ack(now);
        if let Some(due @ Due::Iack(IackEvent::Reply)) = receiver.due(now) {
            answers += 1;
            assert!(receiver.write(now, due, 1000, &mut Vec::new()));
        }
    }
    assert!(answers <= 40, "200 ms, one for each 5 ms: {answers}");
}

#[test]
fn a_stock_peers_first_packet_after_an_idle_time_is_acknowledged_at_once() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    let asked = AckFrequency { reordering_threshold: 0, ..update(0, 9, 20 * MS) };
    receiver.on_ack_frequency(&asked);
    for (at, pn, at_once) in [(0, 0, true), (5, 1, false), (20, 2, false), (41, 3, true)] {
        let now = t0 + at * MS;
        receiver.on_packet(now, data(pn));
        assert_eq!(receiver.due(now).is_some(), at_once, "{at} ms");
        if at_once || at == 20 {
            receiver.on_ack_sent(now);
        }
    }
}

#[test]
fn rho_counts_no_packet_that_elicits_no_acknowledgement() {
    let (mut receiver, t0) = steady();
    let mut pn = 1;
    for tack in 1..=40 {
        for _ in 0..10 {
            receiver.on_packet(t0, Received { ack_eliciting: pn % 2 == 0, ..data(pn) });
            pn += 1;
        }
        assert!(receiver.write(t0 + tack * 10 * MS, Due::Tack, 1000, &mut Vec::new()));
    }
    assert!(receiver.loss_rate() < 0.001, "{}", receiver.loss_rate());
}

#[test]
fn acknowledgements_leave_a_way_back_that_is_full_of_data_to_the_data() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    // A sixteenth of it is 10 bytes a millisecond.
    receiver.set_data_rate(Some(Bandwidth::from_bytes_per_second(160_000)));
    receiver.on_packet(t0, data(0));
    let mut frame = Vec::new();
    assert!(receiver.write(t0, Due::Tack, 1000, &mut frame));
    receiver.on_packet(t0 + MS, data(1));
    let next = receiver.deadline().unwrap();
    let packet = 70 + frame.len() as u32;
    assert_eq!(next, t0 + packet * MS / 10, "TACK-4.2-8: {packet} bytes");
    assert_eq!(receiver.due(t0 + (packet - 1) * MS / 10), None);
    assert_eq!(receiver.due(next), Some(Due::Tack));
    receiver.on_immediate_ack(t0 + 2 * MS);
    assert_eq!(receiver.due(t0 + 2 * MS), Some(Due::Iack(IackEvent::Reply)));
}

#[test]
fn an_end_that_has_no_data_waiting_acknowledges_as_the_sender_asks() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    receiver.set_data_rate(Some(Bandwidth::from_bytes_per_second(160_000)));
    receiver.on_packet(t0, data(0));
    assert!(receiver.write(t0, Due::Tack, 1000, &mut Vec::new()));
    receiver.on_packet(t0 + MS, data(1));
    receiver.set_data_rate(None);
    assert_eq!(receiver.due(t0 + MS), Some(Due::Tack));
}

// RFC 9000 section 13.2.1
#[test]
fn a_packet_out_of_order_is_acknowledged_at_once_beside_data_where_each_packet_is() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    receiver.set_data_rate(Some(Bandwidth::from_bytes_per_second(160_000)));
    receiver.on_packet(t0, data(0));
    receiver.write_ack(t0, 3, 1000, &mut Vec::new());
    receiver.on_packet(t0 + MS, data(1));
    assert_eq!(receiver.due(t0 + MS), None);
    receiver.on_packet(t0 + MS, data(3));
    assert_eq!(receiver.due(t0 + MS), Some(Due::Tack));
}

/// All numbers that the acknowledgement in `frame` names.
fn named_in(frame: &[u8]) -> Vec<u64> {
    let located = Frames::new(frame).next().unwrap().unwrap();
    let ranges = match located.frame {
        Frame::Tack(tack) => tack.ranges,
        Frame::Iack(iack) => iack.ranges,
        other => panic!("{other:?}"),
    };
    ranges.iter().flatten().collect()
}

// TACK-4.1-3
#[test]
fn what_many_short_tacks_leave_out_is_named_by_one_with_room() {
    const EACH: u64 = 100;
    let (mut receiver, t0) = steady();
    for interval in 0..12 {
        let now = t0 + 10 * (interval as u32 + 1) * MS;
        for n in 1..=EACH {
            receiver.on_packet(now, data(2 * (interval * EACH + n)));
        }
        assert!(receiver.names_more_than(EACH as usize / 2, Due::Tack));
        let mut frame = Vec::new();
        assert!(receiver.write(now, Due::Tack, 190, &mut frame));
        assert!(named_in(&frame).len() < EACH as usize, "the case that this test is about");
    }
    receiver.on_packet(t0 + 200 * MS, data(2 * 12 * EACH + 1));
    let mut frame = Vec::new();
    assert!(receiver.write(t0 + 200 * MS, Due::Tack, 8000, &mut frame));
    let named = named_in(&frame);
    assert!((1..=12 * EACH).all(|n| named.contains(&(2 * n))), "{} are named", named.len());
}

// TACK-4.2-6
#[test]
fn replies_to_a_peer_that_asks_with_each_packet_do_not_become_longer() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    let mut lengths = Vec::new();
    for n in 0..2000_u64 {
        let now = t0 + n as u32 * MS / 4;
        receiver.on_packet(now, data(2 * n));
        receiver.on_immediate_ack(now);
        let mut frame = Vec::new();
        assert!(receiver.write(now, receiver.due(now).unwrap(), 1300, &mut frame));
        lengths.push(frame.len());
    }
    let most = lengths.iter().max().unwrap();
    assert!(*most < 150, "{most} bytes");
}

#[test]
fn an_acknowledgement_without_room_stays_due_beside_data() {
    let t0 = crate::test_clock();
    let mut receiver = Receiver::new(t0, config(Schedule::Tack));
    receiver.set_data_rate(Some(Bandwidth::from_bytes_per_second(160_000)));
    receiver.on_packet(t0, data(0));
    assert!(!receiver.write(t0, Due::Tack, 3, &mut Vec::new()));
    assert_eq!(receiver.due(t0), Some(Due::Tack));
}

/// A receiver that acknowledges ten packets after 20 ms, and has done so at `now`.
fn acknowledging(now: Instant) -> Receiver {
    let mut receiver = Receiver::new(now, config(Schedule::Tack));
    receiver.on_frequency_update(&AckFrequency {
        sequence: 0,
        ack_eliciting_threshold: 9,
        requested_max_ack_delay_us: 20_000,
        reordering_threshold: 0,
    });
    receiver.on_packet(now, data(0));
    assert!(receiver.write(now, Due::Tack, 1000, &mut Vec::new()));
    receiver
}

fn marked(pn: u64, ecn: EcnCodepoint) -> Received {
    Received { ecn, ..data(pn) }
}

#[test]
fn a_packet_that_comes_twice_is_counted_with_its_codepoint_once() {
    // TACK-4.6-1
    let t0 = crate::test_clock();
    let mut receiver = acknowledging(t0);
    for _ in 0..3 {
        receiver.on_packet(t0, marked(1, EcnCodepoint::Ect0));
        receiver
            .on_packet(t0, Received { ack_eliciting: false, ..marked(2, EcnCodepoint::Ce) });
    }
    assert_eq!(receiver.ecn_counts(), Some(EcnCounts { ect0: 1, ect1: 0, ce: 1 }));
}

#[test]
fn tacks_and_iacks_report_marks_from_the_first_on() {
    // TACK-4.6-2
    let t0 = crate::test_clock();
    let mut receiver = acknowledging(t0);
    let report = |receiver: &mut Receiver, due| {
        let mut out = Vec::new();
        assert!(receiver.write(t0, due, 1000, &mut out));
        match Frames::new(&out).next().unwrap().unwrap().frame {
            Frame::Tack(tack) => tack.ecn,
            Frame::Iack(iack) => iack.ecn,
            other => panic!("{other:?}"),
        }
    };
    let iack = Due::Iack(IackEvent::Loss);
    assert_eq!([Due::Tack, iack].map(|due| report(&mut receiver, due)), [None; 2]);
    receiver.on_packet(t0, marked(1, EcnCodepoint::Ect1));
    let counts = Some(EcnCounts { ect0: 0, ect1: 1, ce: 0 });
    assert_eq!([Due::Tack, iack].map(|due| report(&mut receiver, due)), [counts; 2]);
}

#[test]
fn the_first_packet_with_ce_draws_a_tack_half_an_interval_after_the_last() {
    // TACK-4.6-3
    let t0 = crate::test_clock();
    let mut receiver = acknowledging(t0);
    receiver.on_packet(t0 + MS, marked(1, EcnCodepoint::Ect1));
    assert_eq!(receiver.deadline(), Some(t0 + 51 * MS), "a lone packet waits");
    receiver.on_packet(t0 + 2 * MS, marked(2, EcnCodepoint::Ce));
    assert_eq!(receiver.deadline(), Some(t0 + 10 * MS), "half of 20 ms");
    assert_eq!(receiver.due(t0 + 9 * MS), None);
    assert_eq!(receiver.due(t0 + 10 * MS), Some(Due::Tack));
    assert!(receiver.write(t0 + 10 * MS, Due::Tack, 1000, &mut Vec::new()));
    // Congestion that goes on is reported in time.
    receiver.on_packet(t0 + 40 * MS, marked(3, EcnCodepoint::Ce));
    assert_eq!(receiver.deadline(), Some(t0 + 90 * MS));
    receiver.on_packet(t0 + 41 * MS, marked(4, EcnCodepoint::Ect1));
    receiver.on_packet(t0 + 42 * MS, marked(5, EcnCodepoint::Ce));
    assert_eq!(
        receiver.due(t0 + 42 * MS),
        Some(Due::Tack),
        "the last one is long ago: at once"
    );
}

#[test]
fn marks_of_every_second_packet_double_the_tacks_at_most() {
    let t0 = crate::test_clock();
    let tacks = |codepoints: [EcnCodepoint; 2]| {
        let mut receiver = acknowledging(t0);
        for pn in 1..=2000_u64 {
            let now = t0 + MS / 2 * pn as u32;
            receiver.on_packet(now, marked(pn, codepoints[pn as usize % 2]));
            if let Some(due) = receiver.due(now) {
                receiver.write(now, due, 1000, &mut Vec::new());
            }
        }
        receiver.stats().tacks
    };
    let plain = tacks([EcnCodepoint::Ect1; 2]);
    let marked = tacks([EcnCodepoint::Ect1, EcnCodepoint::Ce]);
    assert!(marked > plain && marked <= 2 * plain + 1, "{marked} and {plain}");
}

#[test]
fn a_stock_sender_is_told_of_congestion_at_once() {
    // TACK-8-9
    let t0 = crate::test_clock();
    let mut receiver = acknowledging(t0);
    receiver.on_ack_frequency(&AckFrequency {
        sequence: 1,
        ack_eliciting_threshold: 9,
        requested_max_ack_delay_us: 20_000,
        reordering_threshold: 0,
    });
    receiver.on_packet(t0, marked(1, EcnCodepoint::Ect0));
    receiver.on_ack_sent(t0);
    receiver.on_packet(t0 + MS, marked(2, EcnCodepoint::Ect0));
    assert_eq!(receiver.due(t0 + MS), None);
    receiver.on_packet(t0 + 2 * MS, marked(3, EcnCodepoint::Ce));
    assert!(receiver.due(t0 + 2 * MS).is_some());
}
