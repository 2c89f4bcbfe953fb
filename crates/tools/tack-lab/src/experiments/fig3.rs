//! Figure 3: what acknowledgements do to data on 802.11n.

use std::time::Duration;

use serde_json::json;
use tack_link::emulation::{Acks, Emulation, Report};
use tack_link::wlan::{Load, Options, Parameters, Profile};

use super::busy_room::{AIR_SHARE, BUSY_STATIONS, background_mbps};
use super::statistics::median;
use super::{Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Colour, Plot, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig3",
    title: "Contention between data and ACKs",
    question: "How much data gets through 802.11n when a 64-byte ACK answers every L-th packet?",
    paper: "Figure 3 (UDP tool, 100 Mbit/s offered, 300 Mbit/s PHY): data rates of 83, 80, 75, 55 \
            and 43 Mbit/s with L = 16, 8, 4, 2 and 1.",
    measure,
};

const PROFILE: Profile = Profile::N;
const OFFERED_MBPS: f64 = 100.0;
const LS: [u32; 5] = [16, 8, 4, 2, 1];
const PAPER_MBPS: [f64; 5] = [83.0, 80.0, 75.0, 55.0, 43.0];

/// How much of the air ten others take in the busy room of all experiments, each of them, and in
/// one that is so full that 100 Mbit/s do not fit.
const BUSY: f64 = AIR_SHARE;
const CROWDED: f64 = 0.045;

/// A medium, and how much is offered to it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Room {
    label: &'static str,
    colour: Colour,
    /// What each of the others takes.
    air_share: f64,
    aggregate_acks: bool,
    offered_mbps: Option<f64>,
}

impl Room {
    const fn new(label: &'static str, colour: Colour, air_share: f64) -> Self {
        let offered_mbps = Some(OFFERED_MBPS);
        Self { label, colour, air_share, aggregate_acks: true, offered_mbps }
    }

    const fn saturated(self) -> Self {
        Self { offered_mbps: None, ..self }
    }
}

const CLEAN: Room = Room::new("clean, saturated", Colour::Orange, 0.0).saturated();
const CROWDED_SINGLE: Room = Room {
    aggregate_acks: false,
    ..Room::new("crowded, ACKs one by one, 100 Mbit/s", Colour::Violet, CROWDED)
};
const ROOMS: [Room; 6] = [
    Room::new("clean, 100 Mbit/s", Colour::Sky, 0.0),
    Room::new("busy, 100 Mbit/s", Colour::Green, BUSY),
    Room::new("crowded, 100 Mbit/s", Colour::Blue, CROWDED),
    CROWDED_SINGLE,
    CLEAN,
    Room::new("busy, saturated", Colour::Red, BUSY).saturated(),
];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 5));
    let cells: Vec<_> = ROOMS.iter().flat_map(|room| LS.map(|l| (*room, l))).collect();
    let reports = context.each(&cells, &seeds, |(room, l), seed| {
        Ok(Emulation { duration, seed, ..emulation(room, *l)? }.run()?)
    })?;
    let runs = Runs { cells, reports };
    Ok(Findings {
        parameters: json!({
            "profile": PROFILE.name(),
            "offered_mbps": OFFERED_MBPS,
            "ack_bytes": 64,
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": 1,
            "others": BUSY_STATIONS,
            "busy_mbps_each": background_mbps(PROFILE, BUSY),
            "crowded_mbps_each": background_mbps(PROFILE, CROWDED),
        }),
        seeds,
        tables: vec![table(&runs)],
        plots: vec![plot(&runs)],
        checks: checks(&runs),
        notes: vec![
            "Two stations that follow the standard carry 100 Mbit/s whatever L is: an A-MPDU of \
             data is answered by an A-MPDU of ACKs. The paper's numbers need a medium with less \
             air to spare: here ten others take 5 % (busy) or 45 % (crowded) of it."
                .to_owned(),
        ],
    })
}

/// All runs of each room and each L.
struct Runs {
    cells: Vec<(Room, u32)>,
    /// Of each cell, by seed.
    reports: Vec<Vec<Report>>,
}

