//! Paths of all lengths that lose acknowledgements and no data.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::summary::{self, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::Scenario;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ack-loss",
    title: "Lost acknowledgements, short paths and long",
    question: "Is a path filled that loses 10 to 50 % of the acknowledgements, also where it is \
               so short that there is one TACK in several round trips?",
    paper: "Section V-B and figure 6: TACKs repeat what they report. The paper's path has a round \
            trip of 200 ms.",
    measure,
};

const RATE_MBPS: f64 = 50.0;
const RTT_MS: [u64; 4] = [1, 10, 40, 100];
const ACK_LOSS_PERCENT: [f64; 3] = [10.0, 30.0, 50.0];
const STACKS: [Contender; 4] =
    [Contender::TACK, Contender::QUICHE_CUBIC, Contender::QUICHE_BBR, Contender::QUINN];

/// What a path of 1 ms has room for, in round trips: 10 ms, as the buffer of a cheap router.
const LEAST_BUFFER_MS: f64 = 10.0;

/// Of the best rival, percent.
const TARGET: f64 = 95.0;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(11, 3);
    let duration = Duration::from_secs(context.pick(30, 15));
    // A handshake over such a path may take seconds.
    let warm_up = Duration::from_secs(10);
    let cells: Vec<_> = RTT_MS
        .iter()
        .flat_map(|rtt| ACK_LOSS_PERCENT.map(|loss| (*rtt, loss)))
        .flat_map(|path| STACKS.map(|stack| (path, stack)))
        .collect();
    let runs = context.simulate(&cells, &seeds, |((rtt, loss), stack), seed| {
        let path = PathSpec {
            rtt: Duration::from_millis(*rtt),
            loss_forward: 0.0,
            loss_reverse: loss / 100.0,
        };
        let scenario = Scenario {
            link: pipe(RATE_MBPS, (LEAST_BUFFER_MS / *rtt as f64).max(1.0))?,
            flows: vec![stack.flow(path)],
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        Ok((format!("{rtt} ms, {loss} %, {}", stack.label), scenario))
    })?;

    let mut table = summary::columns(
        Table::new(format!("One bulk flow over {RATE_MBPS} Mbit/s, no data lost on the way"))
            .number("rtt_ms", "RTT", "ms", 0)
            .number("ack_loss_percent", "ACKs lost", "%", 0)
            .text("stack", "stack"),
    );
    let mut checks = Vec::new();
    for (((rtt, loss), _), runs) in
        cells.iter().step_by(STACKS.len()).zip(runs.chunks(STACKS.len()))
    {
        let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
        for (stack, flow) in STACKS.iter().zip(&flows) {
            let front = [(*rtt).into(), (*loss).into(), stack.label.into()];
            table.row(summary::row(front, flow));
        }
        let rivals = flows[1..].iter().map(|flow| flow.goodput_mbps);
        let share = 100.0 * flows[0].goodput_mbps / rivals.fold(f64::NEG_INFINITY, f64::max);
        let what = format!("{rtt} ms, {loss} % of ACKs lost: TACK, of the best rival");
        checks.push(Check::at_least(what, share, "%", TARGET));
    }
    Ok(Findings {
        parameters: json!({
            "rate_mbps": RATE_MBPS,
            "buffer": "one BDP, 10 ms at least",
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table],
        plots: Vec::new(),
        checks,
        notes: vec![
            "The handshake, which loses packets of the client as well, is not counted."
                .to_owned(),
        ],
    })
}
