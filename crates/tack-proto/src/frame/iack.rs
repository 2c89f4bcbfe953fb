//! IACK: an acknowledgement that an event triggers at once, TACK section V-A.
//!
//! ```text
//! IACK {
//!   Type (i) = 0x2ac1,
//!   Event (i),             2 = loss, 3 = window, 4 = reply to IMMEDIATE_ACK
//!   Received Bytes (i),
//!   Largest Acknowledged (i), ACK Delay (i), ACK Range Count (i),
//!   First ACK Range (i), ACK Range (..) ...,
//!   Block Count (i), Block (..) ...,
//! }
//! ```
//!
//! The blocks are those of TACK; only ECN has a meaning here. The five fields before them are
//! those of RFC 9000 section 19.3, with ACK Delay in plain microseconds. Ranges below the first
//! gap are there because a QUIC sender takes every unacknowledged packet far enough below the
//! largest for lost: without them, one gap would condemn all that an earlier acknowledgement
//! has not covered.

use std::ops::RangeInclusive;

use super::{
    AckRanges, DecodeError, EcnCounts,
    ack::{decode_body, put_body},
    blocks::{Blocks, ECN, put_block, put_grease},
    measure,
};
use crate::varint::{self, Reader};

/// Type of an IACK frame.
pub const IACK: u64 = 0x2ac1;

/// What made the receiver send an IACK. The paper's event 1 is the TACK itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IackEvent {
    /// A gap in the packet numbers proved to be a loss.
    Loss,
    /// The receive window changed abruptly.
    Window,
    /// The sender asked with IMMEDIATE_ACK.
    Reply,
    /// An event without a meaning in this version: the frame acknowledges, and that is all
    /// (TACK-3.2-2).
    Other(u64),
}

impl IackEvent {
    /// The event of this number.
    pub const fn from_wire(number: u64) -> Self {
        match number {
            2 => Self::Loss,
            3 => Self::Window,
            4 => Self::Reply,
            other => Self::Other(other),
        }
    }

    /// Its number in the frame.
    pub const fn to_wire(self) -> u64 {
        match self {
            Self::Loss => 2,
            Self::Window => 3,
            Self::Reply => 4,
            Self::Other(number) => number,
        }
    }
}

/// An IACK frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Iack<'a> {
    /// Why it was sent.
    pub event: IackEvent,
    /// Running total of bytes received in ack-eliciting 1-RTT packets.
    pub received_bytes: u64,
    /// The packets acknowledged (TACK-3.2-1). [`AckRanges::second_largest`] is the paper's
    /// second field: what lies between it and the newest range is missing.
    pub ranges: AckRanges<'a>,
    /// How long ago the largest packet arrived, in microseconds.
    pub ack_delay_us: u64,
    /// ECN marks seen so far (TACK-3.1-8).
    pub ecn: Option<EcnCounts>,
}

impl<'a> Iack<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let event = IackEvent::from_wire(reader.read_varint()?);
        let received_bytes = reader.read_varint()?;
        let (ranges, ack_delay_us) = decode_body(reader, IACK)?;
        let mut blocks = Blocks::decode(reader, IACK)?;
        let mut ecn = None;
        while let Some((block_type, mut value)) = blocks.next()? {
            // TACK-3.2-3
            if block_type == ECN {
                ecn = Some(blocks.within(EcnCounts::decode(&mut value))?);
                blocks.finish(&value)?;
            }
        }
        Ok(Self { event, received_bytes, ranges, ack_delay_us, ecn })
    }
}

/// The fields of an IACK other than its ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IackFields {
    /// As [`Iack::event`].
    pub event: IackEvent,
    /// As [`Iack::received_bytes`].
    pub received_bytes: u64,
    /// As [`Iack::ack_delay_us`].
    pub ack_delay_us: u64,
    /// As [`Iack::ecn`].
    pub ecn: Option<EcnCounts>,
    /// Whether to add a block that means nothing, as in
    /// [`TackFields::grease`](super::TackFields::grease). The received bytes choose it.
    pub grease: bool,
}

impl Iack<'_> {
    /// The fields without the ranges.
    pub const fn fields(&self) -> IackFields {
        IackFields {
            event: self.event,
            received_bytes: self.received_bytes,
            ack_delay_us: self.ack_delay_us,
            ecn: self.ecn,
            grease: false,
        }
    }
}

