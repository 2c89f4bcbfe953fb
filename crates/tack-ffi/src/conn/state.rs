//! The state of a connection, and its end.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use tack_quiche::ConnectionError;

use super::{ask, lend, status_of, tack_conn};
use crate::pointer::Bytes;

/// Closes the connection: `app` tells whether `err` is the application's code or one of QUIC's. It takes until
/// tack_conn_is_closed, so go on with sending, receiving and timeouts. Returns 0 or an error: TACK_ERR_DONE if it
/// is closed already.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_close(
    conn: Option<&mut tack_conn>,
    app: bool,
    err: u64,
    reason: Bytes,
    reason_len: usize,
) -> c_int {
    status_of(conn, |conn| Ok(conn.close(app, err, reason.get(reason_len)?)?))
}

/// Whether the handshake is done.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_established(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_established())
}

/// Whether a stream or a DATAGRAM can be read.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_readable(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_readable())
}

/// Whether the connection is closing, and sends nothing more.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_draining(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_draining())
}

/// Whether the connection is closed; NULL is.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_closed(conn: Option<&tack_conn>) -> bool {
    conn.is_none_or(|conn| conn.0.is_closed())
}

/// Whether the idle timeout has closed it.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_timed_out(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_timed_out())
}

/// Whether this is the server's end.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_server(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_server())
}

/// Returns how many bidirectional streams can be opened now.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_peer_streams_left_bidi(conn: Option<&tack_conn>) -> u64 {
    ask(conn, |conn| conn.peer_streams_left_bidi())
}

/// Returns how many unidirectional streams can be opened now.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_peer_streams_left_uni(conn: Option<&tack_conn>) -> u64 {
    ask(conn, |conn| conn.peer_streams_left_uni())
}

/// Tells the error with which the peer has closed the connection. Returns false if it has not.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_peer_error(
    conn: Option<&tack_conn>,
    is_app: Option<&mut MaybeUninit<bool>>,
    error_code: Option<&mut MaybeUninit<u64>>,
    reason: Option<&mut MaybeUninit<*const u8>>,
    reason_len: Option<&mut MaybeUninit<usize>>,
) -> bool {
    let error = conn.and_then(|conn| conn.0.peer_error());
    tell_error(error, is_app, error_code, reason, reason_len)
}

/// Tells the error with which this end has closed the connection. Returns false if it has not.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_local_error(
    conn: Option<&tack_conn>,
    is_app: Option<&mut MaybeUninit<bool>>,
    error_code: Option<&mut MaybeUninit<u64>>,
    reason: Option<&mut MaybeUninit<*const u8>>,
    reason_len: Option<&mut MaybeUninit<usize>>,
) -> bool {
    let error = conn.and_then(|conn| conn.0.local_error());
    tell_error(error, is_app, error_code, reason, reason_len)
}

fn tell_error(
    error: Option<&ConnectionError>,
    is_app: Option<&mut MaybeUninit<bool>>,
    error_code: Option<&mut MaybeUninit<u64>>,
    reason: Option<&mut MaybeUninit<*const u8>>,
    reason_len: Option<&mut MaybeUninit<usize>>,
) -> bool {
    let Some(error) = error else { return false };
    if let Some(out) = is_app {
        out.write(error.is_app);
    }
    if let Some(out) = error_code {
        out.write(error.error_code);
    }
    lend(Some(&error.reason), reason, reason_len);
    true
}
