//! Bottlenecks whose buffer holds a fraction of a round trip, or of a burst.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::summary::median_flow;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::{FlowReport, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shallow-buffer",
    title: "Buffers of a tenth of a round trip",
    question: "Does a sender with few acknowledgements fill a path whose buffer is shorter than \
               its bursts and probes, and what does it lose there?",
    paper: "Section V-C: pacing keeps the bursts short that fewer ACKs would cause. The paper \
            shows no buffer below a BDP.",
    measure,
};

/// Rate in Mbit/s, round trip in ms, buffer in BDP.
type Path = (f64, u64, f64);

const PATHS: [Path; 6] = [
    (50.0, 40, 0.125),
    (300.0, 2, 1.0),
    (50.0, 1, 0.1),
    (50.0, 10, 0.1),
    (50.0, 40, 0.1),
    (50.0, 100, 0.1),
];
const STACKS: [Contender; 4] =
    [Contender::TACK, Contender::QUICHE_CUBIC, Contender::QUICHE_BBR, Contender::QUINN];

/// Of the better rival's goodput, percent, where the buffer is a tenth of a BDP; where it is more,
/// all of plain quiche's.
const OF_THE_BEST_PERCENT: f64 = 95.0;
/// Packets sent again, percent.
const RESENT_PERCENT: f64 = 2.0;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 15));
    let warm_up = Duration::from_secs(5);
    let cells: Vec<_> =
        PATHS.iter().flat_map(|path| STACKS.map(|stack| (*path, stack))).collect();
    let runs = context.simulate(&cells, &seeds, |((rate, rtt, buffer), stack), seed| {
        let scenario = Scenario {
            link: pipe(*rate, *buffer)?,
            flows: vec![stack.flow(PathSpec::with_rtt(Duration::from_millis(*rtt)))],
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        Ok((format!("{rate} Mbit/s, {rtt} ms, {buffer} BDP, {}", stack.label), scenario))
    })?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
    let by_path = || PATHS.iter().zip(flows.chunks(STACKS.len()));
    Ok(Findings {
        parameters: json!({
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(by_path())],
        plots: Vec::new(),
        checks: by_path().flat_map(|(path, flows)| checks(*path, flows)).collect(),
        notes: Vec::new(),
    })
}

fn table<'a>(by_path: impl Iterator<Item = (&'a Path, &'a [FlowReport])>) -> Table {
    let mut table = Table::new("One bulk flow after its start-up")
        .number("rate_mbps", "rate", "Mbit/s", 0)
        .number("rtt_ms", "RTT", "ms", 0)
        .number("buffer_bdp", "buffer", "BDP", 3)
        .text("stack", "stack")
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("utilisation_percent", "utilisation", "%", 1)
        .number("resent_percent", "resent", "%", 2)
        .number("queue_p95_ms", "queue p95", "ms", 2);
    for ((rate, rtt, buffer), flows) in by_path {
        for (stack, flow) in STACKS.iter().zip(flows) {
            table.row([
                (*rate).into(),
                (*rtt).into(),
                (*buffer).into(),
                stack.label.into(),
                flow.goodput_mbps.into(),
                (flow.utilisation * 100.0).into(),
                resent_percent(flow).into(),
                flow.queue_p95_ms.into(),
            ]);
        }
    }
    table
}

/// Of the flows of one path, in the order of the stacks.
fn checks((rate, rtt, buffer): Path, flows: &[FlowReport]) -> [Check; 2] {
    let of = format!("{rate} Mbit/s, {rtt} ms, {buffer} BDP: TACK");
    let (tack, rivals) = (&flows[0], &flows[1..]);
    let best = rivals.iter().map(|flow| flow.goodput_mbps).fold(0.0, f64::max);
    let (name, rival, wanted) = if buffer > 0.1 {
        ("plain quiche", flows[1].goodput_mbps, 100.0)
    } else {
        ("the best rival", best, OF_THE_BEST_PERCENT)
    };
    let share = 100.0 * tack.goodput_mbps / rival;
    let best_resent = rivals.iter().map(resent_percent).fold(f64::INFINITY, f64::min);
    let most = (2.0 * best_resent).min(RESENT_PERCENT);
    [
        Check::at_least(format!("{of}, of {name}"), share, "%", wanted),
        Check::at_most(
            format!("{of}, packets sent again (twice the better rival's, 2 % at most)"),
            resent_percent(tack),
            "%",
            most,
        ),
    ]
}

/// Packets whose data had all been sent before, of all data packets.
fn resent_percent(flow: &FlowReport) -> f64 {
    100.0 * flow.retransmitted as f64 / flow.data_packets.max(1) as f64
}
