//! Streams and DATAGRAMs: quiche's calls, within the layer's send buffer and seen by the layer.

use bytes::BufMut;
use quiche::{BufFactory, BufSplit, Shutdown, StreamIter};

use super::Connection;
use super::send_credits::CreditReason;
use crate::quiche_compat::{
    Dropped, Seam, WrittenState, drop_readable, error_code, is_over, request_carrier,
};

impl<F: BufFactory> Connection<F> {
    /// Writes stream data, as [`quiche::Connection::stream_send`].
    ///
    /// Takes no more than [`stream_capacity`](Self::stream_capacity), and
    /// [`quiche::Error::Done`] asks to wait.
    pub fn stream_send(
        &mut self,
        stream_id: u64,
        buf: &[u8],
        fin: bool,
    ) -> quiche::Result<usize> {
        if !self.is_enabled() {
            return self.inner.stream_send(stream_id, buf, fin);
        }
        let len = buf.len().min(self.writable_len(stream_id, buf.len())?);
        let fin = fin && len == buf.len();
        let sent = self.inner.stream_send(stream_id, &buf[..len], fin);
        let sent = self.follow_refusal(stream_id, sent)?;
        if len < buf.len() {
            self.block_stream(stream_id, 1);
        }
        self.on_written(stream_id, sent, fin && sent == len);
        Ok(sent)
    }

    /// Writes a buffer of the buffer factory's without a copy.
    ///
    /// As [`quiche::Connection::stream_send_zc`], within the send buffer: the rest of the buffer is
    /// returned.
    pub fn stream_send_zc(
        &mut self,
        stream_id: u64,
        mut buf: F::Buf,
        fin: bool,
    ) -> quiche::Result<(usize, Option<F::Buf>)>
    where
        F::Buf: BufSplit,
    {
        if !self.is_enabled() {
            return self.inner.stream_send_zc(stream_id, buf, fin);
        }
        let len = buf.as_ref().len();
        let room = self.writable_len(stream_id, len)?;
        // What quiche takes as a whole leaves one remainder and not two.
        let rest = (room < len).then(|| buf.split_at(room));
        let fin = fin && rest.is_none();
        let sent = self.inner.stream_send_zc(stream_id, buf, fin);
        let (sent, refused) = self.follow_refusal(stream_id, sent)?;
        if rest.is_some() {
            self.block_stream(stream_id, 1);
        }
        // quiche returns an empty buffer although it has taken the end.
        let is_taken = refused.as_ref().is_none_or(|refused| refused.as_ref().is_empty());
        self.on_written(stream_id, sent, fin && is_taken);
        Ok((sent, refused.or(rest)))
    }

    /// Resets a stream, or stops reading from it, as [`quiche::Connection::stream_shutdown`]. What a
    /// reset stream has not sent leaves the send buffer at once. An error code above 2^62 - 1 is told as that.
    pub fn stream_shutdown(
        &mut self,
        stream_id: u64,
        direction: Shutdown,
        error: u64,
    ) -> quiche::Result<()> {
        let error = error_code(error);
        if direction == Shutdown::Read && self.is_enabled() {
            return self.stop_reading(stream_id, error);
        }
        let is_reset = direction == Shutdown::Write;
        if is_reset {
            self.seam.send_buffer.unblock(stream_id);
        }
        self.inner.stream_shutdown(stream_id, direction, error)?;
        if is_reset {
            self.seam.send_buffer.on_dropped(stream_id);
            self.seam.stream_ends.on_reset(stream_id);
            self.seam.given_up_requests.on_reset(stream_id);
            self.pending.on_streams_ended(true);
        }
        self.on_control_frame();
        Ok(())
    }

    /// Reads no more of a stream, and asks the peer to stop sending on it if its end has not come.
    fn stop_reading(&mut self, stream_id: u64, error: u64) -> quiche::Result<()> {
        if self.is_send_only(stream_id) {
            return Err(quiche::Error::InvalidStreamState(stream_id));
        }
        let is_unknown = !self.seam.stopped_streams.contains(stream_id)
            && self.inner.stream_capacity(stream_id)
                == Err(quiche::Error::InvalidStreamState(stream_id));
        if is_unknown || self.stopped_reads().contains(stream_id) {
            return Err(quiche::Error::Done);
        }
        self.stopped_reads().count();
        self.seam.late_resets.forget(stream_id);
        let dropped = drop_readable(&mut self.inner, stream_id);
        if !dropped.is_over {
            self.stopped_reads().insert(stream_id, error);
        }
        self.on_dropped(stream_id, dropped);
        self.on_control_frame();
        Ok(())
    }

