//! The receiving half of a stream.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use tacklib::quiche;
use tokio::io::{AsyncRead, ReadBuf};

use crate::connection::{Access, ConnectionRef};
use crate::stream_id::StreamId;
use crate::stream_state::is_at_end;
use crate::{ConnectionError, ReadError, ReadToEndError};

/// The half of a stream that this end reads.
///
/// The peer may send as much ahead as the flow-control windows of the configuration let it, and gets new
/// credit for what is read: a reader that is slow holds up the peer and not the memory. When it is dropped
/// before its end, the stream is stopped with the error code 0.
pub struct RecvStream {
    connection: Arc<ConnectionRef>,
    id: StreamId,
    end: Option<End>,
    /// What a [`read_to_end`](Self::read_to_end) that was dropped had read.
    kept: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Everything was read.
    Finished,
    /// The peer's error code.
    Reset(u64),
    /// By this end.
    Stopped,
}

impl fmt::Debug for RecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RecvStream");
        debug.field("id", &self.id).field("end", &self.end).finish_non_exhaustive()
    }
}

impl RecvStream {
    pub(crate) fn new(connection: Arc<ConnectionRef>, id: StreamId) -> Self {
        Self { connection, id, end: None, kept: BytesMut::new() }
    }

    /// The stream's id.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Reads what has come into the buffer, and returns how many bytes that are; waits while there is
    /// nothing. `None` is the end of the stream.
    ///
    /// Cancellation safe: a future that is dropped has read nothing.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        poll_fn(|cx| self.poll_read_data(cx, buffer)).await
    }

    /// [`read`](Self::read) for programs that poll: the last task that has polled is woken.
    pub fn poll_read_data(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        let mut buffer = ReadBuf::new(buffer);
        let poll = self.poll_read_into(cx, &mut buffer);
        poll.map_ok(|is_end| (!is_end).then_some(buffer.filled().len()))
    }

    /// Reads what has come, at most `max_len` bytes of it; waits while there is nothing. `None` is the end of
    /// the stream.
    ///
    /// Cancellation safe: a future that is dropped has read nothing.
    pub async fn read_chunk(&mut self, max_len: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|cx| self.poll_read_chunk(cx, max_len)).await
    }

    /// Reads the rest of the stream. Fails if that is longer than `limit` bytes; the stream goes on then
    /// where this has begun.
    ///
    /// Cancellation safe: what a future that is dropped had read is read again.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = ReadToEnd { data: std::mem::take(&mut self.kept), stream: self };
        if all.data.len() > limit {
            return Err(ReadToEndError::TooLong(limit));
        }
        loop {
            // One byte more tells whether there are more.
            let wanted = limit.saturating_sub(all.data.len()).saturating_add(1);
            let Some(chunk) = all.stream.read_chunk(wanted.min(LARGEST_CHUNK)).await? else {
                return Ok(std::mem::take(&mut all.data).into());
            };
            all.data.put(chunk);
            if all.data.len() > limit {
                return Err(ReadToEndError::TooLong(limit));
            }
        }
    }

    /// Waits until nothing more can come, and reads nothing: `Some` is the error code of the peer's reset, `None`
    /// says that the stream was read to its end or stopped by this end. Cancellation safe.
    pub async fn received_reset(&mut self) -> Result<Option<u64>, ReadError> {
        poll_fn(|cx| self.poll_received_reset(cx)).await
    }

    /// Tells the peer that no more of the stream is wanted (STOP_SENDING), and throws away what has come.
    ///
    /// With [`Profile::Off`](tacklib::Profile::Off) quiche (0.30) does not give the peer another stream for one on which
    /// only the peer sends and which was stopped before its end had come.
    ///
    /// Fails with [`ReadError::ClosedStream`] if the stream has been stopped, and does nothing at its end.
    pub fn stop(&mut self, code: u64) -> Result<(), ReadError> {
        match self.end {
            Some(End::Stopped) => return Err(ReadError::ClosedStream),
            Some(_) => return Ok(()),
            None => {}
        }
        let id = self.id;
        self.connection.with(|access| {
            access.state.check()?;
            // The driver has to send afterwards.
            access.touch();
            access.state.stop(access.core, access.handle, id, code, access.effects);
            Ok::<_, ConnectionError>(())
        })??;
        self.kept.clear();
        self.end = Some(End::Stopped);
        Ok(())
    }

    /// Whether the stream is at its end, or how it was given up.
    fn check_end(&self) -> Result<bool, ReadError> {
        match self.end {
            None => Ok(false),
            Some(End::Finished) => Ok(true),
            Some(End::Reset(code)) => Err(ReadError::Reset(code)),
            Some(End::Stopped) => Err(ReadError::ClosedStream),
        }
    }

    /// Reads into a buffer; tells whether the stream was at its end instead.
    fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<bool, ReadError>> {
        if !self.kept.is_empty() {
            let len = self.kept.len().min(buffer.remaining());
            buffer.put_slice(&self.kept.split_to(len));
            return Poll::Ready(Ok(false));
        }
        if self.check_end()? {
            return Poll::Ready(Ok(true));
        }
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(false));
        }
        let id = self.id.value();
        let poll = self.poll_recv(cx, |connection| {
            let (len, is_end) = connection.stream_recv(id, buffer.initialize_unfilled())?;
            buffer.advance(len);
            Ok((len, is_end, ()))
        });
        poll.map_ok(|(len, ())| len == 0)
    }

    /// [`read_chunk`](Self::read_chunk) for programs that poll: the last task that has polled is woken.
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max_len: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        if !self.kept.is_empty() {
            let len = self.kept.len().min(max_len);
            return Poll::Ready(Ok(Some(self.kept.split_to(len).freeze())));
        }
        if self.check_end()? {
            return Poll::Ready(Ok(None));
        }
        if max_len == 0 {
            return Poll::Ready(Ok(Some(Bytes::new())));
        }
        let id = self.id.value();
        let poll = self.poll_recv(cx, |connection| {
            let len = connection.stream_readable_len(id, max_len);
            let mut chunk = BytesMut::with_capacity(len);
            let (len, is_end) = connection.stream_recv_buf(id, (&mut chunk).limit(len))?;
            Ok((len, is_end, chunk.freeze()))
        });
        poll.map_ok(|(len, chunk)| (len > 0).then_some(chunk))
    }

    /// [`received_reset`](Self::received_reset) for programs that poll: the last task that has polled is
    /// woken.
    pub fn poll_received_reset(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<u64>, ReadError>> {
        let id = self.id;
        if self.end.is_none() {
            let ended = self.connection.with(|access| {
                if access.look().is_some_and(|open| is_at_end(open, id.value())) {
                    let end = access.touch().map(|open| open.stream_recv(id.value(), &mut []));
                    access.on_read_to_end(id);
                    return Poll::Ready(Ok(end));
                }
                if let Some(stream) = access.state.stream(id) {
                    let old = stream.end_watcher.replace(cx.waker().clone());
                    access.effects.drop_later(old);
                }
                access.state.wait_for_end(id);
                match access.state.check() {
                    Ok(()) => Poll::Pending,
                    Err(error) => Poll::Ready(Err(error)),
                }
            })?;
            let Poll::Ready(end) = ended else { return Poll::Pending };
            self.end = match end? {
                Some(Err(quiche::Error::StreamReset(code))) => Some(End::Reset(code)),
                Some(Err(error)) => return Poll::Ready(Err(ReadError::Quic(error))),
                _ => Some(End::Finished),
            };
        }
        Poll::Ready(Ok(match self.end {
            Some(End::Reset(code)) => Some(code),
            _ => None,
        }))
    }

    /// Reads, or has the task woken when there is something. Zero bytes are the end of the stream.
    fn poll_recv<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut tacklib::Connection) -> quiche::Result<(usize, bool, T)>,
    ) -> Poll<Result<(usize, T), ReadError>> {
        let id = self.id;
        let received = self.connection.with(|access| {
            let is_readable =
                access.look().is_some_and(|open| open.stream_readable(id.value()));
            if is_readable && let Some(connection) = access.touch() {
                match read(connection) {
                    // Nothing, and not the end either.
                    Ok((0, false, _)) | Err(quiche::Error::Done) => {}
                    result => {
                        if !matches!(result, Ok((_, false, _))) {
                            access.on_read_to_end(id);
                        }
                        return Poll::Ready(Ok(result));
                    }
                }
            }
            wait_to_read(access, cx, id)
        })?;
        let Poll::Ready(result) = received else { return Poll::Pending };
        match result? {
            Ok((len, is_end, out)) => {
                if is_end {
                    self.end = Some(End::Finished);
                }
                Poll::Ready(Ok((len, out)))
            }
            Err(quiche::Error::StreamReset(code)) => {
                self.end = Some(End::Reset(code));
                Poll::Ready(Err(ReadError::Reset(code)))
            }
            Err(error) => Poll::Ready(Err(ReadError::Quic(error))),
        }
    }
}

/// Has the task woken when the stream becomes readable, unless nothing more can come.
fn wait_to_read<T>(
    access: &mut Access<'_>,
    cx: &mut Context<'_>,
    id: StreamId,
) -> Poll<Result<T, ReadError>> {
    if let Err(error) = access.state.check() {
        return Poll::Ready(Err(error.into()));
    }
    if let Some(stream) = access.state.stream(id) {
        let old = stream.reader.replace(cx.waker().clone());
        access.effects.drop_later(old);
    }
    Poll::Pending
}

/// The most that one step of [`RecvStream::read_to_end`] takes at once, bytes.
const LARGEST_CHUNK: usize = 1 << 20;

/// Gives back what was read if it is dropped before the end.
struct ReadToEnd<'a> {
    data: BytesMut,
    stream: &'a mut RecvStream,
}

impl Drop for ReadToEnd<'_> {
    fn drop(&mut self) {
        self.stream.kept = std::mem::take(&mut self.data);
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read_into(cx, buffer).map_ok(|_| ()).map_err(Into::into)
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        // Fails if the stream has been stopped, or the connection is over.
        let _ = self.stop(0);
        let id = self.id;
        let _ =
            self.connection.with(|access| access.state.drop_half(id, false, access.effects));
    }
}
