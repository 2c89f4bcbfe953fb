//! One-way delay at the receiver (TACK-4.4-1): relative, no clocks are synchronised.
//!
//! The packet with the smallest one-way delay of a TACK interval is the one
//! that queued least; its departure time and how long its acknowledgement was
//! held let the sender compute the round trip of exactly that packet
//! (section V-B). A sample of whatever packet happens to be the largest, as a
//! standard ACK gives, is biased upwards.

use std::time::{Duration, Instant};

use crate::frame::Timing;

/// EWMA weight of a new sample, that of RFC 6298 for the smoothed RTT.
const SMOOTHING: f64 = 1.0 / 8.0;

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The peer's TIMESTAMP, verbatim.
    departure: u64,
    arrival: Instant,
    /// Relative one-way delay in microseconds; the offset between the clocks
    /// is in it, so only differences mean anything.
    delay_us: i64,
}

/// The lowest delay counts for one to two of these: longer, and the clocks' drift would be in
/// what queueing is measured from; 100 ppm are 1 ms in ten seconds.
const LOWEST_SPAN: Duration = Duration::from_secs(5);

/// Watches departure timestamps.
#[derive(Debug)]
pub struct OneWayDelay {
    epoch: Instant,
    /// log2 of the microseconds in one unit of the peer's timestamps.
    exponent: u32,
    smallest: Option<Sample>,
    smoothed_us: Option<f64>,
    /// The lowest of the span before, and of the one that began then.
    lowest_us: [Option<i64>; 2],
    span_began: Instant,
}

impl OneWayDelay {
    /// `epoch` is any instant before the first arrival; `exponent` is the
    /// peer's `ack_delay_exponent`, by which its timestamps are scaled.
    pub fn new(epoch: Instant, exponent: u32) -> Self {
        Self {
            epoch,
            exponent,
            smallest: None,
            smoothed_us: None,
            lowest_us: [None; 2],
            span_began: epoch,
        }
    }

    /// A packet with a departure timestamp has arrived; by how much its delay is above the lowest of
    /// late. A TACK names it only if it elicits acknowledgements (TACK-3.1-6).
    pub fn on_timestamp(
        &mut self,
        now: Instant,
        departure: u64,
        ack_eliciting: bool,
    ) -> Duration {
        let arrival_us = now.saturating_duration_since(self.epoch).as_micros() as i64;
        // A timestamp is below 2^62, but scaled it may not fit: such a peer
        // only spoils its own measurement.
        let departure_us =
            departure.saturating_mul(1 << self.exponent.min(20)).min(1 << 62).cast_signed();
        let delay_us = arrival_us - departure_us;
        let sample = Sample { departure, arrival: now, delay_us };
        // TACK-3.1-6: of packets with the same delay the latest has waited least.
        let is_smallest = self.smallest.is_none_or(|smallest| delay_us <= smallest.delay_us);
        if ack_eliciting && is_smallest {
            self.smallest = Some(sample);
        }
        let since = now.saturating_duration_since(self.span_began);
        if since >= LOWEST_SPAN {
            let is_of_late = since < 2 * LOWEST_SPAN;
            self.lowest_us = [self.lowest_us[1].filter(|_| is_of_late), None];
            self.span_began = now;
        }
        let lowest = &mut self.lowest_us[1];
        *lowest = Some(lowest.map_or(delay_us, |lowest| lowest.min(delay_us)));
        let delay = delay_us as f64;
        self.smoothed_us =
            Some(self.smoothed_us.map_or(delay, |s| s + SMOOTHING * (delay - s)));
        let lowest = self.lowest_us.into_iter().flatten().min().unwrap_or(delay_us);
        Duration::from_micros(delay_us.saturating_sub(lowest).max(0).cast_unsigned())
    }

    /// Packets come over another path: its delays have nothing to do with those so far.
    pub fn forget_lowest(&mut self) {
        self.lowest_us = [None; 2];
        self.smoothed_us = None;
    }

    /// A TACK has left: a new interval begins.
    pub fn on_reported(&mut self) {
        self.smallest = None;
    }

    /// What a TACK that leaves at `now` says of timing.
    pub fn timing(&self, now: Instant) -> Option<Timing> {
        let smallest = self.smallest?;
        let hold = now.saturating_duration_since(smallest.arrival);
        Some(Timing { departure: smallest.departure, hold_us: hold.as_micros() as u64 })
    }

