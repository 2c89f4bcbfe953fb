//! Lost packets between which nothing was acknowledged, and when they are persistent congestion (RFC 9002
//! section 7.6, TACK-6.6-1).

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Time;

/// Lost packets in a row, so far as a walk in the order of numbers has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LostRun {
    first: Option<(u64, Time)>,
    last: Option<(u64, Time)>,
}

impl LostRun {
    /// A packet is lost.
    pub fn on_lost(&mut self, pn: u64, sent: Time) {
        self.first.get_or_insert((pn, sent));
        self.last = Some((pn, sent));
    }

    /// A packet has arrived.
    pub fn on_acked(&mut self) {
        *self = Self::default();
    }

    /// A packet that was taken for lost has arrived: what was sent before it is no part of the run.
    pub fn on_late_acked(&mut self, pn: u64) {
        if self.first.is_some_and(|(first, _)| first <= pn) {
            self.on_acked();
        }
    }

    fn lasts(&self) -> Option<Duration> {
        Some(self.last?.1.since(self.first?.1))
    }

    fn numbers(&self) -> Option<RangeInclusive<u64>> {
        Some(self.first?.0..=self.last?.0)
    }
}

/// What establishes persistent congestion, and what did last.
#[derive(Clone, Debug, Default)]
pub(super) struct PersistentCongestion {
    /// Packets that left earlier do not count: the first round trip had not been measured, or they
    /// have established it already.
    counts_from: Option<Time>,
    duration: Option<Duration>,
    /// The packets that it was established by, while none of them has arrived.
    established: Option<RangeInclusive<u64>>,
}

impl PersistentCongestion {
    /// The duration, with the round trips of now; `None` before there is one. The first one came at
    /// `sampled`.
    pub fn set_duration(&mut self, sampled: Time, duration: Option<Duration>) {
        if duration.is_some() {
            self.counts_from = self.counts_from.max(Some(sampled));
        }
        self.duration = duration;
    }

    /// Whether a packet that left then may be part of it.
    pub fn counts(&self, sent: Time) -> bool {
        self.counts_from.is_some_and(|from| sent >= from)
    }

    /// Whether these losses are persistent congestion.
    pub fn is_established_by(&self, run: &LostRun) -> bool {
        self.duration.zip(run.lasts()).is_some_and(|(duration, lasts)| lasts >= duration)
    }

    /// They have established it.
    pub fn on_established(&mut self, now: Time, run: &LostRun) {
        self.counts_from = Some(now);
        self.established = run.numbers();
    }

    /// A packet has arrived that was taken for lost. True if it is one of those that have established
    /// persistent congestion, the first time.
    pub fn on_late_acked(&mut self, pn: u64) -> bool {
        self.established.take_if(|numbers| numbers.contains(&pn)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_counts_once_and_only_behind_the_first_round_trip() {
        // TACK-6.6-1
        let mut persistent = PersistentCongestion::default();
        assert!(!persistent.counts(Time(100)), "no round trip has been measured");
        persistent.set_duration(Time(100), Some(Duration::from_nanos(200)));
        assert!(!persistent.counts(Time(99)) && persistent.counts(Time(100)));
        let mut run = LostRun::default();
        run.on_lost(7, Time(100));
        assert!(!persistent.is_established_by(&run));
        run.on_lost(8, Time(300));
        assert!(persistent.is_established_by(&run));
        persistent.on_established(Time(400), &run);
        assert!(!persistent.counts(Time(399)) && persistent.counts(Time(400)));
        assert!(!persistent.on_late_acked(6) && !persistent.on_late_acked(9));
        assert!(persistent.on_late_acked(8));
        assert!(!persistent.on_late_acked(8), "it is undone once");
    }
}
