//! ProbeBW's cycle: most of the time exactly the path's rate, now and then more.
//!
//! The paper counts the cycle in TACK intervals (section VI-D), this controller in
//! probe units: four of them probe at 1.25, four drain at 0.75, the rest cruise and refill; 32
//! in all (16 in the video profile). A probe that found more bandwidth is followed
//! by the next one at once (TACK-6.2-6).

use std::time::{Duration, Instant};

use super::state::ProbeBwPhase;
use super::{BbrConfig, Deviation, drain};
use crate::bandwidth::Bandwidth;

pub(super) const PROBE_UP: f64 = 1.25;
const PROBE_DOWN: f64 = 0.75;

/// TACK-6.2-18: where a probe lost too much and others queue nothing, the next ones go no higher. They find the end of the
/// buffer again, and what a probe sends beyond it until that shows is lost.
const GENTLE_UP: f64 = 1.05;
/// So many of them: they last up to 48 s, at one in 3 s (TACK-6.2-6), and a few where round trips are short.
const GENTLE_ONES: u32 = 16;

/// TACK-6.2-13: a probe behind one that found more goes higher by [`PROBE_UP`] again, up to this: a path that has
/// become ten times as fast is found in five probes, and the queue of the last is what may be in
/// flight at the most.
const MOST_UP: f64 = 2.0;

/// The same where a probe lasts half a second or more: for so long a sender is not to send at twice
/// the rate of its path, if that has no more after all.
const MOST_UP_FOR_LONG: f64 = 1.3;
const LONG: Duration = Duration::from_millis(500);
/// Of a series that has lasted for [`LONGEST_UP`], one that lasts so long goes no higher either: what it finds shows too late.
const LONG_IN_SERIES: Duration = Duration::from_millis(125);
/// No probe lasts longer, for the same reason.
const LONGEST_UP: Duration = Duration::from_millis(700);

/// Part of the growth that counts behind a probe as long as a sample: where the path jitters, samples differ.
const GROWTH_OF_LONG: f64 = 0.4;
/// Probes of the usual length behind such a one that has found nothing: its queue is to be an exception.
const SHORT_ONES: u32 = 3;

/// Probe units of a round trip, which Refill takes and the cycle counts for Down.
const UNITS_OF_ROUND_TRIP: u32 = 4;

/// Probe units after which draining ends even if other traffic keeps the queue full: four round trips.
const LONGEST_DOWN: u32 = 4 * UNITS_OF_ROUND_TRIP;

/// Probe units that draining lasts at least where packets get lost.
const UNITS_OF_LOOK: u32 = 3;

/// Where congestion has been, time scales of the draft (PickProbeWait, IsRenoCoexistenceProbeTime):
/// a CUBIC flow needs that long to grow back to its share.
const WAIT_AFTER_CONGESTION: Duration = Duration::from_secs(2);
const WAIT_AFTER_CONGESTION_JITTER: Duration = Duration::from_secs(1);

/// The units of a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    /// What probing and draining are counted in.
    pub probe: Duration,
    /// What cruising is counted in.
    pub cycle: Duration,
    /// After congestion cruising lasts this long, or as long as the draft says if that is shorter.
    pub congested: Option<Duration>,
}

/// When the phases of a cycle end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    config: BbrConfig,
    since: Instant,
    /// Packets have queued for all of the last round trip.
    pub is_contested: bool,
    /// Growth of the estimate by which the probe now or last has found more.
    growth: f64,
    /// This cycle's random number, from -1 to 1.
    bw_probe_wait: f64,
    random: u64,
    /// The pacing gain of the probe now or next.
    up: f64,
    /// The estimate when the last probe began.
    before: Bandwidth,
    /// When the last probe began, and the series of those that have each found more.
    up_began: Instant,
    series_began: Instant,
    /// It lasts as long as a sample spans (TACK-6.2-15).
    is_long: bool,
    /// Probes of the usual length until the next such one.
    short_ones: u32,
    /// Probes to come that go no higher than [`GENTLE_UP`].
    gentle_ones: u32,
    /// The estimate when the last probe began, if that was such a one.
    before_gentle: Option<Bandwidth>,
    /// When probing, draining or filling ends.
    ends: Instant,
    /// Draining lasts until then, and what it loses counts from then on.
    looks: Option<(Instant, Instant)>,
}

