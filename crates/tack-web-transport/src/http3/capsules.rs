//! Capsules on the stream of the request, which its DATA frames carry (RFC 9297 section 3).

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use web_transport_proto::{Capsule, CapsuleError, Frame, VarInt, VarIntUnexpectedEnd};

use super::codes;

/// The most that a capsule may carry which is kept, bytes.
const MAX_PAYLOAD: u64 = 64 << 10;

/// The type of CLOSE_WEBTRANSPORT_SESSION (draft-ietf-webtrans-http3 section 6), the only one that means something here.
const CLOSE_SESSION: u64 = 0x2843;

/// Frames that no stream of a request has: CANCEL_PUSH, SETTINGS, GOAWAY, MAX_PUSH_ID (RFC 9114 section 7.2), and those of
/// HTTP/2 that have no place in HTTP/3 (section 7.2.8).
const UNEXPECTED: [u64; 8] = [0x02, 0x03, 0x04, 0x06, 0x07, 0x08, 0x09, 0x0d];

/// Why a stream has no next capsule.
#[derive(Debug, Error)]
pub(super) enum CapsulesError {
    #[error("no capsule: {0}")]
    Capsule(#[from] CapsuleError),
    #[error("a frame of type {0:#x} has no place on the stream of a request")]
    UnexpectedFrame(u64),
}

impl CapsulesError {
    /// The code with which the connection is closed.
    pub(super) fn code(&self) -> u64 {
        match self {
            Self::Capsule(_) => codes::MESSAGE_ERROR,
            Self::UnexpectedFrame(_) => codes::FRAME_UNEXPECTED,
        }
    }
}

impl From<std::io::Error> for CapsulesError {
    fn from(error: std::io::Error) -> Self {
        Self::Capsule(error.into())
    }
}

impl From<VarIntUnexpectedEnd> for CapsulesError {
    fn from(error: VarIntUnexpectedEnd) -> Self {
        Self::Capsule(error.into())
    }
}

/// Reads capsules from DATA frames, in which they begin and end anywhere, and skips other frames that may be there.
///
/// It keeps one capsule at most, and decodes that when it is whole: one that lacks something then is malformed,
/// and nothing that follows completes it. Unknown ones of any length are skipped (RFC 9297 section 3.2).
pub(super) struct Capsules<S> {
    stream: S,
    /// What has not been read yet of the current DATA frame, bytes.
    left: u64,
}

impl<S: AsyncRead + Unpin> Capsules<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, left: 0 }
    }

    /// Reads the next capsule that is not skipped; `None` if the stream ends before one begins.
    pub(super) async fn next(&mut self) -> Result<Option<Capsule>, CapsulesError> {
        let (kind, len) = loop {
            if !self.has_data().await? {
                return Ok(None);
            }
            let (kind, len) = (self.varint().await?, self.varint().await?);
            if kind.into_inner() == CLOSE_SESSION {
                break (kind, len);
            }
            self.skip(len.into_inner()).await?;
        };
        let payload = len.into_inner();
        if payload > MAX_PAYLOAD {
            return Err(CapsuleError::MessageTooLong.into());
        }
        let mut capsule = Vec::new();
        kind.encode(&mut capsule);
        len.encode(&mut capsule);
        let header = capsule.len();
        capsule.resize(header + payload as usize, 0);
        self.fill(&mut capsule[header..]).await?;
        Ok(Some(Capsule::decode(&mut capsule.as_slice())?))
    }

    async fn varint(&mut self) -> Result<VarInt, CapsulesError> {
        let mut bytes = [0; VarInt::MAX_SIZE];
        let (first, rest) = bytes.split_at_mut(1);
        self.fill(first).await?;
        // The two high bits tell the length (RFC 9000 section 16).
        let len = 1 << (first[0] >> 6);
        self.fill(&mut rest[..len - 1]).await?;
        Ok(VarInt::decode(&mut &bytes[..len])?)
    }

    /// Fills a buffer from as many DATA frames as that takes.
    async fn fill(&mut self, mut buffer: &mut [u8]) -> Result<(), CapsulesError> {
        while !buffer.is_empty() {
            if !self.has_data().await? {
                return Err(CapsuleError::UnexpectedEnd.into());
            }
            let (now, later) = buffer.split_at_mut(self.left.min(buffer.len() as u64) as usize);
            self.stream.read_exact(now).await?;
            self.left -= now.len() as u64;
            buffer = later;
        }
        Ok(())
    }

    /// Skips so many bytes, of as many DATA frames as that takes.
    async fn skip(&mut self, mut len: u64) -> Result<(), CapsulesError> {
        while len > 0 {
            if !self.has_data().await? {
                return Err(CapsuleError::UnexpectedEnd.into());
            }
            let now = len.min(self.left);
            self.discard(now).await?;
            self.left -= now;
            len -= now;
        }
        Ok(())
    }

    /// Reads bytes of the stream and forgets them.
    async fn discard(&mut self, len: u64) -> Result<(), CapsulesError> {
        let mut part = (&mut self.stream).take(len);
        if tokio::io::copy(&mut part, &mut tokio::io::sink()).await? < len {
            return Err(CapsuleError::UnexpectedEnd.into());
        }
        Ok(())
    }

    /// Goes on to the next DATA frame that is not empty when the current one has ended. Returns false if the
    /// stream has ended before.
    async fn has_data(&mut self) -> Result<bool, CapsulesError> {
        while self.left == 0 {
            let Some(kind) = VarInt::read_optional(&mut self.stream).await? else {
                return Ok(false);
            };
            if UNEXPECTED.contains(&kind.into_inner()) {
                return Err(CapsulesError::UnexpectedFrame(kind.into_inner()));
            }
            let len = VarInt::read(&mut self.stream).await?.into_inner();
            if Frame(kind) == Frame::DATA {
                self.left = len;
            } else {
                self.discard(len).await?;
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        VarInt::from_u32(kind).encode(&mut frame);
        VarInt::from_u32(payload.len() as u32).encode(&mut frame);
        frame.extend_from_slice(payload);
        frame
    }

    fn close() -> Capsule {
        Capsule::CloseWebTransportSession { code: 9, reason: "why".into() }
    }

    fn unknown() -> Capsule {
        let typ = VarInt::from_u32(0x1234_5678);
        Capsule::Unknown { typ, payload: vec![7; MAX_PAYLOAD as usize + 1].into() }
    }

    #[tokio::test]
    async fn capsules_begin_and_end_anywhere_in_data_frames() {
        let mut bytes = Vec::new();
        unknown().encode(&mut bytes);
        close().encode(&mut bytes);
        for size in [1, 7, 1000, MAX_PAYLOAD as usize] {
            let frames: Vec<_> = bytes
                .chunks(size)
                .flat_map(|part| [frame(0, part), frame(0, b""), frame(0x21, b"grease")])
                .flatten()
                .collect();
            let mut capsules = Capsules::new(&frames[..]);
            assert_eq!(capsules.next().await.unwrap(), Some(close()));
            assert_eq!(capsules.next().await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn frames_and_unknown_capsules_of_any_length_are_skipped() {
        let mut bytes = Vec::new();
        for _ in 0..3 {
            unknown().encode(&mut bytes);
        }
        close().encode(&mut bytes);
        // All of it in one DATA frame, behind a long reserved one.
        let bytes = [frame(0x21, &vec![7; 200_000]), frame(0, &bytes)].concat();
        let mut capsules = Capsules::new(&bytes[..]);
        assert_eq!(capsules.next().await.unwrap(), Some(close()));
        assert_eq!(capsules.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn frames_of_the_control_stream_and_of_http_2_are_unexpected() {
        for kind in [2, 3, 4, 6, 7, 8, 9, 0xd] {
            let bytes = frame(kind, b"");
            let error = Capsules::new(&bytes[..]).next().await.unwrap_err();
            assert_eq!(error.code(), codes::FRAME_UNEXPECTED, "{error}");
        }
    }

    #[tokio::test]
    async fn a_whole_capsule_that_lacks_something_is_refused_without_more_bytes() {
        /// Reads from a stream that goes on after these bytes, but on which nothing more has come.
        async fn refused(bytes: &[u8]) -> CapsulesError {
            let (_open, waiting) = tokio::io::duplex(1);
            let mut capsules = Capsules::new(bytes.chain(waiting));
            let next = tokio::time::timeout(std::time::Duration::from_secs(5), capsules.next());
            next.await.expect("waits for more").unwrap_err()
        }
        for len in 0..4 {
            let short = [&[0x68, 0x43, len][..], &vec![0; len.into()]].concat();
            let error = refused(&frame(0, &short)).await;
            let is_end = matches!(error, CapsulesError::Capsule(CapsuleError::UnexpectedEnd));
            assert!(is_end, "{error}");
        }
        let error = refused(&frame(0, &[0x68, 0x43, 5, 0, 0, 0, 0, 0xff])).await;
        let is_utf8 = matches!(error, CapsulesError::Capsule(CapsuleError::InvalidUtf8));
        assert!(is_utf8, "{error}");
        // Longer than any: the length alone is enough.
        let error = refused(&frame(0, &[0x68, 0x43, 0x80, 1, 0, 1])).await;
        let is_long = matches!(error, CapsulesError::Capsule(CapsuleError::MessageTooLong));
        assert!(is_long, "{error}");
    }

    #[tokio::test]
    async fn a_stream_that_ends_within_a_capsule_or_a_frame_is_an_error() {
        let mut bytes = Vec::new();
        close().encode(&mut bytes);
        let frames = [frame(0x21, b"grease"), frame(0, &bytes[..4]), frame(0, &bytes[4..])];
        let grease = frames[0].len();
        let frames = frames.concat();
        for end in 0..frames.len() {
            let next = Capsules::new(&frames[..end]).next().await;
            // Between two frames a stream may end, but not after the first part of the capsule.
            let is_end = [0, grease].contains(&end);
            assert_eq!(next.is_ok(), is_end, "{next:?} after {end} bytes");
        }
        assert_eq!(Capsules::new(&frames[..]).next().await.unwrap(), Some(close()));
    }
}
