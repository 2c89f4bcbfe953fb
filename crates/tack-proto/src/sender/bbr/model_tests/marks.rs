//! Marks, and the rate that goes by them.

use super::*;

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
