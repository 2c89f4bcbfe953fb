//! IACK: an acknowledgement that an event triggers at once, TACK section V-A.
//!
//! ```text
//! IACK {
//!   Type (i) = 0x2ac1,
//!   Event (i),             2 = loss, 3 = window, 4 = reply to IMMEDIATE_ACK
//!   Received Bytes (i),
//!   Largest Acknowledged (i), ACK Delay (i), ACK Range Count (i),
//!   First ACK Range (i), ACK Range (..) ...,
//! }
//! ```
//!
//! The last five fields are those of RFC 9000 section 19.3, with ACK Delay in plain
//! microseconds. Ranges below the first gap are there because a QUIC sender takes every
//! unacknowledged packet far enough below the largest for lost: without them, one gap would
//! condemn all that an earlier acknowledgement has not covered.

use std::ops::RangeInclusive;

use super::{
    AckRanges, DecodeError,
    ack::{decode_body, put_body},
};
use crate::varint::{self, Reader};

/// Type of an IACK frame.
pub const IACK: u64 = 0x2ac1;

/// What made the receiver send an IACK. The paper's event 1 is the TACK itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IackEvent {
    /// A gap in the packet numbers proved to be a loss.
    Loss = 2,
    /// The receive window changed abruptly.
    Window = 3,
    /// The sender asked with IMMEDIATE_ACK.
    Reply = 4,
}

/// An IACK frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iack<'a> {
    /// Why it was sent.
    pub event: IackEvent,
    /// Running total of bytes received in ack-eliciting 1-RTT packets.
    pub received_bytes: u64,
    /// The packets acknowledged. [`AckRanges::second_largest`] is the paper's second field:
    /// what lies between it and the newest range is missing.
    pub ranges: AckRanges<'a>,
    /// How long ago the largest packet arrived, in microseconds.
    pub ack_delay_us: u64,
}

impl<'a> Iack<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let event = match reader.read_varint()? {
            2 => IackEvent::Loss,
            3 => IackEvent::Window,
            4 => IackEvent::Reply,
            _ => {
                return Err(DecodeError::Malformed {
                    frame_type: IACK,
                    reason: "unknown event",
                });
            }
        };
        let received_bytes = reader.read_varint()?;
        let (ranges, ack_delay_us) = decode_body(reader, IACK)?;
        Ok(Self { event, received_bytes, ranges, ack_delay_us })
    }
}

/// Appends an IACK frame and returns how many ranges went in.
///
/// `ranges` come highest first, with at least one missing number between them. The oldest are
/// left out when the frame would exceed `budget` bytes. Zero means that not even the newest
/// range fitted, or that there was none, and nothing was written.
pub fn encode_iack(
    out: &mut Vec<u8>,
    event: IackEvent,
    received_bytes: u64,
    ack_delay_us: u64,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
    budget: usize,
) -> usize {
    let start = out.len();
    varint::put(out, IACK);
    varint::put(out, event as u64);
    varint::put(out, received_bytes);
    let count = budget
        .checked_sub(out.len() - start)
        .map_or(0, |budget| put_body(out, ranges, ack_delay_us, budget));
    if count == 0 {
        out.truncate(start);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Frames};

    #[test]
    fn a_loss_names_the_gap_by_the_two_largest_numbers() {
        let mut out = vec![];
        let ranges = [20..=22, 0..=17];
        let count = encode_iack(&mut out, IackEvent::Loss, 900, 12, ranges.into_iter(), 50);
        assert_eq!(count, 2);
        assert_eq!(out, [0x6a, 0xc1, 2, 0x43, 0x84, 22, 12, 1, 2, 1, 17]);

        let Some(Ok(located)) = Frames::new(&out).next() else { panic!("not decoded") };
        let Frame::Iack(iack) = located.frame else { panic!("{located:?}") };
        assert_eq!((iack.event, iack.received_bytes), (IackEvent::Loss, 900));
        assert_eq!((iack.ranges.largest(), iack.ack_delay_us), (22, 12));
        assert_eq!(iack.ranges.second_largest(), Some(17));
    }

    #[test]
    fn nothing_is_written_when_the_newest_range_does_not_fit() {
        for budget in 0..9 {
            let mut out = vec![0xee];
            let ranges = std::iter::once(20..=22);
            assert_eq!(encode_iack(&mut out, IackEvent::Loss, 900, 12, ranges, budget), 0);
            assert_eq!(out, [0xee]);
        }
        let ranges = std::iter::once(20..=22);
        assert_eq!(encode_iack(&mut vec![], IackEvent::Loss, 900, 12, ranges, 9), 1);
    }

    #[test]
    fn only_the_three_known_events_are_accepted() {
        for event in 0..=63 {
            let payload = [0x6a, 0xc1, event, 0, 5, 0, 0, 0];
            let known = (2..=4).contains(&event);
            assert_eq!(Frames::new(&payload).all(|frame| frame.is_ok()), known, "{event}");
        }
    }
}
