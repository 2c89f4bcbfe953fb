//! Events of HTTP/3.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use tack_quiche::h3::{Event, NameValue};

use super::{both, tack_h3_conn};
use crate::conn::tack_conn;
use crate::error::{Failure, INVALID_ARGUMENT};
use crate::number::H3EventNumber;

/// What has happened on an HTTP/3 connection.
pub struct tack_h3_event(Event);

/// Kinds of struct tack_h3_event.
#[repr(C)]
pub enum tack_h3_event_type {
    /// Header fields or trailers have come.
    TACK_H3_EVENT_HEADERS,
    /// A body can be read with tack_h3_recv_body.
    TACK_H3_EVENT_DATA,
    /// A message is whole.
    TACK_H3_EVENT_FINISHED,
    /// The peer takes no more requests.
    TACK_H3_EVENT_GOAWAY,
    /// The peer has reset the stream.
    TACK_H3_EVENT_RESET,
    /// A priority has come, for tack_h3_take_last_priority_update.
    TACK_H3_EVENT_PRIORITY_UPDATE,
}

/// Reads what has come. Returns the stream of the next event, which is written to `ev` and to be freed with
/// tack_h3_event_free, or an error: TACK_H3_ERR_DONE if there is no event.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_conn_poll(
    conn: Option<&mut tack_h3_conn>,
    quic_conn: Option<&mut tack_conn>,
    ev: Option<&mut MaybeUninit<Option<Box<tack_h3_event>>>>,
) -> i64 {
    let poll = || -> Result<i64, Failure> {
        let ev = ev.ok_or(INVALID_ARGUMENT)?;
        let (conn, quic) = both(conn, quic_conn)?;
        let (stream_id, event) = conn.poll(quic)?;
        ev.write(Some(Box::new(tack_h3_event(event))));
        Ok(i64::try_from(stream_id).unwrap_or(i64::MAX))
    };
    poll().unwrap_or_else(|failure| i64::from(failure.code()))
}

/// Returns the kind of an event; -1 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_event_type(ev: Option<&mut tack_h3_event>) -> H3EventNumber {
    use tack_h3_event_type as c;
    let Some(event) = ev else { return H3EventNumber(-1) };
    let kind = match &event.0 {
        Event::Headers { .. } => c::TACK_H3_EVENT_HEADERS,
        Event::Data => c::TACK_H3_EVENT_DATA,
        Event::Finished => c::TACK_H3_EVENT_FINISHED,
        Event::GoAway => c::TACK_H3_EVENT_GOAWAY,
        Event::Reset(..) => c::TACK_H3_EVENT_RESET,
        Event::PriorityUpdate => c::TACK_H3_EVENT_PRIORITY_UPDATE,
    };
    H3EventNumber(kind as c_int)
}

/// Calls `cb` for each header field of TACK_H3_EVENT_HEADERS, until it returns another value than 0, which is
/// returned then. It may not change them. Returns 0 behind the last one.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_event_for_each_header(
    ev: Option<&mut tack_h3_event>,
    cb: Option<
        extern "C" fn(
            name: *mut u8,
            name_len: usize,
            value: *mut u8,
            value_len: usize,
            argp: *mut c_void,
        ) -> c_int,
    >,
    argp: *mut c_void,
) -> c_int {
    let Some((event, cb)) = ev.zip(cb) else { return INVALID_ARGUMENT.code() };
    let Event::Headers { list, .. } = &event.0 else { return INVALID_ARGUMENT.code() };
    let mut answers = list.iter().map(|header| {
        let (name, value) = (header.name(), header.value());
        let (name_at, value_at) = (name.as_ptr().cast_mut(), value.as_ptr().cast_mut());
        cb(name_at, name.len(), value_at, value.len(), argp)
    });
    answers.find(|answer| *answer != 0).unwrap_or(0)
}

/// Whether more comes on the stream behind TACK_H3_EVENT_HEADERS.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_event_headers_has_more_frames(
    ev: Option<&mut tack_h3_event>,
) -> bool {
    matches!(ev.map(|ev| &ev.0), Some(Event::Headers { more_frames: true, .. }))
}

/// Frees an event. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_h3_event_free(ev: Option<Box<tack_h3_event>>) {
    drop(ev);
}
