//! One TACK flow beside one flow of another kind, on paths that are named.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::links::{pipe, wlan};
use super::statistics::{jain, median};
use super::summary::{goodputs_from, share_from};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::{Flow, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "coexistence",
    title: "Long flows that share a bottleneck",
    question: "What does a long TACK flow leave a flow of another kind, or of its own, on shallow \
               and deep buffers and over Wi-Fi?",
    paper: "Appendix C: friendliness of TACK towards CUBIC and BBR is similar to that of legacy BBR.",
    measure,
};

const RIVALS: [Contender; 4] =
    [Contender::QUICHE_CUBIC, Contender::QUINN, Contender::QUICHE_BBR, Contender::TACK];

/// Rate in Mbit/s, round trip, buffer in BDP; without a rate, a cell of Wi-Fi.
const PATHS: [(Option<f64>, u64, f64); 6] = [
    (Some(50.0), 40, 1.0),
    (Some(50.0), 40, 4.0),
    (Some(20.0), 80, 1.0),
    (Some(20.0), 80, 4.0),
    (Some(100.0), 10, 1.0),
    (None, 20, 0.0),
];

/// What each of two flows should have of what both have, percent.
const FAIR: (f64, f64) = (35.0, 65.0);

/// The other flow begins so much earlier.
const BEFORE: Duration = Duration::from_secs(5);

/// A path of [`PATHS`], the flow that begins later, and the one that is there.
type Cell = ((Option<f64>, u64, f64), Contender, Contender);

/// How long the flows last, and from when after [`BEFORE`] they count.
#[derive(Clone, Copy)]
struct Times {
    duration: Duration,
    warm_up: Duration,
}

impl Times {
    /// From when on both flows count.
    fn counted_from(self) -> Duration {
        BEFORE + self.warm_up
    }
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 3);
    let seeds_of_others = context.seeds(3, 1);
    let times = Times {
        duration: Duration::from_secs(context.pick(120, 45)),
        warm_up: Duration::from_secs(context.pick(20, 10)),
    };
    let cells: Vec<Cell> = PATHS
        .iter()
        .flat_map(|path| RIVALS.map(|rival| (*path, Contender::TACK, rival)))
        .collect();
    let runs = simulate(context, &cells, &seeds, times)?;
    let others = in_its_place(context, &seeds_of_others, times)?;
    let from = times.counted_from();
    Ok(Findings {
        parameters: json!({
            "duration_s": times.duration.as_secs_f64(),
            "warm_up_s": times.warm_up.as_secs_f64(),
            "tack_starts_after_s": BEFORE.as_secs_f64(),
            "seeds_of_others": seeds_of_others,
        }),
        seeds,
        tables: vec![table(&cells, &runs, from), others],
        plots: Vec::new(),
        checks: cells.iter().zip(&runs).map(|(cell, runs)| check(cell, runs, from)).collect(),
        notes: vec![
            "The other flow is there first, and has filled the buffer when TACK's begins."
                .to_owned(),
            "Half cannot be had beside everyone: the second table shows what the others have of \
             the same paths where they begin as late as TACK. quiche's CUBIC takes back what a \
             loss of less than a fifth has cost it, and leaves little even to a flow of its own \
             kind."
                .to_owned(),
        ],
    })
}

fn table(cells: &[Cell], runs: &[Vec<ScenarioReport>], from: Duration) -> Table {
    let mut table = Table::new("Share of the TACK flow: 50 % is equal")
        .text("link", "link")
        .number("rtt_ms", "RTT", "ms", 0)
        .text("beside", "beside")
        .number("share_percent", "share", "%", 1)
        .number("jain", "Jain", "", 3)
        .number("goodput_mbps", "both", "Mbit/s", 2)
        .number("queue_p95_ms", "queue p95", "ms", 1)
        .number("lost_percent", "TACK's data lost", "%", 2);
    for (((rate, rtt, buffer), _, rival), runs) in cells.iter().zip(runs) {
        let over = |value: &dyn Fn(&ScenarioReport) -> Option<f64>| {
            median(runs.iter().filter_map(value))
        };
        let goodputs = |run: &ScenarioReport| goodputs_from(run, from);
        table.row([
            name(*rate, *buffer).into(),
            (*rtt).into(),
            rival.label.into(),
            median_share(runs, from).into(),
            over(&|run| jain(&goodputs(run))).into(),
            over(&|run| Some(goodputs(run).iter().sum())).into(),
            over(&|run| run.flows[0].queue_p95_ms).into(),
            over(&|run| {
                let flow = &run.flows[0];
                Some(100.0 * flow.lost as f64 / flow.data_packets.max(1) as f64)
            })
            .into(),
        ]);
    }
    table
}

