//! The sending half of a stream.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use tacklib::quiche;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use crate::connection::{Access, ConnectionRef};
use crate::stream_id::StreamId;
use crate::stream_state::SendEnd;
use crate::{ConnectionError, WriteError};

/// The half of a stream that this end writes to.
///
/// Writing waits for room: for the peer's flow control, and for the send buffer, which all streams of a
/// connection share (`TackConfig::send_buffer`). When it is dropped, the stream is finished, unless it was
/// reset; to say that it is incomplete, [`reset`](Self::reset) it.
pub struct SendStream {
    connection: Arc<ConnectionRef>,
    id: StreamId,
    end: Option<SendEnd>,
    written: u64,
    /// What [`poll_stopped`](Self::poll_stopped) waits for.
    stopping: Option<Stopping>,
}

type Stopping =
    Pin<Box<dyn Future<Output = Result<Option<u64>, WriteError>> + Send + Sync + 'static>>;

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SendStream");
        debug.field("id", &self.id).field("end", &self.end).field("written", &self.written);
        debug.finish_non_exhaustive()
    }
}

impl SendStream {
    pub(crate) fn new(connection: Arc<ConnectionRef>, id: StreamId) -> Self {
        Self { connection, id, end: None, written: 0, stopping: None }
    }

    /// The stream's id.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Writes as much of the data as there is room for, and returns how many bytes that are; waits while
    /// there is room for none.
    ///
    /// Cancellation safe: a future that is dropped has written nothing.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write_data(cx, data)).await
    }

    /// Writes all of the data.
    ///
    /// A future that is dropped may have written a part, of which [`written`](Self::written) tells the
    /// length. `AsyncWriteExt::write_all_buf` leaves the rest in its buffer.
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let written = self.write(data).await?;
            data = data.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes all of a chunk, as [`write_all`](Self::write_all) does. quiche keeps a copy until it is
    /// delivered.
    pub async fn write_chunk(&mut self, chunk: Bytes) -> Result<(), WriteError> {
        self.write_all(&chunk).await
    }

    /// How many bytes the stream has taken so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Whether this end has finished or reset the stream.
    pub fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Ends the stream: nothing more is written, and the peer learns that it is complete. Does not wait;
    /// [`stopped`](Self::stopped) tells when everything is delivered, or that the peer had stopped the stream before.
    ///
    /// Fails with [`WriteError::ClosedStream`] if the stream has been finished or reset, and with
    /// [`WriteError::Expired`] if its deadline has passed.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        if self.end.is_some() {
            return Err(WriteError::ClosedStream);
        }
        self.end_with(SendEnd::Finished)
    }

    /// Gives the stream up: nothing of it is sent any more, and the peer gets the error code. What was
    /// finished can still be reset.
    ///
    /// Fails with [`WriteError::ClosedStream`] if the stream has been reset.
    pub fn reset(&mut self, code: u64) -> Result<(), WriteError> {
        if matches!(self.end, Some(SendEnd::Reset(_))) {
            return Err(WriteError::ClosedStream);
        }
        self.end_with(SendEnd::Reset(code))
    }

    fn end_with(&mut self, end: SendEnd) -> Result<(), WriteError> {
        let id = self.id;
        self.connection.with(|access| {
            access.state.check()?;
            // The driver has to send afterwards.
            access.touch();
            access.state.end(access.core, access.handle, id, end, access.effects)?;
            access.set_deadline(id, None);
            Ok::<_, WriteError>(())
        })??;
        self.end = Some(end);
        Ok(())
    }

    /// Waits until the peer needs nothing more of the stream. `None` says that it was finished and that the
    /// peer has all of it; otherwise the peer has stopped the stream with this error code. Fails if the
    /// stream was reset, by this end or at its deadline, and when the connection is over before.
    ///
    /// The future borrows nothing: one task can wait for the peer to stop a stream while another writes to it, and
    /// several can. It is a handle of the connection, as the stream is, and goes on when the stream is dropped.
    ///
    /// Of a stream on which both ends send, full delivery is known when the other half has ended and was
    /// read or dropped, or else when nothing at all is in flight; see
    /// [`stream_delivered`](tacklib::Connection::stream_delivered). Cancellation safe.
    pub fn stopped(
        &self,
    ) -> impl Future<Output = Result<Option<u64>, WriteError>> + Send + Sync + 'static + use<>
    {
        // The stream is watched from now on, whether or not the future is polled before the handle is dropped.
        let watch = Watch::new(Arc::clone(&self.connection), self.id);
        async move { watch?.settled().await }
    }

    /// Sets when the data of the stream is worth nothing any more, or takes that back (`None`).
    ///
    /// A stream that is not finished at its deadline is reset with
    /// [`TackConfig::deadline_error`](tacklib::TackConfig::deadline_error): writing, finishing and
    /// [`stopped`](Self::stopped) fail with [`WriteError::Expired`], and a task that waits for room is woken with
    /// that. One that is finished is reset if some of it has not left by then, or turns out to be lost: see
    /// [`set_stream_deadline`](tacklib::Connection::set_stream_deadline).
    pub fn set_deadline(
        &mut self,
        deadline: Option<impl Into<Instant>>,
    ) -> Result<(), WriteError> {
        let (id, deadline) = (self.id, deadline.map(Into::into));
        self.connection.with(|access| {
            access.state.check()?;
            let Some(connection) = access.touch() else {
                return Err(ConnectionError::EndpointStopped.into());
            };
            connection.set_stream_deadline(id.value(), deadline).map_err(WriteError::Quic)?;
            access.set_deadline(id, deadline);
            Ok(())
        })?
    }

    /// Sets the order in which the streams of the connection are served: those of a lower urgency first (127
    /// without this call); of the same urgency those that are incremental in turns, the others one after the
    /// other (RFC 9218).
    pub fn set_priority(&mut self, urgency: u8, incremental: bool) -> Result<(), WriteError> {
        let id = self.id;
        self.connection.with(|access| {
            access.state.check()?;
            access.set_priority(id, (urgency, incremental))
        })?
    }

    /// [`write`](Self::write) for programs that poll: the last task that has polled is woken.
    pub fn poll_write_data(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        if self.end.is_some() {
            return Poll::Ready(Err(WriteError::ClosedStream));
        }
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let id = self.id;
        let poll = self.connection.with(|access| write(access, cx, id, data))?;
        if let Poll::Ready(Ok(len)) = poll {
            self.written += len as u64;
        }
        poll
    }

    /// [`stopped`](Self::stopped) for programs that poll: the last task that has polled is woken.
    pub fn poll_stopped(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<u64>, WriteError>> {
        let mut stopping = match self.stopping.take() {
            Some(stopping) => stopping,
            None => Box::pin(self.stopped()),
        };
        let poll = stopping.as_mut().poll(cx);
        if poll.is_pending() {
            self.stopping = Some(stopping);
        }
        poll
    }
}

