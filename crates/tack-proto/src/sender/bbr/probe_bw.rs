//! ProbeBW: most of the time exactly the path's rate, now and then more.
//!
//! The paper counts the cycle in TACK intervals (section VI-D), this controller in
//! probe units: four of them probe at 1.25, four drain at 0.75, the rest cruise; 32
//! in all (16 in the video profile). A probe that found more bandwidth is followed
//! by the next one at once (TACK-6.2-6).

use std::time::{Duration, Instant};

use super::{BbrConfig, drain};
use crate::bandwidth::Bandwidth;

const PROBE_UP: f64 = 1.25;
const PROBE_DOWN: f64 = 0.75;
const UNITS_DOWN: u32 = 4;

/// Probe units after which draining ends even if other traffic keeps the queue full.
const LONGEST_DOWN: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeBwPhase {
    Up,
    Down,
    Cruise,
}

/// Where in the cycle the connection is.
#[derive(Clone, Copy, Debug)]
pub struct ProbeBw {
    phase: ProbeBwPhase,
    since: Instant,
    /// Probe units of a cycle, and of a probe.
    cycle_units: u32,
    up_units: u32,
    probe_up_growth: f64,
    jitter: f64,
    /// What this cycle's cruise is multiplied by.
    bw_probe_wait: f64,
    /// The estimate when the last probe began.
    before: Bandwidth,
    /// When probing or draining ends.
    ends: Instant,
}

impl ProbeBw {
    /// Begins with cruising: Startup has only just probed for more.
    pub fn new(now: Instant, bandwidth: Bandwidth, config: &BbrConfig) -> Self {
        Self {
            phase: ProbeBwPhase::Cruise,
            since: now,
            cycle_units: config.cycle_units,
            up_units: config.probe_up_units,
            probe_up_growth: config.probe_up_growth,
            jitter: config.bw_probe_wait_jitter,
            bw_probe_wait: bw_probe_wait(bandwidth, config.bw_probe_wait_jitter),
            before: Bandwidth::ZERO,
            ends: now,
        }
    }

    /// The gain in force.
    pub fn gain(&self) -> f64 {
        match self.phase {
            ProbeBwPhase::Up => PROBE_UP,
            ProbeBwPhase::Down => PROBE_DOWN,
            ProbeBwPhase::Cruise => 1.0,
        }
    }

    /// Whether less than the path's rate is sent.
    pub fn is_draining(&self) -> bool {
        self.phase == ProbeBwPhase::Down
    }

    /// Moves on when the time of a phase is over. Cruising is counted in units of its own. True if
    /// the gain has changed.
    pub fn on_time(
        &mut self,
        now: Instant,
        (probe_unit, cycle_unit): (Duration, Duration),
        bandwidth: Bandwidth,
    ) -> bool {
        if now < self.until(cycle_unit) {
            return false;
        }
        self.since = now;
        self.phase = match self.phase {
            ProbeBwPhase::Up => {
                self.ends = now + probe_unit * LONGEST_DOWN;
                ProbeBwPhase::Down
            }
            ProbeBwPhase::Down => {
                self.bw_probe_wait = bw_probe_wait(bandwidth, self.jitter);
                ProbeBwPhase::Cruise
            }
            ProbeBwPhase::Cruise => self.probe_up(now, probe_unit, bandwidth),
        };
        true
    }

    fn probe_up(
        &mut self,
        now: Instant,
        probe_unit: Duration,
        bandwidth: Bandwidth,
    ) -> ProbeBwPhase {
        self.before = bandwidth;
        self.ends = now + probe_unit * self.up_units;
        ProbeBwPhase::Up
    }

    /// An acknowledgement says how much is in flight. Draining lasts until the queue is gone:
    /// four units would do for what the probe added, not for what a rate estimated too high has
    /// built up before. What a probe has found shows a round trip later.
    pub fn on_feedback(
        &mut self,
        now: Instant,
        probe_unit: Duration,
        (in_flight, bdp): (u64, u64),
        bandwidth: Bandwidth,
    ) {
        let probed = self.phase != ProbeBwPhase::Up && self.before != Bandwidth::ZERO;
        if probed && bandwidth >= self.before.scaled(self.probe_up_growth) {
            self.since = now;
            self.phase = self.probe_up(now, probe_unit, bandwidth);
        } else if self.phase == ProbeBwPhase::Down {
            self.ends =
                self.ends.min(now + drain::lasts(PROBE_DOWN, in_flight, bdp, bandwidth));
        }
    }

