//! Bottleneck buffers from a quarter of a bandwidth-delay product to many.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::summary::median_flow;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Plot, Series, Table};
use crate::sim::{FlowReport, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "buffer",
    title: "Shallow and deep buffers",
    question: "Is a bottleneck with a shallow buffer used, and one with a deep buffer used \
               without filling it?",
    paper: "Section VI-D: as in BBR (N. Cardwell et al., 2016), what is in flight is capped by a \
            multiple of the bandwidth-delay product, whatever the buffer holds.",
    measure,
};

/// Rate in Mbit/s, round-trip time.
const PATHS: [(f64, Duration); 2] =
    [(50.0, Duration::from_millis(40)), (10.0, Duration::from_millis(100))];
const BUFFERS_BDP: [f64; 5] = [0.25, 0.5, 1.0, 4.0, 8.0];
/// From here on a buffer is deep.
const DEEP_BDP: f64 = 4.0;
const STACKS: [Contender; 5] = [
    Contender::TACK,
    Contender::EVERY_SECOND,
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
];

/// A path, a stack, and the buffer in bandwidth-delay products.
type Cell = ((f64, Duration), Contender, f64);

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 15));
    let warm_up = Duration::from_secs(5);
    let cells: Vec<Cell> = PATHS
        .iter()
        .flat_map(|path| STACKS.map(|stack| (*path, stack)))
        .flat_map(|(path, stack)| BUFFERS_BDP.map(|buffer| (path, stack, buffer)))
        .collect();
    let runs =
        context.simulate(&cells, &seeds, |((rate_mbps, rtt), stack, buffer_bdp), seed| {
            let scenario = Scenario {
                link: pipe(*rate_mbps, *buffer_bdp)?,
                flows: vec![stack.flow(PathSpec::with_rtt(*rtt))],
                duration,
                warm_up,
                bin: duration,
                seed,
            };
            Ok((format!("{rate_mbps} Mbit/s, {buffer_bdp} BDP, {}", stack.label), scenario))
        })?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
    let by_path = PATHS.iter().zip(flows.chunks(STACKS.len() * BUFFERS_BDP.len()));
    Ok(Findings {
        parameters: json!({
            "rate_mbps": PATHS.map(|(rate, _)| rate),
            "rtt_ms": PATHS.map(|(_, rtt)| rtt.as_millis() as u64),
            "buffer_bdp": BUFFERS_BDP,
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(&cells, &flows)],
        plots: by_path.flat_map(|(path, flows)| plots(path, flows)).collect(),
        checks: cells.iter().zip(&flows).flat_map(|(cell, flow)| checks(cell, flow)).collect(),
        notes: vec![
            "Utilisation counts all IP packets with data that arrive, queueing delay what a \
             packet's one-way delay lay above the smallest one."
                .to_owned(),
        ],
    })
}

/// The 95th percentile of the queueing delay in round trips.
fn queue_p95_rtts(flow: &FlowReport, rtt: Duration) -> Option<f64> {
    flow.queue_p95_ms.map(|ms| ms / 1e3 / rtt.as_secs_f64())
}

fn table(cells: &[Cell], flows: &[FlowReport]) -> Table {
    let mut table = Table::new("One bulk flow after its start-up")
        .number("rate_mbps", "rate", "Mbit/s", 0)
        .number("rtt_ms", "RTT", "ms", 0)
        .text("stack", "stack")
        .number("buffer_bdp", "buffer", "BDP", 2)
        .number("utilisation_percent", "utilisation", "%", 1)
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("loss_percent", "loss", "%", 2)
        .number("queue_p95_ms", "queue p95", "ms", 1)
        .number("queue_p95_rtts", "queue p95", "RTT", 2);
    for (((rate_mbps, rtt), stack, buffer_bdp), flow) in cells.iter().zip(flows) {
        table.row([
            (*rate_mbps).into(),
            (rtt.as_secs_f64() * 1e3).into(),
            stack.label.into(),
            (*buffer_bdp).into(),
            (flow.utilisation * 100.0).into(),
            flow.goodput_mbps.into(),
            (100.0 * flow.lost as f64 / flow.data_packets.max(1) as f64).into(),
            flow.queue_p95_ms.into(),
            queue_p95_rtts(flow, *rtt).into(),
        ]);
    }
    table
}

/// The targets of TACK in a cell; other stacks have none.
fn checks(((rate_mbps, rtt), stack, buffer_bdp): &Cell, flow: &FlowReport) -> Vec<Check> {
    let mut checks = Vec::new();
    if *stack != Contender::TACK {
        return checks;
    }
    let what = |what: &str| {
        format!("{rate_mbps} Mbit/s, {} ms, {buffer_bdp} BDP: {what}", rtt.as_millis())
    };
    if *buffer_bdp >= 0.5 {
        let used = flow.utilisation * 100.0;
        checks.push(Check::at_least(what("utilisation"), used, "%", 95.0));
    }
    if *buffer_bdp >= DEEP_BDP {
        let queue = queue_p95_rtts(flow, *rtt).unwrap_or(f64::NAN);
        checks.push(Check::at_most(what("p95 of the queue"), queue, "RTT", 0.5));
    }
    checks
}

/// Utilisation and queueing delay on one path.
fn plots((rate_mbps, rtt): &(f64, Duration), flows: &[FlowReport]) -> [Plot; 2] {
    let lines = |value: &dyn Fn(&FlowReport) -> Option<f64>| -> Vec<Series> {
        let by_stack = STACKS.iter().zip(flows.chunks(BUFFERS_BDP.len()));
        let series = by_stack.map(|(stack, flows)| {
            let points = BUFFERS_BDP.iter().zip(flows);
            let points = points.filter_map(|(buffer, flow)| Some((*buffer, value(flow)?)));
            Series::measured(stack.label, stack.colour, points.collect())
        });
        series.collect()
    };
    let of = format!("{rate_mbps} Mbit/s, {} ms", rtt.as_millis());
    [
        Plot::new(
            format!("Utilisation by buffer: {of}"),
            Axis::log("buffer, BDP"),
            Axis::linear("utilisation, %"),
            Chart::Lines { series: lines(&|flow| Some(flow.utilisation * 100.0)) },
        ),
        Plot::new(
            format!("95th percentile of the queueing delay by buffer: {of}"),
            Axis::log("buffer, BDP"),
            Axis::linear("queueing delay, ms"),
            Chart::Lines { series: lines(&|flow| flow.queue_p95_ms) },
        ),
    ]
}
