//! The halves of a stream of a session over HTTP/3.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tack_tokio::{ReadError, WriteError};

use super::codes;
use super::session::SessionRef;
use super::state::{EndWatcher, read_error, write_error};
use crate::Error;
use crate::priority::urgency;

/// The half that this end writes to. If it is dropped before it is finished, the stream is reset with code 0.
#[derive(Debug)]
pub struct SendStream {
    stream: tack_tokio::SendStream,
    session: Arc<SessionRef>,
    end: EndWatcher,
    is_reset: bool,
}

/// The code for what is dropped.
fn code_of_drop(session: &SessionRef) -> u64 {
    if session.state.ended().is_some() { codes::SESSION_GONE } else { codes::to_wire(0) }
}

impl SendStream {
    pub(super) fn new(stream: tack_tokio::SendStream, session: Arc<SessionRef>) -> Self {
        Self { stream, session, end: EndWatcher::default(), is_reset: false }
    }

    /// Waits for the stream or for the end of the session, which says more than what it did to the stream.
    fn unless_over<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<Result<T, WriteError>>,
    ) -> Poll<Result<T, Error>> {
        match poll {
            Poll::Ready(Ok(result)) => Poll::Ready(Ok(result)),
            Poll::Pending | Poll::Ready(Err(WriteError::ConnectionLost(_))) => {
                self.end.poll(&self.session.state, cx).map(Err)
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(write_error(error))),
        }
    }

    pub(crate) fn poll_write_data(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, Error>> {
        if let Some(end) = self.session.state.ended() {
            return Poll::Ready(Err(end));
        }
        let written = self.stream.poll_write_data(cx, data);
        self.unless_over(cx, written)
    }

    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.is_reset {
            return Poll::Ready(Ok(()));
        }
        let stopped = self.stream.poll_stopped(cx);
        Poll::Ready(match ready!(self.unless_over(cx, stopped))? {
            None => Ok(()),
            Some(code) => Err(write_error(WriteError::Stopped(code))),
        })
    }
}

impl web_transport_trait::SendStream for SendStream {
    type Error = Error;

    /// Cancellation safe: a future that is dropped has written nothing.
    async fn write(&mut self, data: &[u8]) -> Result<usize, Error> {
        poll_fn(|cx| self.poll_write_data(cx, data)).await
    }

    fn set_priority(&mut self, order: i32) {
        // It fails when the connection is over.
        if let Err(error) = self.stream.set_priority(urgency(order), false) {
            log::debug!("stream {}: no priority: {error}", self.stream.id());
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        if let Some(end) = self.session.state.ended() {
            return Err(end);
        }
        self.stream.finish().map_err(write_error)
    }

    fn reset(&mut self, code: u32) {
        // It fails when the stream has been reset, or the connection is over.
        let _ = self.stream.reset(codes::to_wire(code));
        self.is_reset = true;
    }

    async fn closed(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_end(cx)).await
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if !self.stream.is_ended() {
            let _ = self.stream.reset(code_of_drop(&self.session));
        }
    }
}

/// The half that this end reads. If it is dropped before its end, the stream is stopped with code 0.
#[derive(Debug)]
pub struct RecvStream {
    stream: tack_tokio::RecvStream,
    session: Arc<SessionRef>,
    end: EndWatcher,
}

impl RecvStream {
    pub(super) fn new(stream: tack_tokio::RecvStream, session: Arc<SessionRef>) -> Self {
        Self { stream, session, end: EndWatcher::default() }
    }

    /// Waits for the stream or for the end of the session; what has come counts first.
    fn unless_over<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<Result<T, ReadError>>,
    ) -> Poll<Result<T, Error>> {
        match poll {
            Poll::Ready(Ok(result)) => Poll::Ready(Ok(result)),
            Poll::Pending | Poll::Ready(Err(ReadError::ConnectionLost(_))) => {
                self.end.poll(&self.session.state, cx).map(Err)
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(read_error(error))),
        }
    }

    pub(crate) fn poll_read_data(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<usize>, Error>> {
        let read = self.stream.poll_read_data(cx, buffer);
        self.unless_over(cx, read)
    }

    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, Error>> {
        let chunk = self.stream.poll_read_chunk(cx, max);
        self.unless_over(cx, chunk)
    }

    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let reset = self.stream.poll_received_reset(cx);
        Poll::Ready(match ready!(self.unless_over(cx, reset))? {
            None => Ok(()),
            Some(code) => Err(read_error(ReadError::Reset(code))),
        })
    }
}

impl web_transport_trait::RecvStream for RecvStream {
    type Error = Error;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Error> {
        poll_fn(|cx| self.poll_read_data(cx, buffer)).await
    }

    async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, Error> {
        poll_fn(|cx| self.poll_chunk(cx, max)).await
    }

    fn stop(&mut self, code: u32) {
        // It fails when the stream has been stopped, or the connection is over.
        let _ = self.stream.stop(codes::to_wire(code));
    }

    async fn closed(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_end(cx)).await
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        // It fails when the stream has been stopped, or the connection is over.
        let _ = self.stream.stop(code_of_drop(&self.session));
    }
}