impl Cycle {
    /// The times of a connection; `random` are bits that other flows do not share.
    pub fn new(config: &BbrConfig, now: Instant, random: u64) -> Self {
        Self {
            config: *config,
            since: now,
            is_contested: false,
            growth: config.probe_up_growth,
            bw_probe_wait: 0.0,
            random,
            up: PROBE_UP,
            before: Bandwidth::ZERO,
            up_began: now,
            series_began: now,
            is_long: false,
            short_ones: 0,
            gentle_ones: 0,
            before_gentle: None,
            ends: now,
            looks: None,
        }
    }

    /// The pacing gain.
    pub fn gain(&self, phase: ProbeBwPhase) -> f64 {
        match phase {
            ProbeBwPhase::Up => self.up,
            ProbeBwPhase::Down => PROBE_DOWN,
            ProbeBwPhase::Cruise | ProbeBwPhase::Refill => 1.0,
        }
    }

    /// Whether the probe now or next follows one that has found more.
    pub fn is_accelerated(&self) -> bool {
        self.up > PROBE_UP
    }

    /// The last probe has found more: the next one goes higher.
    pub fn accelerate(&mut self) {
        self.up = (self.up * PROBE_UP).min(MOST_UP);
    }

    /// A probe has lost too much.
    pub fn on_too_high(&mut self) {
        self.gentle_ones = GENTLE_ONES;
    }

    /// A phase begins, with that estimate. `sample` is what a rate sample spans, where the path jitters so much that
    /// only a probe of this length shows.
    pub fn on_enter(
        &mut self,
        now: Instant,
        phase: ProbeBwPhase,
        (probe_unit, sample): (Duration, Option<Duration>),
        bandwidth: Bandwidth,
    ) {
        match phase {
            ProbeBwPhase::Cruise => {
                self.since = now;
                self.up = PROBE_UP;
                if std::mem::take(&mut self.is_long) {
                    self.short_ones = SHORT_ONES;
                }
                self.bw_probe_wait = self.draw();
            }
            ProbeBwPhase::Refill => self.ends = now + probe_unit * UNITS_OF_ROUND_TRIP,
            ProbeBwPhase::Up => self.begin(now, probe_unit, sample, bandwidth),
            ProbeBwPhase::Down => {
                self.ends = now + probe_unit * LONGEST_DOWN;
                self.looks = None;
            }
        }
    }

    /// A probe begins.
    fn begin(
        &mut self,
        now: Instant,
        probe_unit: Duration,
        sample: Option<Duration>,
        bandwidth: Bandwidth,
    ) {
        self.before = bandwidth;
        self.up_began = now;
        let units = probe_unit * self.config.probe_up_units;
        let jitters = sample.is_some();
        let sample = sample.filter(|_| self.is_accelerated() || self.short_ones == 0);
        self.is_long = sample.is_some();
        self.short_ones = self.short_ones.saturating_sub(1);
        // One that repeats a gentle one (TACK-6.5-4) is as gentle, although what that has sent may queue.
        let before = self.before_gentle.take();
        if self.is_gentle() {
            self.up = GENTLE_UP;
            // A sample spans more than the probe, and shows a part of the little that it adds: two of them count together.
            self.before = before.map_or(bandwidth, |before| before.min(bandwidth));
            self.before_gentle = Some(bandwidth);
        }
        self.gentle_ones = self.gentle_ones.saturating_sub(1);
        let whole = sample.map_or(units, |sample| units.max(sample));
        if !self.is_accelerated() {
            self.series_began = now;
        }
        let lasts_long = now.saturating_duration_since(self.series_began) >= LONGEST_UP;
        if whole >= LONG || whole >= LONG_IN_SERIES && lasts_long {
            self.up = self.up.min(MOST_UP_FOR_LONG);
        }
        // The first of a series only asks whether there is more. Where others' packets queue, it
        // also has to hold this flow's share.
        let asks = self.up <= PROBE_UP
            && !self.is_contested
            && !self.is_long
            && self.config.deviations.has(Deviation::FirstProbe);
        let lasts =
            if asks { whole.min(self.config.first_probe.max(probe_unit)) } else { whole };
        let lasts = lasts.min(LONGEST_UP);
        self.ends = now + lasts;
        let share = if self.is_long {
            GROWTH_OF_LONG
        } else {
            lasts.as_secs_f64() / whole.as_secs_f64()
        };
        // Samples differ by more than a gentle one adds where delay jitters.
        let height = if jitters { 1.0 } else { (self.up - 1.0) / (PROBE_UP - 1.0) };
        self.growth = 1.0 + (self.config.probe_up_growth - 1.0) * share * height.min(1.0);
    }

