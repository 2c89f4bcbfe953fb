//! Paths and migration (RFC 9000 section 9).

use std::ffi::c_int;
use std::mem::MaybeUninit;

use libc::{sockaddr_storage, socklen_t, ssize_t};
use tack_quiche::{PathEvent, SocketAddrIter};

use super::{given, length_of, status_of, tack_conn};
use crate::address::{self, Address};
use crate::error::{INVALID_ARGUMENT, length, object};
use crate::number::PathEventNumber;

/// What has happened to a path.
pub struct tack_path_event(PathEvent);

/// Kinds of struct tack_path_event.
#[repr(C)]
pub enum tack_path_event_type {
    /// The peer uses a new path.
    TACK_PATH_EVENT_NEW,
    /// The path is validated.
    TACK_PATH_EVENT_VALIDATED,
    /// The path cannot be validated.
    TACK_PATH_EVENT_FAILED_VALIDATION,
    /// The path was given up.
    TACK_PATH_EVENT_CLOSED,
    /// The peer uses a connection id on another path than before.
    TACK_PATH_EVENT_REUSED_SOURCE_CONNECTION_ID,
    /// The peer has migrated.
    TACK_PATH_EVENT_PEER_MIGRATED,
    /// The path MTU is known.
    TACK_PATH_EVENT_PMTU_UPDATED,
}

/// The peer's addresses of paths. It is a list of its own, and outlives the connection.
pub struct tack_socket_addr_iter(SocketAddrIter);

/// Has an ack-eliciting packet sent on the path that data goes over. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_send_ack_eliciting(conn: Option<&mut tack_conn>) -> ssize_t {
    length_of(conn, |conn| Ok(conn.send_ack_eliciting().map(|()| 0)?))
}

/// Has an ack-eliciting packet sent on the path between two addresses. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_send_ack_eliciting_on_path(
    conn: Option<&mut tack_conn>,
    local: Address,
    local_len: socklen_t,
    peer: Address,
    peer_len: socklen_t,
) -> ssize_t {
    length_of(conn, |conn| {
        let (local, peer) = address::path((&local, local_len), (&peer, peer_len))?;
        Ok(conn.send_ack_eliciting_on_path(local, peer).map(|()| 0)?)
    })
}

/// Has the path between two addresses validated, and tells the sequence number of the connection id that it uses.
/// Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_probe_path(
    conn: Option<&mut tack_conn>,
    local: Address,
    local_len: socklen_t,
    peer: Address,
    peer_len: socklen_t,
    seq: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    status_of(conn, |conn| {
        let seq = seq.ok_or(INVALID_ARGUMENT)?;
        let (local, peer) = address::path((&local, local_len), (&peer, peer_len))?;
        seq.write(conn.probe_path(local, peer)?);
        Ok(())
    })
}

/// Goes on from another address of this end. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_migrate_source(
    conn: Option<&mut tack_conn>,
    local: Address,
    local_len: socklen_t,
    seq: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    status_of(conn, |conn| {
        let seq = seq.ok_or(INVALID_ARGUMENT)?;
        seq.write(conn.migrate_source(local.get(local_len as usize)?)?);
        Ok(())
    })
}

/// Goes on over the path between two addresses. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_migrate(
    conn: Option<&mut tack_conn>,
    local: Address,
    local_len: socklen_t,
    peer: Address,
    peer_len: socklen_t,
    seq: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    status_of(conn, |conn| {
        let seq = seq.ok_or(INVALID_ARGUMENT)?;
        let (local, peer) = address::path((&local, local_len), (&peer, peer_len))?;
        seq.write(conn.migrate(local, peer)?);
        Ok(())
    })
}

/// Returns the next event, to be freed with tack_path_event_free, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_path_event_next(
    conn: Option<&mut tack_conn>,
) -> Option<Box<tack_path_event>> {
    Some(Box::new(tack_path_event(given(conn).ok()?.path_event_next()?)))
}

