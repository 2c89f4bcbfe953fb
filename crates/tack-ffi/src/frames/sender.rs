//! Frames on their way.

use std::ffi::c_int;

use tack_media::{DropCause, Frame, FrameSender, SenderEvent};

use super::NO_FRAME;
use crate::clock;
use crate::conn::tack_conn;
use crate::error::{Failure, INVALID_ARGUMENT, object, status, tack_error};
use crate::number::FrameKindNumber;
use crate::pointer::{Bytes, FrameSenderEventOut, FrameStatsOut};

/// Stream ids are below 2^62, and every fourth is one of this end's unidirectional streams.
const STREAMS: u64 = 1 << 60;

/// Sends frames over a connection, each on a unidirectional stream of its own: older and more urgent ones first, none
/// that would come behind its deadline, none without the frame that it depends on. Sound is more urgent than pictures,
/// and a lower layer than a higher one.
///
/// A frame begins when no more than leaves in 10 ms waits in the send buffer of the connection, which other streams
/// share: what is sent beside frames is written at an urgency above 7, and only while `backlog` of
/// struct tack_media_stats is less than that.
pub struct tack_frame_sender {
    sender: FrameSender,
    /// The event that the program is told next.
    event: Option<SenderEvent>,
}

/// Kinds of struct tack_frame_sender_event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tack_frame_sender_event_type {
    /// One that this version of the header does not name.
    TACK_FRAME_SENDER_EVENT_UNKNOWN = 0,
    /// The connection has taken all of the frame.
    TACK_FRAME_SENDER_EVENT_TAKEN = 1,
    /// The frame is not delivered. Frames that depend on it are not either; each has an event of its own.
    TACK_FRAME_SENDER_EVENT_DROPPED = 2,
    /// A stream that is not a frame's was reset at its deadline: the program's.
    TACK_FRAME_SENDER_EVENT_OTHER_EXPIRED = 3,
    /// The receiver has stopped a stream that is not a frame's: the program's. Beside a sender of frames
    /// tack_conn_stream_stopped_next tells of none.
    TACK_FRAME_SENDER_EVENT_OTHER_STOPPED = 4,
}

/// Why a frame is not delivered.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tack_frame_drop_cause {
    /// One that this version of the header does not name, or the frame was not dropped.
    TACK_FRAME_DROP_UNKNOWN = 0,
    /// It would have come behind its deadline, and none of it has left.
    TACK_FRAME_DROP_LATE = 1,
    /// Its deadline passed while it was on its way; it is not known to have arrived.
    TACK_FRAME_DROP_EXPIRED = 2,
    /// A frame that it depends on is not delivered.
    TACK_FRAME_DROP_DEPENDENCY = 3,
    /// Too many others were waiting. tack_frame_sender_send refuses such a frame instead.
    TACK_FRAME_DROP_BACKLOG = 4,
    /// The receiver has stopped its stream.
    TACK_FRAME_DROP_REFUSED = 5,
}

/// What has become of a frame. Set `size` to `sizeof(struct tack_frame_sender_event)` before tack_frame_sender_next:
/// later versions of the library add fields at the end.
#[repr(C)]
pub struct tack_frame_sender_event {
    /// Length of the struct, bytes; becomes how much of it was written.
    pub size: usize,
    /// What has happened.
    pub event_type: tack_frame_sender_event_type,
    /// Why the frame was dropped.
    pub cause: tack_frame_drop_cause,
    /// The frame; TACK_NO_FRAME if the event is about none.
    pub number: u64,
    /// The stream of TACK_FRAME_SENDER_EVENT_OTHER_EXPIRED and TACK_FRAME_SENDER_EVENT_OTHER_STOPPED; else 0.
    pub stream_id: u64,
}

impl From<&SenderEvent> for tack_frame_sender_event {
    fn from(event: &SenderEvent) -> Self {
        use tack_frame_sender_event_type as c;
        let mut told = Self {
            size: size_of::<Self>(),
            event_type: c::TACK_FRAME_SENDER_EVENT_UNKNOWN,
            cause: tack_frame_drop_cause::TACK_FRAME_DROP_UNKNOWN,
            number: NO_FRAME,
            stream_id: 0,
        };
        match *event {
            SenderEvent::Taken { number } => {
                told.event_type = c::TACK_FRAME_SENDER_EVENT_TAKEN;
                told.number = number;
            }
            SenderEvent::Dropped { number, cause } => {
                told.event_type = c::TACK_FRAME_SENDER_EVENT_DROPPED;
                told.number = number;
                told.cause = cause.into();
            }
            SenderEvent::OtherExpired { stream_id } => {
                told.event_type = c::TACK_FRAME_SENDER_EVENT_OTHER_EXPIRED;
                told.stream_id = stream_id;
            }
            SenderEvent::OtherStopped { stream_id } => {
                told.event_type = c::TACK_FRAME_SENDER_EVENT_OTHER_STOPPED;
                told.stream_id = stream_id;
            }
            _ => {}
        }
        told
    }
}

impl From<DropCause> for tack_frame_drop_cause {
    fn from(cause: DropCause) -> Self {
        match cause {
            DropCause::Late => Self::TACK_FRAME_DROP_LATE,
            DropCause::Expired => Self::TACK_FRAME_DROP_EXPIRED,
            DropCause::Dependency => Self::TACK_FRAME_DROP_DEPENDENCY,
            DropCause::Backlog => Self::TACK_FRAME_DROP_BACKLOG,
            DropCause::Refused => Self::TACK_FRAME_DROP_REFUSED,
            _ => Self::TACK_FRAME_DROP_UNKNOWN,
        }
    }
}

