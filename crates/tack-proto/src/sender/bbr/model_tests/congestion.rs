//! What losses bound, and what leaves of a rate beside others.

use super::*;

#[test]
fn losses_behind_a_queue_bound_rate_and_flight_until_the_next_refill() {
    let mut flow = Flow::cruising();
    flow.round(queued);
    let lossy = |feedback: &mut Feedback| {
        queued(feedback);
        feedback.lost = 10 * PATH.mss;
        feedback.sample.as_mut().unwrap().rate = rate(5_000_000);
    };
    flow.round(lossy);
    flow.round(lossy);
    assert_eq!(flow.bbr.bandwidth(), rate(5_000_000), "TACK-6.5-5");
    // The filter spans 600 ms, and this is more.
    for _ in 0..20 {
        flow.round(|feedback| {
            queued(feedback);
            feedback.sample.as_mut().unwrap().rate = rate(5_000_000);
        });
    }
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Cruise), "others have time to grow");
    flow.until(ProbeBwPhase::Refill);
    assert_eq!(flow.bbr.bandwidth(), rate(6_250_000), "what was known before");
}

#[test]
fn losses_without_a_queue_bound_nothing() {
    let mut flow = Flow::cruising();
    for _ in 0..20 {
        flow.round(|feedback| feedback.lost = 20 * PATH.mss);
    }
    assert_eq!(flow.bbr.bandwidth(), rate(6_250_000));
    assert!(flow.bbr.loss.base_share() > 0.05);
}

// TACK-6.5-1
#[test]
fn what_startup_has_lost_is_not_learnt_as_the_paths_own_losses() {
    let mut flow = Flow::starting();
    while flow.phase().is_none() {
        flow.round(|_| ());
    }
    for (round, learns) in [(1, false), (2, true)] {
        flow.round(|feedback| feedback.lost = BDP);
        assert_eq!(flow.bbr.loss.base_share() > 0.0, learns, "round {round}");
    }
}

#[test]
fn losses_of_an_outage_bound_nothing() {
    let mut flow = Flow::cruising();
    flow.now += 300 * MS;
    for _ in 0..2 {
        flow.round(|feedback| {
            queued(feedback);
            feedback.lost = 20 * PATH.mss;
            feedback.sample.as_mut().unwrap().rate = rate(1_000_000);
        });
    }
    assert_eq!(flow.bbr.bandwidth(), rate(6_250_000));
}

#[test]
fn losses_that_show_without_a_round_trip_belong_to_the_packets_acknowledged_before() {
    for (round_trip, counts) in [(40 * MS, true), (100 * MS, false)] {
        let mut flow = Flow::cruising();
        // A tenth of what leaves at the path's rate is lost, and of what Down sends.
        let volume = (900 * PATH.mss, 100 * PATH.mss);
        let level = Feedback { acked: volume.0, lost: volume.1, ..NO_NEWS };
        flow.bbr.on_feedback(flow.now, &level, &PATH);
        let acked = Feedback {
            acked: volume.0,
            slow_acked: volume.0,
            round_trip: Some(round_trip),
            ..NO_NEWS
        };
        flow.bbr.on_feedback(flow.now, &acked, &PATH);
        let lost = Feedback { lost: volume.1, slow_lost: volume.1, ..NO_NEWS };
        flow.bbr.on_feedback(flow.now, &lost, &PATH);
        let share = flow.bbr.path_losses.share();
        assert_eq!(share > 0.0, counts, "TACK-6.2-16, {round_trip:?}: {share}");
    }
}

/// A path with a shallow buffer has become slower: a fifth arrives, and most of the rest is lost.
fn overflows(feedback: &mut Feedback) {
    (feedback.round_trip, feedback.lost) = (Some(46 * MS), 4 * BDP);
    feedback.sample.as_mut().unwrap().rate = rate(1_250_000);
}

#[test]
fn the_path_is_not_probed_while_the_rate_falls_because_most_of_what_is_sent_is_lost() {
    let mut flow = Flow::cruising();
    // A cycle lasts eight round trips.
    for _ in 0..6 {
        flow.round(|_| ());
    }
    for _ in 0..MOST_FLOODED_ROUNDS {
        flow.round(overflows);
        assert_eq!(flow.phase(), Some(ProbeBwPhase::Cruise), "TACK-6.2-6");
    }
    while flow.phase() != Some(ProbeBwPhase::Refill) {
        assert!(flow.bbr.flooded_rounds < 100, "a path that loses that much is probed");
        flow.round(overflows);
    }
}

