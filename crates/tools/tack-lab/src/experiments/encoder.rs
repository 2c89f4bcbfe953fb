//! What a live source is told of the path's rate, against the truth.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::{Contender, Context, Error, Experiment, Findings, median};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{
    Flow, FlowReport, FrameRate, Frames, Load, Scenario, ScenarioReport, step_at,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "encoder",
    title: "A rate for encoders",
    question: "Does a source that sends less than the path carries learn what that is, soon and without a \
               queue?",
    paper: "No figure of the paper. A source of 30 frames a second over a bottleneck whose rate changes \
            every 6 s, from 2 to 40 Mbit/s; 40 ms, alone or in front of an 802.11n cell. The source sends \
            a tenth, half or nine tenths of what the bottleneck carries at the time, or nine tenths \
            of the estimate.",
    measure,
};

/// From when on, seconds, and the rate in bits per second of everything in an IP packet.
const STEPS: [(u64, f64); 7] =
    [(0, 10e6), (6, 2e6), (12, 40e6), (18, 5e6), (24, 20e6), (30, 2e6), (36, 10e6)];
const DURATION: Duration = Duration::from_secs(42);
const RTT: Duration = Duration::from_millis(40);
/// 500 ms at the lowest rate.
const BUFFER_BYTES: u64 = 125_000;
const BIN: Duration = Duration::from_millis(100);
const SOURCE: Frames = Frames {
    rate: FrameRate::Constant(0.0),
    fps: 30.0,
    patience: Duration::from_millis(33),
    lifetime: Duration::from_millis(400),
    playout: Duration::from_millis(400),
    as_datagrams: false,
    has_deadlines: false,
    measured_from: Duration::ZERO,
};
/// UDP payload of a full packet, and the IP packet around it.
const FULL_PACKET: (f64, f64) = (1472.0, 1500.0);

/// How far the estimate may be off, and for how long behind a step.
const TOLERANCE: f64 = 0.1;
const TARGET_SETTLED_MS: f64 = 1000.0;
/// Of the estimates behind it, so many are within the tolerance once it has settled.
const SETTLED_SHARE: f64 = 0.95;
const TARGET_QUEUE_MS: f64 = 20.0;
const TARGET_PROBING_PERCENT: f64 = 2.0;

/// Each link, whether it ends in a cell, and whether frames go into DATAGRAMs.
const LINKS: [(&str, bool, bool); 3] = [
    ("pipe", false, false),
    ("pipe, then 802.11n", true, false),
    ("pipe, DATAGRAMs", false, true),
];
const SOURCES: [(&str, FrameRate, bool); 4] = [
    ("10 % of the path", FrameRate::Share(0.1, &STEPS), true),
    ("50 % of the path", FrameRate::Share(0.5, &STEPS), true),
    ("90 % of the path", FrameRate::Share(0.9, &STEPS), true),
    ("90 % of the estimate", FrameRate::OfEstimate(0.9, 300e3), false),
];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 3);
    let cells: Vec<_> = LINKS
        .iter()
        .flat_map(|link| SOURCES.iter().map(move |source| (*link, *source)))
        .collect();
    let runs = context.simulate(
        &cells,
        &seeds,
        |&((link, wifi, as_datagrams), (source, rate, _)), seed| {
            let load = Load::Frames(Frames { rate, as_datagrams, ..SOURCE });
            let flow = Flow { load, ..Contender::TACK_VIDEO.flow(PathSpec::with_rtt(RTT)) };
            let scenario = Scenario {
                link: bottleneck(wifi)?,
                flows: vec![flow],
                duration: DURATION,
                warm_up: Duration::ZERO,
                bin: BIN,
                seed,
            };
            Ok((format!("{link}, {source}"), scenario))
        },
    )?;
    let links: Vec<_> = LINKS.into_iter().zip(runs.chunks(SOURCES.len())).collect();
    Ok(Findings {
        parameters: json!({
            "steps": STEPS,
            "rtt_ms": RTT.as_millis() as u64,
            "buffer_bytes": BUFFER_BYTES,
            "frames_per_second": SOURCE.fps,
            "tolerance": TOLERANCE,
            "duration_s": DURATION.as_secs_f64(),
        }),
        seeds,
        plots: links.iter().map(|((link, ..), runs)| plot(link, runs)).collect(),
        tables: links.iter().map(|((link, ..), runs)| table(link, runs)).collect(),
        checks: links.iter().flat_map(|(link, runs)| checks(link, runs)).collect(),
        notes: vec![
            "The estimate is read when a frame is made. It has settled when 19 in 20 of all until the next \
             step are within a tenth of what the bottleneck carries in full-sized packets. The \
             source that sends nine tenths of the estimate overshoots where the path falls, as \
             any does that is told afterwards; its figures have no target."
                .to_owned(),
            "The p95 of the queue over packets is what most packets wait, and has the target. Of a source \
             that follows the path few of them belong to the slow steps, and it hides the queue that a \
             fall leaves behind. The other two are of the mean queue in each tenth of a second in which data \
             arrived: p95 over the whole run, and over the step in which that is longest. They have no \
             target: until the first train has shown a fall no sender knows of it."
                .to_owned(),
        ],
    })
}

