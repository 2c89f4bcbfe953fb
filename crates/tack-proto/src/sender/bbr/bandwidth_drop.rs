//! A path that has become slower: a queue, and less that gets through (TACK-6.1-4).
//!
//! The bandwidth filter would go on at the old rate until it forgets, ten round trips later, and
//! fill the queue meanwhile. A queue alone says nothing (others fill it too), nor do low samples
//! alone (a lossy round, a pause).

use std::time::{Duration, Instant};

use super::probe_bw::PROBE_UP;
use super::{Bbr, Cause, Deviation, Feedback, PathModel, State};
use crate::bandwidth::Bandwidth;
use crate::sender::RateSample;

/// The part of a probe that it adds to what the path carries.
const MORE_THAN_ADDED: f64 = 1.0 - 1.0 / PROBE_UP;

/// Watches for samples that stay low behind a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct BandwidthDrop {
    since: Option<Instant>,
    /// BWmax before the path seemed to become slower, while what that has queued drains.
    before: Option<Bandwidth>,
    /// The path has become slower, and nothing has queued for all of a round trip of Cruise since.
    explains_losses: bool,
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

    /// Samples do not count now.
    fn interrupt(&mut self) {
        self.since = None;
    }

    /// The path has become slower than `before`.
    fn on_drop(&mut self, before: Bandwidth) {
        self.before.get_or_insert(before);
        self.explains_losses = true;
    }

    /// What has queued has drained.
    fn on_drained(&mut self) {
        self.before = None;
    }

    /// At this rate data arrives while it drains. What the rate was before, if that shows that the path was
    /// held up and is no slower: then all that waited comes at once.
    fn on_rate_in_drain(&mut self, rate: Bandwidth, below: f64) -> Option<Bandwidth> {
        let before = self.before.take_if(|before| rate >= before.scaled(below))?;
        self.explains_losses = false;
        Some(before)
    }

    /// Packets have queued for all of a round trip of Cruise: others keep a queue.
    pub fn on_contested(&mut self) {
        self.explains_losses = false;
    }

    /// Whether packets are lost because the path became slower, and not because of others: those keep a
    /// queue, and none has stood since.
    pub fn explains_losses(&self) -> bool {
        self.explains_losses
    }
}

impl Bbr {
    /// Follows a path that has become slower before the filter forgets.
    pub(super) fn follow_bandwidth_drop(
        &mut self,
        now: Instant,
        feedback: &Feedback,
        path: &PathModel,
        sample: &RateSample,
    ) {
        if !self.has(Deviation::BandwidthDrop) {
            return;
        }
        // The reported rate counts here: a receiver cannot gain by under-reporting, and it does
        // not contain the pause of a medium once that is over.
        let rate = feedback.reported.unwrap_or(sample.rate);
        let below = self.config.bandwidth_drop_below;
        if matches!(self.state, State::Drain(_)) {
            let before = feedback
                .reported
                .and_then(|rate| self.bandwidth_drop.on_rate_in_drain(rate, below));
            if let Some(before) = before {
                self.max_bw.reset(self.units, before);
            }
        } else {
            self.bandwidth_drop.on_drained();
        }
        let is_followed = match self.state {
            State::Startup => is_held_back(sample, rate, below),
            State::ProbeBw(_) => !sample.app_limited || is_held_back(sample, rate, below),
            // TACK-6.2-20
            State::Drain(drain) => drain.shows_slower_path(rate),
            State::ProbeRtt(_) => false,
        };
        if !is_followed {
            self.bandwidth_drop.interrupt();
            return;
        }
        // A medium that holds packets back for a moment is no slower.
        let queue = path.is_queueing_beyond(path.usual_jitter, feedback.round_trip);
        let bandwidth = self.bandwidth();
        let is_low = queue && rate < bandwidth.scaled(below);
        let lasting = path.lasts_beyond_jitter(self.config.bandwidth_drop_units);
        if self.bandwidth_drop.on_sample(now, is_low, lasting) {
            let kept = bandwidth.scaled(self.config.bandwidth_drop_keeps);
            self.max_bw.reset(self.units, rate.max(kept));
            self.bandwidth_drop.on_drop(bandwidth);
            self.route_check.begin();
            if !matches!(self.state, State::Drain(_)) {
                self.drain(now, feedback, Cause::PathChange, path);
            }
            if let State::Drain(drain) = &mut self.state
                && rate < kept
            {
                *drain = drain.of_slower_path(rate);
            }
        }
    }

    /// A probe has gone too high, and no rate since the Refill before it was better than `best`: the path has become
    /// slower if as much of the probe was lost as is missing (TACK-6.1-4). Where packets queue, less is left to this flow
    /// if more was lost than a probe adds. While congestion bounds the rate max_bw does not age, and what the path has
    /// carried before would leave again with each probe.
    pub(super) fn follow_drop_in_probe(&mut self, best: Bandwidth, path: &PathModel) {
        let below = self.config.bandwidth_drop_below;
        let (below, lost) = if self.has_queued && path.acks_show_queues() {
            (1.0, MORE_THAN_ADDED)
        } else {
            (below, 1.0 - below)
        };
        if best < self.max_bw.get().scaled(below)
            && self.has(Deviation::BandwidthDrop)
            && self.round > self.outage_round
            && self.loss.is_probe_lost(lost, path.mss)
        {
            self.max_bw.limit(best);
        }
    }
}

/// Whether it is the path that makes an application-limited sample low: what an application sends too slowly
/// for the path arrives as fast as it left. The receiver's rate spans two TACKs and may miss a burst that
/// the rate at which data left contains; the sender's own sample spans the same packets at both ends.
fn is_held_back(sample: &RateSample, rate: Bandwidth, below: f64) -> bool {
    let left = sample.send_rate.map(|left| left.scaled(below));
    let arrived = rate.max(sample.rate).max(sample.recent.unwrap_or_default());
    sample.app_limited && left.is_some_and(|least| arrived < least)
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