/// Returns the kind of an event; -1 for NULL, and for kinds that this version does not know.
#[unsafe(no_mangle)]
pub extern "C" fn tack_path_event_type(ev: Option<&tack_path_event>) -> PathEventNumber {
    use tack_path_event_type as c;
    let Some(event) = ev else { return PathEventNumber(-1) };
    let kind = match &event.0 {
        PathEvent::New(..) => c::TACK_PATH_EVENT_NEW,
        PathEvent::Validated(..) => c::TACK_PATH_EVENT_VALIDATED,
        PathEvent::FailedValidation(..) => c::TACK_PATH_EVENT_FAILED_VALIDATION,
        PathEvent::Closed(..) => c::TACK_PATH_EVENT_CLOSED,
        PathEvent::ReusedSourceConnectionId(..) => {
            c::TACK_PATH_EVENT_REUSED_SOURCE_CONNECTION_ID
        }
        PathEvent::PeerMigrated(..) => c::TACK_PATH_EVENT_PEER_MIGRATED,
        PathEvent::PmtuUpdated { .. } => c::TACK_PATH_EVENT_PMTU_UPDATED,
        _ => return PathEventNumber(-1),
    };
    PathEventNumber(kind as c_int)
}

/// Tells the path of TACK_PATH_EVENT_NEW; writes nothing for events of other kinds.
#[unsafe(no_mangle)]
pub extern "C" fn tack_path_event_new(
    ev: Option<&tack_path_event>,
    local: Option<&mut MaybeUninit<sockaddr_storage>>,
    local_len: Option<&mut MaybeUninit<socklen_t>>,
    peer: Option<&mut MaybeUninit<sockaddr_storage>>,
    peer_len: Option<&mut MaybeUninit<socklen_t>>,
) {
    if let Some(PathEvent::New(from, to)) = ev.map(|ev| &ev.0) {
        address::write(*from, local, local_len);
        address::write(*to, peer, peer_len);
    }
}

/// Tells the path of TACK_PATH_EVENT_VALIDATED; writes nothing for events of other kinds.
#[unsafe(no_mangle)]
pub extern "C" fn tack_path_event_validated(
    ev: Option<&tack_path_event>,
    local: Option<&mut MaybeUninit<sockaddr_storage>>,
    local_len: Option<&mut MaybeUninit<socklen_t>>,
    peer: Option<&mut MaybeUninit<sockaddr_storage>>,
    peer_len: Option<&mut MaybeUninit<socklen_t>>,
) {
    if let Some(PathEvent::Validated(from, to)) = ev.map(|ev| &ev.0) {
        address::write(*from, local, local_len);
        address::write(*to, peer, peer_len);
    }
}

/// Tells the path of TACK_PATH_EVENT_FAILED_VALIDATION; writes nothing for events of other kinds.
#[unsafe(no_mangle)]
pub extern "C" fn tack_path_event_failed_validation(
    ev: Option<&tack_path_event>,
    local: Option<&mut MaybeUninit<sockaddr_storage>>,
    local_len: Option<&mut MaybeUninit<socklen_t>>,
    peer: Option<&mut MaybeUninit<sockaddr_storage>>,
    peer_len: Option<&mut MaybeUninit<socklen_t>>,
) {
    if let Some(PathEvent::FailedValidation(from, to)) = ev.map(|ev| &ev.0) {
        address::write(*from, local, local_len);
        address::write(*to, peer, peer_len);
    }
}

/// Tells the path of TACK_PATH_EVENT_CLOSED; writes nothing for events of other kinds.
#[unsafe(no_mangle)]
pub extern "C" fn tack_path_event_closed(
    ev: Option<&tack_path_event>,
    local: Option<&mut MaybeUninit<sockaddr_storage>>,
    local_len: Option<&mut MaybeUninit<socklen_t>>,
    peer: Option<&mut MaybeUninit<sockaddr_storage>>,
    peer_len: Option<&mut MaybeUninit<socklen_t>>,
) {
    if let Some(PathEvent::Closed(from, to)) = ev.map(|ev| &ev.0) {
        address::write(*from, local, local_len);
        address::write(*to, peer, peer_len);
    }
}

/// Tells the path of TACK_PATH_EVENT_PEER_MIGRATED; writes nothing for events of other kinds.
#[unsafe(no_mangle)]
pub extern "C" fn tack_path_event_peer_migrated(
    ev: Option<&tack_path_event>,
    local: Option<&mut MaybeUninit<sockaddr_storage>>,
    local_len: Option<&mut MaybeUninit<socklen_t>>,
    peer: Option<&mut MaybeUninit<sockaddr_storage>>,
    peer_len: Option<&mut MaybeUninit<socklen_t>>,
) {
    if let Some(PathEvent::PeerMigrated(from, to)) = ev.map(|ev| &ev.0) {
        address::write(*from, local, local_len);
        address::write(*to, peer, peer_len);
    }
}

