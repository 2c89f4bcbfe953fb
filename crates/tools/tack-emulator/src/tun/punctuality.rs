//! Whether the driver kept up with the link.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// A packet delivered this much later than it should have been was late.
///
/// The ends cannot tell lateness from a longer path, and acknowledgements that come in a bunch
/// from a link that bunches them. One millisecond is a tenth of the shortest round trip that the
/// experiments use, a fifth of the longest transmission on Wi-Fi (5.5 ms), and twenty times what
/// a timer takes to wake an idle machine.
pub const TOLERANCE: Duration = Duration::from_millis(1);

/// A run in which a larger share of the packets was late does not count: one in a thousand can
/// move a 95th or 99th percentile or a goodput by less than the differences in question.
pub const LATE_SHARE_ALLOWED: f64 = 0.001;

/// Whatever is later than an hour counts as an hour.
const LARGEST_NS: u64 = 3_600_000_000_000;

/// How late packets were delivered, compared with what the link said.
#[derive(Debug)]
pub struct Punctuality {
    lateness_ns: Histogram<u64>,
    misses: u64,
    drops: u64,
    real_time: bool,
}

impl Punctuality {
    pub(super) fn new() -> Result<Self, hdrhistogram::CreationError> {
        let lateness_ns = Histogram::new_with_max(LARGEST_NS, 2)?;
        Ok(Self { lateness_ns, misses: 0, drops: 0, real_time: false })
    }

    pub(super) fn record(&mut self, lateness: Duration) {
        let nanos = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        self.lateness_ns.saturating_record(nanos);
        self.misses += u64::from(lateness > TOLERANCE);
    }

    pub(super) fn set_drops(&mut self, drops: u64) {
        self.drops = drops;
    }

    pub(super) fn set_real_time(&mut self, real_time: bool) {
        self.real_time = real_time;
    }

    /// The figures for a report.
    pub fn summary(&self) -> PunctualitySummary {
        let lateness_us = |quantile| self.lateness_ns.value_at_quantile(quantile) as f64 / 1e3;
        let invalid = self.invalid();
        PunctualitySummary {
            delivered: self.lateness_ns.len(),
            deadline_misses: self.misses,
            lateness_p50_us: lateness_us(0.5),
            lateness_p99_us: lateness_us(0.99),
            lateness_max_us: lateness_us(1.0),
            kernel_drops: self.drops,
            real_time_priority: self.real_time,
            valid: invalid.is_none(),
            invalid,
        }
    }

    fn invalid(&self) -> Option<String> {
        let delivered = self.lateness_ns.len();
        if self.misses as f64 > LATE_SHARE_ALLOWED * delivered as f64 {
            return Some(format!(
                "{} of {delivered} packets were delivered more than {TOLERANCE:?} late: the \
                 machine is too busy or too slow for this link",
                self.misses
            ));
        }
        (self.drops > 0).then(|| {
            format!("the kernel dropped {} packets beside the emulated link", self.drops)
        })
    }
}

/// How well the driver kept up, and whether the run counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PunctualitySummary {
    /// Packets delivered in both directions.
    pub delivered: u64,
    /// How many of them were later than [`TOLERANCE`].
    pub deadline_misses: u64,
    /// Median lateness in microseconds.
    pub lateness_p50_us: f64,
    /// 99th percentile of the lateness in microseconds.
    pub lateness_p99_us: f64,
    /// Largest lateness in microseconds.
    pub lateness_max_us: f64,
    /// Packets that the kernel dropped at the TUN devices: lost, but not by the link.
    pub kernel_drops: u64,
    /// Whether the kernel let the driver run before all ordinary threads.
    pub real_time_priority: bool,
    /// Whether the figures of the run mean anything.
    pub valid: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(packets: u64, by: Duration) -> Punctuality {
        let mut punctuality = Punctuality::new().unwrap();
        for _ in 0..packets {
            punctuality.record(by);
        }
        punctuality
    }

    #[test]
    fn a_packet_within_the_tolerance_is_not_late() {
        assert_eq!(late(1, TOLERANCE).summary().deadline_misses, 0);
        assert_eq!(late(1, TOLERANCE + Duration::from_nanos(1)).summary().deadline_misses, 1);
    }

    #[test]
    fn one_late_packet_in_a_thousand_is_allowed() {
        let mut punctuality = late(999, Duration::ZERO);
        punctuality.record(Duration::from_millis(2));
        assert!(punctuality.summary().valid);
        punctuality.record(Duration::from_millis(2));
        assert!(!punctuality.summary().valid);
    }

    #[test]
    fn the_reason_names_the_number_of_late_packets() {
        let summary = late(3, Duration::from_millis(2)).summary();
        assert!(summary.invalid.unwrap().starts_with("3 of 3 packets"));
    }

    #[test]
    fn drops_beside_the_link_spoil_a_run() {
        let mut punctuality = late(10, Duration::ZERO);
        punctuality.set_drops(1);
        assert!(!punctuality.summary().valid);
    }

    #[test]
    fn a_run_without_packets_counts() {
        assert!(late(0, Duration::ZERO).summary().valid);
    }
}
