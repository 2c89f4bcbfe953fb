//! A screen that is projected over Wi-Fi (figure 16).

use std::time::Duration;

use serde_json::{Value, json};
use tack_link::PathSpec;
use tack_link::wlan::Profile;

use super::busy_room::{AIR_SHARE, BUSY_STATIONS, background_mbps};
use super::links::{room, standard};
use super::{Contender, Context, Error, Experiment, Findings, median};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{
    DeliveredFrames, Flow, FlowReport, FrameRate, Frames, Load, Scenario, ScenarioReport,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "miracast",
    title: "A screen projected over Wi-Fi",
    question: "How much of the time does a projected screen stand still, and how much of it is broken, in a \
               room with ten others?",
    paper: "Figure 16: wireless projection with Miracast. RTP stands still 5 to 15 % of the time with 5 to 6 \
            times of macroblocking in 30 minutes, TCP CUBIC 50 to 90 %, BBR 30 to 58 %, TACK 3 to 10 %, \
            without macroblocking. The paper tells neither the rate of the video nor the room.",
    measure,
};

const FPS: f64 = 60.0;
/// Two devices in one room: what is not the medium's is theirs.
const RTT: Duration = Duration::from_millis(4);
/// A frame is shown so long after it was made.
const PLAYOUT: Duration = Duration::from_millis(200);
/// What the source leaves out rather than send: it skips ahead to the present.
const PATIENCE: Duration = Duration::from_millis(500);
const WARM_UP: Duration = Duration::from_secs(3);

/// The rooms, and the mean rate of the screen in Mbit/s: what TACK just carries.
const ROOMS: [(Profile, f64); 2] = [(Profile::N, 150.0), (Profile::Ac, 400.0)];

const VIDEO: &str = "TACK video";
const CUBIC: &str = "quiche CUBIC";
const BBR: &str = "quiche BBR2";
/// Each stack, and whether frames go into DATAGRAMs.
const STACKS: [(Contender, &str, bool); 5] = [
    (Contender::QUICHE_CUBIC.coloured(Colour::Grey), "quiche CUBIC, datagrams", true),
    (Contender::QUICHE_CUBIC, CUBIC, false),
    (Contender::QUICHE_BBR, BBR, false),
    (Contender::TACK.coloured(Colour::Sky), "TACK", false),
    (Contender::TACK_VIDEO, VIDEO, false),
];

/// What a viewer sees of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Share of the time at which the frame that should be seen is not there.
    stands_still: f64,
    broken: f64,
    delay_p50_ms: f64,
    delay_p99_ms: f64,
    acks: f64,
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 3);
    // In the short form, too, a median: one seed is a single course of what the room's stations send.
    let duration = WARM_UP + Duration::from_secs(context.pick(1800, 20));
    let cells: Vec<_> =
        ROOMS.into_iter().flat_map(|room| STACKS.map(|stack| (room, stack))).collect();
    let runs = context.simulate(&cells, &seeds, |&((profile, mbps), stack), seed| {
        let (contender, label, as_datagrams) = stack;
        let load = Load::Frames(screen(mbps, as_datagrams));
        let flow = Flow { load, ..contender.flow(PathSpec::with_rtt(RTT)) };
        let scenario = Scenario {
            link: room(profile, BUSY_STATIONS, background_mbps(profile, AIR_SHARE))?,
            flows: vec![flow],
            duration,
            warm_up: WARM_UP,
            bin: duration,
            seed,
        };
        Ok((format!("{}, {label}", standard(profile)), scenario))
    })?;
    let mut findings = Findings {
        parameters: parameters(duration),
        seeds,
        plots: vec![plot(&runs)],
        notes: notes(),
        ..Findings::default()
    };
    for ((profile, mbps), runs) in ROOMS.into_iter().zip(runs.chunks(STACKS.len())) {
        let name = standard(profile);
        let seen: Vec<_> = runs.iter().map(|reports| median_seen(reports, duration)).collect();
        findings.tables.push(table(&format!("{name}, {mbps} Mbit/s"), &seen));
        findings.checks.extend(checks(&name, &seen));
    }
    Ok(findings)
}

