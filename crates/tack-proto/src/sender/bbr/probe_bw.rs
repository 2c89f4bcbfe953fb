//! ProbeBW: most of the time exactly the path's rate, now and then more.
//!
//! Section VI-D counts the cycle in TACK intervals: four of them probe at 1.25,
//! four drain at 0.75, the rest cruise; 32 in all (16 in the video profile).
//! A probe that found more is followed by the next one at once.

use std::time::{Duration, Instant};

use crate::bandwidth::Bandwidth;

const PROBE_UP: f64 = 1.25;
const PROBE_DOWN: f64 = 0.75;
const INTERVALS_UP: u32 = 4;
const INTERVALS_DOWN: u32 = 4;

/// Where other traffic keeps the queue full, draining does not last longer.
const LONGEST_DOWN: u32 = 16;

/// A probe that raised the estimate by this has found room, not noise: all of it would be 1.25.
const FOUND_MORE: f64 = 1.15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Up,
    Down,
    Cruise,
}

/// Where in the cycle the connection is.
#[derive(Clone, Copy, Debug)]
pub struct ProbeBw {
    phase: Phase,
    since: Instant,
    /// TACK intervals of a cycle.
    intervals: u32,
    /// The estimate when the last probe began.
    before: Bandwidth,
    /// When it ends.
    up_until: Instant,
}

impl ProbeBw {
    /// Begins with cruising: Startup has only just probed for more.
    pub fn new(now: Instant, intervals: u32) -> Self {
        Self {
            phase: Phase::Cruise,
            since: now,
            intervals,
            before: Bandwidth::ZERO,
            up_until: now,
        }
    }

    /// The gain in force.
    pub fn gain(&self) -> f64 {
        match self.phase {
            Phase::Up => PROBE_UP,
            Phase::Down => PROBE_DOWN,
            Phase::Cruise => 1.0,
        }
    }

    /// Ends a probe whose time is over although no acknowledgement says so: what is sent beyond
    /// it only queues. True if it did.
    pub fn end_overdue(&mut self, now: Instant) -> bool {
        let overdue = self.phase == Phase::Up && now >= self.up_until;
        if overdue {
            self.phase = Phase::Down;
            self.since = now;
        }
        overdue
    }

    /// Moves on when a phase has lasted its number of TACK intervals; cruising is counted in
    /// intervals of its own.
    pub fn advance(
        &mut self,
        now: Instant,
        (interval, cycle_interval): (Duration, Duration),
        in_flight: u64,
        bdp: u64,
        bandwidth: Bandwidth,
    ) {
        let elapsed = now.saturating_duration_since(self.since);
        let next = match self.phase {
            Phase::Up if now >= self.up_until => Phase::Down,
            // Until the queue is gone: after four intervals what the probe added
            // is, not what a rate estimated too high has built up before.
            Phase::Down if elapsed >= interval * LONGEST_DOWN || in_flight <= bdp => {
                // The round trip of draining has brought what the probe found.
                if bandwidth >= self.before.scaled(FOUND_MORE) {
                    Phase::Up
                } else {
                    Phase::Cruise
                }
            }
            Phase::Cruise
                if elapsed
                    >= cycle_interval
                        * self
                            .intervals
                            .saturating_sub(INTERVALS_UP + INTERVALS_DOWN)
                            .max(1) =>
            {
                Phase::Up
            }
            _ => return,
        };
        if next == Phase::Up {
            self.before = bandwidth;
            self.up_until = now + interval * INTERVALS_UP;
        }
        self.phase = next;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const INTERVALS: (Duration, Duration) =
        (Duration::from_millis(10), Duration::from_millis(10));
    const RATE: Bandwidth = Bandwidth::from_bytes_per_second(1_000_000);

    #[test]
    fn the_cycle_lasts_its_number_of_tack_intervals() {
        let t0 = crate::test_clock();
        let mut probe = ProbeBw::new(t0, 32);
        let mut gains = Vec::new();
        for interval in 0..96_u32 {
            // Four intervals of draining, as the probe needs.
            let since_up = interval % 32;
            let in_flight = if since_up == 0 { 1000 } else { 2000 };
            probe.advance(t0 + interval * 10 * MS, INTERVALS, in_flight, 1000, RATE);
            gains.push(probe.gain());
        }
        let count = |gain: f64| gains.iter().filter(|g| (**g - gain).abs() < 1e-9).count();
        assert_eq!((count(PROBE_UP), count(PROBE_DOWN), count(1.0)), (12, 12, 72));
    }

    #[test]
    fn draining_ends_when_the_queue_is_gone() {
        let t0 = crate::test_clock();
        let mut probe = ProbeBw::new(t0, 16);
        probe.advance(t0 + 80 * MS, INTERVALS, 2000, 1000, RATE);
        probe.advance(t0 + 120 * MS, INTERVALS, 2000, 1000, RATE);
        assert!(probe.gain() < 1.0);
        probe.advance(t0 + 121 * MS, INTERVALS, 1000, 1000, RATE);
        assert!((probe.gain() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_probe_that_found_more_is_followed_by_the_next() {
        let t0 = crate::test_clock();
        let mut probe = ProbeBw::new(t0, 16);
        probe.advance(t0 + 80 * MS, INTERVALS, 1000, 1000, RATE);
        probe.advance(t0 + 120 * MS, INTERVALS, 2000, 1000, RATE);
        probe.advance(t0 + 150 * MS, INTERVALS, 1000, 1250, RATE.scaled(1.25));
        assert!(probe.gain() > 1.0);
    }
}