    /// Something of a stream that this end reads no more was dropped: it counts as read, and a window may have to be
    /// announced.
    pub(super) fn on_dropped(&mut self, stream_id: u64, dropped: Dropped) {
        if dropped.is_over {
            self.stopped_reads().remove(stream_id);
            self.seam.late_resets.forget(stream_id);
            if let Some(layer) = &mut self.layer {
                layer.late_fills().forget(stream_id);
            }
            self.seam.given_up_requests.on_over(stream_id);
        }
        self.on_read(stream_id, (dropped.len, dropped.is_over));
    }

    /// Bytes of a stream that can be read, `max_len` at most, as [`quiche::Connection::stream_readable_len`]. None of
    /// one that the peer has reset, of which a read tells that.
    pub fn stream_readable_len(&self, stream_id: u64, max_len: usize) -> usize {
        if self.seam.late_resets.contains(stream_id) {
            return 0;
        }
        self.inner.stream_readable_len(stream_id, max_len)
    }

    /// Reads stream data, as [`quiche::Connection::stream_recv`].
    pub fn stream_recv(
        &mut self,
        stream_id: u64,
        out: &mut [u8],
    ) -> quiche::Result<(usize, bool)> {
        if let Some(reset) = self.take_late_reset(stream_id) {
            return Err(reset);
        }
        let read = self.inner.stream_recv(stream_id, out);
        self.on_read_result(stream_id, read)
    }

    /// Reads stream data into a buffer, as [`quiche::Connection::stream_recv_buf`].
    pub fn stream_recv_buf<B: BufMut>(
        &mut self,
        stream_id: u64,
        out: B,
    ) -> quiche::Result<(usize, bool)> {
        if let Some(reset) = self.take_late_reset(stream_id) {
            return Err(reset);
        }
        let read = self.inner.stream_recv_buf(stream_id, out);
        self.on_read_result(stream_id, read)
    }

    /// Reads stream data and throws it away, as [`quiche::Connection::stream_discard`].
    pub fn stream_discard(
        &mut self,
        stream_id: u64,
        len: usize,
    ) -> quiche::Result<(usize, bool)> {
        if let Some(reset) = self.take_late_reset(stream_id) {
            return Err(reset);
        }
        let read = self.inner.stream_discard(stream_id, len);
        self.on_read_result(stream_id, read)
    }

    /// What [`stream_send`](Self::stream_send) would take now, bytes.
    ///
    /// As [`quiche::Connection::stream_capacity`], and within the send buffer.
    pub fn stream_capacity(&mut self, stream_id: u64) -> quiche::Result<usize> {
        let capacity = self.inner.stream_capacity(stream_id);
        let capacity = self.follow_refusal(stream_id, capacity)?;
        if self.is_enabled() {
            Ok(capacity.min(self.seam.send_buffer.room()))
        } else {
            Ok(capacity)
        }
    }

    /// Whether `len` bytes can be written, as [`quiche::Connection::stream_writable`].
    pub fn stream_writable(&mut self, stream_id: u64, len: usize) -> quiche::Result<bool> {
        let writable = self.inner.stream_writable(stream_id, len);
        let writable = self.follow_refusal(stream_id, writable)?;
        if !self.is_enabled() {
            return Ok(writable);
        }
        if !writable {
            // quiche has DATA_BLOCKED or STREAM_DATA_BLOCKED to send.
            self.on_control_frame();
        } else if self.seam.send_buffer.room() < len {
            self.block_stream(stream_id, len);
            return Ok(false);
        }
        Ok(writable)
    }

    /// The next stream that can be written to.
    ///
    /// As [`quiche::Connection::stream_writable_next`], and each that the peer has stopped, so that writing to it
    /// tells that.
    pub fn stream_writable_next(&mut self) -> Option<u64> {
        if !self.is_enabled() {
            return self.inner.stream_writable_next();
        }
        if let Some(stream_id) = self.seam.stopped_streams.take_unlisted() {
            return Some(stream_id);
        }
        if self.seam.send_buffer.room() == 0 {
            return None;
        }
        if let Some(stream_id) = self.stream_unblocked_next() {
            return Some(stream_id);
        }
        // Those that still wait for room are on quiche's list, too.
        loop {
            let stream_id = self.inner.stream_writable_next()?;
            if !self.seam.send_buffer.is_blocked(stream_id) {
                return Some(stream_id);
            }
        }
    }

