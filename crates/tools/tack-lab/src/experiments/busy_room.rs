//! A room in which others are on the air too.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;
use tack_link::emulation::{Acks, Emulation};
use tack_link::wlan::{Load, Options, Parameters, Profile, closed_form};

use super::links::{room, standard};
use super::statistics::median;
use super::summary::{self, gain_percent, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::Scenario;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "busy-room",
    title: "A busy room",
    question: "What are fewer ACKs worth when other stations are on the same channel?",
    paper: "Section VII-C measures in a public room with over 10 other access points and over 100 \
            users: TACK gains 20.0, 26.3, 27.7 and 28.1 % over TCP BBR on b, g, n and ac.",
    measure,
};

/// How many others there are in the busy room of all experiments.
pub(super) const BUSY_STATIONS: u32 = 10;
/// How much of the air each of them takes.
pub(super) const AIR_SHARE: f64 = 0.005;
const TACK_HZ: f64 = 50.0;
const RTT: Duration = Duration::from_millis(40);
const STACKS: [Contender; 4] =
    [Contender::TACK, Contender::EVERY_SECOND, Contender::QUICHE_BBR, Contender::QUINN];

/// What a station sends to take that share of the air, in Mbit/s: single packets, for with so
/// little traffic there is nothing to aggregate.
pub(super) fn background_mbps(profile: Profile, air_share: f64) -> f64 {
    let single =
        Options { ampdu_bytes: profile.aggregates().then_some(1), ..Options::default() };
    let all_air = Parameters::new(profile, &single).map_or(0.0, |single| closed_form(&single));
    // Three digits, to keep parameters readable.
    (all_air * air_share * 1e3).round() / 1e3
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let counts = context.pick(vec![0, 5, 10, 20, 40], vec![0, 10, 20, 40]);
    let mut findings = Findings { seeds: seeds.clone(), ..Findings::default() };
    let ideal = measure_ideal(context, &seeds, &counts, &mut findings)?;
    let actual = measure_stacks(context, &seeds, &mut findings)?;
    findings.parameters = json!({
        "background_stations": counts,
        "background_mbps_each": Profile::ALL.map(|profile| background_mbps(profile, AIR_SHARE)),
        "background_air_share_each": AIR_SHARE,
        "background_direction": "to the access point",
        "ideal": ideal,
        "stacks": actual,
    });
    findings.notes.push(
        "A gain agrees with the paper's within 3 points. The ideal one stays below it, however many others \
         are there: with the same sender and other ACKs, fewer ACKs save that much of the air. The paper's \
         is over TCP BBR, which is another sender too, in a room with noise and hidden stations."
            .to_owned(),
    );
    findings.notes.push(
        "The paper's TACK reaches 94 % of its UDP baseline on n and ac, so its neighbours can't \
         have used much more than 5 % of the air: here ten others use as much together."
            .to_owned(),
    );
    Ok(findings)
}

/// What the UDP tool reaches in a room, Mbit/s.
struct IdealRoom {
    profile: Profile,
    others: u32,
    l1_mbps: f64,
    l2_mbps: f64,
    tack_mbps: f64,
}

/// The UDP tool: what contention alone is worth.
fn measure_ideal(
    context: &Context,
    seeds: &[u64],
    counts: &[u32],
    findings: &mut Findings,
) -> Result<serde_json::Value, Error> {
    let duration = Duration::from_secs(context.pick(60, 5));
    let acks = [Acks::EveryN(1), Acks::EveryN(2), Acks::Hz(TACK_HZ)];
    let cells: Vec<_> = Profile::ALL
        .into_iter()
        .flat_map(|profile| counts.iter().map(move |&others| (profile, others)))
        .flat_map(|(profile, others)| acks.map(|acks| (profile, others, acks)))
        .collect();
    let runs = context.each(&cells, seeds, |&(profile, background, acks), seed| {
        let background_load = Load::Mbps(background_mbps(profile, AIR_SHARE));
        let new = Emulation::new(Parameters::from(profile));
        Ok(Emulation { acks, background, background_load, duration, seed, ..new }.run()?)
    })?;
    let goodputs: Vec<_> = runs
        .iter()
        .map(|runs| median(runs.iter().map(|run| run.goodput_mbps)).unwrap_or_default())
        .collect();
    let rooms = cells.chunks(acks.len()).zip(goodputs.chunks(acks.len())).filter_map(
        |(cells, goodputs)| {
            let &[(profile, others, _), ..] = cells else { return None };
            let &[l1_mbps, l2_mbps, tack_mbps] = goodputs else { return None };
            Some(IdealRoom { profile, others, l1_mbps, l2_mbps, tack_mbps })
        },
    );
    let rooms: Vec<_> = rooms.collect();
    let gains = ideal_gains(&rooms);
    findings.checks.extend(ideal_checks(&gains));
    findings.tables.push(ideal_table(&rooms));
    findings.plots.push(Plot::new(
        "Ideal gain of 50 ACKs a second over one for every second packet",
        Axis::linear("other stations"),
        Axis::linear("gain, %"),
        Chart::Lines { series: gains },
    ));
    Ok(json!({ "duration_s": duration.as_secs_f64(), "warm_up_s": 1, "tack_hz": TACK_HZ }))
}

