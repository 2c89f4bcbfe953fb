//! Drain: give back the queue that Startup, a pause of the path or an estimate too high has built.

use std::time::{Duration, Instant};

use super::startup;
use crate::bandwidth::Bandwidth;

/// Inverse of Startup's gain: the queue is gone in about a round.
pub const GAIN: f64 = 1.0 / startup::GAIN;

/// While a queue drains the path delivers at its full rate, of which this flow has the part that it had when the queue
/// grew. Once others have sent more than it does now, it has less.
const PART_OF_QUEUE: f64 = 2.0 * GAIN;

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
    /// What a path that has become slower was seen to carry, where that is less than the estimate.
    slower: Option<Bandwidth>,
}

impl Drain {
    /// Begins with so much in flight, or goes on, until no more than `left` is.
    pub fn new(now: Instant, in_flight: u64, left: u64, bandwidth: Bandwidth) -> Self {
        Self {
            until: now + lasts(GAIN, in_flight, left, bandwidth),
            after_outage: false,
            slower: None,
        }
    }

    /// The same on a path that has become slower, and carries so much: at a part of what the estimate keeps its queue
    /// would not drain (TACK-6.2-20).
    #[must_use]
    pub fn of_slower_path(self, rate: Bandwidth) -> Self {
        Self { slower: Some(rate), ..self }
    }

    /// Begins when a path that stood still until now has to be filled with what queues in front
    /// of it: that takes a round trip, in which the queue says nothing of the path.
    pub fn after_outage(now: Instant, round_trip: Duration) -> Self {
        Self { until: now + round_trip, after_outage: true, slower: None }
    }

    /// Whether it gives back what a pause of the path has built.
    pub fn is_after_outage(&self) -> bool {
        self.after_outage
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
            *self = Self { slower: self.slower, ..Self::new(now, in_flight, left, bandwidth) };
        }
    }

    /// What leaves by it: of `bandwidth`, or of what the slower path carries.
    pub fn bound_bandwidth(&self, bandwidth: Bandwidth) -> Bandwidth {
        self.slower.map_or(bandwidth, |rate| bandwidth.min(rate))
    }

    /// Whether this rate is that of a path that has become slower, and not what little leaves meanwhile.
    pub fn shows_slower_path(&self, rate: Bandwidth) -> bool {
        self.slower.is_some_and(|slower| rate > slower.scaled(PART_OF_QUEUE))
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
