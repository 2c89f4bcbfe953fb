//! Keeps a connection whose timer expires to no effect from keeping the endpoint busy.
//!
//! A timeout that stays in the past, or moves on by microseconds, while the connection neither
//! sends nor receives, would have the endpoint call it without end. The guard lets such a timer
//! expire once a millisecond.

use std::time::{Duration, Instant};

/// How long a timer rests that expired to no effect.
const REST: Duration = Duration::from_millis(1);

/// Expiries to no effect, one after the other, before timeouts in the near future count as stale
/// too: an expiry may do no more than set the next timer.
const TOLERATED: u32 = 8;

/// Watches the timer of one connection.
#[derive(Default)]
pub(crate) struct TimerGuard {
    /// The timer has expired since the connection last sent or received.
    has_expired: bool,
    /// Expiries since then.
    idle_expiries: u32,
    not_before: Option<Instant>,
}

/// When a timer is to expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// When the connection says.
    AsAsked(Instant),
    /// Later, since the expiry before had no effect.
    Postponed(Instant),
}

impl Expiry {
    /// The time.
    pub(crate) fn at(self) -> Instant {
        let (Self::AsAsked(at) | Self::Postponed(at)) = self;
        at
    }
}

impl TimerGuard {
    /// Notes that the timer expired.
    pub(crate) fn on_expired(&mut self) {
        self.has_expired = true;
        self.idle_expiries = self.idle_expiries.saturating_add(1);
        self.not_before = None;
    }

    /// Notes that the connection sent or received a datagram.
    pub(crate) fn on_progress(&mut self) {
        *self = Self::default();
    }

    /// When to let the timer expire that the connection sets to `timeout`, now that it has nothing
    /// more to send.
    pub(crate) fn expiry(&mut self, now: Instant, timeout: Instant) -> Expiry {
        if let Some(not_before) = self.not_before.filter(|time| timeout < *time) {
            return Expiry::AsAsked(not_before);
        }
        let is_stale = timeout <= now && self.has_expired;
        let is_restless = timeout < now + REST && self.idle_expiries > TOLERATED;
        if !is_stale && !is_restless {
            return Expiry::AsAsked(timeout);
        }
        self.not_before = Some(now + REST);
        Expiry::Postponed(now + REST)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    /// Lets a timer expire whenever it is due for a second; `timeout` is what the connection sets it
    /// to each time. Returns how often it expired.
    fn expiries_in_a_second(timeout: impl Fn(Instant) -> Instant) -> u32 {
        let start = Instant::now();
        let end = start + Duration::from_secs(1);
        let mut guard = TimerGuard::default();
        let (mut now, mut expiries) = (start, 0);
        while now < end {
            guard.on_expired();
            expiries += 1;
            assert!(expiries < 100_000, "the endpoint spins");
            now = guard.expiry(now, timeout(now)).at().max(now);
        }
        expiries
    }

    #[test]
    fn a_timeout_that_stays_in_the_past_expires_once_a_millisecond() {
        let past = Instant::now();
        assert_eq!(expiries_in_a_second(|_| past), 1000);
    }

    #[test]
    fn a_timeout_that_moves_on_by_microseconds_expires_about_once_a_millisecond() {
        let expiries = expiries_in_a_second(|now| now + 10 * MICROSECOND);
        assert!((1000..1020).contains(&expiries), "{expiries}");
    }

    #[test]
    fn a_timer_that_paces_packets_is_never_postponed() {
        let mut now = Instant::now();
        let mut guard = TimerGuard::default();
        for _ in 0..10_000 {
            guard.on_expired();
            guard.on_progress();
            let next = now + 20 * MICROSECOND;
            assert_eq!(guard.expiry(now, next), Expiry::AsAsked(next));
            now = next;
        }
    }

    #[test]
    fn a_timeout_that_has_passed_expires_at_once_the_first_time() {
        let now = Instant::now();
        let mut guard = TimerGuard::default();
        let past = now.checked_sub(MICROSECOND).unwrap();
        assert_eq!(guard.expiry(now, past), Expiry::AsAsked(past));
    }

    #[test]
    fn a_rest_is_counted_once_however_often_the_connection_is_driven() {
        let now = Instant::now();
        let mut guard = TimerGuard::default();
        guard.on_expired();
        let postponed = Expiry::Postponed(now + REST);
        assert_eq!(guard.expiry(now, now), postponed);
        for n in 1..10 {
            let later = now + n * 100 * MICROSECOND;
            assert_eq!(guard.expiry(later, now), Expiry::AsAsked(now + REST));
        }
    }
}
