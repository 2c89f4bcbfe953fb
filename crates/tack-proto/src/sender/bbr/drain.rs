//! Drain: give back the queue that Startup, a pause of the path or an estimate too high has built.

use std::time::{Duration, Instant};

use super::startup;
use crate::bandwidth::Bandwidth;

/// Inverse of Startup's gain: the queue is gone in about a round.
pub const GAIN: f64 = 1.0 / startup::GAIN;

/// How long it takes at `gain` until no more is in flight than `left`, which the path itself holds.
/// Acknowledgements are too rare to wait for the one that says so: with the next the path
/// would have run dry.
pub fn lasts(gain: f64, in_flight: u64, left: u64, bandwidth: Bandwidth) -> Duration {
    bandwidth.scaled(1.0 - gain).time_for(in_flight.saturating_sub(left))
}

/// One stay in the state (TACK-6.2-2, TACK-6.2-3). No more may be in flight meanwhile than the
/// path and the wait for a TACK hold.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    until: Instant,
    after_outage: bool,
}

impl Drain {
    /// Begins with so much in flight, or goes on, until no more than `left` is.
    pub fn new(now: Instant, in_flight: u64, left: u64, bandwidth: Bandwidth) -> Self {
        Self { until: now + lasts(GAIN, in_flight, left, bandwidth), after_outage: false }
    }

    /// Begins when a path that stood still until now has to be filled with what queues in front
    /// of it: that takes a round trip, in which the queue says nothing of the path.
    pub fn after_outage(now: Instant, round_trip: Duration) -> Self {
        Self { until: now + round_trip, after_outage: true }
    }

    /// An acknowledgement says how much is in flight.
    pub fn on_feedback(
        &mut self,
        now: Instant,
        in_flight: u64,
        left: u64,
        bandwidth: Bandwidth,
    ) {
        if !self.after_outage {
            *self = Self::new(now, in_flight, left, bandwidth);
        }
    }

    /// The gain in force.
    pub fn gain(&self) -> f64 {
        if self.after_outage { 1.0 } else { GAIN }
    }

    /// When the queue is gone.
    pub fn until(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_drains_by_what_is_not_sent() {
        // 100 kB too much, at 1 MB/s of which three quarters are sent.
        let rate = Bandwidth::from_bytes_per_second(1_000_000);
        assert_eq!(lasts(0.75, 300_000, 200_000, rate), Duration::from_millis(400));
        assert_eq!(lasts(0.75, 100_000, 200_000, rate), Duration::ZERO);
    }

    #[test]
    fn the_state_ends_between_two_acknowledgements() {
        let now = crate::test_clock();
        let rate = Bandwidth::from_bytes_per_second(1_000_000);
        let drain = Drain::new(now, 265_000, 200_000, rate);
        let lasts = drain.until() - now;
        assert!((98..=100).contains(&lasts.as_millis()), "{lasts:?}");
    }

    #[test]
    fn behind_an_outage_it_lasts_a_round_trip_at_the_full_rate() {
        let now = crate::test_clock();
        let rate = Bandwidth::from_bytes_per_second(1_000_000);
        let mut drain = Drain::after_outage(now, Duration::from_millis(40));
        drain.on_feedback(now, 500_000, 40_000, rate);
        assert!((drain.gain() - 1.0).abs() < 1e-9);
        assert_eq!(drain.until(), now + Duration::from_millis(40));
    }
}
