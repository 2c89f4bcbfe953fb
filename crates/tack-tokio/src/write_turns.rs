//! The order in which tasks that wait to write are woken. All streams of a connection share the room of the send buffer,
//! and the first task may fill it.

use std::collections::BTreeSet;

/// The streams that tasks wait to write to, or for the delivery of.
#[derive(Debug, Default)]
pub(crate) struct WriteTurns {
    waiting: BTreeSet<u64>,
    /// The stream that was written to last.
    last: Option<u64>,
}

impl WriteTurns {
    /// A task waits for the stream.
    pub(crate) fn insert(&mut self, id: u64) {
        self.waiting.insert(id);
    }

    /// No task waits for it any more.
    pub(crate) fn remove(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// Something was written to a stream.
    pub(crate) fn on_written(&mut self, id: u64) {
        self.last = Some(id);
    }

    /// Those that wait: the most urgent first, and of these the first behind the one that has written last.
    pub(crate) fn in_turn(&self, urgency: impl Fn(u64) -> u8) -> Vec<u64> {
        let mut ids: Vec<u64> = self.waiting.iter().copied().collect();
        ids.sort_by_key(|&id| (urgency(id), self.last.is_some_and(|last| id <= last), id));
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_stream_has_its_turn_unless_another_is_more_urgent() {
        let mut turns = WriteTurns::default();
        for id in [0, 4, 8, 12] {
            turns.insert(id);
        }
        assert_eq!(turns.in_turn(|_| 127), [0, 4, 8, 12]);
        turns.on_written(4);
        assert_eq!(turns.in_turn(|_| 127), [8, 12, 0, 4]);
        assert_eq!(turns.in_turn(|id| if id == 4 { 1 } else { 127 }), [4, 8, 12, 0]);
        turns.remove(8);
        turns.on_written(12);
        assert_eq!(turns.in_turn(|_| 127), [0, 4, 12]);
    }
}
