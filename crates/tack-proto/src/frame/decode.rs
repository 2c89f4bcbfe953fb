//! Decodes one frame, RFC 9000 section 19 and the extensions.

use super::{
    Ack, AckFrequency, DecodeError, Frame, Iack, Stream, Tack, Timestamp,
    ack::{ACK, ACK_ECN},
    ack_frequency::{ACK_FREQUENCY, IMMEDIATE_ACK},
    iack::IACK,
    tack::TACK,
    timestamp::TIMESTAMP,
};
use crate::varint::{self, Reader};

/// More streams than this can't have an id, RFC 9000 section 4.6.
const STREAMS_LIMIT: u64 = 1 << 60;

impl<'a> Frame<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let frame_type = read_type(reader)?;
        let mut next = || reader.read_varint();
        Ok(match frame_type {
            0x00 => Self::Padding { len: 1 + reader.skip_while(0) },
            0x01 => Self::Ping,
            ACK | ACK_ECN => Self::Ack(Ack::decode(reader, frame_type)?),
            0x04 => Self::ResetStream {
                stream_id: next()?,
                error_code: next()?,
                final_size: next()?,
            },
            0x05 => Self::StopSending { stream_id: next()?, error_code: next()? },
            0x06 => crypto(reader)?,
            0x07 => new_token(reader)?,
            0x08..=0x0f => Self::Stream(stream(reader, frame_type)?),
            0x10 => Self::MaxData(next()?),
            0x11 => Self::MaxStreamData { stream_id: next()?, max: next()? },
            0x12 | 0x13 => Self::MaxStreams {
                bidi: frame_type == 0x12,
                max: stream_count(next()?, frame_type)?,
            },
            0x14 => {
                next()?;
                Self::DataBlocked
            }
            0x15 => {
                next()?;
                next()?;
                Self::StreamDataBlocked
            }
            0x16 | 0x17 => {
                stream_count(next()?, frame_type)?;
                Self::StreamsBlocked
            }
            0x18 => new_connection_id(reader)?,
            0x19 => Self::RetireConnectionId { sequence: next()? },
            0x1a => Self::PathChallenge(*reader.take_array()?),
            0x1b => Self::PathResponse(*reader.take_array()?),
            0x1c | 0x1d => connection_close(reader, frame_type)?,
            0x1e => Self::HandshakeDone,
            // RFC 9221 section 4.
            0x30 => Self::Datagram { len: reader.take_rest().len() },
            0x31 => Self::Datagram { len: reader.take_prefixed()?.len() },
            IMMEDIATE_ACK => Self::ImmediateAck,
            ACK_FREQUENCY => Self::AckFrequency(AckFrequency::decode(reader)?),
            TIMESTAMP => Self::Timestamp(Timestamp::decode(reader)?),
            TACK => Self::Tack(Tack::decode(reader)?),
            IACK => Self::Iack(Iack::decode(reader)?),
            unknown => return Err(DecodeError::UnknownFrame(unknown)),
        })
    }
}

fn read_type(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let start = reader.position();
    let frame_type = reader.read_varint()?;
    // RFC 9000 section 12.4, TACK-3-1: the type must use the shortest encoding.
    if reader.position() - start > varint::len(frame_type) {
        return Err(DecodeError::LongType(frame_type));
    }
    Ok(frame_type)
}

fn crypto<'a>(reader: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    let offset = reader.read_varint()?;
    let data_len = reader.take_prefixed()?.len() as u64;
    end_of_data(offset, data_len, 0x06)?;
    Ok(Frame::Crypto { offset, data_len })
}

fn new_token<'a>(reader: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    if reader.take_prefixed()?.is_empty() {
        return Err(DecodeError::Malformed { frame_type: 0x07, reason: "empty token" });
    }
    Ok(Frame::NewToken)
}

fn stream(reader: &mut Reader<'_>, frame_type: u64) -> Result<Stream, DecodeError> {
    const FIN: u64 = 0x01;
    const LEN: u64 = 0x02;
    const OFF: u64 = 0x04;

    let stream_id = reader.read_varint()?;
    let offset = if frame_type & OFF == 0 { 0 } else { reader.read_varint()? };
    let data =
        if frame_type & LEN == 0 { reader.take_rest() } else { reader.take_prefixed()? };
    let len = data.len() as u64;
    end_of_data(offset, len, frame_type)?;
    Ok(Stream { stream_id, offset, len, fin: frame_type & FIN != 0 })
}

