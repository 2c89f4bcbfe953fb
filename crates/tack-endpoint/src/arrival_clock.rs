//! When datagrams came, by the kernel's timestamps.
//!
//! Those are of the system's clock, which may be set or corrected at any time. So they only tell how long
//! ago a datagram came, within what is known anyway: it came since the socket was last found empty.

use std::time::{Duration, Instant};

/// What the system's clock may gain or lose between two reads. One that is corrected by adjtime runs
/// by half a thousandth too fast or too slow.
const MOST_DRIFT: Duration = Duration::from_millis(1);

/// A reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) now: Instant,
    /// The system's clock, since its epoch.
    pub(crate) system: Duration,
}

impl Reading {
    /// Both clocks, where one of them has just shown `now`.
    pub(crate) fn take(now: Instant) -> Self {
        let system = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self { now, system }
    }
}

/// Turns timestamps into times.
#[derive(Debug)]
pub(crate) struct ArrivalClock {
    last: Reading,
    /// The system's clock was set between the last two readings.
    is_set: bool,
    /// All that is in the socket came later.
    empty_at: Instant,
    /// The socket was found empty by a call that began then, which bounds what comes with the next.
    found_empty: Option<Instant>,
}

impl ArrivalClock {
    /// A clock for a socket that is empty.
    pub(crate) fn new(reading: Reading) -> Self {
        Self { last: reading, is_set: false, empty_at: reading.now, found_empty: None }
    }

    /// A call that began at `asked` has received a batch, which has emptied the socket or not. The process may
    /// have had to wait since: what came meanwhile is in the socket.
    pub(crate) fn on_batch(&mut self, asked: Instant, reading: Reading, is_empty: bool) {
        if let Some(at) = self.found_empty {
            self.empty_at = at;
        }
        let by_system = reading.system.abs_diff(self.last.system);
        let passed = reading.now.saturating_duration_since(self.last.now);
        let went_back = reading.system < self.last.system;
        self.is_set = went_back || by_system.abs_diff(passed) > MOST_DRIFT;
        self.last = reading;
        self.found_empty = is_empty.then_some(asked);
    }

    /// When a datagram of that batch came.
    pub(crate) fn arrival(&self, timestamp: Option<Duration>) -> Instant {
        let now = self.last.now;
        let Some(timestamp) = timestamp.filter(|_| !self.is_set) else { return now };
        let age = self.last.system.saturating_sub(timestamp);
        now.checked_sub(age).map_or(self.empty_at, |at| at.max(self.empty_at))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const EPOCH: Duration = Duration::from_secs(1_700_000_000);

    /// How long a call takes.
    const CALL: Duration = Duration::from_millis(2);

    struct Test {
        t0: Instant,
        clock: ArrivalClock,
    }

    impl Test {
        fn new() -> Self {
            let t0 = Instant::now();
            Self { t0, clock: ArrivalClock::new(Reading { now: t0, system: EPOCH }) }
        }

        /// A batch after so many ms, with the system's clock that far.
        fn batch(&mut self, ms: u32, system_ms: u32, is_empty: bool) {
            let asked = self.t0 + (MS * ms).saturating_sub(CALL);
            let reading = Reading { now: asked + CALL, system: EPOCH + MS * system_ms };
            self.clock.on_batch(asked, reading, is_empty);
        }

        /// In ms, the arrival by a timestamp of so many ms.
        fn arrival(&self, ms: u32) -> u128 {
            (self.clock.arrival(Some(EPOCH + MS * ms)) - self.t0).as_millis()
        }
    }

    #[test]
    fn a_datagram_came_before_it_was_read() {
        let mut test = Test::new();
        test.batch(20, 20, true);
        assert_eq!((test.arrival(15), test.arrival(20)), (15, 20));
        assert_eq!(test.arrival(25), 20, "not after now");
        assert_eq!(test.clock.arrival(None), test.t0 + 20 * MS);
    }

    #[test]
    fn a_datagram_came_since_the_socket_was_empty() {
        let mut test = Test::new();
        test.batch(20, 20, false);
        test.batch(30, 30, true);
        assert_eq!(test.arrival(5), 5, "it waited for a second call");
        test.batch(40, 40, true);
        assert_eq!(test.arrival(5), 28, "it may have come while the last call ended");
    }

    #[test]
    fn a_clock_that_is_set_tells_nothing_until_the_next_batch() {
        for set_to in [3_600_000, 0] {
            let mut test = Test::new();
            test.batch(20, 20, true);
            test.batch(40, set_to, true);
            assert_eq!(test.arrival(35), 40, "{set_to}");
            test.batch(50, set_to + 10, true);
            assert_eq!(test.arrival(set_to + 5), 45, "{set_to}");
        }
    }
}
