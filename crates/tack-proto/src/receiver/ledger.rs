//! The receiver's record of packet numbers.
//!
//! A stack that forgets ranges makes the sender take received packets for
//! lost, and the fewer acknowledgements are sent the more ranges there are to
//! remember. This ledger therefore holds far more of them than one TACK can
//! carry; only a peer that leaves thousands of holes makes it forget the oldest.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Ranges kept. A TACK of 1,400 bytes carries some 450 ranges, so what is
/// forgotten has been reported several times. Bounds what a hostile peer can
/// make us store to 64 KiB.
const MAX_RANGES: usize = 4096;

/// What a packet number meant to the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The expected next number.
    InOrder,
    /// Above the expected number: `missing` numbers before it have not come.
    Ahead {
        /// How many numbers were skipped.
        missing: u64,
    },
    /// Below the largest: it came late.
    Late,
    /// Seen before, or too old to tell.
    Duplicate,
}

/// Received packet numbers as ascending, disjoint, non-adjacent ranges.
#[derive(Debug, Default)]
pub struct Ledger {
    ranges: VecDeque<(u64, u64)>,
    /// Numbers below this have been forgotten.
    floor: u64,
}

impl Ledger {
    /// Records a number.
    pub fn insert(&mut self, pn: u64) -> Arrival {
        let Some(&mut (_, ref mut largest)) = self.ranges.back_mut() else {
            if pn < self.floor {
                return Arrival::Duplicate;
            }
            // Numbers below the first may have been used in 0-RTT: no hole.
            self.ranges.push_back((pn, pn));
            return Arrival::InOrder;
        };
        if pn == *largest + 1 {
            *largest = pn;
            return Arrival::InOrder;
        }
        if pn > *largest {
            let missing = pn - *largest - 1;
            self.ranges.push_back((pn, pn));
            self.forget_oldest();
            return Arrival::Ahead { missing };
        }
        self.insert_late(pn)
    }

    /// Records a whole range that is known to have been received.
    pub fn insert_range(&mut self, range: RangeInclusive<u64>) {
        // Called for the few ranges of a handshake, never for a peer's claim.
        for pn in range {
            self.insert(pn);
        }
    }

    /// The largest number received.
    pub fn largest(&self) -> Option<u64> {
        self.ranges.back().map(|&(_, end)| end)
    }

    /// Whether `pn` has been received and is still remembered.
    pub fn contains(&self, pn: u64) -> bool {
        let after = self.ranges.partition_point(|&(start, _)| start <= pn);
        after > 0 && self.ranges[after - 1].1 >= pn
    }

    /// The smallest number from `from` on that has not been received although a
    /// larger one has; numbers below the oldest range count as received.
    pub fn first_missing_from(&self, from: u64) -> Option<u64> {
        let after = self.ranges.partition_point(|&(start, _)| start <= from);
        let (_, end) = *self.ranges.get(after.saturating_sub(1))?;
        let missing = if after == 0 { end + 1 } else { from.max(end + 1) };
        (missing < self.ranges.back()?.0).then_some(missing)
    }

    /// How many ranges are remembered.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing has been received.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, highest first.
    pub fn newest_first(&self) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + '_ {
        self.ranges.iter().rev().map(|&(start, end)| start..=end)
    }

    fn insert_late(&mut self, pn: u64) -> Arrival {
        if pn < self.floor {
            return Arrival::Duplicate;
        }
        let after = self.ranges.partition_point(|&(start, _)| start <= pn);
        let joins_previous = after > 0 && self.ranges[after - 1].1 + 1 >= pn;
        if joins_previous && self.ranges[after - 1].1 >= pn {
            return Arrival::Duplicate;
        }
        let joins_next = after < self.ranges.len() && self.ranges[after].0 == pn + 1;
        match (joins_previous, joins_next) {
            (true, true) => {
                self.ranges[after - 1].1 = self.ranges[after].1;
                self.ranges.remove(after);
            }
            (true, false) => self.ranges[after - 1].1 = pn,
            (false, true) => self.ranges[after].0 = pn,
            (false, false) => {
                self.ranges.insert(after, (pn, pn));
                self.forget_oldest();
            }
        }
        Arrival::Late
    }

    fn forget_oldest(&mut self) {
        while self.ranges.len() > MAX_RANGES {
            if let Some((_, end)) = self.ranges.pop_front() {
                self.floor = end + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gap_is_reported_with_its_size_and_closed_by_the_late_packet() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.insert(0), Arrival::InOrder);
        assert_eq!(ledger.insert(3), Arrival::Ahead { missing: 2 });
        assert_eq!(ledger.insert(2), Arrival::Late);
        assert_eq!(ledger.len(), 2);
        assert_eq!(ledger.insert(1), Arrival::Late);
        assert_eq!(ledger.insert(1), Arrival::Duplicate);
        assert_eq!(ledger.newest_first().collect::<Vec<_>>(), [0..=3]);
    }

    #[test]
    fn a_peer_that_skips_every_other_number_is_remembered_up_to_the_bound() {
        let mut ledger = Ledger::default();
        for pn in (0..100_000).step_by(2) {
            ledger.insert(pn);
        }
        assert_eq!(ledger.len(), MAX_RANGES);
        assert_eq!(ledger.largest(), Some(99_998));
        // What was forgotten must not be taken for new: it would be counted twice.
        assert_eq!(ledger.insert(2), Arrival::Duplicate);
    }

    proptest! {
        #[test]
        fn ranges_equal_the_set_of_numbers(numbers in proptest::collection::vec(0u64..300, 0..400)) {
            let mut ledger = Ledger::default();
            let mut set = BTreeSet::new();
            for pn in numbers {
                let new = set.insert(pn);
                prop_assert_eq!(ledger.insert(pn) != Arrival::Duplicate, new);
            }
            let listed: Vec<u64> = ledger.newest_first().flat_map(Iterator::rev).collect();
            prop_assert_eq!(listed, set.iter().rev().copied().collect::<Vec<_>>());
            let known = set.first().copied().unwrap_or(0)..set.last().copied().unwrap_or(0);
            for pn in 0..300 {
                prop_assert_eq!(ledger.contains(pn), set.contains(&pn));
                let missing = known.clone().find(|n| *n >= pn && !set.contains(n));
                prop_assert_eq!(ledger.first_missing_from(pn), missing);
            }
            // Adjacent ranges are one range.
            let starts: Vec<_> = ledger.newest_first().collect();
            for pair in starts.windows(2) {
                prop_assert!(pair[1].end() + 1 < *pair[0].start());
            }
        }
    }
}