    /// Takes a stream that was refused for lack of room and can be written to now.
    ///
    /// As [`stream_writable_next`](Self::stream_writable_next), but leaves quiche's own list of writable streams
    /// alone: of a stream that was taken from there quiche (0.30) may never tell that the peer has stopped it.
    pub fn stream_unblocked_next(&mut self) -> Option<u64> {
        if !self.is_enabled() || self.seam.send_buffer.room() == 0 {
            return None;
        }
        let Seam { send_buffer, stopped_streams, .. } = &mut self.seam;
        send_buffer.take_unblocked(&mut self.inner, stopped_streams)
    }

    /// The streams that can be written to, as [`quiche::Connection::writable`].
    ///
    /// None while the send buffer is full.
    pub fn writable(&self) -> StreamIter {
        if self.is_enabled() && self.seam.send_buffer.room() == 0 {
            return StreamIter::default();
        }
        self.inner.writable()
    }

    /// Takes a stream that the peer has stopped (STOP_SENDING).
    ///
    /// Its error code is in the [`quiche::Error::StreamStopped`] of [`stream_capacity`](Self::stream_capacity), if
    /// that is asked before the reset that answers is acknowledged: quiche (0.30) may forget the stream then. Of more
    /// than 4,096 that were not asked for the last ones are told; of streams stopped before the handshake is done,
    /// and with [`Profile::Off`](crate::Profile::Off), none is.
    pub fn stream_stopped_next(&mut self) -> Option<u64> {
        self.seam.stopped_streams.take_untold()
    }

    /// Whether the peer has acknowledged all of a stream whose end was written.
    ///
    /// quiche (0.30) tells that of unidirectional streams, and of bidirectional ones whose other half has
    /// ended and was read. Of any other stream it is known once nothing at all is unsent or in flight, and
    /// with [`Profile::Off`](crate::Profile::Off) not even then. A stream that has never been opened, or that the peer
    /// has stopped before, is not delivered.
    pub fn stream_delivered(&mut self, stream_id: u64) -> bool {
        if self.seam.stream_ends.is_pending(stream_id)
            || self.deadlines.overdue.is_open(stream_id)
            || self.seam.stopped_streams.contains(stream_id)
        {
            return false;
        }
        if self.seam.stopped_streams.is_forgotten(&mut self.inner, stream_id) {
            return true;
        }
        let is_known = self.inner.stream_capacity(stream_id).is_ok();
        is_known && self.has_all_acknowledged() && !self.seam.send_buffer.has_unsent(stream_id)
    }

    /// How much of `wanted` bytes quiche and the send buffer take.
    fn writable_len(&mut self, stream_id: u64, wanted: usize) -> quiche::Result<usize> {
        if wanted == 0 {
            return Ok(0);
        }
        let room = self.seam.send_buffer.room();
        let capacity = self.inner.stream_capacity(stream_id);
        let capacity = match self.follow_refusal(stream_id, capacity) {
            // Not opened yet: quiche opens it.
            Err(quiche::Error::InvalidStreamState(_)) => {
                self.deadlines.overdue.on_opening(stream_id);
                if room == 0 {
                    let opened = self.inner.stream_send(stream_id, b"", false);
                    match self.follow_refusal(stream_id, opened) {
                        // It waits for the peer's flow control as well.
                        Err(quiche::Error::Done) => {}
                        opened => drop(opened?),
                    }
                }
                room
            }
            result => result?.min(room),
        };
        if capacity == 0 {
            if self.is_receive_only(stream_id) {
                return Err(quiche::Error::InvalidStreamState(stream_id));
            }
            // quiche is not asked: it would queue a DATA_BLOCKED for each time.
            self.block_stream(stream_id, 1);
            return Err(quiche::Error::Done);
        }
        Ok(capacity)
    }

