//! Undo of what spurious losses have caused (section "Updating the Model Upon Detecting a Spurious
//! Loss Recovery", TACK-6.5-7).

use super::short_term::ShortTerm;

/// Rounds without a loss after which the losses before are settled.
const SETTLED_ROUNDS: u32 = 2;

/// A state that losses have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Startup,
    ProbeBwUp,
}

/// What the models were before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub short_term: ShortTerm,
    pub inflight_longterm: Option<u64>,
    /// What has ended because of the losses.
    pub ended: Option<Ended>,
}

/// Losses since the last round without any, and how many of those packets have arrived after all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossEpisode {
    before: Option<Before>,
    lost: u64,
    spurious: u64,
    quiet_rounds: u32,
    /// Packets that have arrived after all in this round trip.
    spurious_in_round: u64,
    startup: Option<StartupLosses>,
}

/// What has ended Startup of late.
#[derive(Clone, Copy, Debug)]
struct StartupLosses {
    /// With so many lost packets fewer it would not have ended.
    surplus: u64,
    rounds: u32,
}

impl LossEpisode {
    /// Packets are taken for lost, when the models are these.
    pub fn on_lost(&mut self, packets: u64, short_term: ShortTerm, longterm: Option<u64>) {
        if packets == 0 {
            return;
        }
        let before = Before { short_term, inflight_longterm: longterm, ended: None };
        self.before.get_or_insert(before);
        self.lost += packets;
        self.quiet_rounds = 0;
    }

    /// They have ended a state.
    pub fn on_ended(&mut self, ended: Ended) {
        if let Some(before) = &mut self.before {
            before.ended.get_or_insert(ended);
        }
    }

    /// Losses of the last round trip have ended Startup: so many packets more than it tolerates.
    pub fn on_startup_ended(&mut self, surplus: u64) {
        self.on_ended(Ended::Startup);
        self.startup = Some(StartupLosses { surplus, rounds: 0 });
    }

    /// Packets have arrived that were taken for lost. What the models were before, if all of
    /// them have, or so many that the others would not have ended Startup.
    pub fn on_spurious(&mut self, packets: u64) -> Option<Before> {
        // Those of an episode that is settled say nothing of the next one.
        self.before?;
        if packets == 0 {
            return None;
        }
        self.spurious += packets;
        self.spurious_in_round += packets;
        let goes_on = self.startup.as_mut().is_some_and(|startup| {
            startup.surplus = startup.surplus.saturating_sub(packets);
            startup.surplus == 0
        });
        if !goes_on && self.spurious < self.lost {
            return None;
        }
        std::mem::take(self).before
    }

    /// Packets that have arrived in this round trip although they were taken for lost.
    pub fn spurious_in_round(&self) -> u64 {
        self.spurious_in_round
    }

    /// A round trip is over.
    pub fn on_round(&mut self) {
        self.spurious_in_round = 0;
        self.startup = self.startup.filter(|startup| startup.rounds < SETTLED_ROUNDS);
        if let Some(startup) = &mut self.startup {
            startup.rounds += 1;
        }
        self.quiet_rounds += 1;
        if self.quiet_rounds > SETTLED_ROUNDS {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_when_every_lost_packet_has_arrived_is_it_undone() {
        let mut episode = LossEpisode::default();
        episode.on_lost(3, ShortTerm::default(), Some(7));
        episode.on_lost(1, ShortTerm::default(), Some(5));
        episode.on_ended(Ended::ProbeBwUp);
        assert!(episode.on_spurious(3).is_none());
        let before = episode.on_spurious(1).unwrap();
        assert_eq!(before.inflight_longterm, Some(7));
        assert_eq!(before.ended, Some(Ended::ProbeBwUp));
        assert!(episode.on_spurious(1).is_none(), "nothing was lost since");
    }

    #[test]
    fn late_packets_of_an_episode_that_is_settled_do_not_count_for_the_next() {
        let mut episode = LossEpisode::default();
        episode.on_lost(3, ShortTerm::default(), None);
        for _ in 0..3 {
            episode.on_round();
        }
        assert!(episode.on_spurious(3).is_none());
        episode.on_lost(4, ShortTerm::default(), Some(7));
        assert!(episode.on_spurious(1).is_none(), "TACK-6.5-7: one of four");
        assert!(episode.on_spurious(3).is_some());
    }

    #[test]
    fn what_ended_startup_is_undone_when_the_packets_left_would_not_have_ended_it() {
        let mut episode = LossEpisode::default();
        episode.on_lost(30, ShortTerm::default(), None);
        episode.on_startup_ended(12);
        assert!(episode.on_spurious(11).is_none());
        assert_eq!(episode.on_spurious(1).unwrap().ended, Some(Ended::Startup), "TACK-6.5-7");
    }

    #[test]
    fn what_arrives_three_rounds_after_startup_has_ended_does_not_bring_it_back() {
        let mut episode = LossEpisode::default();
        episode.on_lost(30, ShortTerm::default(), None);
        episode.on_startup_ended(12);
        for _ in 0..3 {
            episode.on_lost(1, ShortTerm::default(), None);
            episode.on_round();
        }
        assert!(episode.on_spurious(12).is_none());
    }

    #[test]
    fn losses_long_ago_are_settled() {
        let mut episode = LossEpisode::default();
        episode.on_lost(1, ShortTerm::default(), None);
        for _ in 0..3 {
            episode.on_round();
        }
        assert!(episode.on_spurious(1).is_none());
    }
}
