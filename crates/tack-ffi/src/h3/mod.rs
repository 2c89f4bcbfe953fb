//! HTTP/3.

pub mod config;
pub mod error;
pub mod events;
pub mod messages;

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use tack_quiche::h3;

use crate::conn::tack_conn;
use crate::error::{Failure, INVALID_ARGUMENT, object};
use config::tack_h3_config;

pub use messages::tack_h3_header;

/// An HTTP/3 connection, over a connection that each function takes too.
pub struct tack_h3_conn(h3::Connection);

/// Statistics of an HTTP/3 connection.
#[repr(C)]
pub struct tack_h3_stats {
    /// Bytes received on the QPACK encoder stream.
    pub qpack_encoder_stream_recv_bytes: u64,
    /// Bytes received on the QPACK decoder stream.
    pub qpack_decoder_stream_recv_bytes: u64,
}

/// Creates an HTTP/3 connection over a QUIC connection that is established or in early data, or returns NULL.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_conn_new_with_transport(
    quic_conn: Option<&mut tack_conn>,
    config: Option<&mut tack_h3_config>,
) -> Option<Box<tack_h3_conn>> {
    object("create an HTTP/3 connection", || {
        let (quic, config) = quic_conn.zip(config).ok_or(INVALID_ARGUMENT)?;
        Ok(tack_h3_conn(h3::Connection::with_transport(&mut quic.0, &config.0)?))
    })
}

/// Frees an HTTP/3 connection. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_conn_free(conn: Option<Box<tack_h3_conn>>) {
    drop(conn);
}

/// Calls `cb` for each setting of the peer, until it returns another value than 0, which is returned then.
/// Returns 0 behind the last one, and -1 before the settings have come.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_for_each_setting(
    conn: Option<&mut tack_h3_conn>,
    cb: Option<extern "C" fn(identifier: u64, value: u64, argp: *mut c_void) -> c_int>,
    argp: *mut c_void,
) -> c_int {
    let Some((conn, cb)) = conn.zip(cb) else { return INVALID_ARGUMENT.code() };
    let Some(settings) = conn.0.peer_settings_raw() else { return -1 };
    let mut answers = settings.iter().map(|(identifier, value)| cb(*identifier, *value, argp));
    answers.find(|answer| *answer != 0).unwrap_or(0)
}

/// Whether the peer takes extended CONNECT (RFC 9220).
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_extended_connect_enabled_by_peer(
    conn: Option<&mut tack_h3_conn>,
) -> bool {
    conn.is_some_and(|conn| conn.0.extended_connect_enabled_by_peer())
}

/// Whether the peer takes HTTP/3 datagrams (RFC 9297).
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_dgram_enabled_by_peer(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
) -> bool {
    conn.zip(quic_conn).is_some_and(|(conn, quic)| conn.0.dgram_enabled_by_peer(&quic.0))
}

/// Tells the statistics of an HTTP/3 connection.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_conn_stats(
    conn: Option<&tack_h3_conn>,
    out: Option<&mut MaybeUninit<tack_h3_stats>>,
) {
    let Some((conn, out)) = conn.zip(out) else { return };
    let stats = conn.0.stats();
    out.write(tack_h3_stats {
        qpack_encoder_stream_recv_bytes: stats.qpack_encoder_stream_recv_bytes,
        qpack_decoder_stream_recv_bytes: stats.qpack_decoder_stream_recv_bytes,
    });
}

/// Both connections, which there have to be.
fn both<'a>(
    conn: Option<&'a mut tack_h3_conn>,
    quic: Option<&'a mut tack_conn>,
) -> Result<(&'a mut h3::Connection, &'a mut tack_quiche::Connection), Failure> {
    let (conn, quic) = conn.zip(quic).ok_or(INVALID_ARGUMENT)?;
    Ok((&mut conn.0, &mut quic.0))
}
