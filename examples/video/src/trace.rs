//! The rate of a link in time: projected ones from a seed, and recorded ones from files.
//!
//! A trace is the rate for each tenth of a second, up to 100 Mbit/s; it begins anew at its end. Projected traces
//! are drawn from a scene: a few states that last for some seconds each (a street with a view of the mast, the
//! shadow of a house, a tunnel, a handover), with a rate that wanders about that of the state. The same scene,
//! length and seed give the same trace on every machine. They are no measurements: the states are chosen by what
//! is told of such places.
//!
//! Files have the form of mahimahi's traces: a line for each packet of 1,500 bytes that may pass, with the
//! millisecond in which it may, in order; the last one is the length of the trace.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_link::LinkSpec;

/// How long a rate holds.
pub const STEP: Duration = Duration::from_millis(100);
/// The highest rate of a projected trace.
pub const HIGHEST_MBPS: f64 = 100.0;
/// The bytes of a packet in mahimahi's form.
const PACKET: f64 = 1500.0;
/// The longest trace: an hour.
const MOST_STEPS: usize = 36_000;
/// Each step keeps so much of where the last one was about its state's rate.
const MEMORY: f64 = 0.8;
/// A link's queue takes what leaves in this time at the mean rate, and 64 KiB at least.
const QUEUE: Duration = Duration::from_millis(200);
const SHORTEST_QUEUE: u64 = 64 << 10;
/// What acknowledgements share.
const REVERSE_MBPS: f64 = 20.0;

/// A state that a scene may be in.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The rate about which it wanders, and by how much of it.
    mbps: f64,
    spread: f64,
    /// How long it lasts, seconds, from and to.
    lasts: (f64, f64),
    /// How often it is chosen, beside the others.
    weight: u32,
}

const fn state(mbps: f64, spread: f64, lasts: (f64, f64), weight: u32) -> State {
    State { mbps, spread, lasts, weight }
}

/// Where the receiver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A walk in a city.
    City,
    /// A train.
    Train,
    /// A room with others on the same Wi-Fi.
    Home,
}

impl Scene {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::City, Self::Train, Self::Home];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::City => "city",
            Self::Train => "train",
            Self::Home => "home",
        }
    }

    const fn states(self) -> &'static [State] {
        match self {
            Self::City => &CITY,
            Self::Train => &TRAIN,
            Self::Home => &HOME,
        }
    }
}

/// A view of the mast; a street; the shadow of houses; behind a corner.
const CITY: [State; 4] = [
    state(60.0, 0.35, (1.0, 4.0), 2),
    state(12.0, 0.4, (2.0, 6.0), 4),
    state(4.0, 0.4, (2.0, 5.0), 4),
    state(1.2, 0.5, (0.5, 2.5), 2),
];

/// Open land; a cutting; a handover; a tunnel.
const TRAIN: [State; 4] = [
    state(25.0, 0.5, (3.0, 8.0), 4),
    state(5.0, 0.5, (2.0, 6.0), 4),
    state(0.5, 0.5, (0.2, 0.6), 3),
    state(0.0, 0.0, (0.8, 2.0), 1),
];

/// Alone; one other; all of them.
const HOME: [State; 3] = [
    state(80.0, 0.2, (3.0, 9.0), 3),
    state(30.0, 0.3, (2.0, 6.0), 3),
    state(5.0, 0.4, (0.5, 3.0), 2),
];

/// A rate in time.
#[derive(Clone, Debug, PartialEq)]
pub struct RateTrace {
    /// Megabits per second, for each [`STEP`].
    mbps: Vec<f64>,
}

impl RateTrace {
    /// Draws a trace of a scene.
    pub fn project(scene: Scene, seconds: u64, seed: u64) -> Result<Self> {
        let count = usize::try_from(seconds)?.saturating_mul(10);
        ensure!((1..=MOST_STEPS).contains(&count), "a trace of {seconds} s; 1 to 3600");
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let states = scene.states();
        let mut mbps = Vec::with_capacity(count);
        let (mut left, mut now, mut off) = (0, states[0], 0.0);
        let mut is_first = true;
        while mbps.len() < count {
            if left == 0 {
                // The first state is the best one: nobody begins to watch in a tunnel.
                now = if is_first { states[0] } else { choose(states, &mut random) };
                is_first = false;
                let (from, to) = now.lasts;
                left = (random.random_range(from..=to) * 10.0).round().max(1.0) as usize;
            }
            off = MEMORY * off + (1.0 - MEMORY) * random.random_range(-1.5..=1.5) * 2.0;
            mbps.push((now.mbps * (1.0 + now.spread * off)).clamp(0.0, HIGHEST_MBPS));
            left -= 1;
        }
        Self::new(mbps)
    }

