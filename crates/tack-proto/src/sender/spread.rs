//! What a time is at most, as a rule: its smoothed mean and four deviations, as RFC 6298 section 2 has
//! it for round trips.

use std::time::Duration;

/// Deviations above the mean that are still to be expected (RFC 6298's K).
const K: u32 = 4;

/// The mean of a time and how much it varies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    mean: Option<Duration>,
    deviation: Duration,
}

impl Spread {
    /// It was that long.
    pub fn on_sample(&mut self, sample: Duration) {
        let Some(mean) = self.mean else {
            self.mean = Some(sample);
            return;
        };
        self.deviation = (self.deviation * 3 + mean.abs_diff(sample)) / 4;
        self.mean = Some((mean * 7 + sample) / 8);
    }

    /// It is hardly ever longer than this; zero before the first sample.
    pub fn most(&self) -> Duration {
        self.mean.unwrap_or_default() + self.deviation * K
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_time_that_does_not_vary_is_expected_as_it_is() {
        let mut spread = Spread::default();
        assert_eq!(spread.most(), Duration::ZERO);
        for _ in 0..100 {
            spread.on_sample(10 * MS);
        }
        assert_eq!(spread.most(), 10 * MS);
    }

    #[test]
    fn one_in_three_that_is_twice_as_long_is_expected() {
        let mut spread = Spread::default();
        for sample in 0..100_u32 {
            spread.on_sample(if sample % 3 == 0 { 20 * MS } else { 10 * MS });
        }
        assert!((20 * MS..40 * MS).contains(&spread.most()), "{:?}", spread.most());
    }
}
