//! Figure 14(b): what happens to real stacks when their ACKs are thinned.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;
use tack_link::emulation::{self, Emulation};
use tack_link::wlan::{Parameters, Profile};

use super::links::{udp_baseline, wlan};
use super::statistics::median;
use super::summary::{self, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Colour, Plot, Table};
use crate::sim::{Acks, FlowReport, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig14b",
    title: "Thinning ACKs of real stacks",
    question: "Does goodput grow as ideally when a real stack acknowledges only every L-th packet?",
    paper: "Figure 14(b), n, 80 ms, no loss: TCP BBR reaches 151, 154, 98, 25 and 0 Mbit/s with L = \
            1, 2, 4, 8 and 16, TACK 191. (Ideally 152, 162, 175, 182, 188 and 198.)",
    measure,
};

const RTT: Duration = Duration::from_millis(80);
/// ACKs in the smallest round-trip time.
const TACK_BETA: f64 = 4.0;
const LOSSES: [f64; 2] = [0.0, 0.001];
const PAPER_MBPS: [f64; 6] = [151.0, 154.0, 98.0, 25.0, 0.0, 191.0];
/// Goodput that is about none, where 150 Mbit/s and more are possible.
const NONE_MBPS: f64 = 5.0;
const GROUPS: [&str; 6] = ["L = 1", "L = 2", "L = 4", "L = 8", "L = 16", "TACK"];
/// Every L-th packet with our stack, then TACK; then quinn.
const STACKS: [Contender; 11] = [
    Contender::EVERY_PACKET,
    Contender::EVERY_SECOND,
    Contender::TACK.acknowledging("tacklib L=4", Acks::Every(4)),
    Contender::TACK.acknowledging("tacklib L=8", Acks::Every(8)),
    Contender::TACK.acknowledging("tacklib L=16", Acks::Every(16)),
    Contender::TACK,
    Contender::QUINN.acknowledging("quinn L=1", Acks::Every(1)),
    Contender::QUINN.acknowledging("quinn L=2", Acks::Every(2)),
    Contender::QUINN.acknowledging("quinn L=4", Acks::Every(4)),
    Contender::QUINN.acknowledging("quinn L=8", Acks::Every(8)),
    Contender::QUINN.acknowledging("quinn L=16", Acks::Every(16)),
];

