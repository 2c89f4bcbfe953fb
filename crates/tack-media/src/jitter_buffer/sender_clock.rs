//! Where the sender's clock is, as far as the arrival of its frames tells.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::receiver::ReceivedFrame;

/// Frames that the spread of transit times is taken from: eight seconds of thirty a second.
const TRANSITS: usize = 256;

/// The sender's clock has jumped where frames in a row are captured so much earlier than the one before, or come so much
/// sooner than the fastest.
const JUMP: Duration = Duration::from_secs(5);

/// Relates the times at which frames were captured to those at which they arrive.
///
/// The clocks of sender and receiver are not synchronised: the fastest frame of late tells where the
/// sender's clock is. Where that jumps by seconds, the frames behind the jump are measured anew.
#[derive(Debug, Default)]
pub(super) struct SenderClock {
    /// Arrival less capture of the last frames, from `epoch`, nanoseconds; they may be negative.
    transits: VecDeque<i128>,
    epoch: Option<Instant>,
    /// The least of the transits.
    fastest: i128,
    /// The newest frame that has come, and when it was captured.
    newest: Option<(u64, Duration)>,
    /// The first frame behind the last jump, and the least transit of those before it.
    jump: Option<(u64, i128)>,
    jumps: u64,
}

/// How the transit times of the last frames differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransitSpread {
    /// By how much the fastest frame takes longer than the fastest did before.
    pub(super) risen: Duration,
    /// How much longer than the fastest the frame takes that is just to be in time.
    pub(super) above_fastest: Duration,
}

impl SenderClock {
    /// Notes how long a frame was on its way. Returns the spread with a share of `in_time` of the frames in time;
    /// `None` for a frame from before a jump, which tells nothing about the clock as it is.
    pub(super) fn on_frame(
        &mut self,
        frame: &ReceivedFrame,
        in_time: f64,
    ) -> Option<TransitSpread> {
        let (number, captured) = (frame.header.number, frame.header.captured);
        if self.is_before_jump(number) {
            return None;
        }
        let epoch = *self.epoch.get_or_insert(frame.arrived);
        let arrived = frame.arrived.saturating_duration_since(epoch);
        let transit = nanos(arrived) - nanos(captured);
        let goes_back =
            self.newest.is_some_and(|(last, at)| number > last && captured + JUMP < at);
        let goes_ahead = !self.transits.is_empty() && transit < self.fastest - nanos(JUMP);
        if goes_back || goes_ahead {
            self.jump = Some((number, self.fastest));
            self.jumps += 1;
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
        self.measure(in_time)
    }

    fn measure(&mut self, in_time: f64) -> Option<TransitSpread> {
        let mut sorted: Vec<_> = self.transits.iter().copied().collect();
        sorted.sort_unstable();
        let (fastest, last) = (*sorted.first()?, sorted.len() - 1);
        // The first frame of a clock has none before it to be slower than.
        let risen = if last > 0 { fastest - self.fastest } else { 0 };
        self.fastest = fastest;
        let at = (last as f64 * in_time.clamp(0.0, 1.0)).ceil() as usize;
        let above_fastest = u64::try_from(sorted[at] - fastest).unwrap_or(u64::MAX / 4);
        Some(TransitSpread {
            risen: Duration::from_nanos(u64::try_from(risen).unwrap_or(0)),
            above_fastest: Duration::from_nanos(above_fastest),
        })
    }

    /// When a frame would have come if it had been as fast as the fastest.
    pub(super) fn fastest_arrival(&self, frame: &ReceivedFrame) -> Instant {
        let Some(epoch) = self.epoch else { return frame.arrived };
        let fastest = match self.jump {
            Some((first, before)) if frame.header.number < first => before,
            _ => self.fastest,
        };
        let since_epoch = (nanos(frame.header.captured) + fastest).max(0);
        epoch + Duration::from_nanos(u64::try_from(since_epoch).unwrap_or(u64::MAX / 4))
    }

    /// Whether a frame was captured before the clock jumped last.
    pub(super) fn is_before_jump(&self, number: u64) -> bool {
        self.jump.is_some_and(|(first, _)| number < first)
    }

    /// How often the clock has jumped by seconds.
    pub(super) fn jumps(&self) -> u64 {
        self.jumps
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}
