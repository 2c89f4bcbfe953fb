//! How messages are laid out on a stream.
//!
//! A frame is one byte of kind, four bytes of length (big endian) and that many bytes. Kind 0
//! is a message as JSON, at most [`MAX_CONTROL`] bytes; kind 1 is content of one file, kind 2 a
//! [bundle](super::Bundle) of whole files, kind 3 digests of chunks, each at most [`MAX_DATA`] bytes. The
//! limits are checked before anything is allocated.

use super::printable;
use super::wire::Message;

/// Most bytes of JSON in one frame.
pub const MAX_CONTROL: usize = 60 * 1024;

/// Most bytes of file content in one frame.
pub const MAX_DATA: usize = 256 * 1024;

const HEADER: usize = 5;
const KIND_CONTROL: u8 = 0;
const KIND_DATA: u8 = 1;
const KIND_BUNDLE: u8 = 2;
const KIND_CHUNKS: u8 = 3;

/// A frame that can't be accepted.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The kind byte is unknown.
    #[error("unknown frame kind {0}; the peer runs another version of tack")]
    UnknownKind(u8),
    /// The announced length exceeds the limit.
    #[error("a frame of {length} bytes exceeds the limit of {limit}")]
    TooLong {
        /// As announced.
        length: usize,
        /// As allowed.
        limit: usize,
    },
    /// A bundle can't be made sense of.
    #[error("unreadable bundle of files")]
    Bundle,
    /// The JSON is not a message.
    #[error("unreadable message: {}", printable(&.0.to_string()))]
    Json(#[from] serde_json::Error),
}

/// A message as bytes: a header (with the JSON, if it is not content) and the content.
#[derive(Debug, Default)]
pub struct Encoded {
    head: Vec<u8>,
    body: Vec<u8>,
    written: usize,
}

impl Encoded {
    /// Lays out `message`; content is moved, not copied.
    pub fn new(message: Message) -> Result<Self, WireError> {
        let (kind, mut json, body) = match message {
            Message::Data(body) => (KIND_DATA, Vec::new(), body),
            Message::Bundle(body) => (KIND_BUNDLE, Vec::new(), body),
            Message::Chunks(body) => (KIND_CHUNKS, Vec::new(), body),
            other => (KIND_CONTROL, serde_json::to_vec(&other)?, Vec::new()),
        };
        let length = json.len() + body.len();
        let limit = limit_of(kind)?;
        if length > limit {
            return Err(WireError::TooLong { length, limit });
        }
        let mut head = Vec::with_capacity(HEADER + json.len());
        head.push(kind);
        head.extend_from_slice(&(length as u32).to_be_bytes());
        head.append(&mut json);
        Ok(Self { head, body, written: 0 })
    }

    /// The next contiguous bytes to write; empty when everything is written.
    pub fn remaining(&self) -> &[u8] {
        match self.written.checked_sub(self.head.len()) {
            None => &self.head[self.written..],
            Some(in_body) => &self.body[in_body..],
        }
    }

    /// Notes that `n` bytes of [`remaining`](Self::remaining) are written.
    pub fn advance(&mut self, n: usize) {
        self.written += n;
    }
}

/// Puts frames together from the bytes of a stream.
#[derive(Debug)]
pub struct Decoder {
    /// Most bytes in one frame, if less than its kind allows.
    limit: usize,
    header: [u8; HEADER],
    header_len: usize,
    body: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(usize::MAX)
    }
}

impl Decoder {
    /// Takes no frame longer than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, header: [0; HEADER], header_len: 0, body: Vec::new() }
    }

    /// Consumes bytes from the front of `input` until a message is complete or `input` ends.
    pub fn push(&mut self, input: &mut &[u8]) -> Result<Option<Message>, WireError> {
        let missing = (HEADER - self.header_len).min(input.len());
        self.header[self.header_len..][..missing].copy_from_slice(&input[..missing]);
        self.header_len += missing;
        *input = &input[missing..];
        if self.header_len < HEADER {
            return Ok(None);
        }
        let [kind, length @ ..] = self.header;
        let (length, limit) = (u32::from_be_bytes(length) as usize, limit_of(kind)?);
        let limit = limit.min(self.limit);
        if length > limit {
            return Err(WireError::TooLong { length, limit });
        }
        if self.body.capacity() == 0 {
            self.body.reserve_exact(length);
        }
        let missing = (length - self.body.len()).min(input.len());
        self.body.extend_from_slice(&input[..missing]);
        *input = &input[missing..];
        if self.body.len() < length {
            return Ok(None);
        }
        self.header_len = 0;
        let body = std::mem::take(&mut self.body);
        Ok(Some(match kind {
            KIND_DATA => Message::Data(body),
            KIND_BUNDLE => Message::Bundle(body),
            KIND_CHUNKS => Message::Chunks(body),
            _ => serde_json::from_slice(&body)?,
        }))
    }
}

