//! TACK: the periodic acknowledgement, TACK sections V and VI.
//!
//! ```text
//! TACK {
//!   Type (i) = 0x2ac0,
//!   Sequence (i),
//!   Largest Acknowledged (i), ACK Delay (i), ACK Range Count (i),
//!   First ACK Range (i), ACK Range (..) ...,
//!   Received Bytes (i),
//!   Block Count (i),
//!   Block (..) ...,        see `blocks`
//! }
//!
//! Block 1, Timing:      Departure (i), Hold Delay (i)
//! Block 2, Rate:        Delivery Rate (i), Loss Rate (16)
//! Block 3, ECN Counts:  ECT0 Count (i), ECT1 Count (i), ECN-CE Count (i)
//! Block 4, Bubbles:     see `Bubbles`
//! Block 5, Arrivals:    see `Arrivals`
//! ```
//!
//! The ranges are those of RFC 9000 section 19.3, with ACK Delay in plain microseconds: both
//! ends negotiated this frame, so there is no exponent to agree on. Bubbles come last because
//! they take whatever room the rest has left.

use std::ops::{Range, RangeInclusive};

use super::{
    AckRanges, Arrivals, Bubbles, DecodeError, EcnCounts, EncodedArrivals,
    ack::{decode_body, put_body},
    arrivals::ARRIVALS,
    blocks::{Blocks, ECN, put_block, put_grease},
    bubbles::put_bubbles,
    measure,
};
use crate::varint::{self, Reader};

/// Type of a TACK frame.
pub const TACK: u64 = 0x2ac0;

const TIMING: u64 = 1;
const RATE: u64 = 2;
const BUBBLES: u64 = 4;

/// A TACK frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tack<'a> {
    /// One higher for every TACK (TACK-3.1-1): gaps give the loss rate of the acknowledgement path.
    pub sequence: u64,
    /// The packets acknowledged.
    pub ranges: AckRanges<'a>,
    /// How long ago the largest packet arrived, in microseconds (TACK-3.1-2).
    pub ack_delay_us: u64,
    /// Running total of bytes received in ack-eliciting 1-RTT packets.
    pub received_bytes: u64,
    /// The packet with the smallest one-way delay of the interval.
    pub timing: Option<Timing>,
    /// What the receiver measured.
    pub rate: Option<Rate>,
    /// ECN marks seen so far (TACK-3.1-8).
    pub ecn: Option<EcnCounts>,
    /// Missing stream bytes.
    pub bubbles: Option<Bubbles<'a>>,
    /// When packets with a TIMESTAMP arrived.
    pub arrivals: Option<EncodedArrivals<'a>>,
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
    /// Loss rate of the data path (the paper's rho), in 1/65536 (TACK-3.1-7).
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
    /// As [`Tack::arrivals`]; left out where a range or a bubble would have to make room for it.
    pub arrivals: Option<Arrivals>,
    /// Whether to add a block that means nothing, so that receivers go on to skip what they do
    /// not know. The sequence chooses its type and length.
    pub grease: bool,
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
    ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    bubbles: impl Iterator<Item = (u64, Range<u64>)> + Clone,
    budget: usize,
) -> Option<EncodedTack> {
    let start = out.len();
    let plain = TackFields { arrivals: None, ..*fields };
    let mut encoded = put_tack(out, &plain, ranges.clone(), bubbles.clone(), budget);
    if fields.arrivals.is_some() {
        let without = out.split_off(start);
        // TACK-4.4-4: not in the place of what has to be repeated otherwise.
        let with = put_tack(out, fields, ranges, bubbles, budget);
        if with.is_none() || with != encoded {
            out.truncate(start);
            out.extend_from_slice(&without);
        } else {
            encoded = with;
        }
    }
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

    let fixed = (out.len() - start) + measure(out, |out| fields.put_behind_ranges(out, 0));
    let room = budget.checked_sub(fixed)?;
    let least = measure(out, |out| {
        put_body(out, std::iter::once(newest.clone()), delay, usize::MAX);
    });
    let spare = room.checked_sub(least)?;
    let reserved = measure(out, |out| {
        put_bubbles_block(out, bubbles.clone(), spare / 4);
    });

    let ranges = std::iter::once(newest).chain(ranges);
    // TACK-4.1-3
    let ranges = put_body(out, ranges, delay, room - reserved);
    let behind_ranges = out.len();
    fields.put_behind_ranges(out, 0);
    let left = budget - (out.len() - start);
    let bubbles = put_bubbles_block(out, bubbles, left);
    if bubbles > 0 {
        // The count in front of the blocks is one more; it takes one byte in any case.
        let blocks = out.split_off(behind_ranges);
        fields.put_behind_ranges(out, 1);
        out.extend_from_slice(&blocks[out.len() - behind_ranges..]);
    }
    Some(EncodedTack { ranges, bubbles })
}