/// The median over the runs of a source.
fn median_of(reports: &[ScenarioReport], value: &dyn Fn(&FlowReport) -> f64) -> f64 {
    median(reports.iter().map(|report| value(&report.flows[0]))).unwrap_or(f64::NAN)
}

fn settled_ms(reports: &[ScenarioReport]) -> f64 {
    median_of(reports, &|flow| worst_settled_ms(estimates(flow)))
}

fn probing_percent(reports: &[ScenarioReport]) -> f64 {
    let share = |flow: &FlowReport| flow.delivered_frames.as_ref()?.probing_share;
    median_of(reports, &|flow| 100.0 * share(flow).unwrap_or(f64::NAN))
}

fn queue_p95_ms(reports: &[ScenarioReport]) -> f64 {
    median_of(reports, &|flow| flow.queue_p95_ms.unwrap_or(f64::NAN))
}

fn table(link: &str, runs: &[Vec<ScenarioReport>]) -> Table {
    let mut table = Table::new(link)
        .text("source", "source")
        .number("settled_ms", "worst step settled after", "ms", 0)
        .number("error_percent", "mean error behind that", "%", 1)
        .number("probing_percent", "probing", "%", 2)
        .number("queue_p95_ms", "queue p95 of packets", "ms", 1)
        .number("queue_p95_of_time_ms", "of time", "ms", 1)
        .number("queue_p95_of_worst_step_ms", "of the worst step", "ms", 1)
        .number("frame_delay_p50_ms", "frame p50", "ms", 1)
        .number("frame_delay_p99_ms", "frame p99", "ms", 1)
        .number("lost", "resent", "", 0)
        .number("acks_per_second", "ACKs", "1/s", 1);
    for ((source, ..), reports) in SOURCES.iter().zip(runs) {
        let of = |value: &dyn Fn(&FlowReport) -> f64| median_of(reports, value);
        let frames = |flow: &FlowReport| flow.delivered_frames.clone().unwrap_or_default();
        table.row([
            (*source).into(),
            settled_ms(reports).into(),
            of(&|flow| mean_error_percent(estimates(flow))).into(),
            probing_percent(reports).into(),
            queue_p95_ms(reports).into(),
            of(&|flow| p95(queues(flow).map(|(_, ms)| ms))).into(),
            of(&worst_step_queue_p95_ms).into(),
            of(&|flow| frames(flow).delay_p50_ms.unwrap_or(f64::INFINITY)).into(),
            of(&|flow| frames(flow).delay_p99_ms.unwrap_or(f64::INFINITY)).into(),
            of(&|flow| flow.retransmitted as f64).into(),
            of(&|flow| flow.ack_packets as f64 / DURATION.as_secs_f64()).into(),
        ]);
    }
    table
}

fn checks(
    (link, _, as_datagrams): &(&str, bool, bool),
    runs: &[Vec<ScenarioReport>],
) -> Vec<Check> {
    let mut checks = Vec::new();
    for ((source, _, is_target), reports) in SOURCES.iter().zip(runs) {
        if !is_target {
            continue;
        }
        let mut at_most = |what: &str, value, unit, target| {
            let what = format!("{link}, {source}: {what}");
            checks.push(Check::at_most(what, value, unit, target));
        };
        at_most("worst step settled after", settled_ms(reports), "ms", TARGET_SETTLED_MS);
        at_most("bytes for probing", probing_percent(reports), "%", TARGET_PROBING_PERCENT);
        // Only packets with stream data tell what they have waited.
        if !as_datagrams {
            at_most("queue p95 of packets", queue_p95_ms(reports), "ms", TARGET_QUEUE_MS);
        }
    }
    checks
}

fn plot(link: &str, runs: &[Vec<ScenarioReport>]) -> Plot {
    let truth = (0..DURATION.as_millis() as u64 / 10)
        .map(|step| step as f64 / 100.0)
        .map(|at| (at, payload_rate(at) / 1e6));
    let mut series = vec![Series::measured("the path", Colour::Grey, truth.collect())];
    let colours = [Colour::Blue, Colour::Sky, Colour::Violet, Colour::Red];
    for (((source, ..), reports), colour) in SOURCES.iter().zip(runs).zip(colours) {
        let points = estimates(&reports[0].flows[0]).iter();
        let points = points.map(|(at, bps)| (*at, bps / 1e6)).collect();
        series.push(Series::measured(*source, colour, points));
    }
    Plot::new(
        format!("Estimated rate, {link}"),
        Axis::linear("time, s"),
        Axis::linear("rate, Mbit/s"),
        Chart::Steps { series },
    )
}