fn limit_of(kind: u8) -> Result<usize, WireError> {
    match kind {
        KIND_CONTROL => Ok(MAX_CONTROL),
        KIND_DATA | KIND_BUNDLE | KIND_CHUNKS => Ok(MAX_DATA),
        other => Err(WireError::UnknownKind(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::{Resume, Secret};
    use crate::protocol::{ChunkSize, Digest, WirePath};

    fn bytes_of(message: Message) -> Vec<u8> {
        let mut encoded = Encoded::new(message).unwrap();
        let mut bytes = Vec::new();
        while !encoded.remaining().is_empty() {
            bytes.extend_from_slice(encoded.remaining());
            let n = encoded.remaining().len();
            encoded.advance(n);
        }
        bytes
    }

    #[test]
    fn messages_survive_any_fragmentation_of_the_stream() {
        let messages = || {
            [
                Message::Hello { token: Some(Secret("t".into())), rate: Some(1), filler: None },
                Message::Data(vec![7; 1000]),
                Message::Data(Vec::new()),
                Message::Bundle(vec![0; 9]),
                Message::Chunks(vec![1; 16]),
                Message::Get {
                    path: WirePath::new("a/ü").unwrap(),
                    resume: Resume {
                        part: None,
                        whole: Some(Digest::of(b"x")),
                        basis: Some(ChunkSize::for_file(1 << 30)),
                    },
                },
                Message::End { digest: Digest::of(b"") },
            ]
        };
        let stream: Vec<u8> = messages().into_iter().flat_map(bytes_of).collect();
        for step in [1, 3, 7, 100, stream.len()] {
            let mut decoder = Decoder::default();
            let mut decoded = Vec::new();
            for mut piece in stream.chunks(step) {
                while !piece.is_empty() {
                    decoded.extend(decoder.push(&mut piece).unwrap());
                }
            }
            assert_eq!(decoded, messages(), "in steps of {step}");
            assert_eq!(decoder.header_len, 0, "nothing waits for the rest of a frame");
        }
    }

    #[test]
    fn a_length_above_the_limit_is_refused_before_anything_is_allocated() {
        for (kind, limit) in [
            (KIND_CONTROL, MAX_CONTROL),
            (KIND_DATA, MAX_DATA),
            (KIND_BUNDLE, MAX_DATA),
            (KIND_CHUNKS, MAX_DATA),
        ] {
            let mut frame = vec![kind];
            frame.extend_from_slice(&(limit as u32 + 1).to_be_bytes());
            let mut decoder = Decoder::default();
            let result = decoder.push(&mut frame.as_slice());
            assert!(matches!(result, Err(WireError::TooLong { .. })));
            assert_eq!(decoder.body.capacity(), 0);
        }
    }

    #[test]
    fn unknown_kinds_and_broken_json_are_refused() {
        let mut decoder = Decoder::default();
        let frame = [9, 0, 0, 0, 0];
        assert!(matches!(decoder.push(&mut &frame[..]), Err(WireError::UnknownKind(9))));
        let mut decoder = Decoder::default();
        let frame = [KIND_CONTROL, 0, 0, 0, 2, b'{', b'x'];
        assert!(matches!(decoder.push(&mut &frame[..]), Err(WireError::Json(_))));
    }

    #[test]
    fn the_longest_path_fits_into_a_message() {
        let path = format!("{}x", "\u{1}/".repeat(2047));
        let message = Message::List {
            path: WirePath::new(path).unwrap(),
            depth: None,
            links: false,
            content: false,
        };
        assert!(bytes_of(message).len() < MAX_CONTROL);
    }
}
