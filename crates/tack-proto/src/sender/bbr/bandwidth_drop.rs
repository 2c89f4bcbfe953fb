//! A path that has become slower: a queue, and less that gets through (TACK-6.1-4).
//!
//! The bandwidth filter would go on at the old rate until it forgets, ten round trips later, and
//! fill the queue meanwhile. A queue alone says nothing (others fill it too), nor do low samples
//! alone (a lossy round, a pause).

use std::time::{Duration, Instant};

/// Watches for samples that stay low behind a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct BandwidthDrop {
    since: Option<Instant>,
}

impl BandwidthDrop {
    /// A sample has come, which `is_low` behind a queue or not. Whether that has lasted for `lasting`:
    /// the first ones still contain what was before the drop.
    pub fn on_sample(&mut self, now: Instant, is_low: bool, lasting: Duration) -> bool {
        let since = self.since.unwrap_or(now);
        let has_lasted = is_low && now.saturating_duration_since(since) >= lasting;
        self.since = (is_low && !has_lasted).then_some(since);
        has_lasted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Feeds a sample every 10 ms; when a drop was seen, in ms.
    fn watch(samples: &[bool]) -> Option<usize> {
        let t0 = crate::test_clock();
        let mut bandwidth_drop = BandwidthDrop::default();
        let mut samples = samples.iter().enumerate();
        let seen = samples.position(|(i, &is_low)| {
            bandwidth_drop.on_sample(t0 + 10 * MS * i as u32, is_low, 30 * MS)
        });
        seen.map(|i| 10 * i)
    }

    #[test]
    fn low_samples_that_last_are_a_drop() {
        assert_eq!(watch(&[false, true, true, true, true]), Some(40));
        assert_eq!(watch(&[false; 10]), None);
    }

    #[test]
    fn one_good_sample_ends_the_suspicion() {
        assert_eq!(watch(&[true, true, true, false, true, true, true]), None);
    }
}
