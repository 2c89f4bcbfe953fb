//! What acknowledgements may take of a way back that carries data too (TACK-4.2-8).
//!
//! Where this end sends as much data as its path takes, acknowledgements displace it. On a slow path
//! they would queue behind each other besides: those of 5 Mbit/s, one for each packet, fill 0.5 Mbit/s.

use std::time::{Duration, Instant};

use crate::bandwidth::Bandwidth;

/// The share of the rate of this end's data. A TACK each 20 ms takes that of 0.6 Mbit/s: faster paths
/// carry as many as the sender asks for, slower ones fewer. RFC 9000's ACK for every second packet takes
/// a thirtieth where the path is as fast both ways.
const SHARE: f64 = 1.0 / 16.0;

/// What a packet takes beside the frame: IP, UDP, short header, TIMESTAMP and tag.
const OVERHEAD: usize = 70;

/// Says when the next acknowledgement may leave.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckBudget {
    rate: Option<Bandwidth>,
    next: Option<Instant>,
}

impl AckBudget {
    /// This end sends data at `rate`, as much as it may; `None` while it has less to send.
    pub fn set_rate(&mut self, rate: Option<Bandwidth>) {
        self.rate = rate.filter(|rate| *rate > Bandwidth::ZERO);
        if self.rate.is_none() {
            self.next = None;
        }
    }

    /// An acknowledgement of `len` bytes has left. The next one need not wait longer than
    /// `max_ack_delay`, which the peer's loss timer relies on.
    pub fn on_sent(&mut self, now: Instant, len: usize, max_ack_delay: Duration) {
        let bytes = (len + OVERHEAD) as u64;
        let wait = self.rate.map(|rate| rate.scaled(SHARE).time_for(bytes).min(max_ack_delay));
        self.next = wait.map(|wait| now + wait);
    }

    /// No acknowledgement should leave before this instant.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

    /// How long the next acknowledgement waits behind one of 30 bytes.
    fn wait(kilobits: u64) -> Duration {
        let now = crate::test_clock();
        let mut budget = AckBudget::default();
        budget.set_rate(Some(Bandwidth::from_bytes_per_second(kilobits * 125)));
        budget.on_sent(now, 30, MAX_ACK_DELAY);
        budget.next().unwrap() - now
    }

    #[test]
    fn acknowledgements_take_a_sixteenth_of_the_data() {
        assert_eq!(wait(12_800), MS, "100 bytes of 1.6 kB in a millisecond");
        assert_eq!(wait(1_280), 10 * MS);
    }

    #[test]
    fn the_wait_keeps_what_the_peer_was_promised() {
        assert_eq!(wait(1), MAX_ACK_DELAY);
    }

    #[test]
    fn an_end_without_data_acknowledges_as_it_is_asked_to() {
        let now = crate::test_clock();
        let mut budget = AckBudget::default();
        budget.set_rate(Some(Bandwidth::from_bytes_per_second(10_000)));
        budget.on_sent(now, 30, MAX_ACK_DELAY);
        budget.set_rate(None);
        assert_eq!(budget.next(), None);
        budget.on_sent(now, 30, MAX_ACK_DELAY);
        assert_eq!(budget.next(), None);
    }
}
