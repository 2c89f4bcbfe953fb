//! How seldom a receiver may acknowledge on short paths before it costs more than it saves.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;
use tack_link::wlan::Profile;

use super::links::{standard, udp_baseline, wlan};
use super::summary::{acks_hz, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{Acks, FlowReport, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ack-interval",
    title: "How seldom to acknowledge short paths",
    question: "How long may the interval between TACKs be where the round trip is short, until \
               what it saves of the medium is lost in queues?",
    paper: "Equation (4) has an ACK at least every quarter of a round trip: 400 a second at 10 ms.",
    measure,
};

const RTTS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(20), Duration::from_millis(40)];

/// Profile, and the share of data packets that are lost at random, percent.
type Medium = (Profile, f64);

const MEDIA: [Medium; 4] =
    [(Profile::G, 0.0), (Profile::N, 0.0), (Profile::N, 1.0), (Profile::Ac, 0.0)];

const DEFAULT: Contender = Contender::TACK;
const RULES: [Contender; 7] = [
    DEFAULT,
    DEFAULT.acknowledging("the paper's", Acks::TackPaper).coloured(Colour::Grey),
    no_sooner("5 ms at least", 5).coloured(Colour::Green),
    no_sooner("10 ms", 10).coloured(Colour::Sky),
    no_sooner("20 ms", 20).coloured(Colour::Violet),
    no_sooner("30 ms", 30).coloured(Colour::Orange),
    no_sooner("60 ms", 60).coloured(Colour::Red),
];

/// Least share of the goodput of the best rule, percent.
const TARGET_OF_BEST: f64 = 98.0;
/// Largest share of packets that a queue may drop, percent.
const TARGET_DROPPED: f64 = 0.5;

const fn no_sooner(label: &'static str, milliseconds: u64) -> Contender {
    DEFAULT.acknowledging(label, Acks::TackNoSooner(Duration::from_millis(milliseconds)))
}

/// Of all data packets, percent. What the path loses at random comes first.
fn dropped_percent(flow: &FlowReport, random_percent: f64) -> f64 {
    let lost = 100.0 * flow.lost as f64 / flow.data_packets.max(1) as f64;
    (lost - random_percent).max(0.0)
}

/// Goodput as a share of what UDP has, percent.
fn of_udp_percent(flow: &FlowReport, profile: Profile) -> f64 {
    100.0 * flow.goodput_mbps / udp_baseline(profile)
}

/// A medium, a round trip and a rule of [`RULES`].
type Cell = (Medium, Duration, Contender);

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(20, 4));
    let warm_up = Duration::from_secs(context.pick(4, 1));
    let cells: Vec<Cell> = MEDIA
        .iter()
        .flat_map(|medium| RTTS.map(|rtt| (*medium, rtt)))
        .flat_map(|(medium, rtt)| RULES.map(|rule| (medium, rtt, rule)))
        .collect();
    let runs =
        context.simulate(&cells, &seeds, |((profile, loss_percent), rtt, rule), seed| {
            let loss_forward = loss_percent / 100.0;
            let scenario = Scenario {
                link: wlan(*profile)?,
                flows: vec![rule.flow(PathSpec { loss_forward, ..PathSpec::with_rtt(*rtt) })],
                duration,
                warm_up,
                bin: duration,
                seed,
            };
            let name =
                format!("{}, {rtt:?}, {loss_percent} %, {}", standard(*profile), rule.label);
            Ok((name, scenario))
        })?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
    let by_medium = MEDIA.iter().zip(flows.chunks(RTTS.len() * RULES.len()));
    Ok(Findings {
        parameters: json!({
            "rtt_ms": RTTS.map(|rtt| rtt.as_millis() as u64),
            "loss_percent": MEDIA.map(|(_, loss)| loss),
            "buffer": "512 KiB or one BDP at each station",
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(&cells, &flows)],
        plots: by_medium.flat_map(|(medium, flows)| plots(*medium, flows)).collect(),
        checks: checks(&cells, &flows),
        notes: vec![
            "\"tacklib TACK\" is the default: one for a round trip up to 20 ms, 50 a second up to \
             40 ms, 100 a second at most. \"The paper's\" is L = 2 and beta = 4. All others have \
             half a round trip or the time in their name, whichever is longer."
                .to_owned(),
            "The longer the interval, the more is in flight, and the coarser the sender's view of \
             the queue: what is saved of the medium comes back as drops where the buffer holds \
             little of the rate (ac: 512 KiB are 7 ms)."
                .to_owned(),
        ],
    })
}

