//! Startup, and what ends it.

use super::*;

#[test]
fn startup_ends_for_losses_only_where_packets_queue_or_the_rate_has_stopped_to_grow() {
    for (round_trip, ends) in [(40 * MS, false), (70 * MS, true)] {
        let mut flow = Flow::starting();
        for doubling in 0..4_u32 {
            flow.round(|feedback| {
                feedback.round_trip = Some(round_trip);
                feedback.lost = 20 * PATH.mss;
                feedback.sample.as_mut().unwrap().rate = rate(1_000_000 << doubling);
            });
        }
        assert_eq!(flow.bbr.phase() != Phase::Startup, ends, "TACK-6.5-6, {round_trip:?}");
    }
}

#[test]
fn losses_behind_round_trips_that_only_jitter_end_no_startup_that_grows() {
    let few = 20 * PATH.mss;
    for (jitter_both_ways, lost, ends) in
        [(35 * MS, few, false), (25 * MS, few, true), (35 * MS, 3 * BDP, true)]
    {
        let path = PathModel { jitter_both_ways, ..PATH };
        let mut flow = Flow::starting();
        for doubling in 0..4_u32 {
            flow.round_over(&path, |feedback| {
                feedback.round_trip = Some(70 * MS);
                feedback.lost = lost;
                feedback.sample.as_mut().unwrap().rate = rate(1_000_000 << doubling);
            });
        }
        let ended = flow.bbr.phase() != Phase::Startup;
        assert_eq!(ended, ends, "TACK-6.5-6, {jitter_both_ways:?}, {lost}");
    }
}

#[test]
fn one_round_trip_without_a_queue_tells_that_the_others_were_held_back() {
    let steady = PathModel { forward_rtt: Some(70 * MS), ack_interval: 40 * MS, ..PATH };
    let jitters = PathModel { jitter_both_ways: 12 * MS, ..steady };
    // What came last, and what came before it in the same round trip.
    for (queues, last, before, ends) in [
        (steady, 41 * MS, 70 * MS, false),
        (steady, 70 * MS, 41 * MS, true),
        (jitters, 70 * MS, 41 * MS, false),
        (jitters, 70 * MS, 70 * MS, true),
    ] {
        let mut flow = Flow::starting();
        for _ in 0..2 {
            let early = Feedback { round_trip: Some(before), ..NO_NEWS };
            flow.bbr.on_feedback(flow.now, &early, &queues);
            flow.round_over(&queues, |feedback| {
                feedback.round_trip = Some(last);
                feedback.sample.as_mut().unwrap().rate = rate(1_000_000);
            });
        }
        let ended = flow.bbr.phase() != Phase::Startup;
        assert_eq!(ended, ends, "TACK-6.2-1, {last:?} behind {before:?}");
    }
}

#[test]
fn startups_window_holds_what_arrives_while_packets_are_held_up() {
    let path = PathModel { ack_interval: 40 * MS, ..PATH };
    let cap = |silence: Duration, app_limited: bool| {
        let mut flow = Flow::starting();
        let at = |feedback: &mut Feedback| {
            let sample = feedback.sample.as_mut().unwrap();
            (sample.rate, sample.app_limited) = (rate(1_000_000), app_limited);
        };
        flow.round_over(&path, at);
        flow.now += silence;
        flow.round_over(&path, at);
        flow.bbr.end_startup_trains();
        flow.bbr.inflight_cap(&path)
    };
    let steady = cap(Duration::ZERO, false);
    let held_up = cap(80 * MS, false);
    // 2.885 times what 80 ms deliver.
    assert!((steady + 228_000..steady + 234_000).contains(&held_up), "TACK-6.2-19: {held_up}");
    assert_eq!(cap(80 * MS, true), cap(Duration::ZERO, true), "the application's own silence");
}

