//! Careful Resume: a second connection over a path that is the same, slower, longer, or in use.

use std::time::Duration;

use serde_json::{Value, json};
use tack_link::PathSpec;
use tacklib::CcParameters;

use super::links::pipe;
use super::statistics::{mean, median};
use super::summary::median_flow;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::{self, Flow, FlowReport, Load, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "careful-resume",
    title: "A second connection that knows the path",
    question: "What does a connection gain that is given what an earlier one observed, and what does it \
               cost where the path has become slower or longer, or others use it?",
    paper: "RFC 9959: it gets up to speed sooner, and is safe where it should not have.",
    measure,
};

/// A path over which the first connection goes.
#[derive(Clone, Copy, Debug)]
struct Path {
    label: &'static str,
    mbps: f64,
    rtt: Duration,
    /// How long CUBIC is alone on the path before the connection begins, and for how long both are
    /// looked at.
    alone: Duration,
    beside: Duration,
}

const PATHS: [Path; 2] = [
    Path {
        label: "200 Mbit/s, 40 ms",
        mbps: 200.0,
        rtt: Duration::from_millis(40),
        alone: Duration::from_secs(5),
        beside: Duration::from_secs(10),
    },
    Path {
        label: "50 Mbit/s, 600 ms",
        mbps: 50.0,
        rtt: Duration::from_millis(600),
        alone: Duration::from_secs(20),
        beside: Duration::from_secs(30),
    },
];

/// What the second connection meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Same,
    Slower,
    Longer,
    Shared,
}

const NOW: [Now; 4] = [Now::Same, Now::Slower, Now::Longer, Now::Shared];
const BYTES: [u64; 2] = [20_000_000, 2_000_000];
/// The first connection's.
const FIRST_BYTES: u64 = 20_000_000;
const TIMES_SLOWER: f64 = 10.0;
const TIMES_LONGER: u32 = 3;
const MOST_LATER: f64 = 1.1;
const PATIENCE: Duration = Duration::from_secs(120);

impl Now {
    fn label(self) -> &'static str {
        match self {
            Self::Same => "the same",
            Self::Slower => "10 times slower",
            Self::Longer => "RTT of 3 times",
            Self::Shared => "CUBIC is on it",
        }
    }
}

/// One connection's path, size and knowledge.
#[derive(Clone, Copy, Debug)]
struct Cell {
    path: Path,
    bytes: u64,
    now: Now,
    resumes: bool,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for path in PATHS {
        for bytes in BYTES {
            for now in NOW {
                cells.extend([false, true].map(|resumes| Cell { path, bytes, now, resumes }));
            }
        }
    }
    cells
}

/// A connection over the path as it is now.
fn scenario(
    cell: &Cell,
    saved: Option<CcParameters>,
    seed: u64,
) -> Result<Scenario, tack_link::SpecError> {
    let Cell { path, bytes, now, .. } = *cell;
    let mbps = if now == Now::Slower { path.mbps / TIMES_SLOWER } else { path.mbps };
    let rtt = if now == Now::Longer { path.rtt * TIMES_LONGER } else { path.rtt };
    let spec = PathSpec::with_rtt(rtt);
    let mut end = Contender::TACK.end();
    end.cc_parameters = saved;
    let flow =
        Flow { load: Load::Bytes(bytes), ..Flow::between(end, Contender::TACK.end(), spec) };
    let (flows, duration) = if now == Now::Shared {
        let rival = Contender::QUICHE_CUBIC.flow(spec);
        (vec![Flow { start: path.alone, ..flow }, rival], path.alone + path.beside)
    } else {
        (vec![flow], PATIENCE)
    };
    Ok(Scenario {
        link: pipe(mbps, 1.0)?,
        flows,
        duration,
        warm_up: Duration::ZERO,
        bin: Duration::from_secs(1),
        seed,
    })
}

/// What the first connection has observed, over the path as it was.
fn observe(path: Path, seed: u64) -> Result<Option<CcParameters>, Error> {
    let cell = Cell { path, bytes: FIRST_BYTES, now: Now::Same, resumes: false };
    let report = run(&cell, None, seed)?;
    let flow = report.flows.first().and_then(|flow| flow.careful_resume);
    Ok(flow.and_then(|resume| resume.observed))
}

fn run(cell: &Cell, saved: Option<CcParameters>, seed: u64) -> Result<ScenarioReport, Error> {
    sim::run(&scenario(cell, saved, seed)?).map_err(|error| Error::Simulation {
        cell: format!("{}, {}", cell.path.label, cell.now.label()),
        reason: Box::new(error),
    })
}

/// Mean goodput of a rival from the moment on at which the connection begins, Mbit/s: the median over
/// the seeds.
fn rival_mbps(reports: &[ScenarioReport], path: Path) -> Option<f64> {
    let from = path.alone.as_secs_f64();
    let of_run = |report: &ScenarioReport| {
        let bins = report.flows.get(1)?.timeline.iter().filter(|bin| bin.at >= from);
        mean(bins.map(|bin| bin.goodput_mbps))
    };
    median(reports.iter().filter_map(of_run))
}

