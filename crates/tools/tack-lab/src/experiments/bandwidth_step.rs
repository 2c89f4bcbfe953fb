//! Section VII-D: how fast a sender follows a rate that doubles or halves.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::statistics::{converged_after, median};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{Bin, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bandwidth-step",
    title: "A rate that doubles and halves",
    question: "How many round trips does a sender take to use a rate that doubles, and to drain \
               the queue when it halves again?",
    paper: "Section VII-D, 10 to 20 to 10 Mbit/s, 40 ms: 24 RTTs up and 10 down with BBR, 12 and 5 \
            with TACK's video profile (half the ProbeBW cycle, half the bandwidth filter).",
    measure,
};

const RTT: Duration = Duration::from_millis(40);
const LOW_MBPS: f64 = 10.0;
const HIGH_MBPS: f64 = 20.0;
const UP_S: f64 = 20.0;
const DOWN_S: f64 = 40.0;
const END_S: f64 = 60.0;
/// Eight bandwidth-delay products at the low rate: nothing is lost when the rate halves.
const BUFFER_BYTES: u64 = 400_000;
const BIN: Duration = RTT;
/// How many bins in a row have to be as they should.
const HOLD: usize = 5;
/// Goodput that counts as all: payload is 96 % of a packet, and five points of slack.
const USED: f64 = 0.91;

/// Bandwidth-delay products of the lower rate that Startup and the steps may cost together.
const MOST_DROPPED: f64 = 0.4;

const STACKS: [Contender; 7] = [
    Contender::TACK_VIDEO,
    Contender::TACK.coloured(Colour::Sky),
    Contender::EVERY_SECOND.coloured(Colour::Violet),
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
    Contender::QUINN_TENTH,
];
const VIDEO: usize = 0;
const BBR: usize = 3;
/// Those of [`STACKS`] that are in the plots.
const PLOTTED: [usize; 4] = [VIDEO, 1, BBR, 4];
/// What the paper reports of a stack: round trips up and down.
const PAPER: [(usize, f64, f64); 2] = [(VIDEO, 12.0, 5.0), (BBR, 24.0, 10.0)];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 3);
    let runs = context.simulate(&STACKS, &seeds, |stack, seed| {
        let flow = stack.flow(PathSpec::with_rtt(RTT));
        let scenario = Scenario {
            link: link()?,
            flows: vec![flow],
            duration: Duration::from_secs_f64(END_S),
            warm_up: Duration::ZERO,
            bin: BIN,
            seed,
        };
        Ok((stack.label.to_owned(), scenario))
    })?;
    let rtts: Vec<_> = runs.iter().map(|runs| StepRtts::of(runs)).collect();
    Ok(Findings {
        parameters: json!({
            "link": link()?,
            "rtt_ms": RTT.as_millis() as u64,
            "duration_s": END_S,
            "bin_ms": BIN.as_millis() as u64,
            "hold_bins": HOLD,
            "doubling": format!("first bin from which goodput stays at {USED} of the new rate"),
            "halving": "first bin from which packets wait no longer than 1.1 RTT in the queue",
            "warm_up_s": 0,
        }),
        seeds,
        tables: vec![table(&runs, &rtts)],
        plots: plots(&runs),
        checks: checks(&runs, &rtts),
        notes: vec![
            "When the rate halves, goodput falls at once, whoever sends: what takes time is the \
             queue. BBR is done when no more than two bandwidth-delay products of the new rate \
             are in flight, which leaves one of them in the queue."
                .to_owned(),
            "Plots show the first seed, tables medians.".to_owned(),
        ],
    })
}

/// Round trips that each step takes: medians over the seeds, none where it takes forever.
struct StepRtts {
    up: Option<f64>,
    down: Option<f64>,
}

impl StepRtts {
    fn of(runs: &[ScenarioReport]) -> Self {
        Self { up: median_rtts(runs, after_doubling), down: median_rtts(runs, after_halving) }
    }
}

