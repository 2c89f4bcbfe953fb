//! TACK: the periodic acknowledgement, TACK sections V and VI.
//!
//! ```text
//! TACK {
//!   Type (i) = 0x2ac0,
//!   Sequence (i),
//!   Flags (8),             which of the optional blocks follow; unknown bits are an error
//!   Largest Acknowledged (i), ACK Delay (i), ACK Range Count (i),
//!   First ACK Range (i), ACK Range (..) ...,
//!   Received Bytes (i),
//!   [Timing],              flag 0x01: Departure (i), Hold Delay (i)
//!   [Rate],                flag 0x02: Delivery Rate (i), Loss Rate (16)
//!   [ECN Counts],          flag 0x04: ECT0 Count (i), ECT1 Count (i), ECN-CE Count (i)
//!   [Bubbles],             flag 0x08: see `Bubbles`
//! }
//! ```
//!
//! The ranges are those of RFC 9000 section 19.3, with ACK Delay in plain microseconds: both
//! ends negotiated this frame, so there is no exponent to agree on. Bubbles come last because
//! they take whatever room the rest has left.

use std::ops::{Range, RangeInclusive};

use super::{
    AckRanges, Bubbles, DecodeError, EcnCounts,
    ack::{decode_body, put_body},
    bubbles::put_bubbles,
    measure,
};
use crate::varint::{self, Reader};

/// Type of a TACK frame.
pub const TACK: u64 = 0x2ac0;

const TIMING: u8 = 0x01;
const RATE: u8 = 0x02;
const ECN: u8 = 0x04;
const BUBBLES: u8 = 0x08;

/// A TACK frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tack<'a> {
    /// One higher for every TACK: gaps give the loss rate of the acknowledgement path.
    pub sequence: u64,
    /// The packets acknowledged.
    pub ranges: AckRanges<'a>,
    /// How long ago the largest packet arrived, in microseconds.
    pub ack_delay_us: u64,
    /// Running total of bytes received in ack-eliciting 1-RTT packets.
    pub received_bytes: u64,
    /// The packet with the smallest one-way delay of the interval.
    pub timing: Option<Timing>,
    /// What the receiver measured.
    pub rate: Option<Rate>,
    /// ECN marks seen so far.
    pub ecn: Option<EcnCounts>,
    /// Missing stream bytes.
    pub bubbles: Option<Bubbles<'a>>,
}

/// Round-trip timing, TACK section VI-A: now - departure - hold is a round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The TIMESTAMP of that packet, as it was sent.
    pub departure: u64,
    /// How long the packet has waited for this TACK, in microseconds.
    pub hold_us: u64,
}

/// What the receiver measured, TACK section V-B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bytes per second that arrived.
    pub delivery_rate: u64,
    /// Loss rate of the data path (the paper's rho), in 1/65536.
    pub loss_rate: u16,
}

/// The fields of a TACK other than its two lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TackFields {
    /// As [`Tack::sequence`].
    pub sequence: u64,
    /// As [`Tack::ack_delay_us`].
    pub ack_delay_us: u64,
    /// As [`Tack::received_bytes`].
    pub received_bytes: u64,
    /// As [`Tack::timing`].
    pub timing: Option<Timing>,
    /// As [`Tack::rate`].
    pub rate: Option<Rate>,
    /// As [`Tack::ecn`].
    pub ecn: Option<EcnCounts>,
}

/// How much of the two lists went into a TACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedTack {
    /// Ranges of packet numbers, at least 1.
    pub ranges: usize,
    /// Bubbles.
    pub bubbles: usize,
}

/// Appends a TACK of at most `budget` bytes.
///
/// `ranges` come highest first, with at least one missing number between them; `bubbles` are
/// pairs of stream ID and missing bytes, grouped by stream, lowest offset first. Of either
/// list, what comes first goes in first. Ranges have priority, but leave a quarter of the room
/// for bubbles if there are that many; bubbles take all that ranges don't need.
///
/// None means that the fields and the newest range don't fit, or that there is no range, and
/// nothing was written.
pub fn encode_tack(
    out: &mut Vec<u8>,
    fields: &TackFields,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
    bubbles: impl Iterator<Item = (u64, Range<u64>)> + Clone,
    budget: usize,
) -> Option<EncodedTack> {
    let start = out.len();
    let encoded = put_tack(out, fields, ranges, bubbles, budget);
    if encoded.is_none() {
        out.truncate(start);
    }
    encoded
}

