//! When to ask for an acknowledgement at once: IMMEDIATE_ACK,
//! draft-ietf-quic-ack-frequency-14 sections 5, 7 and 8.
//!
//! A peer that was asked to acknowledge rarely holds a lone packet for long.
//! Two kinds of lone packets are worth an acknowledgement of their own: the
//! probe of an expired timer, because everything waits for its answer, and the
//! last packet of a burst where the hold exceeds the round trip, because then
//! the acknowledgement would take more than twice the time it needs. On longer
//! paths the hold is the smaller part, and one more acknowledgement for each
//! burst is what TACK is there to save.

use std::time::{Duration, Instant};

/// Decides which packets carry IMMEDIATE_ACK.
#[derive(Debug, Default)]
pub struct ImmediateAcks {
    probing: bool,
    last: Option<Instant>,
}

impl ImmediateAcks {
    /// The probe timer has expired: the next packet is a probe.
    pub fn on_probe_timeout(&mut self) {
        self.probing = true;
    }

    /// Whether the packet written now should ask. `hold` is how long the peer
    /// would wait with its acknowledgement; `tail` if nothing is left to send
    /// behind the packet.
    pub fn is_wanted(&self, now: Instant, tail: bool, hold: Duration, rtt: Duration) -> bool {
        // TACK-5.1-7, TACK-5.1-8
        let pause = if self.probing {
            rtt
        } else if tail && hold > rtt {
            // A slow flow is all tails. It is not to be acknowledged packet by
            // packet.
            hold
        } else {
            return false;
        };
        self.last.is_none_or(|last| now.saturating_duration_since(last) >= pause)
    }

    /// IMMEDIATE_ACK has been sent.
    pub fn on_sent(&mut self, now: Instant) {
        self.probing = false;
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const RTT: Duration = Duration::from_millis(10);

    #[test]
    fn the_tail_asks_where_the_hold_is_longer_than_the_round_trip() {
        let (now, asks) = (crate::test_clock(), ImmediateAcks::default());
        assert!(asks.is_wanted(now, true, 50 * MS, RTT));
        assert!(!asks.is_wanted(now, true, 10 * MS, RTT));
        assert!(!asks.is_wanted(now, false, 50 * MS, RTT));
    }

    #[test]
    fn a_slow_flow_asks_once_for_each_hold() {
        let (now, mut asks) = (crate::test_clock(), ImmediateAcks::default());
        asks.on_sent(now);
        assert!(!asks.is_wanted(now + 49 * MS, true, 50 * MS, RTT));
        assert!(asks.is_wanted(now + 50 * MS, true, 50 * MS, RTT));
    }

    #[test]
    fn a_probe_asks_once_for_each_round_trip_whatever_the_hold() {
        let (now, mut asks) = (crate::test_clock(), ImmediateAcks::default());
        asks.on_probe_timeout();
        assert!(asks.is_wanted(now, false, MS, RTT));
        asks.on_sent(now);
        assert!(!asks.is_wanted(now, false, MS, RTT), "the second probe need not");
        asks.on_probe_timeout();
        assert!(!asks.is_wanted(now + 9 * MS, false, MS, RTT));
        assert!(asks.is_wanted(now + 10 * MS, false, MS, RTT));
    }
}
