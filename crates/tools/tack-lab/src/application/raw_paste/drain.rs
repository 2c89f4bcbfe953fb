//! When a writer waits for what it has written.

use std::time::Duration;

use tack_link::Time;

/// When a writer waits until all that it wrote is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainPolicy {
    /// After each write.
    EachWrite,
    /// After so many bytes, or when the last time is so long ago.
    Threshold {
        /// Bytes since the last time.
        bytes: usize,
        /// Time since the last time.
        interval: Duration,
    },
    /// When the last time is so long ago.
    Interval(Duration),
    /// Only at the end of a command.
    AtEnd,
}

impl DrainPolicy {
    /// The plan's: 2 KiB or 100 ms.
    pub const THRESHOLD: Self =
        Self::Threshold { bytes: 2048, interval: Duration::from_millis(100) };

    /// Whether the writer waits now, with so many bytes since the last time.
    pub(super) fn is_due(self, bytes: usize, last: Time, now: Time) -> bool {
        match self {
            Self::EachWrite => true,
            Self::Threshold { bytes: most, interval } => {
                bytes >= most || now.since(last) >= interval
            }
            Self::Interval(interval) => now.since(last) >= interval,
            Self::AtEnd => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_reached_by_bytes_or_by_time() {
        let at = |ms| Time::from(Duration::from_millis(ms));
        let due = |bytes, ms| DrainPolicy::THRESHOLD.is_due(bytes, at(50), at(ms));
        assert!(!due(2047, 149) && due(2048, 50) && due(1, 150));
        let interval = DrainPolicy::Interval(Duration::from_millis(100));
        assert!(!interval.is_due(1 << 20, at(0), at(99)) && interval.is_due(1, at(0), at(100)));
    }
}
