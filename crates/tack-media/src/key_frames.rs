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
/// The share stays below this part of that at which a key frame was lost, for some time.
const BELOW: f64 = 0.9;
/// For so long, at first.
const FIRST_HOLD: Duration = Duration::from_secs(3);
/// The longest such time: it doubles with each key frame that is lost behind it.
const LONGEST_HOLD: Duration = Duration::from_secs(60);
/// Frames that live for longer count as received as late as those that live so long: it can be added to any time.
const LONGEST_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// By how much of itself the share rises in a second.
const RISE: f64 = 0.1;
/// The same near the share at which a key frame was lost.
const RISE_NEAR_LOSS: f64 = 0.05;
/// How long a request may take beside the round trip since what it asks for was sent.
const REQUEST_DELAY: Duration = Duration::from_millis(100);

/// The key frames of one peer.
#[derive(Debug)]
pub(crate) struct KeyFrames {
    lifetime: Duration,
    is_wanted: bool,
    last: Option<SentKeyFrame>,
    /// Those in a row that were not delivered.
    lost: u32,
    asks_from: Instant,
    /// What an encoder may have of the path's rate.
    share: f64,
    /// The share at which a key frame was lost, while none of that share has been received since.
    lost_at: Option<f64>,
    hold: Duration,
    /// Until then the share stays below `lost_at`.
    holds_until: Instant,
    updated: Instant,
}

/// The key frame that was sent last, if it is not known to be lost.
#[derive(Clone, Copy, Debug)]
struct SentKeyFrame {
    number: u64,
    sent: Instant,
    /// When it counts as received.
    received: Instant,
    /// What the encoder might have of the path's rate then.
    share: f64,
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
            lost_at: None,
            hold: FIRST_HOLD,
            holds_until: now,
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

    /// The peer asks for one: it is alive. A request that may have left before the last one came asks for no other.
    pub fn on_request(&mut self, now: Instant, round_trip: Duration) {
        if self.last.is_some_and(|last| now < last.sent + round_trip + REQUEST_DELAY) {
            return;
        }
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
        let (received, share) = (now + 2 * self.lifetime, self.share);
        self.last = Some(SentKeyFrame { number, sent: now, received, share });
    }

