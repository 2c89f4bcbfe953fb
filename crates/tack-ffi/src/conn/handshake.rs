//! What the handshake is given, and what it has settled.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libc::ssize_t;

use super::{ask, lend, status_of, tack_conn};
use crate::error::{tack_error, to_length};
use crate::pointer::Bytes;

/// Resumes a session that tack_conn_session of an earlier connection has returned. To be called by a client
/// right after tack_connect. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_session(
    conn: Option<&mut tack_conn>,
    buf: Bytes,
    buf_len: usize,
) -> c_int {
    status_of(conn, |conn| Ok(conn.set_session(buf.get(buf_len)?)?))
}

/// Sets the idle timeout of one connection, milliseconds; before its handshake. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_set_max_idle_timeout(
    conn: Option<&mut tack_conn>,
    v: u64,
) -> c_int {
    status_of(conn, |conn| Ok(conn.set_max_idle_timeout(v)?))
}

/// Tells the application protocol that was agreed on; no bytes before that.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_application_proto(
    conn: Option<&tack_conn>,
    out: Option<&mut MaybeUninit<*const u8>>,
    out_len: Option<&mut MaybeUninit<usize>>,
) {
    lend(conn.map(|conn| conn.0.application_proto()), out, out_len);
}

/// Tells the peer's certificate in DER; no bytes if it has shown none.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_peer_cert(
    conn: Option<&tack_conn>,
    out: Option<&mut MaybeUninit<*const u8>>,
    out_len: Option<&mut MaybeUninit<usize>>,
) {
    lend(conn.and_then(|conn| conn.0.peer_cert()), out, out_len);
}

/// Tells the session to resume in a later connection; no bytes if there is none yet.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_session(
    conn: Option<&tack_conn>,
    out: Option<&mut MaybeUninit<*const u8>>,
    out_len: Option<&mut MaybeUninit<usize>>,
) {
    lend(conn.and_then(|conn| conn.0.session()), out, out_len);
}

/// Tells the server name that the client has asked for, without an end of a string; no bytes if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_server_name(
    conn: Option<&tack_conn>,
    out: Option<&mut MaybeUninit<*const u8>>,
    out_len: Option<&mut MaybeUninit<usize>>,
) {
    lend(conn.and_then(|conn| conn.0.server_name()).map(str::as_bytes), out, out_len);
}

/// Whether the session was resumed.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_resumed(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_resumed())
}

/// Whether data can be sent or received in 0-RTT now.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_in_early_data(conn: Option<&tack_conn>) -> bool {
    ask(conn, |conn| conn.is_in_early_data())
}

/// The peer's transport parameters (RFC 9000 section 18.2).
#[repr(C)]
pub struct tack_transport_params {
    /// `max_idle_timeout`, milliseconds.
    pub peer_max_idle_timeout: u64,
    /// `max_udp_payload_size`, bytes.
    pub peer_max_udp_payload_size: u64,
    /// `initial_max_data`, bytes.
    pub peer_initial_max_data: u64,
    /// `initial_max_stream_data_bidi_local`, bytes.
    pub peer_initial_max_stream_data_bidi_local: u64,
    /// `initial_max_stream_data_bidi_remote`, bytes.
    pub peer_initial_max_stream_data_bidi_remote: u64,
    /// `initial_max_stream_data_uni`, bytes.
    pub peer_initial_max_stream_data_uni: u64,
    /// `initial_max_streams_bidi`.
    pub peer_initial_max_streams_bidi: u64,
    /// `initial_max_streams_uni`.
    pub peer_initial_max_streams_uni: u64,
    /// `ack_delay_exponent`.
    pub peer_ack_delay_exponent: u64,
    /// `max_ack_delay`, milliseconds.
    pub peer_max_ack_delay: u64,
    /// `disable_active_migration`.
    pub peer_disable_active_migration: bool,
    /// `active_connection_id_limit`.
    pub peer_active_conn_id_limit: u64,
    /// `max_datagram_frame_size`, bytes; TACK_ERR_DONE if there is none.
    pub peer_max_datagram_frame_size: ssize_t,
}

/// Tells the peer's transport parameters. Returns false before they have come.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_peer_transport_params(
    conn: Option<&tack_conn>,
    out: Option<&mut MaybeUninit<tack_transport_params>>,
) -> bool {
    let peer = conn.and_then(|conn| conn.0.peer_transport_params());
    let Some((peer, out)) = peer.zip(out) else { return false };
    out.write(tack_transport_params {
        peer_max_idle_timeout: peer.max_idle_timeout,
        peer_max_udp_payload_size: peer.max_udp_payload_size,
        peer_initial_max_data: peer.initial_max_data,
        peer_initial_max_stream_data_bidi_local: peer.initial_max_stream_data_bidi_local,
        peer_initial_max_stream_data_bidi_remote: peer.initial_max_stream_data_bidi_remote,
        peer_initial_max_stream_data_uni: peer.initial_max_stream_data_uni,
        peer_initial_max_streams_bidi: peer.initial_max_streams_bidi,
        peer_initial_max_streams_uni: peer.initial_max_streams_uni,
        peer_ack_delay_exponent: peer.ack_delay_exponent,
        peer_max_ack_delay: peer.max_ack_delay,
        peer_disable_active_migration: peer.disable_active_migration,
        peer_active_conn_id_limit: peer.active_conn_id_limit,
        peer_max_datagram_frame_size: match peer.max_datagram_frame_size {
            Some(size) => to_length(usize::try_from(size).unwrap_or(usize::MAX)),
            None => tack_error::TACK_ERR_DONE as ssize_t,
        },
    });
    true
}
