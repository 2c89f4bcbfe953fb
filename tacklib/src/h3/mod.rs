//! HTTP/3, as [`quiche::h3`], over a [`tacklib::Connection`](crate::Connection).
//!
//! [`Connection`] has the methods of [`quiche::h3::Connection`] and hands all work to one. It tells the
//! layer what each call has read and written, which that can't see through a
//! `&mut quiche::Connection`, and holds bodies to the layer's send buffer. Everything else here is
//! quiche's own:
//!
//! ```no_run
//! use tacklib::h3::{self, NameValue};
//!
//! # fn serve(connection: &mut tacklib::Connection) -> Result<(), h3::Error> {
//! let mut http = h3::Connection::with_transport(connection, &h3::Config::new()?)?;
//! while let Ok((stream, event)) = http.poll(connection) {
//!     if let h3::Event::Headers { list, .. } = event {
//!         let path = list.iter().find(|header| header.name() == b":path");
//!         let status = if path.is_some() { b"200" } else { b"400" };
//!         let head = [h3::Header::new(b":status", status)];
//!         http.send_response(connection, stream, &head, false)?;
//!         http.send_body(connection, stream, b"hello", true)?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod followed;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use bytes::BufMut;
pub use quiche::h3::*;
use quiche::{BufFactory, BufSplit};

use crate::quiche_compat::GivenUp;
use followed::{Reads, Written};

/// Most bytes that opening one stream of HTTP/3's own writes: its type and SETTINGS.
const LONGEST_OPENING: usize = 256;

/// Room for a byte in a DATA frame, whatever its header: a type of one byte, and the longest length (RFC 9114
/// section 7.1, RFC 9000 section 16).
const LEAST_ROOM_FOR_DATA: usize = 1 + 8 + 1;

/// The HTTP/3 connection, as [`quiche::h3::Connection`].
///
/// The methods are quiche's, and so are their errors. Two things differ where the send buffer of
/// the layer ([`TackConfig::send_buffer`](crate::TackConfig::send_buffer)) is full: bodies are taken
/// only as far as there is room, and HEADERS are refused with [`Error::StreamBlocked`]. As with
/// quiche, call again when the stream is reported as writable.
pub struct Connection {
    inner: quiche::h3::Connection,
    next_request: u64,
    has_goaway: bool,
    reads: Reads,
    /// Requests that were given up and of whose end quiche may yet tell.
    forgotten: HashSet<u64>,
}

impl Connection {
    /// Opens HTTP/3's own streams, as [`quiche::h3::Connection::with_transport`].
    pub fn with_transport<F: BufFactory>(
        conn: &mut crate::Connection<F>,
        config: &Config,
    ) -> Result<Self> {
        let inner = quiche::h3::Connection::with_transport(conn.followed(), config);
        note_openings(conn);
        Ok(Self {
            inner: inner?,
            next_request: 0,
            has_goaway: false,
            reads: Reads::default(),
            forgotten: HashSet::new(),
        })
    }

