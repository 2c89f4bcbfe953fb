//! How a session has ended, as its handles, its streams and its tasks share it.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tack_tokio::{CloseReason, ConnectionError, ReadError, WriteError};
use tokio::sync::Notify;

use super::codes;
use crate::Error;

/// The end of a session, which comes once.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    end: OnceLock<Error>,
    has_ended: Notify,
}

impl SessionState {
    /// Ends the session; the first end counts.
    pub(super) fn end(&self, error: Error) {
        if self.end.set(error).is_ok() {
            self.has_ended.notify_waiters();
        }
    }

    pub(super) fn ended(&self) -> Option<Error> {
        self.end.get().cloned()
    }

    /// Waits for the end. Cancellation safe.
    pub(super) async fn wait(&self) -> Error {
        loop {
            // Listens before it looks: nothing is missed between the two.
            let mut ended = pin!(self.has_ended.notified());
            ended.as_mut().enable();
            if let Some(error) = self.ended() {
                return error;
            }
            ended.await;
        }
    }
}

/// Waits for the end of a session in whichever task polls last.
#[derive(Default)]
pub(super) struct EndWatcher(Option<Pin<Box<dyn Future<Output = Error> + Send + Sync>>>);

impl EndWatcher {
    pub(super) fn poll(
        &mut self,
        state: &Arc<SessionState>,
        cx: &mut Context<'_>,
    ) -> Poll<Error> {
        if let Some(end) = state.ended() {
            self.0 = None;
            return Poll::Ready(end);
        }
        let state = Arc::clone(state);
        let waiting = self.0.get_or_insert_with(|| Box::pin(async move { state.wait().await }));
        let end = std::task::ready!(waiting.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(end)
    }
}

impl fmt::Debug for EndWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EndWatcher").field(&self.0.is_some()).finish()
    }
}

/// What the end of the connection says about its session: a peer that closes the session may say so in the
/// CONNECTION_CLOSE alone.
pub(super) fn end_of_connection(error: ConnectionError) -> Error {
    if let ConnectionError::Closed(CloseReason::Peer { application: true, code, reason }) =
        &error
        && let Some(code) = codes::from_wire(*code)
    {
        let reason = String::from_utf8_lossy(reason).into_owned();
        return Error::SessionClosed { code, reason };
    }
    Error::Connection(error)
}

/// Why a stream cannot be written to, once the session's end has not told.
pub(super) fn write_error(error: WriteError) -> Error {
    match error {
        WriteError::Stopped(code) => match codes::from_wire(code) {
            Some(code) => Error::Write(WriteError::Stopped(code.into())),
            None => Error::Http3Stream(code),
        },
        WriteError::ConnectionLost(lost) => end_of_connection(lost),
        error => Error::Write(error),
    }
}

/// Why a stream cannot be read, as [`write_error`].
pub(super) fn read_error(error: ReadError) -> Error {
    match error {
        ReadError::Reset(code) => match codes::from_wire(code) {
            Some(code) => Error::Read(ReadError::Reset(code.into())),
            None => Error::Http3Stream(code),
        },
        ReadError::ConnectionLost(lost) => end_of_connection(lost),
        error => Error::Read(error),
    }
}
