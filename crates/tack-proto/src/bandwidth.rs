//! A data rate in bytes per second.

use std::fmt;
use std::time::Duration;

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

/// A data rate, in bytes per second. Kept apart from byte counts and from
/// bits per second by its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// No data at all.
    pub const ZERO: Self = Self(0);

    /// A rate given in bytes per second.
    pub const fn from_bytes_per_second(rate: u64) -> Self {
        Self(rate)
    }

    /// The rate at which `bytes` pass in `time`; `None` for no time at all.
    pub fn from_delta(bytes: u64, time: Duration) -> Option<Self> {
        let nanos = time.as_nanos();
        if nanos == 0 {
            return None;
        }
        let rate = u128::from(bytes) * 1_000_000_000 / nanos;
        Some(Self(u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    /// Bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Megabits (10^6) per second, for people.
    pub fn megabits_per_second(self) -> f64 {
        self.0 as f64 * 8e-6
    }

    /// How many bytes pass in `time` at this rate, rounded down.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let nanos = time.as_nanos();
        // Dividing 64 bits takes a tenth of the instructions, and this runs for every packet.
        if let Ok(nanos) = u64::try_from(nanos)
            && let Some(product) = self.0.checked_mul(nanos)
        {
            return product / NANOS;
        }
        let bytes = u128::from(self.0) * nanos / u128::from(NANOS);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// How long `bytes` take at this rate; an hour stands for "never".
    pub fn time_for(self, bytes: u64) -> Duration {
        const NEVER: Duration = Duration::from_secs(3600);
        if self.0 == 0 {
            return NEVER;
        }
        if let Some(product) = bytes.checked_mul(NANOS) {
            return Duration::from_nanos(product / self.0).min(NEVER);
        }
        let nanos = u128::from(bytes) * u128::from(NANOS) / u128::from(self.0);
        u64::try_from(nanos).map_or(NEVER, Duration::from_nanos).min(NEVER)
    }

    /// The sum of two rates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The rate multiplied by a gain; negative gains count as zero.
    #[must_use]
    pub fn scaled(self, gain: f64) -> Self {
        // `as` saturates: a gain cannot overflow into a small rate.
        Self((self.0 as f64 * gain.max(0.0)) as u64)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mbit/s", self.megabits_per_second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_time_are_inverse() {
        let rate = Bandwidth::from_bytes_per_second(6_250_000);
        assert_eq!(rate.bytes_in(Duration::from_millis(40)), 250_000);
        assert_eq!(rate.time_for(250_000), Duration::from_millis(40));
        assert_eq!(Bandwidth::from_delta(250_000, Duration::from_millis(40)), Some(rate));
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Bandwidth::from_delta(1, Duration::ZERO), None);
        assert_eq!(Bandwidth::ZERO.time_for(1), Duration::from_secs(3600));
        let fastest = Bandwidth::from_bytes_per_second(u64::MAX);
        assert_eq!(fastest.scaled(2.0), fastest);
        assert_eq!(fastest.scaled(-1.0), Bandwidth::ZERO);
    }
}
