//! TIMESTAMP, draft-huitema-quic-ts-08 section 5.

use super::DecodeError;
use crate::varint::{self, Reader};

/// Type of a TIMESTAMP frame.
pub const TIMESTAMP: u64 = 0x02f5;

/// When the packet was sent: microseconds since an epoch that only the sender knows, divided
/// by two to the power of the sender's `ack_delay_exponent` (TACK-3.3-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Appends the frame; at most 10 bytes.
    pub fn encode(self, out: &mut Vec<u8>) {
        varint::put(out, TIMESTAMP);
        varint::put(out, self.0);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.read_varint()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Frames};

    #[test]
    fn the_time_follows_the_two_byte_type() {
        let mut out = vec![];
        Timestamp(1000).encode(&mut out);
        assert_eq!(out, [0x42, 0xf5, 0x43, 0xe8]);
        let located = Frames::new(&out).next().unwrap().unwrap();
        assert_eq!(located.frame, Frame::Timestamp(Timestamp(1000)));
        assert_eq!(located.range, 0..4);
    }
}
