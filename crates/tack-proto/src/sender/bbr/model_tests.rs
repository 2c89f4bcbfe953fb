//! The models of congestion. docs/bbr-draft-tests.md says which tests hold which case of the
//! draft's appendix.

use super::tests::{MS, NO_NEWS, PATH, SAMPLE, cruising, rate};
use super::*;
use crate::sender::{RateSample, TxInFlight};

/// What 6.25 MB/s carry in 40 ms.
const BDP: u64 = 250_000;

struct Flow {
    bbr: Bbr,
    now: Instant,
    delivered: u64,
}

impl Flow {
    /// In Startup.
    fn starting() -> Self {
        let now = crate::test_clock();
        let bbr = Bbr::new(BbrConfig::DEFAULT, Ecn::Off, now, 7);
        Self { bbr, now, delivered: 0 }
    }

    fn cruising() -> Self {
        let (bbr, now, delivered) = cruising();
        Self { bbr, now, delivered }
    }

    /// A round trip at 6.25 MB/s with changes.
    fn round(&mut self, change: impl FnOnce(&mut Feedback)) -> Option<MinRttNews> {
        self.round_over(&PATH, change)
    }

    fn round_over(
        &mut self,
        path: &PathModel,
        change: impl FnOnce(&mut Feedback),
    ) -> Option<MinRttNews> {
        self.now += 40 * MS;
        let prior_delivered = self.delivered;
        self.delivered += BDP;
        let mut feedback = Feedback {
            sample: Some(RateSample {
                rate: rate(6_250_000),
                send_rate: None,
                interval: 40 * MS,
                app_limited: false,
                prior_delivered,
                tx_in_flight: TxInFlight { bytes: BDP, since_ack: Duration::ZERO },
                recent: None,
            }),
            delivered: self.delivered,
            acked: BDP,
            in_flight: BDP,
            round_trip: Some(40 * MS),
            ..NO_NEWS
        };
        change(&mut feedback);
        self.bbr.on_feedback(self.now, &feedback, path)
    }

    /// The path becomes slower, half as fast as it was.
    fn becomes_slower(&mut self) {
        while !matches!(self.bbr.state, State::Drain(_)) {
            self.round(|feedback| {
                feedback.round_trip = Some(100 * MS);
                feedback.reported = Some(rate(3_000_000));
            });
        }
    }

    fn phase(&self) -> Option<ProbeBwPhase> {
        match self.bbr.state {
            State::ProbeBw(phase) => Some(phase),
            _ => None,
        }
    }

    /// Goes on, an acknowledgement in each millisecond, until a phase of the cycle.
    fn until(&mut self, phase: ProbeBwPhase) {
        for _ in 0..10_000 {
            if self.phase() == Some(phase) {
                return;
            }
            self.now += MS;
            let quiet = Feedback { delivered: self.delivered, in_flight: 100_000, ..NO_NEWS };
            self.bbr.on_feedback(self.now, &quiet, &PATH);
        }
        panic!("{:?} never becomes {phase:?}", self.bbr.state);
    }

    /// The probe now loses so much of what it sent with so much in flight.
    fn lose_of_probe(&mut self, lost: u64, tx_in_flight: u64) {
        let feedback = Feedback {
            delivered: self.delivered,
            lost,
            probe_lost: lost,
            probe_lost_at: Some(TxInFlight { bytes: tx_in_flight, since_ack: Duration::ZERO }),
            lost_packets: lost / PATH.mss,
            in_flight: tx_in_flight,
            ..NO_NEWS
        };
        self.bbr.on_feedback(self.now, &feedback, &PATH);
    }
}

