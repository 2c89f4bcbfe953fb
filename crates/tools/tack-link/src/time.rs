//! Time on a link.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, in nanoseconds since the link was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// When the link was set up.
    pub const ZERO: Self = Self(0);

    /// A moment that many nanoseconds after the link was set up.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the link was set up.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the link was set up.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time since an earlier moment; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Time {
    /// The moment that long after the link was set up; durations beyond 584 years end there.
    fn from(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(Self::from(duration).0))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    /// No moment lies before the start of the link.
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(Self::from(duration).0))
    }
}
