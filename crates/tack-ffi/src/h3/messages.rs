//! Requests, responses and bodies.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use libc::ssize_t;
use tack_quiche::h3::{HeaderRef, Priority};

use super::config::MAX_VARINT;
use super::{both, tack_h3_conn};
use crate::conn::tack_conn;
use crate::error::{Failure, INVALID_ARGUMENT, length, status};
use crate::pointer::{Bytes, BytesMut, Headers, priority_fields};

/// A header field.
#[repr(C)]
pub struct tack_h3_header {
    /// The name, in lower case.
    pub name: Bytes,
    /// Its length.
    pub name_len: usize,
    /// The value.
    pub value: Bytes,
    /// Its length.
    pub value_len: usize,
}

/// A priority (RFC 9218).
#[repr(C)]
pub struct tack_h3_priority {
    /// Urgency, 0 to 7: the lower goes first.
    pub urgency: u8,
    /// Whether responses of one urgency take turns.
    pub incremental: bool,
}

impl tack_h3_priority {
    fn get(priority: Option<&mut Self>) -> Result<Priority, Failure> {
        let priority = priority.ok_or(INVALID_ARGUMENT)?;
        Ok(Priority::new(priority.urgency, priority.incremental))
    }
}

impl tack_h3_header {
    fn get(&self) -> Result<HeaderRef<'_>, Failure> {
        Ok(HeaderRef::new(self.name.get(self.name_len)?, self.value.get(self.value_len)?))
    }
}

fn references(fields: &[tack_h3_header]) -> Result<Vec<HeaderRef<'_>>, Failure> {
    fields.iter().map(tack_h3_header::get).collect()
}

/// Sends a request, and ends it if `fin` is true. Returns its stream, or an error: TACK_H3_ERR_STREAM_BLOCKED if
/// there is no room yet.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_send_request(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
    headers: Headers,
    headers_len: usize,
    fin: bool,
) -> i64 {
    let send = || -> Result<i64, Failure> {
        let (conn, quic) = both(conn, quic_conn)?;
        let stream = conn.send_request(quic, &references(headers.get(headers_len)?)?, fin)?;
        Ok(i64::try_from(stream).unwrap_or(i64::MAX))
    };
    send().unwrap_or_else(|failure| i64::from(failure.code()))
}

/// Sends the header fields of a response, and ends it if `fin` is true. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_send_response(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
    stream_id: u64,
    headers: Headers,
    headers_len: usize,
    fin: bool,
) -> c_int {
    status(|| {
        let (conn, quic) = both(conn, quic_conn)?;
        let headers = references(headers.get(headers_len)?)?;
        Ok(conn.send_response(quic, stream_id, &headers, fin)?)
    })
}

/// The same with a priority.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_send_response_with_priority(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
    stream_id: u64,
    headers: Headers,
    headers_len: usize,
    priority: Option<&mut tack_h3_priority>,
    fin: bool,
) -> c_int {
    status(|| {
        let (conn, quic) = both(conn, quic_conn)?;
        let headers = references(headers.get(headers_len)?)?;
        let priority = tack_h3_priority::get(priority)?;
        Ok(conn.send_response_with_priority(quic, stream_id, &headers, &priority, fin)?)
    })
}

/// Sends trailers, or further header fields. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_send_additional_headers(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
    stream_id: u64,
    headers: Headers,
    headers_len: usize,
    is_trailer_section: bool,
    fin: bool,
) -> c_int {
    status(|| {
        let (conn, quic) = both(conn, quic_conn)?;
        let headers = references(headers.get(headers_len)?)?;
        Ok(conn.send_additional_headers(quic, stream_id, &headers, is_trailer_section, fin)?)
    })
}

/// Sends a part of a body, and ends it if `fin` is true and all was taken. Returns how much was taken, which may
/// be less than all, or an error: TACK_H3_ERR_DONE if there is no room.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_send_body(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
    stream_id: u64,
    body: Bytes,
    body_len: usize,
    fin: bool,
) -> ssize_t {
    length(|| {
        let (conn, quic) = both(conn, quic_conn)?;
        Ok(conn.send_body(quic, stream_id, body.get(body_len)?, fin)?)
    })
}

/// Reads from a body. Returns how much was read, or an error: TACK_H3_ERR_DONE if there is nothing yet.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_recv_body(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
    stream_id: u64,
    mut out: BytesMut,
    out_len: usize,
) -> ssize_t {
    length(|| {
        let (conn, quic) = both(conn, quic_conn)?;
        Ok(conn.recv_body(quic, stream_id, out.get(out_len)?)?)
    })
}

/// Sends GOAWAY: no requests from `id` on are answered. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_send_goaway(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
    id: u64,
) -> c_int {
    status(|| {
        let (conn, quic) = both(conn, quic_conn)?;
        if id > MAX_VARINT {
            return Err(INVALID_ARGUMENT);
        }
        Ok(conn.send_goaway(quic, id)?)
    })
}

/// Reads the value of a Priority header field. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_parse_extensible_priority(
    priority: BytesMut,
    priority_len: usize,
    parsed: Option<&mut MaybeUninit<tack_h3_priority>>,
) -> c_int {
    status(|| {
        let mut priority = priority;
        let out = parsed.ok_or(INVALID_ARGUMENT)?;
        let value: &[u8] = priority.get(priority_len)?;
        let [urgency, incremental] = priority_fields(Priority::try_from(value)?);
        out.write(tack_h3_priority { urgency, incremental: incremental != 0 });
        Ok(())
    })
}

/// Sends the priority of a request (PRIORITY_UPDATE). Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_send_priority_update_for_request(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
    stream_id: u64,
    priority: Option<&mut tack_h3_priority>,
) -> c_int {
    status(|| {
        let (conn, quic) = both(conn, quic_conn)?;
        let priority = tack_h3_priority::get(priority)?;
        Ok(conn.send_priority_update_for_request(quic, stream_id, &priority)?)
    })
}

/// Calls `cb` with the field value of the last PRIORITY_UPDATE for a request. Returns what `cb` returns, or an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_take_last_priority_update(
    conn: Option<&mut tack_h3_conn>,
    prioritized_element_id: u64,
    cb: Option<
        extern "C" fn(
            priority_field_value: *mut u8,
            priority_field_value_len: u64,
            argp: *mut c_void,
        ) -> c_int,
    >,
    argp: *mut c_void,
) -> c_int {
    let Some((conn, cb)) = conn.zip(cb) else { return INVALID_ARGUMENT.code() };
    match conn.0.take_last_priority_update(prioritized_element_id) {
        Ok(mut value) => cb(value.as_mut_ptr(), value.len() as u64, argp),
        Err(error) => Failure::from(error).code(),
    }
}
