//! The task that drives an endpoint.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::ConnectionError;
use crate::effects::Effects;
use crate::shared::{Shared, State};
use crate::timer::Timer;

/// Turns of the core before other tasks may run.
const TURNS: u32 = 16;

/// Drives the core of an endpoint until the endpoint is gone and its connections are over.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    timer: Timer,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, timer: Timer) -> Self {
        Self { shared, timer }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { shared, timer } = &mut *self;
        shared.with(|state, effects| match state.drive(cx, timer, effects) {
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
        timer: &mut Timer,
        effects: &mut Effects,
    ) -> Result<Poll<()>, tack_endpoint::Error> {
        for _ in 0..TURNS {
            let now = clock();
            self.core.transmit(now);
            self.take_events(effects);
            if self.is_done(effects) {
                return Ok(Poll::Ready(()));
            }
            let mut has_news = false;
            if self.core.wants_readable() && self.core.socket_mut().poll_readable(cx).is_ready()
            {
                self.core.on_readable();
                has_news = true;
            }
            if self.core.wants_writable() && self.core.socket_mut().poll_writable(cx).is_ready()
            {
                self.core.on_writable();
                has_news = true;
            }
            let deadline = self.core.next_deadline(now);
            has_news |= timer.poll_until(cx, now, deadline).is_ready();
            if !has_news {
                let old = self.driver.replace(cx.waker().clone());
                effects.drop_later(old);
                return Ok(Poll::Pending);
            }
            self.core.turn(clock())?;
        }
        effects.wake(Some(cx.waker().clone()));
        Ok(Poll::Pending)
    }
}

/// The one place where this crate reads the clock. quiche reads the same one.
#[expect(clippy::disallowed_methods, reason = "everything else is passed this time")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}
