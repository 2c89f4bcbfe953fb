//! The frames of a 1-RTT packet (TACK-1-6): those of RFC 9000 and RFC 9221 to find one's way
//! through the payload, and the extension frames to read and write.
//!
//! [`Frames`] walks over a decrypted payload. What it yields borrows from the payload; decoding
//! never allocates, whatever counts and lengths the peer claims.

mod ack;
mod ack_frequency;
mod arrivals;
mod blocks;
mod bubbles;
mod check;
mod decode;
mod error;
mod iack;
mod only;
mod tack;
mod timestamp;

use std::{iter::FusedIterator, ops::Range};

pub use self::{
    ack::{Ack, AckRanges, AckRangesIter, EcnCounts, encode_ack, put_ack_ecn},
    ack_frequency::{AckFrequency, encode_immediate_ack},
    arrivals::{Arrivals, EncodedArrivals, MAX_ARRIVALS, StampedArrival},
    bubbles::{Bubbles, BubblesIter},
    check::check_payload,
    error::DecodeError,
    iack::{Iack, IackEvent, IackFields, encode_iack},
    only::OnlyFrame,
    tack::{EncodedTack, Rate, Tack, TackFields, Timing, encode_tack},
    timestamp::Timestamp,
};
use crate::varint::Reader;

/// Iterates over the frames of a payload; ends after the first error.
///
/// An empty payload yields nothing. RFC 9000 section 12.4 calls a packet without frames a
/// PROTOCOL_VIOLATION, which is for whoever opened the packet to say.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// Starts at the first frame of a decrypted packet payload.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { reader: Reader::new(payload) }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Located<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.remaining() == 0 {
            return None;
        }
        let start = self.reader.position();
        let frame = Frame::decode(&mut self.reader);
        if frame.is_err() {
            // Where the next frame starts is unknown.
            self.reader.take_rest();
        }
        Some(frame.map(|frame| Located { frame, range: start..self.reader.position() }))
    }
}

impl FusedIterator for Frames<'_> {}

/// A frame and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<'a> {
    /// The frame.
    pub frame: Frame<'a>,
    /// Its bytes in the payload, type included.
    pub range: Range<usize>,
}

/// A frame, RFC 9000 section 19, RFC 9221 section 4, and the extensions.
///
/// Fields that nothing outside quiche needs are checked and left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame<'a> {
    /// A run of PADDING frames.
    Padding {
        /// How many, which is also their length in bytes.
        len: usize,
    },
    /// PING.
    Ping,
    /// ACK, with or without ECN counts.
    Ack(Ack<'a>),
    /// RESET_STREAM.
    ResetStream {
        /// The stream.
        stream_id: u64,
        /// Its length in bytes.
        final_size: u64,
        /// The application's reason.
        error_code: u64,
    },
    /// STOP_SENDING.
    StopSending {
        /// The stream.
        stream_id: u64,
        /// The application's reason.
        error_code: u64,
    },
    /// CRYPTO.
    Crypto {
        /// Position of the data in the handshake stream.
        offset: u64,
        /// Bytes of data.
        data_len: u64,
    },
    /// NEW_TOKEN.
    NewToken,
    /// STREAM.
    Stream(Stream),
    /// MAX_DATA: bytes that may be sent on the connection.
    MaxData(u64),
    /// MAX_STREAM_DATA.
    MaxStreamData {
        /// The stream.
        stream_id: u64,
        /// Bytes that may be sent on it.
        max: u64,
    },
    /// MAX_STREAMS.
    MaxStreams {
        /// Whether it speaks of bidirectional streams.
        bidi: bool,
        /// Streams that may be opened over the life of the connection.
        max: u64,
    },
    /// DATA_BLOCKED.
    DataBlocked,
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked,
    /// STREAMS_BLOCKED of either kind.
    StreamsBlocked,
    /// NEW_CONNECTION_ID.
    NewConnectionId {
        /// Number of the connection id.
        sequence: u64,
        /// Connection ids with lower numbers are to be retired.
        retire_prior_to: u64,
        /// The connection id, 1 to 20 bytes.
        cid: &'a [u8],
        /// What a stateless reset to this connection id ends with.
        stateless_reset_token: &'a [u8; 16],
    },
    /// RETIRE_CONNECTION_ID.
    RetireConnectionId {
        /// Number of the connection id.
        sequence: u64,
    },
    /// PATH_CHALLENGE, with its data.
    PathChallenge([u8; 8]),
    /// PATH_RESPONSE, with the data of the challenge that it answers.
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE.
    ConnectionClose {
        /// Whether the application closed the connection, not the transport.
        application: bool,
        /// Why.
        error_code: u64,
    },
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// DATAGRAM.
    Datagram {
        /// Bytes of data.
        len: usize,
    },
    /// ACK_FREQUENCY.
    AckFrequency(AckFrequency),
    /// IMMEDIATE_ACK.
    ImmediateAck,
    /// TIMESTAMP.
    Timestamp(Timestamp),
    /// TACK.
    Tack(Tack<'a>),
    /// IACK.
    Iack(Iack<'a>),
}

/// A STREAM frame without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The stream.
    pub stream_id: u64,
    /// Position of the data in the stream.
    pub offset: u64,
    /// Bytes of data.
    pub len: u64,
    /// Whether the stream ends behind the data.
    pub fin: bool,
}

impl Stream {
    /// The bytes of the stream that the frame carries.
    pub const fn data(&self) -> Range<u64> {
        self.offset..self.offset + self.len
    }
}

impl Frame<'_> {
    /// Whether the packet that carries it must be acknowledged, RFC 9000 section 13.2.1.
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Self::Padding { .. }
                | Self::Ack(_)
                | Self::ConnectionClose { .. }
                | Self::Timestamp(_)
                | Self::Tack(_)
                | Self::Iack(_)
        )
    }

    /// Whether it is one of the frames that quiche does not know.
    pub const fn is_extension(&self) -> bool {
        matches!(
            self,
            Self::AckFrequency(_)
                | Self::ImmediateAck
                | Self::Timestamp(_)
                | Self::Tack(_)
                | Self::Iack(_)
        )
    }

    /// Whether it may travel on a new path without moving the connection there, RFC 9000
    /// section 9.1.
    pub const fn is_probing(&self) -> bool {
        matches!(
            self,
            Self::Padding { .. }
                | Self::NewConnectionId { .. }
                | Self::PathChallenge(_)
                | Self::PathResponse(_)
        )
    }

    /// Whether the receiver may have something to send at once because of it, so that nothing
    /// may be held back with a delayed acknowledgement.
    pub const fn may_unblock(&self) -> bool {
        match self {
            Self::ResetStream { .. }
            | Self::StopSending { .. }
            | Self::Crypto { .. }
            | Self::MaxData(_)
            | Self::MaxStreamData { .. }
            | Self::MaxStreams { .. }
            | Self::DataBlocked
            | Self::StreamDataBlocked
            | Self::StreamsBlocked
            | Self::NewConnectionId { .. }
            | Self::RetireConnectionId { .. }
            | Self::PathChallenge(_)
            | Self::ConnectionClose { .. }
            | Self::HandshakeDone => true,
            Self::Padding { .. }
            | Self::Ping
            | Self::Ack(_)
            | Self::Stream(_)
            | Self::NewToken
            | Self::PathResponse(_)
            | Self::Datagram { .. }
            | Self::AckFrequency(_)
            | Self::ImmediateAck
            | Self::Timestamp(_)
            | Self::Tack(_)
            | Self::Iack(_) => false,
        }
    }
}