    fn new(mut mbps: Vec<f64>) -> Result<Self> {
        // In steps of a packet per step, as mahimahi's form has them: a trace is the same from its file.
        for rate in &mut mbps {
            *rate = (*rate / packet_mbps()).round() * packet_mbps();
        }
        ensure!(mbps.len() <= MOST_STEPS, "a trace longer than an hour");
        ensure!(mbps.iter().any(|rate| *rate > 0.0), "nothing ever passes in this trace");
        Ok(Self { mbps })
    }

    /// Reads mahimahi's form.
    pub fn from_mahimahi(text: &str) -> Result<Self> {
        let step_ms = STEP.as_millis() as u64;
        let mut packets: Vec<u64> = Vec::new();
        let mut last = 0;
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let ms: u64 = line
                .parse()
                .with_context(|| format!("line {number}: {line:.40}: not a millisecond"))?;
            ensure!(ms >= last, "line {number}: {ms} comes after {last}: times have to ascend");
            // Mahimahi counts from 1: a packet of millisecond 100 is the last of the first tenth.
            let step = usize::try_from(ms.saturating_sub(1) / step_ms)?;
            ensure!(step < MOST_STEPS, "line {number}: {ms} ms; a trace may last an hour");
            packets.resize(packets.len().max(step + 1), 0);
            packets[step] += 1;
            last = ms;
        }
        ensure!(!packets.is_empty(), "the trace is empty: a line for each packet is expected");
        Self::new(packets.iter().map(|count| *count as f64 * packet_mbps()).collect())
    }

    /// Writes mahimahi's form. A trace that ends with nothing gets its last packet at its very end.
    pub fn to_mahimahi(&self) -> String {
        let step_ms = STEP.as_millis() as u64;
        let mut out = String::new();
        for (step, mbps) in (0..).zip(&self.mbps) {
            let count = (mbps / packet_mbps()).round() as u64;
            for packet in 0..count {
                let within = (packet + 1) * step_ms / count;
                // Writing into a string cannot fail.
                let _ = writeln!(out, "{}", step * step_ms + within.max(1));
            }
        }
        let length = self.mbps.len() as u64 * step_ms;
        if self.mbps.last().is_some_and(|mbps| *mbps < packet_mbps()) {
            let _ = writeln!(out, "{length}");
        }
        out
    }

    /// The trace as a link for `tack-lab relay --link FILE`: the rate in the direction of the video, a queue of
    /// 200 ms at the mean rate, and 20 Mbit/s back.
    pub fn to_toml(&self) -> String {
        let mut steps = String::new();
        let mut last = None;
        for (step, mbps) in self.mbps.iter().enumerate() {
            if last != Some(mbps) {
                let comma = if last.is_some() { ", " } else { "" };
                // Writing into a string cannot fail.
                let _ = write!(steps, "{comma}[{}, {mbps:.3}]", step as f64 / 10.0);
            }
            last = Some(mbps);
        }
        let queue = (self.mean_mbps() * 1e6 / 8.0 * QUEUE.as_secs_f64()) as u64;
        format!(
            "[[hop]]\nkind = \"pipe\"\n\n[hop.forward]\nbuffer_bytes = {}\n\
             rate_trace = {{ steps = [{steps}], repeat_s = {:?} }}\n\n\
             [hop.reverse]\nrate_mbps = {REVERSE_MBPS:?}\n",
            queue.max(SHORTEST_QUEUE),
            self.seconds(),
        )
    }

    /// The trace as a link.
    pub fn link(&self) -> Result<LinkSpec> {
        LinkSpec::from_toml(&self.to_toml(), "trace").context("the link of the trace")
    }

    /// Its mean rate.
    pub fn mean_mbps(&self) -> f64 {
        self.mbps.iter().sum::<f64>() / self.mbps.len().max(1) as f64
    }

    /// Its lowest and its highest rate.
    pub fn range_mbps(&self) -> (f64, f64) {
        let fold = |of: fn(f64, f64) -> f64, from| self.mbps.iter().copied().fold(from, of);
        (fold(f64::min, f64::INFINITY), fold(f64::max, 0.0))
    }

    /// Its length, seconds.
    pub fn seconds(&self) -> f64 {
        self.mbps.len() as f64 * STEP.as_secs_f64()
    }
}

