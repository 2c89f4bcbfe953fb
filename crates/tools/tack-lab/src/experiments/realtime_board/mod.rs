//! The public board of real-time congestion control: who is fast, and whose frames are in time?

mod scenarios;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::scenarios::Row;
use super::statistics::{mean, percentile};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::{self, FlowReport, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "realtime-board",
    title: "The board of real-time congestion control",
    question: "On the paths that a public board tests congestion controllers for live video with: \
               how long do transfers take, what queue do they leave, and how late are the frames \
               of a call?",
    paper: "draft-huitema-ccwg-c4-test: scenarios, and results of C4, BBR and CUBIC in picoquic's \
            simulator, 100 runs each. Its columns are another simulator's: they show whether ours \
            are plausible, and rivals are compared within our own.",
    measure,
};

/// TACK, TACK for video, and the rivals that run beside them.
const STACKS: [Contender; 6] = [
    Contender::TACK,
    Contender::TACK_VIDEO,
    Contender::QUICHE_CUBIC,
    Contender::QUICHE_BBR,
    Contender::QUINN,
    Contender::QUINN_BBR,
];
const VIDEO: usize = 1;
const FIRST_RIVAL: usize = 2;
const CUBICS: [(usize, Contender); 2] = [(2, STACKS[2]), (4, STACKS[4])];

/// As good as the best rival: 2 % worse at most.
const AS_GOOD: f64 = 1.02;
/// On a bad Wi-Fi, both at once: the time against the shortest, the mean RTT against the lowest.
const BAD_WIFI_TIME: f64 = 1.03;
const BAD_WIFI_RTT: f64 = 1.05;
const MEDIA_WB_MS: f64 = 200.0;
const MEDIA_WF_MS: f64 = 240.0;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Metric {
    /// From the client's first packet to the last byte.
    Time,
    MeanRtt,
    RttAndDeviation,
    Load,
    /// What the measured flow gets of both while both run.
    Share,
    FrameMean,
    FrameP90,
}

impl Metric {
    const fn label(self) -> &'static str {
        match self {
            Self::Time => "time, s",
            Self::MeanRtt => "mean RTT, ms",
            Self::RttAndDeviation => "RTT + deviation, ms",
            Self::Load => "load, %",
            Self::Share => "share",
            Self::FrameMean => "frame latency, mean of max, ms",
            Self::FrameP90 => "frame latency, p90 of max, ms",
        }
    }

    /// What a kind of row has.
    const fn of(row: &Row) -> &'static [Self] {
        if row.is_call() {
            &[Self::FrameP90, Self::FrameMean, Self::MeanRtt, Self::RttAndDeviation]
        } else if row.is_shared() {
            &[Self::Time, Self::Share, Self::MeanRtt, Self::RttAndDeviation]
        } else {
            &[Self::Time, Self::MeanRtt, Self::RttAndDeviation, Self::Load]
        }
    }

    /// Which of two values is better; none where neither is.
    const fn is_lower_better(self) -> Option<bool> {
        match self {
            Self::Load => Some(false),
            Self::Share => None,
            _ => Some(true),
        }
    }
}

/// The values of a row: for each metric, those of the stacks. Infinitely bad where a transfer did
/// not end or a connection failed.
#[derive(Clone, Debug)]
struct Measured {
    row: Row,
    values: BTreeMap<Metric, Vec<f64>>,
    /// Runs of each stack that did not come to their end.
    incomplete: Vec<usize>,
    lost_audio: Vec<Option<f64>>,
    stopped_groups: Vec<Option<f64>>,
}

