//! ProbeBW's cycle and its probes.

use super::*;

#[test]
fn the_phases_of_a_cycle_follow_each_other() {
    let mut flow = Flow::cruising();
    for phase in [ProbeBwPhase::Refill, ProbeBwPhase::Up, ProbeBwPhase::Down] {
        flow.until(phase);
    }
    assert_eq!(flow.bbr.pacing_rate(&PATH), rate(6_250_000).scaled(0.75));
    flow.until(ProbeBwPhase::Cruise);
}

#[test]
fn a_probe_that_loses_two_percent_ends_and_bounds_the_flight() {
    let mut flow = Flow::cruising();
    flow.until(ProbeBwPhase::Up);
    flow.lose_of_probe(4 * PATH.mss, 400_000);
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Up), "5,000 of 8,000 bytes");
    flow.lose_of_probe(4 * PATH.mss, 400_000);
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Down));
    assert_eq!(flow.bbr.long_term.get(), Some(280_000), "TACK-6.5-2: 0.7 of the flight");
    flow.until(ProbeBwPhase::Cruise);
    assert_eq!(flow.bbr.path_inflight(&PATH), BDP, "the headroom is no part of the BDP");
}

#[test]
fn a_probe_that_reports_show_sooner_than_samples_is_seen_in_the_video_profile() {
    for (excess, phase, app_limited, shown) in [
        (1.05, ProbeBwPhase::Up, false, 7_875_000),
        (1.05, ProbeBwPhase::Cruise, false, 6_562_500),
        (1.05, ProbeBwPhase::Up, true, 6_562_500),
        (1.0, ProbeBwPhase::Up, false, 6_250_000),
    ] {
        let mut flow = Flow::cruising();
        flow.bbr.config.reported_rate_excess = excess;
        flow.until(phase);
        for (own, reported) in [(6_250_000, 8_000_000), (7_500_000, 6_250_000)] {
            flow.round(|feedback| {
                let sample = feedback.sample.as_mut().unwrap();
                (sample.rate, sample.app_limited) = (rate(own), app_limited);
                feedback.reported = Some(rate(reported));
            });
        }
        let max_bw = flow.bbr.max_bw.get();
        assert_eq!(max_bw, rate(shown), "TACK-6.1-1: {excess}, {phase:?}, {app_limited}");
    }
}

#[test]
fn the_probe_behind_one_that_went_too_high_is_gentle() {
    let mut flow = Flow::cruising();
    flow.until(ProbeBwPhase::Up);
    let before = flow.bbr.bandwidth();
    assert_eq!(flow.bbr.pacing_rate(&PATH), before.scaled(1.25));
    flow.lose_of_probe(20 * PATH.mss, 400_000);
    flow.until(ProbeBwPhase::Refill);
    flow.until(ProbeBwPhase::Up);
    assert_eq!(flow.bbr.bandwidth(), before);
    assert_eq!(flow.bbr.pacing_rate(&PATH), before.scaled(1.05), "TACK-6.2-18");
}

#[test]
fn the_probe_behind_one_that_went_too_high_stops_where_that_did() {
    let mut flow = Flow::cruising();
    flow.until(ProbeBwPhase::Up);
    flow.lose_of_probe(20 * PATH.mss, 400_000);
    flow.until(ProbeBwPhase::Refill);
    flow.until(ProbeBwPhase::Up);
    let full = Feedback { delivered: flow.delivered, in_flight: 280_000, ..NO_NEWS };
    flow.bbr.on_feedback(flow.now, &full, &PATH);
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Down));
    flow.round(|_| ());
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Refill), "it was harmless");
}

#[test]
fn a_bound_that_holds_a_probe_back_is_raised_faster_and_faster() {
    let mut flow = Flow::cruising();
    flow.until(ProbeBwPhase::Up);
    flow.lose_of_probe(20 * PATH.mss, 400_000);
    flow.bbr.long_term.on_probed();
    flow.until(ProbeBwPhase::Refill);
    flow.until(ProbeBwPhase::Up);
    let mut grown = vec![flow.bbr.long_term.get().unwrap()];
    for _ in 0..4 {
        flow.bbr.on_inflight_limited(&PATH);
        flow.round(|_| ());
        assert_eq!(flow.phase(), Some(ProbeBwPhase::Up), "TACK-6.5-4");
        grown.push(flow.bbr.long_term.get().unwrap());
    }
    let steps: Vec<_> = grown.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.windows(2).all(|pair| pair[1] > pair[0]), "{steps:?}");
}

#[test]
fn a_probe_that_found_more_goes_through_refill_to_the_next() {
    let mut flow = Flow::cruising();
    flow.until(ProbeBwPhase::Up);
    flow.until(ProbeBwPhase::Down);
    flow.round(|feedback| {
        feedback.sample =
            feedback.sample.map(|sample| RateSample { rate: rate(9_000_000), ..sample });
    });
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Up), "TACK-6.2-13");
}

// A.5, A.7
#[test]
fn a_probe_ends_behind_four_units_whether_the_application_limits_it_or_not() {
    for app_limited in [false, true] {
        let mut flow = Flow::cruising();
        flow.until(ProbeBwPhase::Up);
        flow.bbr.long_term.on_startup_loss(0, 400_000);
        if app_limited {
            let delivered = flow.delivered;
            let sample = RateSample { app_limited, prior_delivered: delivered, ..SAMPLE };
            let quiet = Feedback { sample: Some(sample), delivered, ..NO_NEWS };
            flow.bbr.on_feedback(flow.now, &quiet, &PATH);
        }
        assert_eq!(lasts(&mut flow, 300_000), 40, "TACK-6.2-6, {app_limited}");
        assert_eq!(flow.phase(), Some(ProbeBwPhase::Down));
        assert_eq!(flow.bbr.long_term.get(), Some(400_000), "nothing was lost");
        assert_eq!(flow.bbr.bandwidth(), rate(6_250_000));
    }
}