    /// Sends a request, as [`quiche::h3::Connection::send_request`].
    pub fn send_request<T: NameValue, F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        headers: &[T],
        fin: bool,
    ) -> Result<u64> {
        let stream_id = self.next_request;
        if !self.has_goaway {
            if conn.send_room() == 0 {
                conn.block_stream(stream_id, 1);
                return Err(Error::StreamBlocked);
            }
            // As quiche does first: the capacity of a stream is known once it exists. Where this
            // fails, it fails again below.
            let _ = conn.followed().stream_send(stream_id, b"", false);
        }
        let inner = &mut self.inner;
        let sent =
            follow_write(conn, stream_id, fin, |quic| inner.send_request(quic, headers, fin))?;
        self.next_request = sent + 4;
        Ok(sent)
    }

    /// Sends a response, as [`quiche::h3::Connection::send_response`].
    pub fn send_response<T: NameValue, F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        headers: &[T],
        fin: bool,
    ) -> Result<()> {
        self.send_response_with_priority(conn, stream_id, headers, &Priority::default(), fin)
    }

    /// Sends a response, as [`quiche::h3::Connection::send_response_with_priority`].
    pub fn send_response_with_priority<T: NameValue, F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        headers: &[T],
        priority: &Priority,
        fin: bool,
    ) -> Result<()> {
        refuse_without_room(conn, stream_id)?;
        let inner = &mut self.inner;
        follow_write(conn, stream_id, fin, |quic| {
            inner.send_response_with_priority(quic, stream_id, headers, priority, fin)
        })
    }

    /// Sends trailers or another head, as [`quiche::h3::Connection::send_additional_headers`].
    pub fn send_additional_headers<T: NameValue, F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        headers: &[T],
        is_trailer_section: bool,
        fin: bool,
    ) -> Result<()> {
        refuse_without_room(conn, stream_id)?;
        let inner = &mut self.inner;
        follow_write(conn, stream_id, fin, |quic| {
            inner.send_additional_headers(quic, stream_id, headers, is_trailer_section, fin)
        })
    }

    /// Sends trailers or another head, as
    /// [`quiche::h3::Connection::send_additional_headers_with_priority`].
    pub fn send_additional_headers_with_priority<T: NameValue, F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        headers: &[T],
        priority: &Priority,
        is_trailer_section: bool,
        fin: bool,
    ) -> Result<()> {
        refuse_without_room(conn, stream_id)?;
        let inner = &mut self.inner;
        follow_write(conn, stream_id, fin, |quic| {
            inner.send_additional_headers_with_priority(
                quic,
                stream_id,
                headers,
                priority,
                is_trailer_section,
                fin,
            )
        })
    }

    /// Sends a part of a body, as [`quiche::h3::Connection::send_body`], as far as the send buffer
    /// has room.
    pub fn send_body<F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        body: &[u8],
        fin: bool,
    ) -> Result<usize> {
        let taken = &body[..body.len().min(followed::payload_within(conn.send_room()))];
        let is_whole = taken.len() == body.len();
        // quiche checks the stream before it refuses an empty part without an end.
        let result = self.inner.send_body(conn.followed(), stream_id, taken, fin && is_whole);
        if !is_whole && matches!(result, Ok(_) | Err(Error::Done)) {
            conn.block_stream(stream_id, LEAST_ROOM_FOR_DATA);
        }
        let written = follow_stop(conn, stream_id, result)?;
        Written::data(written, fin && written == body.len()).tell(conn, stream_id);
        Ok(written)
    }

    /// Sends a part of a body without a copy, as [`quiche::h3::Connection::send_body_zc`].
    ///
    /// It takes what the send buffer has room for: `body` becomes what is left of it.
    pub fn send_body_zc<F>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        body: &mut F::Buf,
        fin: bool,
    ) -> Result<usize>
    where
        F: BufFactory,
        F::Buf: BufSplit,
    {
        if !conn.has_send_buffer() {
            // quiche tells itself when there is room again.
            return self.inner.send_body_zc(conn.followed(), stream_id, body, fin);
        }
        let capacity = conn.followed().stream_capacity(stream_id);
        if matches!(capacity, Err(quiche::Error::StreamStopped(_))) {
            let refused = self.inner.send_body(conn.followed(), stream_id, &[], true);
            return follow_stop(conn, stream_id, with_news(capacity, refused));
        }
        let capacity = capacity.unwrap_or(usize::MAX);
        let fits = followed::payload_within(conn.send_room().min(capacity));
        let len = body.as_ref().len();
        if len <= fits {
            let written = self.inner.send_body_zc(conn.followed(), stream_id, body, fin)?;
            Written::data(written, fin && written == len).tell(conn, stream_id);
            return Ok(written);
        }
        conn.block_stream(stream_id, LEAST_ROOM_FOR_DATA);
        // quiche checks the stream before it refuses an empty part without an end, and `body` stays whole where it may
        // not be sent.
        match self.inner.send_body(conn.followed(), stream_id, &[], false) {
            Err(Error::Done) if fits > 0 => {}
            refused => return refused,
        }
        let rest = body.split_at(fits);
        let written = self.inner.send_body_zc(conn.followed(), stream_id, body, false)?;
        *body = rest;
        Written::data(written, false).tell(conn, stream_id);
        Ok(written)
    }

    /// Whether the peer takes datagrams, as [`quiche::h3::Connection::dgram_enabled_by_peer`].
    pub fn dgram_enabled_by_peer<F: BufFactory>(&self, conn: &crate::Connection<F>) -> bool {
        self.inner.dgram_enabled_by_peer(conn)
    }

    /// Whether the peer takes extended CONNECT.
    ///
    /// As [`quiche::h3::Connection::extended_connect_enabled_by_peer`].
    pub fn extended_connect_enabled_by_peer(&self) -> bool {
        self.inner.extended_connect_enabled_by_peer()
    }

    /// Reads from a body, as [`quiche::h3::Connection::recv_body`].
    pub fn recv_body<F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        out: &mut [u8],
    ) -> Result<usize> {
        self.recv_body_buf(conn, stream_id, out)
    }

    /// Reads from a body, as [`quiche::h3::Connection::recv_body_buf`].
    pub fn recv_body_buf<F: BufFactory, OUT: BufMut>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        out: OUT,
    ) -> Result<usize> {
        self.reads.before_body(conn, stream_id, out.remaining_mut());
        let result = self.inner.recv_body_buf(conn.followed(), stream_id, out);
        self.reads.tell(conn, result.unwrap_or(0));
        result
    }

    /// Sends PRIORITY_UPDATE, as
    /// [`quiche::h3::Connection::send_priority_update_for_request`].
    pub fn send_priority_update_for_request<F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        priority: &Priority,
    ) -> Result<()> {
        let inner = &mut self.inner;
        let control = control_stream(conn);
        follow_write(conn, control, false, |quic| {
            inner.send_priority_update_for_request(quic, stream_id, priority)
        })
    }

    /// Takes the last PRIORITY_UPDATE, as
    /// [`quiche::h3::Connection::take_last_priority_update`].
    pub fn take_last_priority_update(
        &mut self,
        prioritized_element_id: u64,
    ) -> Result<Vec<u8>> {
        self.inner.take_last_priority_update(prioritized_element_id)
    }

    /// Reads what has come and returns the next event, as [`quiche::h3::Connection::poll`].
    pub fn poll<F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
    ) -> Result<(u64, Event)> {
        for request in conn.take_given_up_requests() {
            self.forget(conn, request);
        }
        let result = loop {
            self.reads.before_poll(conn);
            let result = self.inner.poll(conn.followed());
            self.reads.tell(conn, 0);
            match result {
                Ok((stream_id, Event::Finished)) if self.forgotten.contains(&stream_id) => {}
                result => break result,
            }
        };
        if matches!(result, Err(Error::Done)) {
            // All such events have been told.
            self.forgotten.clear();
        }
        match &result {
            Ok((_, Event::GoAway)) => self.has_goaway = true,
            Ok((stream_id, Event::Data)) => self.reads.on_data_event(conn, *stream_id),
            _ => {}
        }
        result
    }

    /// Has quiche drop what it has of a request that the transport has done with.
    fn forget<F: BufFactory>(&mut self, conn: &mut crate::Connection<F>, request: GivenUp) {
        let GivenUp { stream_id, may_be_answered } = request;
        let (quic, http) = (conn.followed(), &mut self.inner);
        // It does so where it finds that nothing can be written to the stream and all was read: where the answer has not
        // begun by its head, and then by its body. Of the others it has already.
        if !may_be_answered {
            let _ = http.send_response::<Header, F>(quic, stream_id, &[], true);
        }
        let _ = http.send_body(quic, stream_id, &[], true);
        // Behind trailers no body follows: what is left then goes with the event that tells of the end, which is not
        // the application's.
        let _ = http.recv_body(quic, stream_id, &mut []);
        self.forgotten.insert(stream_id);
    }

    /// Sends GOAWAY, as [`quiche::h3::Connection::send_goaway`].
    pub fn send_goaway<F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        id: u64,
    ) -> Result<()> {
        let inner = &mut self.inner;
        let control = control_stream(conn);
        follow_write(conn, control, false, |quic| inner.send_goaway(quic, id))
    }

    /// The peer's settings, as [`quiche::h3::Connection::peer_settings_raw`].
    pub fn peer_settings_raw(&self) -> Option<&[(u64, u64)]> {
        self.inner.peer_settings_raw()
    }

    /// Statistics, as [`quiche::h3::Connection::stats`].
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

