//! A bounded set of numbers, kept as ranges.
//!
//! Packet numbers, and whatever else arrives almost in order, need one entry
//! for each gap and not one for each number. Every operation takes O(log n) of
//! the ranges that it touches, so a peer that makes gaps on purpose cannot make
//! one of them slow, and the bound keeps it from making the set large.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Numbers as disjoint, non-adjacent ranges.
#[derive(Clone, Debug)]
pub struct RangeSet {
    /// Last number by first number.
    ranges: BTreeMap<u64, u64>,
    max_ranges: usize,
    floor: u64,
}

impl RangeSet {
    /// An empty set of at most `max_ranges` ranges, one at least. A range more
    /// makes it forget the lowest.
    pub fn new(max_ranges: usize) -> Self {
        Self { ranges: BTreeMap::new(), max_ranges: max_ranges.max(1), floor: 0 }
    }

    /// Adds a number; whether it is new. Numbers below [`Self::floor`] are not.
    pub fn insert(&mut self, number: u64) -> bool {
        // Most numbers continue the last range.
        if let Some(mut last) = self.ranges.last_entry() {
            let end = *last.get();
            if end.checked_add(1) == Some(number) {
                last.insert(number);
                return true;
            }
        }
        if number < self.floor || self.contains(number) {
            return false;
        }
        self.join(number, number);
        true
    }

    /// Adds all numbers of a range that are not below [`Self::floor`].
    pub fn insert_range(&mut self, range: RangeInclusive<u64>) {
        let start = (*range.start()).max(self.floor);
        if start <= *range.end() {
            self.join(start, *range.end());
        }
    }

    /// Takes all numbers of a range out of the set.
    pub fn remove_range(&mut self, range: RangeInclusive<u64>) {
        let (start, end) = range.into_inner();
        if let Some((&first, last)) = self.ranges.range_mut(..start).next_back()
            && *last >= start
        {
            let whole = *last;
            *last = start - 1;
            if whole > end {
                self.ranges.insert(end + 1, whole);
            }
            debug_assert!(first < start);
        }
        while let Some((&first, &last)) = self.ranges.range(start..).next()
            && first <= end
        {
            self.ranges.remove(&first);
            if last > end {
                self.ranges.insert(end + 1, last);
            }
        }
    }

    /// Forgets all numbers below `floor`, and does not take them again.
    pub fn remove_below(&mut self, floor: u64) {
        if floor > 0 {
            self.remove_range(0..=floor - 1);
        }
        self.floor = self.floor.max(floor);
    }

    /// Whether the number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.range_of(number).is_some()
    }

    /// The range of the set that the number lies in.
    pub fn range_of(&self, number: u64) -> Option<RangeInclusive<u64>> {
        let (&start, &end) = self.ranges.range(..=number).next_back()?;
        (end >= number).then_some(start..=end)
    }

    /// What the set and a range have in common, the highest first.
    pub fn overlap(
        &self,
        range: RangeInclusive<u64>,
    ) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + '_ {
        let (start, end) = range.into_inner();
        // One descent of the tree; frames can make thousands of them.
        self.ranges
            .range(..=end)
            .rev()
            .take_while(move |(_, last)| **last >= start)
            .map(move |(&first, &last)| first.max(start)..=last.min(end))
            .filter(|common| !common.is_empty())
    }

    /// The lowest number of the set.
    pub fn smallest(&self) -> Option<u64> {
        self.ranges.first_key_value().map(|(&start, _)| start)
    }

    /// The highest number of the set.
    pub fn largest(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, &end)| end)
    }

    /// The lowest number from `from` on that is missing although a higher one is
    /// there. What lies below the lowest range does not count as missing.
    pub fn first_missing_from(&self, from: u64) -> Option<u64> {
        let missing = match self.ranges.range(..=from).next_back() {
            Some((_, &end)) => from.max(end.saturating_add(1)),
            None => self.ranges.first_key_value().map(|(_, &end)| end.saturating_add(1))?,
        };
        let (&highest, _) = self.ranges.last_key_value()?;
        (missing < highest).then_some(missing)
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = RangeInclusive<u64>> + Clone + '_ {
        self.ranges.iter().map(|(&start, &end)| start..=end)
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether the set holds no number.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Below this number the set has forgotten what it held.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Adds a range that is not empty, and joins it with all that it touches.
    fn join(&mut self, start: u64, end: u64) {
        let (mut first, mut last) = (start, end);
        if let Some((&before, &before_end)) = self.ranges.range(..=start).next_back()
            && before_end.saturating_add(1) >= start
        {
            first = before;
            last = last.max(before_end);
        }
        while let Some((&next, &next_end)) = self.ranges.range(first..).next()
            && next <= last.saturating_add(1)
        {
            last = last.max(next_end);
            self.ranges.remove(&next);
        }
        self.ranges.insert(first, last);
        while self.ranges.len() > self.max_ranges {
            if let Some((_, end)) = self.ranges.pop_first() {
                self.floor = end.saturating_add(1);
            }
        }
    }
}

