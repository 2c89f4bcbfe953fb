//! The longest time for which the controller lets no data leave on a live path.
//!
//! A path is live while packets and acknowledgements get through. When the probe timer expires, it
//! is open whether they do. If an acknowledgement comes before the timer expires again, the path was
//! live, and the time since the expiry belongs to the stall. If the timer expires again first, the
//! probes or their acknowledgements are lost, or queue for longer than any round trip that the sender
//! has seen. As much may be in flight by then as the controller allows, and only the path decides
//! when it is heard of again: the time between the two expiries, which the back-off of RFC 9002
//! section 6.2.1 doubles with each, is the path's, as blackouts are. All other time is the
//! controller's. One that keeps data back while its probes are acknowledged spends up to two probe
//! timeouts for each pair of them.
//!
//! A stall is counted in the probe timeouts that were in force while it lasted: the round trips of
//! a blackout make the timeout long, and those behind it make it short again. The wait for the answer
//! to a probe is one round trip that nothing can shorten, and only the answer tells how long that is:
//! an initial window in the queue of a slow path takes several timeouts of a handshake that met no
//! queue. If the answer makes the timeout longer, that wait is counted in the longer one.

use std::time::Duration;

/// Since when no data has left although the path is live.
#[derive(Default)]
pub struct StallWatch {
    /// The probe timer has expired since something was newly acknowledged.
    probing: bool,
    /// Something was newly acknowledged since data last left.
    acked_since: bool,
    in_ptos: f64,
    /// What has passed since the last expiry and belongs to the stall if the path is live.
    open: Duration,
    open_in_ptos: f64,
    /// In probe timeouts, and how many seconds after the start it ended.
    longest: (f64, f64),
}

impl StallWatch {
    /// So much time has passed outside of blackouts, with this probe timeout.
    pub fn on_time(&mut self, lasted: Duration, probe_timeout: Duration, at: f64) {
        let in_ptos = lasted.as_secs_f64() / probe_timeout.as_secs_f64();
        if self.probing {
            self.open += lasted;
            self.open_in_ptos += in_ptos;
        } else {
            self.in_ptos += in_ptos;
            self.look(at);
        }
    }

    /// The controller has let data leave.
    pub fn on_data(&mut self) {
        self.forget_open();
        (self.in_ptos, self.acked_since) = (0.0, false);
    }

    /// Something was newly acknowledged, with which the probe timeout is this.
    pub fn on_newly_acked(&mut self, probe_timeout: Duration, at: f64) {
        let open = self.open.as_secs_f64() / probe_timeout.as_secs_f64();
        self.in_ptos += self.open_in_ptos.min(open);
        self.forget_open();
        (self.probing, self.acked_since) = (false, true);
        self.look(at);
    }

    pub fn on_probe_timeout(&mut self) {
        self.forget_open();
        self.probing = true;
    }

    pub fn longest(&self) -> (f64, f64) {
        self.longest
    }

    fn forget_open(&mut self) {
        (self.open, self.open_in_ptos) = (Duration::ZERO, 0.0);
    }

    fn look(&mut self, at: f64) {
        // Before that, what was in flight may all have been lost.
        if self.acked_since && self.in_ptos > self.longest.0 {
            self.longest = (self.in_ptos, at);
        }
    }
}
