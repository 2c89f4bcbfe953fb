//! Datagrams in and out, and the timer.

use std::mem::MaybeUninit;

use libc::{sockaddr_storage, socklen_t, ssize_t, timespec};
use tack_quiche::tacklib::EcnCodepoint;
use tack_quiche::{RecvInfo, SendInfo};

use super::{ask, length_of, tack_conn};
use crate::address::{self, Address};
use crate::clock;
use crate::error::{Failure, INVALID_ARGUMENT};
use crate::pointer::BytesMut;

/// Where a datagram came from.
#[repr(C)]
pub struct tack_recv_info {
    /// The address that it came from.
    pub from: Address,
    /// Its length.
    pub from_len: socklen_t,
    /// The address of this end that it came to.
    pub to: Address,
    /// Its length.
    pub to_len: socklen_t,
}

impl tack_recv_info {
    fn get(info: Option<&Self>) -> Result<RecvInfo, Failure> {
        let info = info.ok_or(INVALID_ARGUMENT)?;
        let (from, to) = address::path((&info.from, info.from_len), (&info.to, info.to_len))?;
        Ok(RecvInfo { from, to })
    }
}

/// Where a datagram goes.
#[repr(C)]
pub struct tack_send_info {
    /// The address of this end to send it from.
    pub from: sockaddr_storage,
    /// Its length.
    pub from_len: socklen_t,
    /// The address to send it to.
    pub to: sockaddr_storage,
    /// Its length.
    pub to_len: socklen_t,
    /// The time to send it at, of CLOCK_MONOTONIC.
    pub at: timespec,
}

impl From<SendInfo> for tack_send_info {
    fn from(info: SendInfo) -> Self {
        let (from, from_len) = address::to_c(info.from);
        let (to, to_len) = address::to_c(info.to);
        Self { from, from_len, to, to_len, at: clock::to_timespec(info.at) }
    }
}

/// Processes a datagram, which is decrypted in its place. Returns how much of it was processed, or an error:
/// the next datagram may be better, and tack_conn_is_closed tells whether this was the end.
///
/// Call tack_conn_send until TACK_ERR_DONE afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_recv(
    conn: Option<&mut tack_conn>,
    mut buf: BytesMut,
    buf_len: usize,
    info: Option<&tack_recv_info>,
) -> ssize_t {
    length_of(conn, |conn| Ok(conn.recv(buf.get(buf_len)?, tack_recv_info::get(info)?)?))
}

/// The same of a datagram that came with this ECN codepoint: the octet of IP_TOS or IPV6_TCLASS, of which the two
/// lowest bits count.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_recv_with_ecn(
    conn: Option<&mut tack_conn>,
    mut buf: BytesMut,
    buf_len: usize,
    info: Option<&tack_recv_info>,
    ecn: u8,
) -> ssize_t {
    length_of(conn, |conn| {
        let (buf, info) = (buf.get(buf_len)?, tack_recv_info::get(info)?);
        Ok(conn.recv_with_ecn(buf, info, EcnCodepoint::from_bits(ecn))?)
    })
}

/// The same of a datagram that came `age_nanos` ago, as the timestamps of a socket tell (SO_TIMESTAMPNS: the
/// system's clock now, less the timestamp). What it has waited for the program is no delay of the path then.
/// More than an hour counts as 0: so does a difference below zero, where the clock was set back meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_recv_at(
    conn: Option<&mut tack_conn>,
    mut buf: BytesMut,
    buf_len: usize,
    info: Option<&tack_recv_info>,
    ecn: u8,
    age_nanos: u64,
) -> ssize_t {
    length_of(conn, |conn| {
        let (buf, info) = (buf.get(buf_len)?, tack_recv_info::get(info)?);
        let at = clock::ago(age_nanos);
        Ok(conn.recv_at(buf, info, EcnCodepoint::from_bits(ecn), at)?)
    })
}

/// Writes a datagram to `out`, and where it goes to `out_info`. Returns its length, or TACK_ERR_DONE if there
/// is nothing to send now: tack_conn_timeout_as_nanos tells until when, for sending is paced.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_send(
    conn: Option<&mut tack_conn>,
    mut out: BytesMut,
    out_len: usize,
    out_info: Option<&mut MaybeUninit<tack_send_info>>,
) -> ssize_t {
    length_of(conn, |conn| {
        let out_info = out_info.ok_or(INVALID_ARGUMENT)?;
        let (len, info) = conn.send(out.get(out_len)?)?;
        out_info.write(info.into());
        Ok(len)
    })
}

/// The same for the path between two addresses; NULL is any.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_send_on_path(
    conn: Option<&mut tack_conn>,
    mut out: BytesMut,
    out_len: usize,
    from: Address,
    from_len: socklen_t,
    to: Address,
    to_len: socklen_t,
    out_info: Option<&mut MaybeUninit<tack_send_info>>,
) -> ssize_t {
    length_of(conn, |conn| {
        let out_info = out_info.ok_or(INVALID_ARGUMENT)?;
        let (from, to) = (from.optional(from_len as usize)?, to.optional(to_len as usize)?);
        let (len, info) = conn.send_on_path(out.get(out_len)?, from, to)?;
        out_info.write(info.into());
        Ok(len)
    })
}

/// Returns how much may leave in one burst, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_send_quantum(conn: Option<&tack_conn>) -> usize {
    ask(conn, |conn| conn.send_quantum())
}

/// Returns the same for the path between two addresses; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_send_quantum_on_path(
    conn: Option<&tack_conn>,
    local_addr: Address,
    local_len: socklen_t,
    peer_addr: Address,
    peer_len: socklen_t,
) -> usize {
    ask(conn, |conn| {
        let path = address::path((&local_addr, local_len), (&peer_addr, peer_len));
        path.map_or(0, |(local, peer)| conn.send_quantum_on_path(local, peer))
    })
}

/// Returns the longest datagram that is sent, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_max_send_udp_payload_size(conn: Option<&tack_conn>) -> usize {
    ask(conn, |conn| conn.max_send_udp_payload_size())
}

/// Returns the time until tack_conn_on_timeout is to be called, nanoseconds; UINT64_MAX if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_timeout_as_nanos(conn: Option<&tack_conn>) -> u64 {
    conn.and_then(|conn| conn.0.timeout()).map_or(u64::MAX, clock::nanos)
}

/// Returns the same in milliseconds, cut off: 0 while there is less than one left. A program that waits in
/// whole milliseconds waits for one more, or in nanoseconds with ppoll().
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_timeout_as_millis(conn: Option<&tack_conn>) -> u64 {
    let timeout = conn.and_then(|conn| conn.0.timeout());
    timeout.map_or(u64::MAX, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Handles timers that have expired. Call tack_conn_send until TACK_ERR_DONE afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn tack_conn_on_timeout(conn: Option<&mut tack_conn>) {
    if let Some(conn) = conn {
        conn.0.on_timeout();
    }
}
