//! What is in a frame's payload: a sample, and what is needed to write it into a file.
//!
//! ```text
//! Payload {
//!   Version (8) = 1,
//!   Flags (8),                0x01 audio, 0x02 sync sample, 0x04 others depend on it
//!   Rendition (i),            its place among the bit rates, from the lowest
//!   Bit Rate (i),             of the rendition, bits per second
//!   Track (i),
//!   Timescale (i),
//!   Decode Time (i),
//!   Duration (i),
//!   Composition Offset (i),   zigzag: 0, -1, 1, -2, ...
//!   Init Length (i),
//!   Init (..),                the initialisation segment (ftyp, moov)
//!   Data (..),
//! }
//! ```
//!
//! Each key frame brings the initialisation segment of its rendition, about 1,400 bytes, so that a player
//! can begin at any and learns of another resolution in time. Synthetic media have none.

use tack_proto::varint::{self, Reader};
use thiserror::Error;

use crate::sample::{Sample, TrackKind};

const VERSION: u8 = 1;
const AUDIO: u8 = 1;
const SYNC: u8 = 2;
const REFERENCE: u8 = 4;

/// The longest initialisation segment, bytes.
pub const MAX_INIT: usize = 64 << 10;

/// A sample on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The place of the rendition, from the lowest bit rate.
    pub rendition: u64,
    /// Its bit rate.
    pub bits_per_second: u64,
    /// The initialisation segment; empty where there is none.
    pub init: Vec<u8>,
    /// The sample.
    pub sample: Sample,
}

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadError {
    /// It ends too early.
    #[error("the payload is cut short")]
    Truncated,
    /// Another version of the format.
    #[error(
        "version {0} of the payload is not known; both ends need the same version of this program"
    )]
    Version(u8),
    /// A number that the field cannot hold.
    #[error("{field} is {value}: out of range")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

impl From<varint::Truncated> for PayloadError {
    fn from(_: varint::Truncated) -> Self {
        Self::Truncated
    }
}

impl Payload {
    /// The bytes of it.
    pub fn encode(&self) -> Vec<u8> {
        let sample = &self.sample;
        let mut out = Vec::with_capacity(64 + self.init.len() + sample.data.len());
        let audio = if sample.kind == TrackKind::Audio { AUDIO } else { 0 };
        let sync = if sample.is_sync { SYNC } else { 0 };
        let reference = if sample.is_reference { REFERENCE } else { 0 };
        out.extend_from_slice(&[VERSION, audio | sync | reference]);
        let offset = i64::from(sample.composition_offset);
        let fields = [
            self.rendition,
            self.bits_per_second,
            sample.track.into(),
            sample.timescale.into(),
            sample.decode_time,
            sample.duration.into(),
            ((offset << 1) ^ (offset >> 63)) as u64,
            self.init.len() as u64,
        ];
        for field in fields {
            varint::put(&mut out, field.min(varint::MAX));
        }
        out.extend_from_slice(&self.init);
        out.extend_from_slice(&sample.data);
        out
    }

    /// Reads what [`Payload::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let [version, flags, rest @ ..] = bytes else { return Err(PayloadError::Truncated) };
        if *version != VERSION {
            return Err(PayloadError::Version(*version));
        }
        let mut reader = Reader::new(rest);
        let rendition = reader.read_varint()?;
        let bits_per_second = reader.read_varint()?;
        let track = narrow("the track", reader.read_varint()?)?;
        let timescale = match reader.read_varint()? {
            0 => return Err(PayloadError::Range { field: "the timescale", value: 0 }),
            value => narrow("the timescale", value)?,
        };
        let decode_time = reader.read_varint()?;
        let duration = narrow("the duration", reader.read_varint()?)?;
        let offset: u32 = narrow("the composition offset", reader.read_varint()?)?;
        let composition_offset = (offset >> 1).cast_signed() ^ -(offset & 1).cast_signed();
        let init_len = reader.read_varint()?;
        let rest = &rest[reader.position()..];
        let init_len = usize::try_from(init_len)
            .ok()
            .filter(|len| *len <= MAX_INIT)
            .ok_or(PayloadError::Range { field: "the length of init", value: init_len })?;
        let (init, data) = rest.split_at_checked(init_len).ok_or(PayloadError::Truncated)?;
        Ok(Self {
            rendition,
            bits_per_second,
            init: init.to_vec(),
            sample: Sample {
                track,
                kind: if flags & AUDIO == 0 { TrackKind::Video } else { TrackKind::Audio },
                timescale,
                decode_time,
                duration,
                composition_offset,
                is_sync: flags & SYNC != 0,
                is_reference: flags & REFERENCE != 0,
                data: data.to_vec(),
            },
        })
    }
}

fn narrow(field: &'static str, value: u64) -> Result<u32, PayloadError> {
    u32::try_from(value).map_err(|_| PayloadError::Range { field, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(composition_offset: i32) -> Payload {
        Payload {
            rendition: 3,
            bits_per_second: 6_000_000,
            init: vec![7; 1400],
            sample: Sample {
                track: 1,
                kind: TrackKind::Video,
                timescale: 15_360,
                decode_time: 1 << 40,
                duration: 512,
                composition_offset,
                is_sync: true,
                is_reference: true,
                data: vec![9; 3000],
            },
        }
    }

    #[test]
    fn a_payload_says_what_was_written() {
        for offset in [0, 1, -1, 512, -512, i32::MAX / 2, i32::MIN / 2] {
            let payload = payload(offset);
            assert_eq!(Payload::decode(&payload.encode()), Ok(payload));
        }
    }

    #[test]
    fn what_no_sender_writes_is_refused() {
        let whole = payload(0).encode();
        let header = whole.len() - 3000;
        for end in 0..header {
            assert_eq!(Payload::decode(&whole[..end]), Err(PayloadError::Truncated), "{end}");
        }
        let mut other = whole.clone();
        other[0] = 2;
        assert_eq!(Payload::decode(&other), Err(PayloadError::Version(2)));
        let long_init = [1, 0, 0, 0, 1, 1, 0, 0, 0, 0x80, 1, 0, 1];
        let error = Payload::decode(&long_init).unwrap_err();
        assert_eq!(error, PayloadError::Range { field: "the length of init", value: 65_537 });
        let no_timescale = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        assert!(Payload::decode(&no_timescale).unwrap_err().to_string().contains("timescale"));
    }
}