/// Waits until a stream is stopped or delivered.
struct Watch {
    connection: Arc<ConnectionRef>,
    id: StreamId,
    signal: Arc<Notify>,
}

impl Watch {
    fn new(connection: Arc<ConnectionRef>, id: StreamId) -> Result<Self, WriteError> {
        let signal = connection.with(|access| access.state.watch(id))?;
        let signal = signal.ok_or(ConnectionError::EndpointStopped)?;
        Ok(Self { connection, id, signal })
    }

    async fn settled(&self) -> Result<Option<u64>, WriteError> {
        loop {
            // Listens before it looks: nothing is missed between the two.
            let mut signalled = pin!(self.signal.notified());
            signalled.as_mut().enable();
            let settled = self.connection.with(|access| settled(access, self.id))?;
            if let Poll::Ready(result) = settled {
                return result;
            }
            signalled.await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A connection that is lost has forgotten it.
        let _ = self.connection.with(|access| access.state.unwatch(self.id));
    }
}

/// What has become of a stream, or has those that watch it woken when that is known.
fn settled(access: &mut Access<'_>, id: StreamId) -> Poll<Result<Option<u64>, WriteError>> {
    let capacity =
        access.core.inspect(access.handle).map(|open| open.stream_capacity(id.value()));
    let Some(stream) = access.state.stream(id) else {
        return Poll::Ready(Err(ConnectionError::EndpointStopped.into()));
    };
    if matches!(stream.end, Some(SendEnd::Reset(_))) {
        return Poll::Ready(Err(WriteError::ClosedStream));
    }
    if stream.is_delivered {
        return Poll::Ready(Ok(None));
    }
    if let Some(Err(quiche::Error::StreamStopped(code))) = capacity {
        stream.on_stopped(code, access.effects);
    }
    if let Some(code) = stream.stopped {
        return Poll::Ready(Ok(Some(code)));
    }
    if stream.expired {
        return Poll::Ready(Err(WriteError::Expired));
    }
    if access.state.is_delivered(access.core, access.handle, id) {
        return Poll::Ready(Ok(None));
    }
    access.state.wait_for(id);
    pending_unless_over(access)
}

fn pending_unless_over<T>(access: &Access<'_>) -> Poll<Result<T, WriteError>> {
    match access.state.check() {
        Ok(()) => Poll::Pending,
        Err(error) => Poll::Ready(Err(error.into())),
    }
}

/// Writes what there is room for, or has the task woken when there is some.
fn write(
    access: &mut Access<'_>,
    cx: &mut Context<'_>,
    id: StreamId,
    data: &[u8],
) -> Poll<Result<usize, WriteError>> {
    if let Err(error) = access.state.check() {
        return Poll::Ready(Err(error.into()));
    }
    if access.has_expired(id) {
        return Poll::Ready(Err(WriteError::Expired));
    }
    access.state.apply_priority(access.core, access.handle, id);
    let Some(connection) = access.touch() else {
        return Poll::Ready(Err(ConnectionError::EndpointStopped.into()));
    };
    let sent = connection.stream_send(id.value(), data, false);
    // This end has not ended it.
    let is_gone = sent.is_err() && connection.stream_closed(id.value());
    let Some(stream) = access.state.stream(id) else {
        return Poll::Ready(Err(ConnectionError::EndpointStopped.into()));
    };
    if let Err(quiche::Error::StreamStopped(code)) = sent {
        stream.on_stopped(code, access.effects);
    }
    if let Some(code) = stream.stopped {
        return Poll::Ready(Err(WriteError::Stopped(code)));
    }
    if stream.expired {
        return Poll::Ready(Err(WriteError::Expired));
    }
    match sent {
        Ok(len) if len > 0 => {
            access.state.on_written(id);
            Poll::Ready(Ok(len))
        }
        Err(_) if is_gone => Poll::Ready(Err(WriteError::ClosedStream)),
        // No room; or the peer has opened the stream by a later one, and nothing of it has come.
        Ok(_) | Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => {
            let old = stream.writer.replace(cx.waker().clone());
            access.effects.drop_later(old);
            access.state.wait_for(id);
            Poll::Pending
        }
        Err(error) => Poll::Ready(Err(WriteError::Quic(error))),
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_data(cx, data).map_err(Into::into)
    }

    /// Does nothing: what was written leaves as soon as it may.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Finishes the stream, and does not wait for its delivery.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.finish() {
            Ok(()) => Ok(()),
            Err(WriteError::ClosedStream) if self.end == Some(SendEnd::Finished) => Ok(()),
            Err(error) => Err(error.into()),
        })
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        // Fails if the stream has ended, or the connection has.
        let _ = self.finish();
        let id = self.id;
        let _ = self.connection.with(|access| {
            access.set_deadline(id, None);
            access.state.drop_half(id, true, access.effects);
        });
    }
}