/// The names of all rows.
pub(super) fn row_names() -> Vec<String> {
    scenarios::rows().iter().map(Row::name).collect()
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(100, 5);
    let (rows, left_out): (Vec<_>, Vec<_>) =
        scenarios::rows().into_iter().partition(|row| context.selects(&row.name()));
    let cells: Vec<_> =
        rows.iter().flat_map(|row| STACKS.iter().map(move |stack| (*row, *stack))).collect();
    let runs = context.each(&cells, &seeds, |(row, stack), seed| {
        match sim::run(&row.scenario(stack, seed)?) {
            Ok(report) => Ok(Some(report)),
            Err(sim::Error::Closed { .. }) => Ok(None),
            Err(error) => {
                let cell = format!("{}, {}, seed {seed}", row.name(), stack.label);
                Err(Error::Simulation { cell, reason: Box::new(error) })
            }
        }
    })?;
    let measured: Vec<_> = rows
        .iter()
        .zip(runs.chunks(STACKS.len()))
        .map(|(row, runs)| Measured::new(row, runs))
        .collect();
    let left_out: Vec<_> = left_out.iter().map(Row::name).collect();
    let described = rows.iter().map(|row| (row.name(), row.describe().into()));
    Ok(Findings {
        parameters: json!({
            "rows": described.collect::<serde_json::Map<String, Value>>(),
            "left_out": left_out,
            "udp_payload": 1472,
        }),
        seeds,
        tables: vec![board(&measured, &left_out), troubles(&measured)],
        plots: Vec::new(),
        checks: checks(&measured),
        notes: notes(&left_out),
    })
}

impl Measured {
    /// Of the runs of each stack.
    fn new(row: &Row, runs: &[Vec<Option<ScenarioReport>>]) -> Self {
        let over = |of: &dyn Fn(&FlowReport) -> Option<f64>| -> Vec<Option<f64>> {
            let of_stack = |runs: &Vec<Option<ScenarioReport>>| {
                mean(runs.iter().flatten().filter_map(|run| of(run.flows.first()?)))
            };
            runs.iter().map(of_stack).collect()
        };
        let values = Metric::of(row).iter().map(|metric| {
            let of_stack = |runs: &Vec<Option<ScenarioReport>>| metric.value(runs);
            (*metric, runs.iter().map(of_stack).collect())
        });
        let is_whole = |run: &Option<ScenarioReport>| {
            let flow = run.as_ref().and_then(|run| run.flows.first());
            flow.is_some_and(|flow| row.is_call() || flow.completion_ms.is_some())
        };
        let incomplete = |runs: &Vec<_>| runs.iter().filter(|run| !is_whole(run)).count();
        Self {
            row: *row,
            values: values.collect(),
            incomplete: runs.iter().map(incomplete).collect(),
            lost_audio: over(&|flow| Some(flow.frames?.lost_audio as f64)),
            stopped_groups: over(&|flow| Some(flow.frames?.stopped_groups as f64)),
        }
    }

    /// The best value of the rivals; infinite if none has any.
    fn best_rival(&self, metric: Metric) -> Option<f64> {
        let rivals = self.values.get(&metric)?.get(FIRST_RIVAL..)?.iter().copied();
        let lower = metric.is_lower_better()?;
        rivals.reduce(|one, other| if lower { one.min(other) } else { one.max(other) })
    }

    fn of(&self, metric: Metric, stack: usize) -> f64 {
        let values = self.values.get(&metric);
        values.and_then(|values| values.get(stack)).copied().unwrap_or(f64::NAN)
    }

    /// How many times the best rival's the video profile's value is.
    fn ratio(&self, metric: Metric) -> f64 {
        let best = self.best_rival(metric).unwrap_or(f64::NAN);
        self.of(metric, VIDEO) / best
    }
}

impl Metric {
    /// Over the runs of one stack.
    fn value(self, runs: &[Option<ScenarioReport>]) -> f64 {
        let values: Vec<f64> = runs
            .iter()
            .map(|run| run.as_ref().and_then(|run| self.of_run(run)).unwrap_or(self.worst()))
            .collect();
        let value = match self {
            Self::FrameP90 => percentile(&values, 0.9),
            _ => mean(values),
        };
        value.unwrap_or(f64::NAN)
    }

    /// Of a run that failed.
    const fn worst(self) -> f64 {
        match self {
            Self::Load => 0.0,
            Self::Share => f64::NAN,
            _ => f64::INFINITY,
        }
    }

    fn of_run(self, run: &ScenarioReport) -> Option<f64> {
        let flow = run.flows.first()?;
        match self {
            Self::Time => flow.completion_ms.map(|ms| ms / 1e3),
            Self::MeanRtt => flow.rtt_mean_ms,
            Self::RttAndDeviation => Some(flow.rtt_mean_ms? + flow.rtt_deviation_ms?),
            Self::Load => Some(flow.utilisation * 100.0),
            Self::Share => share(run),
            Self::FrameMean | Self::FrameP90 => flow.frames.map(|frames| frames.max_ms),
        }
    }
}

