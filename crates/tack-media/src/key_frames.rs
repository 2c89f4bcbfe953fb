//! What becomes of key frames: when a peer's sink asks for the next one, and what it tells the encoder if they are too
//! long for their deadline.

use std::time::{Duration, Instant};

use crate::quiet::Quiet;

/// Behind a key frame that was lost the next one is asked for at once, behind more of them later and later: a peer that
/// is dead, or too slow for any, must not have all others sent key frames.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// What a lost key frame leaves of the bit rate: the next one is shorter by as much.
const KEPT: f64 = 0.6;
/// What is left at least.
const LEAST: f64 = 0.1;
/// Frames that live for longer count as received as late as those that live so long: it can be added to any time.
const LONGEST_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// By how much of itself the share rises in a second.
const RISE: f64 = 0.1;

/// The key frames of one peer.
#[derive(Debug)]
pub(crate) struct KeyFrames {
    lifetime: Duration,
    is_wanted: bool,
    /// The last one, and when it counts as received.
    last: Option<(u64, Instant)>,
    /// Those in a row that were not delivered.
    lost: u32,
    asks_from: Instant,
    /// What an encoder may have of the path's rate.
    share: f64,
    updated: Instant,
}

impl KeyFrames {
    /// The first one is wanted. A frame lives for `lifetime`.
    pub fn new(now: Instant, lifetime: Duration) -> Self {
        Self {
            lifetime: lifetime.min(LONGEST_LIFETIME),
            is_wanted: true,
            last: None,
            lost: 0,
            asks_from: now,
            share: 1.0,
            updated: now,
        }
    }

    /// Whether the encoder is to make one now.
    pub fn asks(&self, now: Instant) -> bool {
        self.is_wanted && now >= self.asks_from
    }

    /// Frames are worth nothing until the next one.
    pub fn on_wanted(&mut self) {
        self.is_wanted = true;
    }

    /// The peer asks for one: it is alive.
    pub fn on_request(&mut self, now: Instant) {
        self.is_wanted = true;
        self.asks_from = now;
    }

    /// The path carries something again: the next one need not wait.
    pub fn on_alive(&mut self, now: Instant) {
        self.lost = 0;
        self.asks_from = now;
    }

    /// One is sent.
    pub fn on_sent(&mut self, now: Instant, number: u64) {
        self.is_wanted = false;
        self.last = Some((number, now + 2 * self.lifetime));
    }

    /// A frame is not delivered. `quiet` tells when the path carried nothing. Whether it was a key frame.
    pub fn on_dropped(&mut self, now: Instant, number: u64, quiet: &Quiet) -> bool {
        if self.last.is_some_and(|(last, _)| last > number) {
            // Nothing from that key frame on needs it.
            return false;
        }
        self.is_wanted = true;
        let Some((_, received)) = self.last.take_if(|(last, _)| *last == number) else {
            return false;
        };
        // An outage says nothing of what the path carries before it and behind it.
        let is_outage =
            quiet.until().is_some_and(|until| received <= until + 2 * self.lifetime);
        if !is_outage {
            self.share = (self.share * KEPT).max(LEAST);
        } else if !quiet.is_quiet() {
            // The path is back: the outage ends the row of lost ones, even if the last loss becomes known now.
            self.asks_from = now;
            return true;
        }
        self.asks_from = match self.lost {
            0 => now,
            lost => now + (FIRST_WAIT * (1 << (lost - 1).min(8))).min(LONGEST_WAIT),
        };
        self.lost += 1;
        true
    }