    /// The smoothed one-way delay above the lowest of late: the queueing delay.
    pub fn queueing(&self) -> Option<Duration> {
        let lowest = self.lowest_us.into_iter().flatten().min()?;
        let above = self.smoothed_us? - lowest as f64;
        Some(Duration::from_micros(above.max(0.0) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_packet_that_queued_least_is_reported_with_its_hold() {
        let t0 = crate::test_clock();
        let mut owd = OneWayDelay::new(t0, 0);
        // Departures 1 ms apart by a clock that runs a minute ahead.
        let peer = |ms: u64| 60_000_000 + ms * 1000;
        owd.on_timestamp(t0 + 25 * MS, peer(0), true); // 25 ms
        owd.on_timestamp(t0 + 21 * MS + 500 * Duration::from_micros(1), peer(1), true); // 20.5 ms
        owd.on_timestamp(t0 + 28 * MS, peer(2), true); // 26 ms
        let timing = owd.timing(t0 + 30 * MS).unwrap();
        owd.on_reported();
        assert_eq!(timing, Timing { departure: peer(1), hold_us: 8_500 });
        assert_eq!(owd.timing(t0 + 40 * MS), None, "an interval reports once");
    }

    #[test]
    fn queueing_is_measured_from_the_lowest_delay() {
        let t0 = crate::test_clock();
        let mut owd = OneWayDelay::new(t0, 3);
        for i in 0..100_u32 {
            let departure = u64::from(i) * 1000 / 8;
            let queue = if i < 50 { 0 } else { 4 };
            owd.on_timestamp(t0 + (20 + i + queue) * MS, departure, true);
        }
        let queueing = owd.queueing().unwrap();
        assert!((3900..=4010).contains(&queueing.as_micros()), "{queueing:?}");
    }

    #[test]
    fn a_clock_that_drifts_does_not_look_like_a_queue() {
        let t0 = crate::test_clock();
        let mut owd = OneWayDelay::new(t0, 0);
        // An hour in which the peer's clock loses 100 ppm: 360 ms in all.
        for second in 0..3600_u32 {
            let departure = u64::from(second) * 999_900;
            owd.on_timestamp(t0 + (20 + 1000 * second) * MS, departure, true);
        }
        assert!(owd.queueing().unwrap() < 2 * MS, "{:?}", owd.queueing());
    }

    #[test]
    fn a_packet_tells_how_much_longer_it_took_than_the_fastest() {
        let t0 = crate::test_clock();
        let mut owd = OneWayDelay::new(t0, 0);
        assert_eq!(owd.on_timestamp(t0 + 25 * MS, 0, true), Duration::ZERO);
        assert_eq!(owd.on_timestamp(t0 + 49 * MS, 1000, false), 23 * MS);
        assert_eq!(owd.on_timestamp(t0 + 22 * MS, 2000, false), Duration::ZERO);
        assert_eq!(owd.on_timestamp(t0 + 29 * MS, 3000, true), 6 * MS);
        let timing = owd.timing(t0 + 30 * MS).unwrap();
        owd.on_reported();
        assert_eq!(timing.departure, 0, "of those that elicit acknowledgements");
        owd.forget_lowest();
        assert_eq!(owd.on_timestamp(t0 + 99 * MS, 4000, true), Duration::ZERO);
    }

    #[test]
    fn a_delay_from_before_a_long_silence_is_not_the_lowest_of_late() {
        let t0 = crate::test_clock();
        let mut owd = OneWayDelay::new(t0, 0);
        owd.on_timestamp(t0 + 20 * MS, 0, true);
        // TACK-5.3-6: the clocks may have drifted apart for ten minutes.
        let silence = Duration::from_secs(600);
        let departure = silence.as_micros() as u64;
        let above = owd.on_timestamp(t0 + silence + 50 * MS, departure, true);
        assert_eq!(above, Duration::ZERO);
    }

    #[test]
    fn absurd_timestamps_do_no_harm() {
        let t0 = crate::test_clock();
        let mut owd = OneWayDelay::new(t0, 20);
        owd.on_timestamp(t0, (1 << 62) - 1, true);
        owd.on_timestamp(t0 + MS, 0, true);
        assert!(owd.timing(t0 + MS).is_some());
        assert!(owd.queueing().is_some());
    }
}
