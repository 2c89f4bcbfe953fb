//! When a connection on which no packets arrive sends a PING.
//!
//! A connection ends when no packet has arrived for its idle timeout (RFC 9000 section 10.1), and a NAT may drop the
//! mapping of its port earlier. An end that only receives sends nothing while nothing arrives: the peer does not
//! learn of its new address or port, and goes on sending to the old one. A PING tells the peer (section 10.1.2).

use std::time::{Duration, Instant};

/// Watches one connection. It compares the count of packets once in each period, and so costs nothing for a datagram.
pub(crate) struct KeepAlive {
    period: Option<Duration>,
    /// None too where the period leads beyond all times that the clock can tell.
    looks_at: Option<Instant>,
    /// Packets that had arrived at the last look.
    packets: usize,
}

impl KeepAlive {
    /// Never silent without a `period`.
    pub(crate) fn new(now: Instant, period: Option<Duration>) -> Self {
        let looks_at = period.and_then(|period| now.checked_add(period));
        Self { period, looks_at, packets: 0 }
    }

    /// When the connection is to be looked at.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.looks_at
    }

    /// Whether a period has passed without a packet, of which so many have arrived in all: `packets`, asked once in a
    /// period.
    pub(crate) fn is_silent(&mut self, now: Instant, packets: impl FnOnce() -> usize) -> bool {
        let is_due = self.looks_at.is_some_and(|at| at <= now);
        let Some(period) = self.period.filter(|_| is_due) else { return false };
        self.looks_at = now.checked_add(period);
        let packets = packets();
        std::mem::replace(&mut self.packets, packets) == packets
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_period_without_a_packet_is_silent_and_each_one_after_it() {
        let start = Instant::now();
        let mut keep_alive = KeepAlive::new(start, Some(SECOND));
        let mut is_silent =
            |seconds, packets| keep_alive.is_silent(start + seconds * SECOND, || packets);
        assert!(!is_silent(1, 5));
        assert!(!is_silent(2, 6));
        assert!(is_silent(3, 6));
        assert!(!is_silent(3, 6), "it was asked just now");
        assert!(is_silent(4, 6));
        assert!(!is_silent(5, 7));
        assert_eq!(keep_alive.deadline(), Some(start + 6 * SECOND));
    }

    #[test]
    fn without_a_period_a_connection_is_never_silent() {
        let start = Instant::now();
        let mut keep_alive = KeepAlive::new(start, None);
        assert_eq!(keep_alive.deadline(), None);
        assert!(!keep_alive.is_silent(start + SECOND, || 0));
    }

    #[test]
    fn a_connection_is_never_silent_for_a_period_longer_than_the_clock_goes_on() {
        let start = Instant::now();
        let mut keep_alive = KeepAlive::new(start, Some(Duration::MAX));
        assert_eq!(keep_alive.deadline(), None);
        assert!(!keep_alive.is_silent(start + SECOND, || 0));
    }
}
