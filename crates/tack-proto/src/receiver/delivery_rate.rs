//! Delivery rate and loss rate, computed where the packets arrive.
//!
//! Section VI-D: the rate is the bytes received over two TACK intervals
//! divided by their duration. It is measured between packet arrivals, not
//! between the instants at which TACKs left, so that a pause after the last
//! packet of a flight does not count as slowness.

use std::time::{Duration, Instant};

use crate::bandwidth::Bandwidth;

/// Intervals that one estimate spans.
const INTERVALS: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Mark {
    last_arrival: Instant,
    received_bytes: u64,
}

/// Estimates the delivery rate, one sample for each TACK.
#[derive(Debug, Default)]
pub struct DeliveryRate {
    received_bytes: u64,
    last_arrival: Option<Instant>,
    /// Marks of the last TACKs, oldest first.
    marks: [Option<Mark>; INTERVALS],
    /// For rho: the largest number and the packets received at the last TACK.
    received_packets: u64,
    base: Option<(u64, u64)>,
    loss_rate: f64,
}

impl DeliveryRate {
    /// An ack-eliciting packet of `bytes` has arrived.
    pub fn on_packet(&mut self, now: Instant, bytes: usize) {
        self.received_bytes += bytes as u64;
        self.received_packets += 1;
        self.last_arrival = Some(now);
    }

    /// A packet has arrived that elicits no acknowledgement: it was not lost (TACK-4.4-3).
    pub fn on_other_packet(&mut self) {
        self.received_packets += 1;
    }

    /// Running total of bytes in ack-eliciting packets.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// The rate over the interval that ends now and the one before it; `None`
    /// until two have passed, or where they are shorter than `at_least`.
    pub fn estimate(&self, at_least: Duration) -> Option<Bandwidth> {
        let oldest = self.marks[0]?;
        let elapsed = self.last_arrival?.saturating_duration_since(oldest.last_arrival);
        if elapsed < at_least {
            return None;
        }
        Bandwidth::from_delta(self.received_bytes - oldest.received_bytes, elapsed)
    }

    /// Ends a TACK interval. `largest` is the largest packet number received.
    pub fn on_tack_sent(&mut self, largest: u64) {
        let Some(last_arrival) = self.last_arrival else { return };
        self.marks.rotate_left(1);
        self.marks[INTERVALS - 1] =
            Some(Mark { last_arrival, received_bytes: self.received_bytes });
        if let Some((base_largest, base_packets)) = self.base {
            let expected = largest.saturating_sub(base_largest);
            let received = self.received_packets - base_packets;
            if expected > 0 {
                let lost = expected.saturating_sub(received) as f64 / expected as f64;
                self.loss_rate += (lost - self.loss_rate) / 4.0;
            }
        }
        self.base = Some((largest, self.received_packets));
    }

    /// rho, the smoothed loss rate of the data path, between 0 and 1.
    pub fn loss_rate(&self) -> f64 {
        self.loss_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_rate_spans_the_last_two_intervals() {
        let t0 = crate::test_clock();
        let mut rate = DeliveryRate::default();
        let mut pn = 0;
        // 1,000 bytes a millisecond, a TACK every 10 ms.
        for ms in 1..=30_u32 {
            rate.on_packet(t0 + ms * MS, 1000);
            pn += 1;
            if ms % 10 == 0 && ms < 30 {
                rate.on_tack_sent(pn);
            }
        }
        let estimate = rate.estimate(5 * MS).unwrap();
        assert_eq!(estimate, Bandwidth::from_bytes_per_second(1_000_000));
        assert_eq!(rate.estimate(21 * MS), None, "spans 20 ms only");
    }

    #[test]
    fn silence_after_a_flight_is_not_slowness() {
        let t0 = crate::test_clock();
        let mut rate = DeliveryRate::default();
        for ms in 1..=20_u32 {
            rate.on_packet(t0 + ms * MS, 1000);
            if ms % 5 == 0 {
                rate.on_tack_sent(u64::from(ms));
            }
        }
        // The TACK that leaves 30 ms later still reports the rate of arrival.
        assert_eq!(rate.estimate(MS), Some(Bandwidth::from_bytes_per_second(1_000_000)));
    }

    #[test]
    fn packets_that_elicit_no_acknowledgement_are_not_lost() {
        let t0 = crate::test_clock();
        let mut rate = DeliveryRate::default();
        rate.on_packet(t0, 1000);
        rate.on_tack_sent(0);
        for interval in 1..=40_u64 {
            for _ in 0..5 {
                rate.on_packet(t0 + MS, 1000);
                rate.on_other_packet();
            }
            rate.on_tack_sent(interval * 10);
        }
        assert!(rate.loss_rate() < 0.001, "{}", rate.loss_rate());
    }

    #[test]
    fn rho_follows_the_packets_that_did_not_come() {
        let t0 = crate::test_clock();
        let mut rate = DeliveryRate::default();
        rate.on_packet(t0, 1000);
        rate.on_tack_sent(0);
        for interval in 1..=40_u64 {
            for _ in 0..9 {
                rate.on_packet(t0 + MS, 1000);
            }
            rate.on_tack_sent(interval * 10);
        }
        assert!((rate.loss_rate() - 0.1).abs() < 0.001, "{}", rate.loss_rate());
    }
}
