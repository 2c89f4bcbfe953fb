//! Appendix C: three flows that come and go.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::statistics::{jain, mean, median};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{Flow, Load, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "traffic-change",
    title: "Flows that come and go",
    question: "Do flows make room for new ones on a long fat path, and take the room back \
               afterwards?",
    paper: "Appendix C, 1 Gbit/s, 120 ms, three flows come and go: TACK adapts as legacy BBR does.",
    measure,
};

const RTT: Duration = Duration::from_millis(120);
const BUFFER_BDP: f64 = 1.0;
const STAGES: u32 = 5;
/// The stages in which each flow is there, the last one excluded.
const FLOWS: [(u32, u32); 3] = [(0, 5), (1, 4), (2, 3)];
const STACKS: [Contender; 4] =
    [Contender::TACK, Contender::EVERY_SECOND, Contender::QUICHE_BBR, Contender::QUICHE_CUBIC];

/// Places of those in [`STACKS`] that are compared with each other.
const TACK: usize = 0;
const QUICHE_BBR: usize = 2;

/// The flows that are there in the second half of a stage, medians over the seeds.
struct Stage {
    /// Of all flows.
    goodput_mbps: f64,
    /// Of the rate.
    used_percent: f64,
    jain: Option<f64>,
}

impl Stage {
    fn new(number: u32, runs: &[ScenarioReport], rate_mbps: f64, length: Duration) -> Self {
        let over = |value: &dyn Fn(Vec<f64>) -> Option<f64>| {
            median(runs.iter().filter_map(|run| value(shares(run, number, length))))
        };
        let goodput_mbps = over(&|shares| Some(shares.iter().sum())).unwrap_or_default();
        Self {
            goodput_mbps,
            used_percent: 100.0 * goodput_mbps / rate_mbps,
            jain: over(&|shares| jain(&shares)),
        }
    }
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(context.pick(3, 1), 1);
    let rate_mbps = context.pick(1000.0, 100.0);
    let stage = Duration::from_secs(context.pick(20, 10));
    let duration = stage * STAGES;
    let runs = context.simulate(&STACKS, &seeds, |stack, seed| {
        let flow = |(from, to): (u32, u32)| Flow {
            start: stage * from,
            load: Load::Bulk { stop: (to < STAGES).then(|| stage * (to - from)) },
            ..stack.flow(PathSpec::with_rtt(RTT))
        };
        let scenario = Scenario {
            link: pipe(rate_mbps, BUFFER_BDP)?,
            flows: FLOWS.map(flow).to_vec(),
            duration,
            warm_up: Duration::ZERO,
            bin: Duration::from_millis(500),
            seed,
        };
        Ok((stack.label.to_owned(), scenario))
    })?;
    let stages_of = |runs: &Vec<ScenarioReport>| -> Vec<Stage> {
        (0..STAGES).map(|number| Stage::new(number, runs, rate_mbps, stage)).collect()
    };
    let stages: Vec<_> = runs.iter().map(stages_of).collect();
    Ok(Findings {
        parameters: json!({
            "rate_mbps": rate_mbps,
            "rtt_ms": RTT.as_millis() as u64,
            "buffer_bdp": BUFFER_BDP,
            "stage_s": stage.as_secs_f64(),
            "flow_stages": FLOWS.map(|(from, to)| format!("{} to {to}", from + 1)),
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": 0,
        }),
        seeds,
        tables: vec![table(&stages)],
        plots: STACKS.iter().zip(&runs).filter_map(|(stack, runs)| plot(stack, runs)).collect(),
        checks: vec![check(&stages)],
        notes: vec!["Plots show the first seed.".to_owned()],
    })
}

fn table(stages: &[Vec<Stage>]) -> Table {
    let mut table = Table::new("The second half of each stage")
        .text("stack", "stack")
        .number("stage", "stage", "", 0)
        .number("flows", "flows", "", 0)
        .number("goodput_mbps", "all flows", "Mbit/s", 1)
        .number("used_percent", "of the rate", "%", 1)
        .number("jain", "Jain", "", 3);
    for (stack, stages) in STACKS.iter().zip(stages) {
        for (number, stage) in (0..STAGES).zip(stages) {
            table.row([
                stack.label.into(),
                (number + 1).into(),
                present(number).count().into(),
                stage.goodput_mbps.into(),
                stage.used_percent.into(),
                stage.jain.into(),
            ]);
        }
    }
    table
}

/// The first run of a stack over time.
fn plot(stack: &Contender, runs: &[ScenarioReport]) -> Option<Plot> {
    let flows = runs.first()?.flows.iter().zip(0..);
    let series = flows.map(|(flow, index)| {
        let points = flow.timeline.iter().map(|bin| (bin.at, bin.goodput_mbps));
        let label = format!("flow {}", index + 1);
        Series::measured(label, Colour::nth(index), points.collect())
    });
    Some(Plot::new(
        format!("Goodput of three flows: {}", stack.label),
        Axis::linear("time, s"),
        Axis::linear("goodput, Mbit/s"),
        Chart::Steps { series: series.collect() },
    ))
}

fn check(stages: &[Vec<Stage>]) -> Check {
    // The first stage holds the start-up of the first flow alone.
    let least = |stack: usize| {
        stages[stack].iter().map(|stage| stage.used_percent).fold(f64::INFINITY, f64::min)
    };
    let (tack, bbr) = (least(TACK), least(QUICHE_BBR));
    Check::paper_or_better(
        "TACK: use of the rate in its worst stage",
        format!("{tack:.1} %"),
        format!("adapts as BBR does (quiche BBR2 here: {bbr:.1} %)"),
        (tack - bbr).abs() < 5.0,
        tack > bbr,
    )
}

/// Flows that are there in a stage.
fn present(stage: u32) -> impl Iterator<Item = usize> {
    (0..FLOWS.len()).filter(move |&flow| (FLOWS[flow].0..FLOWS[flow].1).contains(&stage))
}

/// Goodput of the flows that are there, in the second half of a stage.
fn shares(run: &ScenarioReport, stage: u32, length: Duration) -> Vec<f64> {
    let length = length.as_secs_f64();
    let half = (f64::from(stage) + 0.5) * length..(f64::from(stage) + 1.0) * length;
    present(stage)
        .map(|flow| {
            let bins = run.flows[flow].timeline.iter().filter(|bin| half.contains(&bin.at));
            mean(bins.map(|bin| bin.goodput_mbps)).unwrap_or_default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flow_then_two_then_three_and_back() {
        let counts: Vec<_> = (0..STAGES).map(|stage| present(stage).count()).collect();
        assert_eq!(counts, [1, 2, 3, 2, 1]);
    }
}
