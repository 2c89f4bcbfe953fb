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

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let rate_mbps = context.pick(100.0, 40.0);
    let step = Duration::from_secs(context.pick(15, 8));
    let duration = step * (FLOWS + 1);
    let bin = Duration::from_secs(1);
    let runs = context.simulate(&STACKS, &seeds, |stack, seed| {
        let flow = |index| Flow { start: step * index, ..stack.flow(PathSpec::with_rtt(RTT)) };
        let scenario = Scenario {
            link: pipe(rate_mbps, 1.0)?,
            flows: (0..FLOWS).map(flow).collect(),
            duration,
            warm_up: Duration::ZERO,
            bin,
            seed,
        };
        Ok((stack.label.to_owned(), scenario))
    })?;

    let last = (step * (FLOWS - 1)).as_secs_f64();
    let settled = last + step.as_secs_f64();
    let mut table = Table::new("While all four flows are there")
        .text("stack", "stack")
        .number("jain_first", "Jain, first half", "", 3)
        .number("jain_last", "Jain, second half", "", 3)
        .number("goodput_mbps", "all flows", "Mbit/s", 2)
        .number("smallest_mbps", "smallest", "Mbit/s", 2)
        .number("largest_mbps", "largest", "Mbit/s", 2);
    let mut fairness = Vec::new();
    let mut last_quarter = Vec::new();
    let mut within_ten = Vec::new();
    for (stack, runs) in STACKS.iter().zip(&runs) {
        let over = |value: &dyn Fn(&ScenarioReport) -> Option<f64>| {
            median(runs.iter().filter_map(value))
        };
        let end = duration.as_secs_f64();
        let shares = |run: &ScenarioReport| goodputs(run, settled, end);
        let fair = over(&|run| jain(&shares(run)));
        fairness.push(fair);
        last_quarter.push(over(&|run| jain(&goodputs(run, 0.75 * end, end))));
        let ten = last + SOON_S;
        within_ten.push(over(&|run| jain(&goodputs(run, ten - SOON_SPAN_S, ten))));
        table.row([
            stack.label.into(),
            over(&|run| jain(&goodputs(run, last, settled))).into(),
            fair.into(),
            over(&|run| Some(shares(run).iter().sum())).into(),
            over(&|run| shares(run).into_iter().reduce(f64::min)).into(),
            over(&|run| shares(run).into_iter().reduce(f64::max)).into(),
        ]);
    }

    let index = STACKS.iter().zip(&runs).filter_map(|(stack, runs)| {
        Some(Series::measured(stack.label, stack.colour, jain_over_time(runs.first()?)))
    });
    let shares = |at: usize| {
        let flows = runs[at].first().into_iter().flat_map(|run| &run.flows);
        let lines = flows.zip(1..).map(|(flow, number)| {
            let points = flow.timeline.iter().map(|bin| (bin.at, bin.goodput_mbps));
            Series::measured(
                format!("flow {number}"),
                Colour::nth(number - 1),
                points.collect(),
            )
        });
        Plot::new(
            format!("Goodput of four flows: {}", STACKS[at].label),
            Axis::linear("time, s"),
            Axis::linear("goodput, Mbit/s"),
            Chart::Steps { series: lines.collect() },
        )
    };
    let plots = vec![
        shares(0),
        shares(2),
        Plot::new(
            "Fairness among the flows that are there",
            Axis::linear("time, s"),
            Axis::linear("Jain's index"),
            Chart::Steps { series: index.collect() },
        ),
    ];
    let shown = |value: Option<f64>| value.map_or("none".into(), |value| format!("{value:.3}"));
    let checks = vec![
        Check::paper(
            "Jain's index of four TACK flows at the end",
            shown(fairness[0]),
            "equal shares, as with BBR",
            fairness[0].is_some_and(|fair| fair > 0.95),
        ),
        Check::at_least(
            "Jain's index of four TACK flows, 5 to 10 s after the last has begun",
            within_ten[0].unwrap_or(f64::NAN),
            "",
            LEAST_JAIN,
        ),
        Check::at_least(
            "Jain's index of four TACK flows in the last quarter of the run",
            last_quarter[0].unwrap_or(f64::NAN),
            "",
            LEAST_JAIN,
        ),
    ];
    Ok(Findings {
        parameters: json!({
            "rate_mbps": rate_mbps,
            "rtt_ms": RTT.as_millis() as u64,
            "buffer_bdp": 1.0,
            "flows": FLOWS,
            "flow_starts_every_s": step.as_secs_f64(),
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": 0,
            "bin_s": bin.as_secs_f64(),
        }),
        seeds,
        tables: vec![table],
        plots,
        checks,
        notes: vec![
            "The halves of the table: the time of one start after the last flow came, and the \
             rest. Plots show the first seed."
                .to_owned(),
        ],
    })
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