/// Appends the block with as many bubbles as `budget` bytes hold; returns how many.
fn put_bubbles_block(
    out: &mut Vec<u8>,
    bubbles: impl Iterator<Item = (u64, Range<u64>)>,
    budget: usize,
) -> usize {
    let start = out.len();
    let mut count = 0;
    put_block(out, BUBBLES, |out| {
        count = put_bubbles(out, bubbles, longest_value(budget));
    });
    if count == 0 {
        out.truncate(start);
    }
    count
}

/// The longest value of a block of `budget` bytes, of which type and length take some.
fn longest_value(budget: usize) -> usize {
    let room = |length_len| budget.saturating_sub(varint::len(BUBBLES) + length_len);
    let fits = |length_len: &usize| varint::len(room(*length_len) as u64) <= *length_len;
    [1, 2, 4, 8].into_iter().find(fits).map_or(0, room)
}

impl TackFields {
    /// Received Bytes and the blocks other than bubbles; `more` blocks follow.
    fn put_behind_ranges(&self, out: &mut Vec<u8>, more: u64) {
        let count = |present| u64::from(present);
        varint::put(out, self.received_bytes);
        let blocks = count(self.timing.is_some())
            + count(self.rate.is_some())
            + count(self.ecn.is_some())
            + count(self.arrivals.is_some())
            + count(self.grease);
        varint::put(out, blocks + more);
        if self.grease {
            put_grease(out, self.sequence);
        }
        if let Some(timing) = self.timing {
            put_block(out, TIMING, |out| {
                varint::put(out, timing.departure);
                varint::put(out, timing.hold_us);
            });
        }
        if let Some(rate) = self.rate {
            put_block(out, RATE, |out| {
                varint::put(out, rate.delivery_rate);
                out.extend_from_slice(&rate.loss_rate.to_be_bytes());
            });
        }
        if let Some(ecn) = self.ecn {
            put_block(out, ECN, |out| ecn.put(out));
        }
        if let Some(arrivals) = &self.arrivals {
            put_block(out, ARRIVALS, |out| arrivals.put(out));
        }
    }
}

