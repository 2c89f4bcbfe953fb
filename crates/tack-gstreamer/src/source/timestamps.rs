//! The times of the sender as running times of this pipeline.

use std::time::Duration;

/// Times that go on by so much more or less than the clock have jumped: the sender's, or this pipeline stood still.
const JUMP: i64 = 500_000_000;
/// Buffers may come this much before their times: a sender that does not wait for these is ahead.
const MOST_EARLY: i64 = 10_000_000_000;
/// A jump goes back by no less than this, or goes on from where it was.
const MOST_BACK: i64 = 1_000_000_000;
/// Times that are off by less are left alone: the distances between them are those of the sender.
const TOLERANCE: i64 = 10_000_000;
/// By so much they come down with each buffer, nanoseconds: two clocks do not differ by more.
const SLEW: i64 = 100_000;

/// For so long all buffers have to be early before times catch up: a late one had moved them.
const WATCHED: i64 = 1_000_000_000;
/// What they are early by, at least.
const EARLY: i64 = 50_000_000;
/// Times catch up by this part of what passes between two buffers.
const CATCH_UP: i64 = 10;

/// Adds to the sender's running times what makes them running times of this pipeline.
///
/// Both clocks tick on their own, and the path's delay changes. What has to be added goes up at once, since
/// buffers would come too late otherwise, and comes down slowly; a little faster while all buffers are early by much the
/// same, as they are behind one that was late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timestamps {
    last: Option<Last>,
    watch: Watch,
}

/// How early buffers are.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    begun: i64,
    /// The least and the most.
    early: Option<(i64, i64)>,
    /// By how much all of the last second's buffers were early, less what has been caught up since.
    ahead: i64,
}

impl Watch {
    /// A buffer is early by so much, or late. How far its times catch up, `passed` behind the last one.
    fn on_buffer(&mut self, local: i64, early: i64, passed: i64) -> i64 {
        let (least, most) = self
            .early
            .map_or((early, early), |(least, most)| (least.min(early), most.max(early)));
        self.early = Some((least, most));
        if !(0..WATCHED).contains(&local.saturating_sub(self.begun)) {
            // A sender that is ahead of its times is earlier and earlier.
            let is_steady = least > EARLY && most.saturating_sub(least) < least / 2;
            *self =
                Self { begun: local, early: None, ahead: if is_steady { least } else { 0 } };
        }
        let by = (passed / CATCH_UP).clamp(0, self.ahead.min(early.max(0)));
        self.ahead -= by;
        // What is caught up makes those that follow less early.
        self.early = self.early.map(|(least, most)| (least - by, most));
        by
    }
}

/// The last buffer.
#[derive(Clone, Copy, Debug)]
struct Last {
    wanted: i64,
    offset: i64,
    carried: i64,
    /// Where it was put.
    time: i64,
}

/// Where a buffer is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// What to add to its times, nanoseconds.
    pub offset: i64,
    /// How far the times have jumped, if they have.
    pub jumped: Option<Duration>,
}

impl Timestamps {
    /// Takes a buffer whose time is `carried`, and which was captured at the running time `local`.
    pub fn place(&mut self, carried: i64, local: i64) -> Placed {
        let wanted = local.saturating_sub(carried);
        let (mut offset, jumped) = match self.last {
            None => (wanted, None),
            Some(last) => next(last, wanted),
        };
        if let Some(last) = self.last.filter(|_| jumped.is_none()) {
            let early = offset.saturating_sub(wanted);
            offset -= self.watch.on_buffer(local, early, carried.saturating_sub(last.carried));
        } else {
            self.watch = Watch { begun: local, ..Watch::default() };
        }
        let mut time = carried.saturating_add(offset);
        if let Some(last) = self.last
            && jumped.is_some()
            && (0..MOST_BACK).contains(&last.time.saturating_sub(time))
        {
            // Times that go back a little are better off behind the last: decoders take them for another order.
            time = last.time.saturating_add(1);
            offset = time.saturating_sub(carried);
        }
        self.last = Some(Last { wanted, offset, carried, time });
        Placed { offset, jumped }
    }
}

