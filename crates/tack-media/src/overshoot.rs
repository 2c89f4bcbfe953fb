//! Lowers the encoder's rate while frames are dropped because they would arrive too late.
//!
//! The rate control relies on an encoder that keeps to its rate. An encoder that exceeds it, or a muxer and sound behind
//! it, fills the headroom that the control leaves, and frames are late repeatedly.

use std::time::{Duration, Instant};

/// What a late frame leaves of the bit rate.
const KEPT: f64 = 0.93;
/// What is left at least.
const LEAST: f64 = 0.5;
/// Within that time several late frames are of one cause.
const TOGETHER: Duration = Duration::from_millis(500);
/// For so long the share stays behind a late frame, at first.
const FIRST_HOLD: Duration = Duration::from_secs(3);
/// The longest such time: it doubles each time a frame is late as soon as the share rises again.
const LONGEST_HOLD: Duration = Duration::from_secs(60);
/// By how much of itself the share rises in a second.
const RISE: f64 = 0.02;
/// A one-way delay of so much of a frame's lifetime makes frames late at any bit rate.
const LONG_WAY: f64 = 0.8;

/// The late frames of one peer.
#[derive(Debug)]
pub(crate) struct Overshoot {
    /// What an encoder may have of the path's rate.
    share: f64,
    holds_until: Option<Instant>,
    hold: Duration,
    last: Option<Instant>,
    updated: Instant,
}

impl Overshoot {
    /// None has been late.
    pub fn new(now: Instant) -> Self {
        Self { share: 1.0, holds_until: None, hold: FIRST_HOLD, last: None, updated: now }
    }

    /// A frame that lives for `lifetime` was late, where the way to the peer takes `one_way` at least.
    pub fn on_late(&mut self, now: Instant, lifetime: Duration, one_way: Duration) {
        let is_long_way = one_way > lifetime.mul_f64(LONG_WAY);
        let is_same = self.last.is_some_and(|last| now < last + TOGETHER);
        if is_long_way || is_same {
            return;
        }
        self.last = Some(now);
        self.share = (self.share * KEPT).max(LEAST);
        if self.holds_until.is_some_and(|until| now >= until) {
            self.hold = (2 * self.hold).min(LONGEST_HOLD);
        }
        self.holds_until = Some(now + self.hold);
    }

    /// Time passes.
    pub fn update(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.updated).as_secs_f64();
        self.updated = now;
        if self.holds_until.is_some_and(|until| now >= until) {
            self.share = (self.share * (1.0 + RISE * passed)).min(1.0);
        }
        // The path or the encoder has changed since.
        if self.last.is_some_and(|last| now >= last + 2 * LONGEST_HOLD) {
            (self.hold, self.holds_until) = (FIRST_HOLD, None);
        }
    }

    /// What an encoder may have of the path's rate, 0.5 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// How often a frame is late in a minute where the encoder makes `over` times what fits, and is not told otherwise.
    fn late_in_a_minute(overshoot: &mut Overshoot, start: Instant, over: f64) -> usize {
        let mut count = 0;
        for tick in 0..6000 {
            let now = start + tick * 10 * MS;
            overshoot.update(now);
            if overshoot.share() * over > 1.0 && tick % 100 == 0 {
                overshoot.on_late(now, 200 * MS, 20 * MS);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn an_encoder_that_makes_too_much_has_frames_late_more_and_more_rarely() {
        let start = Instant::now();
        let mut overshoot = Overshoot::new(start);
        let counts = [0, 60, 120]
            .map(|at| late_in_a_minute(&mut overshoot, start + at * 1000 * MS, 1.05));
        assert!(counts[0] <= 6 && counts[1] <= 2 && counts[2] <= 2, "{counts:?}");
        assert!(overshoot.share() > 0.85, "{}", overshoot.share());
    }

    #[test]
    fn the_share_comes_back_when_nothing_is_late_any_more() {
        let start = Instant::now();
        let mut overshoot = Overshoot::new(start);
        late_in_a_minute(&mut overshoot, start, 1.3);
        assert!(overshoot.share() < 0.8);
        assert_eq!(late_in_a_minute(&mut overshoot, start + 61_000 * MS, 0.5), 0);
        assert_eq!(late_in_a_minute(&mut overshoot, start + 122_000 * MS, 0.5), 0);
        assert!(overshoot.share() >= 1.0, "{}", overshoot.share());
    }

    #[test]
    fn several_late_frames_at_once_count_as_one_and_a_long_way_as_none() {
        let start = Instant::now();
        let mut overshoot = Overshoot::new(start);
        (0..10).for_each(|_| overshoot.on_late(start, 200 * MS, 20 * MS));
        let is_one = |overshoot: &Overshoot| (overshoot.share() - KEPT).abs() < 1e-9;
        assert!(is_one(&overshoot), "{overshoot:?}");
        overshoot.on_late(start + 1000 * MS, 200 * MS, 250 * MS);
        assert!(is_one(&overshoot), "{overshoot:?}");
    }
}
