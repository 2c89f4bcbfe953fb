//! For how long pictures stand still where playback goes on without those that are missing.

use std::time::{Duration, Instant};

use crate::frame::FrameKind;
use crate::jitter_buffer::Due;

/// A picture that stands this much longer than pictures do stands still: less is hardly seen.
const UNSEEN: Duration = Duration::from_millis(150);

/// Adds up the gaps that missing pictures leave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stalls {
    /// The number of the last frame, shown or not.
    last: Option<u64>,
    /// When the last whole picture was shown, and when it was captured.
    picture: Option<(Instant, Duration)>,
    /// Something is missing or broken behind it. A source may pause without that.
    lacks: bool,
    /// The shortest time from one picture to the next.
    interval: Option<Duration>,
    stood: Duration,
}

impl Stalls {
    /// The time of a frame has come, in the order of their numbers.
    pub fn on_due(&mut self, due: &Due) {
        let header = &due.frame.header;
        let follows = self.last.is_none_or(|last| header.number == last + 1);
        self.last = Some(header.number);
        self.lacks |= !follows || !due.is_whole;
        if header.kind == FrameKind::Audio || !due.is_whole {
            return;
        }
        let shown = due.at.max(due.frame.arrived);
        if let Some((at, captured)) = self.picture.replace((shown, header.captured)) {
            let lasted = header.captured.saturating_sub(captured);
            if !lasted.is_zero() {
                self.interval = Some(self.interval.map_or(lasted, |least| least.min(lasted)));
            }
            let stood = shown.saturating_duration_since(at);
            let longer = stood.saturating_sub(self.interval.unwrap_or_default());
            if self.lacks && longer > UNSEEN {
                self.stood += longer;
            }
        }
        self.lacks = false;
    }

    /// For how long pictures have stood still.
    pub fn stood(&self) -> Duration {
        self.stood
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;
    use crate::frame::FrameHeader;
    use crate::receiver::ReceivedFrame;

    const MS: Duration = Duration::from_millis(1);

    fn due(start: Instant, number: u64, kind: FrameKind, captured: u64) -> Due {
        let captured = Duration::from_millis(captured);
        let at = start + captured + 50 * MS;
        let (layer, depends_on, lifetime, len) = (0, None, 200 * MS, 0);
        let header = FrameHeader { kind, layer, number, depends_on, captured, lifetime, len };
        let frame = ReceivedFrame { header, payload: Vec::new(), arrived: at };
        Due { frame, at, is_whole: true, is_late: false }
    }

    #[test]
    fn pictures_stand_still_where_some_are_missing_or_broken_and_it_is_seen() {
        let start = Instant::now();
        let mut stalls = Stalls::default();
        for number in [0, 1, 2, 5, 6, 36, 37] {
            stalls.on_due(&due(start, number, FrameKind::Delta, number * 40));
        }
        // From 6 to 36; two that are missing are hardly seen.
        assert_eq!(stalls.stood(), 29 * 40 * MS);
        for number in 38..48 {
            let mut broken = due(start, number, FrameKind::Delta, number * 40);
            broken.is_whole = false;
            stalls.on_due(&broken);
        }
        stalls.on_due(&due(start, 48, FrameKind::Key, 48 * 40));
        assert_eq!(stalls.stood(), (29 + 10) * 40 * MS);
    }

    #[test]
    fn a_source_that_pauses_is_no_stall_nor_is_sound() {
        let start = Instant::now();
        let mut stalls = Stalls::default();
        for (number, captured) in [(0, 0), (1, 40), (2, 5000)] {
            stalls.on_due(&due(start, number, FrameKind::Delta, captured));
        }
        for (number, captured) in [(3, 5020), (9, 7000)] {
            stalls.on_due(&due(start, number, FrameKind::Audio, captured));
        }
        assert_eq!(stalls.stood(), Duration::ZERO);
    }
}
