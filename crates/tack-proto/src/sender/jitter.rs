//! How much round trips differ from one acknowledgement to the next: jitter as RFC 3550 section
//! 6.4.1 estimates it (TACK-6.2-12).
//!
//! A queue makes round trips longer a little at a time. A medium that holds packets back makes them
//! long at once and short again with the next, and what it holds has to be in flight, or the rate
//! falls with it.

use std::time::Duration;

use crate::loss_detection::GRANULARITY;

/// Deviations that a time is longer than its mean now and then (RFC 6298's K).
const K: u32 = 4;

/// One over the weight of a difference (RFC 3550 section 6.4.1). The first so many have the same weight each, because
/// Startup has to go by a few.
const SAMPLES: u32 = 16;

/// Means, beside a quarter of RTTmin, above which a difference counts no more: the weight of a sample, so
/// that one counts twice as much as all before it at the most.
const OUTLIER: u32 = SAMPLES;

/// Mean difference of round trips in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Differences {
    last: Option<Duration>,
    mean: Duration,
    /// The same of differences upwards alone.
    mean_up: Duration,
    /// How many there were, [`SAMPLES`] at most.
    samples: u32,
}

impl Differences {
    /// One that differs much more than those before counts little: a path that stood still once does not
    /// jitter. Many of them count more and more.
    fn on_sample(&mut self, round_trip: Duration, min_rtt: Duration) {
        if let Some(last) = self.last.replace(round_trip) {
            let most = self.mean * OUTLIER + (min_rtt / 4).max(GRANULARITY);
            let difference = last.abs_diff(round_trip).min(most);
            let up = if round_trip > last { difference } else { Duration::ZERO };
            self.samples = (self.samples + 1).min(SAMPLES);
            let mean = |mean, sample| (mean * (self.samples - 1) + sample) / self.samples;
            self.mean = mean(self.mean, difference);
            self.mean_up = mean(self.mean_up, up);
        }
    }

    fn both_ways(&self) -> Duration {
        let down = self.mean.saturating_sub(self.mean_up);
        self.mean_up.min(down) * 2 * K
    }
}

/// By how much round trips differ, as the sender has measured them and without the time that the receiver
/// held its acknowledgement. Where frames of a live source end between two TACKs the first differ by alpha on a
/// path that does not jitter; the second are what a receiver tells, which must not raise the jitter. The
/// smaller one counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jitter {
    measured: Differences,
    without_hold: Differences,
}

impl Jitter {
    /// A round trip has been measured, in which the acknowledgement was held for `hold`.
    pub fn on_sample(&mut self, round_trip: Duration, hold: Duration, min_rtt: Duration) {
        self.measured.on_sample(round_trip, min_rtt);
        self.without_hold.on_sample(round_trip.saturating_sub(hold), min_rtt);
    }

    /// How much longer a round trip may well be that is followed by shorter ones: a queue that grows with the
    /// rate makes them longer and longer.
    pub fn both_ways(&self) -> Duration {
        self.measured.both_ways().min(self.without_hold.both_ways())
    }

    /// How much longer a round trip may well be than the one before, however long the path is.
    pub fn usual(&self) -> Duration {
        self.measured.mean.min(self.without_hold.mean) * K
    }

    /// How much longer than RTTmin data usually takes on a path that jitters. Zero where it jitters
    /// by less than RTTmin: what is in flight allows for that. At most twice what round trips are
    /// longer on average, so that a receiver that acknowledges at odd times gains no more than the
    /// delay that it causes itself.
    pub fn above(&self, min_rtt: Duration, smoothed: Duration) -> Duration {
        let longer = smoothed.saturating_sub(min_rtt);
        self.usual().saturating_sub(min_rtt).min(2 * longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn of(min_rtt: Duration, samples: impl IntoIterator<Item = u32>) -> Jitter {
        let mut jitter = Jitter::default();
        for sample in samples {
            jitter.on_sample(sample * MS, Duration::ZERO, min_rtt);
        }
        jitter
    }

    #[test]
    fn a_queue_that_grows_and_drains_is_no_jitter() {
        let sawtooth = (0..20).flat_map(|_| (40..80).chain((40..80).rev()));
        assert_eq!(of(40 * MS, sawtooth).above(40 * MS, 60 * MS), Duration::ZERO);
    }

    #[test]
    fn a_queue_that_doubles_with_the_rate_is_none_that_goes_both_ways() {
        let growing = (0..7).flat_map(|round| [1 << round; 4]).map(|queue| 40 + queue);
        let jitter = of(40 * MS, growing);
        assert!(jitter.usual() > 10 * MS, "{jitter:?}");
        assert_eq!(jitter.both_ways(), Duration::ZERO);
    }

    #[test]
    fn the_first_differences_count_as_much_as_later_ones() {
        let alternating = |samples| (0..samples).map(|sample| 200 + sample % 2 * 20);
        for samples in [3, 9, 101] {
            let jitter = of(200 * MS, alternating(samples)).both_ways();
            assert!(jitter.abs_diff(80 * MS) <= 3 * MS, "{samples}: {jitter:?}, TACK-6.2-12");
        }
    }

    #[test]
    fn a_path_that_stood_still_once_does_not_jitter() {
        let pause = std::iter::repeat_n(41, 50).chain([290, 41, 40]);
        assert_eq!(of(40 * MS, pause).above(40 * MS, 60 * MS), Duration::ZERO);
    }

    #[test]
    fn packets_that_are_held_back_now_and_then_are() {
        let held = (0..200).map(|packet| if packet % 4 == 0 { 90 } else { 2 });
        let jitter = of(2 * MS, held);
        assert!(jitter.above(2 * MS, 90 * MS) > 100 * MS);
        assert!(jitter.both_ways() > 100 * MS);
        assert_eq!(jitter.above(2 * MS, 22 * MS), 40 * MS, "twice what they are longer");
        assert_eq!(jitter.above(200 * MS, 222 * MS), Duration::ZERO);
    }

    #[test]
    fn what_a_receiver_holds_its_acknowledgements_for_is_none_and_raises_none() {
        let mut jitter = Jitter::default();
        for sample in 0..200_u32 {
            let hold = if sample % 2 == 0 { 0 } else { 10 };
            jitter.on_sample((40 + hold) * MS, hold * MS, 40 * MS);
        }
        assert_eq!(jitter.usual(), Duration::ZERO);
        let mut invented = Jitter::default();
        for sample in 0..200_u32 {
            let hold = if sample % 2 == 0 { 0 } else { 30 };
            invented.on_sample(40 * MS, hold * MS, 40 * MS);
        }
        assert_eq!(invented.usual(), Duration::ZERO);
        assert_eq!(invented.both_ways(), Duration::ZERO);
    }
}
