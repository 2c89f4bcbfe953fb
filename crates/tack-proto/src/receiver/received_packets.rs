//! The receiver's record of packet numbers.
//!
//! A stack that forgets ranges makes the sender take received packets for
//! lost, and the fewer acknowledgements are sent the more ranges there are to
//! remember. This record therefore holds far more of them than one TACK can
//! carry; only a peer that leaves thousands of holes makes it forget the oldest.

use std::ops::RangeInclusive;

use crate::range_set::RangeSet;

/// Ranges kept. A TACK of 1,400 bytes carries some 450 ranges, so what is
/// forgotten has been reported several times. Bounds what a hostile peer can
/// make the receiver store to some 100 KiB.
const MAX_RANGES: usize = 4096;

/// What a packet number meant to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The expected next number.
    InOrder,
    /// Above the expected number: `missing` numbers before it have not come.
    Ahead {
        /// How many numbers were left out.
        missing: u64,
    },
    /// Below the largest: it came late.
    Late,
    /// Seen before, or too old to tell.
    Duplicate,
}

/// Received packet numbers.
#[derive(Debug)]
pub struct ReceivedPackets {
    numbers: RangeSet,
    largest: Option<u64>,
}

impl Default for ReceivedPackets {
    fn default() -> Self {
        Self { numbers: RangeSet::new(MAX_RANGES), largest: None }
    }
}

impl ReceivedPackets {
    /// Records a number.
    pub fn insert(&mut self, pn: u64) -> Arrival {
        if !self.numbers.insert(pn) {
            return Arrival::Duplicate;
        }
        match self.largest {
            Some(largest) if pn < largest => return Arrival::Late,
            Some(largest) if pn > largest + 1 => {
                self.largest = Some(pn);
                return Arrival::Ahead { missing: pn - largest - 1 };
            }
            // Numbers below the first may have been used in 0-RTT: no hole.
            _ => self.largest = Some(pn),
        }
        Arrival::InOrder
    }

    /// Records a whole range that is known to have been received.
    pub fn insert_range(&mut self, range: RangeInclusive<u64>) {
        if !range.is_empty() {
            self.largest = self.largest.max(Some(*range.end()));
            self.numbers.insert_range(range);
        }
    }

    /// The largest number received.
    pub fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Whether `pn` has been received and is still remembered.
    pub fn contains(&self, pn: u64) -> bool {
        self.numbers.contains(pn)
    }

    /// Whether all of a range has been received and is still remembered.
    pub fn contains_range(&self, range: &RangeInclusive<u64>) -> bool {
        self.numbers.overlap(range.clone()).next().as_ref() == Some(range)
    }

    /// The smallest number from `from` on that has not been received although a
    /// larger one has; numbers below the oldest range count as received.
    pub fn first_missing_from(&self, from: u64) -> Option<u64> {
        self.numbers.first_missing_from(from)
    }

    /// How many ranges are remembered.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether nothing has been received.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The ranges, highest first.
    pub fn newest_first(&self) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + '_ {
        self.numbers.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gap_is_reported_with_its_size_and_closed_by_the_late_packet() {
        let mut received = ReceivedPackets::default();
        assert_eq!(received.insert(0), Arrival::InOrder);
        assert_eq!(received.insert(3), Arrival::Ahead { missing: 2 });
        assert_eq!(received.insert(2), Arrival::Late);
        assert_eq!(received.len(), 2);
        assert_eq!(received.insert(1), Arrival::Late);
        assert_eq!(received.insert(1), Arrival::Duplicate);
        assert_eq!(received.newest_first().collect::<Vec<_>>(), [0..=3]);
    }

    #[test]
    fn a_peer_that_skips_every_other_number_is_remembered_up_to_the_bound() {
        let mut received = ReceivedPackets::default();
        for pn in (0..100_000).step_by(2) {
            received.insert(pn);
        }
        assert_eq!(received.len(), MAX_RANGES);
        assert_eq!(received.largest(), Some(99_998));
        // What was forgotten must not be taken for new: it would be counted twice.
        assert_eq!(received.insert(2), Arrival::Duplicate);
    }

    proptest! {
        #[test]
        fn ranges_equal_the_set_of_numbers(numbers in proptest::collection::vec(0u64..300, 0..400)) {
            let mut received = ReceivedPackets::default();
            let mut set = BTreeSet::new();
            for pn in numbers {
                let new = set.insert(pn);
                prop_assert_eq!(received.insert(pn) != Arrival::Duplicate, new);
            }
            let listed: Vec<u64> = received.newest_first().flat_map(Iterator::rev).collect();
            prop_assert_eq!(listed, set.iter().rev().copied().collect::<Vec<_>>());
            let known = set.first().copied().unwrap_or(0)..set.last().copied().unwrap_or(0);
            for pn in 0..300 {
                prop_assert_eq!(received.contains(pn), set.contains(&pn));
                let missing = known.clone().find(|n| *n >= pn && !set.contains(n));
                prop_assert_eq!(received.first_missing_from(pn), missing);
            }
            // Adjacent ranges are one range.
            let starts: Vec<_> = received.newest_first().collect();
            for pair in starts.windows(2) {
                prop_assert!(pair[1].end() + 1 < *pair[0].start());
            }
        }
    }
}