impl IackFields {
    fn put_blocks(&self, out: &mut Vec<u8>) {
        varint::put(out, u64::from(self.ecn.is_some()) + u64::from(self.grease));
        if self.grease {
            put_grease(out, self.received_bytes);
        }
        if let Some(ecn) = self.ecn {
            put_block(out, ECN, |out| ecn.put(out));
        }
    }
}

/// Appends an IACK frame and returns how many ranges went in.
///
/// `ranges` come highest first, with at least one missing number between them. The oldest are
/// left out when the frame would exceed `budget` bytes. Zero means that not even the newest
/// range fitted, or that there was none, and nothing was written.
pub fn encode_iack(
    out: &mut Vec<u8>,
    fields: &IackFields,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
    budget: usize,
) -> usize {
    let start = out.len();
    varint::put(out, IACK);
    varint::put(out, fields.event.to_wire());
    varint::put(out, fields.received_bytes);
    let fixed = (out.len() - start) + measure(out, |out| fields.put_blocks(out));
    let count = budget
        .checked_sub(fixed)
        .map_or(0, |budget| put_body(out, ranges, fields.ack_delay_us, budget));
    if count == 0 {
        out.truncate(start);
    } else {
        fields.put_blocks(out);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Frames};

    const FIELDS: IackFields = IackFields {
        event: IackEvent::Loss,
        received_bytes: 900,
        ack_delay_us: 12,
        ecn: None,
        grease: false,
    };

    fn iack(bytes: &[u8]) -> Iack<'_> {
        let Some(Ok(located)) = Frames::new(bytes).next() else { panic!("not decoded") };
        assert_eq!(located.range, 0..bytes.len());
        let Frame::Iack(iack) = located.frame else { panic!("{located:?}") };
        iack
    }

    #[test]
    fn a_loss_names_the_gap_by_the_two_largest_numbers() {
        let mut out = vec![];
        let ranges = [20..=22, 0..=17];
        assert_eq!(encode_iack(&mut out, &FIELDS, ranges.into_iter(), 50), 2);
        assert_eq!(out, [0x6a, 0xc1, 2, 0x43, 0x84, 22, 12, 1, 2, 1, 17, 0]);

        let iack = iack(&out);
        assert_eq!(iack.fields(), FIELDS);
        assert_eq!(iack.ranges.largest(), 22);
        assert_eq!(iack.ranges.second_largest(), Some(17));
    }

    #[test]
    fn nothing_is_written_when_the_newest_range_does_not_fit() {
        for budget in 0..10 {
            let mut out = vec![0xee];
            let ranges = std::iter::once(20..=22);
            assert_eq!(encode_iack(&mut out, &FIELDS, ranges, budget), 0);
            assert_eq!(out, [0xee]);
        }
        let ranges = std::iter::once(20..=22);
        assert_eq!(encode_iack(&mut vec![], &FIELDS, ranges, 10), 1);
    }

    #[test]
    fn an_event_without_a_meaning_still_acknowledges() {
        for event in 0..=63 {
            let payload = [0x6a, 0xc1, event, 0, 5, 0, 0, 0, 0];
            let found = iack(&payload).event;
            assert_eq!(found.to_wire(), u64::from(event));
            let has_meaning = (2..=4).contains(&event);
            assert_eq!(!matches!(found, IackEvent::Other(_)), has_meaning);
        }
    }

    #[test]
    fn ecn_counts_travel_in_their_block() {
        let mut out = vec![];
        let ecn = Some(EcnCounts { ect0: 7, ect1: 8, ce: 9 });
        let fields = IackFields { ecn, grease: true, ..FIELDS };
        assert_eq!(encode_iack(&mut out, &fields, std::iter::once(20..=22), 50), 1);
        assert_eq!(iack(&out).ecn, ecn);
        // A value that is longer or shorter than the counts is refused (TACK-7-3).
        for len in [2, 4] {
            let mut payload = vec![0x6a, 0xc1, 2, 0, 5, 0, 0, 0, 1, 3, len];
            payload.resize(payload.len() + usize::from(len), 1);
            assert!(Frames::new(&payload).any(|frame| frame.is_err()), "{len}");
        }
    }

    #[test]
    fn blocks_are_skipped() {
        let mut out = vec![];
        let greased = IackFields { grease: true, ..FIELDS };
        let ranges = std::iter::once(20..=22);
        assert_eq!(encode_iack(&mut out, &greased, ranges, 50), 1);
        assert_eq!(iack(&out).fields(), FIELDS);
        assert!(Frames::new(&out[..out.len() - 1]).any(|frame| frame.is_err()));
    }
}
