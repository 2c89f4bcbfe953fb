//! Paths that become slower or longer.

use super::*;

#[test]
fn a_longer_route_is_told_from_a_slower_path_when_nothing_queues() {
    for (round_trip, news) in [(100 * MS, Some(MinRttNews::Outdated)), (41 * MS, None)] {
        let mut flow = Flow::cruising();
        flow.becomes_slower();
        flow.until(ProbeBwPhase::Cruise);
        // Sent before the queue had drained.
        flow.round(|feedback| {
            feedback.round_trip = Some(100 * MS);
            feedback.reported = Some(rate(3_000_000));
            feedback.sample.as_mut().unwrap().prior_delivered -= 1;
        });
        let seen = flow.round(|feedback| feedback.round_trip = Some(round_trip));
        assert_eq!(seen, news, "TACK-6.1-4, {round_trip:?}");
    }
}

#[test]
fn a_path_that_has_become_much_slower_is_drained_at_its_own_rate_and_followed_meanwhile() {
    // What arrives while the queue drains at the path's rate, and what little leaves meanwhile.
    for (reported, follows) in [(3_000_000, true), (1_500_000, false)] {
        let mut flow = Flow::cruising();
        flow.becomes_slower();
        assert_eq!(flow.bbr.bandwidth(), rate(5_000_000), "0.8 of what it was");
        assert_eq!(flow.bbr.pacing_rate(&PATH), rate(3_000_000).scaled(drain::GAIN));
        for _ in 0..4 {
            flow.round(|feedback| {
                feedback.in_flight = 1_000_000;
                feedback.round_trip = Some(100 * MS);
                feedback.reported = Some(rate(reported));
            });
        }
        assert!(matches!(flow.bbr.state, State::Drain(_)), "TACK-6.2-20");
        let kept = if follows { 4_000_000 } else { 5_000_000 };
        assert_eq!(flow.bbr.bandwidth(), rate(kept), "{reported}");
    }
}

#[test]
fn a_path_that_has_become_slower_than_an_application_sends_is_followed() {
    let mut flow = Flow::cruising();
    // By the receiver it comes at 3 MB/s, by the sender's own record perhaps faster.
    let limited = |sent: u64, own: u64| {
        move |feedback: &mut Feedback| {
            feedback.round_trip = Some(60 * MS);
            feedback.reported = Some(rate(3_000_000));
            let sample = feedback.sample.as_mut().unwrap();
            (sample.app_limited, sample.rate) = (true, rate(3_000_000.max(own)));
            sample.send_rate = Some(rate(sent));
        }
    };
    for _ in 0..10 {
        flow.round(limited(3_100_000, 0));
    }
    assert_eq!(flow.bbr.bandwidth(), rate(6_250_000), "it arrives as fast as it leaves");
    for _ in 0..10 {
        flow.round(limited(5_500_000, 5_000_000));
    }
    assert_eq!(
        flow.bbr.bandwidth(),
        rate(6_250_000),
        "a burst has left before the last two TACKs"
    );
    for _ in 0..10 {
        flow.round(|feedback| {
            limited(5_500_000, 0)(feedback);
            feedback.sample.as_mut().unwrap().recent = Some(rate(5_000_000));
        });
    }
    assert_eq!(
        flow.bbr.bandwidth(),
        rate(6_250_000),
        "a sample over all of a round trip has the pause in it by which the route became longer"
    );
    flow.round(limited(5_500_000, 0));
    flow.round(limited(5_500_000, 0));
    assert_eq!(flow.bbr.phase(), Phase::Drain, "TACK-6.1-4");
    assert_eq!(flow.bbr.bandwidth(), rate(5_000_000));
}

