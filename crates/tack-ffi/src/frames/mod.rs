//! Live media in frames: tack-media's sender and receiver.

pub mod receiver;
pub mod sender;

use std::ffi::c_int;

use tack_media::{FrameKind, MAX_PAYLOAD, SendError};

use crate::error::{Failure, INVALID_ARGUMENT, tack_error};
use crate::number::FrameKindNumber;

/// The longest frame, bytes.
pub const TACK_MAX_FRAME_LEN: usize = 16_777_216;
const _: () = assert!(TACK_MAX_FRAME_LEN == MAX_PAYLOAD);

/// `TACK_NO_FRAME` of the header.
const NO_FRAME: u64 = u64::MAX;

/// What a frame is of.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tack_frame_kind {
    /// Not known: the header of the frame has not come.
    TACK_FRAME_UNKNOWN = 0,
    /// A picture that needs no other.
    TACK_FRAME_KEY = 1,
    /// A picture that needs another.
    TACK_FRAME_DELTA = 2,
    /// A piece of sound.
    TACK_FRAME_AUDIO = 3,
}

impl From<FrameKind> for tack_frame_kind {
    fn from(kind: FrameKind) -> Self {
        match kind {
            FrameKind::Key => Self::TACK_FRAME_KEY,
            FrameKind::Delta => Self::TACK_FRAME_DELTA,
            FrameKind::Audio => Self::TACK_FRAME_AUDIO,
        }
    }
}

impl FrameKindNumber {
    /// The kind of a frame that is to be sent.
    fn get(self) -> Result<FrameKind, Failure> {
        use tack_frame_kind as c;
        match self.0 {
            kind if kind == c::TACK_FRAME_KEY as c_int => Ok(FrameKind::Key),
            kind if kind == c::TACK_FRAME_DELTA as c_int => Ok(FrameKind::Delta),
            kind if kind == c::TACK_FRAME_AUDIO as c_int => Ok(FrameKind::Audio),
            _ => Err(INVALID_ARGUMENT),
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Full => tack_error::TACK_ERR_DONE.into(),
            SendError::Closed => tack_error::TACK_ERR_INVALID_STATE.into(),
            SendError::Connection(error) => error.into(),
            // It is too long, or depends on a frame that has not been sent.
            _ => INVALID_ARGUMENT,
        }
    }
}
