//! The driver's timer.

#[cfg(target_os = "linux")]
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

#[cfg(target_os = "linux")]
use tack_endpoint::runtime::TimerFd;
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};
use tokio::time::Sleep;

/// What wakes the driver at a deadline.
pub(crate) enum Timer {
    /// A timer of nanoseconds, as tokio counts in milliseconds, which is too coarse for pacing.
    #[cfg(target_os = "linux")]
    Precise(AsyncFd<TimerFd>),
    /// tokio's own, which follows a clock that is paused.
    Tokio(Pin<Box<Sleep>>),
}

impl Timer {
    /// The most precise timer that the system has.
    pub(crate) fn of_system(now: Instant) -> Self {
        #[cfg(target_os = "linux")]
        match TimerFd::new().and_then(register) {
            Ok(timer) => return Self::Precise(timer),
            Err(error) => log::debug!("no timer descriptor, pacing is coarser: {error}"),
        }
        Self::of_tokio(now)
    }

    /// A timer of tokio's.
    pub(crate) fn of_tokio(now: Instant) -> Self {
        Self::Tokio(Box::pin(tokio::time::sleep_until(now.into())))
    }

    /// Ready at the deadline, or once too often; pending for ever without one.
    pub(crate) fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        deadline: Option<Instant>,
    ) -> Poll<()> {
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Poll::Ready(());
        }
        match self {
            #[cfg(target_os = "linux")]
            Self::Precise(timer) => {
                if let Err(error) = timer.get_mut().set(now, deadline) {
                    log::warn!("cannot set the timer: {error}");
                }
                // Each expiry is one event, and nothing need be read.
                timer.poll_read_ready(cx).map(|ready| match ready {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(error) => log::debug!("the timer does not report: {error}"),
                })
            }
            Self::Tokio(sleep) => {
                let Some(deadline) = deadline else { return Poll::Pending };
                let deadline = tokio::time::Instant::from_std(deadline);
                if sleep.deadline() != deadline {
                    sleep.as_mut().reset(deadline);
                }
                sleep.as_mut().poll(cx)
            }
        }
    }
}

/// The newer functions are unsafe, for types that may change their descriptor; this one keeps it.
#[cfg(target_os = "linux")]
#[allow(deprecated)]
fn register(timer: TimerFd) -> io::Result<AsyncFd<TimerFd>> {
    AsyncFd::with_interest(timer, Interest::READABLE)
}