    /// A frame is not delivered. `quiet` tells when the path carried nothing. Whether it was a key frame.
    pub fn on_dropped(&mut self, now: Instant, number: u64, quiet: &Quiet) -> bool {
        if self.last.is_some_and(|last| last.number > number) {
            // Nothing from that key frame on needs it.
            return false;
        }
        self.is_wanted = true;
        let Some(lost) = self.last.take_if(|last| last.number == number) else {
            return false;
        };
        // An outage says nothing of what the path carries before it and behind it.
        let is_outage =
            quiet.until().is_some_and(|until| lost.received <= until + 2 * self.lifetime);
        if !is_outage {
            self.on_too_long(now, lost.share);
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

    /// One that the encoder made at that share was lost.
    fn on_too_long(&mut self, now: Instant, share: f64) {
        self.share = self.share.min(share * KEPT).max(LEAST);
        if self.lost_at.is_some() && now >= self.holds_until {
            self.hold = (2 * self.hold).min(LONGEST_HOLD);
        }
        self.lost_at = Some(share);
        self.holds_until = now + self.hold;
    }

    /// Time passes.
    pub fn update(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.updated).as_secs_f64();
        self.updated = now;
        if let Some(last) = self.last.filter(|last| now >= last.received) {
            self.lost = 0;
            if self.lost_at.is_some_and(|lost_at| last.share >= lost_at) {
                // The path carries more than it did.
                (self.lost_at, self.hold) = (None, FIRST_HOLD);
            }
        }
        let near_loss = self.lost_at.map_or(1.0, |lost_at| (BELOW * lost_at).max(LEAST));
        let risen = (self.share * (1.0 + RISE * passed)).min(near_loss);
        self.share = if self.share < near_loss {
            risen
        } else if now >= self.holds_until {
            (self.share * (1.0 + RISE_NEAR_LOSS * passed)).min(1.0)
        } else {
            self.share
        };
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
    fn never() -> Quiet {
        Quiet::new()
    }

    /// A path that carried nothing from `start` on, until then, and does again if `is_back`.
    fn quiet_until(start: Instant, until: Instant, is_back: bool) -> Quiet {
        let mut quiet = Quiet::new();
        quiet.update(start, 0, 1, 40 * MS);
        quiet.update(until, 0, 1, 40 * MS);
        if is_back {
            quiet.update(until, 1, 1, 40 * MS);
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
                key_frames.on_dropped(now + 200 * MS, asked - 1, &never());
            }
            now += 10 * MS;
        }
        assert!((8..=14).contains(&asked), "{asked}");
        assert!(key_frames.share() < 0.5, "{}", key_frames.share());
        key_frames.on_request(now, 40 * MS);
        assert!(key_frames.asks(now), "it is alive");
    }

    #[test]
    fn a_key_frame_that_is_lost_now_and_then_is_repeated_at_once() {
        let (start, mut now) = (Instant::now(), Instant::now());
        let mut key_frames = KeyFrames::new(start, 200 * MS);
        for number in 0..20 {
            key_frames.on_sent(now, 2 * number);
            if number % 5 == 0 {
                key_frames.on_dropped(now + 100 * MS, 2 * number, &never());
                assert!(key_frames.asks(now + 100 * MS));
                key_frames.on_sent(now + 100 * MS, 2 * number + 1);
            }
            for _ in 0..4 {
                now += 500 * MS;
                key_frames.update(now);
            }
        }
        assert!(key_frames.share() > 0.99);
    }

    #[test]
    fn where_key_frames_do_not_fit_they_are_lost_more_and_more_rarely() {
        let start = Instant::now();
        let mut key_frames = KeyFrames::new(start, 200 * MS);
        let mut lost = [0; 3];
        for number in 0..90_u64 {
            let now = start + Duration::from_secs(2 * number);
            key_frames.update(now);
            let is_lost = key_frames.share() > 0.7;
            key_frames.on_sent(now, number);
            for tick in 1..20 {
                key_frames.update(now + tick * 100 * MS);
                if is_lost && tick == 2 {
                    key_frames.on_dropped(now + 200 * MS, number, &never());
                    lost[number as usize / 30] += 1;
                }
            }
        }
        assert!(lost[2] <= 2, "{lost:?} in each minute");
        assert!(key_frames.share() > 0.55, "{}", key_frames.share());
    }

    #[test]
    fn where_key_frames_fit_again_the_share_comes_back() {
        let start = Instant::now();
        let (mut now, mut key_frames) = (start, KeyFrames::new(start, 200 * MS));
        for number in 0..50 {
            key_frames.on_sent(now, number);
            if number == 0 {
                key_frames.on_dropped(now + 200 * MS, number, &never());
            }
            for _ in 0..10 {
                now += 100 * MS;
                key_frames.update(now);
            }
        }
        assert!(key_frames.share() >= 1.0, "{}", key_frames.share());
        assert_eq!(key_frames.lost_at, None);
    }

    #[test]
    fn a_request_asks_for_no_other_key_frame_while_one_is_on_its_way() {
        let now = Instant::now();
        let mut key_frames = KeyFrames::new(now, 200 * MS);
        key_frames.on_sent(now, 0);
        key_frames.on_request(now + 139 * MS, 40 * MS);
        assert!(!key_frames.asks(now + 139 * MS));
        key_frames.on_request(now + 140 * MS, 40 * MS);
        assert!(key_frames.asks(now + 140 * MS));
        key_frames.on_sent(now + 150 * MS, 1);
        key_frames.on_dropped(now + 160 * MS, 1, &never());
        key_frames.on_request(now + 160 * MS, 40 * MS);
        assert!(key_frames.asks(now + 160 * MS), "none is on its way any more");
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
        let quiet = never();
        (1..10).for_each(|number| assert!(!key_frames.on_dropped(now, number, &quiet)));
        assert!(key_frames.asks(now) && key_frames.share() >= 1.0);
    }
}
