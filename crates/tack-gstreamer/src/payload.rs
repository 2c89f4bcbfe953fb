//! What is in a frame: a buffer of GStreamer's, its times, and now and then its caps.
//!
//! ```text
//! Payload {
//!   Version (8) = 1,
//!   Flags (8),                0x01 PTS, 0x02 DTS, 0x04 duration, 0x08 caps,
//!                             0x10 header, 0x20 marker, 0x40 droppable, 0x80 discont
//!   Caps Number (i),          goes up when the caps change
//!   [PTS (i)],                nanoseconds of running time, zigzag
//!   [DTS (i)],                the same
//!   [Duration (i)],           nanoseconds
//!   [Caps Length (i), Caps (..)],
//!   Data (..),
//! }
//! ```

use tack_proto::varint::{self, Reader};
use thiserror::Error;

const VERSION: u8 = 1;

/// The longest caps, bytes: the headers of Theora or Vorbis are in theirs, in hexadecimal.
pub(crate) const MAX_CAPS: usize = 64 << 10;

/// Brackets in each other, in caps: `GStreamer` reads them by recursion.
const MAX_CAPS_DEPTH: usize = 16;

const HAS_PTS: u8 = 0x01;
const HAS_DTS: u8 = 0x02;
const HAS_DURATION: u8 = 0x04;
const HAS_CAPS: u8 = 0x08;
const HEADER: u8 = 0x10;
const MARKER: u8 = 0x20;
const DROPPABLE: u8 = 0x40;
const DISCONT: u8 = 0x80;

/// The flags of a buffer that travel, and their bits; that of delta units is in the frame's kind.
const FLAGS: [(u8, gst::BufferFlags); 4] = [
    (HEADER, gst::BufferFlags::HEADER),
    (MARKER, gst::BufferFlags::MARKER),
    (DROPPABLE, gst::BufferFlags::DROPPABLE),
    (DISCONT, gst::BufferFlags::DISCONT),
];

/// Times and flags of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferMeta {
    /// When it is to be shown, nanoseconds of the sender's running time.
    pub pts: Option<i64>,
    /// When it is to be decoded.
    pub dts: Option<i64>,
    /// For how long it is shown, nanoseconds.
    pub duration: Option<u64>,
    /// Of the flags those that travel.
    pub flags: gst::BufferFlags,
    /// Which caps it has.
    pub caps_number: u64,
}

impl BufferMeta {
    /// The time that goes up from buffer to buffer.
    pub fn decode_time(&self) -> Option<i64> {
        self.dts.or(self.pts)
    }
}

/// Why a payload cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum PayloadError {
    /// It ends too early.
    #[error("it ends inside its header")]
    Truncated,
    /// Another version of the format.
    #[error("version {0} of the format is not known")]
    Version(u8),
    /// Caps that are not taken.
    #[error("its caps {0}")]
    Caps(&'static str),
}

impl From<varint::Truncated> for PayloadError {
    fn from(_: varint::Truncated) -> Self {
        Self::Truncated
    }
}

/// Whether caps are short and flat enough to be sent and read.
pub(crate) fn check_caps(caps: &str) -> Result<(), &'static str> {
    if caps.len() > MAX_CAPS {
        return Err("are longer than 64 KiB");
    }
    let mut depth = 0_usize;
    for byte in caps.bytes() {
        match byte {
            b'<' | b'{' | b'[' | b'(' => depth += 1,
            b'>' | b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_CAPS_DEPTH {
            return Err("are nested too deeply");
        }
    }
    Ok(())
}

/// A payload, with the caps if they are given.
pub(crate) fn encode(meta: &BufferMeta, caps: Option<&str>, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + caps.map_or(0, str::len) + data.len());
    let mut flags = 0;
    for (bit, flag) in FLAGS {
        if meta.flags.contains(flag) {
            flags |= bit;
        }
    }
    let present = [
        (HAS_PTS, meta.pts.is_some()),
        (HAS_DTS, meta.dts.is_some()),
        (HAS_DURATION, meta.duration.is_some()),
        (HAS_CAPS, caps.is_some()),
    ];
    for (bit, _) in present.iter().filter(|(_, is)| *is) {
        flags |= bit;
    }
    out.extend_from_slice(&[VERSION, flags]);
    let times = [meta.pts.map(zigzag), meta.dts.map(zigzag), meta.duration];
    for field in [Some(meta.caps_number)].into_iter().chain(times).flatten() {
        varint::put(&mut out, field.min(varint::MAX));
    }
    if let Some(caps) = caps {
        varint::put(&mut out, caps.len() as u64);
        out.extend_from_slice(caps.as_bytes());
    }
    out.extend_from_slice(data);
    out
}

