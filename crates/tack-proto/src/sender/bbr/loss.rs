//! What losses say of the path (section "Updating the Model Upon Packet Loss").
//!
//! Wireless paths lose packets at any rate, so a lost packet alone says nothing. Two things do:
//! losses among packets that queue, beyond those that the path loses while none do; and losses
//! of what was sent to probe, beyond those of what was not. Each packet is recorded with whether
//! it was part of a probe, so the two are told apart exactly
//! (TACK-6.5-1).

use std::time::Duration;

use crate::sender::path_model::PathModel;

/// BBR.LossThresh: a probe that loses more has gone too high.
pub(in crate::sender) const LOSS_THRESH: f64 = 0.02;

/// BBRStartupFullLossCnt: packets of a round that have to be lost before Startup ends for it.
const STARTUP_FULL_LOSS_COUNT: f64 = 6.0;

/// Rounds that the path's own losses are averaged over, about.
const MEMORY_ROUNDS: f64 = 16.0;

/// Deviations by which a number of losses has to exceed what the path loses by itself: chance
/// reaches that once in some hundred rounds.
const DEVIATIONS: f64 = 3.0;

/// Bytes that were sent together with the losses among them.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    acked: u64,
    lost: u64,
}

impl Tally {
    fn add(&mut self, acked: u64, lost: u64) {
        self.acked += acked;
        self.lost += lost;
    }

    fn sent(self) -> u64 {
        self.acked + self.lost
    }
}

/// A round trip is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Packets queued for all of it.
    pub queued: bool,
    /// More was lost than the path loses by itself.
    pub excess: bool,
    /// So much more that Startup has filled the path (TACK-6.5-6).
    pub ends_startup: bool,
}

/// Counts losses by round trip and by probe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossSignals {
    round: Tally,
    probe: Tally,
    /// All of this round trip and of the last one, probes included.
    rounds: [Tally; 2],
    /// The lowest round trip of the round.
    lowest: Option<Duration>,
    /// Decayed sums of rounds in which nothing queued.
    base_acked: f64,
    base_lost: f64,
}

impl LossSignals {
    /// An acknowledgement has shown so many bytes to have arrived, and so many to be lost; those
    /// of a probe among them.
    pub fn on_acked(
        &mut self,
        (acked, lost): (u64, u64),
        (probe_acked, probe_lost): (u64, u64),
        round_trip: Option<Duration>,
    ) {
        self.probe.add(probe_acked, probe_lost);
        self.rounds[0].add(acked, lost);
        self.round.add(acked.saturating_sub(probe_acked), lost.saturating_sub(probe_lost));
        if let Some(round_trip) = round_trip {
            self.lowest = Some(self.lowest.map_or(round_trip, |lowest| lowest.min(round_trip)));
        }
    }

    /// Data leaves from now on that is a probe.
    pub fn on_probe(&mut self) {
        self.probe = Tally::default();
    }

    /// Whether the probe has lost too much where so much was in flight (IsInflightTooHigh, TACK-6.5-2).
    pub fn is_probe_too_high(&self, tx_in_flight: u64, mss: u64) -> bool {
        let allowed = LOSS_THRESH * tx_in_flight as f64 + self.expected(self.probe.sent(), mss);
        self.probe.lost as f64 > allowed
    }

    /// A round trip is over; `may_learn` if what was lost in it was not sent to probe.
    pub fn on_round(&mut self, path: &PathModel, may_learn: bool) -> Round {
        let Tally { lost, .. } = self.round;
        let sent = self.round.sent();
        let expected = self.expected(sent, path.mss);
        let queued = self.lowest.is_some_and(|lowest| path.holds_queue(lowest));
        let allowed = LOSS_THRESH * sent as f64 + expected;
        let full = STARTUP_FULL_LOSS_COUNT * path.mss as f64;
        let round = Round {
            queued,
            excess: lost as f64 > expected,
            ends_startup: lost as f64 >= full && lost as f64 > allowed,
        };
        if may_learn && !queued && sent > 0 {
            let keep = 1.0 - 1.0 / MEMORY_ROUNDS;
            self.base_acked = self.base_acked * keep + self.round.acked as f64;
            self.base_lost = self.base_lost * keep + lost as f64;
        }
        self.round = Tally::default();
        self.rounds = [Tally::default(), self.rounds[0]];
        self.lowest = None;
        round
    }

