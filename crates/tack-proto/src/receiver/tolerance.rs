//! How long a hole in the packet numbers may be reordering before it is
//! reported as a loss.
//!
//! The paper waits RTTmin/4 and leaves it to further work to adjust that
//! (TACK-4.3-2) by whether retransmissions were unnecessary (section VIII). The
//! receiver sees them by itself: a QUIC packet that is sent again has a new
//! number, so what fills a hole that was reported is the original, late.

use std::time::{Duration, Instant};

use crate::loss_detection::{MAX_PACKET_THRESHOLD, PACKET_THRESHOLD};

/// Settling times that a hole is given at most: two round trips, as alpha is RTTmin / 2 unless
/// the sender was set otherwise.
const MOST_TIMES: u32 = 4;

/// Such times without reordering after which half of what was added is taken back.
const HALF_LIFE: u32 = 16;

/// Newer packets and time after which a hole is a loss.
#[derive(Debug, Default)]
pub struct Tolerance {
    /// alpha.
    least_time: Duration,
    /// What reordering has shown to be needed, above the least.
    packets: u64,
    time: Duration,
    last_needed: Option<Instant>,
}

impl Tolerance {
    /// Sets the settling time of a path without reordering: alpha.
    pub fn set_least_time(&mut self, time: Duration) {
        self.least_time = time;
    }

    /// Newer packets that make a hole a loss.
    pub fn packets(&self) -> u64 {
        self.packets.max(PACKET_THRESHOLD)
    }

    /// The age that makes a hole a loss.
    pub fn time(&self) -> Duration {
        self.time.clamp(self.least_time, self.least_time * MOST_TIMES)
    }

    /// A packet came late, after `newer` higher numbers and `age` after the
    /// first of them; `reported` if its loss had been.
    pub fn on_late(&mut self, now: Instant, newer: u64, age: Duration, reported: bool) {
        if newer >= PACKET_THRESHOLD || age >= self.least_time {
            self.last_needed = Some(now);
        }
        if reported {
            self.packets = self.packets.max(newer.saturating_add(1).min(MAX_PACKET_THRESHOLD));
            // A quarter more, as a clock and not a count decides.
            self.time = self.time.max(age + age / 4).min(self.least_time * MOST_TIMES);
        }
    }

    /// Takes back what has not been needed for a while.
    pub fn decay(&mut self, now: Instant) {
        let Some(last) = self.last_needed else { return };
        let half_life = self.least_time * MOST_TIMES * HALF_LIFE;
        if half_life.is_zero() || now.saturating_duration_since(last) < half_life {
            return;
        }
        self.last_needed = Some(last + half_life);
        let halve_packets = self.packets.saturating_sub(PACKET_THRESHOLD) / 2;
        let halve_time = self.time.saturating_sub(self.least_time) / 2;
        self.packets = PACKET_THRESHOLD + halve_packets;
        self.time = self.least_time + halve_time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn path() -> (Tolerance, Instant) {
        let mut tolerance = Tolerance::default();
        tolerance.set_least_time(10 * MS);
        (tolerance, crate::test_clock())
    }

    #[test]
    fn without_reordering_three_packets_or_alpha_make_a_loss() {
        let (tolerance, _) = path();
        assert_eq!((tolerance.packets(), tolerance.time()), (3, 10 * MS));
    }

    #[test]
    fn a_loss_that_was_none_raises_both_above_what_it_took() {
        let (mut tolerance, now) = path();
        tolerance.on_late(now, 7, 16 * MS, true);
        assert_eq!((tolerance.packets(), tolerance.time()), (8, 20 * MS));
        tolerance.on_late(now, 5, 4 * MS, true);
        assert_eq!((tolerance.packets(), tolerance.time()), (8, 20 * MS));
    }

    #[test]
    fn neither_exceeds_what_the_sender_waits_for() {
        let (mut tolerance, now) = path();
        tolerance.on_late(now, u64::MAX, 1000 * MS, true);
        assert_eq!((tolerance.packets(), tolerance.time()), (20, 40 * MS));
        tolerance.set_least_time(5 * MS);
        assert_eq!(tolerance.time(), 20 * MS);
    }

    #[test]
    fn reordering_that_was_waited_for_raises_nothing() {
        let (mut tolerance, now) = path();
        tolerance.on_late(now, 2, 9 * MS, false);
        assert_eq!((tolerance.packets(), tolerance.time()), (3, 10 * MS));
    }

    #[test]
    fn what_is_not_needed_any_more_is_taken_back_by_halves() {
        let (mut tolerance, now) = path();
        tolerance.on_late(now, 10, 24 * MS, true);
        assert_eq!((tolerance.packets(), tolerance.time()), (11, 30 * MS));
        tolerance.decay(now + 639 * MS);
        assert_eq!(tolerance.packets(), 11, "640 ms");
        // Needed again, and waited for.
        tolerance.on_late(now + 600 * MS, 5, MS, false);
        tolerance.decay(now + 1239 * MS);
        assert_eq!(tolerance.packets(), 11);
        tolerance.decay(now + 1240 * MS);
        assert_eq!((tolerance.packets(), tolerance.time()), (7, 20 * MS));
        tolerance.decay(now + 1300 * MS);
        assert_eq!(tolerance.packets(), 7);
        for _ in 0..4 {
            tolerance.decay(now + 60_000 * MS);
        }
        assert_eq!(tolerance.packets(), 3);
    }
}
