//! Why a payload could not be decoded.

use thiserror::Error;

use crate::varint::Truncated;

/// Why a payload could not be decoded. The connection must be closed with
/// [`to_wire`](Self::to_wire); nothing is known of what follows in the payload.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The payload ended inside a frame.
    #[error("the payload ends inside a frame; close the connection, the peer is broken")]
    Truncated,
    /// A frame of a type that is neither in RFC 9000 nor one of the extensions.
    #[error("unknown frame type {0:#x}; close the connection, its length can't be known")]
    UnknownFrame(u64),
    /// A frame type that was not written in its shortest form.
    #[error("frame type {0:#x} takes more bytes than needed; close the connection")]
    LongType(u64),
    /// A field holds a value that its frame forbids.
    #[error("frame {frame_type:#x}: {reason}; close the connection")]
    Malformed {
        /// The type of the frame that holds the field.
        frame_type: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl DecodeError {
    /// The transport error code of RFC 9000 section 20.1 to close the connection with.
    pub const fn to_wire(self) -> u64 {
        const FRAME_ENCODING_ERROR: u64 = 0x07;
        const PROTOCOL_VIOLATION: u64 = 0x0a;
        match self {
            // TACK-7-1, TACK-7-3
            Self::Truncated | Self::UnknownFrame(_) | Self::Malformed { .. } => {
                FRAME_ENCODING_ERROR
            }
            // TACK-7-4: RFC 9000 section 12.4 names this error for longer types.
            Self::LongType(_) => PROTOCOL_VIOLATION,
        }
    }
}

impl From<Truncated> for DecodeError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}
