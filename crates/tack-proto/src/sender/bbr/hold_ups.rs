//! Moments at which a medium has held packets back, to deliver them at once then: a silence that is no queue
//! (TACK-6.2-19).

use std::time::Duration;

use super::PathModel;

/// What a medium holds packets back for at most: behind a longer silence the path stood still, and what goes on behind
/// it needs no larger window.
const LONGEST: Duration = Duration::from_millis(200);

/// Those of this round trip and the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HoldUps {
    /// The last round trip that they count in.
    until: u64,
    longest: Duration,
}

impl HoldUps {
    /// An acknowledgement has come behind so long a silence, in this round trip.
    pub fn on_silence(&mut self, silence: Duration, round: u64, path: &PathModel) {
        if path.is_hold_up(silence) {
            let held_up = silence.saturating_sub(path.ack_interval).min(LONGEST);
            self.longest = self.longest(round).max(held_up);
            self.until = round + 1;
        }
    }

    /// For how long packets were held up at most in this round trip and the last one; zero if they were not.
    pub fn longest(&self, round: u64) -> Duration {
        if round <= self.until { self.longest } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::bbr::tests::{MS, PATH};

    #[test]
    fn a_hold_up_counts_to_the_end_of_the_next_round_trip() {
        let mut hold_ups = HoldUps::default();
        let held_up = PATH.ack_interval + PATH.ack_late + PATH.round_trip();
        hold_ups.on_silence(PATH.ack_interval, 1, &PATH);
        assert_eq!(hold_ups.longest(1), Duration::ZERO, "a TACK that came when it was due");
        hold_ups.on_silence(held_up, 1, &PATH);
        hold_ups.on_silence(held_up / 2 + PATH.ack_interval, 2, &PATH);
        let longest = held_up.saturating_sub(PATH.ack_interval);
        assert_eq!([1, 2, 3].map(|round| hold_ups.longest(round)), [longest; 3], "TACK-6.2-19");
        assert_eq!(hold_ups.longest(4), Duration::ZERO);
    }

    #[test]
    fn of_a_path_that_stood_still_a_fifth_of_a_second_counts() {
        let mut hold_ups = HoldUps::default();
        hold_ups.on_silence(2000 * MS, 1, &PATH);
        assert_eq!(hold_ups.longest(1), 200 * MS);
    }
}