/// The source: a screen of this mean rate.
fn screen(mbps: f64, as_datagrams: bool) -> Frames {
    Frames {
        rate: FrameRate::Screen(mbps * 1e6),
        fps: FPS,
        patience: PATIENCE,
        lifetime: PATIENCE,
        playout: PLAYOUT,
        as_datagrams,
        has_deadlines: false,
        measured_from: WARM_UP,
    }
}

fn parameters(duration: Duration) -> Value {
    json!({
        "rooms": ROOMS.map(|(profile, mbps)| json!({
            "profile": standard(profile), "source_mbps": mbps,
        })),
        "background_stations": BUSY_STATIONS,
        "background_air_share_each": AIR_SHARE,
        "frames_per_second": FPS,
        "playout_ms": PLAYOUT.as_millis() as u64,
        "patience_ms": PATIENCE.as_millis() as u64,
        "rtt_ms": RTT.as_millis() as u64,
        "duration_s": duration.as_secs_f64(),
    })
}

fn notes() -> Vec<String> {
    vec![
        "A screen of scenes that need 0.7 to 1.3 of its mean rate, and a frame of six times the size in each \
         second. A frame is to be seen 200 ms after it was made; the screen stands still while the one that \
         is due is not there. A frame that has waited for 500 ms without a byte of it being taken by the \
         stack is left out, with every stack alike. As DATAGRAMs it is sent once, and is broken if a part \
         of it never comes."
            .to_owned(),
        "The rate of the screen is what TACK just carries in the room. Chosen so, it shows by how much the \
         others carry less; how they do with a screen that needs less, it does not tell."
            .to_owned(),
    ]
}

/// The delay of each frame in the first run of each stack in the first room.
fn plot(runs: &[Vec<ScenarioReport>]) -> Plot {
    let series = STACKS.iter().enumerate().map(|(at, (stack, label, _))| {
        let delays = runs[at][0].flows[0].delivered_frames.clone().unwrap_or_default().frames;
        let points = delays.iter().filter_map(|(made, delay)| Some((*made, (*delay)? * 1e3)));
        Series::measured(*label, stack.colour, points.take(1200).collect())
    });
    Plot::new(
        "Frame delay on 802.11n, the first 20 s",
        Axis::linear("time, s"),
        Axis::linear("delay, ms"),
        Chart::Steps { series: series.collect() },
    )
}

/// The median of each value over the runs of a stack.
fn median_seen(reports: &[ScenarioReport], duration: Duration) -> Seen {
    let seen: Vec<_> = reports.iter().map(|report| see(&report.flows[0], duration)).collect();
    let of = |value: fn(&Seen) -> f64| median(seen.iter().map(value)).unwrap_or(f64::NAN);
    Seen {
        stands_still: of(|seen| seen.stands_still),
        broken: of(|seen| seen.broken),
        delay_p50_ms: of(|seen| seen.delay_p50_ms),
        delay_p99_ms: of(|seen| seen.delay_p99_ms),
        acks: of(|seen| seen.acks),
    }
}

fn table(title: &str, seen: &[Seen]) -> Table {
    let mut table = Table::new(title)
        .text("stack", "stack")
        .number("stands_still_percent", "stands still", "%", 2)
        .number("broken_frames", "broken frames", "", 0)
        .number("frame_delay_p50_ms", "frame p50", "ms", 1)
        .number("frame_delay_p99_ms", "frame p99", "ms", 1)
        .number("ack_packets", "ACKs", "", 0);
    for ((_, label, _), seen) in STACKS.iter().zip(seen) {
        table.row([
            (*label).into(),
            (100.0 * seen.stands_still).into(),
            seen.broken.into(),
            seen.delay_p50_ms.into(),
            seen.delay_p99_ms.into(),
            seen.acks.into(),
        ]);
    }
    table
}