impl Runs {
    /// The median of one cell.
    fn median(&self, room: &Room, l: u32, value: fn(&Report) -> f64) -> f64 {
        let at = self.cells.iter().position(|cell| cell == &(*room, l));
        let reports = at.map(|at| &self.reports[at]);
        median(reports.into_iter().flatten().map(value)).unwrap_or_default()
    }

    fn goodput(&self, room: &Room, l: u32) -> f64 {
        self.median(room, l, |run| run.goodput_mbps)
    }
}

fn table(runs: &Runs) -> Table {
    let mut table = Table::new("Rates of payload and of ACKs, and transmissions that failed")
        .text("room", "medium")
        .number("l", "L", "", 0)
        .number("goodput_mbps", "data", "Mbit/s", 1)
        .number("ack_goodput_mbps", "ACKs", "Mbit/s", 2)
        .number("data_failure_percent", "data failed", "%", 1)
        .number("ack_failure_percent", "ACKs failed", "%", 1)
        .number("ampdu_mean", "MPDUs per PPDU", "", 1)
        .number("paper_mbps", "paper, data", "Mbit/s", 0);
    for room in &ROOMS {
        for (l, paper) in LS.into_iter().zip(PAPER_MBPS) {
            table.row([
                room.label.into(),
                l.into(),
                runs.goodput(room, l).into(),
                runs.median(room, l, |run| run.ack_goodput_mbps).into(),
                (runs.median(room, l, |run| run.data_failure_rate) * 100.0).into(),
                (runs.median(room, l, |run| run.ack_failure_rate) * 100.0).into(),
                runs.median(room, l, |run| run.ampdu_mean).into(),
                room.offered_mbps.map(|_| paper).into(),
            ]);
        }
    }
    table
}

fn plot(runs: &Runs) -> Plot {
    let mut series = vec![BarSeries::reference("paper", Colour::Grey, PAPER_MBPS.map(Some))];
    series.extend(ROOMS.iter().map(|room| {
        let values = LS.map(|l| Some(runs.goodput(room, l)));
        BarSeries::measured(room.label, room.colour, values)
    }));
    Plot::new(
        "Data rate on 802.11n by the packets that an ACK answers",
        Axis::linear("data packets per ACK"),
        Axis::linear("data, Mbit/s"),
        Chart::Bars { groups: LS.map(|l| format!("L = {l}")).to_vec(), series },
    )
}

fn checks(runs: &Runs) -> Vec<Check> {
    let lost = |room: &Room| {
        let (sparse, dense) = (runs.goodput(room, 16), runs.goodput(room, 1));
        (1.0 - dense / sparse) * 100.0
    };
    let failures = runs.median(&CLEAN, 1, |run| run.data_failure_rate)
        / runs.median(&CLEAN, 16, |run| run.data_failure_rate);
    let paper = (1.0 - PAPER_MBPS[4] / PAPER_MBPS[0]) * 100.0;
    let mut checks: Vec<_> = [&CROWDED_SINGLE, &CLEAN]
        .map(|room| {
            Check::paper(
                format!("{}: data lost from L = 16 to L = 1", room.label),
                format!("{:.0} %", lost(room)),
                format!("{paper:.0} % of 100 Mbit/s offered: within a factor of 1.5"),
                (paper / 1.5..=paper * 1.5).contains(&lost(room)),
            )
        })
        .into();
    checks.push(Check::paper(
        "clean, saturated: failed data transmissions, L = 1 against L = 16",
        format!("{failures:.1} times as many"),
        "more with L of 2 and below",
        failures > 1.2,
    ));
    checks
}

fn emulation(room: &Room, l: u32) -> Result<Emulation, Error> {
    let (background, background_load) = if room.air_share > 0.0 {
        (BUSY_STATIONS, Load::Mbps(background_mbps(PROFILE, room.air_share)))
    } else {
        (0, Load::Saturated)
    };
    let options = Options { aggregate_acks: Some(room.aggregate_acks), ..Options::default() };
    Ok(Emulation {
        acks: Acks::EveryN(l),
        offered_mbps: room.offered_mbps,
        background,
        background_load,
        ..Emulation::new(Parameters::new(PROFILE, &options)?)
    })
}
