//! Appendix C: two flows whose paths differ in length.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::statistics::{jain, median};
use super::summary::median_flow;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Colour, Plot, Table};
use crate::sim::{FlowReport, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rtt-fairness",
    title: "Two flows with different round-trip times",
    question: "How do two flows of one kind share a bottleneck when one path is twice as long?",
    paper: "Appendix C: RTT fairness of TACK is similar to that of legacy BBR.",
    measure,
};

const RTTS_MS: [u64; 2] = [30, 60];
const RATE_MBPS: f64 = 40.0;
const BUFFER_BDP: f64 = 2.0;
const STACKS: [Contender; 5] = [
    Contender::TACK,
    Contender::EVERY_SECOND,
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
];

/// Places of those in [`STACKS`] that are compared with each other.
const TACK: usize = 0;
const QUICHE_BBR: usize = 2;

/// The two flows of a stack.
struct Measured {
    /// Medians over the seeds, on the path of 30 ms.
    short: FlowReport,
    /// The same on the path of 60 ms.
    long: FlowReport,
    /// Goodput at 60 ms over that at 30 ms.
    long_over_short: Option<f64>,
    jain: Option<f64>,
}

impl Measured {
    fn new(runs: &[ScenarioReport]) -> Self {
        Self {
            short: median_flow(runs, 0),
            long: median_flow(runs, 1),
            long_over_short: median(
                runs.iter().map(|run| run.flows[1].goodput_mbps / run.flows[0].goodput_mbps),
            ),
            jain: median(runs.iter().filter_map(|run| {
                jain(&[run.flows[0].goodput_mbps, run.flows[1].goodput_mbps])
            })),
        }
    }
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 3);
    let duration = Duration::from_secs(context.pick(120, 40));
    let warm_up = Duration::from_secs(10);
    let runs = context.simulate(&STACKS, &seeds, |stack, seed| {
        let flow = |rtt_ms| stack.flow(PathSpec::with_rtt(Duration::from_millis(rtt_ms)));
        let scenario = Scenario {
            link: pipe(RATE_MBPS, BUFFER_BDP)?,
            flows: RTTS_MS.map(flow).to_vec(),
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        Ok((stack.label.to_owned(), scenario))
    })?;
    let measured: Vec<_> = runs.iter().map(|runs| Measured::new(runs)).collect();
    Ok(Findings {
        parameters: json!({
            "rate_mbps": RATE_MBPS,
            "rtt_ms": RTTS_MS,
            "buffer_bdp": BUFFER_BDP,
            "buffer_bdp_of_ms": RTTS_MS[1],
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(&measured)],
        plots: vec![plot(&measured)],
        checks: checks(&measured),
        notes: vec![
            "BBR favours the longer path where the buffer is deep, CUBIC the shorter one."
                .to_owned(),
        ],
    })
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new("Two flows of one kind, 30 and 60 ms")
        .text("stack", "stack")
        .number("short_mbps", "30 ms", "Mbit/s", 2)
        .number("long_mbps", "60 ms", "Mbit/s", 2)
        .number("long_over_short", "60 ms / 30 ms", "", 2)
        .number("jain", "Jain", "", 3)
        .number("queue_p95_ms", "queue p95", "ms", 1)
        .number("lost", "lost", "", 0);
    for (stack, of) in STACKS.iter().zip(measured) {
        table.row([
            stack.label.into(),
            of.short.goodput_mbps.into(),
            of.long.goodput_mbps.into(),
            of.long_over_short.into(),
            of.jain.into(),
            of.short.queue_p95_ms.into(),
            (of.short.lost + of.long.lost).into(),
        ]);
    }
    table
}

fn plot(measured: &[Measured]) -> Plot {
    let short = measured.iter().map(|of| Some(of.short.goodput_mbps));
    let long = measured.iter().map(|of| Some(of.long.goodput_mbps));
    Plot::new(
        "Goodput of two flows on 40 Mbit/s",
        Axis::linear(""),
        Axis::linear("goodput, Mbit/s"),
        Chart::Bars {
            groups: STACKS.map(|stack| stack.label.to_owned()).to_vec(),
            series: vec![
                BarSeries::measured("30 ms", Colour::Blue, short),
                BarSeries::measured("60 ms", Colour::Orange, long),
            ],
        },
    )
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let tack = measured[TACK].long_over_short;
    let bbr = measured[QUICHE_BBR].long_over_short;
    let shown = |value: Option<f64>| value.map_or("none".into(), |value| format!("{value:.2}"));
    // How far a ratio is from equal shares, whoever has the larger one.
    let unfairness = |ratio: Option<f64>| ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
    let smaller_share = tack.map_or(f64::NAN, |ratio| ratio.min(1.0) / (1.0 + ratio));
    vec![
        Check::paper_or_better(
            "TACK: goodput at 60 ms over that at 30 ms",
            shown(tack),
            format!(
                "similar to legacy BBR (quiche BBR2 here: {}): within a quarter",
                shown(bbr)
            ),
            tack.zip(bbr).is_some_and(|(tack, bbr)| agrees(tack, bbr)),
            unfairness(tack) < unfairness(bbr),
        ),
        Check::at_least("TACK: the smaller of both shares", 100.0 * smaller_share, "%", 30.0),
    ]
}

/// Whether two flows of a kind share like two of another: a quarter more or less, and for the same one of them.
fn agrees(ratio: f64, other: f64) -> bool {
    (ratio.ln() - other.ln()).abs() <= 0.25
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_favours_the_other_path_does_not_share_alike() {
        assert!(agrees(1.2, 1.3) && agrees(0.9, 1.1));
        assert!(!agrees(0.75, 1.3), "as unequal, the other way round");
    }
}
