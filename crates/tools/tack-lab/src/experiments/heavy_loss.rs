//! Transfers over paths that lose a tenth of all packets and more.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::completion::{Completions, completions, later_percent};
use super::links::pipe;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Plot, Series, Table};
use crate::sim::{Flow, Load, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "heavy-loss",
    title: "Heavy losses in both directions",
    question: "Do transfers complete, and how soon, when 10 to 30 % of all packets are lost in \
               both directions?",
    paper: "Section V-B: TACKs that repeat what they report withstand losses in both directions; \
            the paper's figures end at 10 %.",
    measure,
};

const RATE_MBPS: f64 = 20.0;
const RTT: Duration = Duration::from_millis(40);
const LOSS_PERCENT: [f64; 3] = [10.0, 20.0, 30.0];
const STACKS: [Contender; 5] = [
    Contender::TACK,
    Contender::EVERY_SECOND,
    Contender::QUICHE_CUBIC,
    Contender::QUICHE_BBR,
    Contender::QUINN,
];
/// CUBIC at 30 % of loss is left with a few packets in a round trip.
const PATIENCE: Duration = Duration::from_secs(600);

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(11, 3);
    let bytes = context.pick(5_000_000, 2_000_000);
    let cells: Vec<_> =
        LOSS_PERCENT.iter().flat_map(|loss| STACKS.map(|stack| (*loss, stack))).collect();
    let times = completions(context, &cells, &seeds, |(loss_percent, stack), seed| {
        let loss = loss_percent / 100.0;
        let path = PathSpec { rtt: RTT, loss_forward: loss, loss_reverse: loss };
        let scenario = Scenario {
            link: pipe(RATE_MBPS, 1.0)?,
            flows: vec![Flow { load: Load::Bytes(bytes), ..stack.flow(path) }],
            duration: PATIENCE,
            warm_up: Duration::ZERO,
            bin: PATIENCE,
            seed,
        };
        Ok((format!("{loss_percent} %, {}", stack.label), scenario))
    })?;
    let megabytes = bytes / 1_000_000;
    let by_loss = || LOSS_PERCENT.into_iter().zip(times.chunks(STACKS.len()));
    Ok(Findings {
        parameters: json!({
            "rate_mbps": RATE_MBPS,
            "rtt_ms": RTT.as_millis() as u64,
            "buffer_bdp": 1.0,
            "loss_percent_each_way": LOSS_PERCENT,
            "bytes": bytes,
            "given_up_after_s": PATIENCE.as_secs(),
        }),
        seeds,
        tables: vec![table(megabytes, by_loss())],
        plots: vec![plot(megabytes, &times)],
        checks: by_loss().flat_map(|(loss, times)| checks(loss, times)).collect(),
        notes: vec![
            "The client compares every byte with what was sent; a wrong one ends the experiment."
                .to_owned(),
        ],
    })
}

fn seconds(ms: Option<f64>) -> Option<f64> {
    ms.map(|ms| ms / 1e3)
}

/// How much later TACK is than the stack at a place of [`STACKS`], percent.
fn tack_later_percent(times: &[Completions], than: usize) -> f64 {
    later_percent(times[0].median(), times[than].median())
}

fn table<'a>(megabytes: u64, by_loss: impl Iterator<Item = (f64, &'a [Completions])>) -> Table {
    let title = format!("{megabytes} MB from the client's first packet to the last byte");
    let mut table = Table::new(title)
        .number("loss_percent", "loss each way", "%", 0)
        .text("stack", "stack")
        .number("complete_percent", "complete", "%", 0)
        .number("median_s", "median", "s", 2)
        .number("longest_s", "longest", "s", 2)
        .number("tack_later_percent", "TACK's median later by", "%", 1);
    for (loss, times) in by_loss {
        for (index, (stack, time)) in STACKS.iter().zip(times).enumerate() {
            table.row([
                loss.into(),
                stack.label.into(),
                time.complete_percent().into(),
                seconds(time.median()).into(),
                seconds(time.longest()).into(),
                (index > 0).then(|| tack_later_percent(times, index)).into(),
            ]);
        }
    }
    table
}

/// Of the times of all stacks at one loss.
fn checks(loss: f64, times: &[Completions]) -> Vec<Check> {
    let what = format!("{loss} % each way: TACK's transfers that complete, every byte right");
    let mut checks = vec![Check::at_least(what, times[0].complete_percent(), "%", 100.0)];
    // The fastest of the others.
    let later = |at: usize| tack_later_percent(times, at);
    let others = 2..STACKS.len();
    if let Some(over) = others.max_by(|one, other| later(*one).total_cmp(&later(*other))) {
        let what = format!("{loss} % each way: TACK later than {}", STACKS[over].label);
        checks.push(Check::at_most(what, later(over), "%", 0.0));
    }
    checks
}

fn plot(megabytes: u64, times: &[Completions]) -> Plot {
    let series = STACKS.iter().enumerate().map(|(index, stack)| {
        let points = LOSS_PERCENT.iter().zip(times.chunks(STACKS.len()));
        let points =
            points.filter_map(|(loss, times)| Some((*loss, seconds(times[index].median())?)));
        Series::measured(stack.label, stack.colour, points.collect())
    });
    Plot::new(
        format!("Median time for {megabytes} MB"),
        Axis::linear("loss each way, %"),
        Axis::log("completion, s"),
        Chart::Lines { series: series.collect() },
    )
}
