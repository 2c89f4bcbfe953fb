//! What a viewer sees: how soon it starts, how often it stands still, what is missing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::frame::FrameHeader;
use crate::jitter_buffer::{Due, JitterBuffer};
use crate::receiver::ReceiverEvent;
use crate::stalls::Stalls;

/// Counts what is played.
#[derive(Debug)]
pub struct Playback {
    began: Instant,
    first: Option<Instant>,
    /// Arrival less capture of recent frames, microseconds, which may be negative: the least of each
    /// [`FRAMES_TOGETHER`], the last ones first.
    fastest: VecDeque<i64>,
    /// Frames of the first of these.
    together: usize,
    /// What the last frames took longer than the fastest of late, microseconds.
    delays: VecDeque<u64>,
    clock_jumps: u64,
    epoch: Option<Instant>,
    shown: u64,
    broken: u64,
    lost: u64,
    late: u64,
    stalls: Stalls,
}

/// What was played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlaybackReport {
    /// From the beginning to the first frame that was shown as it was meant to be.
    pub startup: Option<Duration>,
    /// For how long playback stood still: until what was missing had come or was given up, or, with
    /// [`Missing::Skip`](crate::Missing::Skip), until the next picture was shown, where it was by more than 150 ms.
    pub stood: Duration,
    /// That over the time since the first frame: 0 to 1.
    pub rebuffering_ratio: f64,
    /// Frames that were shown as they were meant to be.
    pub shown: u64,
    /// Frames that were shown without what they depend on.
    pub broken: u64,
    /// Frames that came too late to be shown.
    pub late: u64,
    /// Frames of which the network told that they will not come.
    pub lost: u64,
    /// Frames that were never shown because more had come than the buffer holds.
    pub overflow: u64,
    /// Frames that were never shown because no key frame had come before them.
    pub before_start: u64,
    /// How often the sender's clock has jumped by seconds, or the viewer has taken no frames for seconds.
    pub clock_jumps: u64,
    /// Median time from capture to arrival, above that of the fastest of the 8,192 frames before or so, since clocks
    /// drift apart; of the last 216,000 frames, which is an hour of sixty a second.
    pub frame_delay_p50: Duration,
    /// Its 95th percentile.
    pub frame_delay_p95: Duration,
    /// Its 99th percentile.
    pub frame_delay_p99: Duration,
}

/// Frames that delays are taken of, the last ones: an hour of sixty a second.
const MOST_DELAYS: usize = 216_000;

/// Frames of which the fastest is remembered, and how many of these are: two minutes of sixty a second in all.
const FRAMES_TOGETHER: usize = 1024;
const MOST_FASTEST: usize = 8;