/// RFC 9000 sections 19.6 and 19.8: the last byte of a stream has offset 2^62 - 2 at most.
fn end_of_data(offset: u64, len: u64, frame_type: u64) -> Result<(), DecodeError> {
    if offset + len > varint::MAX {
        let reason = "data beyond the end of its stream";
        return Err(DecodeError::Malformed { frame_type, reason });
    }
    Ok(())
}

fn stream_count(count: u64, frame_type: u64) -> Result<u64, DecodeError> {
    if count > STREAMS_LIMIT {
        let reason = "more than 2^60 streams";
        return Err(DecodeError::Malformed { frame_type, reason });
    }
    Ok(count)
}

fn new_connection_id<'a>(reader: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    let malformed = |reason| DecodeError::Malformed { frame_type: 0x18, reason };
    let sequence = reader.read_varint()?;
    let retire_prior_to = reader.read_varint()?;
    if retire_prior_to > sequence {
        return Err(malformed("retires the connection id that it brings"));
    }
    let len = reader.read_u8()?;
    if !(1..=20).contains(&len) {
        return Err(malformed("a connection id must have 1 to 20 bytes"));
    }
    Ok(Frame::NewConnectionId {
        sequence,
        retire_prior_to,
        cid: reader.take(usize::from(len))?,
        stateless_reset_token: reader.take_array()?,
    })
}

