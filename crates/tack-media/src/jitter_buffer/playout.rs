//! How far playback is behind the fastest frames: the delay, and how long it has stood still.

use std::time::{Duration, Instant};

use super::config::JitterBufferConfig;
use super::sender_clock::TransitSpread;

/// The delay comes down by this share of what it is too long, with each frame: in a second or two.
const SHRINKS_BY: u32 = 64;

/// Says when a frame is shown that would come at some time if it were as fast as the fastest.
#[derive(Debug)]
pub(super) struct Playout {
    delay: Duration,
    /// For how long playback has stood still in all, up to the last time that it went on.
    stood: Duration,
    /// How much later than by the delay alone it goes on from where it was.
    pushed_back: Duration,
    stands_since: Option<Instant>,
    /// When the frame that was shown last was due.
    last_shown: Option<Instant>,
}

impl Playout {
    /// Playback that has not begun.
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            stood: Duration::ZERO,
            pushed_back: Duration::ZERO,
            stands_since: None,
            last_shown: None,
        }
    }

    /// When a frame is shown.
    pub(super) fn shown_at(&self, fastest_arrival: Instant) -> Instant {
        self.unstopped_at(fastest_arrival) + self.pushed_back
    }

    /// When it would be shown if playback had never stood still.
    fn unstopped_at(&self, fastest_arrival: Instant) -> Instant {
        fastest_arrival + self.delay
    }

    /// How long a frame is held behind the fastest of late.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    /// When the frame that was shown last was due; `None` before playback has begun.
    pub(super) fn last_shown(&self) -> Option<Instant> {
        self.last_shown
    }

    /// A frame is shown.
    pub(super) fn on_shown(&mut self, at: Instant) {
        self.last_shown = Some(at);
    }

    /// Follows the transit times of the frames.
    ///
    /// The delay grows at once and comes down slowly: a jump back would show frames too fast. A delay of the path that
    /// has lasted becomes that of the fastest, and is no part of this one any more: frames are shown when they were.
    pub(super) fn follow(&mut self, spread: TransitSpread, config: &JitterBufferConfig) {
        let of_delay = spread.risen.min(self.delay);
        self.delay -= of_delay;
        let of_stops = spread.risen.saturating_sub(of_delay);
        self.pushed_back = self.pushed_back.saturating_sub(of_stops);
        // What stood still before is shown later already.
        let wanted = spread
            .above_fastest
            .saturating_sub(self.pushed_back)
            .max(config.shortest)
            .min(config.longest.max(config.shortest));
        if wanted >= self.delay {
            self.delay = wanted;
        } else {
            self.delay =
                self.delay.saturating_sub(self.delay.saturating_sub(wanted) / SHRINKS_BY);
        }
    }

    /// Playback stands still since `at`, unless it has done so before.
    pub(super) fn stand_still(&mut self, at: Instant) {
        self.stands_since.get_or_insert(at);
    }

    /// Whether playback stands still.
    pub(super) fn stands_still(&self) -> bool {
        self.stands_since.is_some()
    }

    /// Playback stands still no more: if it did, the next frame is shown now, and those behind it that much later.
    pub(super) fn go_on(&mut self, fastest_arrival: Instant, now: Instant) {
        self.stood = self.stood(now);
        if self.stands_since.take().is_some() {
            // A delay that has grown meanwhile is a part of it.
            self.pushed_back =
                now.saturating_duration_since(self.unstopped_at(fastest_arrival));
        }
    }

    /// Some time of what was to be shown has been dropped: playback that was held back is less so.
    pub(super) fn on_dropped(&mut self, time: Duration) {
        self.pushed_back = self.pushed_back.saturating_sub(time);
    }

    /// For how long playback has stood still.
    pub(super) fn stood(&self, now: Instant) -> Duration {
        // Playback that has not begun does not stand still.
        let since = self.stands_since.filter(|_| self.last_shown.is_some());
        let stands = since.map(|since| now.saturating_duration_since(since));
        self.stood + stands.unwrap_or_default()
    }
}