impl<'a> Tack<'a> {
    /// The fields without the two lists.
    pub fn fields(&self) -> TackFields {
        TackFields {
            sequence: self.sequence,
            ack_delay_us: self.ack_delay_us,
            received_bytes: self.received_bytes,
            timing: self.timing,
            rate: self.rate,
            ecn: self.ecn,
            arrivals: self.arrivals.as_ref().map(EncodedArrivals::get),
            grease: false,
        }
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let sequence = reader.read_varint()?;
        let (ranges, ack_delay_us) = decode_body(reader, TACK)?;
        let received_bytes = reader.read_varint()?;
        let mut tack = Self {
            sequence,
            ranges,
            ack_delay_us,
            received_bytes,
            timing: None,
            rate: None,
            ecn: None,
            bubbles: None,
            arrivals: None,
        };
        let mut blocks = Blocks::decode(reader, TACK)?;
        while let Some((block_type, mut value)) = blocks.next()? {
            match block_type {
                TIMING => tack.timing = Some(blocks.within(Timing::decode(&mut value))?),
                RATE => tack.rate = Some(blocks.within(Rate::decode(&mut value))?),
                ECN => tack.ecn = Some(blocks.within(EcnCounts::decode(&mut value))?),
                BUBBLES => {
                    tack.bubbles = Some(blocks.within(Bubbles::decode(&mut value, TACK))?);
                }
                ARRIVALS => {
                    let arrivals = EncodedArrivals::decode(&mut value, TACK);
                    tack.arrivals = Some(blocks.within(arrivals)?);
                }
                _ => continue,
            }
            blocks.finish(&value)?;
        }
        Ok(tack)
    }
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
    use crate::frame::{Frame, Frames, StampedArrival};

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
            arrivals: None,
            grease: false,
        }
    }

    fn every_second(count: u64) -> impl Iterator<Item = RangeInclusive<u64>> + Clone {
        (0..count).rev().map(|n| n * 2..=n * 2)
    }

    fn holes(count: u64) -> impl Iterator<Item = (u64, Range<u64>)> + Clone {
        (0..count).map(|n| (4, n * 20..n * 20 + 5))
    }

    #[test]
    fn all_blocks_follow_in_the_order_of_their_types() {
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
            &[0x6a, 0xc0, 6],                            // type, sequence
            &[10, 40, 1, 2, 1, 5],                       // ranges
            &[0x44, 0xb0, 4],                            // received bytes, blocks
            &[1, 3, 0x43, 0xe8, 33],                     // timing
            &[2, 6, 0x80, 0x00, 0x4e, 0x20, 0x01, 0x23], // rate
            &[3, 3, 7, 8, 9],                            // ECN counts
            &[4, 7, 2, 0, 4, 10, 5, 5, 30],              // bubbles
        ];
        assert_eq!(out, expected.concat());

        let tack = tack(&out);
        assert_eq!(tack.fields(), full());
        assert_eq!(tack.ranges.iter().collect::<Vec<_>>(), ranges);
        assert_eq!(tack.bubbles.unwrap().iter().collect::<Vec<_>>(), bubbles);
    }

    #[test]
    fn without_blocks_the_frame_ends_behind_their_count() {
        let mut out = vec![];
        let fields = TackFields { sequence: 1, received_bytes: 5, ..TackFields::default() };
        let encoded = encode_tack(&mut out, &fields, iter::once(3..=4), iter::empty(), 9);
        assert_eq!(encoded, Some(EncodedTack { ranges: 1, bubbles: 0 }));
        assert_eq!(out, [0x6a, 0xc0, 1, 4, 0, 0, 1, 5, 0]);
        assert_eq!(tack(&out).fields(), fields);
        assert_eq!(tack(&out).bubbles, None);
    }

    #[test]
    fn nothing_is_written_when_the_newest_range_does_not_fit() {
        let least = 28;
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
    fn blocks_of_unknown_types_are_skipped() {
        let bare = [0x6a, 0xc0, 1, 4, 0, 0, 1, 5];
        let blocks: &[u8] = &[3, 0x0a, 2, 9, 9, 1, 2, 40, 50, 0x40, 0x77, 0];
        let frame = [&bare[..], blocks].concat();
        assert_eq!(tack(&frame).timing, Some(Timing { departure: 40, hold_us: 50 }));
    }

    #[test]
    fn blocks_that_no_encoder_writes_are_refused() {
        let bare = [0x6a, 0xc0, 1, 4, 0, 0, 1, 5];
        let refusal = |blocks: &[u8]| {
            let frame = [&bare[..], blocks].concat();
            match Frames::new(&frame).next() {
                Some(Err(DecodeError::Malformed { frame_type: TACK, reason })) => reason,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refusal(&[17]), "more than 16 blocks");
        assert_eq!(refusal(&[2, 1, 2, 4, 5, 1, 2, 4, 5]), "two blocks of one type");
        assert_eq!(refusal(&[1, 1, 3, 4, 5, 6]), "a block longer than its fields");
        assert_eq!(refusal(&[1, 1, 1, 4, 5, 6]), "a block shorter than its fields");
    }

    #[test]
    fn grease_adds_a_block_that_says_nothing() {
        for sequence in 0..64 {
            let fields = TackFields { sequence, ..full() };
            let (mut plain, mut greased) = (vec![], vec![]);
            let greasing = TackFields { grease: true, ..fields };
            for (out, fields) in [(&mut plain, fields), (&mut greased, greasing)] {
                encode_tack(out, &fields, every_second(3), holes(2), 100).unwrap();
            }
            assert!((2..=5).contains(&(greased.len() - plain.len())));
            assert_eq!(tack(&greased), tack(&plain));
        }
    }

    #[test]
    fn a_tack_with_timing_and_rate_takes_33_bytes() {
        let fields = TackFields {
            sequence: 10_000,
            ack_delay_us: 250,
            received_bytes: 1 << 29,
            timing: Some(Timing { departure: 12_345_678, hold_us: 2_500 }),
            rate: Some(Rate { delivery_rate: 25_000_000, loss_rate: 3277 }),
            ecn: None,
            arrivals: None,
            grease: false,
        };
        let mut out = vec![];
        let newest = 1_000_000..=1_000_018;
        encode_tack(&mut out, &fields, iter::once(newest), iter::empty(), 100).unwrap();
        assert_eq!(out.len(), 33, "each block takes two bytes for type and length");
    }

    #[test]
    fn arrivals_are_left_out_where_ranges_need_the_room() {
        let mut arrivals = Arrivals::default();
        for packet in 0..8 {
            let (since_last_us, bytes) = (900 * packet, 2400 * packet);
            arrivals.push(StampedArrival { packet_number: 100 + packet, since_last_us, bytes });
        }
        let fields = TackFields { arrivals: Some(arrivals), ..full() };
        let mut least = None;
        for budget in 30..300 {
            let mut out = vec![];
            encode_tack(&mut out, &fields, every_second(20), holes(20), budget).unwrap();
            assert!(out.len() <= budget);
            let found = tack(&out).arrivals.map(|arrivals| arrivals.get());
            assert!(found.is_none_or(|found| found == arrivals));
            assert!(found.is_none() || tack(&out).ranges.iter().count() == 20);
            least = least.or(found.map(|_| budget));
        }
        assert!((150..290).contains(&least.unwrap()), "{least:?}");
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
