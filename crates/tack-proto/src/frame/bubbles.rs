//! Receive-buffer bubbles, the missing stream bytes of a TACK (TACK section VI-B).
//!
//! ```text
//! Bubbles {
//!   Bubble Count (i),      at least 1
//!   Bubble (..) ...,
//! }
//! Bubble {
//!   Received Length (i),   received bytes between the previous bubble and this one
//!   [Stream ID (i)],       these two
//!   [Offset (i)],            only if Received Length is 0
//!   Bubble Length (i),     missing bytes, at least 1
//! }
//! ```
//!
//! TACK-3.1-9 and TACK-3.1-10: two bubbles of one stream always have received bytes between them,
//! so a block of length 0 is free to mean that the bubble stands on its own: it names its
//! stream and its first missing byte. The first bubble of a TACK and of each stream is of this
//! kind, those behind it alternate: block, bubble, block, bubble.

use std::{fmt, ops::Range};

use super::DecodeError;
use crate::varint::{self, Reader};

/// Missing stream bytes, borrowed from the packet that lists them. Holds one bubble at least;
/// none is empty or ends beyond the last offset of a stream.
#[derive(Clone)]
pub struct Bubbles<'a> {
    count: usize,
    list: &'a [u8],
}

impl<'a> Bubbles<'a> {
    /// The number of bubbles, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Stream ID and missing bytes of each bubble, in the order of the frame.
    ///
    /// An honest peer groups them by stream, lowest offset first, without overlap. Decoding
    /// does not check that, since it would have to remember all of them.
    pub fn iter(&self) -> BubblesIter<'a> {
        BubblesIter { list: Reader::new(self.list), previous: None }
    }

    pub(super) fn decode(
        reader: &mut Reader<'a>,
        frame_type: u64,
    ) -> Result<Self, DecodeError> {
        let malformed = |reason| DecodeError::Malformed { frame_type, reason };
        let count = reader.read_varint()?;
        if count == 0 {
            return Err(malformed("an empty list of bubbles"));
        }
        // A bubble takes two bytes or more: a count beyond that lies.
        if count > reader.remaining() as u64 / 2 {
            return Err(DecodeError::Truncated);
        }
        let start = reader.position();
        let mut previous = None;
        for _ in 0..count {
            let (stream_id, missing) = read_bubble(reader, previous.as_ref(), malformed)?;
            previous = Some((stream_id, missing));
        }
        Ok(Self { count: count as usize, list: reader.since(start) })
    }
}

fn read_bubble(
    reader: &mut Reader<'_>,
    previous: Option<&(u64, Range<u64>)>,
    malformed: impl Fn(&'static str) -> DecodeError,
) -> Result<(u64, Range<u64>), DecodeError> {
    let (stream_id, start) = match (reader.read_varint()?, previous) {
        (0, _) => (reader.read_varint()?, reader.read_varint()?),
        (block, Some((stream_id, missing))) => (*stream_id, missing.end + block),
        (_, None) => return Err(malformed("the first bubble names no stream")),
    };
    let length = reader.read_varint()?;
    if length == 0 {
        return Err(malformed("a bubble of no bytes"));
    }
    // Below 2^63 and below 2^62: no overflow.
    let end = start + length;
    if end > varint::MAX {
        return Err(malformed("a bubble beyond the end of its stream"));
    }
    Ok((stream_id, start..end))
}

/// Appends the list with as many of `bubbles` as `budget` bytes hold, first come first; returns
/// how many. Writes nothing if that is none.
pub(super) fn put_bubbles(
    out: &mut Vec<u8>,
    bubbles: impl Iterator<Item = (u64, Range<u64>)>,
    budget: usize,
) -> usize {
    let start = out.len();
    let mut count = 0;
    let mut previous: Option<(u64, u64)> = None;
    for (stream_id, missing) in bubbles.filter(|(_, missing)| !missing.is_empty()) {
        let before = out.len();
        match previous {
            Some((stream, end)) if stream == stream_id && end < missing.start => {
                varint::put(out, missing.start - end);
            }
            _ => {
                varint::put(out, 0);
                varint::put(out, stream_id);
                varint::put(out, missing.start);
            }
        }
        varint::put(out, missing.end - missing.start);
        if out.len() - start + varint::len(count + 1) > budget {
            out.truncate(before);
            break;
        }
        count += 1;
        previous = Some((stream_id, missing.end));
    }
    if count > 0 {
        varint::insert(out, start, count);
    }
    count as usize
}

impl<'a> IntoIterator for &Bubbles<'a> {
    type Item = (u64, Range<u64>);
    type IntoIter = BubblesIter<'a>;

    fn into_iter(self) -> BubblesIter<'a> {
        self.iter()
    }
}

