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

/// The same time of the system's monotonic clock.
pub(crate) fn to_timespec(at: Instant) -> libc::timespec {
    // Both clocks at one time, once: then equal times stay equal.
    static ANCHOR: OnceLock<(Instant, Duration)> = OnceLock::new();
    let (instant, monotonic) = ANCHOR.get_or_init(|| {
        let monotonic = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
        (Instant::now(), monotonic.unwrap_or_default())
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
    use super::*;

    #[test]
    fn a_release_time_is_on_the_monotonic_clock() {
        let clock = || Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
        let before = clock();
        let now = to_timespec(Instant::now());
        let after = clock();
        let now = Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32);
        // The two clocks of the anchor are read one after the other: it may be off by that.
        assert!(now <= after && now + Duration::from_secs(1) >= before);
        let (earlier, later) = (ago(5_000_000), from_now(5_000_000).unwrap());
        assert!(to_timespec(earlier).tv_sec <= to_timespec(later).tv_sec);
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
