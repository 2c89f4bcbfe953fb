//! A frame, and its header on the wire.
//!
//! ```text
//! Stream {
//!   Version (8) = 1,
//!   Kind (8),                 1 key, 2 delta, 3 audio
//!   Layer (8),
//!   Number (i),
//!   Depends On (i),           how far below Number; 0: nothing
//!   Captured (i),             microseconds since the sender's start
//!   Lifetime (i),             microseconds from Captured to the deadline
//!   Length (i),
//!   Payload (..),
//! }
//! ```
//!
//! The length is there because a receiver may see the end of a stream that was reset (docs/quiche-api.md).

use std::time::{Duration, Instant};

use tack_proto::varint::{self, Reader};
use thiserror::Error;

/// The longest payload of a frame, bytes: 16 MiB.
pub const MAX_PAYLOAD: usize = 16 << 20;

const VERSION: u8 = 1;

/// The longest header: three bytes and five varints.
pub(crate) const MAX_HEADER: usize = 3 + 5 * 8;

/// What a frame is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A picture that needs no other.
    Key,
    /// A picture that needs another.
    Delta,
    /// A piece of sound.
    Audio,
}

/// A frame to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is of.
    pub kind: FrameKind,
    /// Layer of a scalable encoder; 0, the base, is sent before others.
    pub layer: u8,
    /// When it was captured; not before the sender was made.
    pub captured_at: Instant,
    /// From when on it is worth nothing.
    pub deadline: Instant,
    /// The frame without which it cannot be shown, as the sender numbered it.
    pub depends_on: Option<u64>,
}

/// What the receiver is told of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What it is of.
    pub kind: FrameKind,
    /// Layer of a scalable encoder.
    pub layer: u8,
    /// Numbers go up by one with each frame that the application has given to the sender.
    pub number: u64,
    /// The frame without which it cannot be shown.
    pub depends_on: Option<u64>,
    /// When it was captured, from the sender's start.
    pub captured: Duration,
    /// How long after that it is worth nothing.
    pub lifetime: Duration,
    /// Bytes of the payload.
    pub len: usize,
}

/// Why a header cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// The stream has ended inside the header, or more of it has to come.
    #[error("the header is not complete")]
    Truncated,
    /// Another version of the format.
    #[error("version {0} of the frame format is not known")]
    Version(u8),
    /// A kind that does not exist.
    #[error("frames of kind {0} are not known")]
    Kind(u8),
    /// A frame that depends on one before the first.
    #[error("a frame depends on one before the first")]
    Dependency,
    /// More payload than [`MAX_PAYLOAD`].
    #[error("a frame of {0} bytes is longer than allowed")]
    TooLong(u64),
}

impl From<varint::Truncated> for HeaderError {
    fn from(_: varint::Truncated) -> Self {
        Self::Truncated
    }
}

impl FrameKind {
    const fn to_wire(self) -> u8 {
        match self {
            Self::Key => 1,
            Self::Delta => 2,
            Self::Audio => 3,
        }
    }

    /// Urgency of the stream (RFC 9218): sound before pictures, the base before what refines it. Among
    /// equals the older stream goes first.
    pub(crate) fn urgency(self, layer: u8) -> u8 {
        match self {
            Self::Audio => 2,
            Self::Key | Self::Delta => layer.saturating_add(3).min(7),
        }
    }
}

impl FrameHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[VERSION, self.kind.to_wire(), self.layer]);
        let depends_on = self.depends_on.map_or(0, |on| self.number.saturating_sub(on));
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(varint::MAX);
        let fields = [
            self.number,
            depends_on,
            micros(self.captured),
            micros(self.lifetime),
            self.len as u64,
        ];
        for field in fields {
            varint::put(out, field.min(varint::MAX));
        }
    }

    /// Reads the header at the beginning of a stream; also returns its length.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), HeaderError> {
        let [version, kind, layer, rest @ ..] = bytes else {
            return Err(HeaderError::Truncated);
        };
        if *version != VERSION {
            return Err(HeaderError::Version(*version));
        }
        let kind = match kind {
            1 => FrameKind::Key,
            2 => FrameKind::Delta,
            3 => FrameKind::Audio,
            other => return Err(HeaderError::Kind(*other)),
        };
        let mut reader = Reader::new(rest);
        let number = reader.read_varint()?;
        let depends_on = match reader.read_varint()? {
            0 => None,
            below => Some(number.checked_sub(below).ok_or(HeaderError::Dependency)?),
        };
        let captured = Duration::from_micros(reader.read_varint()?);
        let lifetime = Duration::from_micros(reader.read_varint()?);
        let len = reader.read_varint()?;
        let payload = usize::try_from(len).ok().filter(|len| *len <= MAX_PAYLOAD);
        let len = payload.ok_or(HeaderError::TooLong(len))?;
        let header = Self { kind, layer: *layer, number, depends_on, captured, lifetime, len };
        Ok((header, 3 + reader.position()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> impl Strategy<Value = FrameHeader> {
        let kind =
            prop_oneof![Just(FrameKind::Key), Just(FrameKind::Delta), Just(FrameKind::Audio)];
        let time = (0..1_u64 << 50).prop_map(Duration::from_micros);
        let number = 0..1_u64 << 60;
        (kind, any::<u8>(), number, any::<u64>(), time.clone(), time, 0..=MAX_PAYLOAD).prop_map(
            |(kind, layer, number, on, captured, lifetime, len)| FrameHeader {
                kind,
                layer,
                number,
                depends_on: (number > 0).then(|| on % number),
                captured,
                lifetime,
                len,
            },
        )
    }

    proptest! {
        #[test]
        fn a_header_says_what_was_written_and_nothing_before_it_is_whole(header in header()) {
            let mut out = Vec::new();
            header.encode(&mut out);
            prop_assert!(out.len() <= MAX_HEADER);
            prop_assert_eq!(FrameHeader::decode(&out), Ok((header, out.len())));
            for end in 0..out.len() {
                prop_assert_eq!(FrameHeader::decode(&out[..end]), Err(HeaderError::Truncated));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = FrameHeader::decode(&bytes);
        }
    }

    #[test]
    fn what_no_sender_writes_is_refused() {
        let decode = |bytes: &[u8]| FrameHeader::decode(bytes).unwrap_err();
        assert_eq!(decode(&[2, 1, 0, 0, 0, 0, 0, 0]), HeaderError::Version(2));
        assert_eq!(decode(&[1, 9, 0, 0, 0, 0, 0, 0]), HeaderError::Kind(9));
        assert_eq!(decode(&[1, 2, 0, 3, 4, 0, 0, 0]), HeaderError::Dependency);
        let long = [&[1, 1, 0, 0, 0, 0, 0][..], &[0xa0, 0, 0, 0]].concat();
        assert_eq!(decode(&long), HeaderError::TooLong(1 << 29));
    }
}
