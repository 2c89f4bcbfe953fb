//! Paths that become slower in front of a buffer too short to show it by delay.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::statistics::median;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Colour, Table};
use crate::sim::{FlowReport, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rate-fall",
    title: "A fall of the rate in front of a shallow buffer",
    question: "A path becomes slower, and its buffer drops what is too much before delay shows it: how \
               much does a sender lose that takes no single loss for congestion?",
    paper: "Section VII-D lets the rate halve in front of a deep buffer; the paper shows no fall that packets are \
            lost by.",
    measure,
};

/// A path that becomes slower.
struct Fall {
    from_mbps: f64,
    to_mbps: f64,
    rtt_ms: u64,
    buffer_bytes: u64,
}

const FALLS: [Fall; 5] = [
    Fall { from_mbps: 50.0, to_mbps: 15.0, rtt_ms: 40, buffer_bytes: 12_000 },
    Fall { from_mbps: 50.0, to_mbps: 5.0, rtt_ms: 40, buffer_bytes: 6_000 },
    Fall { from_mbps: 10.0, to_mbps: 2.0, rtt_ms: 40, buffer_bytes: 6_000 },
    Fall { from_mbps: 50.0, to_mbps: 5.0, rtt_ms: 200, buffer_bytes: 15_000 },
    Fall { from_mbps: 50.0, to_mbps: 5.0, rtt_ms: 200, buffer_bytes: 30_000 },
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
        FALLS.iter().flat_map(|fall| STACKS.iter().map(move |stack| (fall, stack))).collect();
    let runs = context.simulate(&cells, &seeds, |(fall, stack), seed| {
        let path = PathSpec::with_rtt(Duration::from_millis(fall.rtt_ms));
        let scenario = Scenario {
            link: fall.link()?,
            flows: vec![stack.flow(path)],
            duration: Duration::from_secs_f64(END_S),
            warm_up: Duration::ZERO,
            bin: BIN,
            seed,
        };
        Ok((format!("{}, {}", fall.name(), stack.label), scenario))
    })?;
    let effects: Vec<_> = runs.iter().map(|runs| Effect::of(runs)).collect();
    let by_fall = || FALLS.iter().zip(effects.chunks(STACKS.len()));
    Ok(Findings {
        parameters: json!({
            "fall_s": FALL_S,
            "duration_s": END_S,
            "goodput_from_s": SETTLED_S,
        }),
        seeds,
        tables: vec![table(by_fall())],
        plots: Vec::new(),
        checks: by_fall().flat_map(|(fall, effects)| checks(fall, effects)).collect(),
        notes: vec![
            "What leaves in the round trip in which the path becomes slower is lost whoever sends. CUBIC sends no \
             more than is acknowledged; a BBR paces on until losses have taken its rate down."
                .to_owned(),
        ],
    })
}

impl Fall {
    fn name(&self) -> String {
        let Self { from_mbps, to_mbps, rtt_ms, buffer_bytes } = self;
        format!("{from_mbps} to {to_mbps} Mbit/s, {rtt_ms} ms, {buffer_bytes} bytes")
    }

    fn link(&self) -> Result<LinkSpec, Error> {
        let Self { from_mbps, to_mbps, buffer_bytes, .. } = self;
        let toml = format!(
            "[[hop]]\nkind = \"pipe\"\nbuffer_bytes = {buffer_bytes}\n\
             rate_trace = {{ steps = [[0, {from_mbps:?}], [{FALL_S:?}, {to_mbps:?}]] }}\n"
        );
        Ok(LinkSpec::from_toml(&toml, "fall of the rate")?)
    }
}

/// What a stack does behind the fall: medians over the seeds.
struct Effect {
    goodput_mbps: f64,
    resent: f64,
    resent_last_10s: f64,
}

impl Effect {
    fn of(runs: &[ScenarioReport]) -> Self {
        let over = |value: fn(&FlowReport) -> f64| {
            let flows = runs.iter().filter_map(|run| run.flows.first());
            median(flows.map(value)).unwrap_or(f64::NAN)
        };
        Self {
            goodput_mbps: over(|flow| goodput_from(flow, SETTLED_S)),
            resent: over(|flow| resent_from(flow, FALL_S)),
            resent_last_10s: over(|flow| resent_from(flow, END_S - 10.0)),
        }
    }
}

fn table<'a>(by_fall: impl Iterator<Item = (&'a Fall, &'a [Effect])>) -> Table {
    let mut table = Table::new("Behind the fall")
        .number("from_mbps", "from", "Mbit/s", 0)
        .number("to_mbps", "to", "Mbit/s", 0)
        .number("rtt_ms", "RTT", "ms", 0)
        .number("buffer_bytes", "buffer", "bytes", 0)
        .text("stack", "stack")
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("resent", "packets sent again", "", 0)
        .number("resent_last_10s", "of these in the last 10 s", "", 0);
    for (fall, effects) in by_fall {
        for (stack, effect) in STACKS.iter().zip(effects) {
            table.row([
                fall.from_mbps.into(),
                fall.to_mbps.into(),
                fall.rtt_ms.into(),
                fall.buffer_bytes.into(),
                stack.label.into(),
                effect.goodput_mbps.into(),
                effect.resent.into(),
                effect.resent_last_10s.into(),
            ]);
        }
    }
    table
}

/// Of one fall; the effects are in the order of the stacks.
fn checks(fall: &Fall, effects: &[Effect]) -> Vec<Check> {
    let mut checks = Vec::new();
    let bbr = &effects[BBR];
    for (stack, effect) in STACKS.iter().zip(effects).take(BBR) {
        let what = format!("{}: {}", fall.name(), stack.label);
        checks.push(Check::at_most(
            format!("{what}, sent again, of what quiche's BBRv2 does"),
            effect.resent / bbr.resent,
            "",
            MOST_RESENT,
        ));
        checks.push(Check::at_least(
            format!("{what}, goodput of quiche's BBRv2"),
            100.0 * effect.goodput_mbps / bbr.goodput_mbps,
            "%",
            LEAST_PERCENT,
        ));
    }
    checks
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
