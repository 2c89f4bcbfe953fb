//! ACK_FREQUENCY and IMMEDIATE_ACK, draft-ietf-quic-ack-frequency-14 sections 4 and 5.

use super::DecodeError;
use crate::varint::{self, Reader};

/// Type of an ACK_FREQUENCY frame.
pub const ACK_FREQUENCY: u64 = 0xaf;
/// Type of an IMMEDIATE_ACK frame, which has no fields.
pub const IMMEDIATE_ACK: u64 = 0x1f;

/// Asks the peer to acknowledge at another rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckFrequency {
    /// Rises with every frame; a frame whose number is not above the largest seen is old and
    /// to be ignored (TACK-3.4-1).
    pub sequence: u64,
    /// Ack-eliciting packets that may arrive *without* an acknowledgement: it is sent upon
    /// one more.
    pub ack_eliciting_threshold: u64,
    /// The longest that an acknowledgement may be held back, in microseconds.
    pub requested_max_ack_delay_us: u64,
    /// How far packets may be out of order before an acknowledgement is due at once: 1 is the
    /// rule of RFC 9000, 0 means never. Between TACK peers it is the sender's part of equation
    /// (5) of the paper instead: how many packets of a round trip go unreported because TACKs get
    /// lost (TACK-3.4-2).
    pub reordering_threshold: u64,
}

impl AckFrequency {
    /// TACK-7-11: requested delays from here on (2^14 ms, in microseconds) can't be a
    /// `max_ack_delay` and are a PROTOCOL_VIOLATION, as is one below the receiver's own
    /// `min_ack_delay`.
    pub const DELAY_LIMIT_US: u64 = (1 << 14) * 1000;

    /// Appends the frame; at most 34 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::put(out, ACK_FREQUENCY);
        varint::put(out, self.sequence);
        varint::put(out, self.ack_eliciting_threshold);
        varint::put(out, self.requested_max_ack_delay_us);
        varint::put(out, self.reordering_threshold);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            sequence: reader.read_varint()?,
            ack_eliciting_threshold: reader.read_varint()?,
            requested_max_ack_delay_us: reader.read_varint()?,
            reordering_threshold: reader.read_varint()?,
        })
    }
}

/// Appends an IMMEDIATE_ACK frame, one byte: asks for an acknowledgement at once.
pub fn encode_immediate_ack(out: &mut Vec<u8>) {
    varint::put(out, IMMEDIATE_ACK);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Frames};

    #[test]
    fn the_fields_follow_the_two_byte_type_in_the_order_of_the_draft() {
        let frame = AckFrequency {
            sequence: 3,
            ack_eliciting_threshold: 1,
            requested_max_ack_delay_us: 25_000,
            reordering_threshold: 0,
        };
        let mut out = vec![];
        frame.encode(&mut out);
        encode_immediate_ack(&mut out);
        assert_eq!(out, [0x40, 0xaf, 3, 1, 0x80, 0x00, 0x61, 0xa8, 0, 0x1f]);

        let frames: Vec<_> = Frames::new(&out).map(|located| located.unwrap().frame).collect();
        assert_eq!(frames, [Frame::AckFrequency(frame), Frame::ImmediateAck]);
    }

    #[test]
    fn a_missing_field_is_truncation() {
        let mut frames = Frames::new(&[0x40, 0xaf, 3, 1, 5]);
        assert_eq!(frames.next(), Some(Err(DecodeError::Truncated)));
    }
}
