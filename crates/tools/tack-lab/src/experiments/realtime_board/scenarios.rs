//! The scenarios of draft-huitema-ccwg-c4-test, and what it publishes about them.

use std::fmt::Write as _;
use std::time::Duration;

use tack_link::{LinkSpec, PathSpec};

use super::Metric;
use crate::experiments::{Contender, Error};
use crate::sim::{Call, Flow, Load, Scenario};

const MB: u64 = 1_000_000;
/// After this the run is over, whether all has arrived or not.
const LONGEST: Duration = Duration::from_secs(120);
/// What a call may still deliver after its last frame.
const CALL_TAIL: Duration = Duration::from_secs(2);

/// A row of the board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its name, or the first part of it.
    name: &'static str,
    /// For a shared path: which kind of flow is beside, and what follows that in the name.
    beside_name: Option<(&'static str, &'static str)>,
    /// What the path does, as the only hop of a link file.
    hop: &'static str,
    /// Of the path behind the hop, which adds its own.
    rtt_ms: u64,
    load: Load,
    beside: Option<Beside>,
    /// What the draft publishes.
    published: &'static [(Metric, Published)],
}

/// The draft's columns: C4, its BBR, its CUBIC.
type Published = [Option<f64>; 3];

/// A flow that shares the path.
#[derive(Clone, Copy, Debug)]
struct Beside {
    /// None: of the same kind as the flow that is measured.
    stack: Option<Contender>,
    bytes: u64,
    /// When it and the measured flow begin.
    start_ms: u64,
    main_start_ms: u64,
}

impl Row {
    /// The draft's name, with `same` for a flow of the same kind.
    pub(super) fn name(&self) -> String {
        match self.beside_name {
            None => self.name.to_owned(),
            Some((kind, suffix)) => format!("{}_{kind}{suffix}", self.name),
        }
    }

    /// Whether a call is measured, and not the time of a transfer.
    pub(super) const fn is_call(&self) -> bool {
        matches!(self.load, Load::Call(_))
    }

    /// Whether another flow shares the path.
    pub(super) const fn is_shared(&self) -> bool {
        self.beside.is_some()
    }

    /// What the draft publishes: C4, its BBR, its CUBIC.
    pub(super) fn published(&self, metric: Metric) -> Published {
        let of = self.published.iter().find(|(of, _)| *of == metric);
        of.map_or([None; 3], |(_, values)| *values)
    }

    pub(super) fn scenario(&self, stack: &Contender, seed: u64) -> Result<Scenario, Error> {
        let path = PathSpec::with_rtt(Duration::from_millis(self.rtt_ms));
        let mut main = Flow { load: self.load, ..stack.flow(path) };
        let mut flows = Vec::new();
        if let Some(beside) = self.beside {
            main.start = Duration::from_millis(beside.main_start_ms);
            let other = beside.stack.unwrap_or(*stack).flow(path);
            let load = Load::Bytes(beside.bytes);
            let start = Duration::from_millis(beside.start_ms);
            flows.push(Flow { start, load, ..other });
        }
        flows.insert(0, main);
        let duration = match self.load {
            Load::Call(call) => {
                Duration::from_millis(call.video_frames * 1000 / 30) + CALL_TAIL
            }
            _ => LONGEST,
        };
        Ok(Scenario {
            link: self.link()?,
            flows,
            duration,
            warm_up: Duration::ZERO,
            bin: Duration::from_millis(100),
            seed,
        })
    }

    pub(super) fn link(&self) -> Result<LinkSpec, Error> {
        let toml = format!("[[hop]]\nkind = \"pipe\"\n{}\n", self.hop);
        Ok(LinkSpec::from_toml(&toml, &self.name())?)
    }

    /// What the row is, in words.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{}, path RTT {} ms", self.hop.replace('\n', ", "), self.rtt_ms);
        // Writing to a string cannot fail.
        let _ = match self.load {
            Load::Bytes(bytes) => write!(text, ", {} kB", bytes / 1000),
            Load::Call(call) => write!(text, ", {} frames of video", call.video_frames),
            _ => Ok(()),
        };
        if let Some(beside) = self.beside {
            let label = beside.stack.map_or("the same", |stack| stack.label);
            let _ = write!(
                text,
                " from {} ms, beside {label} with {} kB from {} ms",
                beside.main_start_ms,
                beside.bytes / 1000,
                beside.start_ms
            );
        }
        text
    }
}

/// All rows, in the order of the table.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::from(TRANSFERS);
    for (suffix, row) in SHARED {
        for (kind, stack) in KINDS {
            let beside = row.beside.map(|beside| Beside { stack, ..beside });
            let published = match (row.name, kind, suffix) {
                ("vs", "cubic", "_lg") => LG_CUBIC,
                ("bbloat", "cubic", "") => BBLOAT_CUBIC,
                _ => &[],
            };
            rows.push(Row { beside_name: Some((kind, suffix)), beside, published, ..row });
        }
    }
    rows.extend(CALLS);
    rows
}