/// A trace by the name of a scene, or from a file.
pub fn resolve(name: &str, seconds: u64, seed: u64) -> Result<RateTrace> {
    if let Some(scene) = Scene::ALL.into_iter().find(|scene| scene.name() == name) {
        return RateTrace::project(scene, seconds, seed);
    }
    let path = std::path::Path::new(name);
    if !path.exists() {
        let scenes = Scene::ALL.map(Scene::name).join(", ");
        bail!("{name}: neither a scene ({scenes}) nor a file");
    }
    let text = std::fs::read_to_string(path).with_context(|| name.to_owned())?;
    RateTrace::from_mahimahi(&text).with_context(|| name.to_owned())
}

/// The rate of a packet in each step.
fn packet_mbps() -> f64 {
    PACKET * 8.0 / 1e6 / STEP.as_secs_f64()
}

fn choose(states: &[State], random: &mut Pcg64Mcg) -> State {
    let total: u32 = states.iter().map(|state| state.weight).sum();
    let mut at = random.random_range(0..total);
    for state in states {
        match at.checked_sub(state.weight) {
            Some(rest) => at = rest,
            None => return *state,
        }
    }
    states[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_trace_and_another_seed_another() {
        for scene in Scene::ALL {
            let trace = |seed| RateTrace::project(scene, 60, seed).unwrap();
            assert_eq!(trace(1), trace(1));
            assert_ne!(trace(1), trace(2));
            let (lowest, highest) = trace(1).range_mbps();
            assert!(lowest >= 0.0 && highest <= HIGHEST_MBPS, "{lowest} {highest}");
            assert!(highest > 3.0 * lowest && highest > 15.0, "{scene:?} {lowest} {highest}");
            assert!((59.9..60.1).contains(&trace(1).seconds()));
        }
    }

    #[test]
    fn a_trace_is_the_same_from_its_file() {
        for scene in Scene::ALL {
            let trace = RateTrace::project(scene, 30, 3).unwrap();
            let mut read = RateTrace::from_mahimahi(&trace.to_mahimahi()).unwrap();
            // A silent end needs a packet to have a length.
            let last = read.mbps.len() - 1;
            if trace.mbps[last] == 0.0 {
                read.mbps[last] = 0.0;
            }
            assert_eq!(read.mbps.len(), trace.mbps.len());
            for (read, projected) in read.mbps.iter().zip(&trace.mbps) {
                assert!((read - projected).abs() < 1e-9, "{read} {projected}");
            }
        }
    }

    #[test]
    fn a_trace_makes_a_link_of_its_mean_rate() {
        let trace = RateTrace::project(Scene::City, 60, 1).unwrap();
        let capacity = trace.link().unwrap().capacity_bps(Duration::from_secs(60)) / 1e6;
        assert!((capacity - trace.mean_mbps()).abs() < 0.5, "{capacity} {}", trace.mean_mbps());
    }

    #[test]
    fn files_that_are_no_traces_are_refused_with_the_line() {
        let error = |text: &str| format!("{:#}", RateTrace::from_mahimahi(text).unwrap_err());
        assert!(error("").contains("empty"));
        assert!(error("1\n2\nx\n").contains("line 3: x"));
        assert!(error("5\n3\n").contains("line 2: 3 comes after 5"));
        assert!(error("99999999999\n").contains("line 1"));
        assert!(format!("{:#}", resolve("nowhere", 9, 1).unwrap_err()).contains("city, train"));
        assert!(RateTrace::project(Scene::City, 0, 1).is_err());
    }
}
