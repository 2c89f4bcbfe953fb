//! Startup: the rate doubles every round trip until it stops to grow.

use std::time::Duration;

use crate::bandwidth::Bandwidth;
use crate::loss_detection::GRANULARITY;
use crate::sender::RateSample;

/// Gain that doubles the delivery rate each round: 2/ln 2.
pub const GAIN: f64 = 2.885;

/// What may be in flight, in BDPs, beside what waits for its TACK. Two let the rate double, and
/// leave a queue of one BDP at the most. But the estimate is a round trip old: until packets queue
/// the pipe has room for all that the pacer lets out. A twentieth of a round trip shows
/// it before the buffer is full; no less than RFC 9002's kGranularity, which a path of
/// microseconds would pass with the first system call.
pub fn inflight_gain(min_rtt: Duration, round_trip: Option<Duration>) -> f64 {
    match round_trip {
        Some(round_trip) if round_trip > min_rtt + (min_rtt / 20).max(GRANULARITY) => 2.0,
        _ => GAIN,
    }
}

/// Gain on the rate of the last stretch (TACK-6.2-17): with it the rate doubles in a round trip. The mean of a
/// quarter of a round trip is 0.92 of what its end shows, and is an eighth of one old on average, which is as much
/// again.
const GROWING_GAIN: f64 = 2.3;

/// How fast data is delivered while the rate grows, as a rate for [`GAIN`] (TACK-6.2-17). A sample spans a round
/// trip, and the pause behind the initial window too: it shows a half or a third of what its end does. Data leaves
/// at [`GAIN`] times the estimate, so nothing grows by more within a round trip. The receiver's rate, once there
/// is one, tells packets that arrived together from those that were acknowledged together.
pub fn growing_rate(sample: &RateSample, reported: Option<Bandwidth>) -> Bandwidth {
    let Some(recent) = sample.recent.filter(|_| !sample.app_limited) else {
        return Bandwidth::ZERO;
    };
    let recent = reported.unwrap_or(recent).min(recent).min(sample.rate.scaled(GAIN));
    recent.scaled(GROWING_GAIN / GAIN)
}

/// Growth that counts as growth.
pub(super) const GROWTH: f64 = 1.25;

/// Rounds without growth after which the pipe is full.
const PATIENCE: u32 = 3;

/// Rounds without growth that suffice where a queue has built up: delay shows
/// what loss cannot, because a lossy path loses at any rate.
const PATIENCE_WITH_QUEUE: u32 = 1;

/// Notices when the pipe is full.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullPipe {
    baseline: Bandwidth,
    rounds: u32,
    full: bool,
}

impl FullPipe {
    /// A round has ended with this bandwidth estimate; `queue` if the round trip
    /// has grown since. True if the estimate has grown.
    pub fn on_round(&mut self, bandwidth: Bandwidth, app_limited: bool, queue: bool) -> bool {
        let grew = bandwidth >= self.baseline.scaled(GROWTH);
        if self.full || app_limited {
            return grew;
        }
        if grew {
            self.baseline = bandwidth;
            self.rounds = 0;
            return true;
        }
        self.rounds += 1;
        self.full = self.rounds >= if queue { PATIENCE_WITH_QUEUE } else { PATIENCE };
        false
    }

    /// Whether the last round has not grown.
    pub fn has_stalled(&self) -> bool {
        self.rounds > 0
    }

    /// The path loses what is too much for it.
    pub fn on_overflow(&mut self) {
        self.full = true;
    }

    /// Whether the pipe is full.
    pub fn is_full(&self) -> bool {
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::bbr::tests::SAMPLE;

    #[test]
    fn the_growing_rate_follows_the_recent_one_within_what_was_reported_and_what_data_left_at()
    {
        let rate = Bandwidth::from_bytes_per_second;
        let sample = RateSample { recent: Some(rate(2000)), ..SAMPLE };
        let of = |sample, reported| growing_rate(&sample, reported);
        let scaled = |bytes_per_second| rate(bytes_per_second).scaled(GROWING_GAIN / GAIN);
        assert_eq!(of(sample, None), scaled(2000));
        assert_eq!(
            of(sample, Some(rate(1500))),
            scaled(1500),
            "they were acknowledged together"
        );
        assert_eq!(of(sample, Some(rate(9000))), scaled(2000), "a receiver cannot raise it");
        let compressed = RateSample { recent: Some(rate(5000)), ..sample };
        let left = rate(1000).scaled(GAIN).scaled(GROWING_GAIN / GAIN);
        assert_eq!(of(compressed, None), left, "TACK-6.2-17");
        let limited = RateSample { app_limited: true, ..sample };
        assert_eq!(of(limited, None), Bandwidth::ZERO);
        assert_eq!(of(RateSample { recent: None, ..sample }, None), Bandwidth::ZERO);
    }

    #[test]
    fn three_rounds_without_growth_end_startup() {
        let mut pipe = FullPipe::default();
        for rate in [10, 20, 40, 80, 90, 90] {
            pipe.on_round(Bandwidth::from_bytes_per_second(rate), false, false);
            assert!(!pipe.is_full());
        }
        pipe.on_round(Bandwidth::from_bytes_per_second(91), false, false);
        assert!(pipe.is_full());
    }

    #[test]
    fn a_queue_without_growth_ends_it_after_one_round() {
        let mut pipe = FullPipe::default();
        pipe.on_round(Bandwidth::from_bytes_per_second(80), false, false);
        pipe.on_round(Bandwidth::from_bytes_per_second(160), false, true);
        assert!(!pipe.is_full(), "it still grows");
        pipe.on_round(Bandwidth::from_bytes_per_second(170), false, true);
        assert!(pipe.is_full());
    }

    #[test]
    fn a_queue_bounds_what_is_in_flight_to_two_bdps() {
        let rtt = Duration::from_millis(100);
        assert!(inflight_gain(rtt, None) > 2.0, "nothing is known of a queue");
        assert!(inflight_gain(rtt, Some(rtt)) > 2.0);
        assert!(inflight_gain(rtt, Some(rtt * 11 / 10)) <= 2.0);
    }

    #[test]
    fn less_than_a_millisecond_is_no_queue_on_a_path_of_microseconds() {
        let micros = Duration::from_micros;
        assert!(inflight_gain(micros(30), Some(micros(900))) > 2.0);
        assert!(inflight_gain(micros(30), Some(micros(1100))) <= 2.0);
    }

    #[test]
    fn a_pause_of_the_application_is_not_a_full_pipe() {
        let mut pipe = FullPipe::default();
        for _ in 0..10 {
            pipe.on_round(Bandwidth::from_bytes_per_second(10), true, true);
        }
        assert!(!pipe.is_full());
    }
}