fn put_tack(
    out: &mut Vec<u8>,
    fields: &TackFields,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
    bubbles: impl Iterator<Item = (u64, Range<u64>)> + Clone,
    budget: usize,
) -> Option<EncodedTack> {
    let mut ranges = ranges.filter(|range| !range.is_empty());
    let newest = ranges.next()?;
    let delay = fields.ack_delay_us;

    let start = out.len();
    varint::put(out, TACK);
    varint::put(out, fields.sequence);
    let flags = out.len();
    out.push(fields.flags());

    let fixed = (out.len() - start) + measure(out, |out| fields.put_behind_ranges(out));
    let room = budget.checked_sub(fixed)?;
    let least = measure(out, |out| {
        put_body(out, std::iter::once(newest.clone()), delay, usize::MAX);
    });
    let spare = room.checked_sub(least)?;
    let reserved = measure(out, |out| {
        put_bubbles(out, bubbles.clone(), spare / 4);
    });

    let ranges = std::iter::once(newest).chain(ranges);
    let ranges = put_body(out, ranges, delay, room - reserved);
    fields.put_behind_ranges(out);
    let left = budget - (out.len() - start);
    let bubbles = put_bubbles(out, bubbles, left);
    if bubbles > 0 {
        out[flags] |= BUBBLES;
    }
    Some(EncodedTack { ranges, bubbles })
}

impl TackFields {
    fn flags(&self) -> u8 {
        let flag = |present, bit| if present { bit } else { 0 };
        flag(self.timing.is_some(), TIMING)
            | flag(self.rate.is_some(), RATE)
            | flag(self.ecn.is_some(), ECN)
    }

    fn put_behind_ranges(&self, out: &mut Vec<u8>) {
        varint::put(out, self.received_bytes);
        if let Some(timing) = self.timing {
            varint::put(out, timing.departure);
            varint::put(out, timing.hold_us);
        }
        if let Some(rate) = self.rate {
            varint::put(out, rate.delivery_rate);
            out.extend_from_slice(&rate.loss_rate.to_be_bytes());
        }
        if let Some(ecn) = self.ecn {
            ecn.put(out);
        }
    }
}

impl<'a> Tack<'a> {
    /// The fields without the two lists.
    pub const fn fields(&self) -> TackFields {
        TackFields {
            sequence: self.sequence,
            ack_delay_us: self.ack_delay_us,
            received_bytes: self.received_bytes,
            timing: self.timing,
            rate: self.rate,
            ecn: self.ecn,
        }
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let sequence = reader.read_varint()?;
        let flags = reader.read_u8()?;
        if flags & !(TIMING | RATE | ECN | BUBBLES) != 0 {
            return Err(DecodeError::Malformed { frame_type: TACK, reason: "unknown flags" });
        }
        let (ranges, ack_delay_us) = decode_body(reader, TACK)?;
        let received_bytes = reader.read_varint()?;
        let timing = block(flags & TIMING, reader, Timing::decode)?;
        let rate = block(flags & RATE, reader, Rate::decode)?;
        let ecn = block(flags & ECN, reader, EcnCounts::decode)?;
        let bubbles = block(flags & BUBBLES, reader, |r| Bubbles::decode(r, TACK))?;
        Ok(Self { sequence, ranges, ack_delay_us, received_bytes, timing, rate, ecn, bubbles })
    }
}

/// Decodes an optional block if its flag is set.
fn block<'a, T>(
    flag: u8,
    reader: &mut Reader<'a>,
    decode: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    if flag == 0 { Ok(None) } else { decode(reader).map(Some) }
}

impl Timing {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { departure: reader.read_varint()?, hold_us: reader.read_varint()? })
    }
}

