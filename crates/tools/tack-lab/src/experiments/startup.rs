//! How soon a path is filled, and what that costs; and what a path that loses packets at random
//! is filled to.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::summary::median_flow;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::{Flow, Load, Scenario};

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
const WIDE_MBPS: f64 = 200.0;
const WIDE_RTT: Duration = Duration::from_millis(40);
const WIDE_BYTES: u64 = 20_000_000;
const WIDE_SECONDS: f64 = 1.10;
const DROPPED_PERCENT: f64 = 1.0;
const LONG_MBPS: f64 = 50.0;
const LONG_RTT: Duration = Duration::from_millis(200);
const LONG_LOSS: f64 = 0.01;
const LONG_UTILISATION: f64 = 94.0;
const LONG_QUEUE_MS: f64 = 10.0;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(11, 3);
    let patience = Duration::from_secs(60);
    let duration = Duration::from_secs(context.pick(60, 30));
    let warm_up = Duration::from_secs(10);
    let wide = context.simulate(&STACKS, &seeds, |stack, seed| {
        let load = Load::Bytes(WIDE_BYTES);
        let scenario = Scenario {
            link: pipe(WIDE_MBPS, 1.0)?,
            flows: vec![Flow { load, ..stack.flow(PathSpec::with_rtt(WIDE_RTT)) }],
            duration: patience,
            warm_up: Duration::ZERO,
            bin: patience,
            seed,
        };
        Ok((format!("wide, {}", stack.label), scenario))
    })?;
    let long = context.simulate(&STACKS, &seeds, |stack, seed| {
        let path = PathSpec { rtt: LONG_RTT, loss_forward: LONG_LOSS, loss_reverse: 0.0 };
        let scenario = Scenario {
            link: pipe(LONG_MBPS, 1.0)?,
            flows: vec![stack.flow(path)],
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        Ok((format!("long, {}", stack.label), scenario))
    })?;

    let mut first = Table::new("20 MB over 200 Mbit/s, 40 ms, a buffer of one BDP")
        .text("stack", "stack")
        .number("completion_s", "after", "s", 3)
        .number("dropped_percent", "dropped", "%", 2)
        .number("queue_p95_ms", "queue p95", "ms", 1);
    let mut second = Table::new("One bulk flow over 50 Mbit/s, 200 ms, 1 % of packets lost")
        .text("stack", "stack")
        .number("utilisation_percent", "utilisation", "%", 1)
        .number("queue_p95_ms", "queue p95", "ms", 1);
    let mut checks = Vec::new();
    for (stack, runs) in STACKS.iter().zip(&wide) {
        let flow = median_flow(runs, 0);
        let seconds = flow.completion_ms.map_or(f64::INFINITY, |ms| ms / 1e3);
        let dropped = 100.0 * flow.lost as f64 / flow.data_packets.max(1) as f64;
        let row =
            [stack.label.into(), seconds.into(), dropped.into(), flow.queue_p95_ms.into()];
        first.row(row);
        if *stack == Contender::TACK {
            let what = "TACK, 20 MB over the wide path";
            checks.push(Check::at_most(what, seconds, "s", WIDE_SECONDS));
            let what = "TACK, packets dropped there";
            checks.push(Check::at_most(what, dropped, "%", DROPPED_PERCENT));
        }
    }
    for (stack, runs) in STACKS.iter().zip(&long) {
        let flow = median_flow(runs, 0);
        let utilisation = 100.0 * flow.utilisation;
        second.row([stack.label.into(), utilisation.into(), flow.queue_p95_ms.into()]);
        if *stack == Contender::TACK {
            let what = "TACK, of what the long path delivers";
            checks.push(Check::at_least(what, utilisation, "%", LONG_UTILISATION));
            let queue = flow.queue_p95_ms.unwrap_or(f64::INFINITY);
            checks.push(Check::at_most(
                "TACK, p95 of the queue there",
                queue,
                "ms",
                LONG_QUEUE_MS,
            ));
        }
    }
    Ok(Findings {
        parameters: json!({
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![first, second],
        plots: Vec::new(),
        checks,
        notes: vec![
            "What is lost at random counts against the utilisation of the long path: 99 % is all \
             that can be had."
                .to_owned(),
        ],
    })
}
