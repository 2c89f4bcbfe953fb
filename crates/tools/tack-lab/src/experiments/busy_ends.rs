//! Ends on machines that have other work.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::summary::{self, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::{FlowReport, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "busy-ends",
    title: "Ends that run late",
    question: "What is left of the goodput when both ends read and send late, because their \
               machines have other work?",
    paper: "The paper's ends were idle. Few acknowledgements must not mean that each of them has \
            to come in time.",
    measure,
};

/// How late an end runs on average; up to twice that.
pub(super) const LATE: Duration = Duration::from_millis(5);

/// Links and round trips, ms. The pipes have a buffer of one bandwidth-delay product, 10 ms at least.
const PATHS: [(&str, u64); 6] =
    [("pipe:50", 1), ("pipe:50", 5), ("pipe:50", 10), ("pipe:50", 40), ("n", 10), ("ac", 10)];

/// Each stack, its name, and whether it is told when datagrams came.
const STACKS: [(Contender, &str, bool); 5] = [
    (Contender::TACK, Contender::TACK.label, false),
    (Contender::TACK, "TACK by arrival times", true),
    (Contender::QUICHE_CUBIC, Contender::QUICHE_CUBIC.label, false),
    (Contender::QUICHE_BBR, Contender::QUICHE_BBR.label, false),
    (Contender::QUINN, Contender::QUINN.label, false),
];
const TACK: usize = 0;
/// The first of [`STACKS`] that is a rival.
const RIVALS: usize = 2;

/// What TACK is to keep of the goodput without lateness, percent.
const TARGET_KEPT: f64 = 95.0;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(11, 3);
    let duration = Duration::from_secs(context.pick(20, 6));
    let warm_up = Duration::from_secs(context.pick(5, 2));
    let cells: Vec<_> = PATHS
        .iter()
        .flat_map(|path| STACKS.map(|stack| (*path, stack)))
        .flat_map(|(path, stack)| [(path, stack, Duration::ZERO), (path, stack, LATE)])
        .collect();
    let runs = context.simulate(
        &cells,
        &seeds,
        |((link, rtt), (stack, label, told), late), seed| {
            let path = PathSpec::with_rtt(Duration::from_millis(*rtt));
            let flow = stack.flow(path).with_busy_ends(*late);
            let scenario = Scenario {
                link: LinkSpec::resolve(link)?,
                flows: vec![if *told { flow.with_arrival_times() } else { flow }],
                duration,
                warm_up,
                bin: duration,
                seed,
            };
            Ok((format!("{link}, {rtt} ms, {label}, {late:?} late"), scenario))
        },
    )?;
    let ends: Vec<_> = runs.chunks(2).map(Ends::of).collect();
    Ok(Findings {
        parameters: json!({
            "late_mean_ms": LATE.as_millis() as u64,
            "late_distribution": "uniform from 0 to twice the mean, for each time that an end is woken",
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(&ends)],
        plots: Vec::new(),
        checks: checks(&ends),
        notes: vec![
            "An end that is woken (a datagram, a timer, the release of a packet) runs a random \
             time later, and then finds all that has come. Each cell is also `tack-lab transfer \
             --busy 5`."
                .to_owned(),
            "In the second row of each path TACK is told when each datagram came to the socket, as the \
             kernel tells it (SO_TIMESTAMPNS): `--arrival-times`. The other stacks have no way to be told."
                .to_owned(),
        ],
    })
}

/// A stack over one path: medians over the seeds.
struct Ends {
    idle: FlowReport,
    late: FlowReport,
}

impl Ends {
    /// Of the runs with idle ends, and those with late ones.
    fn of(runs: &[Vec<ScenarioReport>]) -> Self {
        Self { idle: median_flow(&runs[0], 0), late: median_flow(&runs[1], 0) }
    }

    /// Goodput with late ends, percent of that without.
    fn kept_percent(&self) -> f64 {
        100.0 * self.late.goodput_mbps / self.idle.goodput_mbps
    }
}

/// Of the stacks on each path.
fn table(ends: &[Ends]) -> Table {
    let title = format!("One bulk flow, both ends {} ms late on average", LATE.as_millis());
    let mut table = summary::columns(
        Table::new(title)
            .text("link", "link")
            .number("rtt_ms", "RTT", "ms", 0)
            .text("stack", "stack")
            .number("kept_percent", "of that without", "%", 1),
    );
    for ((link, rtt), ends) in PATHS.iter().zip(ends.chunks(STACKS.len())) {
        for ((_, label, _), ends) in STACKS.iter().zip(ends) {
            let kept = ends.kept_percent();
            let front = [(*link).into(), (*rtt).into(), (*label).into(), kept.into()];
            table.row(summary::row(front, &ends.late));
        }
    }
    table
}

/// TACK on each path.
fn checks(ends: &[Ends]) -> Vec<Check> {
    let mut checks = Vec::new();
    for ((link, rtt), ends) in PATHS.iter().zip(ends.chunks(STACKS.len())) {
        let tack = &ends[TACK];
        let of = format!("{link}, {rtt} ms: TACK with late ends");
        checks.push(Check::at_least(
            format!("{of}, of that without"),
            tack.kept_percent(),
            "%",
            TARGET_KEPT,
        ));
        let rivals = ends[RIVALS..].iter().map(|rival| rival.late.goodput_mbps);
        let share = 100.0 * tack.late.goodput_mbps / rivals.fold(f64::NEG_INFINITY, f64::max);
        checks.push(Check::at_least(format!("{of}, of the best rival"), share, "%", 100.0));
    }
    checks
}
