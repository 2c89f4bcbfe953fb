//! An encoder that follows the path: a step down and up again.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::{Contender, Context, Error, Experiment, Findings, median};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{
    DeliveredFrames, Flow, FlowReport, FrameRate, Frames, Load, Scenario, ScenarioReport,
    step_at,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "adaptive",
    title: "An encoder that follows the path",
    question: "How late are the frames of a source that adapts, when the path halves, and how soon does it \
               have its rate back?",
    paper: "No figure of the paper; section VII-D's use. 30 frames a second, each on a stream, whose rate \
            tack-media's control sets from what the stack tells, over a path that falls from 10 to 5 Mbit/s \
            and comes back; 40 ms, a queue of 250 ms at the lower rate.",
    measure,
};

/// From when on, seconds, and bits per second of everything in an IP packet.
const STEPS: [(u64, f64); 3] = [(0, 10e6), (15, 5e6), (25, 10e6)];
const DURATION: Duration = Duration::from_secs(35);
/// Startup is over, and the rate of the source has come up.
const MEASURED_FROM: Duration = Duration::from_secs(10);
const RTT: Duration = Duration::from_millis(40);
const BUFFER_BYTES: u64 = 156_250;
const BIN: Duration = Duration::from_millis(100);
const FIRST_BPS: u64 = 2_000_000;
const SOURCE: Frames = Frames {
    rate: FrameRate::Adaptive(FIRST_BPS),
    fps: 30.0,
    patience: Duration::from_secs(1),
    lifetime: Duration::from_secs(1),
    playout: Duration::from_millis(200),
    as_datagrams: false,
    has_deadlines: false,
    measured_from: MEASURED_FROM,
};

const STACKS: [Contender; 4] =
    [Contender::TACK_VIDEO, Contender::TACK, Contender::QUICHE_CUBIC, Contender::QUICHE_BBR];
const VIDEO: usize = 0;

const TARGET_DELAY_MS: f64 = 200.0;
const TARGET_BACK_MS: f64 = 3000.0;
/// The share of the rate before the fall that counts as having it back.
const BACK: f64 = 0.9;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 3);
    let runs = context.simulate(&STACKS, &seeds, |stack, seed| {
        let flow = Flow { load: Load::Frames(SOURCE), ..stack.flow(PathSpec::with_rtt(RTT)) };
        let scenario = Scenario {
            link: link()?,
            flows: vec![flow],
            duration: DURATION,
            warm_up: MEASURED_FROM,
            bin: BIN,
            seed,
        };
        Ok((stack.label.to_owned(), scenario))
    })?;
    Ok(Findings {
        parameters: json!({
            "steps": STEPS,
            "rtt_ms": RTT.as_millis() as u64,
            "buffer_bytes": BUFFER_BYTES,
            "frames_per_second": SOURCE.fps,
            "first_bps": FIRST_BPS,
            "measured_from_s": MEASURED_FROM.as_secs(),
            "duration_s": DURATION.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(&runs)],
        plots: vec![plot(&runs)],
        checks: checks(&runs[VIDEO]),
        notes: vec![
            "The control has 0.9 of what the stack takes for the path's rate, follows a fall at once and rises \
             by 25 % a second at most. Plain quiche tells no estimate of the path: it is asked for its \
             window over the smoothed round trip, as programs do. A frame that waits for a second, and of \
             which the stack has taken no byte, is dropped; one that never comes is later than all others. The default profile tells what it has sent as a floor of the path: \
             its source stays at its first rate. The delay is from when a frame is made until it has been read whole."
                .to_owned(),
        ],
    })
}

/// The median over the runs of a stack.
fn median_of(reports: &[ScenarioReport], value: &dyn Fn(&FlowReport) -> f64) -> f64 {
    median(reports.iter().map(|report| value(&report.flows[0]))).unwrap_or(f64::NAN)
}

fn delay_p99_ms(reports: &[ScenarioReport]) -> f64 {
    median_of(reports, &|flow| frames(flow).delay_p99_ms.unwrap_or(f64::INFINITY))
}

fn back_ms(reports: &[ScenarioReport]) -> f64 {
    median_of(reports, &|flow| back_after_ms(&frames(flow).rates))
}