const fn values(c4: f64, bbr: f64, cubic: f64) -> Published {
    [Some(c4), Some(bbr), Some(cubic)]
}

const fn transfer(
    name: &'static str,
    hop: &'static str,
    rtt_ms: u64,
    bytes: u64,
    published: &'static [(Metric, Published)],
) -> Row {
    let load = Load::Bytes(bytes);
    let (beside_name, beside) = (None, None);
    Row { name, beside_name, hop, rtt_ms, load, beside, published }
}

const TRANSFERS: [Row; 15] = [
    transfer(
        "alone",
        MID,
        80,
        10 * MB,
        &[
            (Metric::Time, values(4.53, 4.69, 4.48)),
            (Metric::MeanRtt, values(104.0, 96.0, 129.0)),
        ],
    ),
    transfer(
        "alone_200",
        "rate_mbps = 200.0\nbuffer_ms = 40.0",
        40,
        20 * MB,
        &[
            (Metric::Time, values(1.117, 1.222, 1.147)),
            (Metric::MeanRtt, values(58.0, 46.0, 54.0)),
        ],
    ),
    transfer("alone_1_5M", "rate_mbps = 1.5\nbuffer_ms = 50.0", 40, 4 * MB, &[]),
    transfer("alone_512k", "rate_mbps = 0.512\nbuffer_ms = 50.0", 34, MB, &[]),
    transfer(
        "low_and_up",
        "rate_trace = { steps = [[0, 5.0], [2.5, 10.0]] }\nbuffer_ms = 80.0",
        100,
        7 * MB,
        &[(Metric::Time, values(7.64, 7.51, 8.05))],
    ),
    transfer(
        "drop_and_back",
        "rate_trace = { steps = [[0, 10.0], [1.5, 5.0], [3.5, 10.0]] }\nbuffer_ms = 80.0",
        100,
        7 * MB,
        &[(Metric::Time, values(7.56, 7.63, 7.63))],
    ),
    transfer(
        "blackhole",
        "rate_trace = { steps = [[0, 25.0], [2, 0.0], [4, 25.0]] }\nbuffer_ms = 80.0",
        70,
        10 * MB,
        &[
            (Metric::Time, values(5.63, 5.81, 5.70)),
            (Metric::MeanRtt, values(127.0, 146.0, 168.0)),
        ],
    ),
    transfer(
        "short_long",
        "rate_mbps = 10.0\ndelay_trace = { steps = [[0, 15.0], [1, 50.0]] }\nbuffer_ms = 100.0",
        0,
        20 * MB,
        &[(Metric::Time, values(17.9, 42.3, 21.4))],
    ),
    transfer(
        "satellite",
        "rate_mbps = 250.0\nbuffer_ms = 600.0",
        600,
        100 * MB,
        &[(Metric::Time, values(6.81, 7.47, 6.70))],
    ),
    transfer("bbloat", DEEP, 80, 30 * MB, &[(Metric::MeanRtt, values(100.0, 85.0, 230.0))]),
    transfer(
        "wifi_bad",
        "rate_mbps = 10.0\njitter_ms = 7.0\nbuffer_ms = 250.0",
        2,
        4 * MB,
        &[
            (Metric::Time, values(4.00, 5.22, 4.07)),
            (Metric::MeanRtt, values(108.0, 70.0, 93.0)),
        ],
    ),
    transfer("wifi_fade", FADE, 80, 10 * MB, FADE_PUBLISHED),
    transfer("wifi_fade_18", FADE_18, 80, 10 * MB, FADE_PUBLISHED),
    transfer(
        "wifi_suspension",
        SUSPENSION,
        10,
        10 * MB,
        &[
            (Metric::Time, values(4.57, 4.62, 4.60)),
            (Metric::MeanRtt, values(13.6, 13.5, 26.5)),
        ],
    ),
    transfer("ecn", DUALPI2, 80, 10 * MB, &[(Metric::MeanRtt, values(84.0, 89.0, 122.0))]),
];

const KINDS: [(&str, Option<Contender>); 3] = [
    ("same", None),
    ("bbr", Some(Contender::QUICHE_BBR)),
    ("cubic", Some(Contender::QUICHE_CUBIC)),
];
const FADE_PUBLISHED: &[(Metric, Published)] =
    &[(Metric::Time, values(5.05, 5.41, 5.32)), (Metric::MeanRtt, values(144.0, 125.0, 138.0))];
const FADE_CALL_PUBLISHED: &[(Metric, Published)] =
    &[(Metric::FrameP90, values(281.0, 349.0, 304.0))];
const LG_CUBIC: &[(Metric, Published)] = &[(Metric::Share, values(0.60, 0.18, 0.47))];
const BBLOAT_CUBIC: &[(Metric, Published)] = &[(Metric::Share, values(0.59, 0.15, 0.53))];