/// Appends a PATH_RESPONSE frame (RFC 9000 section 19.18).
pub fn encode_path_response(out: &mut Vec<u8>, data: [u8; 8]) {
    out.push(0x1b);
    out.extend_from_slice(&data);
}

/// How many bytes `write` appends. It is undone: one description of the bytes serves for
/// counting and for writing.
fn measure(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    let start = out.len();
    write(out);
    let written = out.len() - start;
    out.truncate(start);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(payload: &[u8]) -> Vec<Frame<'_>> {
        Frames::new(payload).map(|located| located.unwrap().frame).collect()
    }

    /// One of each kind, laid end to end.
    const EACH: &[u8] = &[
        0x01, // PING
        0x02, 5, 0, 0, 0, // ACK
        0x0a, 4, 1, 0xaa, // STREAM
        0x0b, 4, 1, 0xaa, // STREAM with FIN
        0x10, 9, // MAX_DATA
        0x14, 9, // DATA_BLOCKED
        0x19, 1, // RETIRE_CONNECTION_ID
        0x1a, 1, 2, 3, 4, 5, 6, 7, 8, // PATH_CHALLENGE
        0x1b, 1, 2, 3, 4, 5, 6, 7, 8, // PATH_RESPONSE
        0x1d, 1, 0, // CONNECTION_CLOSE
        0x31, 1, 0xaa, // DATAGRAM
        0x40, 0xaf, 1, 1, 1, 1,    // ACK_FREQUENCY
        0x1f, // IMMEDIATE_ACK
        0x42, 0xf5, 7, // TIMESTAMP
        0x6a, 0xc0, 1, 5, 0, 0, 0, 9, 0, // TACK
        0x6a, 0xc1, 2, 9, 5, 0, 0, 0, 0,    // IACK
        0x00, // PADDING
    ];

    fn those_that(holds: impl Fn(&Frame<'static>) -> bool) -> Vec<usize> {
        let frames = frames(EACH);
        (0..frames.len()).filter(|index| holds(&frames[*index])).collect()
    }

    #[test]
    fn acknowledgements_timestamps_padding_and_close_elicit_no_acknowledgement() {
        let not = those_that(|frame| !frame.is_ack_eliciting());
        assert_eq!(not, [1, 9, 13, 14, 15, 16]);
    }

    #[test]
    fn the_five_extension_frames_are_told_from_quiches_own() {
        assert_eq!(those_that(Frame::is_extension), [11, 12, 13, 14, 15]);
    }

    #[test]
    fn only_path_validation_and_padding_probe() {
        assert_eq!(those_that(Frame::is_probing), [7, 8, 16]);
    }

    #[test]
    fn stream_data_unblocks_nothing() {
        assert_eq!(those_that(Frame::may_unblock), [4, 5, 6, 7, 9]);
    }

    #[test]
    fn a_stream_frame_names_the_bytes_it_carries() {
        let stream = Stream { stream_id: 4, offset: 10, len: 5, fin: false };
        assert_eq!(stream.data(), 10..15);
    }

    #[test]
    fn ranges_of_located_frames_cut_the_payload_into_frames() {
        let payload = [0x01, 0, 0, 0, 0x42, 0xf5, 7, 0x01];
        let ranges: Vec<_> = Frames::new(&payload).map(|frame| frame.unwrap().range).collect();
        assert_eq!(ranges, [0..1, 1..4, 4..7, 7..8]);
    }

    #[test]
    fn nothing_follows_an_error() {
        let mut frames = Frames::new(&[0x01, 0x21, 0x01]);
        assert!(frames.next().is_some_and(|frame| frame.is_ok()));
        assert_eq!(frames.next(), Some(Err(DecodeError::UnknownFrame(0x21))));
        assert_eq!(frames.next(), None);
        assert_eq!(frames.next(), None);
    }
}
