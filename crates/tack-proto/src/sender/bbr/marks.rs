//! What CE marks say of the path (TACK-6.5-8).
//!
//! A Classic mark stands for a loss that an AQM has spared the flow: one in a round trip counts like
//! many, for a little less than a loss (RFC 8511 section 3.1). The marks of an L4S queue set a rate of
//! their own ([`Scalable`]).

use std::time::Instant;

use super::{Bbr, Cause, Feedback, INITIAL_WINDOW_PACKETS, PathModel, ProbeBwPhase, State};
use crate::ecn::Ecn;
use crate::sender::scalable::{Scalable, Signals, is_l4s_queue};

/// beta_ecn, RFC 8511 section 3.1: what a Classic mark leaves to a sender with CUBIC's beta of 0.7.
pub(super) const BETA_ECN: f64 = 0.85;

/// ecn_thresh of Linux' BBRv3: where half of a round's packets are marked, Startup has filled the path.
const STARTUP_THRESH: f64 = 0.5;

/// So many packets of a round that an L4S queue marks end Startup before the round is over, as so many
/// losses do (BBRStartupFullLossCnt): with each further one the queue grows by twice what leaves it.
const STARTUP_FULL_MARKS: u64 = 6;

/// Counts marks by round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    ce: u64,
    acked_bytes: u64,
}

/// The marks of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkedRound {
    /// There were some.
    pub marked: bool,
    /// So many that Startup has filled the path.
    pub ends_startup: bool,
}

impl Marks {
    /// An acknowledgement reports so many packets as CE, and acknowledges so many bytes.
    pub fn on_acked(&mut self, ce: u64, acked_bytes: u64) {
        self.ce += ce;
        self.acked_bytes += acked_bytes;
    }

    /// Whether a Startup over an L4S queue has filled the path, before the round trip is over.
    pub fn fill_queue(&self) -> bool {
        self.ce >= STARTUP_FULL_MARKS
    }

    /// A round trip is over.
    pub fn on_round(&mut self, mss: u64) -> MarkedRound {
        let packets = (self.acked_bytes / mss.max(1)).max(1);
        let share = self.ce as f64 / packets as f64;
        let marked = self.ce > 0;
        *self = Self::default();
        MarkedRound { marked, ends_startup: marked && share >= STARTUP_THRESH }
    }
}

impl Bbr {
    /// Whether what was delivered so far may have left at once (RFC 9002 section 7.7): a queue that marks
    /// early marks a burst for its own length.
    pub(super) fn marks_own_burst(&self, feedback: &Feedback, path: &PathModel) -> bool {
        self.ecn == Ecn::L4s && feedback.delivered <= 2 * INITIAL_WINDOW_PACKETS * path.mss
    }

    /// Whether marks have another answer than a loss.
    pub(super) fn follows_early_marks(&self) -> bool {
        self.scalable.is_some() || self.marks_early
    }

    /// Packets wait as in front of no L4S queue. A Cruise begins: the cycle stood still for as long as marks
    /// set the rate, and a Refill that is due since then would lift at once what this congestion takes
    /// (TACK-6.5-5, TACK-6.5-10). Nor did the last Up find what marks have let the rate grow to.
    pub(super) fn end_rate_by_marks(&mut self, now: Instant, path: &PathModel) {
        let followed_marks = self.scalable.take().is_some();
        if followed_marks && matches!(self.state, State::ProbeBw(ProbeBwPhase::Cruise)) {
            self.begin_phase(now, ProbeBwPhase::Cruise, path);
            self.cycle.forget_probe();
        }
    }

    /// What an acknowledgement says of an L4S queue (TACK-6.5-10).
    pub(super) fn follow_marks(&mut self, now: Instant, feedback: &Feedback, path: &PathModel) {
        if self.ecn != Ecn::L4s {
            return;
        }
        match (self.state, &mut self.scalable) {
            (State::Startup, _) => {
                if self.marks.fill_queue() {
                    self.full_pipe.on_overflow();
                    self.marks_early = true;
                }
            }
            // An IACK for a loss says nothing of the rate, and no time passes by it: else a path that loses packets would
            // be probed the less, the more it loses.
            (_, Some(_)) if feedback.sample.is_none() && feedback.ce == 0 => {}
            (_, Some(scalable)) => {
                let signals = Signals {
                    ce: feedback.ce,
                    delivered: feedback.sample.map(|sample| sample.rate),
                    max_bw: self.max_bw.get(),
                    app_limited: feedback.sample.is_none_or(|sample| sample.app_limited),
                    round_trip: feedback.round_trip,
                    path_rtt: path.data_rtt(),
                    mss: path.mss,
                };
                if !scalable.on_acked(now, &signals) {
                    self.end_rate_by_marks(now, path);
                }
            }
            (_, None) => {
                // Others are a Classic AQM's.
                let rate = self.bandwidth();
                let is_early = |taken| is_l4s_queue(taken, path.data_rtt(), rate, path.mss);
                self.marks_early |=
                    feedback.ce > 0 && feedback.round_trip.is_some_and(is_early);
            }
        }
        if self.marks_early && matches!(self.state, State::ProbeBw(_)) {
            self.marks_early = false;
            let carried = self.bandwidth();
            self.short_term.reset();
            self.scalable = Some(Scalable::new(now, carried, path.data_rtt()));
            if self.probes() {
                self.enter(now, State::ProbeBw(ProbeBwPhase::Down), Cause::Diagram, path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(ce: u64) -> MarkedRound {
        let mut marks = Marks::default();
        marks.on_acked(ce, 100 * 1250);
        marks.on_round(1250)
    }

    #[test]
    fn half_of_a_round_ends_startup() {
        assert!(round(1).marked && !round(0).marked);
        assert!(!round(49).ends_startup);
        assert!(round(50).ends_startup);
    }

    #[test]
    fn six_marks_fill_an_l4s_queue_and_a_round_trip_forgets_them() {
        let mut marks = Marks::default();
        marks.on_acked(5, 100 * 1250);
        assert!(!marks.fill_queue());
        marks.on_acked(1, 1250);
        assert!(marks.fill_queue());
        marks.on_round(1250);
        assert!(!marks.fill_queue());
    }
}
