//! rho', the loss rate of the ACK path, from the gaps in the sequence of TACKs
//! (section VI-C of the paper).

use crate::repetition::{REPETITIONS, is_long};

/// TACKs that the estimate looks back on: at four in a round trip, 16 of those.
const WEIGHT: f64 = 1.0 / 64.0;

/// Estimates rho'.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckLoss {
    next: u64,
    expected: u64,
    lost: u64,
    recent: f64,
    /// So many TACKs in a row were lost that what they reported is in long ones alone, and none has come since.
    awaits_long: bool,
    /// Some were lost since [`Self::take_missing`] was asked.
    has_missing: bool,
}

impl AckLoss {
    /// A TACK has arrived.
    pub fn on_tack(&mut self, sequence: u64) {
        let Some(missing) = sequence.checked_sub(self.next) else {
            // Counted as missing before: it was only late.
            self.lost = self.lost.saturating_sub(1);
            self.recent = (self.recent - WEIGHT).max(0.0);
            return;
        };
        self.awaits_long = self.may_leave_out(sequence);
        self.has_missing |= missing > 0;
        self.next = sequence.saturating_add(1);
        self.expected = self.expected.saturating_add(missing).saturating_add(1);
        self.lost = self.lost.saturating_add(missing);
        // Each that is missing moves the estimate towards 1, the one that came towards 0.
        let kept = (1.0 - WEIGHT).powi(missing.min(1 << 16) as i32);
        self.recent = (1.0 - (1.0 - self.recent) * kept) * (1.0 - WEIGHT);
    }

    /// Whether the TACK of this sequence may leave out what TACKs reported that were all lost (TACK-5.4-7).
    pub fn may_leave_out(&self, sequence: u64) -> bool {
        let missing = sequence.saturating_sub(self.next);
        !is_long(sequence) && (self.awaits_long || missing >= REPETITIONS as u64)
    }

    /// Nothing is waited for any longer: the next TACK counts, whatever it leaves out.
    pub fn on_probe_timeout(&mut self) {
        self.awaits_long = false;
    }

    /// Whether TACKs were lost since this was asked.
    pub fn take_missing(&mut self) -> bool {
        std::mem::take(&mut self.has_missing)
    }

    /// TACKs that did not arrive.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Their share over the life of the connection, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.expected == 0 { 0.0 } else { self.lost as f64 / self.expected as f64 }
    }

    /// Their share among the last TACKs, 0 to 1.
    pub fn recent(&self) -> f64 {
        self.recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recent_share_follows_the_path_and_the_other_the_connection() {
        let mut loss = AckLoss::default();
        for sequence in 0..400 {
            loss.on_tack(sequence * 2);
        }
        assert!((loss.recent() - 0.5).abs() < 0.02, "{}", loss.recent());
        assert!((loss.share() - 0.5).abs() < 0.01, "{}", loss.share());
        for sequence in 799..1_199 {
            loss.on_tack(sequence);
        }
        assert!(loss.recent() < 0.01, "{}", loss.recent());
        assert!((loss.share() - 0.33).abs() < 0.01, "{}", loss.share());
    }

    #[test]
    fn a_tack_that_was_overtaken_is_not_lost() {
        let mut loss = AckLoss::default();
        for sequence in [0, 2, 1, 3] {
            loss.on_tack(sequence);
        }
        assert_eq!(loss.lost(), 0);
        assert!(loss.recent() < 1e-9);
    }

    #[test]
    fn absurd_sequences_stay_within_bounds() {
        let mut loss = AckLoss::default();
        for sequence in [0, u64::MAX, u64::MAX, 7, 0] {
            loss.on_tack(sequence);
        }
        assert!((0.0..=1.0).contains(&loss.recent()));
        assert!(loss.share() <= 1.0);
    }
}