#[test]
fn a_probe_tries_no_more_than_twice_what_congestion_has_left() {
    for (rounds, left) in [(1, 6_250_000), (10, 2_500_000)] {
        let mut flow = Flow::cruising();
        for _ in 0..rounds {
            flow.round(overflows);
        }
        flow.round(queued);
        flow.until(ProbeBwPhase::Refill);
        assert_eq!(flow.bbr.bandwidth(), rate(left), "TACK-6.5-5");
    }
}

#[test]
fn a_probe_that_goes_too_high_in_a_queue_of_others_costs_a_part_of_the_rate() {
    for (round_trip, after) in [(60 * MS, 0.85), (40 * MS, 1.0)] {
        let mut flow = Flow::cruising();
        flow.until(ProbeBwPhase::Refill);
        flow.until(ProbeBwPhase::Cruise);
        flow.round(|feedback| feedback.round_trip = Some(round_trip));
        flow.until(ProbeBwPhase::Up);
        flow.lose_of_probe(20 * PATH.mss, 400_000);
        let left = rate(6_250_000).scaled(after);
        assert_eq!(flow.bbr.bandwidth(), left, "TACK-6.5-9, {round_trip:?}");
        flow.until(ProbeBwPhase::Up);
        assert_eq!(flow.bbr.bandwidth(), left, "Refill lifts the short-term model alone");
        flow.until(ProbeBwPhase::Down);
        flow.round(|_| ());
        assert_eq!(flow.bbr.bandwidth(), rate(6_250_000), "a harmless probe wins it back");
    }
}

// TACK-6.5-9
#[test]
fn what_congestion_takes_before_the_losses_of_a_probe_show_is_not_taken_twice() {
    let mut flow = Flow::cruising();
    flow.until(ProbeBwPhase::Up);
    flow.until(ProbeBwPhase::Cruise);
    flow.round(queued);
    flow.until(ProbeBwPhase::Down);
    flow.round(overflows);
    assert!(flow.bbr.bandwidth() < rate(6_250_000), "TACK-6.5-5");
    flow.lose_of_probe(20 * PATH.mss, 400_000);
    flow.round(queued);
    flow.until(ProbeBwPhase::Up);
    assert_eq!(flow.bbr.bandwidth(), rate(6_250_000).scaled(0.85));
}

// TACK-6.5-9
#[test]
fn what_a_harmless_probe_behind_it_finds_is_kept_however_much_it_is() {
    let mut flow = Flow::cruising();
    flow.until(ProbeBwPhase::Refill);
    flow.until(ProbeBwPhase::Cruise);
    flow.round(queued);
    flow.until(ProbeBwPhase::Up);
    flow.lose_of_probe(20 * PATH.mss, 400_000);
    flow.until(ProbeBwPhase::Up);
    flow.until(ProbeBwPhase::Down);
    flow.round(|feedback| {
        if let Some(sample) = &mut feedback.sample {
            sample.rate = rate(12_500_000);
        }
    });
    assert_eq!(flow.bbr.bandwidth(), rate(12_500_000), "1.25 of the bound are 6,640,000");
}

// A.19
#[test]
fn persistent_congestion_that_was_none_leaves_state_rate_and_window_as_they_were() {
    let mut flow = Flow::cruising();
    flow.until(ProbeBwPhase::Up);
    let outputs =
        |flow: &Flow| (flow.phase(), flow.bbr.pacing_rate(&PATH), flow.bbr.inflight_cap(&PATH));
    let (before, state) = (outputs(&flow), flow.phase());
    let news = Feedback { delivered: flow.delivered, in_flight: BDP, ..NO_NEWS };
    let lost = Feedback { is_persistent_congestion: true, ..news };
    flow.bbr.on_feedback(flow.now, &lost, &PATH);
    assert_eq!(outputs(&flow), (state, before.1, 2 * PATH.mss), "TACK-6.6-3");
    let arrived = Feedback { was_no_persistent_congestion: true, ..news };
    flow.bbr.on_feedback(flow.now, &arrived, &PATH);
    assert_eq!(outputs(&flow), before, "TACK-6.6-4");
}