    /// Whether the probe now goes up to [`GENTLE_UP`].
    fn is_gentle(&self) -> bool {
        self.config.deviations.has(Deviation::GentleProbes)
            && self.gentle_ones > 0
            && !self.is_accelerated()
            && !self.is_contested
            && !self.is_long
    }

    /// Nothing is known of a probe before.
    pub fn forget_probe(&mut self) {
        self.before = Bandwidth::ZERO;
    }

    /// Whether the last probe has raised the estimate by so much that there is more to be found. It
    /// shows a round trip later.
    pub fn has_found_more(&self, phase: ProbeBwPhase, bandwidth: Bandwidth) -> bool {
        matches!(phase, ProbeBwPhase::Down | ProbeBwPhase::Cruise)
            && self.before != Bandwidth::ZERO
            && bandwidth >= self.before.scaled(self.growth)
    }

    /// An acknowledgement says how much is in flight. Draining lasts until the queue is gone:
    /// four units would do for what the probe added, not for what a rate estimated too high has
    /// built up before.
    pub fn on_draining(
        &mut self,
        now: Instant,
        (in_flight, left): (u64, u64),
        bandwidth: Bandwidth,
    ) {
        self.ends = self.ends.min(now + drain::lasts(PROBE_DOWN, in_flight, left, bandwidth));
        if let Some((until, _)) = self.looks {
            self.ends = self.ends.max(until);
        }
    }

    /// Draining is to show what the path loses of less than it carries: of what leaves a unit after it has begun, when
    /// what was sent before is not in its way any more.
    pub fn looks_for_losses(&mut self, now: Instant, probe_unit: Duration) {
        self.looks = Some((now + probe_unit * UNITS_OF_LOOK, now + probe_unit));
    }

    /// Whether what leaves now shows that.
    pub fn has_slowed_down(&self, now: Instant) -> bool {
        self.looks.is_some_and(|(_, from)| now >= from)
    }

    /// A probe goes on for another round trip.
    pub fn go_on(&mut self, now: Instant, probe_unit: Duration) {
        if now.saturating_duration_since(self.up_began) >= LONG {
            self.up = self.up.min(MOST_UP_FOR_LONG);
        }
        self.ends = now + probe_unit * UNITS_OF_ROUND_TRIP;
    }

    /// When the phase is over at the earliest.
    pub fn until(&self, phase: ProbeBwPhase, units: &Units) -> Instant {
        match phase {
            ProbeBwPhase::Refill | ProbeBwPhase::Up | ProbeBwPhase::Down => self.ends,
            ProbeBwPhase::Cruise => self.since + self.cruise(units),
        }
    }

    fn cruise(&self, units: &Units) -> Duration {
        let usual = self.usual_cruise(units);
        let Some(round_trips) = units.congested else { return usual };
        let jitter =
            WAIT_AFTER_CONGESTION_JITTER.mul_f64(f64::midpoint(1.0, self.bw_probe_wait));
        // A path of few packets has grown back sooner than it is probed where nothing is lost.
        round_trips.max(usual).min(WAIT_AFTER_CONGESTION + jitter)
    }