    /// When the phase is over at the earliest.
    pub fn until(&self, cycle_unit: Duration) -> Instant {
        match self.phase {
            ProbeBwPhase::Up | ProbeBwPhase::Down => self.ends,
            ProbeBwPhase::Cruise => {
                let rest = self.cycle_units.saturating_sub(self.up_units + UNITS_DOWN);
                self.since + (cycle_unit * rest.max(1)).mul_f64(self.bw_probe_wait)
            }
        }
    }
}

/// A factor within `jitter` of one. The bytes per second of an estimate are never the same twice,
/// nor for two flows, once scrambled (by the fractional part of the golden ratio): this spares
/// the controller a source of randomness and keeps a run repeatable.
fn bw_probe_wait(bandwidth: Bandwidth, jitter: f64) -> f64 {
    let scrambled = bandwidth.bytes_per_second().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let within_one = scrambled as f64 / u64::MAX as f64;
    1.0 + jitter * (2.0 * within_one - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const UNITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(10));
    const RATE: Bandwidth = Bandwidth::from_bytes_per_second(1_000_000);

    /// A cycle of so many units, four of them for the probe, always as long.
    fn beginning(t0: Instant, cycle_units: u32) -> ProbeBw {
        let config =
            BbrConfig { cycle_units, bw_probe_wait_jitter: 0.0, ..BbrConfig::default() };
        ProbeBw::new(t0, RATE, &config)
    }

    /// Advances by 10 ms, the interval, with so much in flight; the gain after it.
    fn step(probe: &mut ProbeBw, t0: Instant, interval: u32, in_flight: u64) -> f64 {
        let now = t0 + interval * 10 * MS;
        probe.on_feedback(now, UNITS.0, (in_flight, 1000), RATE);
        probe.on_time(now, UNITS, RATE);
        probe.gain()
    }

    #[test]
    fn the_cycle_lasts_its_number_of_tack_intervals() {
        let t0 = crate::test_clock();
        let mut probe = beginning(t0, 32);
        // What four intervals at 0.75 drain: 10 kB of 1 MB/s.
        let gains: Vec<_> = (0..96)
            .map(|interval| {
                let draining = probe.gain() < 1.0;
                step(&mut probe, t0, interval, if draining { 1000 } else { 11_000 })
            })
            .collect();
        let count = |gain: f64| gains.iter().filter(|g| (**g - gain).abs() < 1e-9).count();
        assert_eq!(count(PROBE_UP), 12);
        assert!(count(PROBE_DOWN) <= 6, "{}", count(PROBE_DOWN));
        assert!(count(1.0) >= 72, "{}", count(1.0));
    }

    #[test]
    fn draining_ends_when_the_queue_must_be_gone_and_after_sixteen_intervals_at_the_latest() {
        let t0 = crate::test_clock();
        let mut probe = beginning(t0, 16);
        step(&mut probe, t0, 8, 1000);
        assert!(step(&mut probe, t0, 12, 6000) < 1.0);
        // 5,000 bytes at a quarter of 1 MB/s: 20 ms, without another acknowledgement.
        probe.on_feedback(t0 + 120 * MS, UNITS.0, (6000, 1000), RATE);
        assert!(!probe.on_time(t0 + 139 * MS, UNITS, RATE));
        assert!(probe.on_time(t0 + 140 * MS, UNITS, RATE));
        assert!((probe.gain() - 1.0).abs() < 1e-9);

        let mut probe = beginning(t0, 16);
        step(&mut probe, t0, 8, 1000);
        step(&mut probe, t0, 12, 1_000_000);
        assert!(step(&mut probe, t0, 27, 1_000_000) < 1.0);
        assert!(step(&mut probe, t0, 28, 1_000_000) >= 1.0);
    }

    #[test]
    fn a_probe_that_found_more_bandwidth_is_followed_by_the_next() {
        let t0 = crate::test_clock();
        let mut probe = beginning(t0, 16);
        step(&mut probe, t0, 8, 1000);
        step(&mut probe, t0, 12, 2000);
        let more = RATE.scaled(1.25);
        probe.on_feedback(t0 + 150 * MS, UNITS.0, (1000, 1250), more);
        assert!(probe.gain() > 1.0);
    }

    #[test]
    fn flows_with_other_rates_probe_at_other_times_and_none_too_late() {
        let t0 = crate::test_clock();
        let config = BbrConfig::default();
        let first: Vec<_> = (0..100)
            .map(|i| Bandwidth::from_bytes_per_second(1_000_000 + i))
            .map(|rate| ProbeBw::new(t0, rate, &config).until(10 * MS) - t0)
            .collect();
        assert!(first.iter().all(|at| (160 * MS..=320 * MS).contains(at)), "{first:?}");
        let early = first.iter().filter(|at| **at < 240 * MS).count();
        assert!((35..65).contains(&early), "{early}");
    }
}
