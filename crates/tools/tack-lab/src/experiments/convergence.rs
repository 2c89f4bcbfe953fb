//! Appendix C: flows that start one after another.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::statistics::{jain, mean, median};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{Flow, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "convergence",
    title: "Four flows, one after another",
    question: "Do flows that start later get their share, and how soon?",
    paper: "Appendix C: four TACK flows converge to equal shares as flows of legacy BBR do.",
    measure,
};

const FLOWS: u32 = 4;
const RTT: Duration = Duration::from_millis(40);
/// So long after the last flow has begun the shares are to be equal, over the seconds before that.
const SOON_S: f64 = 10.0;
const SOON_SPAN_S: f64 = 5.0;
const LEAST_JAIN: f64 = 0.97;
const STACKS: [Contender; 5] = [
    Contender::TACK,
    Contender::EVERY_SECOND,
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
];
const TACK: usize = 0;
const QUICHE_BBR: usize = 2;

/// When the flows begin, and when the run ends.
#[derive(Clone, Copy)]
struct Schedule {
    /// Between the starts of two flows.
    step: Duration,
}

impl Schedule {
    fn start(self, flow: u32) -> Duration {
        self.step * flow
    }

    fn duration(self) -> Duration {
        self.step * (FLOWS + 1)
    }

    /// When the last flow begins, seconds.
    fn last_s(self) -> f64 {
        self.start(FLOWS - 1).as_secs_f64()
    }

    /// When the last flow has been there for a step, seconds.
    fn settled_s(self) -> f64 {
        self.last_s() + self.step.as_secs_f64()
    }

    fn end_s(self) -> f64 {
        self.duration().as_secs_f64()
    }
}