    /// The same where nothing is lost.
    fn usual_cruise(&self, units: &Units) -> Duration {
        let rest = self
            .config
            .cycle_units
            .saturating_sub(self.config.probe_up_units + UNITS_OF_ROUND_TRIP)
            .max(1);
        let cruise = (units.cycle * rest)
            .mul_f64(1.0 + self.config.bw_probe_wait_jitter * self.bw_probe_wait);
        cruise.saturating_sub(units.probe * UNITS_OF_ROUND_TRIP)
    }

    /// The phase that follows when the time of one is over.
    pub fn next(phase: ProbeBwPhase) -> ProbeBwPhase {
        match phase {
            ProbeBwPhase::Down => ProbeBwPhase::Cruise,
            ProbeBwPhase::Cruise => ProbeBwPhase::Refill,
            ProbeBwPhase::Refill => ProbeBwPhase::Up,
            ProbeBwPhase::Up => ProbeBwPhase::Down,
        }
    }

    /// A number from -1 to 1. Steps by the fractional part of the golden ratio are spread evenly, and
    /// where they begin is random.
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        2.0 * (self.random as f64 / u64::MAX as f64) - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProbeBwPhase::{Cruise, Down, Refill, Up};

    const MS: Duration = Duration::from_millis(1);
    const UNITS: Units = Units {
        probe: Duration::from_millis(10),
        cycle: Duration::from_millis(10),
        congested: None,
    };
    const RATE: Bandwidth = Bandwidth::from_bytes_per_second(1_000_000);

    /// How long each phase of a cycle lasts, from cruising on; nothing queues.
    fn lengths(config: &BbrConfig, units: &Units) -> Vec<Duration> {
        let mut now = crate::test_clock();
        let mut cycle = Cycle::new(config, now, 7);
        let mut phase = Cruise;
        cycle.on_enter(now, phase, (units.probe, None), RATE);
        let mut lengths = Vec::new();
        while phase != Down {
            let until = cycle.until(phase, units);
            lengths.push(until - now);
            now = until;
            phase = Cycle::next(phase);
            cycle.on_enter(now, phase, (units.probe, None), RATE);
        }
        lengths
    }

    #[test]
    fn the_cycle_lasts_its_number_of_probe_units() {
        let config = BbrConfig { bw_probe_wait_jitter: 0.0, ..BbrConfig::DEFAULT };
        assert_eq!(lengths(&config, &UNITS), [200 * MS, 40 * MS, 40 * MS]);
    }

    #[test]
    fn after_congestion_it_waits_for_others_to_grow() {
        let congested = Units { congested: Some(Duration::from_secs(60)), ..UNITS };
        let cruise = lengths(&BbrConfig::DEFAULT, &congested)[0];
        assert!((2000 * MS..=3000 * MS).contains(&cruise), "{cruise:?}");
        let short = Units { congested: Some(500 * MS), ..UNITS };
        assert_eq!(lengths(&BbrConfig::DEFAULT, &short)[0], 500 * MS);
    }

    #[test]
    fn after_congestion_a_short_path_is_probed_no_sooner_than_where_nothing_is_lost() {
        let config = BbrConfig { bw_probe_wait_jitter: 0.0, ..BbrConfig::DEFAULT };
        let short = Units { congested: Some(4 * MS), ..UNITS };
        assert_eq!(lengths(&config, &short), lengths(&config, &UNITS), "TACK-6.2-6");
    }

    #[test]
    fn draining_ends_when_the_queue_must_be_gone_and_after_sixteen_units_at_the_latest() {
        let t0 = crate::test_clock();
        let mut cycle = Cycle::new(&BbrConfig::DEFAULT, t0, 7);
        cycle.on_enter(t0, Down, (UNITS.probe, None), RATE);
        assert_eq!(cycle.until(Down, &UNITS), t0 + 160 * MS);
        // 5,000 bytes at a quarter of 1 MB/s: 20 ms, without another acknowledgement.
        cycle.on_draining(t0, (6000, 1000), RATE);
        assert_eq!(cycle.until(Down, &UNITS), t0 + 20 * MS);
    }

