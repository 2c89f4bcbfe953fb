//! How soon a path is filled, and what that costs; and what a path that loses packets at random
//! is filled to.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::summary::median_flow;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::{Flow, FlowReport, Load, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "startup",
    title: "Filling a wide path, and a long one that loses packets",
    question: "How soon has a wide path carried 20 MB, and how full is a long path that loses one \
               packet in a hundred, at what queue?",
    paper: "Section VI-D: Startup and ProbeBW as in BBR. Figure 6's path has a round trip of \
            200 ms and random losses.",
    measure,
};

const STACKS: [Contender; 4] =
    [Contender::TACK, Contender::QUICHE_CUBIC, Contender::QUICHE_BBR, Contender::QUINN];
const TACK: usize = 0;
const WIDE_MBPS: f64 = 200.0;
const WIDE_RTT: Duration = Duration::from_millis(40);
const WIDE_BYTES: u64 = 20_000_000;
const WIDE_PATIENCE: Duration = Duration::from_secs(60);
const WIDE_SECONDS: f64 = 1.10;
const DROPPED_PERCENT: f64 = 1.0;
const LONG_MBPS: f64 = 50.0;
const LONG_RTT: Duration = Duration::from_millis(200);
const LONG_LOSS: f64 = 0.01;
const LONG_WARM_UP: Duration = Duration::from_secs(10);
const LONG_UTILISATION: f64 = 94.0;
const LONG_QUEUE_MS: f64 = 10.0;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(11, 3);
    let duration = Duration::from_secs(context.pick(60, 30));
    let wide = over_wide_path(context, &seeds)?;
    let long = over_long_path(context, &seeds, duration)?;
    Ok(Findings {
        parameters: json!({
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": LONG_WARM_UP.as_secs_f64(),
        }),
        seeds,
        tables: vec![wide_table(&wide), long_table(&long)],
        plots: Vec::new(),
        checks: checks(&wide[TACK], &long[TACK]),
        notes: vec![
            "What is lost at random counts against the utilisation of the long path: 99 % is all \
             that can be had."
                .to_owned(),
        ],
    })
}

/// A transfer of each stack: medians over the seeds.
fn over_wide_path(context: &Context, seeds: &[u64]) -> Result<Vec<FlowReport>, Error> {
    let runs = context.simulate(&STACKS, seeds, |stack, seed| {
        let load = Load::Bytes(WIDE_BYTES);
        let scenario = Scenario {
            link: pipe(WIDE_MBPS, 1.0)?,
            flows: vec![Flow { load, ..stack.flow(PathSpec::with_rtt(WIDE_RTT)) }],
            duration: WIDE_PATIENCE,
            warm_up: Duration::ZERO,
            bin: WIDE_PATIENCE,
            seed,
        };
        Ok((format!("wide, {}", stack.label), scenario))
    })?;
    Ok(runs.iter().map(|runs| median_flow(runs, 0)).collect())
}

/// A bulk flow of each stack: medians over the seeds.
fn over_long_path(
    context: &Context,
    seeds: &[u64],
    duration: Duration,
) -> Result<Vec<FlowReport>, Error> {
    let runs = context.simulate(&STACKS, seeds, |stack, seed| {
        let path = PathSpec { rtt: LONG_RTT, loss_forward: LONG_LOSS, loss_reverse: 0.0 };
        let scenario = Scenario {
            link: pipe(LONG_MBPS, 1.0)?,
            flows: vec![stack.flow(path)],
            duration,
            warm_up: LONG_WARM_UP,
            bin: duration,
            seed,
        };
        Ok((format!("long, {}", stack.label), scenario))
    })?;
    Ok(runs.iter().map(|runs| median_flow(runs, 0)).collect())
}

fn completion_s(flow: &FlowReport) -> f64 {
    flow.completion_ms.map_or(f64::INFINITY, |ms| ms / 1e3)
}

fn dropped_percent(flow: &FlowReport) -> f64 {
    100.0 * flow.lost as f64 / flow.data_packets.max(1) as f64
}

fn wide_table(flows: &[FlowReport]) -> Table {
    let mut table = Table::new("20 MB over 200 Mbit/s, 40 ms, a buffer of one BDP")
        .text("stack", "stack")
        .number("completion_s", "after", "s", 3)
        .number("dropped_percent", "dropped", "%", 2)
        .number("queue_p95_ms", "queue p95", "ms", 1);
    for (stack, flow) in STACKS.iter().zip(flows) {
        table.row([
            stack.label.into(),
            completion_s(flow).into(),
            dropped_percent(flow).into(),
            flow.queue_p95_ms.into(),
        ]);
    }
    table
}

fn long_table(flows: &[FlowReport]) -> Table {
    let mut table = Table::new("One bulk flow over 50 Mbit/s, 200 ms, 1 % of packets lost")
        .text("stack", "stack")
        .number("utilisation_percent", "utilisation", "%", 1)
        .number("queue_p95_ms", "queue p95", "ms", 1);
    for (stack, flow) in STACKS.iter().zip(flows) {
        let utilisation = 100.0 * flow.utilisation;
        table.row([stack.label.into(), utilisation.into(), flow.queue_p95_ms.into()]);
    }
    table
}

/// TACK over the wide path and over the long one.
fn checks(wide: &FlowReport, long: &FlowReport) -> Vec<Check> {
    let queue_ms = long.queue_p95_ms.unwrap_or(f64::INFINITY);
    vec![
        Check::at_most("TACK, 20 MB over the wide path", completion_s(wide), "s", WIDE_SECONDS),
        Check::at_most(
            "TACK, packets dropped there",
            dropped_percent(wide),
            "%",
            DROPPED_PERCENT,
        ),
        Check::at_least(
            "TACK, of what the long path delivers",
            100.0 * long.utilisation,
            "%",
            LONG_UTILISATION,
        ),
        Check::at_most("TACK, p95 of the queue there", queue_ms, "ms", LONG_QUEUE_MS),
    ]
}
