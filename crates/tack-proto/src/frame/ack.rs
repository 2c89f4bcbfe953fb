//! The acknowledgement body of RFC 9000 section 19.3, which ACK, TACK and IACK share.

use std::{fmt, ops::RangeInclusive};

use super::{DecodeError, measure};
use crate::varint::{self, Reader};

/// Type of an ACK frame without ECN counts.
pub const ACK: u64 = 0x02;
/// Type of an ACK frame with ECN counts.
pub const ACK_ECN: u64 = 0x03;

/// An ACK frame, RFC 9000 section 19.3.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ack<'a> {
    /// The packets acknowledged.
    pub ranges: AckRanges<'a>,
    /// How long the acknowledgement of the largest packet was held back, in microseconds
    /// divided by two to the power of the sender's `ack_delay_exponent`.
    pub ack_delay: u64,
    /// ECN marks seen so far.
    pub ecn: Option<EcnCounts>,
}

/// Running totals of packets received with each ECN codepoint, RFC 9000 section 19.3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets marked ECT(0).
    pub ect0: u64,
    /// Packets marked ECT(1).
    pub ect1: u64,
    /// Packets marked CE, congestion experienced.
    pub ce: u64,
}

impl EcnCounts {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            ect0: reader.read_varint()?,
            ect1: reader.read_varint()?,
            ce: reader.read_varint()?,
        })
    }

    /// Bytes that the counts take in a frame.
    pub const fn encoded_len(self) -> usize {
        varint::len(self.ect0) + varint::len(self.ect1) + varint::len(self.ce)
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        varint::put(out, self.ect0);
        varint::put(out, self.ect1);
        varint::put(out, self.ce);
    }
}

impl<'a> Ack<'a> {
    pub(super) fn decode(
        reader: &mut Reader<'a>,
        frame_type: u64,
    ) -> Result<Self, DecodeError> {
        let (ranges, ack_delay) = decode_body(reader, frame_type)?;
        let ecn = if frame_type == ACK_ECN { Some(EcnCounts::decode(reader)?) } else { None };
        Ok(Self { ranges, ack_delay, ecn })
    }
}

/// Appends a whole ACK frame and returns how many ranges went in.
///
/// `ranges` come highest first, with at least one missing number between them. The oldest are
/// left out when the frame would exceed `budget` bytes. Zero means that not even the newest
/// range fitted, or that there was none, and nothing was written.
pub fn encode_ack(
    out: &mut Vec<u8>,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
    ack_delay: u64,
    ecn: Option<EcnCounts>,
    budget: usize,
) -> usize {
    let start = out.len();
    varint::put(out, if ecn.is_some() { ACK_ECN } else { ACK });
    let fixed = (out.len() - start)
        + measure(out, |out| {
            if let Some(ecn) = ecn {
                ecn.put(out);
            }
        });
    let count =
        budget.checked_sub(fixed).map_or(0, |budget| put_body(out, ranges, ack_delay, budget));
    if count == 0 {
        out.truncate(start);
    } else if let Some(ecn) = ecn {
        ecn.put(out);
    }
    count
}

/// Appends a written ACK frame without ECN counts as one with these counts.
pub fn put_ack_ecn(out: &mut Vec<u8>, ack: &[u8], ecn: EcnCounts) {
    debug_assert_eq!(ack.first(), Some(&(ACK as u8)), "an ACK frame in its shortest form");
    varint::put(out, ACK_ECN);
    out.extend_from_slice(ack.get(varint::len(ACK)..).unwrap_or_default());
    ecn.put(out);
}

/// Appends Largest Acknowledged, ACK Delay, ACK Range Count, First ACK Range and as many
/// older ranges as `budget` bytes hold; returns the number of ranges, 0 if nothing fitted.
pub(super) fn put_body(
    out: &mut Vec<u8>,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
    ack_delay: u64,
    budget: usize,
) -> usize {
    let mut ranges = ranges.filter(|range| !range.is_empty());
    let Some(newest) = ranges.next() else { return 0 };
    let start = out.len();
    varint::put(out, *newest.end());
    varint::put(out, ack_delay);
    let list = out.len();
    varint::put(out, newest.end() - newest.start());

    let fits = |out: &Vec<u8>, older| out.len() - start + varint::len(older) <= budget;
    if !fits(out, 0) {
        out.truncate(start);
        return 0;
    }
    let mut older = 0;
    let mut smallest = *newest.start();
    for range in ranges {
        // RFC 9000 section 19.3.1: the gap is one less than the number of packets in it.
        let Some(gap) = smallest.checked_sub(*range.end()).and_then(|gap| gap.checked_sub(2))
        else {
            debug_assert!(false, "{range:?} is not below a gap under {smallest}");
            break;
        };
        let before = out.len();
        varint::put(out, gap);
        varint::put(out, range.end() - range.start());
        if !fits(out, older + 1) {
            out.truncate(before);
            break;
        }
        older += 1;
        smallest = *range.start();
    }
    varint::insert(out, list, older);
    older as usize + 1
}

