//! How much a call of `quiche::h3` has read and written.
//!
//! quiche (0.30) tells neither. But nothing arrives during a call, so a stream's readable length shrinks
//! by what is read, and the lengths of the frames that are written are known.

use std::collections::HashSet;

use quiche::BufFactory;

/// Lengths up to which readable data is measured exactly. To measure costs time for each packet that
/// is waiting, so of a stream with more than this only payload is counted. The few bytes of frame
/// headers that are missing then do not matter to a window that is this far behind.
const MEASURED: usize = 64 * 1024;

/// Streams of [`Reads::waiting`] before it is cleared of those that are gone.
const MAX_WAITING: usize = 256;

/// One byte of type and the length (RFC 9114 section 7.2.1).
const fn data_header(payload: usize) -> usize {
    1 + varint_len(payload)
}

/// Length of a variable-length integer (RFC 9000 section 16).
const fn varint_len(value: usize) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// The payload of a DATA frame that fits into `room` bytes with its header.
pub(super) const fn payload_within(room: usize) -> usize {
    // quiche takes the header of the whole body for the header of what fits: so does this.
    room.saturating_sub(data_header(room))
}

/// What a call has written, as calls of `stream_send`: frame header and payload go apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    header: usize,
    payload: Option<usize>,
    fin: bool,
}

impl Written {
    /// One DATA frame.
    pub(super) const fn data(payload: usize, fin: bool) -> Self {
        Self { header: data_header(payload), payload: Some(payload), fin }
    }

    /// Other frames, whose last part is not empty.
    pub(super) const fn headers(bytes: usize, fin: bool) -> Self {
        Self { header: bytes, payload: None, fin }
    }

    pub(super) fn tell<F: BufFactory>(self, conn: &mut crate::Connection<F>, stream_id: u64) {
        if self.header == 0 {
            return;
        }
        conn.on_followed_write(stream_id, self.header, self.fin && self.payload.is_none());
        if let Some(payload) = self.payload {
            // The end of an empty frame is written alone.
            if payload > 0 || self.fin {
                conn.on_followed_write(stream_id, payload, self.fin);
            }
        }
    }
}

/// One stream before a call.
#[derive(Clone, Copy, Debug)]
struct Before {
    stream_id: u64,
    readable: usize,
    measured_to: usize,
    /// Its end has been read, and told, or it is gone.
    is_over: bool,
}

/// Measures what calls read.
#[derive(Debug, Default)]
pub(super) struct Reads {
    before: Vec<Before>,
    /// Streams with a body of which nothing has been read since the event: `poll` leaves them alone.
    waiting: HashSet<u64>,
}

impl Reads {
    /// `poll` is about to read from any stream that is readable.
    pub(super) fn before_poll<F: BufFactory>(&mut self, conn: &mut crate::Connection<F>) {
        self.before.clear();
        for stream_id in conn.followed().readable() {
            if !self.waiting.contains(&stream_id) {
                self.measure(conn, stream_id, MEASURED);
            }
        }
    }

    /// Up to `len` bytes of a body are about to be read, and what is between its frames.
    pub(super) fn before_body<F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        len: usize,
    ) {
        self.before.clear();
        self.waiting.remove(&stream_id);
        self.measure(conn, stream_id, len.saturating_add(MEASURED));
    }

    fn measure<F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
        measured_to: usize,
    ) {
        let quic = conn.followed();
        let readable = quic.stream_readable_len(stream_id, measured_to);
        // An end that comes alone is readable, and the stream finished although nobody has read it.
        let is_over = quic.stream_finished(stream_id) && !quic.stream_readable(stream_id);
        self.before.push(Before { stream_id, readable, measured_to, is_over });
    }

    /// The call is over; `payload` is what it has returned of a body.
    pub(super) fn tell<F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        payload: usize,
    ) {
        for Before { stream_id, readable, measured_to, is_over } in self.before.drain(..) {
            let quic = conn.followed();
            let left = quic.stream_readable_len(stream_id, measured_to);
            let fin = !is_over && quic.stream_finished(stream_id);
            // Beyond what is measured the difference tells less than was read.
            let read = readable.saturating_sub(left).max(payload);
            if read > 0 || fin {
                conn.on_followed_read(stream_id, read, fin);
            }
            if read > 0 && !fin && is_peers_unidirectional(stream_id, conn) {
                // Of an unknown type: quiche has queued a STOP_SENDING (RFC 9114 section 6.2).
                conn.on_followed_frame();
            }
        }
    }

    /// A stream was reported to have a body.
    pub(super) fn on_data_event<F: BufFactory>(
        &mut self,
        conn: &mut crate::Connection<F>,
        stream_id: u64,
    ) {
        if self.waiting.len() >= MAX_WAITING {
            // Those that the application gave up without reading.
            self.waiting.retain(|id| conn.followed().stream_readable(*id));
        }
        self.waiting.insert(stream_id);
    }
}

/// RFC 9000 section 2.1: bit 0 is the initiator, bit 1 the direction.
fn is_peers_unidirectional<F: BufFactory>(stream_id: u64, conn: &crate::Connection<F>) -> bool {
    stream_id & 2 != 0 && (stream_id & 1 == 1) != conn.is_server()
}
