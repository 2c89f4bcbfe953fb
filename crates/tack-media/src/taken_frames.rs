//! Frames that the stack has taken, until it is known what becomes of them.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::gone::Gone;

/// Frames that are looked at each time. A frame at most is taken between two times on average, so a few keep the record
/// as short as what is on its way.
const LOOKS: usize = 4;

/// A frame that the stack has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenFrame {
    pub number: u64,
    pub depends_on: Option<u64>,
    /// Until when its stream may expire.
    pub until: Instant,
}

/// The frames that the stack has taken, by their streams.
#[derive(Debug, Default)]
pub(crate) struct TakenFrames {
    by_stream: BTreeMap<u64, TakenFrame>,
    /// The next look begins at this stream.
    next: u64,
}

impl TakenFrames {
    /// The stack has taken all of a frame.
    pub fn insert(&mut self, stream_id: u64, frame: TakenFrame) {
        self.by_stream.insert(stream_id, frame);
    }

    /// Removes the frame of a stream.
    pub fn remove(&mut self, stream_id: u64) -> Option<TakenFrame> {
        self.by_stream.remove(&stream_id)
    }

    /// Removes frames whose dependency is gone, and counts them as gone: their streams and numbers.
    pub fn take_dependent(&mut self, gone: &mut Gone) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        // Frames depend on earlier ones, and these have begun before: one look in that order is enough.
        self.by_stream.retain(|stream_id, frame| {
            let lacks = frame.depends_on.is_some_and(|on| gone.contains(on));
            if lacks {
                gone.insert(frame.number);
                taken.push((*stream_id, frame.number));
            }
            !lacks
        });
        taken
    }

    /// Looks at a few frames, others each time, and removes those that `is_settled`.
    pub fn forget_settled(&mut self, mut is_settled: impl FnMut(u64, &TakenFrame) -> bool) {
        for _ in 0..LOOKS.min(self.by_stream.len()) {
            let next = self.by_stream.range(self.next..).next();
            let Some((&stream_id, frame)) = next.or_else(|| self.by_stream.first_key_value())
            else {
                return;
            };
            self.next = stream_id + 1;
            if is_settled(stream_id, frame) {
                self.by_stream.remove(&stream_id);
            }
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_stream.len()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test counts from some instant
mod tests {
    use super::*;

    fn taken(frames: u64) -> TakenFrames {
        let mut taken = TakenFrames::default();
        let until = Instant::now();
        for number in 0..frames {
            let depends_on = number.checked_sub(1);
            taken.insert(number * 4 + 2, TakenFrame { number, depends_on, until });
        }
        taken
    }

    #[test]
    fn a_few_frames_are_looked_at_each_time_and_all_in_turn() {
        let mut taken = taken(10_000);
        let mut looks = 0;
        taken.forget_settled(|_, _| {
            looks += 1;
            false
        });
        assert_eq!(looks, LOOKS);
        for _ in 0..10_000 / LOOKS {
            taken.forget_settled(|_, frame| frame.number % 100 != 0);
        }
        assert_eq!(taken.len(), 100);
        for _ in 0..100 / LOOKS {
            taken.forget_settled(|_, _| true);
        }
        assert_eq!(taken.len(), 0);
        taken.forget_settled(|_, _| true);
    }

    #[test]
    fn what_depends_on_a_frame_that_is_gone_is_taken_with_all_behind_it() {
        let mut taken = taken(6);
        let mut gone = Gone::default();
        gone.insert(2);
        taken.remove(2 * 4 + 2);
        assert_eq!(taken.take_dependent(&mut gone), [(14, 3), (18, 4), (22, 5)]);
        assert_eq!(taken.len(), 2);
        assert!(gone.contains(5) && !gone.contains(1));
    }
}
