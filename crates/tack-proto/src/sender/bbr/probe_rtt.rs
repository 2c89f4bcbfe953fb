//! ProbeRTT: let every queue drain, so that the true minimum shows.

use std::time::{Duration, Instant};

/// Shortest stay (section VI-D: max(RTT, 200 ms)).
const SHORTEST: Duration = Duration::from_millis(200);

/// One visit to ProbeRTT.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRtt {
    /// When the queue had drained; the stay counts from there.
    drained: Option<Instant>,
    entered: Instant,
}

impl ProbeRtt {
    /// Enters at `now`.
    pub fn new(now: Instant) -> Self {
        Self { drained: None, entered: now }
    }

    /// Whether the visit is over.
    pub fn is_done(
        &mut self,
        now: Instant,
        in_flight: u64,
        target: u64,
        round_trip: Duration,
    ) -> bool {
        let stay = SHORTEST.max(round_trip);
        if self.drained.is_none() && in_flight <= target {
            self.drained = Some(now);
        }
        let passed = |since: Instant| now.saturating_duration_since(since);
        // A path that keeps its packets must not hold the connection here.
        self.drained.is_some_and(|at| passed(at) >= stay) || passed(self.entered) >= 4 * stay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_stay_counts_from_when_the_queue_has_drained() {
        let t0 = crate::test_clock();
        let mut probe = ProbeRtt::new(t0);
        assert!(!probe.is_done(t0 + 100 * MS, 9000, 4000, 40 * MS));
        assert!(!probe.is_done(t0 + 120 * MS, 4000, 4000, 40 * MS));
        assert!(!probe.is_done(t0 + 319 * MS, 3000, 4000, 40 * MS));
        assert!(probe.is_done(t0 + 320 * MS, 3000, 4000, 40 * MS));
    }

    #[test]
    fn a_queue_that_never_drains_does_not_hold_the_connection() {
        let t0 = crate::test_clock();
        let mut probe = ProbeRtt::new(t0);
        assert!(!probe.is_done(t0 + 799 * MS, 9000, 4000, 40 * MS));
        assert!(probe.is_done(t0 + 800 * MS, 9000, 4000, 40 * MS));
    }
}
