//! The latency of requests.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// From a request's first byte written to its reply's last byte read; microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Requests.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// 90 % are not above it.
    pub p90: f64,
    /// 99 % are not above it.
    pub p99: f64,
    /// 99.9 % are not above it.
    pub p999: f64,
    /// The largest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
}

/// Collects latencies, to three significant digits.
pub struct LatencyHistogram(Histogram<u64>);

/// The longest latency that is told from longer ones, nanoseconds.
const LONGEST: u64 = 600_000_000_000;

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, LONGEST, 3)?))
    }

    /// Adds a latency.
    pub fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanoseconds);
    }

    /// What was collected.
    pub fn summary(&self) -> Latency {
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let quantile = |quantile| microseconds(self.0.value_at_quantile(quantile));
        Latency {
            count: self.0.len(),
            min: microseconds(self.0.min()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: microseconds(self.0.max()),
            mean: self.0.mean() / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut histogram = LatencyHistogram::new().unwrap();
        for milliseconds in 1..=1000 {
            histogram.record(Duration::from_millis(milliseconds));
        }
        let latency = histogram.summary();
        assert_eq!(latency.count, 1000);
        for (value, expected) in
            [(latency.min, 1.0), (latency.p50, 500.0), (latency.p99, 990.0), (latency.max, 1e3)]
        {
            assert!((value / 1e3 - expected).abs() <= expected / 1e3, "{latency:?}");
        }
    }
}
