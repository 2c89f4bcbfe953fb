//! Ends on machines that have other work.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::summary::{self, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::Scenario;

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
/// Those of [`STACKS`] that are rivals.
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

    let late_ms = LATE.as_millis() as u64;
    let title = format!("One bulk flow, both ends {late_ms} ms late on average");
    let mut table = summary::columns(
        Table::new(title)
            .text("link", "link")
            .number("rtt_ms", "RTT", "ms", 0)
            .text("stack", "stack")
            .number("kept_percent", "of that without", "%", 1),
    );
    let mut checks = Vec::new();
    for ((link, rtt), runs) in PATHS.iter().zip(runs.chunks(2 * STACKS.len())) {
        let mut best = f64::NEG_INFINITY;
        let mut of_tack = None;
        for (index, ((_, label, _), runs)) in STACKS.iter().zip(runs.chunks(2)).enumerate() {
            let (idle, late) = (median_flow(&runs[0], 0), median_flow(&runs[1], 0));
            let kept = 100.0 * late.goodput_mbps / idle.goodput_mbps;
            let front = [(*link).into(), (*rtt).into(), (*label).into(), kept.into()];
            table.row(summary::row(front, &late));
            if index == 0 {
                of_tack = Some((kept, late.goodput_mbps));
            } else if index >= RIVALS {
                best = best.max(late.goodput_mbps);
            }
        }
        if let Some((kept, goodput)) = of_tack {
            let of = format!("{link}, {rtt} ms: TACK with late ends");
            checks.push(Check::at_least(
                format!("{of}, of that without"),
                kept,
                "%",
                TARGET_KEPT,
            ));
            let share = 100.0 * goodput / best;
            checks.push(Check::at_least(format!("{of}, of the best rival"), share, "%", 100.0));
        }
    }
    Ok(Findings {
        parameters: json!({
            "late_mean_ms": late_ms,
            "late_distribution": "uniform from 0 to twice the mean, for each time that an end is woken",
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table],
        plots: Vec::new(),
        checks,
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