fn check(
    ((rate, rtt, buffer), _, rival): &Cell,
    runs: &[ScenarioReport],
    from: Duration,
) -> Check {
    let link = name(*rate, *buffer);
    let what = format!("{link}, {rtt} ms: TACK's share beside {}", rival.label);
    let share = median_share(runs, from).unwrap_or(f64::NAN);
    Check::between(what, share, "%", FAIR.0..=FAIR.1)
}

/// The share of the flow that begins later, in percent, from a moment on.
fn median_share(runs: &[ScenarioReport], from: Duration) -> Option<f64> {
    median(runs.iter().map(|run| share_from(run, from)))
}

/// What flows of the other kinds have in TACK's place.
fn in_its_place(context: &Context, seeds: &[u64], times: Times) -> Result<Table, Error> {
    const OTHERS: [Contender; 3] =
        [Contender::QUICHE_CUBIC, Contender::QUINN, Contender::QUICHE_BBR];
    let cells: Vec<Cell> = PATHS
        .iter()
        .flat_map(|path| OTHERS.map(|first| OTHERS.map(|late| (*path, late, first))))
        .flatten()
        .collect();
    let runs = simulate(context, &cells, seeds, times)?;
    let mut table = Table::new("Share of others that begin as late")
        .text("link", "link")
        .number("rtt_ms", "RTT", "ms", 0)
        .text("beside", "beside")
        .number("quiche_cubic_percent", "quiche CUBIC", "%", 1)
        .number("quinn_cubic_percent", "quinn CUBIC", "%", 1)
        .number("quiche_bbr2_percent", "quiche BBR2", "%", 1);
    for (cells, runs) in cells.chunks(OTHERS.len()).zip(runs.chunks(OTHERS.len())) {
        let Some(((rate, rtt, buffer), _, first)) = cells.first() else { continue };
        let mut row = vec![name(*rate, *buffer).into(), (*rtt).into(), first.label.into()];
        row.extend(runs.iter().map(|runs| median_share(runs, times.counted_from()).into()));
        table.row(row);
    }
    Ok(table)
}

fn simulate(
    context: &Context,
    cells: &[Cell],
    seeds: &[u64],
    times: Times,
) -> Result<Vec<Vec<ScenarioReport>>, Error> {
    context.simulate(cells, seeds, |((rate, rtt, buffer), late, first), seed| {
        let path = PathSpec::with_rtt(Duration::from_millis(*rtt));
        let late_flow = Flow { start: BEFORE, ..late.flow(path) };
        let scenario = Scenario {
            link: link(*rate, *buffer)?,
            flows: vec![late_flow, first.flow(path)],
            duration: times.duration,
            warm_up: times.warm_up,
            bin: Duration::from_secs(1),
            seed,
        };
        let path = format!("{rate:?} Mbit/s, {rtt} ms");
        Ok((format!("{path}, {} beside {}", late.label, first.label), scenario))
    })
}

fn name(rate: Option<f64>, buffer_bdp: f64) -> String {
    match rate {
        Some(rate) => format!("{rate} Mbit/s, {buffer_bdp} BDP"),
        None => "802.11n".to_owned(),
    }
}

fn link(rate: Option<f64>, buffer_bdp: f64) -> Result<LinkSpec, tack_link::SpecError> {
    match rate {
        Some(rate) => pipe(rate, buffer_bdp),
        None => wlan(tack_link::wlan::Profile::N),
    }
}
