//! Streams.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libc::ssize_t;
use tack_quiche::{Error, Shutdown, StreamIter};

use super::{ask, length_of, status_of, tack_conn};
use crate::error::{Failure, INVALID_ARGUMENT, length, object};
use crate::number::ShutdownNumber;
use crate::pointer::{Bytes, BytesMut};

/// Sides of a stream that can be shut down.
#[repr(C)]
pub enum tack_shutdown {
    /// No more is read.
    TACK_SHUTDOWN_READ = 0,
    /// No more is written: the stream is reset.
    TACK_SHUTDOWN_WRITE = 1,
}

/// Streams that can be read or written. It is a list of its own, and outlives the connection.
pub struct tack_stream_iter(StreamIter);

/// Tells the peer's error code where it has ended the stream.
fn tell_code(error: Error, out: Option<&mut MaybeUninit<u64>>) -> Failure {
    if let (Error::StreamReset(code) | Error::StreamStopped(code), Some(out)) = (error, out) {
        out.write(code);
    }
    error.into()
}

/// Reads from a stream, and tells whether that is its end. Returns how much was read, or an error;
/// `out_error_code` is written with TACK_ERR_STREAM_RESET alone.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_recv(
    conn: Option<&mut tack_conn>,
    stream_id: u64,
    mut out: BytesMut,
    buf_len: usize,
    fin: Option<&mut MaybeUninit<bool>>,
    out_error_code: Option<&mut MaybeUninit<u64>>,
) -> ssize_t {
    length_of(conn, |conn| {
        let fin = fin.ok_or(INVALID_ARGUMENT)?;
        let read = conn.stream_recv(stream_id, out.get(buf_len)?);
        let (len, is_end) = read.map_err(|error| tell_code(error, out_error_code))?;
        fin.write(is_end);
        Ok(len)
    })
}

/// Writes to a stream, and ends it if `fin` is true and all was taken. Returns how much was taken, which may be
/// less than all, or an error: TACK_ERR_DONE if there is no room. `out_error_code` is written with
/// TACK_ERR_STREAM_STOPPED alone.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_send(
    conn: Option<&mut tack_conn>,
    stream_id: u64,
    buf: Bytes,
    buf_len: usize,
    fin: bool,
    out_error_code: Option<&mut MaybeUninit<u64>>,
) -> ssize_t {
    length_of(conn, |conn| {
        let written = conn.stream_send(stream_id, buf.get(buf_len)?, fin);
        written.map_err(|error| tell_code(error, out_error_code))
    })
}

/// Sets the priority of a stream: a lower urgency goes first, incremental streams of one urgency take turns.
/// Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_priority(
    conn: Option<&mut tack_conn>,
    stream_id: u64,
    urgency: u8,
    incremental: bool,
) -> c_int {
    status_of(conn, |conn| Ok(conn.stream_priority(stream_id, urgency, incremental)?))
}

/// Ends reading from a stream or writing to it (enum tack_shutdown); the peer hears `err`. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_shutdown(
    conn: Option<&mut tack_conn>,
    stream_id: u64,
    direction: ShutdownNumber,
    err: u64,
) -> c_int {
    status_of(conn, |conn| {
        let direction = match direction.0 {
            side if side == tack_shutdown::TACK_SHUTDOWN_READ as c_int => Shutdown::Read,
            side if side == tack_shutdown::TACK_SHUTDOWN_WRITE as c_int => Shutdown::Write,
            _ => return Err(INVALID_ARGUMENT),
        };
        Ok(conn.stream_shutdown(stream_id, direction, err)?)
    })
}

/// Returns how much a stream takes now, bytes, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_capacity(
    conn: Option<&mut tack_conn>,
    stream_id: u64,
) -> ssize_t {
    length_of(conn, |conn| Ok(conn.stream_capacity(stream_id)?))
}

/// Whether there is something to read from a stream.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_readable(conn: Option<&tack_conn>, stream_id: u64) -> bool {
    ask(conn, |conn| conn.stream_readable(stream_id))
}

/// Returns the next stream that can be read, or -1. Each is told once until it is read to its end.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_readable_next(conn: Option<&mut tack_conn>) -> i64 {
    stream_or_none(conn.and_then(|conn| conn.0.stream_readable_next()))
}

/// Returns 1 if a stream takes `len` bytes, 0 if not yet, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_writable(
    conn: Option<&mut tack_conn>,
    stream_id: u64,
    len: usize,
) -> c_int {
    let writable =
        length(|| Ok(usize::from(super::given(conn)?.stream_writable(stream_id, len)?)));
    writable as c_int
}

/// Returns the next stream that can be written, or -1. Each is told once until it is written.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_writable_next(conn: Option<&mut tack_conn>) -> i64 {
    stream_or_none(conn.and_then(|conn| conn.0.stream_writable_next()))
}

/// Whether all of a stream was read.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_finished(conn: Option<&tack_conn>, stream_id: u64) -> bool {
    ask(conn, |conn| conn.stream_finished(stream_id))
}

/// Whether the peer has all of a stream that this end has written to its end.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_delivered(
    conn: Option<&mut tack_conn>,
    stream_id: u64,
) -> bool {
    conn.is_some_and(|conn| conn.0.stream_delivered(stream_id))
}

/// Returns the next stream that the peer has stopped reading, or -1. Each is told once.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_stopped_next(conn: Option<&mut tack_conn>) -> i64 {
    stream_or_none(conn.and_then(|conn| conn.0.stream_stopped_next()))
}

/// Returns the next stream that had been refused for want of room in the send buffer and has some again, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_stream_unblocked_next(conn: Option<&mut tack_conn>) -> i64 {
    stream_or_none(conn.and_then(|conn| conn.0.stream_unblocked_next()))
}

/// Returns the streams that can be read, to be freed with tack_stream_iter_free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_readable(
    conn: Option<&tack_conn>,
) -> Option<Box<tack_stream_iter>> {
    object("list streams", || Ok(tack_stream_iter(conn.ok_or(INVALID_ARGUMENT)?.0.readable())))
}

/// Returns the streams that can be written, to be freed with tack_stream_iter_free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_writable(
    conn: Option<&tack_conn>,
) -> Option<Box<tack_stream_iter>> {
    object("list streams", || Ok(tack_stream_iter(conn.ok_or(INVALID_ARGUMENT)?.0.writable())))
}

/// Takes the next stream of a list. Returns false behind the last one.
#[unsafe(no_mangle)]
pub extern "C" fn tack_stream_iter_next(
    iter: Option<&mut tack_stream_iter>,
    stream_id: Option<&mut MaybeUninit<u64>>,
) -> bool {
    let Some((iter, out)) = iter.zip(stream_id) else { return false };
    iter.0.next().map(|id| out.write(id)).is_some()
}

/// Frees a list of streams. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_stream_iter_free(iter: Option<Box<tack_stream_iter>>) {
    drop(iter);
}

/// A stream id as C has it: they are below 2^62.
pub(super) fn stream_or_none(stream_id: Option<u64>) -> i64 {
    stream_id.and_then(|id| i64::try_from(id).ok()).unwrap_or(-1)
}
