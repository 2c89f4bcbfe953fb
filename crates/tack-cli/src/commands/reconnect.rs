//! Connecting again when a connection is lost in the middle of a command.
//!
//! The whole command runs again over the new connection: what is in place is found equal, and what was
//! on its way is resumed.

use std::time::{Duration, Instant};

use super::connector::{Attempt, Connector};
use crate::cli::TransferArgs;
use crate::error::Error;
use crate::progress::print;
use crate::termination::Termination;
use tack_transfer::Client;

/// The first pause before an attempt, and the longest; each is twice the one before.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));
/// How often to look whether the user has had enough.
const SLICE: Duration = Duration::from_millis(100);

/// How long to try, and how often.
pub(super) struct Retry {
    patience: Duration,
    /// Since when nothing has been moved, and how much had been until then.
    stuck: Option<(Instant, u64)>,
    pause: Duration,
}

impl Retry {
    /// Tries for `patience` after the last byte of content has moved.
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, stuck: None, pause: PAUSES.0 }
    }

    /// How long to wait before the next attempt, when `moved` bytes have been moved in all; `None` if
    /// there is to be no further one.
    fn next(&mut self, moved: u64, now: Instant) -> Option<Duration> {
        if self.stuck.is_none_or(|(_, before)| before != moved) {
            self.stuck = Some((now, moved));
            self.pause = PAUSES.0;
        }
        let left = self.left(now);
        if left.is_zero() {
            return None;
        }
        let pause = self.pause.min(left);
        self.pause = (2 * self.pause).min(PAUSES.1);
        Some(pause)
    }

    /// How much longer a further attempt may begin.
    fn left(&self, now: Instant) -> Duration {
        let since = self.stuck.map_or(now, |(since, _)| since);
        self.patience.saturating_sub(now.saturating_duration_since(since))
    }

    /// Connects again after `lost`, which is the error if that does not help.
    pub(super) fn reconnect(
        &mut self,
        server: &mut dyn Connector,
        args: &TransferArgs,
        stop: &Termination,
        moved: u64,
        lost: Error,
    ) -> Result<Client, Error> {
        if self.patience.is_zero() {
            return Err(lost);
        }
        if !args.quiet {
            let seconds = self.patience.as_secs();
            print(&format!("{}; trying to connect again for {seconds} s", lost.reason()));
        }
        while let Some(pause) = self.next(moved, Instant::now()) {
            let end = Instant::now() + pause;
            while let Some(left) = end.checked_duration_since(Instant::now()) {
                if stop.is_requested() {
                    return Err(Error::Interrupted);
                }
                std::thread::sleep(left.min(SLICE));
            }
            let attempt = Attempt { stop, left: Some(self.left(Instant::now())) };
            match server.connect(args.bwlimit, attempt) {
                Ok(client) => return Ok(client),
                Err(error) if error.may_pass() => log::debug!("connecting again: {error}"),
                Err(error) => return Err(error),
            }
        }
        Err(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses when each attempt takes `attempt` and nothing is ever moved.
    fn pauses(patience: u64, attempt: Duration) -> Vec<f64> {
        let mut retry = Retry::new(Duration::from_secs(patience));
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        while let Some(pause) = retry.next(7, now) {
            now += pause + attempt;
            pauses.push(pause.as_secs_f64());
        }
        pauses
    }

    #[test]
    fn pauses_grow_and_end_with_the_patience() {
        let expected = [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 4.5];
        assert_eq!(pauses(60, Duration::ZERO), expected);
        assert_eq!(pauses(12, Duration::from_secs(10)), [0.5, 1.0]);
        assert!(pauses(0, Duration::ZERO).is_empty());
    }

    #[test]
    fn patience_begins_anew_only_when_something_has_moved() {
        let mut retry = Retry::new(Duration::from_secs(60));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        retry.next(1, at(0)).unwrap();
        assert!(retry.next(1, at(59)).is_some());
        assert_eq!(retry.next(2, at(70)), Some(PAUSES.0));
        assert!(retry.next(2, at(129)).is_some());
        assert_eq!(retry.next(2, at(131)), None);
    }
}