/// Reads the body that [`put_body`] writes; returns the ranges and the raw ACK Delay.
pub(super) fn decode_body<'a>(
    reader: &mut Reader<'a>,
    frame_type: u64,
) -> Result<(AckRanges<'a>, u64), DecodeError> {
    let below_zero =
        DecodeError::Malformed { frame_type, reason: "acknowledges packet numbers below zero" };
    let largest = reader.read_varint()?;
    let ack_delay = reader.read_varint()?;
    let older = reader.read_varint()?;
    let first = reader.read_varint()?;
    let newest_start = largest.checked_sub(first).ok_or(below_zero)?;
    // A range takes two bytes or more: a count beyond that lies.
    if older > reader.remaining() as u64 / 2 {
        return Err(DecodeError::Truncated);
    }
    let pairs = reader.position();
    let mut smallest = newest_start;
    for _ in 0..older {
        let (gap, length) = (reader.read_varint()?, reader.read_varint()?);
        smallest = *range_below(smallest, gap, length).ok_or(below_zero)?.start();
    }
    let ranges = AckRanges {
        largest,
        newest_start,
        smallest,
        older: older as usize,
        pairs: reader.since(pairs),
    };
    Ok((ranges, ack_delay))
}

/// The range that `gap` and `length` describe under a range that starts at `smallest`; none
/// if it would reach below zero.
fn range_below(smallest: u64, gap: u64, length: u64) -> Option<RangeInclusive<u64>> {
    let end = smallest.checked_sub(gap + 2)?;
    Some(end.checked_sub(length)?..=end)
}

/// Ranges of packet numbers, borrowed from the packet that carries them. Holds one range at
/// least; no range reaches below zero, which was checked when the frame was decoded.
#[derive(Clone)]
pub struct AckRanges<'a> {
    largest: u64,
    newest_start: u64,
    smallest: u64,
    older: usize,
    /// Gap and length of each range below the newest.
    pairs: &'a [u8],
}

impl<'a> AckRanges<'a> {
    /// The largest packet number in the ranges.
    pub const fn largest(&self) -> u64 {
        self.largest
    }

    /// The smallest packet number in the ranges.
    pub const fn smallest(&self) -> u64 {
        self.smallest
    }

    /// The highest packet number below the first gap; none if there is no gap.
    pub fn second_largest(&self) -> Option<u64> {
        self.iter().nth(1).map(|range| *range.end())
    }

    /// The number of ranges, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub const fn len(&self) -> usize {
        self.older + 1
    }

    /// The ranges, highest first.
    pub fn iter(&self) -> AckRangesIter<'a> {
        AckRangesIter {
            next: Some(self.newest_start..=self.largest),
            pairs: Reader::new(self.pairs),
        }
    }
}

impl<'a> IntoIterator for &AckRanges<'a> {
    type Item = RangeInclusive<u64>;
    type IntoIter = AckRangesIter<'a>;

    fn into_iter(self) -> AckRangesIter<'a> {
        self.iter()
    }
}

/// Two are equal when they hold the same numbers, however those were written.
impl PartialEq for AckRanges<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for AckRanges<'_> {}

impl fmt::Debug for AckRanges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterates over [`AckRanges`], highest first.
#[derive(Clone, Debug)]
pub struct AckRangesIter<'a> {
    next: Option<RangeInclusive<u64>>,
    pairs: Reader<'a>,
}

impl Iterator for AckRangesIter<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        let range = self.next.take()?;
        // Both reads fail only at the end: decoding has walked the whole list.
        if let (Ok(gap), Ok(length)) = (self.pairs.read_varint(), self.pairs.read_varint()) {
            self.next = range_below(*range.start(), gap, length);
        }
        Some(range)
    }
}

