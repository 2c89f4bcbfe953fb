//! Figure 3: what acknowledgements do to data on 802.11n.

use std::time::Duration;

use serde_json::json;
use tack_link::emulation::{Acks, Emulation, Report};
use tack_link::wlan::{Load, Parameters, Profile};

use super::busy_room::{BUSY_STATIONS, background_mbps};
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

/// A medium, and how much is offered to it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Room {
    label: &'static str,
    colour: Colour,
    busy: bool,
    aggregate_acks: bool,
    offered_mbps: Option<f64>,
}

const ROOMS: [Room; 5] = [
    Room {
        label: "clean, 100 Mbit/s offered",
        colour: Colour::Sky,
        busy: false,
        aggregate_acks: true,
        offered_mbps: Some(OFFERED_MBPS),
    },
    Room {
        label: "busy room, 100 Mbit/s offered",
        colour: Colour::Blue,
        busy: true,
        aggregate_acks: true,
        offered_mbps: Some(OFFERED_MBPS),
    },
    Room {
        label: "busy room, single ACKs, 100 Mbit/s offered",
        colour: Colour::Violet,
        busy: true,
        aggregate_acks: false,
        offered_mbps: Some(OFFERED_MBPS),
    },
    Room {
        label: "clean, saturated",
        colour: Colour::Orange,
        busy: false,
        aggregate_acks: true,
        offered_mbps: None,
    },
    Room {
        label: "busy room, saturated",
        colour: Colour::Red,
        busy: true,
        aggregate_acks: true,
        offered_mbps: None,
    },
];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 5));
    let cells: Vec<_> = ROOMS.iter().flat_map(|room| LS.map(|l| (*room, l))).collect();
    let runs = context.each(&cells, &seeds, |(room, l), seed| {
        Ok(Emulation { duration, seed, ..emulation(room, *l)? }.run()?)
    })?;
    let of = |room: &Room, l: u32, value: fn(&Report) -> f64| {
        let at = cells.iter().position(|cell| cell == &(*room, l));
        median(at.map(|at| &runs[at]).into_iter().flatten().map(value)).unwrap_or_default()
    };

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
                of(room, l, |run| run.goodput_mbps).into(),
                of(room, l, |run| run.ack_goodput_mbps).into(),
                (of(room, l, |run| run.data_failure_rate) * 100.0).into(),
                (of(room, l, |run| run.ack_failure_rate) * 100.0).into(),
                of(room, l, |run| run.ampdu_mean).into(),
                room.offered_mbps.map(|_| paper).into(),
            ]);
        }
    }

    let mut series = vec![BarSeries::reference("paper", Colour::Grey, PAPER_MBPS.map(Some))];
    series.extend(ROOMS.iter().map(|room| {
        let values = LS.map(|l| Some(of(room, l, |run| run.goodput_mbps)));
        BarSeries::measured(room.label, room.colour, values)
    }));
    let plot = Plot::new(
        "Data rate on 802.11n by the packets that an ACK answers",
        Axis::linear("data packets per ACK"),
        Axis::linear("data, Mbit/s"),
        Chart::Bars { groups: LS.map(|l| format!("L = {l}")).to_vec(), series },
    );

    let single = &ROOMS[2];
    let drop = |from: f64, to: f64| format!("{:.0} %", (1.0 - to / from) * 100.0);
    let (sparse, dense) =
        (of(single, 16, |run| run.goodput_mbps), of(single, 1, |run| run.goodput_mbps));
    let saturated = &ROOMS[3];
    let (sparse_full, dense_full) =
        (of(saturated, 16, |run| run.goodput_mbps), of(saturated, 1, |run| run.goodput_mbps));
    let failures = of(saturated, 1, |run| run.data_failure_rate)
        / of(saturated, 16, |run| run.data_failure_rate);
    let checks = vec![
        Check::paper(
            "busy room, single ACKs: data lost from L = 16 to L = 1",
            drop(sparse, dense),
            drop(PAPER_MBPS[0], PAPER_MBPS[4]),
            dense < 0.9 * sparse,
        ),
        Check::paper(
            "clean and saturated: data lost from L = 16 to L = 1",
            drop(sparse_full, dense_full),
            "dramatically, although the ACKs are below 1.5 Mbit/s",
            dense_full < 0.9 * sparse_full,
        ),
        Check::paper(
            "clean and saturated: data transmissions fail more often with L = 1 than with 16",
            format!("{failures:.1} times"),
            "higher bidirectional loss rate with L of 2 and below",
            failures > 1.2,
        ),
    ];
    Ok(Findings {
        parameters: json!({
            "profile": PROFILE.name(),
            "offered_mbps": OFFERED_MBPS,
            "ack_bytes": 64,
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": 1,
            "busy_room_stations": BUSY_STATIONS,
            "busy_room_mbps_each": background_mbps(PROFILE),
        }),
        seeds,
        tables: vec![table],
        plots: vec![plot],
        checks,
        notes: vec![
            "On a clean medium, 100 Mbit/s leave enough air for an ACK per packet, because an \
             A-MPDU of data is answered by an A-MPDU of ACKs. The paper's drop at 100 Mbit/s \
             needs more than two stations that follow the standard: a busy room, or a radio \
             that sends each ACK by itself."
                .to_owned(),
        ],
    })
}

fn emulation(room: &Room, l: u32) -> Result<Emulation, Error> {
    let options = tack_link::wlan::Options {
        aggregate_acks: Some(room.aggregate_acks),
        ..Default::default()
    };
    Ok(Emulation {
        acks: Acks::EveryN(l),
        offered_mbps: room.offered_mbps,
        background: if room.busy { BUSY_STATIONS } else { 0 },
        background_load: Load::Mbps(background_mbps(PROFILE)),
        ..Emulation::new(Parameters::new(PROFILE, &options)?)
    })
}
