//! Connection ids.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::{ask, given, lend, status_of, tack_conn};
use crate::error::{INVALID_ARGUMENT, object};
use crate::packet::connection_id;
use crate::pointer::Bytes;

/// Connection ids. It is a list of its own, and outlives the connection.
pub struct tack_connection_id_iter {
    ids: Vec<Vec<u8>>,
    next: usize,
}

/// Tells a name of the connection for logs, without an end of a string.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_trace_id(
    conn: Option<&tack_conn>,
    out: Option<&mut MaybeUninit<*const u8>>,
    out_len: Option<&mut MaybeUninit<usize>>,
) {
    lend(conn.map(|conn| conn.0.trace_id().as_bytes()), out, out_len);
}

/// Tells the connection id of this end. The pointer is good until the next call that takes a connection that
/// is not const.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_source_id(
    conn: Option<&tack_conn>,
    out: Option<&mut MaybeUninit<*const u8>>,
    out_len: Option<&mut MaybeUninit<usize>>,
) {
    // quiche lends what it keeps.
    let id = conn.map(|conn| conn.0.source_id());
    lend(id.as_deref(), out, out_len);
}

/// Tells the connection id of the peer, as tack_conn_source_id.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_destination_id(
    conn: Option<&tack_conn>,
    out: Option<&mut MaybeUninit<*const u8>>,
    out_len: Option<&mut MaybeUninit<usize>>,
) {
    let id = conn.map(|conn| conn.0.destination_id());
    lend(id.as_deref(), out, out_len);
}

/// Returns all connection ids of this end, to be freed with tack_connection_id_iter_free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_source_ids(
    conn: Option<&mut tack_conn>,
) -> Option<Box<tack_connection_id_iter>> {
    object("list connection ids", || {
        let ids = given(conn)?.source_ids().map(|id| id.to_vec()).collect();
        Ok(tack_connection_id_iter { ids, next: 0 })
    })
}

/// Returns the connection ids of this end that the peer has retired since the last call, to be freed with
/// tack_connection_id_iter_free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_retired_scid_iter(
    conn: Option<&mut tack_conn>,
) -> Option<Box<tack_connection_id_iter>> {
    object("list connection ids", || {
        let conn = given(conn)?;
        let ids = std::iter::from_fn(|| conn.retired_scid_next()).map(Into::into).collect();
        Ok(tack_connection_id_iter { ids, next: 0 })
    })
}

/// Takes the next connection id of a list, in which it stays. Returns false behind the last one.
#[unsafe(no_mangle)]
pub extern "C" fn tack_connection_id_iter_next(
    iter: Option<&mut tack_connection_id_iter>,
    out: Option<&mut MaybeUninit<*const u8>>,
    out_len: Option<&mut MaybeUninit<usize>>,
) -> bool {
    let Some(iter) = iter else { return false };
    let Some(id) = iter.ids.get(iter.next) else { return false };
    lend(Some(id), out, out_len);
    iter.next += 1;
    true
}

/// Frees a list of connection ids. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_connection_id_iter_free(iter: Option<Box<tack_connection_id_iter>>) {
    drop(iter);
}

/// Returns how many connection ids the peer has retired that tack_conn_retired_scid_iter has not told of.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_retired_scids(conn: Option<&tack_conn>) -> usize {
    ask(conn, |conn| conn.retired_scids())
}

/// Returns how many connection ids of the peer are not used yet.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_available_dcids(conn: Option<&tack_conn>) -> usize {
    ask(conn, |conn| conn.available_dcids())
}

/// Returns how many connection ids the peer still takes.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_scids_left(conn: Option<&mut tack_conn>) -> usize {
    conn.map_or(0, |conn| conn.0.scids_left())
}

/// Returns how many connection ids of this end the peer may use.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_active_scids(conn: Option<&mut tack_conn>) -> usize {
    conn.map_or(0, |conn| conn.0.active_scids())
}

/// Gives the peer another connection id with its stateless reset token of 16 bytes, and tells the sequence
/// number. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_new_scid(
    conn: Option<&mut tack_conn>,
    scid: Bytes,
    scid_len: usize,
    reset_token: Bytes,
    retire_if_needed: bool,
    scid_seq: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    status_of(conn, |conn| {
        let out = scid_seq.ok_or(INVALID_ARGUMENT)?;
        let scid = connection_id(&scid, scid_len)?;
        let token = u128::from_be_bytes(reset_token.array()?);
        out.write(conn.new_scid(&scid, token, retire_if_needed)?);
        Ok(())
    })
}

/// Retires a connection id of the peer. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_retire_dcid(conn: Option<&mut tack_conn>, dcid_seq: u64) -> c_int {
    status_of(conn, |conn| Ok(conn.retire_dcid(dcid_seq)?))
}
