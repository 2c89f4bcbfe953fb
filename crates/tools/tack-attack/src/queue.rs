//! How long packets waited in the queue of a link.

use std::time::Duration;

use tack_link::Time;

/// The waits of all packets that crossed one direction of a link.
#[derive(Debug, Default)]
pub struct QueueLog {
    waits: Vec<(Time, Duration)>,
}

impl QueueLog {
    pub(crate) fn push(&mut self, now: Time, wait: Duration) {
        self.waits.push((now, wait));
    }

    /// The wait that a share of the packets from `from` on does not exceed.
    pub fn quantile(&self, from: Time, share: f64) -> Duration {
        let mut waits: Vec<_> =
            self.waits.iter().filter(|(at, _)| *at >= from).map(|(_, wait)| *wait).collect();
        waits.sort_unstable();
        let at = ((waits.len() as f64 * share) as usize).min(waits.len().saturating_sub(1));
        waits.get(at).copied().unwrap_or_default()
    }
}