/// Sorts ranges and joins those that touch.
pub(crate) fn normalise(ranges: &mut Vec<RangeInclusive<u64>>) {
    ranges.sort_unstable_by_key(|range| *range.start());
    ranges.dedup_by(|next, range| {
        let joins = range.end().saturating_add(1) >= *next.start();
        if joins {
            *range = *range.start()..=*range.end().max(next.end());
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn listed(set: &RangeSet) -> Vec<RangeInclusive<u64>> {
        set.iter().collect()
    }

    #[test]
    fn numbers_that_touch_are_one_range() {
        let mut set = RangeSet::new(10);
        for number in [5, 7, 6, 1, 2] {
            assert!(set.insert(number));
        }
        assert!(!set.insert(6));
        assert_eq!(listed(&set), [1..=2, 5..=7]);
        set.insert_range(2..=5);
        assert_eq!(listed(&set), [1..=7]);
    }

    #[test]
    fn a_range_can_be_cut_out() {
        let mut set = RangeSet::new(10);
        set.insert_range(0..=9);
        set.remove_range(3..=4);
        set.remove_range(8..=20);
        assert_eq!(listed(&set), [0..=2, 5..=7]);
        set.remove_range(2..=5);
        assert_eq!(listed(&set), [0..=1, 6..=7]);
    }

    #[test]
    fn one_range_too_many_drops_the_lowest_and_keeps_it_out() {
        let mut set = RangeSet::new(2);
        for number in [0, 2, 4] {
            set.insert(number);
        }
        assert_eq!(listed(&set), [2..=2, 4..=4]);
        assert_eq!(set.floor(), 1);
        assert!(!set.insert(0));
        set.insert_range(0..=1);
        assert_eq!(listed(&set), [1..=2, 4..=4]);
    }

    #[test]
    fn the_largest_number_that_there_is_overflows_nothing() {
        let mut set = RangeSet::new(2);
        assert!(set.insert(u64::MAX));
        set.insert_range(0..=u64::MAX);
        assert_eq!(listed(&set), [0..=u64::MAX]);
        set.remove_range(1..=u64::MAX);
        assert_eq!(listed(&set), [0..=0]);
    }

    proptest! {
        #[test]
        fn the_set_holds_what_a_tree_of_numbers_holds(
            steps in proptest::collection::vec((0_u8..4, 0_u64..200, 0_u64..20), 0..120),
            (from, length) in (0_u64..200, 0_u64..80),
        ) {
            let mut set = RangeSet::new(usize::MAX);
            let mut model = BTreeSet::new();
            for (step, start, length) in steps {
                let range = start..=start + length;
                match step {
                    0 => prop_assert_eq!(set.insert(start), model.insert(start)),
                    1 | 2 => {
                        set.insert_range(range.clone());
                        model.extend(range);
                    }
                    _ => {
                        set.remove_range(range.clone());
                        model.retain(|number| !range.contains(number));
                    }
                }
            }
            let all: Vec<u64> = set.iter().flatten().collect();
            prop_assert_eq!(&all, &model.iter().copied().collect::<Vec<_>>());
            let (smallest, largest) = (model.first().copied(), model.last().copied());
            prop_assert_eq!((set.smallest(), set.largest()), (smallest, largest));
            let range = from..=from + length;
            let common: Vec<u64> = set.overlap(range.clone()).flat_map(Iterator::rev).collect();
            let expected: Vec<u64> = model.range(range).rev().copied().collect();
            prop_assert_eq!(common, expected);
            for number in 0..220 {
                prop_assert_eq!(set.contains(number), model.contains(&number));
                let between = smallest.unwrap_or(0).max(number)..largest.unwrap_or(0);
                let missing = between.into_iter().find(|number| !model.contains(number));
                prop_assert_eq!(set.first_missing_from(number), missing);
            }
            let ranges = listed(&set);
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end() + 1 < *pair[1].start());
            }
        }
    }
}