fn connection_close<'a>(
    reader: &mut Reader<'a>,
    frame_type: u64,
) -> Result<Frame<'a>, DecodeError> {
    let application = frame_type == 0x1d;
    let error_code = reader.read_varint()?;
    if !application {
        // The type of the frame that caused the error.
        reader.read_varint()?;
    }
    reader.take_prefixed()?;
    Ok(Frame::ConnectionClose { application, error_code })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frames;

    /// The only frame of `payload`.
    fn decode(payload: &[u8]) -> Result<Frame<'_>, DecodeError> {
        let mut frames = Frames::new(payload);
        let located = frames.next().unwrap()?;
        assert_eq!(located.range, 0..payload.len());
        Ok(located.frame)
    }

    fn refusal(payload: &[u8]) -> &'static str {
        match decode(payload) {
            Err(error @ DecodeError::Malformed { reason, .. }) => {
                assert_eq!(error.to_wire(), 0x07);
                reason
            }
            other => panic!("{other:?}"),
        }
    }

    /// `prefix` and a varint.
    fn with(prefix: &[u8], value: u64) -> Vec<u8> {
        let mut payload = prefix.to_vec();
        varint::put(&mut payload, value);
        payload
    }

    #[test]
    fn each_frame_of_rfc_9000_is_read_from_its_bytes() {
        let cid = [0xc1, 0xc2];
        let token = [0x5a; 16];
        let new_connection_id = [&[0x18, 7, 3, 2], &cid[..], &token].concat();
        let cases: &[(&[u8], Frame<'_>)] = &[
            (&[0], Frame::Padding { len: 1 }),
            (&[0, 0, 0], Frame::Padding { len: 3 }),
            (&[0x01], Frame::Ping),
            (
                &[0x04, 4, 9, 0x40, 100],
                Frame::ResetStream { stream_id: 4, error_code: 9, final_size: 100 },
            ),
            (&[0x05, 4, 9], Frame::StopSending { stream_id: 4, error_code: 9 }),
            (&[0x06, 5, 2, 0xaa, 0xbb], Frame::Crypto { offset: 5, data_len: 2 }),
            (&[0x07, 1, 0xaa], Frame::NewToken),
            (&[0x10, 0x40, 100], Frame::MaxData(100)),
            (&[0x11, 4, 9], Frame::MaxStreamData { stream_id: 4, max: 9 }),
            (&[0x12, 9], Frame::MaxStreams { bidi: true, max: 9 }),
            (&[0x13, 9], Frame::MaxStreams { bidi: false, max: 9 }),
            (&[0x14, 9], Frame::DataBlocked),
            (&[0x15, 4, 9], Frame::StreamDataBlocked),
            (&[0x16, 9], Frame::StreamsBlocked),
            (&[0x17, 9], Frame::StreamsBlocked),
            (
                &new_connection_id,
                Frame::NewConnectionId {
                    sequence: 7,
                    retire_prior_to: 3,
                    cid: &cid,
                    stateless_reset_token: &token,
                },
            ),
            (&[0x19, 7], Frame::RetireConnectionId { sequence: 7 }),
            (&[0x1a, 1, 2, 3, 4, 5, 6, 7, 8], Frame::PathChallenge([1, 2, 3, 4, 5, 6, 7, 8])),
            (&[0x1b, 1, 2, 3, 4, 5, 6, 7, 8], Frame::PathResponse([1, 2, 3, 4, 5, 6, 7, 8])),
            (
                &[0x1c, 10, 0x08, 2, b'n', b'o'],
                Frame::ConnectionClose { application: false, error_code: 10 },
            ),
            (&[0x1d, 10, 0], Frame::ConnectionClose { application: true, error_code: 10 }),
            (&[0x1e], Frame::HandshakeDone),
            (&[0x30, 1, 2], Frame::Datagram { len: 2 }),
            (&[0x31, 2, 1, 2], Frame::Datagram { len: 2 }),
        ];
        for (payload, frame) in cases {
            assert_eq!(decode(payload).as_ref(), Ok(frame), "{payload:x?}");
        }
    }

    #[test]
    fn the_low_bits_of_a_stream_frame_say_which_fields_it_has() {
        let stream =
            |offset, len, fin| Frame::Stream(Stream { stream_id: 4, offset, len, fin });
        assert_eq!(decode(&[0x08, 4, 0xaa, 0xbb]), Ok(stream(0, 2, false)));
        assert_eq!(decode(&[0x09, 4]), Ok(stream(0, 0, true)));
        assert_eq!(decode(&[0x0a, 4, 1, 0xaa]), Ok(stream(0, 1, false)));
        assert_eq!(decode(&[0x0c, 4, 7, 0xaa, 0xbb]), Ok(stream(7, 2, false)));
        assert_eq!(decode(&[0x0f, 4, 7, 1, 0xaa]), Ok(stream(7, 1, true)));
    }

    #[test]
    fn a_frame_type_must_be_in_its_shortest_form() {
        let error = decode(&[0x40, 0x01]).unwrap_err();
        assert_eq!(error, DecodeError::LongType(0x01));
        assert_eq!(error.to_wire(), 0x0a);
        assert_eq!(decode(&[0x80, 0, 0x2a, 0xc0]), Err(DecodeError::LongType(0x2ac0)));
    }

    #[test]
    fn an_unknown_type_is_an_error() {
        for frame_type in [0x20, 0x2f, 0x32, 0xae, 0xb0, 0x2ac2, varint::MAX] {
            let error = decode(&with(&[], frame_type)).map(drop);
            assert_eq!(error, Err(DecodeError::UnknownFrame(frame_type)));
        }
        assert_eq!(DecodeError::UnknownFrame(0x20).to_wire(), 0x07);
    }

    #[test]
    fn data_may_reach_the_end_of_a_stream_but_not_pass_it() {
        for prefix in [&[0x06][..], &[0x0c, 4]] {
            let mut payload = with(prefix, varint::MAX - 2);
            let length: &[u8] = if prefix[0] == 0x06 { &[2] } else { &[] };
            payload.extend_from_slice(length);
            payload.extend([0xaa, 0xbb]);
            assert!(decode(&payload).is_ok());

            let mut payload = with(prefix, varint::MAX - 1);
            payload.extend_from_slice(length);
            payload.extend([0xaa, 0xbb]);
            assert_eq!(refusal(&payload), "data beyond the end of its stream");
        }
    }

    #[test]
    fn no_more_than_2_to_the_60_streams_can_be_counted() {
        for frame_type in [0x12, 0x13, 0x16, 0x17] {
            assert!(decode(&with(&[frame_type], 1 << 60)).is_ok());
            let beyond = with(&[frame_type], (1 << 60) + 1);
            assert_eq!(refusal(&beyond), "more than 2^60 streams");
        }
    }

    #[test]
    fn connection_ids_outside_the_rules_are_refused() {
        let new = |retire, len: u8| {
            let mut payload = vec![0x18, 7, retire, len];
            payload.extend(vec![0; usize::from(len) + 16]);
            payload
        };
        for (retire, len) in [(0, 1), (7, 20)] {
            assert!(decode(&new(retire, len)).is_ok());
        }
        assert_eq!(refusal(&new(8, 8)), "retires the connection id that it brings");
        for len in [0, 21, 255] {
            assert_eq!(refusal(&new(0, len)), "a connection id must have 1 to 20 bytes");
        }
    }

    #[test]
    fn a_token_must_not_be_empty() {
        assert_eq!(refusal(&[0x07, 0]), "empty token");
    }
}