fn table(cells: &[Cell], flows: &[FlowReport]) -> Table {
    let mut table = Table::new("One bulk flow on a clean medium of two stations")
        .text("profile", "profile")
        .number("loss_percent", "random loss", "%", 0)
        .number("rtt_ms", "RTT", "ms", 0)
        .text("rule", "interval")
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("of_udp_percent", "of UDP", "%", 1)
        .number("acks_hz", "ACKs", "1/s", 0)
        .number("dropped_percent", "dropped", "%", 2)
        .number("queue_p95_ms", "queue p95", "ms", 1);
    for (((profile, loss_percent), rtt, rule), flow) in cells.iter().zip(flows) {
        table.row([
            standard(*profile).into(),
            (*loss_percent).into(),
            (rtt.as_secs_f64() * 1e3).into(),
            rule.label.into(),
            flow.goodput_mbps.into(),
            of_udp_percent(flow, *profile).into(),
            acks_hz(flow).into(),
            dropped_percent(flow, *loss_percent).into(),
            flow.queue_p95_ms.into(),
        ]);
    }
    table
}

/// Of the default rule, on each path.
fn checks(cells: &[Cell], flows: &[FlowReport]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (cells, flows) in cells.chunks(RULES.len()).zip(flows.chunks(RULES.len())) {
        let ((profile, loss_percent), rtt, _) = cells[0];
        let what = |what: &str| {
            format!(
                "{}, {} ms, {loss_percent} % lost: {what}",
                standard(profile),
                rtt.as_millis()
            )
        };
        let best = flows.iter().map(|flow| flow.goodput_mbps).fold(0.0, f64::max);
        let of_best = 100.0 * flows[0].goodput_mbps / best;
        checks.push(Check::at_least(what("of the best rule"), of_best, "%", TARGET_OF_BEST));
        let dropped = dropped_percent(&flows[0], loss_percent);
        checks.push(Check::at_most(what("dropped by queues"), dropped, "%", TARGET_DROPPED));
    }
    checks
}

/// Of the flows of one medium: those of all rules for each round trip.
fn plots((profile, loss_percent): Medium, flows: &[FlowReport]) -> [Plot; 2] {
    let lines = |value: &dyn Fn(&FlowReport) -> f64| -> Vec<Series> {
        let line = |(at, rule): (usize, &Contender)| {
            let of_rule = flows.iter().skip(at).step_by(RULES.len());
            let points = RTTS.iter().zip(of_rule);
            let points = points.map(|(rtt, flow)| (rtt.as_secs_f64() * 1e3, value(flow)));
            Series::measured(rule.label, rule.colour, points.collect())
        };
        RULES.iter().enumerate().map(line).collect()
    };
    let of = format!("{}, {loss_percent} % lost at random", standard(profile));
    [
        Plot::new(
            format!("Goodput by interval: {of}"),
            Axis::log("RTT, ms"),
            Axis::linear("of UDP, %"),
            Chart::Lines { series: lines(&|flow| of_udp_percent(flow, profile)) },
        ),
        Plot::new(
            format!("Dropped by queues: {of}"),
            Axis::log("RTT, ms"),
            Axis::linear("of data packets, %"),
            Chart::Lines { series: lines(&|flow| dropped_percent(flow, loss_percent)) },
        ),
    ]
}