fn table(runs: &[Vec<ScenarioReport>]) -> Table {
    let mut table = Table::new("From 10 s on")
        .text("stack", "stack")
        .number("frame_delay_p50_ms", "frame p50", "ms", 1)
        .number("frame_delay_p99_ms", "frame p99", "ms", 1)
        .number("never_came", "never came", "frames", 0)
        .number("in_time_percent", "within 200 ms", "%", 1)
        .number("before_mbps", "rate before the fall", "Mbit/s", 2)
        .number("back_ms", "nine tenths of it back after", "ms", 0)
        .number("ack_packets", "ACKs", "", 0);
    for (stack, reports) in STACKS.iter().zip(runs) {
        let of = |value: &dyn Fn(&FlowReport) -> f64| median_of(reports, value);
        table.row([
            stack.label.into(),
            of(&|flow| frames(flow).delay_p50_ms.unwrap_or(f64::INFINITY)).into(),
            delay_p99_ms(reports).into(),
            of(&|flow| never_came(&frames(flow))).into(),
            of(&|flow| in_time_percent(&frames(flow))).into(),
            of(&|flow| rate_before(&frames(flow).rates) / 1e6).into(),
            back_ms(reports).into(),
            of(&|flow| flow.ack_packets as f64).into(),
        ]);
    }
    table
}

/// Of TACK's video profile.
fn checks(video: &[ScenarioReport]) -> Vec<Check> {
    let what = |what: &str| format!("{}: {what}", STACKS[VIDEO].label);
    vec![
        Check::at_most(
            what("p99 of the frame delay"),
            delay_p99_ms(video),
            "ms",
            TARGET_DELAY_MS,
        ),
        Check::at_most(
            what("nine tenths of the rate back after"),
            back_ms(video),
            "ms",
            TARGET_BACK_MS,
        ),
    ]
}

fn plot(runs: &[Vec<ScenarioReport>]) -> Plot {
    let mut series = vec![Series::measured("the path", Colour::Grey, path())];
    for (stack, reports) in STACKS.iter().zip(runs) {
        let rates = frames(&reports[0].flows[0]).rates;
        let points = rates.iter().map(|(at, bps)| (*at, bps / 1e6)).collect();
        series.push(Series::measured(stack.label, stack.colour, points));
    }
    Plot::new(
        "Rate of the source",
        Axis::linear("time, s"),
        Axis::linear("rate, Mbit/s"),
        Chart::Steps { series },
    )
}

fn link() -> Result<LinkSpec, Error> {
    let steps: Vec<_> =
        STEPS.iter().map(|(from, bps)| format!("[{from}, {:?}]", bps / 1e6)).collect();
    let toml = format!(
        "[[hop]]\nkind = \"pipe\"\nbuffer_bytes = {BUFFER_BYTES}\nrate_trace = {{ steps = [{}] }}\n",
        steps.join(", ")
    );
    Ok(LinkSpec::from_toml(&toml, "step")?)
}

fn frames(flow: &FlowReport) -> DeliveredFrames {
    flow.delivered_frames.clone().unwrap_or_default()
}

/// Frames that were dropped, or given up on the way.
fn never_came(frames: &DeliveredFrames) -> f64 {
    frames.frames.iter().filter(|(_, delay)| delay.is_none()).count() as f64
}

fn in_time_percent(frames: &DeliveredFrames) -> f64 {
    100.0 * frames.in_time as f64 / frames.made as f64
}

fn path() -> Vec<(f64, f64)> {
    let times = (0..DURATION.as_secs() * 10).map(|tenth| Duration::from_millis(100 * tenth));
    times.map(|at| (at.as_secs_f64(), step_at(&STEPS, at) / 1e6)).collect()
}

/// The source's mean rate in the five seconds before the fall.
fn rate_before(rates: &[(f64, f64)]) -> f64 {
    let fall = STEPS[1].0 as f64;
    let before = rates.iter().filter(|(at, _)| (fall - 5.0..fall).contains(at));
    let (count, sum) =
        before.fold((0.0, 0.0), |(count, sum), (_, bps)| (count + 1.0, sum + bps));
    sum / count
}

/// How long behind the step up the source first has nine tenths of that again.
fn back_after_ms(rates: &[(f64, f64)]) -> f64 {
    let (rise, wanted) = (STEPS[2].0 as f64, BACK * rate_before(rates));
    let mut since = rates.iter().filter(|(at, _)| *at >= rise);
    since.find(|(_, bps)| *bps >= wanted).map_or(f64::INFINITY, |(at, _)| (at - rise) * 1e3)
}
