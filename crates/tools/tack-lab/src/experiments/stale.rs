//! Live frames with deadlines over a link whose rate falls: does a stale byte leave?

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::summary::median_flow;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{Flow, FlowReport, FrameRate, Frames, Load, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stale",
    title: "Live frames that are too late",
    question: "Does a sender of frames with deadlines fill a link that has become too slow \
               without a queue, and without sending what is too late?",
    paper: "No figure of the paper. 10 Mbit/s of frames, each on a stream with a deadline 200 ms \
            after it was made, over a link that falls from 12 to 5 Mbit/s; 100 ms, a queue of \
            500 ms.",
    measure,
};

const HIGH_MBPS: f64 = 12.0;
const LOW_MBPS: f64 = 5.0;
const FALLS: Duration = Duration::from_secs(10);
/// From here on the fall itself is not in the figures any more.
const SETTLED: Duration = Duration::from_secs(15);
/// In the quick form, too: the fall itself takes half a second, which is more than a hundredth of a shorter run.
const DURATION: Duration = Duration::from_secs(70);
const RTT: Duration = Duration::from_millis(100);
/// 500 ms at the lower rate.
const BUFFER_BYTES: u64 = 312_500;
const SOURCE_MBPS: f64 = 10.0;
const SOURCE: Frames = Frames {
    rate: FrameRate::Constant(SOURCE_MBPS * 1e6),
    fps: 30.0,
    patience: Duration::from_millis(33),
    lifetime: Duration::from_millis(200),
    playout: Duration::from_millis(250),
    as_datagrams: false,
    has_deadlines: false,
    measured_from: Duration::ZERO,
};
const BIN: Duration = Duration::from_millis(100);

const WITH_DEADLINES: &str = "TACK video, deadlines";
/// Each stack, whether its frames have deadlines, and the share of packets that the path loses at random each way.
const STACKS: [(Contender, &str, bool, f64); 5] = [
    (Contender::TACK_VIDEO, WITH_DEADLINES, true, 0.0),
    (Contender::TACK_VIDEO.coloured(Colour::Violet), "the same, 1 % loss", true, 0.01),
    (Contender::TACK_VIDEO.coloured(Colour::Sky), "TACK video", false, 0.0),
    (Contender::QUICHE_CUBIC, "quiche CUBIC", false, 0.0),
    (Contender::QUICHE_BBR, "quiche BBR2", false, 0.0),
];

const TARGET_RTT_MS: f64 = 120.0;
const TARGET_UTILISATION_PERCENT: f64 = 95.0;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let cells: Vec<_> = [FALLS, SETTLED]
        .into_iter()
        .flat_map(|from| STACKS.map(|stack| (stack, from)))
        .collect();
    let runs = context.simulate(
        &cells,
        &seeds,
        |&((stack, label, has_deadlines, loss), from), seed| {
            let load = Load::Frames(Frames { has_deadlines, measured_from: from, ..SOURCE });
            let path = PathSpec { rtt: RTT, loss_forward: loss, loss_reverse: loss };
            let flow = Flow { load, ..stack.flow(path) };
            let scenario = Scenario {
                link: link()?,
                flows: vec![flow],
                duration: DURATION,
                warm_up: from,
                bin: BIN,
                seed,
            };
            Ok((format!("{label}, from {} s", from.as_secs()), scenario))
        },
    )?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
    let (all, settled) = flows.split_at(STACKS.len());
    Ok(Findings {
        parameters: json!({
            "link": link()?,
            "rtt_ms": RTT.as_millis() as u64,
            "source_mbps": SOURCE_MBPS,
            "frames_per_second": SOURCE.fps,
            "frame_patience_ms": SOURCE.patience.as_millis() as u64,
            "frame_lifetime_ms": SOURCE.lifetime.as_millis() as u64,
            "frame_playout_ms": SOURCE.playout.as_millis() as u64,
            "duration_s": DURATION.as_secs_f64(),
        }),
        seeds,
        tables: vec![
            table("From the fall of the rate on", all),
            table("From 5 s behind the fall on", settled),
        ],
        plots: vec![plot(all)],
        checks: checks(&all[0], &settled[0]),
        notes: notes(),
    })
}

