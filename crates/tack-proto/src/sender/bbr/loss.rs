//! What losses say of the path (section "Updating the Model Upon Packet Loss").
//!
//! Wireless paths lose packets at any rate, so a lost packet alone says nothing. Two things do:
//! losses among packets that queue, beyond those that the path loses while none do; and losses
//! of what was sent to probe, beyond those of what was not. Each packet is recorded with whether
//! it was part of a probe, so the two are told apart exactly
//! (TACK-6.5-1).

use std::time::{Duration, Instant};

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

/// The part of a round trip that is lost where what congestion leaves ([`BETA`](super::BETA)) is still far above
/// what the path carries.
const FLOOD: f64 = 0.5;

/// A round trip that has lost no more teaches also where its queue came and went: what that adds to what the path loses by
/// itself is less than a probe tries.
const HARMLESS: f64 = 0.05;

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
    /// Its lowest round trip: a queue makes all of them longer, what a medium holds back only some.
    pub lowest: Option<Duration>,
    /// Packets queued for all of it.
    pub queued: bool,
    /// More than [`FLOOD`] of it was lost beyond what the path loses by itself, and no packet came that had not queued
    /// shortly after one that had.
    pub floods: bool,
    /// More was lost than the path loses by itself.
    pub excess: bool,
    /// Packets lost beyond what Startup tolerates; with any it has filled the path (TACK-6.5-6).
    pub startup_surplus: u64,
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
    /// When packets were acknowledged last that had queued.
    queued_at: Option<Instant>,
    /// What the round has shown since the last one whose packets had queued was long ago.
    unqueued: Tally,
    /// Decayed sums of what the path has lost by itself, and of what has arrived meanwhile.
    base_acked: f64,
    base_lost: f64,
}

