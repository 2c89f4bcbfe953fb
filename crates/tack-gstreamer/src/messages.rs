//! What the two ends tell each other beside the frames.
//!
//! ```text
//! End {                       first bidirectional stream of the sender, ended behind it
//!   Frames (i),               numbered from 0 on
//!   Never Begun (i),          of these, that were dropped before any of them left
//! }
//! Key Frame Requests {        first unidirectional stream of the receiver
//!   Request (8) = 1 ...       each asks for a key frame
//! }
//! ```

use tack_proto::varint::{self, Reader};

/// A request on the stream of these.
pub(crate) const KEY_FRAME_REQUEST: u8 = 1;

/// How many frames there were, when no more come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// Frames that had a number.
    pub frames: u64,
    /// Of these, frames that were dropped before any of them left: they have no stream.
    pub never_begun: u64,
}

/// The longest message: two varints.
pub(crate) const MAX_END: usize = 16;

impl End {
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_END);
        varint::put(&mut out, self.frames.min(varint::MAX));
        varint::put(&mut out, self.never_begun.min(varint::MAX));
        out
    }

    /// `None` if it is no such message.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let end = Self {
            frames: reader.read_varint().ok()?,
            never_begun: reader.read_varint().ok()?,
        };
        (reader.position() == bytes.len()).then_some(end)
    }

    /// Frames that have a stream: each comes, or its stream is reset.
    pub fn begun(self) -> u64 {
        self.frames.saturating_sub(self.never_begun)
    }
}

/// The first bidirectional stream of an end (RFC 9000 section 2.1).
pub(crate) fn end_stream(sender_is_server: bool) -> u64 {
    u64::from(sender_is_server)
}

/// The first unidirectional stream of an end.
pub(crate) fn request_stream(receiver_is_server: bool) -> u64 {
    2 + u64::from(receiver_is_server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_what_was_written_and_nothing_else_is_one() {
        let end = End { frames: 70_000, never_begun: 3 };
        let bytes = end.encode();
        assert!(bytes.len() <= MAX_END);
        assert_eq!(End::decode(&bytes), Some(end));
        assert_eq!(End::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(End::decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(End { frames: 1, never_begun: 9 }.begun(), 0);
    }
}
