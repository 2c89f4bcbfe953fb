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

    /// Packets have arrived that were taken for lost. What the models were before, if all of
    /// them have.
    pub fn on_spurious(&mut self, packets: u64) -> Option<Before> {
        // Those of an episode that is settled say nothing of the next one.
        self.before?;
        self.spurious += packets;
        if packets == 0 || self.spurious < self.lost {
            return None;
        }
        std::mem::take(self).before
    }

    /// A round trip is over.
    pub fn on_round(&mut self) {
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
    fn losses_long_ago_are_settled() {
        let mut episode = LossEpisode::default();
        episode.on_lost(1, ShortTerm::default(), None);
        for _ in 0..3 {
            episode.on_round();
        }
        assert!(episode.on_spurious(1).is_none());
    }
}
