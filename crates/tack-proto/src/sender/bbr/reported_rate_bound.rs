//! The bound on the reported rate (TACK-6.1-1).
//!
//! It is the sender's own record: what was acknowledged, over the time that took. A probe that is
//! shorter than a round trip does not show in full there, so the video profile lets the reported
//! rate be a little higher. Not while packets get lost: what is lost is missing from honest
//! reports too, and a liar would fill it in.

use crate::bandwidth::Bandwidth;
use crate::sender::RateSample;

/// Of the bytes of a round trip, one in so many may be lost.
const LOST_ONE_IN: u64 = 50;

/// Bounds the reported rate.
#[derive(Clone, Copy, Debug)]
pub struct ReportedRateBound {
    /// [`BbrConfig::reported_rate_excess`](super::BbrConfig::reported_rate_excess).
    excess: f64,
    acked: u64,
    lost: u64,
    /// Too much of the last round trip was lost.
    was_lossy: bool,
}

impl ReportedRateBound {
    /// Allows up to `excess` times the sender's own record.
    pub fn new(excess: f64) -> Self {
        Self { excess, acked: 0, lost: 0, was_lossy: false }
    }

    /// An acknowledgement has shown so many bytes to have arrived, and so many to be lost.
    pub fn on_acked(&mut self, acked: u64, lost: u64) {
        self.acked += acked;
        self.lost += lost;
    }

    /// A round trip is over.
    pub fn on_round(&mut self) {
        self.was_lossy = self.is_lossy();
        (self.acked, self.lost) = (0, 0);
    }

    /// The rate to go by.
    pub fn bounded(&self, sample: &RateSample, reported: Option<Bandwidth>) -> Bandwidth {
        let excess = if self.was_lossy || self.is_lossy() { 1.0 } else { self.excess };
        match reported {
            Some(reported) => reported.min(sample.rate.scaled(excess)),
            None => sample.rate,
        }
    }

    /// Whether more than that has been lost in this round trip.
    pub fn is_lossy(&self) -> bool {
        self.lost.saturating_mul(LOST_ONE_IN) > self.acked.saturating_add(self.lost)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rate(bytes_per_second: u64) -> Bandwidth {
        Bandwidth::from_bytes_per_second(bytes_per_second)
    }

    fn bounded(bound: &ReportedRateBound, reported: Option<u64>) -> Bandwidth {
        let sample = RateSample {
            rate: rate(1000),
            send_rate: None,
            interval: Duration::from_millis(40),
            app_limited: false,
            prior_delivered: 0,
        };
        bound.bounded(&sample, reported.map(rate))
    }

    #[test]
    fn reports_count_up_to_a_little_above_the_own_record() {
        let bound = ReportedRateBound::new(1.05);
        assert_eq!(bounded(&bound, Some(900)), rate(900));
        assert_eq!(bounded(&bound, Some(1020)), rate(1020));
        assert_eq!(bounded(&bound, Some(u64::MAX)), rate(1050));
        assert_eq!(bounded(&bound, None), rate(1000), "a stock peer reports none");
        assert_eq!(bounded(&ReportedRateBound::new(1.0), Some(1020)), rate(1000));
    }

    #[test]
    fn while_packets_get_lost_the_own_record_is_all_and_for_a_round_trip_after() {
        let mut bound = ReportedRateBound::new(1.05);
        bound.on_acked(9_900, 100);
        assert_eq!(bounded(&bound, Some(u64::MAX)), rate(1050), "one in a hundred");
        bound.on_acked(0, 200);
        assert_eq!(bounded(&bound, Some(u64::MAX)), rate(1000), "three in a hundred");
        bound.on_round();
        bound.on_acked(10_000, 0);
        assert_eq!(bounded(&bound, Some(u64::MAX)), rate(1000), "those were the last round's");
        bound.on_round();
        assert_eq!(bounded(&bound, Some(u64::MAX)), rate(1050));
    }
}