fn bottleneck(wifi: bool) -> Result<LinkSpec, Error> {
    let steps: Vec<_> =
        STEPS.iter().map(|(from, bps)| format!("[{from}, {:?}]", bps / 1e6)).collect();
    let mut toml = format!(
        "[[hop]]\nkind = \"pipe\"\nbuffer_bytes = {BUFFER_BYTES}\nrate_trace = {{ steps = [{}] }}\n",
        steps.join(", ")
    );
    if wifi {
        toml += "[[hop]]\nkind = \"wlan\"\nprofile = \"n\"\n";
    }
    Ok(LinkSpec::from_toml(&toml, "encoder")?)
}

fn estimates(flow: &FlowReport) -> &[(f64, f64)] {
    flow.delivered_frames.as_ref().map_or(&[], |frames| &frames.estimates)
}

/// What the path carries of the payload of full-sized packets, bits per second.
fn payload_rate(at: f64) -> f64 {
    step_at(&STEPS, Duration::from_secs_f64(at)) * FULL_PACKET.0 / FULL_PACKET.1
}

/// The part of each step, with the time at which it begins.
fn parts(estimates: &[(f64, f64)]) -> impl Iterator<Item = (f64, &[(f64, f64)])> {
    let end = DURATION.as_secs();
    let ends = STEPS.iter().skip(1).map(|(from, _)| *from).chain([end]);
    STEPS.iter().zip(ends).map(|((from, _), to)| {
        let at = |seconds: u64| estimates.partition_point(|(at, _)| *at < seconds as f64);
        (*from as f64, &estimates[at(*from)..at(to)])
    })
}

fn error((at, bps): (f64, f64)) -> f64 {
    (bps / payload_rate(at) - 1.0).abs()
}

/// How long after its step the estimate settles, of the step that takes longest.
fn worst_settled_ms(estimates: &[(f64, f64)]) -> f64 {
    let settled = parts(estimates).map(|(from, part)| {
        let (mut good, mut all, mut settled) = (0.0, 0.0, f64::INFINITY);
        for estimate in part.iter().rev() {
            all += 1.0;
            let is_good = error(*estimate) <= TOLERANCE;
            good += f64::from(u8::from(is_good));
            if is_good && good >= SETTLED_SHARE * all {
                settled = estimate.0 - from;
            }
        }
        settled * 1e3
    });
    settled.fold(0.0, f64::max)
}

/// Mean error from [`TARGET_SETTLED_MS`] behind each step on.
fn mean_error_percent(estimates: &[(f64, f64)]) -> f64 {
    let settled = parts(estimates).flat_map(|(from, part)| {
        part.iter().filter(move |(at, _)| *at >= from + TARGET_SETTLED_MS / 1e3)
    });
    let errors: Vec<_> = settled.map(|estimate| error(*estimate)).collect();
    100.0 * errors.iter().sum::<f64>() / errors.len() as f64
}

/// The mean queue in each bin in which data arrived, with the time at which it begins: what its packets took beyond the
/// path's delay and the time of a full packet.
fn queues(flow: &FlowReport) -> impl Iterator<Item = (f64, f64)> {
    flow.timeline.iter().filter_map(|bin| {
        let full_packet =
            FULL_PACKET.1 * 8.0 / step_at(&STEPS, Duration::from_secs_f64(bin.at));
        let least_ms = (RTT.as_secs_f64() / 2.0 + full_packet) * 1e3;
        Some((bin.at, (bin.owd_ms? - least_ms).max(0.0)))
    })
}

fn worst_step_queue_p95_ms(flow: &FlowReport) -> f64 {
    let ends = STEPS.iter().skip(1).map(|(from, _)| *from).chain([DURATION.as_secs()]);
    let of_steps = STEPS.iter().zip(ends).map(|((from, _), to)| {
        let step = *from as f64..to as f64;
        p95(queues(flow).filter(|(at, _)| step.contains(at)).map(|(_, ms)| ms))
    });
    of_steps.fold(f64::NAN, f64::max)
}

/// The 95th percentile; NaN of nothing.
fn p95(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<_> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Bin;

    #[test]
    fn the_queue_of_a_slow_step_shows_however_few_packets_it_has() {
        // A queue of 100 ms for a second behind the fall at 6 s, and none elsewhere.
        let bins = (0..420).map(|bin| {
            let at = f64::from(bin) / 10.0;
            let full_packet_ms = 1500.0 * 8e3 / step_at(&STEPS, Duration::from_secs_f64(at));
            let queue_ms = if (6.0..7.0).contains(&at) { 100.0 } else { 0.0 };
            Bin { at, owd_ms: Some(20.0 + full_packet_ms + queue_ms), ..Bin::default() }
        });
        let flow = FlowReport { timeline: bins.collect(), ..FlowReport::default() };
        assert!(
            p95(queues(&flow).map(|(_, ms)| ms)) < 1.0,
            "a second is less than a twentieth"
        );
        assert!((worst_step_queue_p95_ms(&flow) - 100.0).abs() < 1e-6);
        assert!(p95(std::iter::empty()).is_nan());
    }
}