/// What the first flow gets of both, in the bins in which both get something: from when the later
/// begins until the earlier ends.
fn share(run: &ScenarioReport) -> Option<f64> {
    let [one, other] = run.flows.as_slice() else { return None };
    let rates = |flow: &FlowReport| -> Vec<f64> {
        flow.timeline.iter().map(|bin| bin.goodput_mbps).collect()
    };
    let (one, other) = (rates(one), rates(other));
    let first = |rates: &[f64]| rates.iter().position(|rate| *rate > 0.0);
    let last = |rates: &[f64]| rates.iter().rposition(|rate| *rate > 0.0);
    let from = first(&one)?.max(first(&other)?);
    let to = last(&one)?.min(last(&other)?);
    let sum = |rates: &[f64]| rates.get(from..=to).map(|rates| rates.iter().sum::<f64>());
    let (one, other) = (sum(&one)?, sum(&other)?);
    Some(one / (one + other))
}

fn board(measured: &[Measured], left_out: &[String]) -> Table {
    let title = "The board: means over the seeds, our stacks, the best rival beside them, and the \
                 draft's columns (another simulator's)";
    let title = if left_out.is_empty() {
        title.to_owned()
    } else {
        format!("{title}. Left out: {}", left_out.join(", "))
    };
    let mut table = Table::new(title).text("row", "row").text("metric", "metric");
    for (stack, key) in STACKS.iter().zip([
        "tack",
        "video",
        "quiche_cubic",
        "quiche_bbr",
        "quinn_cubic",
        "quinn_bbr",
    ]) {
        table = table.number(key, stack.label, "", 2);
    }
    let mut table = table
        .number("best_rival", "best rival", "", 2)
        .number("video_over_best_percent", "video over best", "%", 1)
        .number("draft_c4", "draft C4", "", 2)
        .number("draft_bbr", "draft BBR", "", 2)
        .number("draft_cubic", "draft CUBIC", "", 2);
    let finite = |value: f64| Value::from(Some(value).filter(|value| value.is_finite()));
    for of in measured {
        for metric in Metric::of(&of.row) {
            let mut values: Vec<Value> = vec![of.row.name().into(), metric.label().into()];
            values.extend((0..STACKS.len()).map(|stack| finite(of.of(*metric, stack))));
            values.push(finite(of.best_rival(*metric).unwrap_or(f64::NAN)));
            values.push(finite((of.ratio(*metric) - 1.0) * 100.0));
            values.extend(of.row.published(*metric).map(Value::from));
            table.row(values);
        }
    }
    table
}

