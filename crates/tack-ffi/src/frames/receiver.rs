//! Frames put together.

use std::ffi::c_int;
use std::ptr;

use tack_media::{FrameHeader, FrameReceiver, HeaderError, ReceiverEvent};

use super::{NO_FRAME, tack_frame_kind};
use crate::clock::{self, nanos};
use crate::conn::tack_conn;
use crate::error::{INVALID_ARGUMENT, object, status, tack_error};
use crate::pointer::FrameReceiverEventOut;

/// Puts the frames of a sender at the other end together. What a sender can make it keep is bounded: 64 MiB of frames
/// that are not whole, and 64 MiB or 4,096 events that the program has not taken.
pub struct tack_frame_receiver {
    receiver: FrameReceiver,
    /// The event that the program was told last, to which a payload belongs that it may still read.
    event: Option<ReceiverEvent>,
    /// The program has not been told it.
    is_new: bool,
}

/// Kinds of struct tack_frame_receiver_event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tack_frame_receiver_event_type {
    /// One that this version of the header does not name.
    TACK_FRAME_RECEIVER_EVENT_UNKNOWN = 0,
    /// A frame has come whole.
    TACK_FRAME_RECEIVER_EVENT_FRAME = 1,
    /// A frame will not come: its stream was reset, or has ended too early.
    TACK_FRAME_RECEIVER_EVENT_LOST = 2,
    /// A stream that holds no frame was stopped.
    TACK_FRAME_RECEIVER_EVENT_MALFORMED = 3,
}

/// What is wrong with a stream that holds no frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tack_frame_error {
    /// Nothing.
    TACK_FRAME_ERROR_NONE = 0,
    /// Its header has no end.
    TACK_FRAME_ERROR_TRUNCATED = 1,
    /// The version of the format is not known.
    TACK_FRAME_ERROR_VERSION = 2,
    /// The kind of the frame is not known.
    TACK_FRAME_ERROR_KIND = 3,
    /// The frame depends on one before the first.
    TACK_FRAME_ERROR_DEPENDENCY = 4,
    /// The frame is longer than it says or than is allowed, or too many are not whole.
    TACK_FRAME_ERROR_TOO_LONG = 5,
    /// Something that this version of the header does not name.
    TACK_FRAME_ERROR_UNKNOWN = 6,
}

/// What a receiver of frames has seen. Set `size` to `sizeof(struct tack_frame_receiver_event)` before
/// tack_frame_receiver_next: later versions of the library add fields at the end.
#[repr(C)]
pub struct tack_frame_receiver_event {
    /// Length of the struct, bytes; becomes how much of it was written.
    pub size: usize,
    /// What has happened.
    pub event_type: tack_frame_receiver_event_type,
    /// What the frame is of; TACK_FRAME_UNKNOWN if its header has not come: then the fields of the header, down to
    /// `lifetime`, say nothing.
    pub kind: tack_frame_kind,
    /// What is wrong with the stream of TACK_FRAME_RECEIVER_EVENT_MALFORMED.
    pub error: tack_frame_error,
    /// Layer of a scalable encoder.
    pub layer: u8,
    /// The number of the frame, or TACK_NO_FRAME. Numbers go up by one with each frame that the sender was given.
    pub number: u64,
    /// The frame without which it cannot be shown, or TACK_NO_FRAME.
    pub depends_on: u64,
    /// When it was captured, nanoseconds from the sender's start.
    pub captured: u64,
    /// How long after that it is worth nothing, nanoseconds.
    pub lifetime: u64,
    /// How long ago the last of it was read, nanoseconds; TACK_UNKNOWN if it is not whole.
    pub age: u64,
    /// The bytes of a whole frame: they belong to the receiver, until the next tack_frame_receiver_next or
    /// tack_frame_receiver_free. NULL if there are none.
    pub payload: *const u8,
    /// How many there are.
    pub payload_len: usize,
    /// The stream of TACK_FRAME_RECEIVER_EVENT_MALFORMED; else 0.
    pub stream_id: u64,
}

impl Default for tack_frame_receiver_event {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            event_type: tack_frame_receiver_event_type::TACK_FRAME_RECEIVER_EVENT_UNKNOWN,
            kind: tack_frame_kind::TACK_FRAME_UNKNOWN,
            error: tack_frame_error::TACK_FRAME_ERROR_NONE,
            layer: 0,
            number: NO_FRAME,
            depends_on: NO_FRAME,
            captured: 0,
            lifetime: 0,
            age: u64::MAX,
            payload: ptr::null(),
            payload_len: 0,
            stream_id: 0,
        }
    }
}