fn seconds(flow: &FlowReport) -> f64 {
    flow.completion_ms.map_or(f64::INFINITY, |ms| ms / 1e3)
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let cells = cells();
    let runs = context.each(&cells, &seeds, |cell, seed| {
        let saved = if cell.resumes { observe(cell.path, seed)? } else { None };
        run(cell, saved, seed)
    })?;
    let pairs: Vec<_> = cells
        .chunks(2)
        .zip(runs.chunks(2))
        .map(|(cells, runs)| Pair::of(cells, runs))
        .collect();
    Ok(Findings {
        parameters: json!({
            "first_bytes": FIRST_BYTES,
            "buffer_bdp": 1.0,
            "times_slower": TIMES_SLOWER,
            "times_longer": TIMES_LONGER,
        }),
        seeds,
        tables: vec![table(&pairs)],
        plots: Vec::new(),
        checks: pairs.iter().filter_map(Pair::check).collect(),
        notes: vec![
            "The buffer is one BDP of the path as it is now. What CUBIC gets is its mean from the \
             start of the other connection on, for 10 s on the wide path and for 30 s on the long one."
                .to_owned(),
        ],
    })
}

/// A connection that knows nothing, and one that resumes: medians over the seeds.
struct Pair {
    path: Path,
    now: Now,
    megabytes: f64,
    without: FlowReport,
    resumed: FlowReport,
    rival_without_mbps: Option<f64>,
    rival_resumed_mbps: Option<f64>,
}

impl Pair {
    /// Of two cells that differ in what the connection knows.
    fn of(cells: &[Cell], runs: &[Vec<ScenarioReport>]) -> Self {
        let Cell { path, bytes, now, .. } = cells[0];
        let (without, resumed) = (&runs[0], &runs[1]);
        Self {
            path,
            now,
            megabytes: bytes as f64 / 1e6,
            without: median_flow(without, 0),
            resumed: median_flow(resumed, 0),
            rival_without_mbps: rival_mbps(without, path),
            rival_resumed_mbps: rival_mbps(resumed, path),
        }
    }

    /// How many times as long the one that resumes takes; none where the other does not end.
    fn times(&self) -> Option<f64> {
        Some(seconds(&self.resumed) / seconds(&self.without)).filter(|times| *times > 0.0)
    }

    fn row(&self) -> [Value; 11] {
        let trigger = self.resumed.careful_resume.and_then(|resume| resume.trigger);
        [
            self.path.label.into(),
            self.now.label().into(),
            self.megabytes.into(),
            self.without.completion_ms.map(|ms| ms / 1e3).into(),
            self.resumed.completion_ms.map(|ms| ms / 1e3).into(),
            self.times().into(),
            self.without.lost.into(),
            self.resumed.lost.into(),
            trigger.unwrap_or("none").into(),
            self.rival_without_mbps.into(),
            self.rival_resumed_mbps.into(),
        ]
    }

    /// A path that others use has no target.
    fn check(&self) -> Option<Check> {
        let most = match self.now {
            Now::Same => 1.0,
            Now::Slower | Now::Longer => MOST_LATER,
            Now::Shared => return None,
        };
        let what = format!(
            "{}, {}, {:.0} MB: resumed to not",
            self.path.label,
            self.now.label(),
            self.megabytes
        );
        Some(Check::at_most(what, self.times().unwrap_or(f64::NAN), "", most))
    }
}

fn table(pairs: &[Pair]) -> Table {
    let mut table =
        Table::new("A connection of 2 or 20 MB, after one of 20 MB over the same path")
            .text("path", "path then")
            .text("now", "now")
            .number("megabytes", "sent", "MB", 0)
            .number("first_s", "without", "s", 3)
            .number("second_s", "resumed", "s", 3)
            .number("times", "times", "", 2)
            .number("first_dropped", "dropped without", "", 0)
            .number("second_dropped", "resumed", "", 0)
            .text("trigger", "ended by")
            .number("rival_first_mbps", "CUBIC without", "Mbit/s", 1)
            .number("rival_second_mbps", "resumed", "Mbit/s", 1);
    for pair in pairs {
        table.row(pair.row());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Bin;

    #[test]
    fn what_the_rival_gets_is_the_median_of_all_seeds_behind_the_start() {
        let report = |mbps: f64| {
            let bin = |at: f64, goodput_mbps| Bin { at, goodput_mbps, ..Bin::default() };
            let timeline = vec![bin(0.0, 1000.0), bin(5.0, mbps - 1.0), bin(6.0, mbps + 1.0)];
            let rival = FlowReport { timeline, ..FlowReport::default() };
            ScenarioReport { flows: vec![FlowReport::default(), rival] }
        };
        let reports = [report(90.0), report(50.0), report(70.0)];
        assert_eq!(rival_mbps(&reports, PATHS[0]), Some(70.0));
        assert_eq!(rival_mbps(&[], PATHS[0]), None);
    }
}