/// What went wrong on the way.
fn troubles(measured: &[Measured]) -> Table {
    let mut table =
        Table::new("Runs that did not end, audio lost, and groups of video given up")
            .text("row", "row")
            .text("stack", "stack")
            .number("incomplete", "incomplete runs", "", 0)
            .number("lost_audio", "audio lost a run", "frames", 1)
            .number("stopped_groups", "given up a run", "groups", 1);
    for of in measured {
        for (at, stack) in STACKS.iter().enumerate() {
            let (audio, groups) = (of.lost_audio[at], of.stopped_groups[at]);
            let some = |value: Option<f64>| value.is_some_and(|value| value > 0.0);
            if of.incomplete[at] > 0 || some(audio) || some(groups) {
                table.row([
                    of.row.name().into(),
                    stack.label.into(),
                    of.incomplete[at].into(),
                    audio.into(),
                    groups.into(),
                ]);
            }
        }
    }
    table
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let mut checks = Vec::new();
    let video = STACKS[VIDEO].label;
    let (mut better, mut judged) = (0, 0);
    for of in measured.iter().filter(|of| !of.row.is_shared()) {
        let (metric, what) = if of.row.is_call() {
            (Metric::FrameP90, "p90 of the longest frame latency")
        } else {
            (Metric::Time, "time")
        };
        let what = format!("{}: {what} of {video} over the best rival's", of.row.name());
        checks.push(Check::at_most(what, of.ratio(metric), "", AS_GOOD));
        judged += 1;
        better += u32::from(of.ratio(metric) < 1.0);
    }
    if judged > 0 {
        let what = format!(
            "rows of time or frame latency where {video} is better than all, of {judged}"
        );
        checks.push(Check::at_least(
            what,
            f64::from(better),
            "",
            (f64::from(judged) / 2.0).ceil(),
        ));
    }
    let named = |name: &str| measured.iter().find(|of| of.row.name() == name);
    if let Some(of) = named("wifi_bad") {
        // The worse of the two, each as a share of what it may be.
        let time = of.ratio(Metric::Time) / BAD_WIFI_TIME;
        let rtt = of.ratio(Metric::MeanRtt) / BAD_WIFI_RTT;
        let what = format!(
            "wifi_bad: {video} within 3 % of the best time ({:.3} of it) and within 5 % of the \
             lowest mean RTT ({:.3} of it) at once, share of the allowance",
            of.ratio(Metric::Time),
            of.ratio(Metric::MeanRtt),
        );
        checks.push(Check::at_most(what, time.max(rtt), "", 1.0));
    }
    for (name, limit) in [("media_wb", MEDIA_WB_MS), ("media_wf", MEDIA_WF_MS)] {
        if let Some(of) = named(name) {
            let what = format!("{name}: p90 of the longest frame latency of {video}");
            checks.push(Check::at_most(what, of.of(Metric::FrameP90, VIDEO), "ms", limit));
        }
    }
    if let Some(of) = named("alone") {
        let [_, _, draft] = of.row.published(Metric::Time);
        for (at, stack) in CUBICS {
            let seen = of.of(Metric::Time, at);
            checks.push(Check::paper(
                format!(
                    "alone: time of {}, against CUBIC in the draft's simulator",
                    stack.label
                ),
                format!("{seen:.2} s"),
                draft.map_or("none".to_owned(), |draft| format!("{draft:.2} s ± 10 %")),
                draft.is_some_and(|draft| (seen / draft - 1.0).abs() <= 0.1),
            ));
        }
    }
    checks
}