fn median_rtts(runs: &[ScenarioReport], after: fn(&[Bin]) -> Option<f64>) -> Option<f64> {
    // Whole bins, which are round trips.
    let rtts = |seconds: f64| (seconds / RTT.as_secs_f64()).round();
    // A run that never gets there counts as longer than all others.
    let values = runs.iter().filter_map(|run| run.flows.first());
    median(values.map(|flow| after(&flow.timeline).map_or(f64::INFINITY, rtts)))
        .filter(|value| value.is_finite())
}

fn table(runs: &[Vec<ScenarioReport>], rtts: &[StepRtts]) -> Table {
    let mut table = Table::new("Round trips until the new rate is used, and the queue drained")
        .text("stack", "stack")
        .number("up_rtts", "10 to 20", "RTT", 1)
        .number("down_rtts", "20 to 10", "RTT", 1)
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("peak_owd_ms", "one-way peak after halving", "ms", 0)
        .number("lost", "lost", "", 0);
    for ((stack, runs), rtts) in STACKS.iter().zip(runs).zip(rtts) {
        let flows = || runs.iter().filter_map(|run| run.flows.first());
        table.row([
            stack.label.into(),
            rtts.up.into(),
            rtts.down.into(),
            median(flows().map(|flow| flow.goodput_mbps)).into(),
            median(flows().map(|flow| peak_owd(&flow.timeline))).into(),
            median(flows().map(|flow| flow.lost as f64)).into(),
        ]);
    }
    table
}

fn plots(runs: &[Vec<ScenarioReport>]) -> Vec<Plot> {
    vec![
        Plot::new(
            "Goodput around the doubling",
            Axis::range("time, s"),
            Axis::linear("goodput, Mbit/s"),
            Chart::Steps { series: lines(runs, (19.0, 23.0), |bin| Some(bin.goodput_mbps)) },
        )
        .mark(UP_S, "10 to 20 Mbit/s"),
        Plot::new(
            "One-way delay around the halving",
            Axis::range("time, s"),
            Axis::linear("one-way delay, ms"),
            Chart::Steps { series: lines(runs, (39.0, 43.0), |bin| bin.owd_ms) },
        )
        .mark(DOWN_S, "20 to 10 Mbit/s"),
    ]
}

/// A value over a stretch of time, of the plotted stacks in their first run.
fn lines(
    runs: &[Vec<ScenarioReport>],
    (from, to): (f64, f64),
    value: fn(&Bin) -> Option<f64>,
) -> Vec<Series> {
    PLOTTED
        .iter()
        .filter_map(|&index| {
            let stack = STACKS[index];
            let bins = runs[index].first()?.flows.first()?.timeline.iter();
            let points = bins
                .filter(|bin| (from..to).contains(&bin.at))
                .filter_map(|bin| Some((bin.at, value(bin)?)));
            Some(Series::measured(stack.label, stack.colour, points.collect()))
        })
        .collect()
}

fn checks(runs: &[Vec<ScenarioReport>], rtts: &[StepRtts]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (index, up, down) in PAPER {
        let what = |step: &str| format!("{}: {step}", STACKS[index].label);
        let seen = &rtts[index];
        checks.push(beside_paper(index, what("doubling"), seen.up, up));
        checks.push(beside_paper(index, what("halving"), seen.down, down));
    }
    checks.extend(targets(&runs[VIDEO], &rtts[VIDEO]));
    checks
}

/// Round trips of the stack at `index` beside the paper's.
fn beside_paper(index: usize, what: String, seen: Option<f64>, paper: f64) -> Check {
    let shown =
        |value: Option<f64>| value.map_or("never".into(), |rtts| format!("{rtts:.0} RTTs"));
    let near = seen.is_some_and(|seen| (paper / 1.25..=paper * 1.25).contains(&seen));
    // To converge sooner is better, but for a rival it is only another rival.
    let better = index == VIDEO && seen.is_some_and(|seen| seen < paper);
    let expected = format!("{}: within a quarter", shown(Some(paper)));
    Check::paper_or_better(what, shown(seen), expected, near, better)
}

