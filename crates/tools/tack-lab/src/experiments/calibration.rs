//! Whether the medium is what the standard, theory and a reference simulation say.

use std::time::Duration;

use serde_json::json;
use tack_link::emulation::{Acks, Emulation, Report};
use tack_link::wlan::{Options, Parameters, Profile, bianchi, closed_form};

use super::links::standard;
use super::statistics::median;
use super::{Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Colour, Plot, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "calibration",
    title: "Is the emulated Wi-Fi right?",
    question: "How far is the medium that all other experiments run on from theory and from an \
               independent reference simulation?",
    paper: "Figure 11, UDP baselines on real hardware: about 7, 26, 210 and 590 Mbit/s for \
            802.11b, g, n and ac.",
    measure,
};

/// Goodput in the reference simulation.
struct Reference {
    label: &'static str,
    acks: Acks,
    /// Of b, g, n and ac.
    mbps: [f64; 4],
}

const CELLS: [Reference; 3] = [
    Reference { label: "no ACKs", acks: Acks::None, mbps: [6.94, 25.1, 211.6, 589.0] },
    Reference {
        label: "an ACK for every packet",
        acks: Acks::EveryN(1),
        mbps: [5.5, 18.9, 169.0, 446.1],
    },
    Reference {
        label: "an ACK for every second packet",
        acks: Acks::EveryN(2),
        mbps: [6.2, 21.9, 173.6, 477.2],
    },
];
const CELL_PERCENT: f64 = 3.0;
const CLOSED_FORM_PERCENT: f64 = 2.0;
/// Percentage points.
const BIANCHI_POINTS: f64 = 1.0;
/// (profile, CWmin, how often the window doubles, stations).
const COLLISIONS: [(Profile, u32, u32, u32); 4] = [
    (Profile::G, 31, 5, 2),
    (Profile::G, 15, 6, 2),
    (Profile::N, 15, 6, 2),
    (Profile::G, 31, 5, 5),
];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 10));
    let cells: Vec<_> =
        CELLS.iter().flat_map(|cell| Profile::ALL.map(|profile| (profile, cell))).collect();
    let goodputs = context.each(&cells, &seeds, |(profile, cell), seed| {
        let new = Emulation::new(Parameters::from(*profile));
        Ok(Emulation { acks: cell.acks, duration, seed, ..new }.run()?)
    })?;
    let saturated =
        context.each(&COLLISIONS, &seeds, |&(profile, cw_min, _, stations), seed| {
            let options = Options { cw_min: Some(cw_min), ..Options::default() };
            let new = Emulation::new(Parameters::new(profile, &options)?);
            // All stations send to the access point, so that nothing else competes.
            let background = stations - 1;
            Ok(Emulation { background, uplink: true, duration, seed, ..new }.run()?)
        })?;
    let mut checks = reference_checks(&cells, &goodputs);
    checks.extend(closed_form_checks(&goodputs));
    checks.extend(collision_checks(&saturated));
    Ok(Findings {
        parameters: json!({
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": 1,
            "data_payload_bytes": 1472,
            "ack_bytes": 64,
            "b": { "preamble": "short", "cw_min": 31 },
            "g": { "cw_min": 31 },
            "n": { "ampdu_bytes": 21_700, "cw_min": 15 },
            "ac": { "ampdu_bytes": 54_200, "cw_min": 15 },
        }),
        seeds,
        tables: vec![table(&cells, &goodputs)],
        plots: vec![plot(&goodputs)],
        checks,
        notes: vec![
            "No constant of the model is fitted to these cells: they follow from the standard."
                .to_owned(),
        ],
    })
}

/// The median over the runs of a cell.
fn median_of(runs: &[Report], value: fn(&Report) -> f64) -> f64 {
    median(runs.iter().map(value)).unwrap_or_default()
}

fn goodput_mbps(runs: &[Report]) -> f64 {
    median_of(runs, |run| run.goodput_mbps)
}