fn table(title: &str, flows: &[FlowReport]) -> Table {
    let mut table = Table::new(title)
        .text("stack", "stack")
        .number("rtt_p50_ms", "RTT p50", "ms", 1)
        .number("rtt_p99_ms", "RTT p99", "ms", 1)
        .number("utilisation_percent", "utilisation", "%", 1)
        .number("useful_percent", "useful", "%", 1)
        .number("stale_packets", "stale packets", "", 0)
        .number("stale_bytes", "stale bytes", "", 0)
        .number("frames_made", "frames", "", 0)
        .number("frames_in_time", "in time", "", 0)
        .number("frames_whole", "came whole", "", 0)
        .number("frame_delay_p50_ms", "p50 of these", "ms", 1)
        .number("frame_delay_p99_ms", "p99 of these", "ms", 1)
        .number("retransmitted", "resent", "", 0);
    for ((_, label, ..), flow) in STACKS.iter().zip(flows) {
        let frames = flow.delivered_frames.clone().unwrap_or_default();
        table.row([
            (*label).into(),
            rtt_ms(flow.owd_p50_ms).into(),
            rtt_ms(flow.owd_p99_ms).into(),
            (100.0 * flow.utilisation).into(),
            useful_percent(flow).into(),
            flow.expired_packets.into(),
            flow.expired_bytes.into(),
            frames.made.into(),
            frames.in_time.into(),
            frames.delivered.into(),
            frames.delivered_p50_ms.into(),
            frames.delivered_p99_ms.into(),
            flow.retransmitted.into(),
        ]);
    }
    table
}

fn checks(all: &FlowReport, settled: &FlowReport) -> Vec<Check> {
    let mut checks = Vec::new();
    for (when, flow) in [("from the fall on", all), ("settled", settled)] {
        let rtt = rtt_ms(flow.owd_p99_ms).unwrap_or(f64::NAN);
        let used = 100.0 * flow.utilisation;
        let what = |what: &str| format!("{WITH_DEADLINES}, {when}: {what}");
        checks.extend([
            Check::at_most(what("p99 of the RTT"), rtt, "ms", TARGET_RTT_MS),
            Check::at_least(what("utilisation"), used, "%", TARGET_UTILISATION_PERCENT),
            Check::at_most(what("stale bytes"), flow.expired_bytes as f64, "", 0.0),
        ]);
    }
    checks
}

fn plot(flows: &[FlowReport]) -> Plot {
    let delays = STACKS.iter().zip(flows).map(|((stack, label, ..), flow)| {
        let points = flow.timeline.iter().filter_map(|bin| Some((bin.at, rtt_ms(bin.owd_ms)?)));
        Series::measured(*label, stack.colour, points.collect())
    });
    Plot::new(
        "Round-trip time over time",
        Axis::linear("time, s"),
        Axis::linear("RTT, ms"),
        Chart::Steps { series: delays.collect() },
    )
}

fn notes() -> Vec<String> {
    vec![
        "Every frame has a stream, and the older stream goes first. A frame that has waited \
         for 33 ms, until the next one is there, without a byte of it being taken by the \
         stack is dropped, with every stack alike. One that has begun goes on to its end, unless its deadline passes. \
         It is in time if it has been read whole 250 ms after it was made."
            .to_owned(),
        "Utilisation counts all that arrived, in IP packets. Useful are the bytes of frames that came in time, as \
         a share of what the link could have carried; headers take some 5 % of it."
            .to_owned(),
        "Stale are bytes of a stream that are put on the link behind its deadline, first or \
         again. The RTT is what a packet took, and the way back."
            .to_owned(),
    ]
}

fn link() -> Result<LinkSpec, Error> {
    let falls = FALLS.as_secs();
    let toml = format!(
        "[[hop]]\nkind = \"pipe\"\nbuffer_bytes = {BUFFER_BYTES}\n\
         rate_trace = {{ steps = [[0, {HIGH_MBPS:?}], [{falls}, {LOW_MBPS:?}]] }}\n"
    );
    Ok(LinkSpec::from_toml(&toml, "falling rate")?)
}

/// What the frames that came in time are of what the link could have carried, behind the fall.
fn useful_percent(flow: &FlowReport) -> f64 {
    let in_time = flow.delivered_frames.as_ref().map_or(0, |frames| frames.in_time);
    let megabits = in_time as f64 * SOURCE_MBPS / SOURCE.fps;
    100.0 * megabits / (LOW_MBPS * flow.seconds)
}

/// A one-way delay and the way back.
fn rtt_ms(owd_ms: Option<f64>) -> Option<f64> {
    owd_ms.map(|owd| owd + RTT.as_secs_f64() * 1e3 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::DeliveredFrames;

    #[test]
    fn only_frames_that_came_in_time_are_useful() {
        let frames = DeliveredFrames { delivered: 900, in_time: 600, ..Default::default() };
        let flow = FlowReport {
            seconds: 60.0,
            utilisation: 1.0,
            delivered_frames: Some(frames),
            ..FlowReport::default()
        };
        // 600 of the 900 frames that 5 Mbit/s carry in a minute.
        assert!((useful_percent(&flow) - 200.0 / 3.0).abs() < 1e-9);
    }
}