/// Two are equal when they list the same bytes, however those were written.
impl PartialEq for Bubbles<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Bubbles<'_> {}

impl fmt::Debug for Bubbles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterates over [`Bubbles`].
#[derive(Clone, Debug)]
pub struct BubblesIter<'a> {
    list: Reader<'a>,
    previous: Option<(u64, Range<u64>)>,
}

impl Iterator for BubblesIter<'_> {
    type Item = (u64, Range<u64>);

    fn next(&mut self) -> Option<(u64, Range<u64>)> {
        // Fails only at the end: decoding has walked the whole list.
        let bubble =
            read_bubble(&mut self.list, self.previous.as_ref(), |_| DecodeError::Truncated)
                .ok()?;
        self.previous = Some(bubble.clone());
        Some(bubble)
    }
}

impl std::iter::FusedIterator for BubblesIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(list: &[u8]) -> Result<Bubbles<'_>, DecodeError> {
        let mut reader = Reader::new(list);
        let bubbles = Bubbles::decode(&mut reader, 0x2ac0)?;
        assert_eq!(reader.remaining(), 0);
        Ok(bubbles)
    }

    fn refusal(list: &[u8]) -> &'static str {
        match decode(list) {
            Err(DecodeError::Malformed { frame_type: 0x2ac0, reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bubbles_and_blocks_alternate_and_a_block_of_zero_starts_a_stream() {
        let bubbles = [(4, 10..15), (4, 20..50), (8, 0..1)];
        let mut out = vec![];
        assert_eq!(put_bubbles(&mut out, bubbles.iter().cloned(), 100), 3);
        assert_eq!(out, [3, 0, 4, 10, 5, 5, 30, 0, 8, 0, 1]);
        assert_eq!(decode(&out).unwrap().iter().collect::<Vec<_>>(), bubbles);
        assert_eq!(decode(&out).unwrap().len(), 3);
    }

    #[test]
    fn ranges_that_touch_stay_apart() {
        let bubbles = [(4, 10..15), (4, 15..16), (4, 3..4)];
        let mut out = vec![];
        assert_eq!(put_bubbles(&mut out, bubbles.iter().cloned(), 100), 3);
        assert_eq!(decode(&out).unwrap().iter().collect::<Vec<_>>(), bubbles);
    }

    #[test]
    fn what_does_not_fit_is_left_out_from_the_end() {
        let bubbles = || (0..80_u64).map(|n| (4, n * 20..n * 20 + 5));
        for budget in 0..200 {
            let mut out = vec![];
            let count = put_bubbles(&mut out, bubbles(), budget);
            assert!(out.len() <= budget);
            assert_eq!(count == 0, budget < 5, "the first takes four bytes and its count");
            if count > 0 {
                let expected: Vec<_> = bubbles().take(count).collect();
                assert_eq!(decode(&out).unwrap().iter().collect::<Vec<_>>(), expected);
                let next = if count == 63 { 3 } else { 2 };
                assert!(count == 80 || out.len() + next > budget);
            }
        }
    }

    #[test]
    fn lists_that_no_encoder_writes_are_refused() {
        assert_eq!(refusal(&[0]), "an empty list of bubbles");
        assert_eq!(refusal(&[1, 5, 7]), "the first bubble names no stream");
        assert_eq!(refusal(&[1, 0, 4, 10, 0]), "a bubble of no bytes");
        let mut beyond = vec![1, 0, 4];
        varint::put(&mut beyond, varint::MAX);
        varint::put(&mut beyond, 1);
        assert_eq!(refusal(&beyond), "a bubble beyond the end of its stream");
    }

    #[test]
    fn a_count_beyond_the_payload_is_refused_before_any_bubble_is_read() {
        let mut list = vec![];
        varint::put(&mut list, varint::MAX);
        list.extend([0, 4, 10, 5]);
        assert_eq!(decode(&list), Err(DecodeError::Truncated));
        assert_eq!(decode(&[3, 0, 4, 10, 5, 5]), Err(DecodeError::Truncated));
    }
}
