//! The task that drives an endpoint.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::ConnectionError;
use crate::effects::Effects;
use crate::readiness::Readiness;
use crate::shared::{Shared, State};
use crate::timer::Timer;

/// Turns of the core before other tasks may run.
const TURNS: u32 = 16;

/// Drives the core of an endpoint until the endpoint is gone and its connections are over.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    waits: Waits,
}

/// What the driver waits for, beside what the application does.
struct Waits {
    timer: Timer,
    readable: Readiness,
    writable: Readiness,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, timer: Timer) -> Self {
        let (readable, writable) = (Readiness::default(), Readiness::default());
        Self { shared, waits: Waits { timer, readable, writable } }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { shared, waits } = &mut *self;
        shared.with(|state, effects| match state.drive(cx, waits, effects) {
            Ok(poll) => poll,
            Err(error) => {
                log::error!("the endpoint stops: {error}");
                let error = ConnectionError::EndpointFailed(Arc::new(error));
                state.fail(&error, effects);
                Poll::Ready(())
            }
        })
    }
}

/// The task has ended, or the runtime before the endpoint.
impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.with(|state, effects| {
            state.fail(&ConnectionError::EndpointStopped, effects);
            state.close_socket(effects);
        });
    }
}

impl State {
    /// Goes on until there is nothing to do, or others have waited long enough.
    fn drive(
        &mut self,
        cx: &mut Context<'_>,
        waits: &mut Waits,
        effects: &mut Effects,
    ) -> Result<Poll<()>, tack_endpoint::Error> {
        for _ in 0..TURNS {
            let now = clock();
            self.core.transmit(now);
            self.take_events(effects);
            self.expire_streams(now, effects);
            if self.is_done(effects) {
                return Ok(Poll::Ready(()));
            }
            let has_news = self.ask_socket(cx, now, waits)?;
            let deadline = self.next_deadline(now, waits);
            let is_due = waits.timer.poll_until(cx, now, deadline).is_ready();
            if !has_news && !is_due {
                let old = self.driver.replace(cx.waker().clone());
                effects.drop_later(old);
                return Ok(Poll::Pending);
            }
            self.core.turn(clock())?;
        }
        effects.wake(Some(cx.waker().clone()));
        Ok(Poll::Pending)
    }

    /// Tells the core what the socket is ready for, and has the task woken for the rest. Returns whether there is
    /// something to do.
    fn ask_socket(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        waits: &mut Waits,
    ) -> Result<bool, tack_endpoint::Error> {
        let mut has_news = false;
        if self.core.wants_readable() {
            let readable = waits.readable.ask(now, || self.core.socket_mut().poll_readable(cx));
            if readable.map_err(tack_endpoint::Error::Wait)? {
                self.core.on_readable();
                has_news = true;
            }
        }
        if self.core.wants_writable() {
            let writable = waits.writable.ask(now, || self.core.socket_mut().poll_writable(cx));
            if writable.map_err(tack_endpoint::Error::Wait)? {
                self.core.on_writable();
                has_news = true;
            }
        }
        Ok(has_news)
    }

    /// When to go on if nothing happens before.
    fn next_deadline(&self, now: Instant, waits: &Waits) -> Option<Instant> {
        let readable = waits.readable.retry_at().filter(|_| self.core.wants_readable());
        let writable = waits.writable.retry_at().filter(|_| self.core.wants_writable());
        [self.core.next_deadline(now), self.deadlines.next(), readable, writable]
            .into_iter()
            .flatten()
            .min()
    }
}

/// The one place where this crate reads the clock. quiche reads the same one.
#[expect(clippy::disallowed_methods, reason = "everything else is passed this time")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}