/// Runs a call that writes to one stream only and ends it, if at all, together with data.
fn follow_write<R, F: BufFactory>(
    conn: &mut crate::Connection<F>,
    stream_id: u64,
    fin: bool,
    call: impl FnOnce(&mut quiche::Connection<F>) -> Result<R>,
) -> Result<R> {
    let before = conn.followed().stream_capacity(stream_id);
    let result = call(conn.followed());
    if let Ok(before) = before {
        // Where nothing arrives and no stream is reset, capacity shrinks by what is written.
        let after = conn.followed().stream_capacity(stream_id).unwrap_or(before);
        Written::headers(before.saturating_sub(after), fin && result.is_ok())
            .tell(conn, stream_id);
    }
    follow_stop(conn, stream_id, with_news(before, result))
}

/// What a call has returned that wrote to a stream: where the peer has stopped it, quiche may have done with it, or have
/// forgotten it before.
fn follow_stop<R, F: BufFactory>(
    conn: &mut crate::Connection<F>,
    stream_id: u64,
    result: Result<R>,
) -> Result<R> {
    if matches!(result, Err(Error::TransportError(quiche::Error::InvalidStreamState(_))))
        && let Some(stopped) = conn.stopped_error(stream_id)
    {
        return Err(Error::TransportError(stopped));
    }
    if matches!(result, Err(Error::TransportError(quiche::Error::StreamStopped(_)))) {
        conn.on_stream_over(stream_id);
    }
    result
}