fn queued(feedback: &mut Feedback) {
    feedback.round_trip = Some(60 * MS);
}

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
fn idle_time_spares_the_visit_to_probe_rtt() {
    let mut flow = Flow::cruising();
    flow.bbr.on_restart_from_idle();
    flow.round(|feedback| feedback.min_rtt_expired = true);
    assert_eq!(flow.bbr.phase(), Phase::ProbeBw);
    flow.round(|feedback| feedback.min_rtt_expired = true);
    assert_eq!(flow.bbr.phase(), Phase::ProbeRtt);
}

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
fn a_probe_that_loses_what_is_missing_at_a_low_rate_shows_a_slower_path() {
    let cases = [
        (3_000_000, 100_000, 3_000_000),
        (4_200_000, 100_000, 6_250_000),
        (3_000_000, 400_000, 6_250_000),
    ];
    for (found, acked, left) in cases {
        let mut flow = Flow::cruising();
        let slow = |feedback: &mut Feedback| {
            feedback.sample.as_mut().unwrap().rate = rate(found);
            feedback.probe_acked = acked;
        };
        flow.until(ProbeBwPhase::Refill);
        flow.round(slow);
        flow.until(ProbeBwPhase::Up);
        flow.lose_of_probe(100 * PATH.mss, 400_000);
        flow.round(slow);
        assert_eq!(flow.bbr.max_bw.get(), rate(left), "TACK-6.1-4, {found}, {acked}");
    }
}

#[test]
fn a_classic_mark_counts_once_in_a_round_trip_until_the_next_refill() {
    let mut flow = Flow::cruising();
    flow.bbr.ecn = Ecn::Classic;
    flow.round(|feedback| feedback.ce = 3);
    assert_eq!(flow.bbr.bandwidth(), rate(6_250_000).scaled(0.85), "TACK-6.5-8");
    flow.until(ProbeBwPhase::Refill);
    assert_eq!(flow.bbr.bandwidth(), rate(6_250_000));
}

/// A flow in ProbeBW whose path has marked early.
fn marked_early() -> Flow {
    let mut flow = Flow::cruising();
    flow.bbr.ecn = Ecn::L4s;
    flow.round(|feedback| feedback.ce = 1);
    flow
}

#[test]
fn where_a_path_marks_early_the_rate_follows_marks_and_no_cycle() {
    let mut flow = marked_early();
    assert!(flow.bbr.bandwidth() > rate(5_900_000), "TACK-6.5-10: {}", flow.bbr.bandwidth());
    let mut rates = Vec::new();
    for _ in 0..50 {
        flow.round(|feedback| feedback.ce = 2);
        assert_eq!(flow.phase(), Some(ProbeBwPhase::Cruise));
        assert_eq!(flow.bbr.pacing_rate(&PATH), flow.bbr.bandwidth());
        rates.push(flow.bbr.bandwidth());
    }
    let (least, most) = (rates.iter().min().unwrap(), rates.iter().max().unwrap());
    assert!(*most <= least.scaled(1.01), "two marks in a round trip: {least} to {most}");
}

#[test]
fn an_early_mark_ends_a_probe() {
    let mut flow = Flow::cruising();
    flow.bbr.ecn = Ecn::L4s;
    flow.until(ProbeBwPhase::Up);
    let round_trip = Some(41 * MS);
    let mark =
        Feedback { delivered: flow.delivered, in_flight: BDP, ce: 1, round_trip, ..NO_NEWS };
    flow.bbr.on_feedback(flow.now, &mark, &PATH);
    assert_ne!(flow.phase(), Some(ProbeBwPhase::Up));
}

#[test]
fn a_loss_behind_a_queue_ends_the_rate_by_marks() {
    let mut flow = marked_early();
    for _ in 0..2 {
        flow.round(|feedback| {
            queued(feedback);
            // The queue marks all the same.
            feedback.ce = 1;
            feedback.lost = 10 * PATH.mss;
            feedback.sample.as_mut().unwrap().rate = rate(5_000_000);
        });
    }
    assert!(flow.bbr.short_term.is_congested(), "as without marks");
    assert_eq!(flow.bbr.bandwidth(), rate(5_000_000), "TACK-6.5-10");
    flow.until(ProbeBwPhase::Refill);
}

/// A flow that has followed marks for four seconds, in which the cycle stood still.
fn marked_for_long() -> Flow {
    let mut flow = marked_early();
    for _ in 0..100 {
        flow.round(|feedback| feedback.ce = 2);
    }
    flow
}

