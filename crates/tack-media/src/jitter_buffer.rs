//! When each frame is to be shown.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::frame::FrameKind;
use crate::gone::Gone;
use crate::late_frames::LateFrames;
use crate::receiver::ReceivedFrame;

/// Frames that the delay is chosen by: eight seconds of thirty a second.
const TRANSITS: usize = 256;

/// Frames that wait to be shown, at most; half of them, the oldest, give way then.
const MOST_WAITING: usize = 2048;

/// Bytes of them, at most: ten seconds of 50 Mbit/s.
const MOST_WAITING_BYTES: usize = 64 << 20;

/// A sender's frames begin at number 0, but a receiver that joins late may never see these. It has joined late if the
/// first number that comes is this or more: eight seconds of thirty a second.
const JOINED_LATE: u64 = 256;

/// The sender's clock has jumped where frames in a row are captured so much earlier than the one before, or come so much
/// sooner than the fastest.
const CLOCK_JUMP: Duration = Duration::from_secs(5);

/// The delay comes down by this share of what it is too long, with each frame: in a second or two.
const SHRINKS_BY: u32 = 64;

/// [`JitterBufferConfig::shortest`] is no longer than that: it can be added to any time.
const LONGEST_SHORTEST: Duration = Duration::from_secs(24 * 3600);

/// What to do when the next frame is not there at its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Go on with those that are there: a frame that comes later is not shown.
    #[default]
    Skip,
    /// Stand still until it comes, or is known to be lost, or its deadline has passed by
    /// [`JitterBufferConfig::longest`]: a frame that the sender drops before any of it has left is not told of. Nor is it
    /// waited for when more frames have come behind it than the buffer holds.
    ///
    /// Its deadline is as far behind its capture as those of the frames next to it. A sender that gives its frames a
    /// day is waited for however late they come.
    Wait,
}

/// How a [`JitterBuffer`] delays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct JitterBufferConfig {
    /// The shortest delay behind the fastest frame: 10 ms. More than a day counts as a day.
    pub shortest: Duration,
    /// The longest: 1 s. A missing frame that is waited for may come so long behind its deadline.
    pub longest: Duration,
    /// The share of frames that should be there in time: 0.98.
    pub in_time: f64,
    /// What is done about a missing frame.
    pub missing: Missing,
}

impl Default for JitterBufferConfig {
    fn default() -> Self {
        Self {
            shortest: Duration::from_millis(10),
            longest: Duration::from_secs(1),
            in_time: 0.98,
            missing: Missing::Skip,
        }
    }
}

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
    /// By number.
    waiting: BTreeMap<u64, ReceivedFrame>,
    waiting_bytes: usize,
    /// Arrival less capture of the last frames, from `epoch`, nanoseconds; they may be negative.
    transits: VecDeque<i128>,
    epoch: Option<Instant>,
    /// The least of the transits.
    fastest: i128,
    delay: Duration,
    /// For how long playback has stood still in all.
    stood: Duration,
    /// How much later than by the delay alone it goes on from where it was.
    pushed_back: Duration,
    stands_since: Option<Instant>,
    /// The next number to be shown.
    next: Option<u64>,
    /// The number that the sender's frames begin with, as far as playback waits for them.
    first: Option<u64>,
    /// How long the frame that was shown last was worth something.
    lifetime: Duration,
    /// When the frame that was shown last was due.
    last_shown: Option<Instant>,
    /// The newest frame that has come, and when it was captured.
    newest: Option<(u64, Duration)>,
    /// The first frame behind the last jump of the sender's clock, and the least transit of those before it.
    jump: Option<(u64, i128)>,
    clock_jumps: u64,
    gone: Gone,
    late_frames: LateFrames,
    late: u64,
    overflow: u64,
}

impl JitterBuffer {
    /// An empty buffer.
    pub fn new(mut config: JitterBufferConfig) -> Self {
        config.shortest = config.shortest.min(LONGEST_SHORTEST);
        Self {
            config,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            transits: VecDeque::new(),
            epoch: None,
            fastest: 0,
            delay: config.shortest,
            stood: Duration::ZERO,
            pushed_back: Duration::ZERO,
            stands_since: None,
            next: None,
            first: None,
            lifetime: Duration::ZERO,
            last_shown: None,
            newest: None,
            jump: None,
            clock_jumps: 0,
            gone: Gone::default(),
            late_frames: LateFrames::default(),
            late: 0,
            overflow: 0,
        }
    }