impl LossSignals {
    /// An acknowledgement has shown so many bytes to have arrived, and so many to be lost; those
    /// of a probe among them.
    pub fn on_acked(
        &mut self,
        now: Instant,
        (acked, lost): (u64, u64),
        (probe_acked, probe_lost): (u64, u64),
        round_trip: Option<Duration>,
        path: &PathModel,
    ) {
        self.probe.add(probe_acked, probe_lost);
        self.rounds[0].add(acked, lost);
        let (acked, lost) =
            (acked.saturating_sub(probe_acked), lost.saturating_sub(probe_lost));
        self.round.add(acked, lost);
        if let Some(round_trip) = round_trip {
            self.lowest = Some(self.lowest.map_or(round_trip, |lowest| lowest.min(round_trip)));
            if path.holds_queue(round_trip) {
                self.queued_at = Some(now);
            }
        }
        // What a queue has dropped shows with the acknowledgement of a later packet, which need not have queued.
        let shows = path.ack_interval * 3 / 2 + path.ack_late;
        if self.queued_at.is_none_or(|at| now.saturating_duration_since(at) > shows) {
            self.unqueued.add(acked, lost);
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

    /// Whether more than `share` of what the probe has sent was lost, beyond what the path loses by itself.
    pub fn is_probe_lost(&self, share: f64, mss: u64) -> bool {
        let sent = self.probe.sent();
        self.probe.lost as f64 > share * sent as f64 + self.expected(sent, mss)
    }

    /// A round trip is over; `may_learn` if what was lost in it was sent neither to probe nor to fill the path.
    pub fn on_round(&mut self, path: &PathModel, may_learn: bool) -> Round {
        let tally = std::mem::take(&mut self.round);
        let (lost, sent) = (tally.lost as f64, tally.sent() as f64);
        let expected = self.expected(tally.sent(), path.mss);
        let lowest = self.lowest.take();
        let unqueued = std::mem::take(&mut self.unqueued);
        let round = Round {
            lowest,
            queued: lowest.is_some_and(|lowest| path.holds_queue(lowest)),
            floods: lowest.is_some() && unqueued.sent() == 0 && lost > expected + FLOOD * sent,
            excess: lost > expected,
            startup_surplus: startup_surplus(lost, LOSS_THRESH * sent + expected, path.mss),
        };
        // Where delay varies by itself, some packet seems to have queued in each interval.
        let is_harmless = !round.queued && lost <= HARMLESS * sent;
        let learnt = if unqueued.sent() == 0 && is_harmless { tally } else { unqueued };
        if may_learn && learnt.sent() > 0 {
            let keep = 1.0 - 1.0 / MEMORY_ROUNDS;
            self.base_acked = self.base_acked * keep + learnt.acked as f64;
            self.base_lost = self.base_lost * keep + learnt.lost as f64;
        }
        self.rounds = [Tally::default(), self.rounds[0]];
        round
    }

    /// The path stood still in this round trip, which says nothing.
    pub fn forget_round(&mut self) {
        (self.round, self.unqueued, self.lowest) = (Tally::default(), Tally::default(), None);
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

/// How many of the lost packets have to be none for Startup to go on: it tolerates fewer than
/// [`STARTUP_FULL_LOSS_COUNT`], and as many bytes as that.
fn startup_surplus(lost: f64, tolerated: f64, mss: u64) -> u64 {
    let mss = mss.max(1) as f64;
    let beyond_count = (lost / mss - STARTUP_FULL_LOSS_COUNT).floor() + 1.0;
    let beyond_share = ((lost - tolerated) / mss).ceil();
    // Below zero is 0.
    beyond_count.min(beyond_share) as u64
}

#[cfg(test)]
mod tests {
    use super::super::tests::PATH;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PACKET: u64 = PATH.mss;

    #[test]
    fn startup_tolerates_five_lost_packets_and_two_in_a_hundred() {
        let surplus = |lost: u64, sent: u64| {
            let tolerated = LOSS_THRESH * (sent * PACKET) as f64;
            startup_surplus((lost * PACKET) as f64, tolerated, PACKET)
        };
        assert_eq!(surplus(5, 10), 0);
        assert_eq!(surplus(6, 10), 1);
        assert_eq!(surplus(20, 1000), 0);
        assert_eq!(surplus(21, 1000), 1);
        assert_eq!(surplus(50, 1000), 30);
        assert_eq!(surplus(8, 250), 3, "five would be left");
    }

    /// Round trips of a thousand packets, one after the other.
    struct Rounds {
        signals: LossSignals,
        now: Instant,
    }

    impl Rounds {
        fn new() -> Self {
            Self { signals: LossSignals::default(), now: crate::test_clock() }
        }

        /// So many packets are acknowledged after `wait`, and so many shown to be lost.
        fn acked(
            &mut self,
            wait: Duration,
            acked: u64,
            lost: u64,
            round_trip: Option<Duration>,
        ) {
            self.now += wait;
            let all = (acked * PACKET, lost * PACKET);
            self.signals.on_acked(self.now, all, (0, 0), round_trip, &PATH);
        }

        /// The same of a probe.
        fn probed(&mut self, acked: u64, lost: u64) {
            let all = (acked * PACKET, lost * PACKET);
            self.signals.on_acked(self.now, all, all, None, &PATH);
        }

        /// A round of a thousand packets, of which so many are lost.
        fn round(&mut self, lost: u64, round_trip: Duration) -> Round {
            self.acked(40 * MS, 1000 - lost, lost, Some(round_trip));
            self.signals.on_round(&PATH, true)
        }
    }

    #[test]
    fn losses_among_packets_that_queue_are_congestion() {
        let mut rounds = Rounds::new();
        let calm = rounds.round(0, 40 * MS);
        assert!(!calm.queued && !calm.excess);
        let queued = rounds.round(1, 50 * MS);
        assert!(queued.queued && queued.excess && queued.startup_surplus == 0);
        assert_eq!(rounds.round(30, 50 * MS).startup_surplus, 10, "20 of 1,000 are tolerated");
    }

    #[test]
    fn what_the_path_loses_by_itself_is_learnt_while_nothing_queues_and_is_no_congestion() {
        let mut rounds = Rounds::new();
        for _ in 0..20 {
            assert!(!rounds.round(100, 41 * MS).queued);
        }
        assert!((rounds.signals.base_share() - 0.1).abs() < 0.01);
        assert!(!rounds.round(120, 50 * MS).excess, "chance");
        assert!(rounds.round(160, 50 * MS).excess);
        assert!((rounds.signals.base_share() - 0.1).abs() < 0.01, "queues teach nothing");
    }

    #[test]
    fn what_a_queue_has_dropped_is_not_learnt_though_it_has_drained_when_that_shows() {
        let mut rounds = Rounds::new();
        rounds.round(0, 40 * MS);
        for _ in 0..10 {
            // The window fills the buffer, and waits for the next acknowledgement while it drains.
            rounds.acked(MS, 10, 10, Some(50 * MS));
            rounds.acked(PATH.ack_interval, 90, 890, Some(40 * MS));
            let round = rounds.signals.on_round(&PATH, true);
            assert!(!round.queued && round.floods, "TACK-6.5-5");
        }
        assert!(rounds.signals.base_share() < 1e-9, "TACK-6.5-1");
        rounds.acked(40 * MS, 90, 10, Some(40 * MS));
        rounds.signals.on_round(&PATH, true);
        assert!(rounds.signals.base_share() > 0.0, "the queue is long gone");
    }

    #[test]
    fn where_delay_varies_by_itself_rounds_that_lose_little_teach_all_the_same() {
        for (lost, learnt) in [(40, 0.04), (60, 0.0)] {
            let mut rounds = Rounds::new();
            for _ in 0..20 {
                rounds.acked(40 * MS, 500, 0, Some(50 * MS));
                rounds.acked(MS, 500 - lost, lost, Some(40 * MS));
                rounds.signals.on_round(&PATH, true);
            }
            assert!((rounds.signals.base_share() - learnt).abs() < 1e-9, "TACK-6.5-1, {lost}");
        }
    }

    #[test]
    fn a_path_that_loses_most_packets_by_itself_is_not_flooded() {
        let mut rounds = Rounds::new();
        for _ in 0..20 {
            assert!(!rounds.round(700, 40 * MS).floods);
        }
        assert!(!rounds.round(700, 50 * MS).floods);
    }

    #[test]
    fn a_probe_is_held_against_what_is_lost_without_one() {
        let mut rounds = Rounds::new();
        let in_flight = 1000 * PACKET;
        rounds.probed(990, 10);
        assert!(!rounds.signals.is_probe_too_high(in_flight, PACKET));
        rounds.probed(0, 11);
        assert!(rounds.signals.is_probe_too_high(in_flight, PACKET));
        for _ in 0..20 {
            rounds.round(50, 40 * MS);
        }
        rounds.signals.on_probe();
        rounds.probed(940, 60);
        assert!(
            !rounds.signals.is_probe_too_high(in_flight, PACKET),
            "five in a hundred are the path's"
        );
        rounds.probed(0, 50);
        assert!(rounds.signals.is_probe_too_high(in_flight, PACKET));
    }

    #[test]
    fn a_round_with_losses_counts_until_the_next_one_is_over() {
        let mut rounds = Rounds::new();
        rounds.round(30, 40 * MS);
        assert!(rounds.signals.is_lossy());
        rounds.round(0, 40 * MS);
        assert!(!rounds.signals.is_lossy());
    }
}
