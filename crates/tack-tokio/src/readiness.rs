//! Waiting for the socket where that fails.
//!
//! A socket that cannot be waited for wakes no task, and says so at once: asked again without a pause, it would keep
//! the driver busy for ever.

use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

/// The pause after the first failure; doubles with each further one in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// So many failures in a row, over at least [`LASTING_FOR`], are one that lasts: the same as of calls that receive.
const LASTING_FAILURES: u32 = 20;

/// How long a failure has to go on before it counts as lasting.
const LASTING_FOR: Duration = Duration::from_secs(10);

/// Asks a socket whether it is readable, or writable.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    failure: Option<Failure>,
}

/// Questions that failed one after the other.
#[derive(Debug)]
struct Failure {
    /// The first of them, or the last one that says nothing of the socket.
    since: Instant,
    count: u32,
    /// When to ask again.
    retry_at: Instant,
}

impl Readiness {
    /// Asks whether the socket may be ready, unless a failure was a moment ago. Fails once a failure lasts.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        poll: impl FnOnce() -> Poll<io::Result<()>>,
    ) -> io::Result<bool> {
        if self.retry_at().is_some_and(|at| at > now) {
            return Ok(false);
        }
        match poll() {
            Poll::Pending => {
                self.failure = None;
                Ok(false)
            }
            Poll::Ready(Ok(())) => {
                self.failure = None;
                Ok(true)
            }
            Poll::Ready(Err(error)) => self.on_error(now, error),
        }
    }

    /// When to ask again after a failure, behind which the socket wakes no task.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.retry_at)
    }

    fn on_error(&mut self, now: Instant, error: io::Error) -> io::Result<bool> {
        let is_harmless =
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
        let failure = self.failure.get_or_insert_with(|| {
            log::warn!("waiting for the UDP socket failed and is tried again: {error}");
            Failure { since: now, count: 0, retry_at: now }
        });
        let pause = FIRST_PAUSE.saturating_mul(1 << failure.count.min(16)).min(MAX_PAUSE);
        failure.count = failure.count.saturating_add(1);
        failure.retry_at = now + pause;
        if is_harmless {
            failure.since = now;
        }
        let lasts = now.saturating_duration_since(failure.since) >= LASTING_FOR;
        if lasts && failure.count >= LASTING_FAILURES {
            return Err(error);
        }
        // The call that receives or sends tells more.
        Ok(true)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use super::*;

    fn failing(kind: io::ErrorKind) -> impl Fn() -> Poll<io::Result<()>> {
        move || Poll::Ready(Err(kind.into()))
    }

    /// Asks every millisecond for a while; returns how often the socket was asked, and how it ended.
    fn ask_for(seconds: u64, kind: io::ErrorKind) -> (u32, io::Result<()>) {
        let (start, mut readiness, mut asked) = (Instant::now(), Readiness::default(), 0);
        for ms in 0..seconds * 1000 {
            let poll = || {
                asked += 1;
                failing(kind)()
            };
            if let Err(error) = readiness.ask(start + Duration::from_millis(ms), poll) {
                return (asked, Err(error));
            }
        }
        (asked, Ok(()))
    }

    #[test]
    fn a_failure_is_an_error_only_once_it_lasts() {
        let (asked, result) = ask_for(9, io::ErrorKind::NotConnected);
        assert!(result.is_ok() && (80..110).contains(&asked), "{asked}: {result:?}");
        let (asked, result) = ask_for(11, io::ErrorKind::NotConnected);
        assert!(result.is_err() && (90..120).contains(&asked), "{asked}: {result:?}");
    }

    #[test]
    fn a_socket_that_says_that_it_would_block_is_asked_again_and_never_fails() {
        let (asked, result) = ask_for(100, io::ErrorKind::WouldBlock);
        assert!(result.is_ok() && (900..1100).contains(&asked), "{asked}: {result:?}");
    }

    #[test]
    fn an_answer_ends_the_failure() {
        let start = Instant::now();
        let mut readiness = Readiness::default();
        for second in 0..100 {
            let now = start + Duration::from_secs(second);
            assert!(readiness.ask(now, failing(io::ErrorKind::NotConnected)).unwrap());
            assert!(readiness.retry_at().is_some());
            let now = now + MAX_PAUSE;
            assert!(!readiness.ask(now, || Poll::Pending).unwrap());
            assert_eq!(readiness.retry_at(), None);
        }
    }
}