/// Tells the connection id's sequence number and both paths of TACK_PATH_EVENT_REUSED_SOURCE_CONNECTION_ID; writes
/// nothing for events of other kinds.
#[unsafe(no_mangle)]
pub extern "C" fn tack_path_event_reused_source_connection_id(
    ev: Option<&tack_path_event>,
    id: Option<&mut MaybeUninit<u64>>,
    old_local: Option<&mut MaybeUninit<sockaddr_storage>>,
    old_local_len: Option<&mut MaybeUninit<socklen_t>>,
    old_peer: Option<&mut MaybeUninit<sockaddr_storage>>,
    old_peer_len: Option<&mut MaybeUninit<socklen_t>>,
    local: Option<&mut MaybeUninit<sockaddr_storage>>,
    local_len: Option<&mut MaybeUninit<socklen_t>>,
    peer: Option<&mut MaybeUninit<sockaddr_storage>>,
    peer_len: Option<&mut MaybeUninit<socklen_t>>,
) {
    let Some(PathEvent::ReusedSourceConnectionId(sequence, old, new)) = ev.map(|ev| &ev.0)
    else {
        return;
    };
    if let Some(id) = id {
        id.write(*sequence);
    }
    address::write(old.0, old_local, old_local_len);
    address::write(old.1, old_peer, old_peer_len);
    address::write(new.0, local, local_len);
    address::write(new.1, peer, peer_len);
}

/// Tells the path of TACK_PATH_EVENT_PMTU_UPDATED and its path MTU, bytes; writes nothing for events of other
/// kinds.
#[unsafe(no_mangle)]
pub extern "C" fn tack_path_event_pmtu_updated(
    ev: Option<&tack_path_event>,
    local: Option<&mut MaybeUninit<sockaddr_storage>>,
    local_len: Option<&mut MaybeUninit<socklen_t>>,
    peer: Option<&mut MaybeUninit<sockaddr_storage>>,
    peer_len: Option<&mut MaybeUninit<socklen_t>>,
    pmtu: Option<&mut MaybeUninit<usize>>,
) {
    let Some(PathEvent::PmtuUpdated { local: from, peer: to, pmtu: size }) = ev.map(|ev| &ev.0)
    else {
        return;
    };
    address::write(*from, local, local_len);
    address::write(*to, peer, peer_len);
    if let Some(pmtu) = pmtu {
        pmtu.write(*size);
    }
}

/// Frees an event. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_path_event_free(ev: Option<Box<tack_path_event>>) {
    drop(ev);
}

/// Returns the peer's addresses to which there are paths from an address of this end, to be freed with
/// tack_socket_addr_iter_free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_paths_iter(
    conn: Option<&mut tack_conn>,
    from: Address,
    from_len: usize,
) -> Option<Box<tack_socket_addr_iter>> {
    object("list paths", || {
        Ok(tack_socket_addr_iter(given(conn)?.paths_iter(from.get(from_len)?)))
    })
}

/// Takes the next address of a list. Returns false behind the last one.
#[unsafe(no_mangle)]
pub extern "C" fn tack_socket_addr_iter_next(
    iter: Option<&mut tack_socket_addr_iter>,
    peer: Option<&mut MaybeUninit<sockaddr_storage>>,
    peer_len: Option<&mut MaybeUninit<usize>>,
) -> bool {
    let Some(next) = iter.and_then(|iter| iter.0.next()) else { return false };
    address::write(next, peer, None);
    if let Some(peer_len) = peer_len {
        peer_len.write(address::to_c(next).1 as usize);
    }
    true
}

/// Frees a list of addresses. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_socket_addr_iter_free(iter: Option<Box<tack_socket_addr_iter>>) {
    drop(iter);
}

/// Returns 1 if the path between two addresses is validated, 0 if not, or an error if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_is_path_validated(
    conn: Option<&tack_conn>,
    from: Address,
    from_len: usize,
    to: Address,
    to_len: usize,
) -> c_int {
    let validated = length(|| {
        let conn = &conn.ok_or(INVALID_ARGUMENT)?.0;
        Ok(conn.is_path_validated(from.get(from_len)?, to.get(to_len)?)?.into())
    });
    validated as c_int
}
