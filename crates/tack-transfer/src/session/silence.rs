//! Notices that a server, which answers a PING each second, is not heard of any more.

use std::time::{Duration, Instant};

/// A connection may be silent for so long.
const LONGEST: Duration = Duration::from_secs(6);

/// A time in which this process did not run counts as so much: the server may have been there.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// How long nothing has come.
#[derive(Debug, Default)]
pub(super) struct Silence {
    packets: usize,
    lasted: Duration,
    looked: Option<Instant>,
}

impl Silence {
    /// So many packets have come in all. Whether none has for too long; to be asked several times a second.
    pub(super) fn is_too_long(&mut self, now: Instant, packets: usize) -> bool {
        let looked = self.looked.replace(now).unwrap_or(now);
        if packets == self.packets {
            self.lasted += now.saturating_duration_since(looked).min(LONGEST_STEP);
        } else {
            (self.packets, self.lasted) = (packets, Duration::ZERO);
        }
        self.lasted > LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_silent_when_nothing_has_come_for_six_seconds_of_this_process() {
        let (start, mut silence) = (Instant::now(), Silence::default());
        let second = |n: u32| start + n * Duration::from_secs(1);
        for n in 0..=6 {
            assert!(!silence.is_too_long(second(n), 5));
        }
        assert!(!silence.is_too_long(second(100), 6), "one has come");
        assert!(!silence.is_too_long(second(200), 6), "the process was stopped");
        assert!((201..206).all(|n| !silence.is_too_long(second(n), 6)));
        assert!(silence.is_too_long(second(206), 6));
    }
}
