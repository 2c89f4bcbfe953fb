//! Short transfers over fresh connections, where start-up is all there is.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::completion::{Completions, completions, later_percent};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Plot, Series, Table};
use crate::sim::{Flow, Load, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "short-flows",
    title: "Short flows",
    question: "Do few ACKs delay short transfers, in the median and in the worst of a hundred?",
    paper: "Section VI-D: per-packet ACKs in start-up remove the side effect that rare ones may \
            have on short flows.",
    measure,
};

/// What our transport parameters, some 20 bytes of the first packets, take on the wire: later by so
/// much is not later.
const PARAMETERS_PERCENT: f64 = 0.1;
const RATE_MBPS: u32 = 50;
const BYTES: [u64; 3] = [10_000, 100_000, 1_000_000];
const STACKS: [Contender; 4] =
    [Contender::TACK, Contender::QUICHE_CUBIC, Contender::QUICHE_BBR, Contender::QUINN];
/// Plain quiche among them.
const PLAIN: [usize; 2] = [1, 2];
/// Longer than any of these transfers takes that will ever end.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Case {
    bytes: u64,
    loss_percent: f64,
    rtt_ms: u64,
}

impl Case {
    fn size(self) -> String {
        match self.bytes {
            bytes if bytes >= 1_000_000 => format!("{} MB", bytes / 1_000_000),
            bytes => format!("{} kB", bytes / 1000),
        }
    }
}

/// The transfers of a case.
struct CaseTimes<'a> {
    case: Case,
    /// In the order of the stacks.
    times: &'a [Completions],
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(200, 100);
    let losses = context.pick(vec![0.0, 1.0, 2.0], vec![0.0, 2.0]);
    let rtts_ms = context.pick(vec![10, 40, 100, 200], vec![10, 100]);
    let cases = cases(&losses, &rtts_ms);
    let cells: Vec<_> =
        cases.iter().flat_map(|case| STACKS.map(|stack| (*case, stack))).collect();
    let times = completions(context, &cells, &seeds, |(case, stack), seed| {
        let loss = case.loss_percent / 100.0;
        let path = PathSpec {
            rtt: Duration::from_millis(case.rtt_ms),
            loss_forward: loss,
            loss_reverse: loss,
        };
        let scenario = Scenario {
            link: LinkSpec::resolve(&format!("pipe:{RATE_MBPS}"))?,
            flows: vec![Flow { load: Load::Bytes(case.bytes), ..stack.flow(path) }],
            duration: PATIENCE,
            warm_up: Duration::ZERO,
            bin: PATIENCE,
            seed,
        };
        Ok((format!("{case:?}, {}", stack.label), scenario))
    })?;
    let by_case: Vec<_> = cases
        .iter()
        .zip(times.chunks(STACKS.len()))
        .map(|(case, times)| CaseTimes { case: *case, times })
        .collect();
    let by_size = || by_case.chunks(by_case.len() / BYTES.len());
    let highest_loss = losses.last().copied().unwrap_or_default();
    Ok(Findings {
        parameters: json!({
            "link": format!("pipe:{RATE_MBPS}"),
            "buffer": "1 BDP, 64 KiB at least",
            "bytes": BYTES,
            "loss_percent_each_way": losses,
            "rtt_ms": rtts_ms,
            "completion": "from the client's first packet, handshake and request included",
        }),
        seeds,
        tables: vec![table(&by_case)],
        plots: by_size().map(|of_size| plot(of_size, highest_loss)).collect(),
        checks: by_size().flat_map(checks).collect(),
        notes: vec![
            "Each transfer has a connection of its own: two round trips go by before the first \
             byte of data."
                .to_owned(),
        ],
    })
}

/// All cases, those of one size behind each other.
fn cases(losses: &[f64], rtts_ms: &[u64]) -> Vec<Case> {
    let mut cases = Vec::new();
    for bytes in BYTES {
        for &loss_percent in losses {
            cases.extend(rtts_ms.iter().map(|&rtt_ms| Case { bytes, loss_percent, rtt_ms }));
        }
    }
    cases
}

fn table(by_case: &[CaseTimes<'_>]) -> Table {
    let mut table = Table::new("From the client's first packet to the last byte")
        .text("size", "size")
        .number("loss_percent", "loss", "%", 0)
        .number("rtt_ms", "RTT", "ms", 0)
        .text("stack", "stack")
        .number("median_ms", "median", "ms", 1)
        .number("p99_ms", "p99", "ms", 1)
        .number("tack_median_percent", "TACK's median later by", "%", 1)
        .number("tack_p99_percent", "p99 by", "%", 1);
    for CaseTimes { case, times } in by_case {
        let tack = &times[0];
        for (index, (stack, time)) in STACKS.iter().zip(*times).enumerate() {
            let compared = |later: f64| (index > 0).then_some(later);
            table.row([
                case.size().into(),
                case.loss_percent.into(),
                case.rtt_ms.into(),
                stack.label.into(),
                time.median().into(),
                time.p99().into(),
                compared(later_percent(tack.median(), time.median())).into(),
                compared(later_percent(tack.p99(), time.p99())).into(),
            ]);
        }
    }
    table
}

/// Of the cases of one size: the one in which TACK is latest, against each plain quiche.
fn checks(of_size: &[CaseTimes<'_>]) -> Vec<Check> {
    let mut checks = Vec::new();
    for over in PLAIN {
        for (what, value) in MEASURES {
            let later =
                |times: &[Completions]| later_percent(value(&times[0]), value(&times[over]));
            let cells = of_size.iter().map(|cell| (later(cell.times), cell.case));
            let Some((worst, case)) = cells.max_by(|one, other| one.0.total_cmp(&other.0))
            else {
                continue;
            };
            checks.push(Check::at_most(
                format!(
                    "{}: {what} later than {}, worst of {} cells ({} % loss, {} ms)",
                    case.size(),
                    STACKS[over].label,
                    of_size.len(),
                    case.loss_percent,
                    case.rtt_ms
                ),
                worst,
                "%",
                PARAMETERS_PERCENT,
            ));
        }
    }
    checks
}

/// Of the cases of one size: those with the highest loss.
fn plot(of_size: &[CaseTimes<'_>], highest_loss: f64) -> Plot {
    let series = STACKS.iter().enumerate().map(|(index, stack)| {
        let lossy = of_size.iter().filter(|cell| cell.case.loss_percent >= highest_loss);
        let points =
            lossy.filter_map(|cell| Some((cell.case.rtt_ms as f64, cell.times[index].p99()?)));
        Series::measured(stack.label, stack.colour, points.collect())
    });
    Plot::new(
        format!("99th percentile of {} at {highest_loss} % loss", of_size[0].case.size()),
        Axis::linear("RTT, ms"),
        Axis::linear("completion, ms"),
        Chart::Lines { series: series.collect() },
    )
}

type Measure = (&'static str, fn(&Completions) -> Option<f64>);
const MEASURES: [Measure; 2] =
    [("TACK's median", Completions::median), ("TACK's p99", Completions::p99)];
