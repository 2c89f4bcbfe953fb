//! What Careful Resume's Safe Retreat Phase does to the models (RFC 9959, appendix "Safe Retreat for
//! BBR", TACK-6.7-6).

use std::time::{Duration, Instant};

use super::{Bbr, Cause, Drain, Latest, PathModel, State};
use crate::bandwidth::Bandwidth;

impl Bbr {
    /// What was sent without being validated has met congestion. Rates that were measured since are
    /// what others were pushed aside for: `most` bytes in a round trip take their place until
    /// [`Self::on_retreated`]. The round trip is that of the jump, `round_trip`, if it is shorter now: a peer
    /// can report one that is shorter than the path's, and a rate above what it has acknowledged would follow.
    pub fn on_safe_retreat(
        &mut self,
        now: Instant,
        in_flight: u64,
        (most, round_trip): (u64, Duration),
        path: &PathModel,
    ) {
        let round_trip = round_trip.max(path.data_rtt());
        let rate = Bandwidth::from_delta(most, round_trip).unwrap_or_default();
        self.max_bw.reset(self.units, rate);
        self.latest = Latest::default();
        self.full_pipe.on_overflow();
        self.is_retreating = true;
        let drain = Drain::new(now, in_flight, self.bdp(path), self.bandwidth());
        match self.state {
            State::Startup => self.enter(now, State::Drain(drain), Cause::Diagram, path),
            State::ProbeBw(_) => self.enter(now, State::Drain(drain), Cause::PathChange, path),
            State::Drain(_) | State::ProbeRtt(_) => {}
        }
    }

    /// The path has drained: rates count again, and no more than `most` bytes may be on the path before
    /// a probe has found room for more (ssthresh of RFC 9959 section 3.5).
    pub fn on_retreated(&mut self, most: u64) {
        self.is_retreating = false;
        self.long_term.on_startup_loss(0, most);
        self.measure_again();
    }

    /// Packets that left before have had more in flight than is safe.
    pub(super) fn measure_again(&mut self) {
        self.latest = Latest::default();
        self.probe.forget_before(self.delivered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;
    use crate::profiles::Profile;

    // TACK-6.7-6
    #[test]
    fn behind_a_retreat_the_volume_on_the_path_has_a_bound() {
        let mut bbr = Bbr::new(Profile::DEFAULT.bbr, Ecn::Off, crate::test_clock(), 1);
        bbr.is_retreating = true;
        bbr.on_retreated(100_000);
        assert!(!bbr.is_retreating);
        assert_eq!(bbr.long_term.get(), Some(100_000));
    }
}
