//! The sender's minimum filter of round trips (section V-B).
//!
//! The receiver has already picked the packet with the smallest one-way delay
//! of each interval; this second filter removes what the ACK's own way adds.

use std::time::{Duration, Instant};

/// Longest window: after it a route may have changed (tau of the paper).
pub const WINDOW: Duration = Duration::from_secs(10);

/// A sample this close above the minimum confirms it. Without the allowance the
/// jitter of a timer makes every flow probe for its minimum each ten seconds.
const CONFIRMS_WITHIN: f64 = 1.0 / 64.0;

/// Minimum of the round trips seen in a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinRtt {
    minimum: Option<Duration>,
    confirmed: Option<Instant>,
}

impl MinRtt {
    /// A round trip has been measured. Zero is no measurement.
    pub fn on_sample(&mut self, now: Instant, rtt: Duration) {
        if rtt.is_zero() {
            return;
        }
        match self.minimum {
            Some(minimum) if rtt > minimum => {
                if self.is_expired(now) {
                    self.minimum = Some(rtt);
                    self.confirmed = Some(now);
                } else if rtt <= minimum + minimum.mul_f64(CONFIRMS_WITHIN) {
                    self.confirmed = Some(now);
                }
            }
            _ => {
                self.minimum = Some(rtt);
                self.confirmed = Some(now);
            }
        }
    }

    /// The minimum.
    pub fn get(&self) -> Option<Duration> {
        self.minimum
    }

    /// Whether the window has passed without a sample as low: a queue, or a
    /// longer route, may hide in every sample since.
    pub fn is_expired(&self, now: Instant) -> bool {
        self.confirmed.is_some_and(|at| now.saturating_duration_since(at) > WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_minimum_holds_for_its_window_and_then_follows_the_route() {
        let t0 = crate::test_clock();
        let mut min_rtt = MinRtt::default();
        min_rtt.on_sample(t0, 50 * MS);
        min_rtt.on_sample(t0 + MS, 40 * MS);
        min_rtt.on_sample(t0 + Duration::from_secs(9), 80 * MS);
        assert_eq!(min_rtt.get(), Some(40 * MS));
        assert!(min_rtt.is_expired(t0 + Duration::from_secs(11)));
        min_rtt.on_sample(t0 + Duration::from_secs(11), 80 * MS);
        assert_eq!(min_rtt.get(), Some(80 * MS));
    }

    #[test]
    fn a_sample_close_to_the_minimum_confirms_it_without_raising_it() {
        let t0 = crate::test_clock();
        let mut min_rtt = MinRtt::default();
        min_rtt.on_sample(t0, 40 * MS);
        min_rtt.on_sample(t0 + Duration::from_secs(9), 40 * MS + MS / 2);
        assert!(!min_rtt.is_expired(t0 + Duration::from_secs(18)));
        assert_eq!(min_rtt.get(), Some(40 * MS));
    }
}