/// Places in [`STACKS`].
const EVERY_SECOND: usize = 1;
const TACK_L16: usize = 4;
const TACK: usize = 5;
const QUINN_L16: usize = 10;
/// The first flow with losses.
const LOSSY: usize = STACKS.len();

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 8));
    let warm_up = Duration::from_secs(context.pick(5, 3));
    let cells: Vec<_> =
        LOSSES.iter().flat_map(|loss| STACKS.map(|stack| (*loss, stack))).collect();
    let runs = context.simulate(&cells, &seeds, |(loss, stack), seed| {
        let path = PathSpec { rtt: RTT, loss_forward: *loss, loss_reverse: *loss };
        let scenario = Scenario {
            link: wlan(Profile::N)?,
            flows: vec![stack.flow(path)],
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        Ok((format!("{}, loss {loss}", stack.label), scenario))
    })?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
    let ideal_mbps = ideal_mbps(context, &seeds)?;
    Ok(Findings {
        parameters: json!({
            "profile": "n",
            "rtt_ms": RTT.as_millis() as u64,
            "loss": LOSSES,
            "loss_direction": "both",
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(&cells, &flows)],
        plots: vec![plot(&flows)],
        checks: checks(&flows, ideal_mbps),
        notes: notes(),
    })
}

/// Goodput of UDP that is acknowledged at TACK's frequency, equation (4).
fn ideal_mbps(context: &Context, seeds: &[u64]) -> Result<f64, Error> {
    // The tool has no congestion control: nothing reacts to anything.
    let tack_hz = emulation::Acks::Hz(TACK_BETA / RTT.as_secs_f64());
    let runs = context.each(&[tack_hz], seeds, |acks, seed| {
        let emulation = Emulation::new(Parameters::from(Profile::N));
        Ok(Emulation { acks: *acks, seed, ..emulation }.run()?.goodput_mbps)
    })?;
    Ok(median(runs.into_iter().flatten()).unwrap_or(f64::NAN))
}

fn table(cells: &[(f64, Contender)], flows: &[FlowReport]) -> Table {
    let mut table = summary::columns(
        Table::new("802.11n, RTT 80 ms")
            .number("loss_percent", "loss", "%", 1)
            .text("stack", "stack"),
    );
    for ((loss, stack), flow) in cells.iter().zip(flows) {
        table.row(summary::row([(loss * 100.0).into(), stack.label.into()], flow));
    }
    table
}

fn plot(flows: &[FlowReport]) -> Plot {
    let goodputs = |from: usize, count: usize| {
        flows[from..from + count].iter().map(|flow| Some(flow.goodput_mbps))
    };
    Plot::new(
        "Goodput on 802.11n at 80 ms",
        Axis::linear("data packets per ACK"),
        Axis::linear("goodput, Mbit/s"),
        Chart::Bars {
            groups: GROUPS.map(str::to_owned).to_vec(),
            series: vec![
                BarSeries::measured("tacklib", Colour::Blue, goodputs(0, 6)),
                BarSeries::measured("tacklib, 0.1 % loss", Colour::Sky, goodputs(LOSSY, 6)),
                BarSeries::measured("quinn CUBIC", Colour::Green, goodputs(6, 5)),
                BarSeries::measured(
                    "quinn CUBIC, 0.1 % loss",
                    Colour::Pink,
                    goodputs(LOSSY + 6, 5),
                ),
                BarSeries::reference("paper, TCP", Colour::Grey, PAPER_MBPS.map(Some)),
            ],
        },
    )
}

fn checks(flows: &[FlowReport], ideal_mbps: f64) -> Vec<Check> {
    let mbps = |at: usize| flows[at].goodput_mbps;
    let gain = summary::gain_percent(mbps(TACK), mbps(EVERY_SECOND));
    let paper_gain = summary::gain_percent(PAPER_MBPS[TACK], PAPER_MBPS[EVERY_SECOND]);
    let udp_mbps = flows[TACK].utilisation * udp_baseline(Profile::N);
    vec![
        Check::paper_or_better(
            "TACK",
            format!("{:.1} Mbit/s", mbps(TACK)),
            format!("{:.0} Mbit/s", PAPER_MBPS[TACK]),
            (mbps(TACK) / PAPER_MBPS[TACK] - 1.0).abs() < 0.03,
            mbps(TACK) > PAPER_MBPS[TACK],
        ),
        summary::gain_check("TACK over L = 2", gain, (paper_gain, "")),
        Check::paper(
            "TACK is faster than any L, at either loss",
            format!("{:.1} and {:.1} Mbit/s", mbps(TACK), mbps(LOSSY + TACK)),
            "faster",
            [0, LOSSY].into_iter().all(|from| {
                (0..STACKS.len()).all(|at| at == TACK || mbps(from + at) <= mbps(from + TACK))
            }),
        ),
        Check::paper(
            "L = 16 without TACK's other mechanisms",
            format!("tacklib {:.1}, quinn {:.1} Mbit/s", mbps(TACK_L16), mbps(QUINN_L16)),
            "about 0 Mbit/s",
            mbps(TACK_L16).max(mbps(QUINN_L16)) < NONE_MBPS,
        ),
        Check::at_least(
            format!(
                "TACK's UDP payload of the ideal {ideal_mbps:.1} Mbit/s at 50 ACKs a second"
            ),
            100.0 * udp_mbps / ideal_mbps,
            "%",
            98.0,
        ),
    ]
}

fn notes() -> Vec<String> {
    vec![
        "quinn is asked for every L-th packet by its ACK-frequency extension, and acknowledges \
         once what arrives at one time; tacklib with L sends an ACK for every L-th packet even \
         then. Plain quiche has no setting for it."
            .to_owned(),
        "Here the medium is clean, and TACK sends fewer ACKs than the paper's: its goodput agrees \
         if it is within 3 % of the paper's."
            .to_owned(),
        "A QUIC sender that paces does not collapse with rare ACKs as the paper's TCP did: with L = 16 \
         it has its goodput, and differs from the paper."
            .to_owned(),
    ]
}