/// What is in front of the data: times, caps if there are some, and where the data begin.
pub(crate) fn decode(
    payload: &[u8],
) -> Result<(BufferMeta, Option<String>, usize), PayloadError> {
    let [version, flags, rest @ ..] = payload else { return Err(PayloadError::Truncated) };
    if *version != VERSION {
        return Err(PayloadError::Version(*version));
    }
    let mut reader = Reader::new(rest);
    let caps_number = reader.read_varint()?;
    let mut field = |bit| -> Result<Option<u64>, varint::Truncated> {
        (flags & bit != 0).then(|| reader.read_varint()).transpose()
    };
    let pts = field(HAS_PTS)?.map(unzigzag);
    let dts = field(HAS_DTS)?.map(unzigzag);
    let duration = field(HAS_DURATION)?;
    let caps_len = field(HAS_CAPS)?;
    let mut at = 2 + reader.position();
    let mut caps = None;
    if let Some(len) = caps_len {
        let len = usize::try_from(len).ok().filter(|len| *len <= MAX_CAPS);
        let len = len.ok_or(PayloadError::Caps("are longer than 64 KiB"))?;
        let bytes = payload.get(at..at + len).ok_or(PayloadError::Truncated)?;
        let text = std::str::from_utf8(bytes).map_err(|_| PayloadError::Caps("are no text"))?;
        check_caps(text).map_err(PayloadError::Caps)?;
        caps = Some(text.to_owned());
        at += len;
    }
    let mut of_buffer = gst::BufferFlags::empty();
    for (bit, flag) in FLAGS {
        of_buffer.set(flag, flags & bit != 0);
    }
    Ok((BufferMeta { pts, dts, duration, flags: of_buffer, caps_number }, caps, at))
}

/// Small numbers of either sign become small numbers.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meta() -> impl Strategy<Value = BufferMeta> {
        let time = proptest::option::of(-(1_i64 << 60)..1 << 60);
        let duration = proptest::option::of(0..1_u64 << 60);
        (time.clone(), time, duration, 0..16_usize, 0..1_u64 << 60).prop_map(
            |(pts, dts, duration, chosen, caps_number)| {
                let mut flags = gst::BufferFlags::empty();
                for (at, (_, flag)) in FLAGS.into_iter().enumerate() {
                    flags.set(flag, chosen & (1 << at) != 0);
                }
                BufferMeta { pts, dts, duration, flags, caps_number }
            },
        )
    }

    proptest! {
        #[test]
        fn a_payload_says_what_was_written(
            meta in meta(),
            caps in proptest::option::of("[ -~]{0,40}"),
            data in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let caps = caps.filter(|caps| check_caps(caps).is_ok());
            let payload = encode(&meta, caps.as_deref(), &data);
            let (read, read_caps, at) = decode(&payload).unwrap();
            prop_assert_eq!((read, read_caps, &payload[at..]), (meta, caps, &data[..]));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&bytes);
            let _ = decode(&[&[1, 0xff][..], &bytes].concat());
        }
    }

    #[test]
    fn caps_that_would_cost_too_much_are_refused() {
        let nested = format!("video/x-raw, a={}1{}", "<".repeat(17), ">".repeat(17));
        assert_eq!(check_caps(&nested), Err("are nested too deeply"));
        assert_eq!(check_caps(&"x".repeat(MAX_CAPS + 1)), Err("are longer than 64 KiB"));
        assert_eq!(check_caps("video/x-raw, format={ (string)I420, (string)NV12 }"), Ok(()));
        let meta = BufferMeta {
            pts: None,
            dts: None,
            duration: None,
            flags: gst::BufferFlags::empty(),
            caps_number: 0,
        };
        let payload = encode(&meta, Some(&nested), &[]);
        assert_eq!(decode(&payload), Err(PayloadError::Caps("are nested too deeply")));
        let mut long = encode(&meta, None, &[]);
        long[1] |= HAS_CAPS;
        varint::put(&mut long, 1 << 40);
        assert_eq!(decode(&long), Err(PayloadError::Caps("are longer than 64 KiB")));
    }
}