const MID: &str = "rate_mbps = 20.0\nbuffer_ms = 80.0";
const SLOW: &str = "rate_mbps = 10.0\nbuffer_ms = 80.0";
const FAST: &str = "rate_mbps = 50.0\nbuffer_ms = 80.0";
const DEEP: &str = "rate_mbps = 20.0\nbuffer_ms = 20000.0";
const DUALPI2: &str = "rate_mbps = 20.0\nqueue = \"dualpi2\"\nbuffer_ms = 160.0";
/// As the draft describes it.
const FADE: &str = "rate_trace = { steps = [[0, 20.0], [1, 2.0], [3, 20.0]] }\n\
                    jitter_trace = { steps = [[0, 1.0], [1, 12.0], [3, 1.0]] }\nbuffer_ms = 80.0";
/// As its published times need it to be: 10 MB take 5.8 s at least where 2 s pass at 2 Mbit/s.
const FADE_18: &str = "rate_trace = { steps = [[0, 20.0], [1, 18.0], [3, 20.0]] }\n\
                       jitter_trace = { steps = [[0, 1.0], [1, 12.0], [3, 1.0]] }\n\
                       buffer_ms = 80.0";
const SUSPENSION_DEEP: &str =
    "rate_trace = { steps = [[0, 20.0], [1.8, 0.0]], repeat_s = 2.0 }\nbuffer_ms = 100.0";
const SUSPENSION: &str =
    "rate_trace = { steps = [[0, 20.0], [1.8, 0.0]], repeat_s = 2.0 }\nbuffer_ms = 20.0";

/// What follows the kind of the other flow in the name, and the row.
const SHARED: [(&str, Row); 7] = [
    ("", shared("vs", MID, 80, 5 * MB, (10 * MB, 0, 0))),
    ("_lg", shared("vs", MID, 80, 30 * MB, (20 * MB, 0, 0))),
    ("_lg2", shared("vs", SLOW, 70, 15 * MB, (10 * MB, 1000, 0))),
    ("", shared("after", MID, 80, 5 * MB, (10 * MB, 0, 500))),
    ("", shared("before", FAST, 30, 10 * MB, (20 * MB, 500, 0))),
    ("", shared("bbloat", DEEP, 80, 30 * MB, (30 * MB, 0, 0))),
    ("", shared("ecn", DUALPI2, 80, 10 * MB, (10 * MB, 0, 0))),
];

const fn shared(
    name: &'static str,
    hop: &'static str,
    rtt_ms: u64,
    bytes: u64,
    (other, start_ms, main_start_ms): (u64, u64, u64),
) -> Row {
    let beside = Beside { stack: None, bytes: other, start_ms, main_start_ms };
    Row { beside: Some(beside), ..transfer(name, hop, rtt_ms, bytes, &[]) }
}

const fn call(
    name: &'static str,
    hop: &'static str,
    rtt_ms: u64,
    (audio_frames, video_frames): (u64, u64),
    published: &'static [(Metric, Published)],
) -> Row {
    let measured_from = Duration::from_millis(200);
    let load = Load::Call(Call { audio_frames, video_frames, measured_from });
    Row { load, ..transfer(name, hop, rtt_ms, 0, published) }
}

const CALLS: [Row; 9] = [
    call(
        "media",
        "rate_mbps = 100.0\nbuffer_ms = 100.0",
        30,
        (250, 150),
        &[(Metric::FrameP90, values(43.0, 43.0, 43.0))],
    ),
    call(
        "media10",
        "rate_mbps = 10.0\nbuffer_ms = 100.0",
        40,
        (250, 150),
        &[(Metric::FrameP90, values(71.0, 71.0, 92.0))],
    ),
    call("media_600fr", "rate_mbps = 100.0\nbuffer_ms = 100.0", 30, (1000, 600), &[]),
    call(
        "media_short_long",
        "rate_mbps = 100.0\ndelay_trace = { steps = [[0, 15.0], [1, 50.0]] }\nbuffer_ms = 100.0",
        0,
        (500, 300),
        &[(Metric::FrameP90, values(111.0, 334.0, 111.0))],
    ),
    call(
        "media_wb",
        "rate_mbps = 20.0\njitter_ms = 7.0\nbuffer_ms = 100.0",
        2,
        (250, 150),
        &[(Metric::FrameP90, values(249.0, 289.0, 260.0))],
    ),
    call("media_wf", FADE, 40, (250, 150), FADE_CALL_PUBLISHED),
    call("media_wf_18", FADE_18, 40, (250, 150), FADE_CALL_PUBLISHED),
    call(
        "media_ws",
        SUSPENSION_DEEP,
        10,
        (250, 150),
        &[(Metric::FrameP90, values(198.0, 196.0, 198.0))],
    ),
    call("media_ecn", DUALPI2, 80, (250, 150), &[]),
];