    #[test]
    fn a_probe_that_found_more_shows_when_it_is_over() {
        let t0 = crate::test_clock();
        let mut cycle = Cycle::new(&BbrConfig::DEFAULT, t0, 7);
        assert!(!cycle.has_found_more(Cruise, RATE.scaled(2.0)), "there was none");
        cycle.on_enter(t0, Up, (UNITS.probe, None), RATE);
        assert!(!cycle.has_found_more(Up, RATE.scaled(1.25)));
        assert!(cycle.has_found_more(Down, RATE.scaled(1.25)));
        assert!(!cycle.has_found_more(Down, RATE.scaled(1.1)));
        assert_eq!(Cycle::next(Refill), Up);
    }

    /// How long the next probe lasts where samples span 300 ms.
    fn next_probe(cycle: &mut Cycle, now: Instant) -> Duration {
        cycle.on_enter(now, Up, (UNITS.probe, Some(300 * MS)), RATE);
        cycle.until(Up, &UNITS) - now
    }

    // TACK-6.2-15
    #[test]
    fn on_a_path_that_jitters_one_probe_in_four_lasts_a_sample_until_one_finds_more() {
        let now = crate::test_clock();
        let mut cycle = Cycle::new(&BbrConfig::DEFAULT, now, 7);
        let lasts: Vec<_> = (0..6)
            .map(|_| {
                let lasts = next_probe(&mut cycle, now);
                cycle.on_enter(now, Down, (UNITS.probe, None), RATE);
                cycle.on_enter(now, Cruise, (UNITS.probe, None), RATE);
                lasts
            })
            .collect();
        assert_eq!(lasts, [300 * MS, 40 * MS, 40 * MS, 40 * MS, 300 * MS, 40 * MS]);
        assert_eq!([(); 3].map(|()| next_probe(&mut cycle, now)), [40 * MS, 40 * MS, 300 * MS]);
        cycle.on_enter(now, Down, (UNITS.probe, None), RATE);
        assert!(cycle.has_found_more(Down, RATE.scaled(1.07)), "0.4 of 15 %");
        cycle.accelerate();
        assert_eq!(next_probe(&mut cycle, now), 300 * MS);
    }

    fn is(gain: f64, expected: f64) -> bool {
        (gain - expected).abs() < 1e-9
    }

    // TACK-6.2-18
    #[test]
    fn gentle_probes_find_what_two_of_them_have_shown_together() {
        let now = crate::test_clock();
        let probe = |cycle: &mut Cycle, rate: Bandwidth| {
            cycle.on_enter(now, Cruise, (UNITS.probe, None), rate);
            cycle.on_enter(now, Up, (UNITS.probe, None), rate);
            cycle.on_enter(now, Down, (UNITS.probe, None), rate);
        };
        let mut cycle = Cycle::new(&BbrConfig::DEFAULT, now, 7);
        cycle.on_too_high();
        probe(&mut cycle, RATE);
        assert!(!cycle.has_found_more(Down, RATE.scaled(1.02)));
        probe(&mut cycle, RATE.scaled(1.02));
        assert!(cycle.has_found_more(Down, RATE.scaled(1.04)));
        probe(&mut cycle, RATE.scaled(1.02));
        assert!(!cycle.has_found_more(Down, RATE.scaled(1.04)), "no more than two");
        probe(&mut cycle, RATE.scaled(0.98));
        assert!(
            cycle.has_found_more(Down, RATE.scaled(1.02)),
            "what was lost before counts not"
        );
    }

    // TACK-6.2-18
    #[test]
    fn behind_a_probe_that_lost_too_much_sixteen_go_up_a_twentieth_and_look_for_a_fifth_of_the_growth()
     {
        let now = crate::test_clock();
        let mut cycle = Cycle::new(&BbrConfig::DEFAULT, now, 7);
        let gain = |cycle: &mut Cycle| {
            cycle.on_enter(now, Cruise, (UNITS.probe, None), RATE);
            cycle.on_enter(now, Up, (UNITS.probe, None), RATE);
            cycle.gain(Up)
        };
        assert!(is(gain(&mut cycle), PROBE_UP));
        cycle.on_too_high();
        for _ in 0..16 {
            assert!(is(gain(&mut cycle), 1.05));
        }
        assert!(!cycle.has_found_more(Down, RATE.scaled(1.02)));
        assert!(cycle.has_found_more(Down, RATE.scaled(1.04)), "a fifth of 15 %");
        assert!(is(gain(&mut cycle), PROBE_UP), "the seventeenth");
        assert!(!cycle.has_found_more(Down, RATE.scaled(1.04)));
    }

