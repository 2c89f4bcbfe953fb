//! Drain, ProbeRTT, and what may follow which state.

use super::*;

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
#[should_panic(expected = "must not follow")]
#[cfg(debug_assertions)]
fn a_transition_that_the_diagram_lacks_is_caught() {
    let mut flow = Flow::cruising();
    follow(&mut flow, State::ProbeBw(ProbeBwPhase::Up));
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