fn collision_percent(runs: &[Report]) -> f64 {
    median_of(runs, |run| run.collision_rate) * 100.0
}

fn table(cells: &[(Profile, &Reference)], goodputs: &[Vec<Report>]) -> Table {
    let mut table = Table::new("Goodput of the UDP tool on a clean medium of two stations")
        .text("acks", "ACKs")
        .text("profile", "profile")
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("reference_mbps", "reference", "Mbit/s", 1)
        .number("difference_percent", "difference", "%", 2)
        .number("ampdu_mean", "MPDUs per PPDU", "", 1)
        .number("collision_percent", "collisions", "%", 2);
    for ((profile, cell), runs) in cells.iter().zip(goodputs) {
        let reference = cell.mbps[*profile as usize];
        let goodput = goodput_mbps(runs);
        table.row([
            cell.label.into(),
            standard(*profile).into(),
            goodput.into(),
            reference.into(),
            ((goodput / reference - 1.0) * 100.0).into(),
            median_of(runs, |run| run.ampdu_mean).into(),
            collision_percent(runs).into(),
        ]);
    }
    table
}

fn reference_checks(cells: &[(Profile, &Reference)], goodputs: &[Vec<Report>]) -> Vec<Check> {
    let check = |((profile, cell), runs): (&(Profile, &Reference), &Vec<Report>)| {
        let what = format!("{}, {}", standard(*profile), cell.label);
        let reference = cell.mbps[*profile as usize];
        Check::model_near(what, goodput_mbps(runs), "Mbit/s", reference, CELL_PERCENT)
    };
    cells.iter().zip(goodputs).map(check).collect()
}

/// Of the first cells, which are without ACKs.
fn closed_form_checks(goodputs: &[Vec<Report>]) -> Vec<Check> {
    let check = |(profile, runs): (Profile, &Vec<Report>)| {
        let what = format!("{}, a lone station against the closed form", standard(profile));
        let expected = closed_form(&Parameters::from(profile));
        Check::model_near(what, goodput_mbps(runs), "Mbit/s", expected, CLOSED_FORM_PERCENT)
    };
    Profile::ALL.into_iter().zip(goodputs).map(check).collect()
}

/// Of saturated stations, against Bianchi's model.
fn collision_checks(saturated: &[Vec<Report>]) -> Vec<Check> {
    let mut checks = Vec::new();
    for ((profile, cw_min, stages, stations), runs) in COLLISIONS.into_iter().zip(saturated) {
        let expected = bianchi(stations, cw_min, stages) * 100.0;
        let seen = collision_percent(runs);
        let what = format!(
            "{}, CWmin {cw_min}, {stations} saturated stations: collisions",
            standard(profile)
        );
        let range = expected - BIANCHI_POINTS..=expected + BIANCHI_POINTS;
        checks.push(Check {
            expected: format!("{expected:.2} ± {BIANCHI_POINTS} % (Bianchi)"),
            seen: format!("{seen:.2} %"),
            ..Check::model(what, seen, "%", range)
        });
    }
    checks
}

/// How far off the reference, so that b and ac fit into one picture.
fn plot(goodputs: &[Vec<Report>]) -> Plot {
    let profiles = Profile::ALL.len();
    let series = CELLS.iter().zip(goodputs.chunks(profiles)).enumerate();
    let series = series.map(|(index, (cell, goodputs))| {
        let percent = cell.mbps.iter().zip(goodputs).map(|(reference, runs)| {
            let goodput = median(runs.iter().map(|run| run.goodput_mbps))?;
            Some((goodput / reference - 1.0) * 100.0)
        });
        BarSeries::measured(cell.label, Colour::nth(index), percent)
    });
    Plot::new(
        "Difference from the reference simulation",
        Axis::linear(""),
        Axis::linear("difference, %"),
        Chart::Bars { groups: Profile::ALL.map(standard).to_vec(), series: series.collect() },
    )
}
