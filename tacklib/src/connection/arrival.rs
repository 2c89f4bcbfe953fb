//! When a datagram has arrived, for applications whose socket can tell (TACK-5.3-7).
//!
//! A process that runs late reads late. What it takes for the path's delay then is its own, and what
//! waited in the socket comes to it all at once. The kernel knows better.

use std::time::Instant;

use quiche::{BufFactory, RecvInfo};
use tack_proto::ecn::EcnCodepoint;

use super::Connection;

/// How a datagram has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) ecn: EcnCodepoint,
    pub(super) at: Instant,
}

/// The newest arrival so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    newest: Option<Instant>,
}

impl Arrivals {
    /// The time to go by of a datagram that is said to have arrived `at` a time, or now: time does not
    /// run backwards, nor ahead.
    fn next(&mut self, at: Option<Instant>, now: Instant) -> Instant {
        let at = at.map_or(now, |at| at.min(now));
        *self.newest.insert(self.newest.map_or(at, |newest| newest.max(at)))
    }
}

impl<F: BufFactory> Connection<F> {
    /// Processes a datagram from the peer that came `at` this time.
    ///
    /// As [`recv_with_ecn`](Self::recv_with_ecn), which takes it to come now.
    ///
    /// It is for sockets with timestamps of the kernel (`SO_TIMESTAMPNS`). Delays and rates are measured
    /// by that time, and acknowledgements tell the peer how long the datagram has waited for this process.
    /// A time in the future counts as now, one before that of the datagram before as the same. Connections
    /// with peers that do not know TACK go by it as far as the layer's own sender does: quiche measures by its
    /// own clock.
    pub fn recv_at(
        &mut self,
        buf: &mut [u8],
        info: RecvInfo,
        ecn: EcnCodepoint,
        at: Instant,
    ) -> quiche::Result<usize> {
        self.recv_arrived(buf, info, ecn, Some(at))
    }

    pub(super) fn recv_arrived(
        &mut self,
        buf: &mut [u8],
        info: RecvInfo,
        ecn: EcnCodepoint,
        at: Option<Instant>,
    ) -> quiche::Result<usize> {
        // quiche refuses an empty datagram.
        if !self.is_enabled() || buf.is_empty() {
            return self.inner.recv(buf, info);
        }
        let at = self.arrivals.next(at, Instant::now());
        self.receive(buf, info, Arrival { ecn, at })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_runs_neither_backwards_nor_ahead() {
        let mut arrivals = Arrivals::default();
        let t0 = Instant::now();
        let ms = |ms| t0 + Duration::from_millis(ms);
        assert_eq!(arrivals.next(Some(ms(5)), ms(10)), ms(5));
        assert_eq!(arrivals.next(Some(ms(4)), ms(10)), ms(5), "before the last");
        assert_eq!(arrivals.next(Some(ms(30)), ms(20)), ms(20), "in the future");
        assert_eq!(arrivals.next(None, ms(21)), ms(21));
        assert_eq!(arrivals.next(Some(ms(20)), ms(22)), ms(21));
    }
}
