//! When each buffer was captured, as if a camera took it: deadlines count from there.

use std::time::{Duration, Instant};

/// Further behind than this there is no catching up: the pipeline stood still, or its times jump.
const MOST_BEHIND: Duration = Duration::from_secs(1);
/// So many buffers in a row that are all late are no jitter: the pipeline stood still for a moment, or its latency has
/// changed. Less would follow a burst of the encoder.
const LATE_IN_A_ROW: u32 = 8;
/// Buffers that the fastest is taken of: eight seconds of thirty a second.
const WINDOW: u32 = 256;

/// Ties running times to instants by the buffers that come fastest. A pipeline's clock need not be the
/// system's, and an encoder does not take the same time for each picture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CaptureTime {
    /// An instant, and the running time that is then, nanoseconds.
    anchor: Option<(Instant, i64)>,
    /// How far behind the anchor the buffers of this window came, at least.
    fastest: Option<Duration>,
    seen: u32,
    /// Late buffers in a row, and how far behind the anchor they came, at least.
    late: u32,
    late_by: Duration,
}

/// When a buffer was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Captured {
    pub at: Instant,
    /// How far the times have jumped, if they have.
    pub jumped: Option<Duration>,
}

impl CaptureTime {
    /// When the buffer of that running time was captured that comes `now`; not behind `now`. A buffer is dropped
    /// `deadline` behind that: if many in a row come so late that few would be left, times go on from these.
    pub fn of(&mut self, now: Instant, running_time: i64, deadline: Duration) -> Captured {
        let Some(expected) = self.expected(running_time) else {
            return self.restart(now, running_time, None);
        };
        if expected >= now {
            let ahead = expected - now;
            return self.restart(now, running_time, (ahead > MOST_BEHIND).then_some(ahead));
        }
        let behind = now - expected;
        if behind > MOST_BEHIND {
            return self.restart(now, running_time, Some(behind));
        }
        if let Some(by) = self.follow_late(behind, deadline) {
            return Captured { at: expected + by, jumped: None };
        }
        self.fastest = Some(self.fastest.map_or(behind, |fastest| fastest.min(behind)));
        self.seen += 1;
        if self.seen >= WINDOW
            && let (Some((at, _)), Some(fastest)) = (&mut self.anchor, self.fastest.take())
        {
            *at += fastest;
            self.seen = 0;
        }
        Captured { at: expected, jumped: None }
    }

    /// Moves the anchor if this is the last of many late buffers in a row; how far.
    fn follow_late(&mut self, behind: Duration, deadline: Duration) -> Option<Duration> {
        if behind <= deadline / 2 {
            self.late = 0;
            return None;
        }
        self.late_by = if self.late == 0 { behind } else { self.late_by.min(behind) };
        self.late += 1;
        if self.late < LATE_IN_A_ROW {
            return None;
        }
        let (at, then) = self.anchor?;
        let by = self.late_by;
        *self = Self { anchor: Some((at + by, then)), ..Self::default() };
        Some(by)
    }

    fn expected(&self, running_time: i64) -> Option<Instant> {
        let (at, then) = self.anchor?;
        let difference = Duration::from_nanos(running_time.abs_diff(then));
        if running_time >= then {
            at.checked_add(difference)
        } else {
            at.checked_sub(difference)
        }
    }

    fn restart(
        &mut self,
        now: Instant,
        running_time: i64,
        jumped: Option<Duration>,
    ) -> Captured {
        *self = Self { anchor: Some((now, running_time)), ..Self::default() };
        Captured { at: now, jumped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const DEADLINE: Duration = Duration::from_millis(200);

    /// Buffers of thirty a second that take so long, in turns.
    fn run(time: &mut CaptureTime, start: Instant, frames: u32, took: &[u32]) -> Vec<Captured> {
        let took = took.iter().cycle();
        let one = |(number, took): (u32, &u32)| {
            let running = i64::from(number) * 33_000_000;
            time.of(start + number * 33 * MS + *took * MS, running, DEADLINE)
        };
        (0..frames).zip(took).map(one).collect()
    }

    #[test]
    fn buffers_are_captured_as_far_apart_as_their_times_are_however_they_come() {
        let (start, mut time) = (Instant::now(), CaptureTime::default());
        let captured = run(&mut time, start, 20, &[3, 20, 7]);
        for pair in captured.windows(2) {
            assert_eq!(pair[1].at - pair[0].at, 33 * MS);
        }
        assert_eq!(captured[0].at, start + 3 * MS);
    }

    #[test]
    fn a_clock_that_drifts_is_followed_without_a_buffer_from_the_future() {
        for drift in [997, 1003] {
            let (start, mut time) = (Instant::now(), CaptureTime::default());
            for number in 0..20_000_u32 {
                let now = start + Duration::from_micros(33 * u64::from(number * drift));
                let captured = time.of(now, i64::from(number) * 33_000_000, DEADLINE);
                assert!(captured.at <= now && now - captured.at < 60 * MS, "{number}");
                assert_eq!(captured.jumped, None);
            }
        }
    }

    #[test]
    fn buffers_that_stay_late_are_dropped_for_a_moment_only() {
        let (start, mut time) = (Instant::now(), CaptureTime::default());
        let (mut dropped, mut last) = (0, start);
        for number in 0..60_u32 {
            let held = if number < 20 { 0 } else { 600 };
            let now = start + (number * 33 + held + number % 3 * 5) * MS;
            let captured = time.of(now, i64::from(number) * 33_000_000, DEADLINE);
            assert!(captured.at <= now && captured.at >= last && captured.jumped.is_none());
            last = captured.at;
            dropped += u32::from(now - captured.at >= DEADLINE);
            assert!(!(30..).contains(&number) || now - captured.at < 20 * MS, "{number}");
        }
        assert_eq!(dropped, LATE_IN_A_ROW - 1);
    }

    #[test]
    fn a_burst_of_late_buffers_moves_nothing() {
        let (start, mut time) = (Instant::now(), CaptureTime::default());
        let took = [5, 150, 130, 120, 110, 5, 5];
        for (number, captured) in (0..).zip(run(&mut time, start, 70, &took)) {
            assert_eq!(captured.at, start + (number * 33 + 5) * MS);
        }
    }

    #[test]
    fn times_that_jump_go_on_from_now() {
        let (start, mut time) = (Instant::now(), CaptureTime::default());
        run(&mut time, start, 5, &[1]);
        let hour = Duration::from_secs(3600);
        for (now, running) in [(start + 200 * MS, 3_600_000_000_000), (start + hour, 0)] {
            let captured = time.of(now, running, DEADLINE);
            assert_eq!(captured.at, now);
            assert!(captured.jumped.is_some_and(|by| by > hour / 2));
            let next = time.of(now + 40 * MS, running + 33_000_000, DEADLINE);
            assert_eq!(next, Captured { at: now + 33 * MS, jumped: None });
        }
    }
}
