//! The halves of a stream.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tack_tokio::WriteError;

use crate::Error;
use crate::priority::urgency;

/// The half that this end writes to. If it is dropped before it is finished, the stream is reset with code 0.
#[derive(Debug)]
pub struct SendStream {
    stream: tack_tokio::SendStream,
    is_reset: bool,
}

impl SendStream {
    pub(crate) fn new(stream: tack_tokio::SendStream) -> Self {
        Self { stream, is_reset: false }
    }

    pub(crate) fn poll_write_data(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, Error>> {
        self.stream.poll_write_data(cx, data).map_err(Into::into)
    }

    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.is_reset {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(match ready!(self.stream.poll_stopped(cx))? {
            None => Ok(()),
            Some(code) => Err(WriteError::Stopped(code).into()),
        })
    }
}

impl web_transport_trait::SendStream for SendStream {
    type Error = Error;

    /// Cancellation safe: a future that is dropped has written nothing.
    async fn write(&mut self, data: &[u8]) -> Result<usize, Error> {
        Ok(self.stream.write(data).await?)
    }

    fn set_priority(&mut self, order: i32) {
        // It fails when the connection is over.
        if let Err(error) = self.stream.set_priority(urgency(order), false) {
            log::debug!("stream {}: no priority: {error}", self.stream.id());
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(self.stream.finish()?)
    }

    fn reset(&mut self, code: u32) {
        // It fails when the stream has been reset, or the connection is over.
        let _ = self.stream.reset(code.into());
        self.is_reset = true;
    }

    async fn closed(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_end(cx)).await
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if !self.stream.is_ended() {
            let _ = self.stream.reset(0);
        }
    }
}

/// The half that this end reads. If it is dropped before its end, the stream is stopped with code 0.
#[derive(Debug)]
pub struct RecvStream {
    stream: tack_tokio::RecvStream,
}

impl RecvStream {
    pub(crate) fn new(stream: tack_tokio::RecvStream) -> Self {
        Self { stream }
    }

    pub(crate) fn poll_read_data(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<usize>, Error>> {
        self.stream.poll_read_data(cx, buffer).map_err(Into::into)
    }

    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, Error>> {
        self.stream.poll_read_chunk(cx, max).map_err(Into::into)
    }

    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(match ready!(self.stream.poll_received_reset(cx))? {
            None => Ok(()),
            Some(code) => Err(tack_tokio::ReadError::Reset(code).into()),
        })
    }
}

impl web_transport_trait::RecvStream for RecvStream {
    type Error = Error;

    async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Error> {
        Ok(self.stream.read(buffer).await?)
    }

    async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, Error> {
        Ok(self.stream.read_chunk(max).await?)
    }

    fn stop(&mut self, code: u32) {
        // It fails when the stream has been stopped, or the connection is over.
        let _ = self.stream.stop(code.into());
    }

    async fn closed(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_end(cx)).await
    }
}