    /// Takes a frame. False if it is too late to be shown, or has come before. If those behind it need one that is
    /// late, [`JitterBuffer::pop`] hands it over all the same.
    pub fn push(&mut self, frame: ReceivedFrame) -> bool {
        let number = frame.header.number;
        self.first.get_or_insert(if number < JOINED_LATE { 0 } else { number });
        // The frame itself may make the delay longer.
        let was_due = self.shown_at(&frame).max(self.last_shown.unwrap_or(frame.arrived));
        self.take_transit(&frame);
        if self.next.is_some_and(|next| number < next) || self.waiting.contains_key(&number) {
            self.late += 1;
            if !self.waiting.contains_key(&number) {
                self.late_frames.on_late(frame, &mut self.gone);
            }
            return false;
        }
        let has_run_dry = self.next.is_some() && self.waiting.is_empty();
        if self.config.missing == Missing::Wait && has_run_dry && was_due < frame.arrived {
            // Nothing has come behind the gap either, so `pop` has seen no frame to stand still for.
            self.stands_since.get_or_insert(was_due);
        }
        self.waiting_bytes += frame.payload.len();
        self.waiting.insert(number, frame);
        if self.waiting.len() > MOST_WAITING || self.waiting_bytes > MOST_WAITING_BYTES {
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
        loop {
            let (&number, frame) = self.waiting.first_key_value()?;
            let at = self.shown_at(frame);
            if self.waits_before(number) && self.gives_up_at(frame).is_none_or(|at| now < at) {
                if at <= now {
                    self.stands_since.get_or_insert(at);
                }
                return None;
            }
            if self.next.is_some() || frame.header.kind != FrameKind::Delta {
                break;
            }
            // Nothing can be shown before the first frame that stands for itself.
            if at > now {
                return None;
            }
            self.take_first();
            self.gone.insert(number);
        }
        self.stood = self.stood(now);
        if self.stands_since.take().is_some() {
            // A delay that has grown meanwhile is a part of it.
            let first = self.waiting.first_key_value();
            let at = first.map(|(_, frame)| self.unstopped_at(frame))?;
            self.pushed_back = now.saturating_duration_since(at);
        }
        let at = self.waiting.first_key_value().map(|(_, frame)| self.shown_at(frame))?;
        if at > now {
            return None;
        }
        let (number, frame) = self.take_first()?;
        // What needs a frame before the first that is shown is not whole, and that one may still come.
        self.gone.insert_all(self.next.unwrap_or(0)..number);
        self.next = Some(number + 1);
        self.lifetime = frame.header.lifetime;
        self.last_shown = Some(at);
        let is_whole = frame.header.depends_on.is_none_or(|on| !self.gone.contains(on));
        if is_whole {
            self.late_frames.on_whole(number, frame.header.kind);
        } else {
            self.gone.insert(number);
            self.late_frames.on_broken(&frame);
        }
        Some(Due { frame, at, is_whole, is_late: false })
    }

    /// The same, but a frame before which nothing is missing does not wait for its time: for whoever hands it on to
    /// something that waits itself. With [`Missing::Skip`].
    pub fn pop_early(&mut self, now: Instant) -> Option<Due> {
        // A sender's first frame is number 0; others may be before the first that comes.
        let early = self.waiting.first_key_value().filter(|(number, _)| {
            (self.next.is_some() || **number == 0) && !self.missing_before(**number)
        });
        let at = early.map(|(_, frame)| self.shown_at(frame));
        self.pop(at.map_or(now, |at| at.max(now)))
    }

    /// When `pop` should be asked again, if nothing comes before.
    pub fn next_at(&self) -> Option<Instant> {
        if let Some(frame) = self.late_frames.peek() {
            return Some(self.shown_at(frame));
        }
        let (number, frame) = self.waiting.first_key_value()?;
        if self.waits_before(*number) && self.stands_since.is_some() {
            return self.gives_up_at(frame);
        }
        Some(self.shown_at(frame))
    }

    /// How long a frame is held behind the fastest of late.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// For how long playback has stood still.
    pub fn stood(&self, now: Instant) -> Duration {
        // Playback that has not begun does not stand still.
        let since = self.stands_since.filter(|_| self.next.is_some());
        let stands = since.map(|since| now.saturating_duration_since(since));
        self.stood + stands.unwrap_or_default()
    }

    /// Frames that came too late, or twice.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Frames that were never shown because more had come than the buffer holds.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// How often the sender's clock has jumped by seconds.
    pub fn clock_jumps(&self) -> u64 {
        self.clock_jumps
    }

    /// Whether a frame was captured before the sender's clock jumped last.
    pub(crate) fn is_before_jump(&self, number: u64) -> bool {
        self.jump.is_some_and(|(first, _)| number < first)
    }

    /// Notes how long a frame was on its way.
    fn take_transit(&mut self, frame: &ReceivedFrame) {
        let (number, captured) = (frame.header.number, frame.header.captured);
        if self.is_before_jump(number) {
            return;
        }
        let epoch = *self.epoch.get_or_insert(frame.arrived);
        let arrived = frame.arrived.saturating_duration_since(epoch).as_nanos();
        let transit = i128::try_from(arrived).unwrap_or(i128::MAX)
            - i128::try_from(captured.as_nanos()).unwrap_or(i128::MAX);
        let longest = i128::try_from(CLOCK_JUMP.as_nanos()).unwrap_or(i128::MAX);
        let goes_back =
            self.newest.is_some_and(|(last, at)| number > last && captured + CLOCK_JUMP < at);
        let goes_ahead = !self.transits.is_empty() && transit < self.fastest - longest;
        if goes_back || goes_ahead {
            self.jump = Some((number, self.fastest));
            self.clock_jumps += 1;
            self.transits.clear();
            self.fastest = transit;
            self.newest = None;
        }
        if self.newest.is_none_or(|(last, _)| number > last) {
            self.newest = Some((number, captured));
        }
        self.transits.push_back(transit);
        if self.transits.len() > TRANSITS {
            self.transits.pop_front();
        }
        self.follow_delay();
    }

    /// Drops the older half of what waits, and goes on behind it with a frame that needs none of that. What is missing
    /// before it is not waited for any more: nothing else would ever end the wait where frames live for days.
    fn make_room(&mut self) {
        let first = |buffer: &Self| {
            buffer.waiting.first_key_value().map(|(_, frame)| frame.header.captured)
        };
        let before = first(self);
        while self.waiting.len() > MOST_WAITING / 2
            || self.waiting_bytes > MOST_WAITING_BYTES / 2
            || self.is_delta_before_key()
        {
            let Some((number, _)) = self.take_first() else { break };
            self.gone.insert(number);
            self.overflow += 1;
        }
        let Some(&number) = self.waiting.keys().next() else { return };
        self.gone.insert_all(self.next.or(self.first).unwrap_or(0)..number);
        match &mut self.next {
            Some(next) => *next = number.max(*next),
            None => self.first = Some(number),
        }
        // Playback that was held back is by what was dropped less so.
        let dropped =
            first(self).zip(before).map(|(after, before)| after.saturating_sub(before));
        self.pushed_back = self.pushed_back.saturating_sub(dropped.unwrap_or_default());
    }

    /// Whether the first frame that waits needs others, and a later one does not.
    fn is_delta_before_key(&self) -> bool {
        let mut kinds = self.waiting.values().map(|frame| frame.header.kind);
        kinds.next() == Some(FrameKind::Delta) && kinds.any(|kind| kind == FrameKind::Key)
    }

    fn take_first(&mut self) -> Option<(u64, ReceivedFrame)> {
        let (number, frame) = self.waiting.pop_first()?;
        self.waiting_bytes -= frame.payload.len();
        Some((number, frame))
    }

    /// Whether a frame before this one may still come.
    fn missing_before(&self, number: u64) -> bool {
        let next = self.next.or(self.first).unwrap_or(0);
        !self.gone.contains_all(next..number)
    }

    /// Whether playback stands still for a frame before this one, as long as it may still come.
    fn waits_before(&self, number: u64) -> bool {
        // Playback begins with a key frame that has come, whatever the sender had before it.
        let may_wait = self.next.is_some()
            || self.waiting.values().all(|frame| frame.header.kind != FrameKind::Key);
        self.config.missing == Missing::Wait && may_wait && self.missing_before(number)
    }

    /// When nothing more is expected of what is missing before this frame. `None`: never.
    fn gives_up_at(&self, frame: &ReceivedFrame) -> Option<Instant> {
        // It was captured before this frame.
        let lifetime = frame.header.lifetime.max(self.lifetime);
        self.fastest_at(frame).checked_add(lifetime)?.checked_add(self.config.longest)
    }

    fn shown_at(&self, frame: &ReceivedFrame) -> Instant {
        self.unstopped_at(frame) + self.pushed_back
    }

    /// When it would be shown if playback had never stood still.
    fn unstopped_at(&self, frame: &ReceivedFrame) -> Instant {
        self.fastest_at(frame) + self.delay
    }

    /// When it would have come if it had been as fast as the fastest.
    fn fastest_at(&self, frame: &ReceivedFrame) -> Instant {
        let Some(epoch) = self.epoch else { return frame.arrived };
        let captured = i128::try_from(frame.header.captured.as_nanos()).unwrap_or(i128::MAX);
        let fastest = match self.jump {
            Some((first, before)) if frame.header.number < first => before,
            _ => self.fastest,
        };
        let nanos = u64::try_from((captured + fastest).max(0)).unwrap_or(u64::MAX / 4);
        epoch + Duration::from_nanos(nanos)
    }

    /// The delay grows at once and comes down slowly: a jump back would show frames too fast. A delay of the path that
    /// has lasted becomes that of the fastest, and is no part of this one any more: frames are shown when they were.
    fn follow_delay(&mut self) {
        let mut sorted: Vec<_> = self.transits.iter().copied().collect();
        sorted.sort_unstable();
        let (Some(fastest), last) = (sorted.first().copied(), sorted.len() - 1) else { return };
        let risen = u64::try_from(fastest - self.fastest).unwrap_or(0);
        self.fastest = fastest;
        if last > 0 {
            let risen = Duration::from_nanos(risen);
            let of_delay = risen.min(self.delay);
            self.delay -= of_delay;
            let of_stops = risen.saturating_sub(of_delay);
            self.pushed_back = self.pushed_back.saturating_sub(of_stops);
        }
        let at = (last as f64 * self.config.in_time.clamp(0.0, 1.0)).ceil() as usize;
        let above = u64::try_from(sorted[at] - fastest).unwrap_or(u64::MAX / 4);
        // What stood still before is shown later already.
        let wanted = Duration::from_nanos(above)
            .saturating_sub(self.pushed_back)
            .max(self.config.shortest)
            .min(self.config.longest.max(self.config.shortest));
        if wanted >= self.delay {
            self.delay = wanted;
        } else {
            self.delay =
                self.delay.saturating_sub(self.delay.saturating_sub(wanted) / SHRINKS_BY);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;
    use crate::frame::FrameHeader;

    const MS: Duration = Duration::from_millis(1);

    fn frame(start: Instant, number: u64, took: Duration) -> ReceivedFrame {
        let captured = u32::try_from(number).unwrap() * 33 * MS;
        let kind = if number == 0 { FrameKind::Key } else { FrameKind::Delta };
        let header = FrameHeader {
            kind,
            layer: 0,
            number,
            depends_on: number.checked_sub(1),
            captured,
            lifetime: 200 * MS,
            len: 3,
        };
        ReceivedFrame { header, payload: vec![1; 3], arrived: start + captured + took }
    }

    fn buffer(missing: Missing) -> JitterBuffer {
        JitterBuffer::new(JitterBufferConfig { missing, ..JitterBufferConfig::default() })
    }

    /// Shows all that is due until `until`, and when.
    fn show(buffer: &mut JitterBuffer, until: Instant) -> Vec<(u64, bool)> {
        std::iter::from_fn(|| buffer.pop(until))
            .map(|due| (due.frame.header.number, due.is_whole))
            .collect()
    }

    #[test]
    fn early_a_frame_is_handed_over_as_soon_as_nothing_is_missing_before_it() {
        let start = Instant::now();
        let mut buffer = JitterBuffer::new(JitterBufferConfig {
            shortest: 200 * MS,
            ..JitterBufferConfig::default()
        });
        let numbers = |buffer: &mut JitterBuffer, at| -> Vec<_> {
            std::iter::from_fn(|| buffer.pop_early(at))
                .map(|due| due.frame.header.number)
                .collect()
        };
        buffer.push(frame(start, 1, 20 * MS));
        assert!(numbers(&mut buffer, start + 60 * MS).is_empty(), "the key frame may come");
        buffer.push(frame(start, 0, 70 * MS));
        assert_eq!(numbers(&mut buffer, start + 70 * MS), [0, 1]);
        for number in [3, 4] {
            buffer.push(frame(start, number, 20 * MS));
        }
        assert!(numbers(&mut buffer, start + 200 * MS).is_empty(), "frame 2 may come");
        let at = buffer.next_at().unwrap();
        assert_eq!(at, start + (3 * 33 + 20 + 200) * MS);
        assert_eq!(numbers(&mut buffer, at), [3, 4]);
        assert_eq!(buffer.pop(at + 500 * MS), None);
    }

    #[test]
    fn delays_of_any_length_are_as_long_as_they_can_be() {
        let start = Instant::now();
        for (shortest, missing) in [(Duration::MAX, Missing::Skip), (10 * MS, Missing::Wait)] {
            let mut buffer = JitterBuffer::new(JitterBufferConfig {
                shortest,
                longest: Duration::MAX,
                missing,
                ..JitterBufferConfig::default()
            });
            for number in [0, 1, 3] {
                buffer.push(frame(start, number, 20 * MS));
            }
            let soon = start + Duration::from_secs(3600);
            let shown = show(&mut buffer, soon);
            assert_eq!(shown.len(), if missing == Missing::Skip { 0 } else { 2 });
            assert!(buffer.next_at().is_none_or(|at| at > soon));
        }
    }

    #[test]
    fn frames_are_shown_in_order_at_even_times_however_they_come() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Skip);
        let took = [20, 60, 25, 45, 20, 70, 30, 20, 65, 25].map(|ms| ms * MS);
        for (number, took) in (0..300).zip(took.into_iter().cycle()) {
            buffer.push(frame(start, number, took));
        }
        assert!((50 * MS..=51 * MS).contains(&buffer.delay()), "{:?}", buffer.delay());
        let end = start + Duration::from_secs(60);
        let mut shown = Vec::new();
        while let Some(due) = buffer.pop(end) {
            assert!(due.at >= due.frame.arrived);
            shown.push((due.frame.header.number, due.at));
        }
        assert_eq!(shown.len(), 300);
        for pair in shown.windows(2) {
            assert_eq!(pair[1].0, pair[0].0 + 1);
            assert_eq!(pair[1].1 - pair[0].1, 33 * MS);
        }
    }

    #[test]
    fn what_depends_on_a_missing_frame_is_broken_until_the_next_key() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Skip);
        for number in [0, 1, 3, 4] {
            buffer.push(frame(start, number, 20 * MS));
        }
        let mut key = frame(start, 5, 20 * MS);
        (key.header.kind, key.header.depends_on) = (FrameKind::Key, None);
        buffer.push(key);
        buffer.push(frame(start, 6, 20 * MS));
        let shown = show(&mut buffer, start + Duration::from_secs(9));
        assert_eq!(shown, [(0, true), (1, true), (3, false), (4, false), (5, true), (6, true)]);
        assert!(!buffer.push(frame(start, 2, 400 * MS)), "its time has passed");
        assert_eq!(buffer.late(), 1);
    }

    #[test]
    fn a_frame_that_is_late_makes_those_behind_it_whole_again() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Skip);
        for number in [0, 1, 4] {
            buffer.push(frame(start, number, 20 * MS));
        }
        let now = start + 200 * MS;
        assert_eq!(show(&mut buffer, now), [(0, true), (1, true), (4, false)]);
        // It needs 2, which is missing as well.
        assert!(!buffer.push(frame(start, 3, 120 * MS)));
        assert_eq!(show(&mut buffer, now), []);
        assert!(!buffer.push(frame(start, 2, 150 * MS)));
        for number in [2, 3, 4] {
            let due = buffer.pop(now).unwrap();
            assert_eq!(
                (due.frame.header.number, due.is_whole, due.is_late),
                (number, true, true)
            );
        }
        assert!(!buffer.push(frame(start, 2, 150 * MS)), "again");
        buffer.push(frame(start, 5, 20 * MS));
        let due = buffer.pop(start + 900 * MS).unwrap();
        assert_eq!((due.frame.header.number, due.is_whole, due.is_late), (5, true, false));
        assert_eq!(buffer.pop(start + 900 * MS), None);
        assert_eq!(buffer.late_frames.kept(), (0, 0));
    }

    #[test]
    fn what_is_late_behind_a_newer_key_frame_is_needed_no_more() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Skip);
        for number in [0, 2, 3] {
            buffer.push(frame(start, number, 20 * MS));
        }
        let mut key = frame(start, 4, 20 * MS);
        (key.header.kind, key.header.depends_on) = (FrameKind::Key, None);
        buffer.push(key);
        show(&mut buffer, start + 900 * MS);
        assert_eq!(buffer.late_frames.kept(), (0, 0));
        buffer.push(frame(start, 1, 500 * MS));
        assert_eq!(buffer.pop(start + 900 * MS), None);
    }

    #[test]
    fn frames_that_are_kept_for_a_late_one_are_bounded() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Skip);
        buffer.push(frame(start, 0, 20 * MS));
        for number in 2..5000 {
            let mut large = frame(start, number, 20 * MS);
            large.payload = vec![0; 100_000];
            buffer.push(large);
            show(&mut buffer, start + Duration::from_secs(600));
        }
        let (frames, bytes) = buffer.late_frames.kept();
        assert!(frames > 100 && frames <= 256 && bytes <= 16 << 20, "{frames}, {bytes} bytes");
        buffer.push(frame(start, 1, 900 * MS));
        assert!(show(&mut buffer, start + Duration::from_secs(600)).len() <= 256);
    }

    /// Sound, which needs no picture.
    fn sound(start: Instant, number: u64, took: Duration) -> ReceivedFrame {
        let mut sound = frame(start, number, took);
        (sound.header.kind, sound.header.depends_on) = (FrameKind::Audio, None);
        sound
    }

    #[test]
    fn what_needs_a_key_frame_that_comes_behind_the_first_sound_is_whole_only_with_it() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Skip);
        buffer.push(sound(start, 1, 20 * MS));
        let now = start + 200 * MS;
        assert_eq!(show(&mut buffer, now), [(1, true)]);
        let mut delta = frame(start, 2, 20 * MS);
        delta.header.depends_on = Some(0);
        buffer.push(delta);
        assert_eq!(show(&mut buffer, now), [(2, false)]);
        assert!(!buffer.push(frame(start, 0, 150 * MS)), "its time has passed");
        for number in [0, 2] {
            let due = buffer.pop(now).unwrap();
            assert_eq!(
                (due.frame.header.number, due.is_whole, due.is_late),
                (number, true, true)
            );
        }
        assert_eq!(buffer.pop(now), None);
    }

    #[test]
    fn what_comes_before_the_first_key_frame_waits_for_it() {
        let start = Instant::now();
        for first in [sound(start, 1, 20 * MS), frame(start, 1, 20 * MS)] {
            let mut buffer = buffer(Missing::Wait);
            buffer.push(first);
            let now = start + 200 * MS;
            assert_eq!(show(&mut buffer, now), []);
            assert!(buffer.next_at().unwrap() > now);
            buffer.push(frame(start, 0, 250 * MS));
            assert_eq!(show(&mut buffer, start + 300 * MS), [(0, true), (1, true)]);
            // Playback has not stood still: it had not begun.
            assert_eq!(buffer.stood(start + 300 * MS), Duration::ZERO);
        }
    }

    #[test]
    fn playback_begins_without_frames_that_the_sender_never_began() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Wait);
        let mut key = frame(start, 11, 20 * MS);
        (key.header.kind, key.header.depends_on) = (FrameKind::Key, None);
        for frame in [sound(start, 10, 20 * MS), key, frame(start, 12, 20 * MS)] {
            buffer.push(frame);
        }
        let now = start + (12 * 33 + 30) * MS;
        assert_eq!(show(&mut buffer, now), [(10, true), (11, true), (12, true)]);
    }

    #[test]
    fn a_receiver_that_joins_late_waits_for_nothing_before_its_first_frame() {
        let start = Instant::now();
        for missing in [Missing::Skip, Missing::Wait] {
            let mut buffer = buffer(missing);
            for number in 5000..5003 {
                let mut sound = sound(start, number, 20 * MS);
                sound.header.lifetime = Duration::from_secs(24 * 3600);
                buffer.push(sound);
            }
            let now = start + (5002 * 33 + 30) * MS;
            assert_eq!(show(&mut buffer, now), [(5000, true), (5001, true), (5002, true)]);
            assert_eq!(buffer.stood(now), Duration::ZERO);
        }
    }

    #[test]
    fn playback_stands_still_in_an_outage_and_goes_on_from_there() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Wait);
        for number in 0..10 {
            buffer.push(frame(start, number, 20 * MS));
        }
        let before = start + 400 * MS;
        assert_eq!(show(&mut buffer, before).len(), 10);
        assert_eq!(buffer.stood(before), Duration::ZERO);
        let back = start + Duration::from_secs(3);
        for number in 10..=40 {
            let mut frame = frame(start, number, 20 * MS);
            frame.arrived = back;
            buffer.push(frame);
        }
        assert_eq!(show(&mut buffer, back), [(10, true)]);
        // Frame 10 was due at 360 ms.
        assert_eq!(buffer.stood(back), 2640 * MS);
        assert_eq!(show(&mut buffer, back + 32 * MS), []);
        assert_eq!(show(&mut buffer, back + 33 * MS), [(11, true)]);
        assert_eq!(show(&mut buffer, back + 30 * 33 * MS).len(), 29);
        assert_eq!(buffer.stood(back + 30 * 33 * MS), 2640 * MS);
    }

    #[test]
    fn playback_stands_still_once_in_an_outage_whose_frames_come_one_after_the_other() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Wait);
        let back = start + (300 * 33 + 2000) * MS;
        let mut shown: Vec<Instant> = Vec::new();
        let mut next = 0;
        for ms in 0..20_000 {
            let now = start + ms * MS;
            while next < 450 {
                let mut frame = frame(start, next, 20 * MS);
                frame.header.lifetime = Duration::from_secs(10);
                if next >= 300 {
                    // Ten a frame's time until they have caught up.
                    let sent = back + u32::try_from(next - 300).unwrap() * 3 * MS;
                    frame.arrived = frame.arrived.max(sent);
                }
                if frame.arrived > now {
                    break;
                }
                buffer.push(frame);
                next += 1;
            }
            shown.extend(std::iter::from_fn(|| buffer.pop(now)).map(|_| now));
        }
        assert_eq!(shown.len(), 450);
        let gaps = shown.windows(2).map(|pair| pair[1] - pair[0]);
        let long: Vec<_> = gaps.filter(|gap| *gap > 40 * MS).collect();
        assert_eq!(long.len(), 1, "{long:?}");
    }

    #[test]
    fn a_path_that_becomes_longer_for_good_interrupts_playback_once() {
        let start = Instant::now();
        for missing in [Missing::Skip, Missing::Wait] {
            let mut buffer = buffer(missing);
            let (mut next, mut shown) = (0, Vec::new());
            for now in (0..30_000).map(|ms| start + ms * MS) {
                while next < 700 {
                    let took = if next < 300 { 20 } else { 120 };
                    let frame = frame(start, next, took * MS);
                    if frame.arrived > now {
                        break;
                    }
                    buffer.push(frame);
                    next += 1;
                }
                shown.extend(std::iter::from_fn(|| buffer.pop(now)).map(|due| (due, now)));
            }
            assert!(shown.len() > 690, "{}", shown.len());
            let gaps = shown.windows(2).map(|pair| pair[1].1 - pair[0].1);
            // A frame, and the shortest delay, which is behind the fastest of late.
            let long: Vec<_> = gaps.filter(|gap| *gap > 45 * MS).collect();
            assert_eq!(long.len(), 1, "{missing:?}: {long:?}");
            let (last, at) = &shown[shown.len() - 1];
            let behind = *at - (start + last.frame.header.captured);
            assert!(behind < 150 * MS, "{behind:?} where the path takes 120 ms");
        }
    }

    #[test]
    fn frames_before_the_first_key_frame_are_passed_over_on_a_small_stack_too() {
        let run = || {
            let start = Instant::now();
            let mut buffer = buffer(Missing::Skip);
            for number in 1..2000 {
                buffer.push(frame(start, number, 20 * MS));
            }
            assert_eq!(buffer.pop(start + Duration::from_secs(600)), None);
        };
        std::thread::Builder::new().stack_size(128 << 10).spawn(run).unwrap().join().unwrap();
    }

    #[test]
    fn frames_that_come_unevenly_hold_playback_back_by_no_more_than_the_latest_of_them() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Wait);
        let took = [20, 60, 25, 45, 20, 70, 30, 20, 65, 25].map(|ms| ms * MS);
        let mut shown = 0;
        for (number, took) in (0..3000).zip(took.into_iter().cycle()) {
            let frame = frame(start, number, took);
            let now = frame.arrived;
            buffer.push(frame);
            while let Some(due) = buffer.pop(now) {
                shown += 1;
                let behind =
                    due.at.saturating_duration_since(start + due.frame.header.captured);
                assert!(behind <= 80 * MS, "{behind:?}");
            }
        }
        assert!(shown > 2990 && buffer.stood(start) < 60 * MS, "{:?}", buffer.stood(start));
    }

    #[test]
    fn playback_stands_still_for_a_frame_that_will_come_and_goes_on_from_there() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Wait);
        for number in [0, 1, 3] {
            buffer.push(frame(start, number, 20 * MS));
        }
        let at = start + 200 * MS;
        assert_eq!(show(&mut buffer, at), [(0, true), (1, true)]);
        assert!(buffer.stood(at) > 50 * MS, "{:?}", buffer.stood(at));
        buffer.push(frame(start, 2, 20 * MS + 180 * MS));
        let later = start + Duration::from_secs(2);
        assert_eq!(show(&mut buffer, later).len(), 1, "frame 3 is due a frame later");
        assert_eq!(show(&mut buffer, later + Duration::from_secs(2)), [(3, true)]);
    }

    #[test]
    fn a_frame_that_never_began_is_waited_for_until_its_deadline_has_long_passed() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Wait);
        for number in [0, 1, 3, 4, 6] {
            buffer.push(frame(start, number, 20 * MS));
        }
        let mut key = frame(start, 7, 20 * MS);
        (key.header.kind, key.header.depends_on) = (FrameKind::Key, None);
        buffer.push(key);
        // Frame 3 lives for 200 ms, and `longest` is a second.
        let before = start + (3 * 33 + 20 + 200 + 999) * MS;
        let gives_up = before + MS;
        assert_eq!(show(&mut buffer, before), [(0, true), (1, true)]);
        assert_eq!(buffer.next_at(), Some(gives_up));
        assert_eq!(show(&mut buffer, gives_up), [(3, false)]);
        // Playback is that far behind now, and the next gap costs no time.
        let stood = buffer.stood(gives_up);
        let rest = show(&mut buffer, gives_up + 4 * 33 * MS);
        assert_eq!(rest, [(4, false), (6, false), (7, true)]);
        assert_eq!(buffer.stood(gives_up + 4 * 33 * MS), stood);
    }

    #[test]
    fn a_frame_of_a_reliable_sender_is_waited_for_however_late_it_comes() {
        let start = Instant::now();
        let hour = Duration::from_secs(3600);
        let mut buffer = buffer(Missing::Wait);
        let reliable = |number, took| {
            let mut frame = frame(start, number, took);
            frame.header.lifetime = 24 * hour;
            frame
        };
        for number in [0, 2] {
            buffer.push(reliable(number, 20 * MS));
        }
        assert_eq!(show(&mut buffer, start + hour), [(0, true)]);
        buffer.push(reliable(1, hour));
        assert_eq!(show(&mut buffer, start + hour + 100 * MS), [(1, true)]);
        assert_eq!(show(&mut buffer, start + hour + 200 * MS), [(2, true)]);
    }

    #[test]
    fn a_frame_that_is_known_to_be_lost_is_not_waited_for() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Wait);
        for number in [0, 2] {
            buffer.push(frame(start, number, 20 * MS));
        }
        assert_eq!(show(&mut buffer, start + 300 * MS), [(0, true)]);
        buffer.on_lost(1);
        let mut shown = show(&mut buffer, start + 300 * MS);
        shown.extend(show(&mut buffer, start + 900 * MS));
        assert_eq!(shown, [(2, false)]);
    }

    #[test]
    fn a_senders_clock_that_jumps_stops_nothing_for_longer_than_the_longest_delay() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Skip);
        for number in 0..600 {
            let mut frame = frame(start, number, 20 * MS);
            if number >= 300 {
                frame.header.captured += Duration::from_secs(3600);
            }
            buffer.push(frame);
        }
        assert!(buffer.delay() <= Duration::from_secs(1));
        let shown = show(&mut buffer, start + Duration::from_secs(40));
        assert!(shown.len() > 550, "{}", shown.len());
    }

    #[test]
    fn a_senders_clock_that_jumps_costs_no_time_and_no_frames() {
        let start = Instant::now();
        for jump in [-3600, 3600] {
            for missing in [Missing::Skip, Missing::Wait] {
                let mut buffer = buffer(missing);
                let mut shown = Vec::new();
                for number in 0..900 {
                    let mut frame = frame(start, number, 20 * MS);
                    let hours = if number < 300 { 7200 } else { 7200 + jump };
                    frame.header.captured += Duration::from_secs(u64::try_from(hours).unwrap());
                    let now = frame.arrived + 12 * MS;
                    buffer.push(frame);
                    shown
                        .extend(std::iter::from_fn(|| buffer.pop(now)).map(|due| due.is_whole));
                }
                let end = start + Duration::from_secs(40);
                shown.extend(std::iter::from_fn(|| buffer.pop(end)).map(|due| due.is_whole));
                assert_eq!(shown, vec![true; 900], "by {jump} s, {missing:?}");
                assert!(buffer.stood(end) < 50 * MS, "{:?}", buffer.stood(end));
                assert_eq!(buffer.clock_jumps(), 1);
            }
        }
    }

    #[test]
    fn frames_that_wait_when_the_clock_goes_back_are_shown_at_their_time() {
        let start = Instant::now();
        let mut buffer = JitterBuffer::new(JitterBufferConfig {
            shortest: 500 * MS,
            ..JitterBufferConfig::default()
        });
        let mut times = Vec::new();
        for number in 0..60 {
            let mut frame = frame(start, number, 20 * MS);
            let hours = if number < 30 { 2 } else { 1 };
            frame.header.captured += Duration::from_secs(3600 * hours);
            let now = frame.arrived;
            buffer.push(frame);
            times.extend(std::iter::from_fn(|| buffer.pop(now)).map(|due| due.at));
        }
        let rest = start + Duration::from_secs(9);
        times.extend(std::iter::from_fn(|| buffer.pop(rest)).map(|due| due.at));
        assert_eq!(times.len(), 60);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 33 * MS), "{times:?}");
    }

    #[test]
    fn a_gap_is_not_waited_for_when_more_has_come_behind_it_than_the_buffer_holds() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Wait);
        let (mut shown, mut longest) = (Vec::new(), Duration::ZERO);
        let mut last = start;
        for number in (0..6000).filter(|number| *number != 100) {
            let mut frame = frame(start, number, 20 * MS);
            frame.header.lifetime = Duration::from_secs(24 * 3600);
            if number % 30 == 0 {
                (frame.header.kind, frame.header.depends_on) = (FrameKind::Key, None);
            }
            let now = frame.arrived;
            buffer.push(frame);
            while let Some(due) = buffer.pop(now) {
                longest = longest.max(now - last);
                last = now;
                shown.push(due.is_whole);
            }
        }
        let full = u32::try_from(MOST_WAITING).unwrap() * 33 * MS;
        assert!(longest <= full + Duration::from_secs(1), "{longest:?}");
        assert!(shown.iter().all(|is_whole| *is_whole), "it goes on with a key frame");
        let waiting = buffer.waiting.len();
        assert_eq!(shown.len() + waiting + usize::try_from(buffer.overflow()).unwrap(), 5999);
        assert!(buffer.overflow() <= 1100, "{} frames were dropped", buffer.overflow());
    }

    #[test]
    fn memory_is_bounded_when_nothing_is_shown() {
        let start = Instant::now();
        let mut buffer = buffer(Missing::Skip);
        for number in 0..10_000 {
            buffer.push(frame(start, number, 20 * MS));
        }
        assert!(buffer.waiting.len() <= MOST_WAITING);
        for number in 10_000..10_100 {
            let mut large = frame(start, number, 20 * MS);
            large.payload = vec![0; 1 << 20];
            buffer.push(large);
        }
        assert!(buffer.waiting.len() <= 64 && buffer.waiting_bytes <= MOST_WAITING_BYTES);
        show(&mut buffer, start + Duration::from_secs(600));
        assert_eq!((buffer.waiting.len(), buffer.waiting_bytes), (0, 0));
    }
}