    /// Time passes.
    pub fn update(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.updated).as_secs_f64();
        self.updated = now;
        self.share = (self.share * (1.0 + RISE * passed)).min(1.0);
        if self.last.is_some_and(|(_, received)| now >= received) {
            self.lost = 0;
        }
    }

    /// What an encoder may have of the path's rate, 0.1 to 1: less while key frames do not get through.
    pub fn share(&self) -> f64 {
        self.share
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A path that always carries something.
    fn never(now: Instant) -> Quiet {
        Quiet::new(now)
    }

    /// A path that carried nothing from `start` on, until then, and does again if `is_back`.
    fn quiet_until(start: Instant, until: Instant, is_back: bool) -> Quiet {
        let mut quiet = Quiet::new(start);
        quiet.update(until, 0, 40 * MS);
        if is_back {
            quiet.update(until, 1, 40 * MS);
        }
        assert_eq!((quiet.is_quiet(), quiet.until()), (!is_back, Some(until)));
        quiet
    }

    #[test]
    fn a_peer_that_gets_no_key_frame_is_sent_fewer_and_shorter_ones() {
        let start = Instant::now();
        let (mut now, mut key_frames) = (start, KeyFrames::new(start, 200 * MS));
        let mut asked = 0;
        while now < start + Duration::from_secs(20) {
            key_frames.update(now);
            if key_frames.asks(now) {
                key_frames.on_sent(now, asked);
                asked += 1;
                key_frames.on_dropped(now + 200 * MS, asked - 1, &never(start));
            }
            now += 10 * MS;
        }
        assert!((8..=14).contains(&asked), "{asked}");
        assert!(key_frames.share() < 0.5, "{}", key_frames.share());
        key_frames.on_request(now);
        assert!(key_frames.asks(now), "it is alive");
    }

    #[test]
    fn a_key_frame_that_is_lost_now_and_then_is_repeated_at_once() {
        let (start, mut now) = (Instant::now(), Instant::now());
        let mut key_frames = KeyFrames::new(start, 200 * MS);
        for number in 0..4 {
            key_frames.on_sent(now, number);
            key_frames.on_dropped(now + 100 * MS, number, &never(start));
            assert!(key_frames.asks(now + 100 * MS));
            key_frames.on_sent(now + 100 * MS, 100 + number);
            now += Duration::from_secs(10);
            key_frames.update(now);
        }
        assert!(key_frames.share() > 0.99);
    }

    #[test]
    fn a_key_frame_that_is_lost_in_an_outage_makes_no_other_one_shorter() {
        let now = Instant::now();
        let quiet = quiet_until(now, now + 250 * MS, true);
        let mut key_frames = KeyFrames::new(now, 200 * MS);
        key_frames.on_sent(now, 0);
        assert!(key_frames.on_dropped(now + 300 * MS, 0, &quiet));
        assert!(key_frames.share() >= 1.0);
        key_frames.on_sent(now + 300 * MS, 1);
        assert!(key_frames.on_dropped(now + 500 * MS, 1, &quiet));
        assert!(key_frames.share() < 1.0);
        key_frames.on_sent(now + 500 * MS, 2);
        key_frames.on_dropped(now + 700 * MS, 2, &quiet);
        assert!(!key_frames.asks(now + 800 * MS));
        key_frames.on_alive(now + 800 * MS);
        assert!(key_frames.asks(now + 800 * MS), "at once");
    }

    #[test]
    fn while_an_outage_lasts_key_frames_are_asked_for_more_and_more_rarely() {
        let now = Instant::now();
        let mut key_frames = KeyFrames::new(now, 200 * MS);
        for (number, waits) in [0, 500, 1000, 2000, 2000].into_iter().enumerate() {
            let quiet = quiet_until(now, now + 300 * MS, false);
            key_frames.on_sent(now, number as u64);
            key_frames.on_dropped(now + 300 * MS, number as u64, &quiet);
            let asks = |after: u32| key_frames.asks(now + (300 + after) * MS);
            assert!(asks(waits) && (waits == 0 || !asks(waits - 1)), "{number}");
        }
    }

    #[test]
    fn a_key_frame_that_lives_for_ever_can_be_lost_too() {
        let now = Instant::now();
        let mut key_frames = KeyFrames::new(now, Duration::MAX);
        key_frames.on_sent(now, 0);
        key_frames.update(now + 200 * MS);
        let quiet = quiet_until(now, now + 300 * MS, true);
        assert!(key_frames.on_dropped(now + 300 * MS, 0, &quiet));
        assert!(key_frames.asks(now + 300 * MS));
    }

    #[test]
    fn what_needs_a_lost_frame_makes_no_key_frame_shorter() {
        let now = Instant::now();
        let mut key_frames = KeyFrames::new(now, 200 * MS);
        key_frames.on_sent(now, 0);
        let quiet = never(now);
        (1..10).for_each(|number| assert!(!key_frames.on_dropped(now, number, &quiet)));
        assert!(key_frames.asks(now) && key_frames.share() >= 1.0);
    }
}
