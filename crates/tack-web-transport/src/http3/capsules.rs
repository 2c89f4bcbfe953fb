//! Capsules on the stream of the request, which its DATA frames carry (RFC 9297 section 3).

use tokio::io::{AsyncRead, AsyncReadExt as _};
use web_transport_proto::{Capsule, CapsuleError, Frame, VarInt};

/// The most that a capsule, or a frame on the stream, may carry, bytes.
const MAX_PAYLOAD: u64 = 64 << 10;

/// Reads capsules from DATA frames, in which they begin and end anywhere, and skips other frames.
///
/// It keeps one capsule at most, and decodes that when it is whole: one that lacks something then is malformed,
/// and nothing that follows completes it.
pub(super) struct Capsules<S> {
    stream: S,
    /// What has not been read yet of the current DATA frame, bytes.
    left: u64,
}

impl<S: AsyncRead + Unpin> Capsules<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, left: 0 }
    }

    /// Reads the next capsule; `None` if the stream ends before one begins.
    pub(super) async fn next(&mut self) -> Result<Option<Capsule>, CapsuleError> {
        if !self.has_data().await? {
            return Ok(None);
        }
        let kind = self.varint().await?;
        let len = self.varint().await?;
        let payload = bounded(len)?;
        let mut capsule = Vec::new();
        kind.encode(&mut capsule);
        len.encode(&mut capsule);
        let header = capsule.len();
        capsule.resize(header + payload as usize, 0);
        self.fill(&mut capsule[header..]).await?;
        Capsule::decode(&mut capsule.as_slice()).map(Some)
    }

    async fn varint(&mut self) -> Result<VarInt, CapsuleError> {
        let mut bytes = [0; VarInt::MAX_SIZE];
        let (first, rest) = bytes.split_at_mut(1);
        self.fill(first).await?;
        // The two high bits tell the length (RFC 9000 section 16).
        let len = 1 << (first[0] >> 6);
        self.fill(&mut rest[..len - 1]).await?;
        Ok(VarInt::decode(&mut &bytes[..len])?)
    }

    /// Fills a buffer from as many DATA frames as that takes.
    async fn fill(&mut self, mut buffer: &mut [u8]) -> Result<(), CapsuleError> {
        while !buffer.is_empty() {
            if !self.has_data().await? {
                return Err(CapsuleError::UnexpectedEnd);
            }
            let (now, later) = buffer.split_at_mut(buffer.len().min(self.left as usize));
            self.stream.read_exact(now).await?;
            self.left -= now.len() as u64;
            buffer = later;
        }
        Ok(())
    }

    /// Goes on to the next DATA frame that is not empty when the current one has ended. Returns false if the
    /// stream has ended before.
    async fn has_data(&mut self) -> Result<bool, CapsuleError> {
        while self.left == 0 {
            let Some(kind) = VarInt::read_optional(&mut self.stream).await? else {
                return Ok(false);
            };
            let len = bounded(VarInt::read(&mut self.stream).await?)?;
            if Frame(kind) == Frame::DATA {
                self.left = len;
                continue;
            }
            let mut payload = (&mut self.stream).take(len);
            if tokio::io::copy(&mut payload, &mut tokio::io::sink()).await? < len {
                return Err(CapsuleError::UnexpectedEnd);
            }
        }
        Ok(true)
    }
}

/// The length of a frame or of a capsule, if that may be so long.
fn bounded(len: VarInt) -> Result<u64, CapsuleError> {
    let len = len.into_inner();
    if len > MAX_PAYLOAD { Err(CapsuleError::MessageTooLong) } else { Ok(len) }
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
        Capsule::Unknown { typ, payload: vec![7; MAX_PAYLOAD as usize].into() }
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
            assert_eq!(capsules.next().await.unwrap(), Some(unknown()));
            assert_eq!(capsules.next().await.unwrap(), Some(close()));
            assert_eq!(capsules.next().await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn a_whole_capsule_that_lacks_something_is_refused_without_more_bytes() {
        /// Reads from a stream that goes on after these bytes, but on which nothing more has come.
        async fn refused(bytes: &[u8]) -> CapsuleError {
            let (_open, waiting) = tokio::io::duplex(1);
            let mut capsules = Capsules::new(bytes.chain(waiting));
            let next = tokio::time::timeout(std::time::Duration::from_secs(5), capsules.next());
            next.await.expect("waits for more").unwrap_err()
        }
        for len in 0..4 {
            let short = [&[0x68, 0x43, len][..], &vec![0; len.into()]].concat();
            let error = refused(&frame(0, &short)).await;
            assert!(matches!(error, CapsuleError::UnexpectedEnd), "{error}");
        }
        let error = refused(&frame(0, &[0x68, 0x43, 5, 0, 0, 0, 0, 0xff])).await;
        assert!(matches!(error, CapsuleError::InvalidUtf8), "{error}");
        // Longer than any: the length alone is enough.
        let long = [0x80, 1, 0, 1];
        for bytes in [frame(0, &[&[0x17][..], &long].concat()), [&[0x21][..], &long].concat()] {
            let error = refused(&bytes).await;
            assert!(matches!(error, CapsuleError::MessageTooLong), "{error}");
        }
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
