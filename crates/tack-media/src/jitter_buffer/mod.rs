//! When each frame is to be shown.
//!
//! | Module | Concept |
//! |---|---|
//! | `waiting_frames` | the frames that wait, and how much there may be of them |
//! | `sender_clock` | where the sender's clock is, and how the transit times of frames differ |
//! | `playout` | the delay that follows from it, and how long playback has stood still |
//! | here | which frame is next, and what is done about one that is missing or late |

mod config;
mod playout;
mod sender_clock;
mod waiting_frames;

use std::time::{Duration, Instant};

use self::playout::Playout;
use self::sender_clock::SenderClock;
use self::waiting_frames::WaitingFrames;
use crate::frame::FrameKind;
use crate::gone::Gone;
use crate::late_frames::LateFrames;
use crate::receiver::ReceivedFrame;

pub use self::config::{JitterBufferConfig, Missing};

/// A sender's frames begin at number 0, but a receiver that joins late may never see these. It has joined late if the
/// first number that comes is this or more: eight seconds of thirty a second.
const JOINED_LATE: u64 = 256;

/// A frame whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// The frame.
    pub frame: ReceivedFrame,
    /// When it was to be shown.
    pub at: Instant,
    /// Whether what it depends on was decoded; a decoder makes nothing sensible of it otherwise.
    pub is_whole: bool,
    /// Whether its time had passed when it could be decoded. It is not to be shown, but what follows needs it. It may
    /// have been due before, when it was not whole.
    pub is_late: bool,
}

/// Orders frames, and holds them back for as long as others are late as a rule.
///
/// The clocks of sender and receiver are not synchronised: the fastest frame of late tells where the
/// sender's clock is. Where that jumps by seconds, the frames behind the jump are measured anew.
#[derive(Debug)]
pub struct JitterBuffer {
    config: JitterBufferConfig,
    waiting: WaitingFrames,
    clock: SenderClock,
    playout: Playout,
    /// The next number to be shown.
    next: Option<u64>,
    /// The number that the sender's frames begin with, as far as playback waits for them.
    first: Option<u64>,
    /// How long the frame that was shown last was worth something.
    lifetime: Duration,
    gone: Gone,
    late_frames: LateFrames,
    late: u64,
    overflow: u64,
    before_start: u64,
}

impl JitterBuffer {
    /// An empty buffer.
    pub fn new(config: JitterBufferConfig) -> Self {
        let config = config.bounded();
        Self {
            config,
            waiting: WaitingFrames::default(),
            clock: SenderClock::default(),
            playout: Playout::new(config.shortest),
            next: None,
            first: None,
            lifetime: Duration::ZERO,
            gone: Gone::default(),
            late_frames: LateFrames::default(),
            late: 0,
            overflow: 0,
            before_start: 0,
        }
    }

    /// Takes a frame. False if it is too late to be shown, or has come before. If those behind it need one that is
    /// late, [`JitterBuffer::pop`] hands it over all the same.
    pub fn push(&mut self, frame: ReceivedFrame) -> bool {
        let number = frame.header.number;
        self.first.get_or_insert(if number < JOINED_LATE { 0 } else { number });
        // The frame itself may make the delay longer.
        let was_due =
            self.shown_at(&frame).max(self.playout.last_shown().unwrap_or(frame.arrived));
        if let Some(spread) = self.clock.on_frame(&frame, self.config.in_time) {
            self.playout.follow(spread, &self.config);
        }
        if self.next.is_some_and(|next| number < next) || self.waiting.contains(number) {
            self.late += 1;
            if !self.waiting.contains(number) {
                self.late_frames.on_late(frame, &mut self.gone);
            }
            return false;
        }
        let has_run_dry = self.next.is_some() && self.waiting.is_empty();
        if self.config.missing == Missing::Wait && has_run_dry && was_due < frame.arrived {
            // Nothing has come behind the gap either, so `pop` has seen no frame to stand still for.
            self.playout.stand_still(was_due);
        }
        self.waiting.insert(frame);
        if self.waiting.is_overfull() {
            self.make_room();
        }
        true
    }

    /// A frame will not come.
    pub fn on_lost(&mut self, number: u64) {
        self.gone.insert(number);
    }

    /// The next frame whose time has come. To be called until it returns `None`.
    pub fn pop(&mut self, now: Instant) -> Option<Due> {
        if let Some(frame) = self.late_frames.pop() {
            let at = self.shown_at(&frame);
            return Some(Due { frame, at, is_whole: true, is_late: true });
        }
        let fastest_arrival = loop {
            let frame = self.waiting.first()?;
            let (number, at) = (frame.header.number, self.shown_at(frame));
            if self.waits_before(number) && self.gives_up_at(frame).is_none_or(|at| now < at) {
                if at <= now {
                    self.playout.stand_still(at);
                }
                return None;
            }
            if self.next.is_some() || frame.header.kind != FrameKind::Delta {
                break self.clock.fastest_arrival(frame);
            }
            // Nothing can be shown before the first frame that stands for itself.
            if at > now {
                return None;
            }
            self.waiting.take_first();
            self.gone.insert(number);
            self.before_start += 1;
        };
        self.playout.go_on(fastest_arrival, now);
        let at = self.playout.shown_at(fastest_arrival);
        if at > now {
            return None;
        }
        self.show_first(at)
    }