    #[test]
    fn a_probe_is_as_high_as_ever_behind_one_that_found_more_in_a_queue_of_others_and_where_it_is_long()
     {
        let now = crate::test_clock();
        let gentle = || {
            let mut cycle = Cycle::new(&BbrConfig::DEFAULT, now, 7);
            cycle.on_too_high();
            cycle
        };
        let mut contested = gentle();
        contested.is_contested = true;
        contested.on_enter(now, Up, (UNITS.probe, None), RATE);
        assert!(is(contested.gain(Up), PROBE_UP), "TACK-6.2-18");
        let mut jitters = gentle();
        jitters.on_enter(now, Up, (UNITS.probe, Some(300 * MS)), RATE);
        assert!(is(jitters.gain(Up), PROBE_UP), "TACK-6.2-15");
        jitters.on_enter(now, Cruise, (UNITS.probe, None), RATE);
        jitters.on_enter(now, Up, (UNITS.probe, Some(300 * MS)), RATE);
        assert!(is(jitters.gain(Up), GENTLE_UP), "which is not to show anything");
        assert!(!jitters.has_found_more(Down, RATE.scaled(1.1)));
        let mut found_more = gentle();
        found_more.on_enter(now, Up, (UNITS.probe, None), RATE);
        found_more.accelerate();
        found_more.on_enter(now, Up, (UNITS.probe, None), RATE);
        assert!(found_more.gain(Up) > PROBE_UP, "TACK-6.2-13");
    }

    #[test]
    fn a_probe_that_repeats_a_gentle_one_is_as_gentle() {
        let now = crate::test_clock();
        let mut cycle = Cycle::new(&BbrConfig::DEFAULT, now, 7);
        cycle.on_too_high();
        cycle.on_enter(now, Up, (UNITS.probe, None), RATE);
        cycle.is_contested = true;
        cycle.on_enter(now, Up, (UNITS.probe, None), RATE);
        assert!(is(cycle.gain(Up), GENTLE_UP), "TACK-6.2-18: what queues is its own");
    }

    #[test]
    fn nothing_is_sent_much_faster_than_the_estimate_for_long() {
        let t0 = crate::test_clock();
        let mut cycle = Cycle::new(&BbrConfig::DEFAULT, t0, 7);
        cycle.accelerate();
        cycle.on_enter(t0, Up, (400 * MS, None), RATE);
        assert_eq!(cycle.until(Up, &UNITS) - t0, LONGEST_UP);
        (0..4).for_each(|_| cycle.accelerate());
        cycle.on_enter(t0, Up, (20 * MS, None), RATE);
        assert!(cycle.gain(Up) > MOST_UP_FOR_LONG);
        cycle.go_on(t0 + 80 * MS, 20 * MS);
        assert!(cycle.gain(Up) > MOST_UP_FOR_LONG);
        cycle.go_on(t0 + LONG, 20 * MS);
        assert!(cycle.gain(Up) <= MOST_UP_FOR_LONG);
    }

    #[test]
    fn flows_probe_at_times_of_their_own_and_none_too_late() {
        let t0 = crate::test_clock();
        let first: Vec<_> = (0..100_u64)
            .map(|flow| {
                let random = flow.wrapping_mul(0xD134_2543_DE82_EF95);
                let mut cycle = Cycle::new(&BbrConfig::DEFAULT, t0, random);
                cycle.on_enter(t0, Cruise, (UNITS.probe, None), RATE);
                cycle.until(Cruise, &UNITS) - t0
            })
            .collect();
        assert!(first.iter().all(|at| (120 * MS..=280 * MS).contains(at)), "{first:?}");
        let early = first.iter().filter(|at| **at < 200 * MS).count();
        assert!((35..65).contains(&early), "{early}");
    }
}
