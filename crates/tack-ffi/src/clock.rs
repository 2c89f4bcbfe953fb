//! Times as C has them: nanoseconds from now, and `struct timespec` of CLOCK_MONOTONIC.

#![allow(clippy::disallowed_methods, reason = "C programs have no `Instant` to pass")]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// The time now.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time so many nanoseconds from now; `None` if no clock gets there.
pub(crate) fn from_now(nanos: u64) -> Option<Instant> {
    after(Instant::now(), nanos)
}

/// The time so many nanoseconds after `now`; `None` if no clock gets there.
pub(crate) fn after(now: Instant, nanos: u64) -> Option<Instant> {
    now.checked_add(Duration::from_nanos(nanos))
}

/// What has waited longer for the program was not read from a socket's clock.
const LONGEST_AGE: Duration = Duration::from_secs(3600);

/// The time so many nanoseconds ago; now, if that was more than an hour. A C program subtracts two readings of a clock
/// that can be set back in between: what is below zero is a large number there.
pub(crate) fn ago(nanos: u64) -> Instant {
    before(Instant::now(), nanos)
}

/// The time so many nanoseconds before `now`, as `ago` tells it.
pub(crate) fn before(now: Instant, nanos: u64) -> Instant {
    let age = Duration::from_nanos(nanos);
    if age > LONGEST_AGE { now } else { now.checked_sub(age).unwrap_or(now) }
}

/// Readings of both clocks, of which the closest ones count.
const READINGS: usize = 8;

/// One time on both clocks, as well as they can be compared.
fn anchor(
    mut monotonic: impl FnMut() -> Duration,
    mut instant: impl FnMut() -> Instant,
) -> (Instant, Duration) {
    let mut read = || {
        let before = monotonic();
        let at = instant();
        let between = monotonic().saturating_sub(before);
        (between, (at, before + between / 2))
    };
    let (mut closest, mut same_time) = read();
    for _ in 1..READINGS {
        // A thread that loses its CPU between two readings leaves the clocks as far apart.
        let (between, pair) = read();
        if between < closest {
            (closest, same_time) = (between, pair);
        }
    }
    same_time
}

/// The same time of the system's monotonic clock.
pub(crate) fn to_timespec(at: Instant) -> libc::timespec {
    // Compared once: then equal times stay equal.
    static ANCHOR: OnceLock<(Instant, Duration)> = OnceLock::new();
    let (instant, monotonic) = ANCHOR.get_or_init(|| {
        let clock = || clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
        anchor(|| clock().unwrap_or_default(), Instant::now)
    });
    let time = match at.checked_duration_since(*instant) {
        Some(since) => *monotonic + since,
        None => monotonic.saturating_sub(instant.duration_since(at)),
    };
    #[allow(
        clippy::cast_possible_wrap,
        clippy::cast_lossless,
        reason = "types differ by platform"
    )]
    libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
}

/// Nanoseconds, as many as the type holds.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds, or `TACK_UNKNOWN`.
pub(crate) fn known_nanos(time: Option<Duration>) -> u64 {
    time.map_or(u64::MAX, nanos)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_release_time_is_on_the_monotonic_clock() {
        let clock = || Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
        let before = clock();
        let now = to_timespec(Instant::now());
        let after = clock();
        let now = Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32);
        // The two clocks of the anchor are read one after the other: it may be off by that.
        assert!(
            now <= after + Duration::from_secs(1) && now + Duration::from_secs(1) >= before
        );
        let (earlier, later) = (ago(5_000_000), from_now(5_000_000).unwrap());
        assert!(to_timespec(earlier).tv_sec <= to_timespec(later).tv_sec);
    }

    #[test]
    fn a_thread_that_loses_its_cpu_between_two_readings_shifts_no_time() {
        const READING: Duration = Duration::from_nanos(40);
        const AWAY: Duration = Duration::from_millis(30);
        let start = Instant::now();
        // The clocks are 1000 s apart, and the thread is away behind each of the first readings.
        for away_behind in 0..3 * (READINGS - 1) {
            let (elapsed, readings) = (Cell::new(Duration::ZERO), Cell::new(0));
            let read = || {
                let now = elapsed.get();
                let away = if readings.get() <= away_behind { AWAY } else { Duration::ZERO };
                elapsed.set(now + READING + away);
                readings.set(readings.get() + 1);
                now
            };
            let monotonic = || Duration::from_secs(1000) + read();
            let (instant, same) = anchor(monotonic, || start + read());
            let offset =
                same.abs_diff(Duration::from_secs(1000) + instant.duration_since(start));
            assert!(offset <= READING, "{offset:?}, away behind {away_behind}");
        }
    }

    #[test]
    fn times_beyond_the_clock_are_none_or_now() {
        for below_zero in [0u64.wrapping_sub(1), 0u64.wrapping_sub(1_000_000)] {
            let before = Instant::now();
            assert!(ago(below_zero) >= before);
        }
        let ten_seconds_ago = ago(10_000_000_000);
        assert!(ten_seconds_ago.elapsed() >= Duration::from_secs(10));
        assert_eq!(known_nanos(None), u64::MAX);
        assert_eq!(known_nanos(Some(Duration::from_micros(3))), 3_000);
    }
}
