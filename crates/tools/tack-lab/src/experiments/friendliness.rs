//! Appendix C: TACK beside flows of other kinds.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::json;
use tack_link::PathSpec;

use super::links::pipe;
use super::statistics::median;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "friendliness",
    title: "Beside CUBIC and BBR",
    question: "What share does one TACK flow take from one flow of another kind, on links drawn at \
               random?",
    paper: "Appendix C: friendliness of TACK towards CUBIC and BBR is similar to that of legacy BBR.",
    measure,
};

/// Who is measured, beside whom, and the colour of both in plots.
type Pair = (Contender, Contender, Colour);

/// The last two say what is usual.
const PAIRS: [Pair; 5] = [
    (Contender::TACK, Contender::QUICHE_CUBIC, Colour::Blue),
    (Contender::TACK, Contender::QUICHE_BBR, Colour::Sky),
    (Contender::TACK, Contender::QUINN, Colour::Violet),
    (Contender::QUICHE_BBR, Contender::QUICHE_CUBIC, Colour::Orange),
    (Contender::QUINN, Contender::QUICHE_CUBIC, Colour::Green),
];
const RTT_MS: (f64, f64) = (10.0, 100.0);
const BUFFER_BDP: (f64, f64) = (0.5, 4.0);

/// A link that was drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trial {
    rate_mbps: f64,
    rtt: Duration,
    buffer_bdp: f64,
    seed: u64,
}

/// What a pair got on a link.
struct Measured {
    trial: Trial,
    /// Of the first flow.
    share_percent: f64,
    /// Of both flows.
    goodput_mbps: f64,
}