fn checks(room: &str, seen: &[Seen]) -> Vec<Check> {
    let of = |label: &str| {
        let at = STACKS.iter().position(|(_, other, _)| *other == label);
        at.map(|at| seen[at]).unwrap_or_default()
    };
    let (video, cubic, bbr) = (of(VIDEO), of(CUBIC), of(BBR));
    let percent = |share: f64| 100.0 * share;
    let reliable = STACKS.iter().zip(seen).filter(|((_, _, datagrams), _)| !datagrams);
    let others = reliable.filter(|((_, label, _), _)| *label != VIDEO);
    let lowest = others.map(|(_, seen)| seen.delay_p99_ms).fold(f64::INFINITY, f64::min);
    let what = |what: &str| format!("{room}, {VIDEO}: {what}");
    let still = percent(video.stands_still);
    vec![
        Check::at_most(
            what("stands still, a third of CUBIC's"),
            still,
            "%",
            percent(cubic.stands_still) / 3.0,
        ),
        Check::at_most(
            what("stands still, half of BBR2's"),
            still,
            "%",
            percent(bbr.stands_still) / 2.0,
        ),
        Check::at_most(what("broken frames"), video.broken, "", 0.0),
        Check::at_most(
            what("ACKs, a hundredth of CUBIC's"),
            video.acks,
            "",
            cubic.acks / 100.0,
        ),
        Check::at_most(
            what("p99 of the frame delay, as the best of the reliable"),
            video.delay_p99_ms,
            "ms",
            lowest,
        ),
    ]
}

fn see(flow: &FlowReport, duration: Duration) -> Seen {
    let frames = flow.delivered_frames.clone().unwrap_or_default();
    let end = duration.as_secs_f64() - PLAYOUT.as_secs_f64();
    let due: Vec<_> = frames
        .frames
        .iter()
        .copied()
        .filter(|(made, _)| *made < end - PATIENCE.as_secs_f64())
        .collect();
    Seen {
        stands_still: stands_still(&due),
        broken: broken(&frames),
        delay_p50_ms: frames.delay_p50_ms.unwrap_or(f64::INFINITY),
        delay_p99_ms: frames.delay_p99_ms.unwrap_or(f64::INFINITY),
        acks: flow.ack_packets as f64,
    }
}

/// Frames that were sent and never came whole.
fn broken(frames: &DeliveredFrames) -> f64 {
    let never = frames.frames.iter().filter(|(_, delay)| delay.is_none()).count() as u64;
    never.saturating_sub(frames.dropped) as f64
}

/// Share of the time in which the frame that is due is not there. Frames are shown in order: a late one holds up
/// those behind it. One that never comes is broken and skipped when the next is due.
fn stands_still(frames: &[(f64, Option<f64>)]) -> f64 {
    let (Some(first), Some(last)) = (frames.first(), frames.last()) else { return 1.0 };
    let mut still = 0.0;
    // Until when it has stood still so far.
    let mut until = f64::NEG_INFINITY;
    for (at, (made, delay)) in frames.iter().enumerate() {
        let due = made + PLAYOUT.as_secs_f64();
        let next = frames.get(at + 1).map_or(due, |(made, _)| made + PLAYOUT.as_secs_f64());
        let there = delay.map_or(next, |delay| made + delay);
        if there > due {
            still += there - due.max(until).min(there);
            until = until.max(there);
        }
    }
    still / (last.0 - first.0).max(1.0 / FPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(delays: &[Option<f64>]) -> Vec<(f64, Option<f64>)> {
        delays.iter().enumerate().map(|(at, delay)| (at as f64 * 0.1, *delay)).collect()
    }

    #[test]
    fn the_screen_stands_still_while_the_frame_that_is_due_is_missing() {
        let smooth = [Some(0.05); 11];
        assert!(stands_still(&frames(&smooth)).abs() < 1e-9);
        let mut one_late = smooth;
        one_late[4] = Some(0.25);
        assert!((stands_still(&frames(&one_late)) - 0.05).abs() < 1e-9, "50 ms of a second");
        let mut one_missing = smooth;
        one_missing[4] = None;
        assert!((stands_still(&frames(&one_missing)) - 0.1).abs() < 1e-9, "a frame's time");
        let mut hold = smooth;
        // All of these come at 1.0 s; the first was due at 0.6 s.
        for (at, delay) in hold.iter_mut().enumerate().take(8).skip(4) {
            *delay = Some(1.0 - at as f64 * 0.1);
        }
        assert!((stands_still(&frames(&hold)) - 0.4).abs() < 1e-9, "counted once");
    }
}
