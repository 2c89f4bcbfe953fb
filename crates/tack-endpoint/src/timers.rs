//! One deadline per connection, soonest first.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use crate::handle::Handle;

/// The deadlines of all connections.
#[derive(Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Instant, Handle)>,
    armed: HashMap<Handle, Instant>,
}

impl Timers {
    /// Replaces the deadline of a connection; `None` disarms it.
    pub(crate) fn set(&mut self, handle: Handle, deadline: Option<Instant>) {
        let before = match deadline {
            Some(deadline) => self.armed.insert(handle, deadline),
            None => self.armed.remove(&handle),
        };
        if before == deadline {
            return;
        }
        if let Some(before) = before {
            self.queue.remove(&(before, handle));
        }
        if let Some(deadline) = deadline {
            self.queue.insert((deadline, handle));
        }
    }

    /// The soonest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(deadline, _)| *deadline)
    }

    /// Takes and disarms one deadline that has passed.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Handle> {
        let &(deadline, handle) = self.queue.first()?;
        if deadline > now {
            return None;
        }
        self.set(handle, None);
        Some(handle)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn deadlines_come_due_in_order_and_once() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let (a, b) = (Handle::for_test(1), Handle::for_test(2));
        let mut timers = Timers::default();
        timers.set(a, Some(ms(20)));
        timers.set(b, Some(ms(10)));

        assert_eq!(timers.next(), Some(ms(10)));
        assert_eq!(timers.pop_due(ms(9)), None);
        assert_eq!(timers.pop_due(ms(20)), Some(b));
        assert_eq!(timers.pop_due(ms(20)), Some(a));
        assert_eq!(timers.pop_due(ms(20)), None);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_moved_or_disarmed_deadline_leaves_nothing_behind() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let a = Handle::for_test(1);
        let mut timers = Timers::default();
        for n in (1..100).chain((1..100).rev()) {
            timers.set(a, Some(ms(n)));
        }
        assert_eq!(timers.queue.len(), 1);
        assert_eq!(timers.pop_due(ms(1)), Some(a));

        timers.set(a, Some(ms(5)));
        timers.set(a, None);
        assert_eq!(timers.pop_due(ms(100)), None);
    }
}