impl Measured {
    fn new(trial: Trial, run: &ScenarioReport) -> Self {
        let (one, other) = (run.flows[0].goodput_mbps, run.flows[1].goodput_mbps);
        Self { trial, share_percent: one / (one + other) * 100.0, goodput_mbps: one + other }
    }
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let rate_mbps = context.pick((5.0, 100.0), (5.0, 40.0));
    let duration = Duration::from_secs(context.pick(60, 20));
    let warm_up = Duration::from_secs(5);
    let trials = draw(context.seed(), context.pick(40, 8), rate_mbps);
    let cells: Vec<_> =
        PAIRS.iter().flat_map(|pair| trials.iter().map(move |trial| (*pair, *trial))).collect();
    let runs = context.simulate(&cells, &[context.seed()], |((one, other, _), trial), _| {
        let path = PathSpec::with_rtt(trial.rtt);
        let scenario = Scenario {
            link: pipe(trial.rate_mbps, trial.buffer_bdp)?,
            flows: vec![one.flow(path), other.flow(path)],
            duration,
            warm_up,
            bin: duration,
            seed: trial.seed,
        };
        Ok((format!("{} beside {}, {trial:?}", one.label, other.label), scenario))
    })?;
    let measured: Vec<_> = cells
        .iter()
        .zip(runs.iter().flatten())
        .map(|((_, trial), run)| Measured::new(*trial, run))
        .collect();
    let pairs: Vec<_> = PAIRS.iter().zip(measured.chunks(trials.len())).collect();
    Ok(Findings {
        parameters: json!({
            "rate_mbps": [rate_mbps.0, rate_mbps.1],
            "rtt_ms": [RTT_MS.0, RTT_MS.1],
            "buffer_bdp": [BUFFER_BDP.0, BUFFER_BDP.1],
            "distribution": "logarithmically even",
            "trials": trials.len(),
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds: vec![context.seed()],
        tables: vec![summary(&pairs), every_trial(&pairs)],
        plots: plots(&pairs),
        checks: checks(&pairs),
        notes: vec![
            "All pairs meet on the same links. A pipe's queue is 64 KiB at least only where none \
             is given: here it may be a few packets."
                .to_owned(),
            "What a flow takes from quiche's CUBIC says as much of that: quinn's, which is CUBIC \
             as well, is shown beside it."
                .to_owned(),
        ],
    })
}

/// Shares of the first flow, percent.
fn shares(measured: &[Measured]) -> impl Iterator<Item = f64> {
    measured.iter().map(|of| of.share_percent)
}

fn summary(pairs: &[(&Pair, &[Measured])]) -> Table {
    let mut table = Table::new("Share of the first flow: 50 % is equal")
        .text("flow", "flow")
        .text("beside", "beside")
        .number("share_median_percent", "median", "%", 1)
        .number("share_low_percent", "lowest", "%", 1)
        .number("share_high_percent", "highest", "%", 1);
    for ((one, other, _), measured) in pairs {
        table.row([
            one.label.into(),
            other.label.into(),
            median(shares(measured)).into(),
            shares(measured).reduce(f64::min).into(),
            shares(measured).reduce(f64::max).into(),
        ]);
    }
    table
}

fn every_trial(pairs: &[(&Pair, &[Measured])]) -> Table {
    let mut table = Table::new("Every trial")
        .text("flow", "flow")
        .text("beside", "beside")
        .number("rate_mbps", "rate", "Mbit/s", 1)
        .number("rtt_ms", "RTT", "ms", 1)
        .number("buffer_bdp", "buffer", "BDP", 2)
        .number("share_percent", "share", "%", 1)
        .number("goodput_mbps", "both", "Mbit/s", 2);
    for ((one, other, _), measured) in pairs {
        for Measured { trial, share_percent, goodput_mbps } in *measured {
            table.row([
                one.label.into(),
                other.label.into(),
                trial.rate_mbps.into(),
                (trial.rtt.as_secs_f64() * 1e3).into(),
                trial.buffer_bdp.into(),
                (*share_percent).into(),
                (*goodput_mbps).into(),
            ]);
        }
    }
    table
}

fn plots(pairs: &[(&Pair, &[Measured])]) -> Vec<Plot> {
    let by_buffer = pairs.iter().map(|((one, other, colour), measured)| {
        let points = measured.iter().map(|of| (of.trial.buffer_bdp, of.share_percent));
        let label = format!("{} beside {}", one.label, other.label);
        Series::measured(label, *colour, points.collect())
    });
    let by_buffer: Vec<_> = by_buffer.collect();
    let distributions = by_buffer.iter().map(distribution).collect();
    vec![
        Plot::new(
            "Share of the first flow by the size of the buffer",
            Axis::linear("buffer, BDP"),
            Axis::linear("share, %"),
            Chart::Scatter { series: by_buffer },
        ),
        Plot::new(
            "How often the first flow gets less than a share",
            Axis::linear("share, %"),
            Axis::linear("trials with a smaller share, %"),
            Chart::Lines { series: distributions },
        )
        .mark(50.0, "equal"),
    ]
}

fn checks(pairs: &[(&Pair, &[Measured])]) -> Vec<Check> {
    let medians: Vec<_> = pairs.iter().map(|(_, measured)| median(shares(measured))).collect();
    let shown =
        |value: Option<f64>| value.map_or("none".into(), |value| format!("{value:.0} %"));
    let near = |one: Option<f64>, other: Option<f64>| {
        one.zip(other).is_some_and(|(one, other)| (one - other).abs() < 15.0)
    };
    let mut checks = vec![
        Check::paper(
            "TACK's share beside CUBIC",
            shown(medians[0]),
            format!(
                "similar to BBR's (quiche BBR2 here: {}): within 15 points",
                shown(medians[3])
            ),
            near(medians[0], medians[3]),
        ),
        Check::paper(
            "TACK's share beside BBR",
            shown(medians[1]),
            "about half: within 15 points",
            near(medians[1], Some(50.0)),
        ),
    ];
    for ((_, other, _), share) in PAIRS[..3].iter().zip(&medians) {
        let times_fair = share.map_or(f64::NAN, |share| share / 50.0);
        let what = format!("TACK beside {}: times its fair share", other.label);
        checks.push(Check::at_least(what, times_fair, "", 0.5));
        // Of two flows none can have more than 2: what counts is what is left to the other.
        let what = format!("{} beside TACK: times its fair share", other.label);
        checks.push(Check::at_least(what, 2.0 - times_fair, "", 0.5));
    }
    checks
}

fn draw(seed: u64, trials: usize, rate_mbps: (f64, f64)) -> Vec<Trial> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut within = |(low, high): (f64, f64)| low * (high / low).powf(random.random::<f64>());
    let seeds = seed..;
    seeds
        .take(trials)
        .map(|seed| Trial {
            rate_mbps: within(rate_mbps),
            rtt: Duration::from_secs_f64(within(RTT_MS) / 1e3),
            buffer_bdp: within(BUFFER_BDP),
            seed,
        })
        .collect()
}

/// The cumulated distribution of the y values, in percent of the points.
fn distribution(cloud: &Series) -> Series {
    let mut values: Vec<_> = cloud.points.iter().map(|(_, y)| *y).collect();
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let points =
        values.into_iter().zip(1_u32..).map(|(x, n)| (x, 100.0 * f64::from(n) / count));
    Series { points: points.collect(), ..cloud.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_links_within_their_limits() {
        let trials = draw(3, 50, (5.0, 40.0));
        assert_eq!(trials, draw(3, 50, (5.0, 40.0)));
        assert_ne!(trials, draw(4, 50, (5.0, 40.0)));
        for trial in trials {
            assert!((5.0..=40.0).contains(&trial.rate_mbps));
            assert!((0.01..=0.1).contains(&trial.rtt.as_secs_f64()));
            assert!((0.5..=4.0).contains(&trial.buffer_bdp));
        }
    }

    #[test]
    fn a_distribution_ends_at_all_points() {
        let cloud = Series::measured("s", Colour::Blue, vec![(1.0, 60.0), (2.0, 40.0)]);
        assert_eq!(distribution(&cloud).points, [(40.0, 50.0), (60.0, 100.0)]);
    }
}
