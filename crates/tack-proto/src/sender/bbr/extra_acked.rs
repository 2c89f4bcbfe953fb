//! Acknowledgements of a medium that aggregates: BBR's `extra_acked`.
//!
//! Such a medium delivers the packets of several TACK intervals, or the TACKs themselves, all at
//! once and then nothing for a while. Meanwhile more has to be in flight than
//! the path and the wait for one TACK hold, or sending stops (section VI-D, after the Wi-Fi
//! improvements of BBR).

use std::time::{Duration, Instant};

use crate::bandwidth::Bandwidth;
use crate::windowed_filter::MaxFilter;

/// Watches how far acknowledgements run ahead of the estimated rate.
#[derive(Debug)]
pub struct ExtraAcked {
    since: Option<Instant>,
    acked: u64,
    excess: MaxFilter<u64>,
}

impl ExtraAcked {
    /// Remembers for so many probe units.
    pub fn new(units: u64) -> Self {
        Self { since: None, acked: 0, excess: MaxFilter::new(units) }
    }

    /// So many bytes have been acknowledged at once; `unit` counts probe units.
    pub fn on_acked(&mut self, now: Instant, unit: u64, bytes: u64, rate: Bandwidth) {
        let since = *self.since.get_or_insert(now);
        let expected = rate.bytes_in(now.saturating_duration_since(since));
        self.acked += bytes;
        if self.acked <= expected {
            self.since = Some(now);
            self.acked = 0;
            self.excess.update(unit, 0);
        } else {
            self.excess.update(unit, self.acked - expected);
        }
    }

    /// What comes behind a pause of the path, or runs ahead of an estimate that is still to be
    /// found, is no measure of aggregation.
    pub fn interrupt(&mut self) {
        self.since = None;
        self.acked = 0;
    }

    /// Bytes that may be in flight beyond what the wait for a TACK of `ack_interval` explains;
    /// as much again at most.
    pub fn allowance(&self, rate: Bandwidth, ack_interval: Duration) -> u64 {
        let held = rate.bytes_in(ack_interval);
        self.excess.get().saturating_sub(held).min(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const RATE: Bandwidth = Bandwidth::from_bytes_per_second(1_000_000);

    /// Ten TACK intervals of 10 ms whose acknowledgements come `together` at a time.
    fn after(together: u32) -> (ExtraAcked, Instant) {
        let t0 = crate::test_clock();
        let mut extra_acked = ExtraAcked::new(40);
        for tack in 1..=20_u32 {
            let at = t0 + tack.div_ceil(together) * together * 10 * MS;
            extra_acked.on_acked(at, u64::from(tack), 10_000, RATE);
        }
        (extra_acked, t0)
    }

    #[test]
    fn tacks_that_come_one_by_one_need_no_allowance() {
        assert_eq!(after(1).0.allowance(RATE, 10 * MS), 0);
    }

    #[test]
    fn tacks_that_come_in_pairs_need_an_interval_more() {
        assert_eq!(after(2).0.allowance(RATE, 10 * MS), 10_000);
    }

    #[test]
    fn the_allowance_is_an_interval_at_most() {
        assert_eq!(after(10).0.allowance(RATE, 10 * MS), 10_000);
    }

    #[test]
    fn what_comes_behind_a_pause_is_forgotten_with_the_window() {
        let (mut extra_acked, t0) = after(10);
        extra_acked.interrupt();
        for tack in 21..=80 {
            extra_acked.on_acked(t0 + tack * 10 * MS, u64::from(tack), 10_000, RATE);
        }
        assert_eq!(extra_acked.allowance(RATE, 10 * MS), 0);
    }
}
