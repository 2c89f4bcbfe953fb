//! Connections.

pub mod datagrams;
pub mod handshake;
pub mod ids;
pub mod io;
pub mod logs;
pub mod media;
pub mod paths;
pub mod state;
pub mod stats;
pub mod streams;
pub mod tack;

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libc::{socklen_t, ssize_t};
use tack_quiche::Connection;

use crate::address::{self, Address};
use crate::config::tack_config;
use crate::error::{Failure, INVALID_ARGUMENT, length, object, status};
use crate::packet::connection_id;
use crate::pointer::{Bytes, Text};

/// A connection. One thread at a time may use it, and no function of it may be called by a callback of another.
pub struct tack_conn(pub(crate) Connection);

/// Creates the connection of a server for a client's first Initial, or returns NULL.
///
/// `scid` is the connection id that the server gives itself. After a Retry, `odcid` is the destination
/// connection id of the client's first Initial and `scid` that of the Retry; NULL if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn tack_accept(
    scid: Bytes,
    scid_len: usize,
    odcid: Bytes,
    odcid_len: usize,
    local: Address,
    local_len: socklen_t,
    peer: Address,
    peer_len: socklen_t,
    config: Option<&mut tack_config>,
) -> Option<Box<tack_conn>> {
    object("accept a connection", || {
        let config = &mut config.ok_or(INVALID_ARGUMENT)?.0;
        let scid = connection_id(&scid, scid_len)?;
        let has_odcid = !odcid.is_null() && odcid_len > 0;
        let odcid = has_odcid.then(|| connection_id(&odcid, odcid_len)).transpose()?;
        let (local, peer) = address::path((&local, local_len), (&peer, peer_len))?;
        Ok(tack_conn(tack_quiche::accept(&scid, odcid.as_ref(), local, peer, config)?))
    })
}

/// Creates the connection of a client, or returns NULL.
///
/// `server_name` is the name that the server's certificate has to have; NULL if it is not verified. `scid` is
/// the connection id that the client gives itself.
#[unsafe(no_mangle)]
pub extern "C" fn tack_connect(
    server_name: Text,
    scid: Bytes,
    scid_len: usize,
    local: Address,
    local_len: socklen_t,
    peer: Address,
    peer_len: socklen_t,
    config: Option<&mut tack_config>,
) -> Option<Box<tack_conn>> {
    object("create a client's connection", || {
        let config = &mut config.ok_or(INVALID_ARGUMENT)?.0;
        let name = server_name.optional()?;
        let scid = connection_id(&scid, scid_len)?;
        let (local, peer) = address::path((&local, local_len), (&peer, peer_len))?;
        Ok(tack_conn(tack_quiche::connect(name, &scid, local, peer, config)?))
    })
}

/// Frees a connection, and with it all that functions with `out` have returned pointers to. NULL is nothing to
/// free. The peer does not hear of it: tack_conn_close tells it.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_free(conn: Option<Box<tack_conn>>) {
    drop(conn);
}

/// The connection, which there has to be.
fn given(conn: Option<&mut tack_conn>) -> Result<&mut Connection, Failure> {
    Ok(&mut conn.ok_or(INVALID_ARGUMENT)?.0)
}

/// Runs what a function does with a connection, and returns 0 or why it has failed.
fn status_of(
    conn: Option<&mut tack_conn>,
    call: impl FnOnce(&mut Connection) -> Result<(), Failure>,
) -> c_int {
    status(|| call(given(conn)?))
}

/// Runs what a function does with a connection, and returns how much that was or why it has failed.
fn length_of(
    conn: Option<&mut tack_conn>,
    call: impl FnOnce(&mut Connection) -> Result<usize, Failure>,
) -> ssize_t {
    length(|| call(given(conn)?))
}

/// Asks a connection; no connection answers with the default.
fn ask<T: Default>(conn: Option<&tack_conn>, call: impl FnOnce(&Connection) -> T) -> T {
    conn.map(|conn| call(&conn.0)).unwrap_or_default()
}

/// Tells C where bytes are that belong to an object of the library.
fn lend(
    bytes: Option<&[u8]>,
    out: Option<&mut MaybeUninit<*const u8>>,
    out_len: Option<&mut MaybeUninit<usize>>,
) {
    if let Some(out) = out {
        out.write(bytes.map_or(std::ptr::null(), <[u8]>::as_ptr));
    }
    if let Some(out_len) = out_len {
        out_len.write(bytes.map_or(0, <[u8]>::len));
    }
}
