//! When each sample is captured, as if a camera took it now.

use std::time::{Duration, Instant};

/// Ties times in the media to instants.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaptureClock {
    /// An instant, and the time in the media that is then.
    anchor: Option<(Instant, Duration)>,
}

/// Further behind than this there is no catching up: frames would come too late, all of them.
pub const MOST_BEHIND: Duration = Duration::from_secs(1);

impl CaptureClock {
    /// When that time in the media is. The first one is now.
    pub fn captured_at(&mut self, now: Instant, media: Duration) -> Instant {
        let (at, begins) = *self.anchor.get_or_insert((now, media));
        match media.checked_sub(begins) {
            Some(later) => at + later,
            None => at.checked_sub(begins.saturating_sub(media)).unwrap_or(at),
        }
    }

    /// That time in the media is now.
    pub fn restart(&mut self, now: Instant, media: Duration) {
        self.anchor = Some((now, media));
    }

    /// Goes on from now if that is more than [`MOST_BEHIND`] late: the process was suspended, or the clock set.
    /// By how much.
    pub fn catch_up(&mut self, now: Instant, media: Duration) -> Option<Duration> {
        let behind = now.saturating_duration_since(self.captured_at(now, media));
        (behind > MOST_BEHIND).then(|| {
            self.restart(now, media);
            behind
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn samples_are_captured_as_far_apart_as_their_times_are() {
        let now = Instant::now();
        let mut clock = CaptureClock::default();
        assert_eq!(clock.captured_at(now, 500 * MS), now);
        assert_eq!(clock.captured_at(now + 7 * MS, 533 * MS), now + 33 * MS);
        assert_eq!(clock.captured_at(now + 7 * MS, 490 * MS) + 10 * MS, now);
    }

    #[test]
    fn after_a_jump_of_the_clock_there_is_no_burst_of_what_was_missed() {
        let now = Instant::now();
        let mut clock = CaptureClock::default();
        clock.captured_at(now, Duration::ZERO);
        assert_eq!(clock.catch_up(now + 900 * MS, 33 * MS), None, "it can catch up");
        let later = now + Duration::from_secs(3600);
        let behind = clock.catch_up(later, 33 * MS).unwrap();
        assert_eq!(behind + 33 * MS, Duration::from_secs(3600));
        assert_eq!(clock.captured_at(later, 66 * MS), later + 33 * MS);
    }
}
