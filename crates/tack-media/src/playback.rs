//! What a viewer sees: how soon it starts, how often it stands still, what is missing.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::jitter_buffer::{Due, JitterBuffer};
use crate::receiver::{ReceivedFrame, ReceiverEvent};

/// Counts what is played.
#[derive(Debug)]
pub struct Playback {
    began: Instant,
    first: Option<Instant>,
    /// Arrival less capture, microseconds, above the fastest frame.
    transits: Vec<i128>,
    epoch: Option<Instant>,
    shown: u64,
    broken: u64,
    lost: u64,
    late: u64,
}

/// What was played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlaybackReport {
    /// From the beginning to the first frame that was shown as it was meant to be.
    pub startup: Option<Duration>,
    /// For how long playback stood still.
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
    /// Median time from capture to arrival, above that of the fastest frame.
    pub frame_delay_p50: Duration,
    /// Its 95th percentile.
    pub frame_delay_p95: Duration,
    /// Its 99th percentile.
    pub frame_delay_p99: Duration,
}

/// Frames that delays are taken of: an hour of sixty a second.
const MOST_TRANSITS: usize = 216_000;

impl Playback {
    /// Counts from `now` on, when the viewer has asked for it.
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            first: None,
            transits: Vec::new(),
            epoch: None,
            shown: 0,
            broken: 0,
            lost: 0,
            late: 0,
        }
    }

    /// Puts what a receiver has seen into the buffer, and counts it.
    pub fn on_event(&mut self, buffer: &mut JitterBuffer, event: ReceiverEvent) {
        match event {
            ReceiverEvent::Frame(frame) => {
                self.on_frame(&frame);
                self.late += u64::from(!buffer.push(frame));
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
        if due.is_whole {
            self.first.get_or_insert(due.at.max(due.frame.arrived));
            self.shown += 1;
        } else {
            self.broken += 1;
        }
    }

    /// What was played until now.
    pub fn report(&self, now: Instant, buffer: &JitterBuffer) -> PlaybackReport {
        let stood = buffer.stood(now);
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
            frame_delay_p50: percentile(0.5),
            frame_delay_p95: percentile(0.95),
            frame_delay_p99: percentile(0.99),
        }
    }

    fn on_frame(&mut self, frame: &ReceivedFrame) {
        let epoch = *self.epoch.get_or_insert(frame.arrived);
        let arrived = frame.arrived.saturating_duration_since(epoch).as_micros();
        let captured = frame.header.captured.as_micros();
        if self.transits.len() < MOST_TRANSITS {
            let signed = |micros: u128| i128::try_from(micros).unwrap_or(i128::MAX / 2);
            self.transits.push(signed(arrived) - signed(captured));
        }
    }

    fn delays(&self) -> Histogram<u64> {
        // Three digits of any number of microseconds: the bounds are in order.
        let mut delays = Histogram::new_with_bounds(1, u64::MAX / 2, 3)
            .unwrap_or_else(|_| unreachable!("constant bounds"));
        let fastest = self.transits.iter().min().copied().unwrap_or(0);
        for transit in &self.transits {
            delays.saturating_record(u64::try_from(transit - fastest).unwrap_or(u64::MAX / 4));
        }
        delays
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;
    use crate::frame::{FrameHeader, FrameKind};
    use crate::jitter_buffer::JitterBufferConfig;

    #[test]
    fn playback_starts_with_a_frame_that_lacks_nothing() {
        const MS: Duration = Duration::from_millis(1);
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