#[test]
fn the_answer_to_a_loss_that_ends_the_rate_by_marks_lasts_until_a_cruise_is_over() {
    for found in [6_250_000, 7_500_000] {
        let mut flow = Flow::cruising();
        flow.bbr.ecn = Ecn::L4s;
        flow.until(ProbeBwPhase::Down);
        // Behind a probe, and rates have grown since without one.
        flow.round(|feedback| feedback.ce = 1);
        for _ in 0..100 {
            flow.round(|feedback| {
                feedback.ce = 2;
                feedback.sample.as_mut().unwrap().rate = rate(found);
            });
        }
        assert!(flow.bbr.scalable.is_some());
        assert_eq!(flow.phase(), Some(ProbeBwPhase::Cruise));
        for _ in 0..2 {
            flow.round(|feedback| {
                queued(feedback);
                feedback.ce = 1;
                feedback.lost = 10 * PATH.mss;
                feedback.sample.as_mut().unwrap().rate = rate(5_000_000);
            });
        }
        assert_eq!(flow.phase(), Some(ProbeBwPhase::Cruise), "TACK-6.5-10, {found}");
        assert!(flow.bbr.short_term.is_congested(), "TACK-6.5-5, {found}");
        assert!(flow.bbr.bandwidth() <= rate(5_300_000), "{found}: {}", flow.bbr.bandwidth());
        flow.until(ProbeBwPhase::Refill);
    }
}

/// A mark behind a queue.
fn queued_and_marked(feedback: &mut Feedback) {
    queued(feedback);
    feedback.ce = 1;
}

/// Marks of a queue that stands, as long as the rate goes by marks.
fn mark_until_it_ends(flow: &mut Flow) {
    while flow.bbr.scalable.is_some() {
        flow.round(queued_and_marked);
    }
}

#[test]
fn the_answer_to_a_mark_of_a_queue_that_stands_lasts_until_a_cruise_is_over() {
    let mut flow = marked_for_long();
    mark_until_it_ends(&mut flow);
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Cruise), "TACK-6.5-10");
    assert!(flow.bbr.short_term.is_congested(), "TACK-6.5-8");
    flow.until(ProbeBwPhase::Refill);
}

#[test]
fn a_slow_short_path_leaves_drain_and_down_with_the_least_flight() {
    // 256 kbit/s and 20 ms: 640 bytes, and the least rate keeps four packets in flight.
    let slow = PathModel {
        min_rtt: Some(20 * MS),
        smoothed_rtt: Some(37 * MS),
        ack_interval: 25 * MS,
        mss: 1200,
        ..PATH
    };
    for drains in [true, false] {
        let mut bbr = Bbr::new(BbrConfig::DEFAULT, Ecn::Off, crate::test_clock(), 7);
        bbr.max_bw.update(0, rate(32_000));
        let mut now = crate::test_clock();
        let full = Feedback { in_flight: 3 * slow.mss, ..NO_NEWS };
        bbr.drain(now, &full, Cause::Diagram, &slow);
        if !drains {
            bbr.enter(now, State::ProbeBw(ProbeBwPhase::Down), Cause::Diagram, &slow);
        }
        now += 37 * MS;
        bbr.on_feedback(now, &full, &slow);
        assert!(matches!(bbr.state, State::ProbeBw(ProbeBwPhase::Cruise)), "TACK-6.2-2");
    }
}

#[test]
fn a_queue_in_front_of_a_link_that_does_not_mark_ends_the_rate_by_marks() {
    let mut flow = marked_early();
    for _ in 0..3 {
        flow.round(queued);
    }
    flow.until(ProbeBwPhase::Refill);
}

