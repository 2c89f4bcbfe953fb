//! The sender's minimum filter of round trips (section V-B of the paper, TACK-5.3-5).
//!
//! The receiver has already picked the packet with the smallest one-way delay
//! of each interval; this second filter removes what the ACK's own way adds.

use std::time::{Duration, Instant};

/// A sample this close above the minimum confirms it. Without the allowance the
/// jitter of a timer, or of a shared medium, makes every flow probe for its minimum
/// each ten seconds.
const CONFIRMS_WITHIN: f64 = 1.0 / 32.0;

/// Minimum of the round trips seen in a window.
#[derive(Clone, Copy, Debug)]
pub struct MinRtt {
    /// After it a route may have changed (tau of the paper, 10 s at most).
    window: Duration,
    minimum: Option<Duration>,
    confirmed: Option<Instant>,
    /// Before its time.
    is_expired: bool,
    /// Lowest since the window expired: what takes over if nothing lower comes
    /// out of ProbeRTT.
    successor: Option<Duration>,
}

impl MinRtt {
    /// Nothing is known yet; a minimum is out of date after `window` without a sample like it.
    pub fn new(window: Duration) -> Self {
        Self { window, minimum: None, confirmed: None, is_expired: false, successor: None }
    }

    /// A round trip has been measured. Zero is no measurement.
    pub fn on_sample(&mut self, now: Instant, rtt: Duration) {
        if rtt.is_zero() {
            return;
        }
        let confirms = |minimum: Duration| rtt <= minimum + minimum.mul_f64(CONFIRMS_WITHIN);
        if self.minimum.is_none_or(confirms) {
            self.minimum = Some(self.minimum.map_or(rtt, |minimum| minimum.min(rtt)));
            self.confirmed = Some(now);
            self.is_expired = false;
            self.successor = None;
        } else if self.is_expired(now) {
            self.successor = Some(self.successor.map_or(rtt, |lowest| lowest.min(rtt)));
            // Without a visit to ProbeRTT (a flow that never filled the path)
            // the minimum must not outlive the route by much.
            if self.age(now) > 2 * self.window {
                self.on_probed(now);
            }
        }
    }

    /// ProbeRTT is over: every queue of ours had drained, and what was measured
    /// is the path.
    pub fn on_probed(&mut self, now: Instant) {
        self.minimum = self.successor.take().or(self.minimum);
        self.confirmed = Some(now);
        self.is_expired = false;
    }

    /// The route may have become longer: the minimum is out of date already.
    pub fn expire(&mut self) {
        self.successor = None;
        self.is_expired = true;
    }

    /// The minimum.
    pub fn get(&self) -> Option<Duration> {
        self.minimum
    }

    /// Whether the window has passed without a sample as low: a queue, or a
    /// longer route, may hide in every sample since.
    pub fn is_expired(&self, now: Instant) -> bool {
        self.is_expired || self.age(now) > self.window
    }

    fn age(&self, now: Instant) -> Duration {
        self.confirmed.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_minimum_holds_for_its_window_and_then_follows_the_route() {
        let t0 = crate::test_clock();
        let mut min_rtt = MinRtt::new(Duration::from_secs(10));
        min_rtt.on_sample(t0, 50 * MS);
        min_rtt.on_sample(t0 + MS, 40 * MS);
        min_rtt.on_sample(t0 + Duration::from_secs(9), 80 * MS);
        assert_eq!(min_rtt.get(), Some(40 * MS));
        let late = t0 + Duration::from_secs(11);
        assert!(min_rtt.is_expired(late));
        min_rtt.on_sample(late, 90 * MS);
        min_rtt.on_sample(late, 80 * MS);
        assert_eq!(min_rtt.get(), Some(40 * MS), "a queue may be in them: probe first");
        min_rtt.on_probed(late);
        assert_eq!(min_rtt.get(), Some(80 * MS));
        assert!(!min_rtt.is_expired(late));
    }

    #[test]
    fn a_minimum_that_is_never_probed_for_gives_way_in_the_end() {
        let t0 = crate::test_clock();
        let mut min_rtt = MinRtt::new(Duration::from_secs(10));
        min_rtt.on_sample(t0, 40 * MS);
        min_rtt.on_sample(t0 + Duration::from_secs(19), 80 * MS);
        assert_eq!(min_rtt.get(), Some(40 * MS));
        min_rtt.on_sample(t0 + Duration::from_secs(21), 85 * MS);
        assert_eq!(min_rtt.get(), Some(80 * MS));
    }

    #[test]
    fn a_sample_close_to_the_minimum_confirms_it_without_raising_it() {
        let t0 = crate::test_clock();
        let mut min_rtt = MinRtt::new(Duration::from_secs(10));
        min_rtt.on_sample(t0, 40 * MS);
        min_rtt.on_sample(t0 + Duration::from_secs(9), 40 * MS + MS / 2);
        assert!(!min_rtt.is_expired(t0 + Duration::from_secs(18)));
        assert_eq!(min_rtt.get(), Some(40 * MS));
    }
}
