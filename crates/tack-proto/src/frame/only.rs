//! Payloads of one frame, told by their first bytes.

use super::Stream;
use crate::varint::{self, Reader};

/// The frame that a payload consists of, with nothing before or behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlyFrame {
    /// STREAM.
    Stream(Stream),
    /// DATAGRAM (RFC 9221 section 4).
    Datagram,
}

impl OnlyFrame {
    /// Reads the `first` bytes of a payload of `payload_len` bytes. `None` if it holds anything but one
    /// STREAM or DATAGRAM frame, or if these bytes are too few to tell.
    #[inline]
    pub fn read(first: &[u8], payload_len: usize) -> Option<Self> {
        const OFFSET: u8 = 0x04;
        const LENGTH: u8 = 0x02;
        const FIN: u8 = 0x01;

        let (&frame_type, fields) = first.split_first()?;
        let mut reader = Reader::new(fields);
        match frame_type {
            0x08..=0x0f => {
                let stream_id = reader.read_varint().ok()?;
                let offset =
                    if frame_type & OFFSET == 0 { 0 } else { reader.read_varint().ok()? };
                let len = data_len(&mut reader, frame_type & LENGTH != 0, payload_len)?;
                // RFC 9000 section 19.8: no stream is longer.
                if offset.checked_add(len)? > varint::MAX {
                    return None;
                }
                let fin = frame_type & FIN != 0;
                Some(Self::Stream(Stream { stream_id, offset, len, fin }))
            }
            0x30 | 0x31 => {
                data_len(&mut reader, frame_type == 0x31, payload_len)?;
                Some(Self::Datagram)
            }
            _ => None,
        }
    }
}

/// Bytes of data behind the fields that were read, if they fill the payload.
#[inline]
fn data_len(reader: &mut Reader<'_>, has_length: bool, payload_len: usize) -> Option<u64> {
    let told = if has_length { Some(reader.read_varint().ok()?) } else { None };
    let left = payload_len.checked_sub(1 + reader.position())? as u64;
    (told.unwrap_or(left) == left).then_some(left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::{Frame, Frames};

    /// By reading all of the payload.
    fn read_all(payload: &[u8]) -> Option<OnlyFrame> {
        let mut frames = Frames::new(payload);
        let only = match frames.next()?.ok()?.frame {
            Frame::Stream(stream) => OnlyFrame::Stream(stream),
            Frame::Datagram { .. } => OnlyFrame::Datagram,
            _ => return None,
        };
        frames.next().is_none().then_some(only)
    }

    #[test]
    fn a_frame_with_something_behind_it_is_not_the_only_one() {
        for (payload, is_only) in [
            (&[0x0a, 4, 2, 1, 1][..], true),
            (&[0x0a, 4, 2, 1, 1, 0], false),
            (&[0x0a, 4, 2, 1], false),
            (&[0x08, 4, 1, 1, 0x1f], true),
            (&[0x31, 1, 9], true),
            (&[0x31, 1, 9, 0x1f], false),
            (&[0x30, 9, 9], true),
            (&[0x01], false),
            (&[], false),
        ] {
            assert_eq!(
                OnlyFrame::read(payload, payload.len()).is_some(),
                is_only,
                "{payload:?}"
            );
        }
    }

    #[test]
    fn first_bytes_that_end_inside_a_field_tell_nothing() {
        let payload = [0x0e, 0xc0, 0, 0, 0, 0, 0, 0, 4, 0xc0, 0, 0, 0, 0, 0, 0, 9, 2, 1, 1];
        assert!(OnlyFrame::read(&payload, payload.len()).is_some());
        assert_eq!(OnlyFrame::read(&payload[..16], payload.len()), None);
    }

    proptest! {
        #[test]
        fn first_bytes_tell_what_reading_all_of_it_tells(
            frame_type in prop_oneof![0x08..=0x0fu8, 0x30..=0x31u8, 0..=0x40u8],
            fields in proptest::collection::vec(0..=0x7fu8, 0..40),
            known in 16..48usize,
        ) {
            let payload = [&[frame_type][..], &fields].concat();
            let first = &payload[..known.min(payload.len())];
            let only = OnlyFrame::read(first, payload.len());
            prop_assert_eq!(only, read_all(&payload));
        }
    }
}
