//! A live source: frames that are worth nothing when they are old.

use std::collections::VecDeque;
use std::time::Duration;

use tack_link::Time;

use super::scenario::Media;

/// The application takes the next frame to its stack when no more than this waits there unsent,
/// bytes: as a socket with `TCP_NOTSENT_LOWAT` tells it.
const LOW_WATER: u64 = 16 << 10;

/// Frames that come at a steady rate, wait in a short queue, and go to the stack one by one.
///
/// What waits longer than the source's patience is dropped, unless it has gone to the stack: a
/// frame is sent whole or not at all.
#[derive(Debug)]
pub struct MediaSource {
    media: Media,
    start: Time,
    made: u64,
    /// When the frames that wait were made.
    waiting: VecDeque<Time>,
    /// Bytes that have gone to the stack.
    handed: u64,
}

impl MediaSource {
    /// A source whose first frame is there at `start`.
    pub const fn new(media: Media, start: Time) -> Self {
        Self { media, start, made: 0, waiting: VecDeque::new(), handed: 0 }
    }

    /// Bytes that have gone to the stack at `now`, of which it has put `sent` on the wire.
    pub fn handed(&mut self, now: Time, sent: u64) -> u64 {
        while self.next_frame() <= now {
            self.waiting.push_back(self.next_frame());
            self.made += 1;
        }
        let patience = self.media.patience;
        self.waiting.retain(|made| now.since(*made) <= patience);
        while self.handed.saturating_sub(sent) <= LOW_WATER
            && self.waiting.pop_front().is_some()
        {
            self.handed += self.frame_bytes();
        }
        self.handed
    }

    /// When the next frame is made.
    pub fn next_frame(&self) -> Time {
        self.start + Duration::from_secs_f64(self.made as f64 / self.media.fps)
    }

    fn frame_bytes(&self) -> u64 {
        (self.media.bps / 8.0 / self.media.fps) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u64 = 40_000;

    fn source() -> MediaSource {
        let media = Media {
            bps: FRAME as f64 * 8.0 * 20.0,
            fps: 20.0,
            patience: Duration::from_millis(100),
        };
        MediaSource::new(media, Time::ZERO)
    }

    fn at(ms: u64) -> Time {
        Time::from(Duration::from_millis(ms))
    }

    #[test]
    fn frames_that_are_sent_at_once_all_go() {
        let mut source = source();
        for frame in 0..10 {
            assert_eq!(source.handed(at(50 * frame), frame * FRAME), (frame + 1) * FRAME);
            assert_eq!(source.next_frame(), at(50 * (frame + 1)));
        }
    }

    #[test]
    fn a_frame_waits_until_the_one_before_is_almost_sent() {
        let mut source = source();
        assert_eq!(source.handed(at(0), 0), FRAME);
        assert_eq!(source.handed(at(60), FRAME - LOW_WATER - 1), FRAME);
        assert_eq!(source.handed(at(61), FRAME - LOW_WATER), 2 * FRAME);
    }

    #[test]
    fn frames_that_have_waited_too_long_are_dropped_and_fresh_ones_are_not() {
        let mut source = source();
        assert_eq!(source.handed(at(0), 0), FRAME);
        // Those of 50, 100, 150 and 200 ms wait; at 250 ms the first two are too old.
        assert_eq!(source.handed(at(201), 0), FRAME);
        assert_eq!(source.handed(at(249), FRAME), 2 * FRAME);
        assert_eq!(source.handed(at(249), 2 * FRAME), 3 * FRAME);
        assert_eq!(source.handed(at(249), 3 * FRAME), 3 * FRAME);
    }
}