#[test]
fn a_path_that_was_held_up_and_is_no_slower_gets_its_rate_back() {
    for (reported, left) in [(6_000_000, 6_250_000), (3_500_000, 5_000_000)] {
        let mut flow = Flow::cruising();
        flow.becomes_slower();
        assert_eq!(flow.bbr.bandwidth(), rate(5_000_000));
        flow.now += MS;
        let sample = RateSample {
            rate: rate(3_000_000),
            send_rate: None,
            interval: 40 * MS,
            app_limited: false,
            prior_delivered: flow.delivered,
            tx_in_flight: TxInFlight::default(),
            recent: None,
        };
        let news = Feedback {
            sample: Some(sample),
            reported: Some(rate(reported)),
            delivered: flow.delivered,
            in_flight: 600_000,
            round_trip: Some(100 * MS),
            ..NO_NEWS
        };
        flow.bbr.on_feedback(flow.now, &news, &PATH);
        assert_eq!(flow.bbr.bandwidth(), rate(left), "TACK-6.1-4, {reported}");
        assert_eq!(flow.bbr.phase(), Phase::Drain, "what waited queues all the same");
    }
}

#[test]
fn losses_of_a_path_that_became_slower_are_not_those_of_others_unless_a_queue_stands() {
    let mut flow = Flow::cruising();
    flow.becomes_slower();
    flow.until(ProbeBwPhase::Cruise);
    flow.bbr.probe.on_too_high(0);
    flow.round(|_| ());
    assert_eq!(flow.bbr.units(&PATH).congested, None, "TACK-6.2-6");
    flow.until(ProbeBwPhase::Up);
    let before = flow.bbr.bandwidth();
    flow.bbr.share.on_refill(before, false);
    flow.lose_of_probe(20 * PATH.mss, 400_000);
    assert_eq!(flow.bbr.bandwidth(), before, "TACK-6.5-9");
    flow.until(ProbeBwPhase::Cruise);
    flow.round(queued);
    assert!(flow.bbr.units(&PATH).congested.is_some(), "others keep a queue");
}

#[test]
fn neither_a_queue_nor_low_rates_alone_are_a_slower_path() {
    for (reported, round_trip) in [(6_000_000, 100 * MS), (3_000_000, 41 * MS)] {
        let mut flow = Flow::cruising();
        for _ in 0..10 {
            flow.round(|feedback| {
                feedback.round_trip = Some(round_trip);
                feedback.reported = Some(rate(reported));
            });
        }
        assert_ne!(flow.bbr.phase(), Phase::Drain, "TACK-6.1-4");
    }
}

#[test]
fn a_probe_that_loses_what_is_missing_at_a_low_rate_shows_a_slower_path() {
    // Where packets queue, more than a fifth has to be lost: 125,000 bytes are a quarter of 500,000.
    let cases = [
        (40 * MS, 3_000_000, 100_000, 3_000_000),
        (40 * MS, 4_200_000, 100_000, 6_250_000),
        (40 * MS, 3_000_000, 375_000, 6_250_000),
        (60 * MS, 6_000_000, 375_000, 6_000_000),
        (60 * MS, 6_000_000, 600_000, 6_250_000),
    ];
    for (round_trip, found, acked, left) in cases {
        let mut flow = Flow::cruising();
        let slow = |feedback: &mut Feedback| {
            feedback.round_trip = Some(round_trip);
            feedback.sample.as_mut().unwrap().rate = rate(found);
            feedback.probe_acked = acked;
        };
        flow.until(ProbeBwPhase::Refill);
        flow.round(slow);
        flow.until(ProbeBwPhase::Up);
        flow.lose_of_probe(100 * PATH.mss, 400_000);
        flow.round(slow);
        assert_eq!(
            flow.bbr.max_bw.get(),
            rate(left),
            "TACK-6.1-4, {round_trip:?}, {found}, {acked}"
        );
    }
}

#[test]
fn a_probe_that_makes_no_round_trip_longer_shows_a_longer_route() {
    for (last, news) in [(100, Some(MinRttNews::Outdated)), (102, None), (45, None)] {
        let mut flow = Flow::cruising();
        let after = |round_trip: u32| {
            move |feedback: &mut Feedback| feedback.round_trip = Some(round_trip * MS)
        };
        flow.until(ProbeBwPhase::Refill);
        assert_eq!(flow.round(after(last.min(100))), None);
        flow.until(ProbeBwPhase::Up);
        flow.until(ProbeBwPhase::Down);
        assert_eq!(flow.round(after(last)), news, "TACK-6.1-4, {last} ms");
    }
}