// A.6
#[test]
fn a_probe_that_loses_too_much_ends_also_where_the_application_limits_it() {
    for (app_limited, bound) in [(true, None), (false, Some(280_000))] {
        let mut flow = Flow::cruising();
        flow.until(ProbeBwPhase::Up);
        let sample = RateSample { app_limited, prior_delivered: flow.delivered, ..SAMPLE };
        let lost = Feedback {
            sample: Some(sample),
            delivered: flow.delivered,
            lost: 8 * PATH.mss,
            lost_packets: 8,
            probe_lost: 8 * PATH.mss,
            probe_lost_at: Some(TxInFlight { bytes: 400_000, since_ack: Duration::ZERO }),
            in_flight: 400_000,
            ..NO_NEWS
        };
        flow.bbr.on_feedback(flow.now, &lost, &PATH);
        assert_eq!(flow.phase(), Some(ProbeBwPhase::Down), "10,000 of 8,000 bytes");
        assert_eq!(flow.bbr.long_term.get(), bound, "TACK-6.5-2, {app_limited}");
        assert!(flow.bbr.probe.was_too_high());
    }
}

// A.8, A.9
#[test]
fn down_ends_with_a_bdp_in_flight_or_behind_four_round_trips() {
    for (bytes, most) in [(BDP, 1), (BDP + 15_625, 10), (3 * BDP, 160)] {
        let mut flow = Flow::cruising();
        flow.until(ProbeBwPhase::Up);
        flow.until(ProbeBwPhase::Down);
        assert_eq!(flow.bbr.pacing_rate(&PATH), rate(6_250_000).scaled(0.75));
        // A quarter of the rate drains 15,625 bytes in 10 ms, by the clock alone.
        in_flight(&mut flow, bytes);
        let mut passed = 0;
        while flow.phase() == Some(ProbeBwPhase::Down) {
            passed += 1;
            flow.now += MS;
            if bytes == 3 * BDP {
                in_flight(&mut flow, bytes);
            } else {
                flow.bbr.on_time(flow.now, &PATH);
            }
        }
        assert!(passed <= most && passed + 1 >= most, "TACK-6.2-6, {bytes}: {passed} ms");
        assert_eq!(flow.phase(), Some(ProbeBwPhase::Cruise), "Refill has its time");
    }
}

// A.18
#[test]
fn a_probe_that_spurious_losses_ended_is_repeated_behind_a_refill() {
    let mut flow = Flow::cruising();
    flow.bbr.long_term.on_startup_loss(0, 500_000);
    flow.until(ProbeBwPhase::Up);
    let before = flow.bbr.bandwidth();
    flow.lose_of_probe(20 * PATH.mss, 400_000);
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Down));
    assert_eq!(flow.bbr.long_term.get(), Some(280_000));
    let arrived = Feedback { delivered: flow.delivered, in_flight: 2 * BDP, ..NO_NEWS };
    let late = |spurious| Feedback { spurious, ..arrived };
    flow.bbr.on_feedback(flow.now, &late(19), &PATH);
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Down), "one is lost");
    flow.bbr.on_feedback(flow.now, &late(1), &PATH);
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Refill), "TACK-6.5-7");
    assert_eq!(flow.bbr.long_term.get(), Some(500_000));
    assert_eq!(flow.bbr.bandwidth(), before);
    assert_eq!(lasts(&mut flow, 2 * BDP), 40);
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Up));
}

// A.21
#[test]
fn losses_of_a_probe_lower_the_bound_that_an_earlier_one_has_set() {
    let mut flow = Flow::cruising();
    let mut bounds = Vec::new();
    for tx_in_flight in [600_000, 500_000, 300_000] {
        // Others queue nothing.
        flow.until(ProbeBwPhase::Cruise);
        flow.round(|_| ());
        flow.until(ProbeBwPhase::Up);
        flow.lose_of_probe(20 * PATH.mss, tx_in_flight);
        assert_eq!(flow.phase(), Some(ProbeBwPhase::Down), "with the loss that shows it");
        bounds.push(flow.bbr.long_term.get().unwrap());
    }
    assert_eq!(bounds, [420_000, 350_000, BDP], "TACK-6.5-2: 0.7 of the flight, or the BDP");
}

// A.22
#[test]
fn what_an_application_sends_too_slowly_in_refill_lowers_no_estimate_and_delays_no_probe() {
    let mut flow = Flow::cruising();
    flow.until(ProbeBwPhase::Refill);
    let began = flow.now;
    while flow.phase() == Some(ProbeBwPhase::Refill) {
        flow.now += 10 * MS;
        let sample = RateSample {
            rate: rate(100_000),
            app_limited: true,
            prior_delivered: flow.delivered,
            ..SAMPLE
        };
        flow.delivered += 1_000;
        let delivered = flow.delivered;
        let little = Feedback { sample: Some(sample), delivered, acked: 1_000, ..NO_NEWS };
        flow.bbr.on_feedback(flow.now, &little, &PATH);
    }
    assert_eq!(flow.now - began, 40 * MS, "TACK-6.2-6");
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Up));
    assert_eq!(flow.bbr.pacing_rate(&PATH), rate(6_250_000).scaled(1.25), "TACK-6.1-2");
    flow.round(|feedback| feedback.sample.as_mut().unwrap().rate = rate(7_500_000));
    assert_eq!(flow.bbr.max_bw.get(), rate(7_500_000), "data for all of the path again");
}