impl tack_frame_receiver_event {
    fn set_header(&mut self, header: &FrameHeader) {
        self.kind = header.kind.into();
        self.layer = header.layer;
        self.number = header.number;
        self.depends_on = header.depends_on.unwrap_or(NO_FRAME);
        self.captured = nanos(header.captured);
        self.lifetime = nanos(header.lifetime);
    }
}

impl From<&ReceiverEvent> for tack_frame_receiver_event {
    fn from(event: &ReceiverEvent) -> Self {
        use tack_frame_receiver_event_type as c;
        let mut told = Self::default();
        match event {
            ReceiverEvent::Frame(frame) => {
                told.event_type = c::TACK_FRAME_RECEIVER_EVENT_FRAME;
                told.set_header(&frame.header);
                told.age = nanos(clock::now().saturating_duration_since(frame.arrived));
                if !frame.payload.is_empty() {
                    told.payload = frame.payload.as_ptr();
                }
                told.payload_len = frame.payload.len();
            }
            ReceiverEvent::Lost { header } => {
                told.event_type = c::TACK_FRAME_RECEIVER_EVENT_LOST;
                if let Some(header) = header {
                    told.set_header(header);
                }
            }
            ReceiverEvent::Malformed { stream_id, error } => {
                told.event_type = c::TACK_FRAME_RECEIVER_EVENT_MALFORMED;
                told.error = (*error).into();
                told.stream_id = *stream_id;
            }
            _ => {}
        }
        told
    }
}

impl From<HeaderError> for tack_frame_error {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::Truncated => Self::TACK_FRAME_ERROR_TRUNCATED,
            HeaderError::Version(_) => Self::TACK_FRAME_ERROR_VERSION,
            HeaderError::Kind(_) => Self::TACK_FRAME_ERROR_KIND,
            HeaderError::Dependency => Self::TACK_FRAME_ERROR_DEPENDENCY,
            HeaderError::TooLong(_) => Self::TACK_FRAME_ERROR_TOO_LONG,
            _ => Self::TACK_FRAME_ERROR_UNKNOWN,
        }
    }
}

/// Creates a receiver of frames for one connection.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_receiver_new() -> Option<Box<tack_frame_receiver>> {
    object("create a receiver of frames", || {
        Ok(tack_frame_receiver { receiver: FrameReceiver::new(), event: None, is_new: false })
    })
}

/// Frees a receiver of frames, and the payload that it has handed out last. NULL is nothing to free.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_receiver_free(receiver: Option<Box<tack_frame_receiver>>) {
    drop(receiver);
}

/// Reads all that has come on the peer's unidirectional streams; others are left to the program. To be called after
/// tack_conn_recv, and again when 64 MiB of frames or 4,096 events had been waiting: it reads nothing until then.
/// Returns 0 or an error.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_receiver_read(
    receiver: Option<&mut tack_frame_receiver>,
    conn: Option<&mut tack_conn>,
) -> c_int {
    status(|| {
        let (receiver, conn) = receiver.zip(conn).ok_or(INVALID_ARGUMENT)?;
        receiver.receiver.read(clock::now(), &mut conn.0);
        Ok(())
    })
}

/// Tells what tack_frame_receiver_read has seen: a frame, or one that will not come. Frames are told as they come,
/// which need not be in the order of their numbers. Each event is told once. Returns 0 or an error: TACK_ERR_DONE if
/// there is no event, TACK_ERR_BUFFER_TOO_SHORT if `size` is not set.
#[unsafe(no_mangle)]
pub extern "C" fn tack_frame_receiver_next(
    receiver: Option<&mut tack_frame_receiver>,
    mut out: FrameReceiverEventOut,
) -> c_int {
    status(|| {
        let tack_frame_receiver { receiver, event, is_new } =
            receiver.ok_or(INVALID_ARGUMENT)?;
        // One that could not be told stays.
        if !*is_new {
            *event = receiver.poll_event();
            *is_new = event.is_some();
        }
        let event = event.as_ref().ok_or(tack_error::TACK_ERR_DONE)?;
        out.write(&event.into())?;
        *is_new = false;
        Ok(())
    })
}
