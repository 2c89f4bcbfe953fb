//! The longest time for which the controller lets no data leave on a live path.
//!
//! A path is live while the sender hears of it: from an acknowledgement that newly acknowledges
//! something until the probe timer expires. Behind that, as much may be in flight as the controller
//! allows, and nothing but probes finds out what has become of it; they leave at the times of
//! RFC 9002 section 6.2.1, whose back-off doubles with each pair that gets lost. So the time from
//! an expiry to the next acknowledgement is the path's, back-off and all, as blackouts are; all
//! other time is the controller's. One that keeps data back while its probes are acknowledged
//! spends a probe timeout for each.
//!
//! A stall is counted in the probe timeouts that were in force while it lasted: the round trips of
//! a blackout make the timeout long, and those behind it make it short again.

use std::time::Duration;

/// Since when no data has left although the path is live.
pub struct StallWatch {
    is_live: bool,
    /// Something was newly acknowledged since data last left.
    acked_since: bool,
    in_ptos: f64,
    /// In probe timeouts, and how many seconds after the start it ended.
    longest: (f64, f64),
}

impl StallWatch {
    pub fn new() -> Self {
        Self { is_live: true, acked_since: false, in_ptos: 0.0, longest: (0.0, 0.0) }
    }

    /// So much time has passed outside of blackouts, with this probe timeout.
    pub fn on_time(&mut self, lasted: Duration, probe_timeout: Duration, at: f64) {
        if self.is_live {
            self.in_ptos += lasted.as_secs_f64() / probe_timeout.as_secs_f64();
        }
        if self.acked_since && self.in_ptos > self.longest.0 {
            self.longest = (self.in_ptos, at);
        }
    }

    /// The controller has let data leave.
    pub fn on_data(&mut self) {
        (self.in_ptos, self.acked_since) = (0.0, false);
    }

    pub fn on_newly_acked(&mut self) {
        (self.is_live, self.acked_since) = (true, true);
    }

    pub fn on_probe_timeout(&mut self) {
        self.is_live = false;
    }

    pub fn longest(&self) -> (f64, f64) {
        self.longest
    }
}