fn measure(context: &Context) -> Result<Findings, Error> {
    // Which flow meets the full buffer is chance: the index of single runs differs by 0.1.
    let seeds = context.seeds(15, 9);
    let rate_mbps = context.pick(100.0, 40.0);
    let schedule = Schedule { step: Duration::from_secs(context.pick(15, 8)) };
    let bin = Duration::from_secs(1);
    let runs = context.simulate(&STACKS, &seeds, |stack, seed| {
        let path = PathSpec::with_rtt(RTT);
        let flow = |index| Flow { start: schedule.start(index), ..stack.flow(path) };
        let scenario = Scenario {
            link: pipe(rate_mbps, 1.0)?,
            flows: (0..FLOWS).map(flow).collect(),
            duration: schedule.duration(),
            warm_up: Duration::ZERO,
            bin,
            seed,
        };
        Ok((stack.label.to_owned(), scenario))
    })?;
    Ok(Findings {
        parameters: json!({
            "rate_mbps": rate_mbps,
            "rtt_ms": RTT.as_millis() as u64,
            "buffer_bdp": 1.0,
            "flows": FLOWS,
            "flow_starts_every_s": schedule.step.as_secs_f64(),
            "duration_s": schedule.end_s(),
            "warm_up_s": 0,
            "bin_s": bin.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(schedule, &runs)],
        plots: vec![
            goodput_plot(&STACKS[TACK], &runs[TACK]),
            goodput_plot(&STACKS[QUICHE_BBR], &runs[QUICHE_BBR]),
            fairness_plot(&runs),
        ],
        checks: checks(schedule, &runs[TACK]),
        notes: vec![
            "The halves of the table: the time of one start after the last flow came, and the \
             rest. Plots show the first seed."
                .to_owned(),
        ],
    })
}

fn table(schedule: Schedule, runs: &[Vec<ScenarioReport>]) -> Table {
    let mut table = Table::new("While all four flows are there")
        .text("stack", "stack")
        .number("jain_first", "Jain, first half", "", 3)
        .number("jain_last", "Jain, second half", "", 3)
        .number("goodput_mbps", "all flows", "Mbit/s", 2)
        .number("smallest_mbps", "smallest", "Mbit/s", 2)
        .number("largest_mbps", "largest", "Mbit/s", 2);
    let (last, settled, end) = (schedule.last_s(), schedule.settled_s(), schedule.end_s());
    for (stack, runs) in STACKS.iter().zip(runs) {
        let over = |value: &dyn Fn(&ScenarioReport) -> Option<f64>| {
            median(runs.iter().filter_map(value))
        };
        let shares = |run: &ScenarioReport| goodputs(run, settled, end);
        table.row([
            stack.label.into(),
            median_jain(runs, last, settled).into(),
            median_jain(runs, settled, end).into(),
            over(&|run| Some(shares(run).iter().sum())).into(),
            over(&|run| shares(run).into_iter().reduce(f64::min)).into(),
            over(&|run| shares(run).into_iter().reduce(f64::max)).into(),
        ]);
    }
    table
}

/// Of the runs of TACK.
fn checks(schedule: Schedule, runs: &[ScenarioReport]) -> Vec<Check> {
    let end = schedule.end_s();
    let soon = schedule.last_s() + SOON_S;
    let fair = median_jain(runs, schedule.settled_s(), end);
    let fair_soon = median_jain(runs, soon - SOON_SPAN_S, soon);
    let fair_late = median_jain(runs, 0.75 * end, end);
    vec![
        Check::paper(
            "Jain's index of four TACK flows at the end",
            fair.map_or("none".into(), |fair| format!("{fair:.3}")),
            "equal shares, as with BBR",
            fair.is_some_and(|fair| fair > 0.95),
        ),
        Check::at_least(
            "Jain's index of four TACK flows, 5 to 10 s after the last has begun",
            fair_soon.unwrap_or(f64::NAN),
            "",
            LEAST_JAIN,
        ),
        Check::at_least(
            "Jain's index of four TACK flows in the last quarter of the run",
            fair_late.unwrap_or(f64::NAN),
            "",
            LEAST_JAIN,
        ),
    ]
}

/// Each flow of a stack in its first run.
fn goodput_plot(stack: &Contender, runs: &[ScenarioReport]) -> Plot {
    let flows = runs.first().into_iter().flat_map(|run| &run.flows);
    let lines = flows.zip(1..).map(|(flow, number)| {
        let points = flow.timeline.iter().map(|bin| (bin.at, bin.goodput_mbps));
        Series::measured(format!("flow {number}"), Colour::nth(number - 1), points.collect())
    });
    Plot::new(
        format!("Goodput of four flows: {}", stack.label),
        Axis::linear("time, s"),
        Axis::linear("goodput, Mbit/s"),
        Chart::Steps { series: lines.collect() },
    )
}

/// Each stack in its first run.
fn fairness_plot(runs: &[Vec<ScenarioReport>]) -> Plot {
    let index = STACKS.iter().zip(runs).filter_map(|(stack, runs)| {
        Some(Series::measured(stack.label, stack.colour, jain_over_time(runs.first()?)))
    });
    Plot::new(
        "Fairness among the flows that are there",
        Axis::linear("time, s"),
        Axis::linear("Jain's index"),
        Chart::Steps { series: index.collect() },
    )
}

/// Jain's index over a stretch of time: the median over the runs.
fn median_jain(runs: &[ScenarioReport], from: f64, to: f64) -> Option<f64> {
    median(runs.iter().filter_map(|run| jain(&goodputs(run, from, to))))
}

/// Mean goodput of each flow over a stretch of time.
fn goodputs(run: &ScenarioReport, from: f64, to: f64) -> Vec<f64> {
    let flow = |flow: &crate::sim::FlowReport| {
        let bins = flow.timeline.iter().filter(|bin| (from..to).contains(&bin.at));
        mean(bins.map(|bin| bin.goodput_mbps)).unwrap_or_default()
    };
    run.flows.iter().map(flow).collect()
}

/// Jain's index among the flows that had begun before each bin.
fn jain_over_time(run: &ScenarioReport) -> Vec<(f64, f64)> {
    let begun = |at: f64| {
        run.flows.iter().filter_map(move |flow| {
            let first = flow.timeline.iter().find(|bin| bin.goodput_mbps > 0.0)?;
            let now = flow.timeline.iter().find(|bin| (bin.at - at).abs() < 1e-6)?;
            (first.at < at).then_some(now.goodput_mbps)
        })
    };
    let times = run.flows.first().into_iter().flat_map(|flow| &flow.timeline);
    times
        .filter_map(|bin| {
            let shares: Vec<_> = begun(bin.at).collect();
            (shares.len() > 1).then(|| jain(&shares).map(|jain| (bin.at, jain)))?
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Bin, FlowReport};

    fn flow(goodputs: &[f64]) -> FlowReport {
        let bin =
            |(at, &goodput_mbps)| Bin { at: f64::from(at), goodput_mbps, ..Bin::default() };
        FlowReport { timeline: (0..).zip(goodputs).map(bin).collect(), ..FlowReport::default() }
    }

    #[test]
    fn fairness_counts_the_flows_that_have_begun() {
        let run = ScenarioReport {
            flows: vec![flow(&[8.0, 8.0, 6.0, 4.0]), flow(&[0.0, 0.0, 2.0, 4.0])],
        };
        // The second flow begins in bin 2 and counts from bin 3.
        assert_eq!(jain_over_time(&run), [(3.0, 1.0)]);
    }

    #[test]
    fn goodput_is_the_mean_of_a_stretch() {
        let run = ScenarioReport { flows: vec![flow(&[8.0, 8.0, 6.0, 4.0])] };
        assert_eq!(goodputs(&run, 2.0, 4.0), [5.0]);
    }
}
