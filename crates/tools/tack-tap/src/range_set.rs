//! Which bytes of a stream have been seen before.

use std::{collections::BTreeMap, ops::Range};

/// The bytes of a stream seen so far, as disjoint ranges that do not touch.
///
/// A sender writes a stream in order, so there is one range as long as nothing was missed, and
/// both new data and retransmissions meet it first.
#[derive(Debug, Default)]
pub struct RangeSet {
    /// End by start.
    ranges: BTreeMap<u64, u64>,
    len: u64,
}

impl RangeSet {
    /// Adds `range` and returns how many of its bytes had been there.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut known = 0;
        let mut merged = range.clone();
        // Ranges from the last that starts inside or touches on, down to the first that ends
        // before.
        while let Some((&start, &end)) = self.ranges.range(..=merged.end).next_back() {
            if end < merged.start {
                break;
            }
            known += end.min(range.end).saturating_sub(start.max(range.start));
            merged = start.min(merged.start)..end.max(merged.end);
            self.ranges.remove(&start);
        }
        self.ranges.insert(merged.start, merged.end);
        self.len += range.end - range.start - known;
        known
    }

    /// How many of the bytes in `range` are in the set.
    pub fn overlap(&self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let touching = self.ranges.range(..range.end).rev();
        touching
            .map(|(&start, &end)| (start.max(range.start), end.min(range.end)))
            .take_while(|(start, end)| start < end)
            .map(|(start, end)| end - start)
            .sum()
    }

    /// Bytes in the set.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is in the set.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The offset below which everything is in the set.
    pub fn contiguous(&self) -> u64 {
        self.ranges.get(&0).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_in_order_is_new_and_stays_one_range() {
        let mut sent = RangeSet::default();
        for offset in (0..10_000).step_by(100) {
            assert_eq!(sent.insert(offset..offset + 100), 0);
        }
        assert_eq!(sent.ranges, BTreeMap::from([(0, 10_000)]));
    }

    #[test]
    fn what_was_sent_before_is_counted_once_for_each_time_it_is_sent_again() {
        let mut sent = RangeSet::default();
        sent.insert(0..1000);
        assert_eq!(sent.insert(200..300), 100);
        assert_eq!(sent.insert(200..300), 100);
        assert_eq!(sent.insert(900..1100), 100);
        assert_eq!(sent.ranges, BTreeMap::from([(0, 1100)]));
    }

    #[test]
    fn a_range_over_several_others_counts_their_bytes_and_joins_them() {
        let mut sent = RangeSet::default();
        sent.insert(10..20);
        sent.insert(30..40);
        sent.insert(50..60);
        sent.insert(80..90);
        assert_eq!(sent.insert(15..55), 5 + 10 + 5);
        assert_eq!(sent.ranges, BTreeMap::from([(10, 60), (80, 90)]));
        assert_eq!(sent.insert(60..80), 0);
        assert_eq!(sent.ranges, BTreeMap::from([(10, 90)]));
    }

    #[test]
    fn what_lies_beyond_the_first_hole_is_known() {
        let mut seen = RangeSet::default();
        seen.insert(5..10);
        assert_eq!((seen.len(), seen.contiguous()), (5, 0));
        seen.insert(0..3);
        assert_eq!((seen.len(), seen.contiguous()), (8, 3));
        assert_eq!(seen.overlap(2..7), 1 + 2);
        assert_eq!(seen.overlap(10..20), 0);
        seen.insert(3..5);
        assert_eq!((seen.len(), seen.contiguous()), (10, 10));
        assert_eq!(seen.overlap(4..20), 6);
    }

    #[test]
    fn an_empty_range_is_nothing() {
        let mut sent = RangeSet::default();
        assert_eq!(sent.insert(5..5), 0);
        sent.insert(0..10);
        assert_eq!(sent.insert(5..5), 0);
        assert_eq!(sent.ranges, BTreeMap::from([(0, 10)]));
    }

    #[test]
    fn agrees_with_a_set_of_bytes() {
        let mut sent = RangeSet::default();
        let mut bytes = std::collections::BTreeSet::new();
        for step in 0..2000_u64 {
            let start = step * step % 997;
            let range = start..start + step * 7 % 23;
            let known = range.clone().filter(|&byte| !bytes.insert(byte)).count() as u64;
            assert_eq!(sent.insert(range), known);
        }
    }
}