/// Statistics of a sender of frames. Set `size` to `sizeof(struct tack_frame_stats)` before
/// tack_frame_sender_stats: later versions of the library add fields at the end.
#[repr(C)]
pub struct tack_frame_stats {
    /// Length of the struct, bytes; becomes how much of it was written.
    pub size: usize,
    /// Frames of which the connection has not taken all.
    pub waiting: u64,
    /// Bytes of them.
    pub waiting_bytes: u64,
    /// Frames that were dropped before the connection had taken any of them: the receiver hears of none.
    pub never_begun: u64,
}

/// Creates a sender of frames for one connection. It opens the unidirectional streams of this end, in their order;
/// the first `first_stream` of them it leaves to the program. Returns NULL if there are not so many.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_sender_new(first_stream: u64) -> Option<Box<tack_frame_sender>> {
    object("create a sender of frames", || {
        if first_stream >= STREAMS {
            return Err(INVALID_ARGUMENT);
        }
        let sender = FrameSender::with_first_stream(clock::now(), first_stream);
        Ok(tack_frame_sender { sender, event: None })
    })
}

/// Frees a sender of frames. What it has not sent is lost. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_sender_free(sender: Option<Box<tack_frame_sender>>) {
    drop(sender);
}

/// Begins the stream of each frame with these bytes, which a protocol between QUIC and the frames may want. A receiver
/// of frames expects none. Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_sender_set_preamble(
    sender: Option<&mut tack_frame_sender>,
    preamble: Bytes,
    preamble_len: usize,
) -> c_int {
    status(|| {
        let preamble = preamble.get(preamble_len)?;
        sender.ok_or(INVALID_ARGUMENT)?.sender.set_preamble(preamble);
        Ok(())
    })
}

/// Takes a frame, and writes what the connection takes of it now. The payload is copied.
///
/// The frame was captured `age` nanoseconds ago, and is worth nothing from `deadline` nanoseconds on, counted from now;
/// TACK_NO_DEADLINE is for one that stays worth something. `layer` is that of a scalable encoder, or 0. `depends_on` is
/// the number of the frame without which it cannot be shown, or TACK_NO_FRAME.
///
/// Returns the number of the frame: they begin at 0 and go up by one. What becomes of it tack_frame_sender_next tells.
/// Or returns an error: TACK_ERR_INVALID_ARGUMENT if it is longer than TACK_MAX_FRAME_LEN, or depends on a frame that
/// has not been sent; TACK_ERR_DONE if 512 frames or 32 MiB wait: the frame has no number, and can be given again when
/// some have left; TACK_ERR_INVALID_STATE if the connection is over.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_sender_send(
    sender: Option<&mut tack_frame_sender>,
    conn: Option<&mut tack_conn>,
    kind: FrameKindNumber,
    layer: u8,
    age: u64,
    deadline: u64,
    depends_on: u64,
    payload: Bytes,
    payload_len: usize,
) -> i64 {
    let send = || -> Result<i64, Failure> {
        let (sender, conn) = sender.zip(conn).ok_or(INVALID_ARGUMENT)?;
        let now = clock::now();
        let frame = Frame {
            kind: kind.get()?,
            layer,
            captured_at: clock::before(now, age),
            deadline: clock::after(now, deadline).ok_or(INVALID_ARGUMENT)?,
            depends_on: (depends_on != NO_FRAME).then_some(depends_on),
        };
        let payload = payload.get(payload_len)?;
        let number = sender.sender.send_frame(&mut conn.0, now, frame, payload)?;
        Ok(i64::try_from(number).unwrap_or(i64::MAX))
    };
    send().unwrap_or_else(|failure| i64::from(failure.code()))
}

/// Writes what the connection takes of the frames that wait, and drops what is too late. To be called after
/// tack_conn_recv and tack_conn_on_timeout. Returns 0 or an error: TACK_ERR_INVALID_STATE if the connection is over.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_sender_flush(
    sender: Option<&mut tack_frame_sender>,
    conn: Option<&mut tack_conn>,
) -> c_int {
    status(|| {
        let (sender, conn) = sender.zip(conn).ok_or(INVALID_ARGUMENT)?;
        Ok(sender.sender.flush(&mut conn.0, clock::now())?)
    })
}

/// Tells what has become of a frame. Each event is told once; of more than 4,096 that were not asked for the last ones
/// are. tack_conn_stream_expired_next is not to be asked beside it: events tell of all streams. Returns 0 or an error:
/// TACK_ERR_DONE if there is no event, TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_sender_next(
    sender: Option<&mut tack_frame_sender>,
    mut out: FrameSenderEventOut,
) -> c_int {
    status(|| {
        let sender = sender.ok_or(INVALID_ARGUMENT)?;
        // It stays if it cannot be told.
        let event = sender.event.take().or_else(|| sender.sender.poll_event());
        let event = sender.event.insert(event.ok_or(tack_error::TACK_ERR_DONE)?);
        out.write(&(&*event).into())?;
        sender.event = None;
        Ok(())
    })
}

/// Tells the statistics of a sender of frames. Returns 0 or an error: TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_sender_stats(
    sender: Option<&tack_frame_sender>,
    mut out: FrameStatsOut,
) -> c_int {
    status(|| {
        let sender = &sender.ok_or(INVALID_ARGUMENT)?.sender;
        let (waiting, waiting_bytes) = sender.backlog();
        out.write(&tack_frame_stats {
            size: size_of::<tack_frame_stats>(),
            waiting: waiting as u64,
            waiting_bytes: waiting_bytes as u64,
            never_begun: sender.never_begun(),
        })
    })
}