fn ideal_table(rooms: &[IdealRoom]) -> Table {
    let mut table = Table::new("Ideal goodput (UDP tool), and what 50 ACKs a second gain")
        .text("profile", "profile")
        .number("stations", "others", "", 0)
        .number("l1_mbps", "L = 1", "Mbit/s", 2)
        .number("l2_mbps", "L = 2", "Mbit/s", 2)
        .number("tack_mbps", "50 Hz", "Mbit/s", 2)
        .number("gain_l1_percent", "gain over L = 1", "%", 1)
        .number("gain_l2_percent", "gain over L = 2", "%", 1);
    for room in rooms {
        table.row([
            standard(room.profile).into(),
            room.others.into(),
            room.l1_mbps.into(),
            room.l2_mbps.into(),
            room.tack_mbps.into(),
            gain_percent(room.tack_mbps, room.l1_mbps).into(),
            gain_percent(room.tack_mbps, room.l2_mbps).into(),
        ]);
    }
    table
}

/// For each profile the gain over L = 2, by the number of other stations.
fn ideal_gains(rooms: &[IdealRoom]) -> Vec<Series> {
    let of_profile = |profile: Profile| {
        let rooms = rooms.iter().filter(|room| room.profile == profile);
        let points = rooms
            .map(|room| (f64::from(room.others), gain_percent(room.tack_mbps, room.l2_mbps)));
        Series::measured(standard(profile), Colour::nth(profile as usize), points.collect())
    };
    Profile::ALL.map(of_profile).into()
}

fn ideal_checks(gains: &[Series]) -> Vec<Check> {
    let check = |(gains, paper): (&Series, f64)| {
        let busy = gains
            .points
            .iter()
            .find(|(others, _)| (others - f64::from(BUSY_STATIONS)).abs() < 0.5);
        summary::gain_check(
            format!("{}, {BUSY_STATIONS} others: ideal gain over L = 2", gains.label),
            busy.map_or(f64::NAN, |(_, gain)| *gain),
            (paper, " with real stacks"),
        )
    };
    gains.iter().zip([20.0, 26.3, 27.7, 28.1]).map(check).collect()
}

/// Real stacks on 802.11g and n, in an empty room and in the busy one.
fn measure_stacks(
    context: &Context,
    seeds: &[u64],
    findings: &mut Findings,
) -> Result<serde_json::Value, Error> {
    let duration = Duration::from_secs(context.pick(60, 6));
    let warm_up = Duration::from_secs(2);
    let rooms = [
        (Profile::G, 0),
        (Profile::G, BUSY_STATIONS),
        (Profile::N, 0),
        (Profile::N, BUSY_STATIONS),
    ];
    let cells: Vec<_> = rooms
        .into_iter()
        .flat_map(|(profile, others)| STACKS.map(|stack| (profile, others, stack)))
        .collect();
    let runs = context.simulate(&cells, seeds, |(profile, others, stack), seed| {
        let scenario = Scenario {
            link: room(*profile, *others, background_mbps(*profile, AIR_SHARE))?,
            flows: vec![stack.flow(PathSpec::with_rtt(RTT))],
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        Ok((format!("{}, {others} others, {}", standard(*profile), stack.label), scenario))
    })?;

    let mut table = summary::columns(
        Table::new("Real stacks, RTT 40 ms")
            .text("profile", "profile")
            .number("stations", "others", "", 0)
            .text("stack", "stack"),
    );
    for ((cells, runs), (profile, others)) in
        cells.chunks(STACKS.len()).zip(runs.chunks(STACKS.len())).zip(rooms)
    {
        let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
        for ((_, _, stack), flow) in cells.iter().zip(&flows) {
            let front = [standard(profile).into(), others.into(), stack.label.into()];
            table.row(summary::row(front, flow));
        }
        if others > 0 {
            let gain = gain_percent(flows[0].goodput_mbps, flows[1].goodput_mbps);
            let paper = if profile == Profile::G { 26.3 } else { 27.7 };
            findings.checks.push(summary::gain_check(
                format!("{}, {others} others: TACK over L = 2", standard(profile)),
                gain,
                (paper, " over TCP BBR"),
            ));
        }
    }
    findings.tables.push(table);
    Ok(json!({
        "profiles": ["g", "n"],
        "rtt_ms": RTT.as_millis() as u64,
        "duration_s": duration.as_secs_f64(),
        "warm_up_s": warm_up.as_secs_f64(),
        "buffer": "512 KiB or one BDP at each station",
    }))
}