#[test]
fn marks_of_a_queue_that_stands_are_answered_as_classic_ones() {
    let mut flow = marked_early();
    mark_until_it_ends(&mut flow);
    let before = flow.bbr.bandwidth();
    flow.round(queued_and_marked);
    assert_eq!(flow.bbr.bandwidth(), before.scaled(0.85), "TACK-6.5-10");
    assert!(flow.bbr.scalable.is_none());
    flow.round(|feedback| feedback.ce = 1);
    assert!(flow.bbr.scalable.is_some(), "an early mark");
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

/// Enters a state by a transition of the draft's diagram.
fn follow(flow: &mut Flow, to: State) {
    flow.bbr.enter(flow.now, to, Cause::Diagram, &PATH);
}

#[test]
fn probe_rtt_follows_every_phase_and_gives_way_to_cruise() {
    use ProbeBwPhase::{Cruise, Down, Refill, Up};
    for phase in [Cruise, Refill, Up, Down] {
        let mut flow = Flow::cruising();
        for before in [Cruise, Refill, Up, Down] {
            flow.until(before);
            if before == phase {
                break;
            }
        }
        flow.round(|feedback| feedback.min_rtt_expired = true);
        assert_eq!(flow.bbr.phase(), Phase::ProbeRtt, "behind {phase:?}");
        flow.round(|_| {});
        assert_eq!(flow.phase(), Some(Cruise), "RTTmin has shown again behind {phase:?}");
    }
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

#[test]
#[should_panic(expected = "must not follow")]
#[cfg(debug_assertions)]
fn a_transition_that_the_diagram_lacks_is_caught() {
    let mut flow = Flow::cruising();
    follow(&mut flow, State::ProbeBw(ProbeBwPhase::Up));
}

/// An acknowledgement with so much in flight, in the same millisecond.
fn in_flight(flow: &mut Flow, bytes: u64) {
    let feedback = Feedback { delivered: flow.delivered, in_flight: bytes, ..NO_NEWS };
    flow.bbr.on_feedback(flow.now, &feedback, &PATH);
}

/// How long a phase lasts, in ms, while each millisecond says that so much is in flight.
fn lasts(flow: &mut Flow, bytes: u64) -> u32 {
    let phase = flow.phase();
    for passed in 0..10_000 {
        if flow.phase() != phase {
            return passed;
        }
        flow.now += MS;
        in_flight(flow, bytes);
    }
    panic!("{phase:?} does not end");
}

fn limited(bytes_per_second: u64) -> impl Fn(&mut Feedback) {
    move |feedback| {
        let sample = feedback.sample.as_mut().unwrap();
        (sample.app_limited, sample.rate) = (true, rate(bytes_per_second));
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

// A.3, A.4
#[test]
fn drain_ends_with_a_bdp_in_flight_and_by_no_number_of_rounds() {
    let mut flow = Flow::cruising();
    flow.bbr.state = State::Startup;
    flow.bbr.full_pipe.on_overflow();
    in_flight(&mut flow, 2 * BDP);
    assert_eq!(flow.bbr.pacing_rate(&PATH), rate(6_250_000).scaled(1.0 / 2.885), "TACK-6.2-2");
    for round in 0..10 {
        flow.round(|feedback| feedback.in_flight = 2 * BDP);
        assert_eq!(flow.bbr.phase(), Phase::Drain, "round {round}");
    }
    in_flight(&mut flow, BDP + PATH.mss);
    assert_eq!(flow.bbr.phase(), Phase::Drain);
    in_flight(&mut flow, BDP);
    assert_eq!(flow.phase(), Some(ProbeBwPhase::Cruise), "TACK-6.2-2");
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

// A.20
#[test]
fn startup_and_drain_do_not_give_way_to_probe_rtt() {
    let mut flow = Flow::starting();
    for doubling in 0..6_u32 {
        flow.round(|feedback| {
            feedback.min_rtt_expired = true;
            feedback.sample.as_mut().unwrap().rate = rate(100_000 << doubling);
        });
        assert_eq!(flow.bbr.phase(), Phase::Startup, "TACK-6.2-4");
    }
    let expired = |feedback: &mut Feedback| {
        (feedback.min_rtt_expired, feedback.in_flight) = (true, 4 * BDP);
        feedback.sample.as_mut().unwrap().rate = rate(3_200_000);
    };
    while flow.bbr.phase() == Phase::Startup {
        flow.round(expired);
    }
    for _ in 0..3 {
        assert_eq!(flow.bbr.phase(), Phase::Drain);
        flow.round(expired);
    }
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