impl Rate {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { delivery_rate: reader.read_varint()?, loss_rate: reader.read_u16()? })
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;
    use crate::frame::{Frame, Frames};

    fn tack(payload: &[u8]) -> Tack<'_> {
        let located = Frames::new(payload).next().unwrap().unwrap();
        assert_eq!(located.range, 0..payload.len());
        match located.frame {
            Frame::Tack(tack) => tack,
            other => panic!("{other:?}"),
        }
    }

    fn full() -> TackFields {
        TackFields {
            sequence: 6,
            ack_delay_us: 40,
            received_bytes: 1200,
            timing: Some(Timing { departure: 1000, hold_us: 33 }),
            rate: Some(Rate { delivery_rate: 20_000, loss_rate: 0x0123 }),
            ecn: Some(EcnCounts { ect0: 7, ect1: 8, ce: 9 }),
        }
    }

    fn every_second(count: u64) -> impl Iterator<Item = RangeInclusive<u64>> + Clone {
        (0..count).rev().map(|n| n * 2..=n * 2)
    }

    fn holes(count: u64) -> impl Iterator<Item = (u64, Range<u64>)> + Clone {
        (0..count).map(|n| (4, n * 20..n * 20 + 5))
    }

    #[test]
    fn all_blocks_follow_in_the_order_of_their_flags() {
        let mut out = vec![];
        let ranges = [8..=10, 0..=5];
        let bubbles = [(4, 10..15), (4, 20..50)];
        let encoded = encode_tack(
            &mut out,
            &full(),
            ranges.iter().cloned(),
            bubbles.iter().cloned(),
            100,
        );
        assert_eq!(encoded, Some(EncodedTack { ranges: 2, bubbles: 2 }));
        let expected: &[&[u8]] = &[
            &[0x6a, 0xc0, 6, 0x0f],                // type, sequence, flags
            &[10, 40, 1, 2, 1, 5],                 // ranges
            &[0x44, 0xb0],                         // received bytes
            &[0x43, 0xe8, 33],                     // timing
            &[0x80, 0x00, 0x4e, 0x20, 0x01, 0x23], // rate
            &[7, 8, 9],                            // ECN counts
            &[2, 0, 4, 10, 5, 5, 30],              // bubbles
        ];
        assert_eq!(out, expected.concat());

        let tack = tack(&out);
        assert_eq!(tack.fields(), full());
        assert_eq!(tack.ranges.iter().collect::<Vec<_>>(), ranges);
        assert_eq!(tack.bubbles.unwrap().iter().collect::<Vec<_>>(), bubbles);
    }

    #[test]
    fn without_blocks_the_frame_ends_behind_the_received_bytes() {
        let mut out = vec![];
        let fields = TackFields { sequence: 1, received_bytes: 5, ..TackFields::default() };
        let encoded = encode_tack(&mut out, &fields, iter::once(3..=4), iter::empty(), 9);
        assert_eq!(encoded, Some(EncodedTack { ranges: 1, bubbles: 0 }));
        assert_eq!(out, [0x6a, 0xc0, 1, 0, 4, 0, 0, 1, 5]);
        assert_eq!(tack(&out).fields(), fields);
        assert_eq!(tack(&out).bubbles, None);
    }

    #[test]
    fn nothing_is_written_when_the_newest_range_does_not_fit() {
        let least = 22;
        for budget in 0..=least {
            let mut out = vec![0xee];
            let encoded = encode_tack(&mut out, &full(), iter::once(8..=10), holes(3), budget);
            assert_eq!(encoded.is_some(), budget == least, "{budget}");
            assert_eq!(out.len(), if budget == least { 1 + least } else { 1 });
        }
        let nothing = iter::empty::<RangeInclusive<u64>>();
        assert_eq!(encode_tack(&mut vec![], &full(), nothing, holes(3), 1000), None);
    }

    #[test]
    fn ranges_leave_a_quarter_of_the_room_to_bubbles() {
        let mut out = vec![];
        let encoded =
            encode_tack(&mut out, &full(), every_second(5000), holes(5000), 1000).unwrap();
        assert!(out.len() <= 1000 && out.len() > 990, "{}", out.len());
        // Either entry takes two bytes, and about 970 bytes are left for them.
        assert!((350..=370).contains(&encoded.ranges), "{encoded:?}");
        assert!((115..=125).contains(&encoded.bubbles), "{encoded:?}");
    }

    #[test]
    fn either_list_takes_the_room_that_the_other_does_not_need() {
        let mut out = vec![];
        let encoded =
            encode_tack(&mut out, &full(), every_second(5000), holes(1), 1000).unwrap();
        assert!(encoded.ranges > 480 && encoded.bubbles == 1, "{encoded:?}");

        let encoded =
            encode_tack(&mut out, &full(), every_second(1), holes(5000), 1000).unwrap();
        assert!(encoded.ranges == 1 && encoded.bubbles > 480, "{encoded:?}");
    }

    #[test]
    fn an_unknown_flag_is_refused() {
        let mut frames = Frames::new(&[0x6a, 0xc0, 1, 0x10, 4, 0, 0, 1, 5]);
        let malformed = DecodeError::Malformed { frame_type: TACK, reason: "unknown flags" };
        assert_eq!(frames.next(), Some(Err(malformed)));
    }

    #[test]
    fn a_frame_cut_anywhere_is_truncated() {
        let mut out = vec![];
        encode_tack(&mut out, &full(), every_second(4), holes(4), 1000).unwrap();
        for end in 1..out.len() {
            let mut frames = Frames::new(&out[..end]);
            assert_eq!(frames.next(), Some(Err(DecodeError::Truncated)), "{end}");
        }
    }
}