fn notes(left_out: &[String]) -> Vec<String> {
    let mut notes = vec![
        "Time runs from the client's first packet to the last byte at the client. The RTT is what \
         a data packet takes and what a packet back takes, read off the wire: the receiver's wait \
         for its ACK is not in it. Load is what the link carried of what it could have in that \
         time. A share is that of the flow that is measured, while both run."
            .to_owned(),
        "A frame's latency runs from when it is made until the client's application has read its \
         last byte. A run counts with the longest latency of audio and of the first video from \
         200 ms on; the table has the mean and the 90th percentile of these over the seeds. Audio \
         that is lost is not sent again: it counts as if it came 250 ms late, and the \
         second table has its number. The second video, whose groups are given up, has no latency."
            .to_owned(),
        "The columns of the draft come from another simulator, with other packet sizes, another \
         handshake and other stacks. A buffer is as many bytes as its time holds at the path's \
         highest rate; the draft's keeps its time when the rate falls."
            .to_owned(),
        "The draft describes wifi_fade and media_wf with 2 Mbit/s from 1 s to 3 s. 10 MB take \
         5.8 s at least then, more than its published times: those fit 18 Mbit/s, which \
         wifi_fade_18 and media_wf_18 have."
            .to_owned(),
        "The satellite runs without a remembered window, which the draft's columns had. No end \
         uses ECN: DualPI2 has nothing to mark in the rows named ecn, and drops. C4 is not among \
         the flows beside; `same` is a flow of the kind that is measured."
            .to_owned(),
        "Each stack begins with its own window: TACK with ten packets, in the video profile with 32, quiche with \
         ten, quinn with 12,000 bytes and its BBR with 240,000."
            .to_owned(),
        "quiche's CUBIC grows the less, the longer its application waits for data: the lab's writes when \
         3,000 bytes fit, or a 64th of the window, until slow start is over, and 16 KiB or a quarter of it \
         later. Behind each write quiche sends a packet that is not full."
            .to_owned(),
        "quinn's BBR knows no slow start: in `alone_200` 460 kB arrive within 20 ms behind the request, \
         with a window of ten packets set as without, and of 17,013 packets 3,075 are lost. It has \
         the shortest time in `alone`, `alone_200`, `low_and_up`, `drop_and_back` and `blackhole`."
            .to_owned(),
        "On the satellite path quinn closes its connection: \"too many gaps in stream buffer\", \
         which is its defence against peers that send in pieces. Its runs count as incomplete."
            .to_owned(),
    ];
    if !left_out.is_empty() {
        notes.push(format!("Left out of this run: {}.", left_out.join(", ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Bin, FrameReport};

    fn row(name: &str) -> Row {
        scenarios::rows().into_iter().find(|row| row.name() == name).unwrap()
    }

    fn transfer(seconds: Option<f64>) -> ScenarioReport {
        let flow = FlowReport {
            completion_ms: seconds.map(|seconds| seconds * 1e3),
            rtt_mean_ms: Some(90.0),
            rtt_deviation_ms: Some(10.0),
            ..FlowReport::default()
        };
        ScenarioReport { flows: vec![flow] }
    }

    #[test]
    fn every_row_has_a_name_of_its_own_and_a_link() {
        let names = row_names();
        for name in &names {
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
            let link = row(name).link().unwrap();
            assert!(link.buffer_bytes(&tack_link::PathSpec::default()).unwrap() > 0, "{name}");
        }
    }

    #[test]
    fn the_best_rival_is_none_of_ours_and_a_run_without_end_is_infinitely_long() {
        let times = [1.0, 5.0, 6.0, 4.0, 7.0].map(|time| vec![Some(transfer(Some(time)))]);
        let runs: Vec<_> = times.into_iter().chain([vec![Some(transfer(None))]]).collect();
        let measured = Measured::new(&row("alone"), &runs);
        assert_eq!(measured.best_rival(Metric::Time), Some(4.0));
        assert!((measured.ratio(Metric::Time) - 1.25).abs() < 1e-9);
        assert_eq!(measured.incomplete, [0, 0, 0, 0, 0, 1]);
        assert!(measured.of(Metric::Time, 5).is_infinite());
        assert!(!checks(&[measured])[0].passed);
    }

    #[test]
    fn bad_wifi_asks_for_time_and_delay_at_once() {
        let run = |seconds, rtt| {
            let mut run = transfer(Some(seconds));
            run.flows[0].rtt_mean_ms = Some(rtt);
            vec![Some(run)]
        };
        let passed = |seconds, rtt| {
            let mut runs = vec![run(seconds, rtt); 2];
            runs.extend([run(4.0, 100.0), run(5.0, 70.0), run(6.0, 80.0), run(6.0, 80.0)]);
            let checks = checks(&[Measured::new(&row("wifi_bad"), &runs)]);
            checks.iter().find(|check| check.what.contains("at once")).unwrap().passed
        };
        assert!(passed(4.1, 73.0));
        assert!(!passed(4.2, 73.0) && !passed(4.1, 74.0));
    }

    #[test]
    fn frames_count_with_the_longest_of_each_run() {
        let run = |max_ms| {
            let frames = Some(FrameReport { max_ms, ..FrameReport::default() });
            Some(ScenarioReport { flows: vec![FlowReport { frames, ..FlowReport::default() }] })
        };
        let runs: Vec<_> = (1..=10).map(|ms| run(f64::from(ms))).collect();
        assert!((Metric::FrameP90.value(&runs) - 9.0).abs() < 1e-9);
        assert!((Metric::FrameMean.value(&runs) - 5.5).abs() < 1e-9);
    }

    #[test]
    fn a_share_is_taken_while_both_run() {
        let flow = |rates: &[f64]| {
            let bins = rates.iter().map(|rate| Bin { goodput_mbps: *rate, ..Bin::default() });
            FlowReport { timeline: bins.collect(), ..FlowReport::default() }
        };
        let one = flow(&[9.0, 9.0, 2.0, 4.0, 0.0]);
        let other = flow(&[0.0, 0.0, 6.0, 6.0, 9.0]);
        let run = ScenarioReport { flows: vec![one, other] };
        assert!((share(&run).unwrap() - 6.0 / 18.0).abs() < 1e-9);
    }
}
