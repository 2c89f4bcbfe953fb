//! When to call the socket's receive function: after readiness events, after errors, and from time
//! to time without either.
//!
//! A receive call can fail without meaning that the socket is broken: memory is short for a moment
//! (ENOMEM, ENOBUFS), an interface goes away (ENETDOWN), an ICMP message about one of many peers
//! arrived (ECONNREFUSED, EHOSTUNREACH). Every error is survived: after the second in a row the
//! calls are spaced out. Only a failure that lasts is reported.
//!
//! Readiness is edge-triggered. A call that finds nothing although datagrams wait (EAGAIN under
//! memory pressure, an error in the middle of a batch) is followed by no further event, so the
//! socket is looked at again after a while.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// The pause after the second error in a row; doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The longest pause between receive calls that fail.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// So many errors in a row, over at least [`PERSISTENT_FOR`], are a failure that lasts.
const PERSISTENT_ERRORS: u32 = 20;

/// How long receive calls have to fail before the failure counts as lasting: as long as a handshake
/// may take.
const PERSISTENT_FOR: Duration = Duration::from_secs(10);

/// How long after the last datagram or event the socket is looked at without an event.
const FIRST_RECHECK: Duration = Duration::from_millis(10);

/// Each further look follows after so many times the wait before it.
const RECHECK_FACTOR: u32 = 4;

/// Looks without an event before only an event counts: the last is 0.85 s after the datagram.
const RECHECKS: u32 = 4;

/// The schedule. It is told what becomes of each receive call.
pub(crate) struct ReceiveSchedule {
    /// The socket may hold datagrams.
    readable: bool,
    /// No receive call before this time.
    not_before: Option<Instant>,
    /// The next look without an event.
    recheck_at: Option<Instant>,
    rechecks: u32,
    failure: Option<Failure>,
    /// Error codes that have been logged.
    logged: BTreeSet<Option<i32>>,
}

/// Receive calls that failed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) since: Instant,
    pub(crate) calls: u32,
}

impl ReceiveSchedule {
    /// The schedule of a new socket, which may hold datagrams.
    pub(crate) fn new() -> Self {
        Self {
            readable: true,
            not_before: None,
            recheck_at: None,
            rechecks: 0,
            failure: None,
            logged: BTreeSet::new(),
        }
    }

    /// Notes a readiness event.
    pub(crate) fn on_readable(&mut self) {
        self.readable = true;
        self.rechecks = 0;
    }

    /// Whether the socket may hold datagrams, as far as is known.
    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether to call the receive function now.
    pub(crate) fn may_receive(&mut self, now: Instant) -> bool {
        if self.recheck_at.is_some_and(|at| at <= now) {
            self.recheck_at = None;
            self.readable = true;
        }
        self.readable && self.not_before.is_none_or(|at| at <= now)
    }

    /// When to call the receive function if no event comes before; a time that has passed means
    /// now.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        if self.readable { Some(self.not_before.unwrap_or(now)) } else { self.recheck_at }
    }

    /// Notes a call that received datagrams; `more` may wait.
    pub(crate) fn on_received(&mut self, now: Instant, more: bool) {
        self.on_success();
        self.readable = more;
        self.rechecks = 0;
        // A time that is set already stays: moving it with each batch would set a timer each time.
        self.recheck_at.get_or_insert(now + FIRST_RECHECK);
    }

    /// Notes a call that found nothing (EAGAIN).
    pub(crate) fn on_empty(&mut self, now: Instant) {
        self.on_success();
        self.readable = false;
        if self.recheck_at.is_none() && self.rechecks < RECHECKS {
            self.recheck_at = Some(now + FIRST_RECHECK * RECHECK_FACTOR.pow(self.rechecks));
            self.rechecks += 1;
        }
    }

    /// Notes a call that failed in any other way. The failure is returned once it lasts.
    pub(crate) fn on_error(&mut self, now: Instant, error: &io::Error) -> Result<(), Failure> {
        if self.logged.insert(error.raw_os_error()) {
            log::warn!("receiving from the UDP socket failed and is tried again: {error}");
        }
        let failure = self.failure.get_or_insert(Failure { since: now, calls: 0 });
        failure.calls += 1;
        let (calls, failure) = (failure.calls, *failure);
        // The first error is often all there is: it was about one datagram.
        self.not_before = calls.checked_sub(2).map(|doublings| {
            let pause = FIRST_PAUSE.saturating_mul(1 << doublings.min(16));
            now + pause.min(MAX_PAUSE)
        });
        let lasts = now.saturating_duration_since(failure.since) >= PERSISTENT_FOR;
        if lasts && calls >= PERSISTENT_ERRORS { Err(failure) } else { Ok(()) }
    }

    fn on_success(&mut self) {
        self.failure = None;
        self.not_before = None;
    }
}

#[cfg(test)]
#[path = "receive_schedule_tests.rs"]
mod tests;
