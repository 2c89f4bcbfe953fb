//! DATAGRAM frames (RFC 9221).

use libc::ssize_t;

use super::{ask, length_of, tack_conn};
use crate::clock;
use crate::error::{INVALID_ARGUMENT, length, tack_error, to_length};
use crate::pointer::{Bytes, BytesMut};

/// Asks a connection for a length that it may not have.
fn optional_length(
    conn: Option<&tack_conn>,
    call: impl FnOnce(&tack_quiche::Connection) -> Option<usize>,
) -> ssize_t {
    length(|| {
        let conn = &conn.ok_or(INVALID_ARGUMENT)?.0;
        call(conn).ok_or_else(|| tack_error::TACK_ERR_DONE.into())
    })
}

/// Returns the longest DATAGRAM that can be sent, bytes; TACK_ERR_DONE if the peer takes none.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_max_writable_len(conn: Option<&tack_conn>) -> ssize_t {
    optional_length(conn, |conn| conn.dgram_max_writable_len())
}

/// Returns the length of the next DATAGRAM to read, bytes; TACK_ERR_DONE if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_recv_front_len(conn: Option<&tack_conn>) -> ssize_t {
    optional_length(conn, |conn| conn.dgram_recv_front_len())
}

/// Returns how many DATAGRAMs wait to be read.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_recv_queue_len(conn: Option<&tack_conn>) -> ssize_t {
    ask(conn, |conn| to_length(conn.dgram_recv_queue_len()))
}

/// Returns how many bytes they have.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_recv_queue_byte_size(conn: Option<&tack_conn>) -> ssize_t {
    ask(conn, |conn| to_length(conn.dgram_recv_queue_byte_size()))
}

/// Returns how many DATAGRAMs wait to be sent.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_send_queue_len(conn: Option<&tack_conn>) -> ssize_t {
    ask(conn, |conn| to_length(conn.dgram_send_queue_len()))
}

/// Returns how many bytes they have.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_send_queue_byte_size(conn: Option<&tack_conn>) -> ssize_t {
    ask(conn, |conn| to_length(conn.dgram_send_queue_byte_size()))
}

/// Reads the next DATAGRAM. Returns its length, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_recv(
    conn: Option<&mut tack_conn>,
    mut buf: BytesMut,
    buf_len: usize,
) -> ssize_t {
    length_of(conn, |conn| Ok(conn.dgram_recv(buf.get(buf_len)?)?))
}

/// Queues a DATAGRAM. Returns its length, or an error: TACK_ERR_DONE if the queue is full.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_send(
    conn: Option<&mut tack_conn>,
    buf: Bytes,
    buf_len: usize,
) -> ssize_t {
    length_of(conn, |conn| Ok(conn.dgram_send(buf.get(buf_len)?).map(|()| buf_len)?))
}

/// Queues a DATAGRAM that is dropped if it has not left in `nanos` from now.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_send_within(
    conn: Option<&mut tack_conn>,
    buf: Bytes,
    buf_len: usize,
    nanos: u64,
) -> ssize_t {
    length_of(conn, |conn| {
        let buf = buf.get(buf_len)?;
        match clock::from_now(nanos) {
            Some(deadline) => conn.dgram_send_until(buf, deadline)?,
            None => conn.dgram_send(buf)?,
        }
        Ok(buf_len)
    })
}

/// Drops the DATAGRAMs that wait to be sent and of which `f` returns true. It may not change them.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_dgram_purge_outgoing(
    conn: Option<&mut tack_conn>,
    f: Option<extern "C" fn(*mut u8, usize) -> bool>,
) {
    if let Some((conn, f)) = conn.zip(f) {
        conn.0.dgram_purge_outgoing(|datagram| f(datagram.as_ptr().cast_mut(), datagram.len()));
    }
}

/// Whether no more DATAGRAMs can be queued to be sent.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_dgram_send_queue_full(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_dgram_send_queue_full())
}

/// Whether DATAGRAMs that come now are dropped, because too many wait to be read.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_dgram_recv_queue_full(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_dgram_recv_queue_full())
}
