//! Which frames will never be whole at the receiver.

use std::collections::BTreeSet;
use std::ops::Range;

/// Frames that are remembered below the newest: some minutes of live video. What depends on an older one
/// counts as whole.
const REMEMBERED: u64 = 8192;

/// Numbers of frames that are gone.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    numbers: BTreeSet<u64>,
    /// The largest number that was ever inserted.
    newest: u64,
}

impl Gone {
    /// That frame is gone. One that is too old to be remembered is ignored.
    pub fn insert(&mut self, number: u64) {
        self.newest = self.newest.max(number);
        // The peer chooses the numbers, and may choose them in any order.
        let from = self.newest.saturating_sub(REMEMBERED);
        if number < from {
            return;
        }
        self.numbers.insert(number);
        if self.numbers.first().is_some_and(|first| *first < from) {
            self.numbers = self.numbers.split_off(&from);
        }
    }

    /// That frame has come after all.
    pub fn remove(&mut self, number: u64) {
        self.numbers.remove(&number);
    }

    /// All of these frames are gone; of very many only the newest are remembered.
    pub fn insert_all(&mut self, numbers: Range<u64>) {
        let from = numbers.start.max(numbers.end.saturating_sub(REMEMBERED));
        (from..numbers.end).for_each(|number| self.insert(number));
    }

    /// Whether all of these frames are gone.
    pub fn contains_all(&self, numbers: Range<u64>) -> bool {
        numbers.is_empty()
            || self.numbers.range(numbers.clone()).count() as u64 == numbers.end - numbers.start
    }

    /// Whether that frame is gone.
    pub fn contains(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_however_many_frames_are_gone() {
        let mut gone = Gone::default();
        (0..100_000).for_each(|number| gone.insert(number));
        assert!(gone.numbers.len() as u64 <= REMEMBERED + 1);
        assert!(
            gone.contains(99_999) && gone.contains(99_999 - REMEMBERED) && !gone.contains(0)
        );
        gone.insert_all(1 << 40..1 << 61);
        assert!(gone.numbers.len() as u64 <= REMEMBERED + 1);
        assert!(gone.contains_all((1 << 61) - 100..1 << 61) && !gone.contains_all(0..1 << 61));
    }
    #[test]
    fn memory_is_bounded_when_the_numbers_go_down() {
        let mut gone = Gone::default();
        (0..100_000).rev().for_each(|number| gone.insert(number));
        assert!(gone.numbers.len() as u64 <= REMEMBERED + 1, "{}", gone.numbers.len());
        assert!(gone.contains(99_999) && gone.contains(99_999 - REMEMBERED));
        gone.remove(99_999);
        gone.insert(5);
        assert!(!gone.contains(5), "older than what is remembered");
    }
}