impl std::iter::FusedIterator for AckRangesIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Frames};

    fn only_frame(payload: &[u8]) -> Result<Frame<'_>, DecodeError> {
        let mut frames = Frames::new(payload);
        let frame = frames.next().unwrap().map(|located| located.frame);
        assert!(frames.next().is_none());
        frame
    }

    fn ack(payload: &[u8]) -> Ack<'_> {
        match only_frame(payload) {
            Ok(Frame::Ack(ack)) => ack,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ranges_are_written_as_gaps_below_the_largest() {
        let mut out = vec![];
        let ranges = [90..=100, 80..=85, 5..=5];
        assert_eq!(encode_ack(&mut out, ranges.iter().cloned(), 300, None, 100), 3);
        assert_eq!(
            out,
            [0x02, 0x40, 100, 0x41, 0x2c, 2, 10, 3, 5, 0x40, 73, 0],
            "type, largest, delay, count, first range, then gap and length of each"
        );

        let ack = ack(&out);
        assert_eq!(ack.ranges.iter().collect::<Vec<_>>(), ranges);
        assert_eq!(ack.ranges.largest(), 100);
        assert_eq!(ack.ranges.second_largest(), Some(85));
        assert_eq!(ack.ranges.smallest(), 5);
        assert_eq!(ack.ranges.len(), 3);
        assert_eq!(ack.ack_delay, 300);
        assert_eq!(ack.ecn, None);
    }

    #[test]
    fn ecn_counts_follow_the_ranges() {
        let mut out = vec![];
        let ecn = EcnCounts { ect0: 7, ect1: 8, ce: 9 };
        assert_eq!(encode_ack(&mut out, std::iter::once(0..=3), 0, Some(ecn), 8), 1);
        assert_eq!(out, [0x03, 3, 0, 0, 3, 7, 8, 9]);
        assert_eq!(ack(&out).ecn, Some(ecn));
        assert_eq!(ack(&out).ranges.second_largest(), None);
    }

    #[test]
    fn counts_are_added_to_a_written_frame() {
        let (mut plain, mut out) = (vec![], vec![]);
        let ranges = [90..=100, 80..=85, 5..=5];
        encode_ack(&mut plain, ranges.iter().cloned(), 300, None, 100);
        let ecn = EcnCounts { ect0: 7, ect1: 800, ce: 9 };
        put_ack_ecn(&mut out, &plain, ecn);
        assert_eq!(out.len(), plain.len() + ecn.encoded_len());
        let ack = ack(&out);
        assert_eq!((ack.ecn, ack.ack_delay), (Some(ecn), 300));
        assert!(ack.ranges.iter().eq(ranges));
    }

    #[test]
    fn nothing_is_written_when_the_newest_range_does_not_fit() {
        let mut out = vec![0xee];
        let ecn = Some(EcnCounts { ect0: 7, ect1: 8, ce: 9 });
        for budget in 0..8 {
            assert_eq!(encode_ack(&mut out, std::iter::once(0..=3), 0, ecn, budget), 0);
        }
        assert_eq!(encode_ack(&mut out, std::iter::empty(), 0, None, 100), 0);
        assert_eq!(out, [0xee]);
    }

    #[test]
    fn a_count_that_grows_by_a_byte_is_charged_to_the_budget() {
        let ranges = || (0..100_u64).rev().map(|n| n * 2..=n * 2);
        for budget in 0..260 {
            let mut out = vec![];
            let count = encode_ack(&mut out, ranges(), 0, None, budget);
            assert!(out.len() <= budget);
            if count > 0 {
                let decoded: Vec<_> = ack(&out).ranges.iter().collect();
                assert_eq!(decoded, ranges().take(count).collect::<Vec<_>>());
                // No room for one more: a range takes two bytes, the 64th one more.
                let next = if count - 1 == 63 { 3 } else { 2 };
                assert!(count == 100 || out.len() + next > budget);
            }
        }
    }

    #[test]
    fn a_range_below_zero_is_refused() {
        let below_zero = Err(DecodeError::Malformed {
            frame_type: ACK,
            reason: "acknowledges packet numbers below zero",
        });
        // First range: 5 - 6. Second: starts at 3, gap of 2 leaves 0, one more is -1.
        assert_eq!(only_frame(&[0x02, 5, 0, 0, 6]), below_zero);
        assert_eq!(only_frame(&[0x02, 5, 0, 1, 2, 1, 1]), below_zero);
        assert_eq!(only_frame(&[0x02, 5, 0, 1, 2, 2, 0]), below_zero);
        assert!(only_frame(&[0x02, 5, 0, 1, 2, 1, 0]).is_ok());
    }

    #[test]
    fn a_count_beyond_the_payload_is_refused_before_any_range_is_read() {
        let mut payload = vec![0x02, 5, 0];
        varint::put(&mut payload, varint::MAX);
        payload.extend([0; 20]);
        assert_eq!(only_frame(&payload), Err(DecodeError::Truncated));
    }
}