/// What TACK's video profile is to reach.
fn targets(runs: &[ScenarioReport], rtts: &StepRtts) -> [Check; 3] {
    let video = STACKS[VIDEO].label;
    let (up, down) = (rtts.up.unwrap_or(f64::NAN), rtts.down.unwrap_or(f64::NAN));
    let lost = runs.iter().filter_map(|run| run.flows.first()).map(|flow| flow.lost as f64);
    let bdp_packets = LOW_MBPS * 1e6 / 8.0 * RTT.as_secs_f64() / 1500.0;
    [
        Check::at_most(format!("{video}: doubling"), up, "RTTs", 12.0),
        Check::at_most(format!("{video}: halving"), down, "RTTs", 5.0),
        Check::at_most(
            format!("{video}: dropped in all, in bandwidth-delay products of the lower rate"),
            median(lost).unwrap_or(f64::NAN) / bdp_packets,
            "",
            MOST_DROPPED,
        ),
    ]
}

fn link() -> Result<LinkSpec, Error> {
    let toml = format!(
        "[[hop]]\nkind = \"pipe\"\nbuffer_bytes = {BUFFER_BYTES}\n\
         rate_trace = {{ steps = [[0, {LOW_MBPS:?}], [{UP_S:?}, {HIGH_MBPS:?}], \
         [{DOWN_S:?}, {LOW_MBPS:?}]] }}\n"
    );
    Ok(LinkSpec::from_toml(&toml, "rate step")?)
}

/// Seconds from the doubling until the new rate is used.
fn after_doubling(bins: &[Bin]) -> Option<f64> {
    let goodputs: Vec<_> = bins
        .iter()
        .filter(|bin| bin.at < DOWN_S)
        .map(|bin| (bin.at, bin.goodput_mbps))
        .collect();
    converged_after(&goodputs, UP_S, HOLD, |goodput| goodput >= USED * HIGH_MBPS)
}

/// Seconds from the halving until the queue is down to a round trip.
fn after_halving(bins: &[Bin]) -> Option<f64> {
    let rtt_ms = RTT.as_secs_f64() * 1e3;
    let delays: Vec<_> =
        bins.iter().filter_map(|bin| Some((bin.at, bin.owd_ms? - rtt_ms / 2.0))).collect();
    // The queue needs a moment to grow.
    let grown = delays
        .iter()
        .find(|(at, wait)| *at >= DOWN_S && *wait > 1.1 * rtt_ms)
        .map_or(DOWN_S, |(at, _)| *at);
    let drained = converged_after(&delays, grown, HOLD, |wait| wait <= 1.1 * rtt_ms)?;
    Some(grown - DOWN_S + drained)
}

fn peak_owd(bins: &[Bin]) -> f64 {
    bins.iter()
        .filter(|bin| bin.at >= DOWN_S)
        .filter_map(|bin| bin.owd_ms)
        .fold(f64::NAN, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(goodput: impl Fn(f64) -> f64, owd: impl Fn(f64) -> f64) -> Vec<Bin> {
        (0..1500)
            .map(|bin| f64::from(bin) * BIN.as_secs_f64())
            .map(|at| Bin {
                at,
                goodput_mbps: goodput(at),
                owd_ms: Some(owd(at)),
                ..Bin::default()
            })
            .collect()
    }

    #[test]
    fn doubling_ends_when_the_new_rate_stays_used() {
        let bins = bins(|at| if at < 20.48 { 9.6 } else { 19.2 }, |_| 20.0);
        let seconds = after_doubling(&bins).unwrap();
        assert!((seconds - 0.48).abs() < 1e-6, "{seconds}");
    }

    #[test]
    fn a_rate_that_is_never_used_is_never_reached() {
        assert_eq!(after_doubling(&bins(|_| 9.6, |_| 20.0)), None);
    }

    #[test]
    fn halving_ends_when_the_queue_is_drained() {
        // The queue grows for a while before it counts, and drains later.
        let owd = |at: f64| if (40.1..40.6).contains(&at) { 120.0 } else { 40.0 };
        let seconds = after_halving(&bins(|_| 9.6, owd)).unwrap();
        assert!((seconds - 0.6).abs() < 0.041, "{seconds}");
    }

    #[test]
    fn a_queue_that_never_grows_has_nothing_to_drain() {
        assert_eq!(after_halving(&bins(|_| 9.6, |_| 40.0)), Some(0.0));
    }
}