/// What a call has returned for a stream of which `capacity` was told before: to ask for it may have used up the news
/// that the peer has stopped the stream.
fn with_news<R>(capacity: quiche::Result<usize>, result: Result<R>) -> Result<R> {
    match (capacity, result) {
        (
            Err(stopped @ quiche::Error::StreamStopped(_)),
            Err(Error::TransportError(quiche::Error::InvalidStreamState(_))),
        ) => Err(Error::TransportError(stopped)),
        (_, result) => result,
    }
}

/// HEADERS leave whole: they are refused only where there is no room at all, so that a section
/// that is longer than the send buffer can be sent too.
fn refuse_without_room<F: BufFactory>(
    conn: &mut crate::Connection<F>,
    stream_id: u64,
) -> Result<()> {
    if conn.send_room() > 0 {
        return Ok(());
    }
    conn.block_stream(stream_id, 1);
    Err(Error::StreamBlocked)
}

/// The stream on which HTTP/3 sends SETTINGS and GOAWAY: quiche opens it before all others of its
/// direction.
fn control_stream<F: BufFactory>(conn: &crate::Connection<F>) -> u64 {
    if conn.is_server() { 3 } else { 2 }
}

/// Tells of the streams that HTTP/3 has opened: for control, for QPACK in both directions, and one of
/// a reserved type that has ended. What was written to each follows from what the peer lets it send.
fn note_openings<F: BufFactory>(conn: &mut crate::Connection<F>) {
    let limit = conn.peer_transport_params().map_or(0, |peer| peer.initial_max_stream_data_uni);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let first = control_stream(conn);
    for (at, stream_id) in (first..).step_by(4).take(4).enumerate() {
        if let Ok(capacity) = conn.followed().stream_capacity(stream_id) {
            let written = limit.saturating_sub(capacity).min(LONGEST_OPENING);
            Written::headers(written, at == 3).tell(conn, stream_id);
        }
    }
}