    /// The same, but a frame before which nothing is missing does not wait for its time: for whoever hands it on to
    /// something that waits itself. With [`Missing::Skip`].
    pub fn pop_early(&mut self, now: Instant) -> Option<Due> {
        // A sender's first frame is number 0; others may be before the first that comes.
        let early = self.waiting.first().filter(|frame| {
            let number = frame.header.number;
            (self.next.is_some() || number == 0) && !self.missing_before(number)
        });
        let at = early.map(|frame| self.shown_at(frame));
        self.pop(at.map_or(now, |at| at.max(now)))
    }

    /// When `pop` should be asked again, if nothing comes before.
    pub fn next_at(&self) -> Option<Instant> {
        if let Some(frame) = self.late_frames.peek() {
            return Some(self.shown_at(frame));
        }
        let frame = self.waiting.first()?;
        if self.waits_before(frame.header.number) && self.playout.stands_still() {
            return self.gives_up_at(frame);
        }
        Some(self.shown_at(frame))
    }

    /// How long a frame is held behind the fastest of late.
    pub fn delay(&self) -> Duration {
        self.playout.delay()
    }

    /// For how long playback has stood still.
    pub fn stood(&self, now: Instant) -> Duration {
        self.playout.stood(now)
    }

    /// Frames that came too late, or twice.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Frames that were never shown because more had come than the buffer holds.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Frames that were never shown because no key frame had come before them.
    pub fn before_start(&self) -> u64 {
        self.before_start
    }

    /// Whether playback stands still for what is missing.
    pub(crate) fn waits(&self) -> bool {
        self.config.missing == Missing::Wait
    }

    /// How often the sender's clock has jumped by seconds. A receiver that takes no frames for so long, and then many old
    /// ones and the current ones, cannot tell that from a jump: playback goes on with the current ones either way.
    pub fn clock_jumps(&self) -> u64 {
        self.clock.jumps()
    }

    /// Whether a frame was captured before the sender's clock jumped last.
    pub(crate) fn is_before_jump(&self, number: u64) -> bool {
        self.clock.is_before_jump(number)
    }

    /// Takes the first frame that waits, which was to be shown at `at`.
    fn show_first(&mut self, at: Instant) -> Option<Due> {
        let frame = self.waiting.take_first()?;
        let number = frame.header.number;
        // What needs a frame before the first that is shown is not whole, and that one may still come.
        self.gone.insert_all(self.next.unwrap_or(0)..number);
        self.next = Some(number + 1);
        self.lifetime = frame.header.lifetime;
        self.playout.on_shown(at);
        let is_whole = frame.header.depends_on.is_none_or(|on| !self.gone.contains(on));
        if is_whole {
            self.late_frames.on_whole(number, frame.header.kind);
        } else {
            self.gone.insert(number);
            self.late_frames.on_broken(&frame);
        }
        Some(Due { frame, at, is_whole, is_late: false })
    }

    /// Drops the older half of what waits, and goes on behind it with a frame that needs none of that. What is missing
    /// before it is not waited for any more: nothing else would ever end the wait where frames live for days.
    fn make_room(&mut self) {
        let before = self.waiting.first().map(|frame| frame.header.captured);
        while let Some(frame) = self.waiting.take_surplus() {
            self.gone.insert(frame.header.number);
            self.overflow += 1;
        }
        let Some(first) = self.waiting.first() else { return };
        let (number, captured) = (first.header.number, first.header.captured);
        self.gone.insert_all(self.next.or(self.first).unwrap_or(0)..number);
        match &mut self.next {
            Some(next) => *next = number.max(*next),
            None => self.first = Some(number),
        }
        let dropped = before.map(|before| captured.saturating_sub(before));
        self.playout.on_dropped(dropped.unwrap_or_default());
    }

    /// Whether a frame before this one may still come.
    fn missing_before(&self, number: u64) -> bool {
        let next = self.next.or(self.first).unwrap_or(0);
        !self.gone.contains_all(next..number)
    }

    /// Whether playback stands still for a frame before this one, as long as it may still come.
    fn waits_before(&self, number: u64) -> bool {
        // Playback begins with a key frame that has come, whatever the sender had before it.
        let may_wait = self.next.is_some() || !self.waiting.has_key_frame();
        self.config.missing == Missing::Wait && may_wait && self.missing_before(number)
    }

    /// When nothing more is expected of what is missing before this frame. `None`: never.
    fn gives_up_at(&self, frame: &ReceivedFrame) -> Option<Instant> {
        // It was captured before this frame.
        let lifetime = frame.header.lifetime.max(self.lifetime);
        let fastest_arrival = self.clock.fastest_arrival(frame);
        fastest_arrival.checked_add(lifetime)?.checked_add(self.config.longest)
    }

    fn shown_at(&self, frame: &ReceivedFrame) -> Instant {
        self.playout.shown_at(self.clock.fastest_arrival(frame))
    }
}

#[cfg(test)]
mod tests;
