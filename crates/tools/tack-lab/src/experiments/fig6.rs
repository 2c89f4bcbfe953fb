//! Figure 6: loss recovery on a path that loses packets and acknowledgements.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::summary::{self, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{FlowReport, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig6",
    title: "Losses in both directions",
    question: "How much of a long path is used when it loses 1 % of the data and more and more \
               of the ACKs?",
    paper: "Figure 6(b), RTT 200 ms, data loss 1 %, ACK loss 0.2, 1, 5 and 10 %: utilisation of \
            92.7, 91.8, 91.6, 90.8 % with rich TACKs; 78.3, 75.9, 63.4, 60.6 % with poor ones \
            (one gap each); 91.7, 91.6, 80.2, 65.3 % with TCP BBR.",
    measure,
};

const RTT: Duration = Duration::from_millis(200);
const RATE_MBPS: f64 = 50.0;
const LOSS: f64 = 0.01;
const ACK_LOSS_PERCENT: [f64; 5] = [0.2, 1.0, 5.0, 10.0, 30.0];
const PAPER_RICH: [f64; 4] = [92.7, 91.8, 91.6, 90.8];
const PAPER_POOR: [f64; 4] = [78.3, 75.9, 63.4, 60.6];
const PAPER_BBR: [f64; 4] = [91.7, 91.6, 80.2, 65.3];
const STACKS: [Contender; 7] = [
    Contender::TACK,
    Contender::TACK_POOR,
    Contender::EVERY_SECOND,
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
    Contender::QUINN_TENTH,
];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 20));
    let warm_up = Duration::from_secs(5);
    let cells: Vec<_> =
        STACKS.iter().flat_map(|stack| ACK_LOSS_PERCENT.map(|loss| (*stack, loss))).collect();
    let runs = context.simulate(&cells, &seeds, |(stack, ack_loss), seed| {
        let path = PathSpec { rtt: RTT, loss_forward: LOSS, loss_reverse: ack_loss / 100.0 };
        let scenario = Scenario {
            link: pipe(RATE_MBPS, 1.0)?,
            flows: vec![stack.flow(path)],
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        Ok((format!("{}, ACK loss {ack_loss} %", stack.label), scenario))
    })?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
    Ok(Findings {
        parameters: json!({
            "rate_mbps": RATE_MBPS,
            "rtt_ms": RTT.as_millis() as u64,
            "buffer_bdp": 1.0,
            "data_loss": LOSS,
            "ack_loss_percent": ACK_LOSS_PERCENT,
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(&cells, &flows)],
        plots: vec![plot(&flows)],
        checks: checks(&flows),
        notes: notes(),
    })
}

/// Utilisation of the stack at an index, percent, by ACK loss.
fn utilisation(flows: &[FlowReport], stack: usize) -> [f64; 5] {
    let flows = &flows[stack * ACK_LOSS_PERCENT.len()..];
    // Of use is what arrives for the first time: a link full of repetitions is not utilised.
    std::array::from_fn(|at| flows[at].goodput_mbps / RATE_MBPS * 100.0)
}

fn table(cells: &[(Contender, f64)], flows: &[FlowReport]) -> Table {
    let mut table = summary::columns(
        Table::new("RTT 200 ms, 1 % of the data lost")
            .text("stack", "stack")
            .number("ack_loss_percent", "ACK loss", "%", 1)
            .number("utilisation_percent", "utilisation", "%", 1)
            .number("link_used_percent", "link", "%", 1)
            .number("iacks", "IACKs", "", 0)
            .number("hol_blocked_p95_kb", "blocked p95", "kB", 0),
    );
    for ((stack, ack_loss), flow) in cells.iter().zip(flows) {
        let blocked = flow.hol_blocked_bytes_p95.map(|bytes| bytes / 1e3);
        let front = [
            stack.label.into(),
            (*ack_loss).into(),
            (flow.goodput_mbps / RATE_MBPS * 100.0).into(),
            (flow.utilisation * 100.0).into(),
            flow.iacks.into(),
            blocked.into(),
        ];
        table.row(summary::row(front, flow));
    }
    table
}

fn plot(flows: &[FlowReport]) -> Plot {
    let points =
        |values: &[f64]| ACK_LOSS_PERCENT.into_iter().zip(values.iter().copied()).collect();
    let measured = STACKS.iter().enumerate().map(|(index, stack)| {
        Series::measured(stack.label, stack.colour, points(&utilisation(flows, index)))
    });
    let mut series: Vec<_> = measured.collect();
    series.extend([
        Series::reference("paper, rich", Colour::Blue, points(&PAPER_RICH)),
        Series::reference("paper, poor", Colour::Grey, points(&PAPER_POOR)),
        Series::reference("paper, TCP BBR", Colour::Orange, points(&PAPER_BBR)),
    ]);
    Plot::new(
        "Utilisation by ACK loss",
        Axis::log("ACK loss, %"),
        Axis::linear("utilisation, %"),
        Chart::Lines { series },
    )
}

fn checks(flows: &[FlowReport]) -> Vec<Check> {
    let (rich, poor) = (utilisation(flows, 0), utilisation(flows, 1));
    let listed = |values: &[f64]| {
        let values: Vec<_> = values.iter().map(|value| format!("{value:.1}")).collect();
        values.join(", ") + " %"
    };
    // Up to 10 % of ACK loss, as in the paper.
    let worst = rich[..4].iter().copied().fold(f64::NAN, f64::min);
    let near = |seen: &[f64], paper: &[f64]| {
        seen.iter().zip(paper).all(|(seen, paper)| (seen - paper).abs() <= 3.0)
    };
    vec![
        Check::paper_or_better(
            "rich TACKs: utilisation by ACK loss",
            listed(&rich[..4]),
            listed(&PAPER_RICH),
            near(&rich, &PAPER_RICH),
            rich.iter().zip(PAPER_RICH).all(|(seen, paper)| *seen > paper - 3.0),
        ),
        Check::paper(
            "rich TACKs hardly notice 10 % of ACK loss",
            format!("{:+.1} points from 0.2 to 10 %", rich[3] - rich[0]),
            format!("{:+.1} points", PAPER_RICH[3] - PAPER_RICH[0]),
            ((rich[3] - rich[0]) - (PAPER_RICH[3] - PAPER_RICH[0])).abs() < 3.0,
        ),
        Check::paper(
            "poor TACKs: utilisation by ACK loss",
            listed(&poor[..4]),
            listed(&PAPER_POOR),
            near(&poor, &PAPER_POOR),
        ),
        Check::at_least("TACK at 0.2 to 10 % of ACK loss", worst, "%", 93.0),
        Check::at_most(
            "TACK's fall from 0.2 to 10 % of ACK loss",
            rich[0] - rich[3],
            "points",
            2.0,
        ),
        Check::at_least("TACK at 30 % of ACK loss", rich[4], "%", 88.0),
    ]
}

fn notes() -> Vec<String> {
    vec![
        "Utilisation is goodput as a share of the rate, of which headers take 4 %; \"link\" \
         counts what is sent twice too. The paper does not say what the rate of its path was."
            .to_owned(),
        "Poor TACKs use less of the path than the paper's. One here acknowledges what came before \
         the oldest missing bytes and the packet right behind them; all that came later stays \
         unacknowledged until the gap is filled. The paper does not say what its poor TACKs \
         acknowledge beside one gap. `agrees` is within 3 points of each value of the paper."
            .to_owned(),
        "ACK frames of QUIC repeat what earlier ones said, within limits: plain stacks \
         suffer less from lost ACKs than TCP with its three or four SACK blocks."
            .to_owned(),
    ]
}