fn next(last: Last, wanted: i64) -> (i64, Option<Duration>) {
    let step = wanted.saturating_sub(last.wanted);
    let off = wanted.saturating_sub(last.offset);
    if step.unsigned_abs() > JUMP.unsigned_abs() || off < -MOST_EARLY {
        let by = step.unsigned_abs().max(off.unsigned_abs());
        return (wanted, Some(Duration::from_nanos(by)));
    }
    let offset = if off > TOLERANCE {
        wanted
    } else if off < -TOLERANCE {
        last.offset - SLEW
    } else {
        last.offset
    };
    (offset, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn distances_between_times_are_kept_while_arrivals_move_a_little() {
        let mut timestamps = Timestamps::default();
        for number in 0..100 {
            let moved = [0, 8, -9, 3][number as usize % 4] * MS;
            let placed =
                timestamps.place(number * 33 * MS, 500 * MS + number * 33 * MS + moved);
            assert_eq!(placed, Placed { offset: 500 * MS, jumped: None });
        }
    }

    #[test]
    fn a_path_that_becomes_longer_is_followed_at_once_and_a_shorter_one_slowly() {
        let mut timestamps = Timestamps::default();
        timestamps.place(0, 0);
        assert_eq!(timestamps.place(0, 70 * MS).offset, 70 * MS);
        assert_eq!(timestamps.place(0, 0).offset, 70 * MS - SLEW);
        for _ in 0..2000 {
            timestamps.place(0, 0);
        }
        let last = timestamps.place(0, 0).offset;
        assert!(last > 9 * MS && last <= TOLERANCE, "{last}");
    }

    #[test]
    fn times_catch_up_within_seconds_behind_a_buffer_that_was_late() {
        for late in [200, 2000] {
            let mut timestamps = Timestamps::default();
            timestamps.place(0, late * MS);
            let (mut time, mut caught_up) = (late * MS, None);
            for number in 1..2000 {
                let carried = number * 33 * MS;
                // What was held up comes at once.
                let local = (carried + number % 3 * MS).max(late * MS);
                let placed = timestamps.place(carried, local);
                assert!(placed.jumped.is_none());
                let next = carried + placed.offset;
                assert!(next - time >= 29 * MS, "{} behind the last", next - time);
                time = next;
                if placed.offset < 60 * MS {
                    caught_up.get_or_insert(carried);
                }
                assert!(placed.offset >= number % 3 * MS - TOLERANCE);
            }
            let within = if late == 200 { 5000 } else { 26_000 };
            assert!(caught_up.is_some_and(|at| at < within * MS), "{late}: {caught_up:?}");
        }
    }

    #[test]
    fn buffers_that_come_ahead_of_their_times_keep_these() {
        let mut timestamps = Timestamps::default();
        let mut last = timestamps.place(0, 0).offset;
        for number in 1..200 {
            let placed = timestamps.place(number * 33 * MS, number * MS);
            assert!(placed.jumped.is_none() && last - placed.offset <= SLEW);
            last = placed.offset;
        }
        let placed = (200..400).map(|number| timestamps.place(number * 33 * MS, number * MS));
        assert_eq!(placed.filter(|placed| placed.jumped.is_some()).count(), 1, "ten seconds");
    }

    #[test]
    fn times_do_not_go_back_after_a_pause() {
        let mut timestamps = Timestamps::default();
        timestamps.place(0, 20 * MS);
        // The sender went on for a second while this pipeline stood still; the first buffer came a little sooner.
        let placed = timestamps.place(1000 * MS, 0);
        assert!(placed.jumped.is_some());
        assert_eq!(1000 * MS + placed.offset, 20 * MS + 1);
    }

    #[test]
    fn a_jump_is_followed_at_once_and_told() {
        let mut timestamps = Timestamps::default();
        timestamps.place(0, 0);
        for (carried, local) in [(3_600_000 * MS, 33 * MS), (0, 66 * MS)] {
            let placed = timestamps.place(carried, local);
            assert_eq!(placed.offset, local - carried);
            assert!(placed.jumped.is_some_and(|by| by > Duration::from_secs(3500)));
        }
        let hostile = timestamps.place(i64::MIN, i64::MAX);
        assert!(hostile.jumped.is_some());
    }
}
