//! A path that has become slower: a queue, and less that gets through (TACK-6.1-4).
//!
//! The bandwidth filter would go on at the old rate until it forgets, ten round trips later, and
//! fill the queue meanwhile. A queue alone says nothing (others fill it too), nor do low samples
//! alone (a lossy round, a pause).

use std::time::{Duration, Instant};

use crate::bandwidth::Bandwidth;

/// Watches for samples that stay low behind a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct BandwidthDrop {
    since: Option<Instant>,
}

impl BandwidthDrop {
    /// A sample has come, which is low if it is below `low`; `queue` if packets queued with it.
    /// The newest rate, once that has lasted for `lasting`: the first ones still contain what was
    /// before the drop.
    pub fn on_sample(
        &mut self,
        now: Instant,
        rate: Bandwidth,
        low: Bandwidth,
        queue: bool,
        lasting: Duration,
    ) -> Option<Bandwidth> {
        let is_low = queue && rate < low;
        let since = self.since.unwrap_or(now);
        let has_lasted = is_low && now.saturating_duration_since(since) >= lasting;
        self.since = (is_low && !has_lasted).then_some(since);
        has_lasted.then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const LOW: Bandwidth = Bandwidth::from_bytes_per_second(650);

    fn rate(bytes_per_second: u64) -> Bandwidth {
        Bandwidth::from_bytes_per_second(bytes_per_second)
    }

    /// Feeds a sample every 10 ms; when a drop was seen, in ms.
    fn watch(samples: &[(u64, bool)]) -> Option<(usize, Bandwidth)> {
        let t0 = crate::test_clock();
        let mut bandwidth_drop = BandwidthDrop::default();
        samples.iter().enumerate().find_map(|(i, &(sample, queue))| {
            let now = t0 + 10 * MS * i as u32;
            let rate = bandwidth_drop.on_sample(now, rate(sample), LOW, queue, 30 * MS)?;
            Some((10 * i, rate))
        })
    }

    #[test]
    fn low_samples_behind_a_queue_are_a_drop_and_the_newest_is_the_rate() {
        let seen = watch(&[(990, true), (600, true), (500, true), (480, true), (490, true)]);
        assert_eq!(seen, Some((40, rate(490))));
    }

    #[test]
    fn neither_a_queue_nor_low_samples_are_enough_alone() {
        assert_eq!(watch(&[(500, false); 10]), None);
        assert_eq!(watch(&[(900, true); 10]), None);
    }

    #[test]
    fn one_good_sample_ends_the_suspicion() {
        let low = (500, true);
        assert_eq!(watch(&[low, low, low, (900, true), low, low, low]), None);
    }
}