#[test]
fn startup_goes_by_the_growing_rate_and_what_follows_by_a_whole_round_trip() {
    let mut flow = Flow::starting();
    let growing = |feedback: &mut Feedback| {
        let sample = feedback.sample.as_mut().unwrap();
        (sample.rate, sample.recent) = (rate(4_000_000), Some(rate(6_000_000)));
    };
    // One TACK for a round trip, so that none of them counts as held up.
    let path = PathModel { ack_interval: 40 * MS, ..PATH };
    flow.round_over(&path, growing);
    let pacing_rate = flow.bbr.pacing_rate(&path).bytes_per_second();
    assert!((13_799_990..=13_800_010).contains(&pacing_rate), "2.3 times, {pacing_rate}");
    let before = flow.bbr.inflight_cap(&path);
    flow.round_over(&path, |feedback| feedback.sample.as_mut().unwrap().rate = rate(4_000_000));
    assert!(flow.bbr.inflight_cap(&path) < before, "nothing recent shows more");
    while flow.bbr.phase() == Phase::Startup {
        flow.round(growing);
    }
    assert_eq!(flow.bbr.bandwidth(), rate(4_000_000), "TACK-6.2-17");
    assert!(flow.bbr.pacing_rate(&PATH) < rate(4_000_000));
}

#[test]
fn a_startup_that_spurious_losses_ended_begins_again() {
    let mut flow = Flow::starting();
    for doubling in 0..2_u32 {
        flow.round(|feedback| {
            queued(feedback);
            feedback.lost = 20 * PATH.mss;
            feedback.lost_packets = 20;
            feedback.sample.as_mut().unwrap().rate = rate(1_000_000 << doubling);
        });
    }
    assert_ne!(flow.bbr.phase(), Phase::Startup);
    flow.round(|feedback| feedback.spurious = 40);
    assert_eq!(flow.bbr.phase(), Phase::Startup, "TACK-6.5-7");
    assert_eq!(flow.bbr.long_term.get(), None);
}

#[test]
fn a_startup_ends_by_what_is_lost_and_not_by_what_is_late() {
    // Of 1,000 packets 30 seem to be lost in a round trip without growth, and so many have arrived already, or do
    // soon after.
    for (early, late, goes_on) in [(9, 0, false), (10, 0, true), (0, 9, false), (0, 10, true)] {
        let mut flow = Flow::starting();
        let at = |feedback: &mut Feedback| {
            feedback.sample.as_mut().unwrap().rate = rate(1_000_000);
        };
        flow.round(at);
        flow.round(|feedback| {
            at(feedback);
            feedback.acked = 970 * PATH.mss;
            feedback.lost = 30 * PATH.mss;
            feedback.lost_packets = 30;
            feedback.spurious = early;
        });
        assert_eq!(flow.bbr.phase() == Phase::Startup, early == 10);
        flow.round(|feedback| {
            at(feedback);
            feedback.spurious = late;
        });
        let case = format!("TACK-6.5-7, {early} and {late}");
        assert_eq!(flow.bbr.phase() == Phase::Startup, goes_on, "{case}");
    }
}

#[test]
fn a_round_trip_in_which_the_path_stood_still_does_not_end_startup() {
    let queues = PathModel { forward_rtt: Some(70 * MS), ack_interval: 40 * MS, ..PATH };
    for (stood_still, ends) in [(300 * MS, false), (Duration::ZERO, true)] {
        let mut flow = Flow::starting();
        let at = |bytes_per_second| {
            move |feedback: &mut Feedback| {
                feedback.round_trip = queues.forward_rtt;
                feedback.sample.as_mut().unwrap().rate = rate(bytes_per_second);
            }
        };
        flow.round_over(&queues, at(1_000_000));
        flow.round_over(&queues, at(2_000_000));
        flow.now += stood_still;
        flow.round_over(&queues, at(2_000_000));
        flow.round_over(&queues, at(2_000_000));
        assert_eq!(flow.bbr.phase() != Phase::Startup, ends, "TACK-6.2-1, {stood_still:?}");
    }
}

#[test]
fn a_startup_that_begins_again_is_held_back_by_no_rate_of_marks() {
    let bbr = Bbr::new(BbrConfig::DEFAULT, Ecn::L4s, crate::test_clock(), 7);
    let mut flow = Flow { bbr, now: crate::test_clock(), delivered: 0 };
    for doubling in 0..2_u32 {
        flow.round(|feedback| {
            queued(feedback);
            feedback.lost = 20 * PATH.mss;
            feedback.lost_packets = 20;
            feedback.sample.as_mut().unwrap().rate = rate(1_000_000 << doubling);
        });
    }
    assert_ne!(flow.bbr.phase(), Phase::Startup);
    flow.bbr.scalable = Some(Scalable::new(flow.now, rate(1_000_000), PATH.data_rtt()));
    assert!(flow.bbr.bandwidth() <= rate(1_000_000));
    flow.round(|feedback| {
        feedback.spurious = 40;
        feedback.sample.as_mut().unwrap().rate = rate(8_000_000);
    });
    assert_eq!(flow.bbr.phase(), Phase::Startup);
    assert_eq!(flow.bbr.bandwidth(), rate(8_000_000));
}