    /// Whether only this end can write to a stream.
    fn is_send_only(&self, stream_id: u64) -> bool {
        let (is_unidirectional, is_servers) = (stream_id & 2 != 0, stream_id & 1 != 0);
        is_unidirectional && is_servers == self.inner.is_server()
    }

    /// Whether only the peer can write to a stream (RFC 9000 section 2.1).
    pub(super) fn is_receive_only(&self, stream_id: u64) -> bool {
        let (is_unidirectional, is_servers) = (stream_id & 2 != 0, stream_id & 1 != 0);
        is_unidirectional && is_servers != self.inner.is_server()
    }

    /// What quiche has said of a stream that was to be written to. With some of its refusals it has something to send.
    #[inline]
    fn follow_refusal<T>(
        &mut self,
        stream_id: u64,
        result: quiche::Result<T>,
    ) -> quiche::Result<T> {
        match result {
            Err(quiche::Error::StreamStopped(_)) => self.on_stream_over(stream_id),
            // STREAMS_BLOCKED, if the application has switched that on.
            Err(quiche::Error::StreamLimit) if self.is_enabled() => self.on_control_frame(),
            // It may be one that was stopped and that quiche has forgotten since.
            Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => {
                if let Some(stopped) = self.seam.stopped_streams.error(stream_id) {
                    return Err(stopped);
                }
            }
            _ => {}
        }
        result
    }

    /// The application has read all of a stream, or was told that it was reset or stopped: quiche may have done with it.
    pub(crate) fn on_stream_over(&mut self, stream_id: u64) {
        let Some(layer) = &mut self.layer else { return };
        if layer.gives_stream_back(&self.inner, stream_id) {
            self.credits.grant(CreditReason::StreamLimit);
        }
    }

    pub(super) fn on_written(&mut self, stream_id: u64, bytes: usize, fin: bool) {
        self.pending.add();
        if bytes > 0 {
            let end = self.seam.stream_ends.written(stream_id) + bytes as u64;
            self.seam.send_buffer.on_written(stream_id, end, bytes);
        }
        if bytes > 0 || fin {
            self.seam.stale_streams.on_written(&mut self.inner, stream_id);
        }
        let Seam { stream_ends, stale_streams, send_buffer, .. } = &mut self.seam;
        stream_ends.on_written(stream_id, bytes, fin, || WrittenState {
            has_left: !send_buffer.has_unsent(stream_id),
            is_repeating: stale_streams.is_repeating(),
        });
        self.pending.on_streams_ended(fin);
    }

    /// What the application is told of a stream that was reset behind its end.
    fn take_late_reset(&mut self, stream_id: u64) -> Option<quiche::Error> {
        let (error, dropped) = self.seam.late_resets.take(&mut self.inner, stream_id)?;
        self.on_dropped(stream_id, dropped);
        let lacks_more =
            self.layer.as_mut().is_some_and(|layer| layer.late_fills().on_told(stream_id));
        if lacks_more {
            self.ask_for_packet();
        }
        Some(error)
    }

    /// Has the peer send a packet: what reset streams lack goes in with one, and it may have none to send.
    pub(super) fn ask_for_packet(&mut self) {
        // It fails where nothing can leave.
        if request_carrier(&mut self.inner).is_ok() {
            self.on_control_frame();
        }
    }

    fn on_read_result(
        &mut self,
        stream_id: u64,
        read: quiche::Result<(usize, bool)>,
    ) -> quiche::Result<(usize, bool)> {
        if let Err(quiche::Error::StreamReset(_)) = &read {
            self.on_stream_over(stream_id);
        }
        Ok(self.on_read(stream_id, read?))
    }

    pub(super) fn on_read(
        &mut self,
        stream_id: u64,
        (read, fin): (usize, bool),
    ) -> (usize, bool) {
        let Some(mut layer) = self.layer.take() else { return (read, fin) };
        layer.windows().on_read(stream_id, read, &|id| is_over(&self.inner, id));
        if fin {
            let Seam { stream_ends, stopped_streams, .. } = &mut self.seam;
            let is_forgotten = || stopped_streams.is_forgotten(&mut self.inner, stream_id);
            stream_ends.settle_stream(stream_id, |pn| layer.was_delivered(pn), is_forgotten);
        }
        self.layer = Some(layer);
        if fin {
            self.on_stream_over(stream_id);
        }
        (read, fin)
    }
}