impl Playback {
    /// Counts from `now` on, when the viewer has asked for it.
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            first: None,
            fastest: VecDeque::new(),
            together: 0,
            delays: VecDeque::new(),
            clock_jumps: 0,
            epoch: None,
            shown: 0,
            broken: 0,
            lost: 0,
            late: 0,
            stalls: Stalls::default(),
        }
    }

    /// Puts what a receiver has seen into the buffer, and counts it.
    pub fn on_event(&mut self, buffer: &mut JitterBuffer, event: ReceiverEvent) {
        match event {
            ReceiverEvent::Frame(frame) => {
                let (header, arrived) = (frame.header, frame.arrived);
                self.late += u64::from(!buffer.push(frame));
                self.on_frame(buffer, &header, arrived);
            }
            ReceiverEvent::Lost { header } => {
                self.lost += 1;
                if let Some(header) = header {
                    buffer.on_lost(header.number);
                }
            }
            ReceiverEvent::Malformed { .. } => self.lost += 1,
        }
    }

    /// A frame is shown, or is late and only decoded.
    pub fn on_shown(&mut self, due: &Due) {
        if due.is_late {
            return;
        }
        self.stalls.on_due(due);
        if due.is_whole {
            self.first.get_or_insert(due.at.max(due.frame.arrived));
            self.shown += 1;
        } else {
            self.broken += 1;
        }
    }

    /// What was played until now.
    pub fn report(&self, now: Instant, buffer: &JitterBuffer) -> PlaybackReport {
        let stood = if buffer.waits() { buffer.stood(now) } else { self.stalls.stood() };
        let played = self.first.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let share = stood.as_secs_f64() / played.as_secs_f64().max(1e-9);
        let delays = self.delays();
        let percentile = |share: f64| Duration::from_micros(delays.value_at_quantile(share));
        PlaybackReport {
            startup: self.first.map(|at| at.saturating_duration_since(self.began)),
            stood,
            rebuffering_ratio: if stood.is_zero() { 0.0 } else { share.min(1.0) },
            shown: self.shown,
            broken: self.broken,
            late: self.late,
            lost: self.lost,
            overflow: buffer.overflow(),
            before_start: buffer.before_start(),
            clock_jumps: buffer.clock_jumps(),
            frame_delay_p50: percentile(0.5),
            frame_delay_p95: percentile(0.95),
            frame_delay_p99: percentile(0.99),
        }
    }

    fn on_frame(&mut self, buffer: &JitterBuffer, header: &FrameHeader, arrived: Instant) {
        if std::mem::replace(&mut self.clock_jumps, buffer.clock_jumps())
            != buffer.clock_jumps()
        {
            // What came before was measured by the clock as it was.
            self.fastest.clear();
        }
        if buffer.is_before_jump(header.number) {
            return;
        }
        let epoch = *self.epoch.get_or_insert(arrived);
        let since_epoch = arrived.saturating_duration_since(epoch).as_micros();
        let signed = |micros: u128| i64::try_from(micros).unwrap_or(i64::MAX / 2);
        let transit = signed(since_epoch) - signed(header.captured.as_micros());
        let delay = self.above_fastest(transit);
        self.delays.push_back(delay);
        if self.delays.len() > MOST_DELAYS {
            self.delays.pop_front();
        }
    }

    /// How much longer than the fastest of late a frame took.
    fn above_fastest(&mut self, transit: i64) -> u64 {
        if self.fastest.is_empty() || self.together >= FRAMES_TOGETHER {
            self.fastest.push_front(transit);
            self.fastest.truncate(MOST_FASTEST);
            self.together = 0;
        }
        self.together += 1;
        if let Some(first) = self.fastest.front_mut() {
            *first = transit.min(*first);
        }
        let fastest = self.fastest.iter().min().copied().unwrap_or(transit);
        transit.abs_diff(fastest)
    }

    fn delays(&self) -> Histogram<u64> {
        // Three digits of any number of microseconds: the bounds are in order.
        let mut delays = Histogram::new_with_bounds(1, u64::MAX / 2, 3)
            .unwrap_or_else(|_| unreachable!("constant bounds"));
        for delay in &self.delays {
            delays.saturating_record(*delay);
        }
        delays
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;
    use crate::frame::FrameKind;
    use crate::jitter_buffer::JitterBufferConfig;
    use crate::receiver::ReceivedFrame;

    const MS: Duration = Duration::from_millis(1);

    /// A frame of which nothing depends on another.
    fn frame(start: Instant, number: u64, took: Duration) -> ReceivedFrame {
        let captured = Duration::from_millis(number * 10);
        let header = FrameHeader {
            kind: FrameKind::Audio,
            layer: 0,
            number,
            depends_on: None,
            captured,
            lifetime: 200 * MS,
            len: 0,
        };
        ReceivedFrame { header, payload: Vec::new(), arrived: start + captured + took }
    }

    /// What a viewer sees of frames of which each takes what `took` says and is captured later by `ahead`.
    fn play(
        frames: u64,
        took: impl Fn(u64) -> Duration,
        ahead: impl Fn(u64) -> Duration,
    ) -> PlaybackReport {
        let start = Instant::now();
        let mut playback = Playback::new(start);
        let mut buffer = JitterBuffer::new(JitterBufferConfig::default());
        let mut now = start;
        for number in 0..frames {
            let mut frame = frame(start, number, took(number));
            frame.header.captured += ahead(number);
            now = frame.arrived;
            playback.on_event(&mut buffer, ReceiverEvent::Frame(frame));
            while let Some(due) = buffer.pop(now) {
                playback.on_shown(&due);
            }
        }
        playback.report(now, &buffer)
    }

    #[test]
    fn delays_are_of_the_last_frames() {
        let most = MOST_DELAYS as u64;
        // When the path becomes worse, one frame in ten is as fast as before.
        let took = |number: u64| {
            if number < most || number.is_multiple_of(10) { 20 * MS } else { 80 * MS }
        };
        let report = play(most + 100_000, took, |_| Duration::ZERO);
        assert!(report.frame_delay_p50 < MS && report.frame_delay_p95 >= 59 * MS, "{report:?}");
        let report = play(most + 150_000, took, |_| Duration::ZERO);
        assert!(report.frame_delay_p50 >= 59 * MS, "{report:?}");
    }

    #[test]
    fn clocks_that_drift_apart_add_nothing_to_delays() {
        // By 80 millionths, to 170 ms in the end.
        let took = |number| 20 * MS + Duration::from_nanos(800 * number);
        let report = play(MOST_DELAYS as u64, took, |_| Duration::ZERO);
        assert!(report.frame_delay_p95 < 10 * MS, "{report:?}");
    }

    #[test]
    fn a_senders_clock_that_jumps_adds_nothing_to_delays_and_stalls() {
        for behind in [0, 7200] {
            let ahead = |number| Duration::from_secs(if number < 500 { 3600 } else { behind });
            let report = play(1500, |number| Duration::from_millis(20 + number % 5), ahead);
            assert!(report.frame_delay_p99 <= 5 * MS, "{report:?}");
            assert!(report.stood < 50 * MS, "{report:?}");
            assert_eq!((report.clock_jumps, report.late), (1, 0));
        }
    }

    #[test]
    fn frames_that_a_full_buffer_drops_are_counted() {
        let start = Instant::now();
        let mut playback = Playback::new(start);
        let mut buffer = JitterBuffer::new(JitterBufferConfig::default());
        for number in 0..5000 {
            let event = ReceiverEvent::Frame(frame(start, number, 20 * MS));
            playback.on_event(&mut buffer, event);
        }
        let now = start + Duration::from_secs(100);
        while let Some(due) = buffer.pop(now) {
            playback.on_shown(&due);
        }
        let report = playback.report(now, &buffer);
        assert!(report.overflow > 2000, "{report:?}");
        assert_eq!(report.shown + report.broken + report.overflow, 5000);
    }

    #[test]
    fn what_is_missing_makes_playback_stand_still_though_it_is_not_waited_for() {
        let start = Instant::now();
        let mut playback = Playback::new(start);
        let mut buffer = JitterBuffer::new(JitterBufferConfig::default());
        let mut now = start;
        // Two deltas come before the first key frame, and a second of pictures is missing.
        for number in (0..100).chain(200..300) {
            let mut frame = frame(start, number, 20 * MS);
            let is_key = number == 2 || number == 200;
            frame.header.kind = if is_key { FrameKind::Key } else { FrameKind::Delta };
            frame.header.depends_on = number.checked_sub(1).filter(|_| !is_key);
            now = frame.arrived;
            playback.on_event(&mut buffer, ReceiverEvent::Frame(frame));
            now += 10 * MS;
            while let Some(due) = buffer.pop(now) {
                playback.on_shown(&due);
            }
        }
        let report = playback.report(now, &buffer);
        assert_eq!((report.before_start, report.shown), (2, 198), "{report:?}");
        assert_eq!(report.stood, Duration::from_secs(1));
        assert!((0.3..0.4).contains(&report.rebuffering_ratio), "{report:?}");
    }

    #[test]
    fn playback_starts_with_a_frame_that_lacks_nothing() {
        let start = Instant::now();
        let mut playback = Playback::new(start);
        for (at, is_whole) in [(100, false), (300, true)] {
            let header = FrameHeader {
                kind: FrameKind::Delta,
                layer: 0,
                number: 5,
                depends_on: Some(4),
                captured: Duration::ZERO,
                lifetime: 200 * MS,
                len: 0,
            };
            let at = start + at * MS;
            let frame = ReceivedFrame { header, payload: Vec::new(), arrived: at };
            playback.on_shown(&Due { frame, at, is_whole, is_late: false });
        }
        let buffer = JitterBuffer::new(JitterBufferConfig::default());
        let report = playback.report(start + 400 * MS, &buffer);
        assert_eq!(report.startup, Some(300 * MS));
        assert_eq!((report.broken, report.shown), (1, 1));
    }
}