    /// The path stood still in this round trip, which says nothing.
    pub fn forget_round(&mut self) {
        (self.round, self.lowest) = (Tally::default(), None);
    }

    /// The share that the path loses whatever is sent, 0 to 1.
    pub fn base_share(&self) -> f64 {
        self.base_lost / (self.base_acked + self.base_lost).max(1.0)
    }

    /// Whether more than [`LOSS_THRESH`] was lost in this round trip or in the last one.
    pub fn is_lossy(&self) -> bool {
        self.rounds.iter().any(|round| round.lost as f64 > LOSS_THRESH * round.sent() as f64)
    }

    /// What the path loses by itself of so many bytes, at the most, in bytes.
    fn expected(&self, sent: u64, mss: u64) -> f64 {
        let packets = sent as f64 / mss.max(1) as f64;
        let lost = packets * self.base_share();
        (lost + DEVIATIONS * lost.sqrt()) * mss as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::PATH;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PACKET: u64 = PATH.mss;

    /// A round of a thousand packets, of which so many are lost.
    fn round(signals: &mut LossSignals, lost: u64, round_trip: Duration) -> Round {
        let bytes = ((1000 - lost) * PACKET, lost * PACKET);
        signals.on_acked(bytes, (0, 0), Some(round_trip));
        signals.on_round(&PATH, true)
    }

    #[test]
    fn losses_among_packets_that_queue_are_congestion() {
        let mut signals = LossSignals::default();
        let calm = round(&mut signals, 0, 40 * MS);
        assert!(!calm.queued && !calm.excess);
        let queued = round(&mut signals, 1, 50 * MS);
        assert!(queued.queued && queued.excess && !queued.ends_startup);
        assert!(round(&mut signals, 30, 50 * MS).ends_startup);
    }

    #[test]
    fn what_the_path_loses_by_itself_is_learnt_while_nothing_queues_and_is_no_congestion() {
        let mut signals = LossSignals::default();
        for _ in 0..20 {
            assert!(!round(&mut signals, 100, 41 * MS).queued);
        }
        assert!((signals.base_share() - 0.1).abs() < 0.01);
        assert!(!round(&mut signals, 120, 50 * MS).excess, "chance");
        assert!(round(&mut signals, 160, 50 * MS).excess);
        assert!((signals.base_share() - 0.1).abs() < 0.01, "queues teach nothing");
    }

    #[test]
    fn a_probe_is_held_against_what_is_lost_without_one() {
        let mut signals = LossSignals::default();
        let in_flight = 1000 * PACKET;
        signals.on_acked((990 * PACKET, 10 * PACKET), (990 * PACKET, 10 * PACKET), None);
        assert!(!signals.is_probe_too_high(in_flight, PACKET));
        signals.on_acked((0, 11 * PACKET), (0, 11 * PACKET), None);
        assert!(signals.is_probe_too_high(in_flight, PACKET));
        for _ in 0..20 {
            round(&mut signals, 50, 40 * MS);
        }
        signals.on_probe();
        signals.on_acked((940 * PACKET, 60 * PACKET), (940 * PACKET, 60 * PACKET), None);
        assert!(
            !signals.is_probe_too_high(in_flight, PACKET),
            "five in a hundred are the path's"
        );
        signals.on_acked((0, 50 * PACKET), (0, 50 * PACKET), None);
        assert!(signals.is_probe_too_high(in_flight, PACKET));
    }

    #[test]
    fn a_round_with_losses_counts_until_the_next_one_is_over() {
        let mut signals = LossSignals::default();
        round(&mut signals, 30, 40 * MS);
        assert!(signals.is_lossy());
        round(&mut signals, 0, 40 * MS);
        assert!(!signals.is_lossy());
    }
}