#[test]
fn round_trips_in_which_packets_were_held_up_end_startup_after_three_without_growth() {
    let queues = PathModel { forward_rtt: Some(70 * MS), ack_interval: 40 * MS, ..PATH };
    for (held_up, rounds) in [(20 * MS, 3), (Duration::ZERO, 1)] {
        let mut flow = Flow::starting();
        let at = |feedback: &mut Feedback| {
            feedback.round_trip = queues.forward_rtt;
            feedback.sample.as_mut().unwrap().rate = rate(1_000_000);
        };
        flow.round_over(&queues, at);
        let mut without_growth = 0;
        while flow.bbr.phase() == Phase::Startup {
            flow.now += held_up;
            flow.round_over(&queues, at);
            without_growth += 1;
        }
        assert_eq!(without_growth, rounds, "TACK-6.2-1, {held_up:?}");
    }
}

#[test]
fn startup_of_an_application_ends_where_the_path_becomes_slower_than_that() {
    let bbr = Bbr::new(BbrConfig::VIDEO, Ecn::Off, crate::test_clock(), 7);
    let mut flow = Flow { bbr, now: crate::test_clock(), delivered: 0 };
    let limited = |rate, round_trip| {
        move |feedback: &mut Feedback| {
            (feedback.round_trip, feedback.reported) = (Some(round_trip), Some(rate));
            let sample = feedback.sample.as_mut().unwrap();
            (sample.app_limited, sample.rate) = (true, rate);
            sample.send_rate = Some(Bandwidth::from_bytes_per_second(6_250_000));
        }
    };
    flow.round(limited(rate(6_250_000), 40 * MS));
    flow.round(limited(rate(3_000_000), 60 * MS));
    assert_eq!(flow.bbr.phase(), Phase::Startup, "one sample may contain what was before");
    flow.round(limited(rate(3_000_000), 80 * MS));
    assert_eq!(flow.bbr.phase(), Phase::Drain);
    assert_eq!(flow.bbr.bandwidth(), rate(3_000_000));
}

#[test]
fn six_early_marks_end_startup_but_not_those_of_the_first_burst() {
    for (first, ends) in [(true, false), (false, true)] {
        let bbr = Bbr::new(BbrConfig::DEFAULT, Ecn::L4s, crate::test_clock(), 7);
        let mut flow = Flow { bbr, now: crate::test_clock(), delivered: 0 };
        if !first {
            flow.round(|_| ());
        }
        flow.now += 40 * MS;
        flow.delivered += 10 * PATH.mss;
        let delivered = flow.delivered;
        let marked = Feedback { delivered, acked: 10 * PATH.mss, ce: 6, ..NO_NEWS };
        flow.bbr.on_feedback(flow.now, &marked, &PATH);
        assert_eq!(flow.bbr.phase() != Phase::Startup, ends, "first: {first}");
    }
}

// A.2
#[test]
fn losses_behind_a_queue_end_the_startup_of_an_application_that_sends_little() {
    for (lost, round_trip, ends) in
        [(6, 60 * MS, true), (5, 60 * MS, false), (60, 40 * MS, false)]
    {
        let mut flow = Flow::starting();
        flow.round(limited(1_000_000));
        flow.round(|feedback| {
            limited(1_000_000)(feedback);
            (feedback.round_trip, feedback.lost) = (Some(round_trip), lost * PATH.mss);
            feedback.acked = 100 * PATH.mss;
        });
        let case = format!("{lost} of {} packets, {round_trip:?}", 100 + lost);
        assert_eq!(flow.bbr.phase() == Phase::Drain, ends, "{case}");
        assert_eq!(flow.bbr.full_pipe.is_full(), ends, "{case}");
        // What was delivered in the round trip.
        assert_eq!(flow.bbr.long_term.get(), ends.then_some(BDP), "{case}");
    }
}
