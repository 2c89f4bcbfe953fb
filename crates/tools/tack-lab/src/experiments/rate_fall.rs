//! Paths that become slower in front of a buffer too short to show it by delay.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::statistics::median;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Colour, Table};
use crate::sim::{FlowReport, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rate-fall",
    title: "A fall of the rate in front of a shallow buffer",
    question: "A path becomes slower, and its buffer drops what is too much before delay shows it: how \
               much does a sender lose that takes no single loss for congestion?",
    paper: "Section VII-D lets the rate halve in front of a deep buffer; the paper shows no fall that packets are \
            lost by.",
    measure,
};

/// Rate before and behind the fall in Mbit/s, round trip in ms, buffer in bytes.
const FALLS: [(f64, f64, u64, u64); 5] = [
    (50.0, 15.0, 40, 12_000),
    (50.0, 5.0, 40, 6_000),
    (10.0, 2.0, 40, 6_000),
    (50.0, 5.0, 200, 15_000),
    (50.0, 5.0, 200, 30_000),
];
const FALL_S: f64 = 8.0;
const END_S: f64 = 30.0;
/// Goodput counts from then on: what is in flight when the path becomes slower has arrived.
const SETTLED_S: f64 = FALL_S + 1.0;
const BIN: Duration = Duration::from_secs(1);

const STACKS: [Contender; 5] = [
    Contender::TACK,
    Contender::TACK_VIDEO.coloured(Colour::Sky),
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
];
const BBR: usize = 2;

/// Of what quiche's BBRv2 sends again behind the fall.
const MOST_RESENT: f64 = 1.5;
/// Of its goodput behind the fall, percent.
const LEAST_PERCENT: f64 = 98.0;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let cells: Vec<_> =
        FALLS.iter().flat_map(|fall| STACKS.map(|stack| (*fall, stack))).collect();
    let runs = context.simulate(&cells, &seeds, |((from, to, rtt, buffer), stack), seed| {
        let scenario = Scenario {
            link: link(*from, *to, *buffer)?,
            flows: vec![stack.flow(PathSpec::with_rtt(Duration::from_millis(*rtt)))],
            duration: Duration::from_secs_f64(END_S),
            warm_up: Duration::ZERO,
            bin: BIN,
            seed,
        };
        Ok((
            format!("{from} to {to} Mbit/s, {rtt} ms, {buffer} bytes, {}", stack.label),
            scenario,
        ))
    })?;

    let mut table = Table::new("Behind the fall")
        .number("from_mbps", "from", "Mbit/s", 0)
        .number("to_mbps", "to", "Mbit/s", 0)
        .number("rtt_ms", "RTT", "ms", 0)
        .number("buffer_bytes", "buffer", "bytes", 0)
        .text("stack", "stack")
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("resent", "packets sent again", "", 0)
        .number("resent_last_10s", "of these in the last 10 s", "", 0);
    let mut checks = Vec::new();
    for ((fall, _), runs) in cells.iter().step_by(STACKS.len()).zip(runs.chunks(STACKS.len())) {
        let (from, to, rtt, buffer) = *fall;
        let of = |value: fn(&FlowReport) -> f64| -> Vec<f64> {
            let flows = |index: usize| runs[index].iter().filter_map(|run| run.flows.first());
            (0..STACKS.len())
                .map(|index| median(flows(index).map(value)).unwrap_or(f64::NAN))
                .collect()
        };
        let goodput = of(|flow| goodput_from(flow, SETTLED_S));
        let resent = of(|flow| resent_from(flow, FALL_S));
        let late = of(|flow| resent_from(flow, END_S - 10.0));
        for (index, stack) in STACKS.iter().enumerate() {
            table.row([
                from.into(),
                to.into(),
                rtt.into(),
                buffer.into(),
                stack.label.into(),
                goodput[index].into(),
                resent[index].into(),
                late[index].into(),
            ]);
        }
        for index in 0..BBR {
            let what = format!(
                "{from} to {to} Mbit/s, {rtt} ms, {buffer} bytes: {}",
                STACKS[index].label
            );
            checks.push(Check::at_most(
                format!("{what}, sent again, of what quiche's BBRv2 does"),
                resent[index] / resent[BBR],
                "",
                MOST_RESENT,
            ));
            checks.push(Check::at_least(
                format!("{what}, goodput of quiche's BBRv2"),
                100.0 * goodput[index] / goodput[BBR],
                "%",
                LEAST_PERCENT,
            ));
        }
    }
    Ok(Findings {
        parameters: json!({
            "fall_s": FALL_S,
            "duration_s": END_S,
            "goodput_from_s": SETTLED_S,
        }),
        seeds,
        tables: vec![table],
        plots: Vec::new(),
        checks,
        notes: vec![
            "What leaves in the round trip in which the path becomes slower is lost whoever sends. CUBIC sends no \
             more than is acknowledged; a BBR paces on until losses have taken its rate down."
                .to_owned(),
        ],
    })
}

fn link(from: f64, to: f64, buffer: u64) -> Result<LinkSpec, Error> {
    let toml = format!(
        "[[hop]]\nkind = \"pipe\"\nbuffer_bytes = {buffer}\n\
         rate_trace = {{ steps = [[0, {from:?}], [{FALL_S:?}, {to:?}]] }}\n"
    );
    Ok(LinkSpec::from_toml(&toml, "fall of the rate")?)
}

/// Mean from that second on, Mbit/s.
fn goodput_from(flow: &FlowReport, from: f64) -> f64 {
    let bins = || flow.timeline.iter().filter(|bin| bin.at >= from);
    bins().map(|bin| bin.goodput_mbps).sum::<f64>() / bins().count() as f64
}

/// Packets that were sent again from that second on.
fn resent_from(flow: &FlowReport, from: f64) -> f64 {
    let bins = flow.timeline.iter().filter(|bin| bin.at >= from);
    bins.map(|bin| bin.repeated).sum::<u64>() as f64
}
