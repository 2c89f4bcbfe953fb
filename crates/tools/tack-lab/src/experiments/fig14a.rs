//! Figures 1 and 14(a): goodput of real stacks on all four kinds of Wi-Fi.

use std::time::Duration;

use serde_json::{Value, json};
use tack_link::PathSpec;
use tack_link::emulation::Emulation;
use tack_link::wlan::{Parameters, Profile};

use super::busy_ends::LATE;
use super::links::{standard, udp_baseline, wlan};
use super::statistics::median;
use super::summary::{self, acks_per_100, gain_percent, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Plot, Table};
use crate::sim::{FlowReport, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig14a",
    title: "Goodput on Wi-Fi",
    question: "How much more data does TACK move over 802.11b, g, n and ac than stacks that \
               acknowledge in other ways?",
    paper: "Figures 1 and 14(a), a busy public room: TACK over TCP BBR (L = 2) +20.0, +26.3, \
            +27.7 and +28.1 % (6/5, 24/19, 198/155, 556/434 Mbit/s) with 90.5, 95.4, 99.4 and \
            99.8 % fewer ACKs; on g 1.9 ACKs per 100 data packets instead of 50.",
    measure,
};

/// What the paper's numbers of ACKs come to: 49 a second at 198 Mbit/s, four for each round trip.
const RTT: Duration = Duration::from_millis(80);
const WARM_UP: Duration = Duration::from_secs(3);
const PAPER_GAIN: [f64; 4] = [20.0, 26.3, 27.7, 28.1];
const PAPER_REMOVED: [f64; 4] = [90.5, 95.4, 99.4, 99.8];

/// Places in [`Contender::ALL`]; TACK is the first in the other lists, too.
const TACK: usize = 0;
const EVERY_SECOND: usize = 1;
const EVERY_PACKET: usize = 2;
const QUICHE_CUBIC: usize = 4;
const QUICHE_BBR: usize = 5;

/// A short path, where TACK acknowledges eight times as often.
const SHORT_RTT: Duration = Duration::from_millis(10);
const SHORT_STACKS: [Contender; 4] =
    [Contender::TACK, Contender::EVERY_SECOND, Contender::QUICHE_CUBIC, Contender::QUICHE_BBR];

/// The paper's pair, for ends on machines that have other work.
const BUSY_STACKS: [Contender; 2] = [Contender::TACK, Contender::EVERY_SECOND];

/// Least share of what UDP without any ACKs carries, percent.
const TARGET_OF_UDP: f64 = 98.0;
const TARGET_OF_UDP_SHORT: f64 = 95.0;
/// Least gain over the same stack with L = 2 and with L = 1, and over plain quiche, percent.
const TARGET_GAIN: [[f64; 3]; 4] =
    [[8.0, 20.0, 20.0], [11.0, 28.0, 28.0], [17.0, 20.0, 12.0], [18.0, 27.0, 12.0]];
/// Least share of ACKs that are saved against L = 2 and L = 1, percent.
const TARGET_REMOVED: [[f64; 2]; 4] = [[82.0, 90.5], [95.0, 97.0], [99.4, 99.7], [99.8, 99.9]];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 7));
    let short_duration = Duration::from_secs(context.pick(30, 9));
    let usual = Conditions { rtt: RTT, late: Duration::ZERO, duration };
    let late = Conditions { late: LATE, ..usual };
    let short = Conditions { rtt: SHORT_RTT, duration: short_duration, ..usual };
    let flows = run_stacks(context, &seeds, &Contender::ALL, usual)?;
    let late_flows = run_stacks(context, &seeds, &BUSY_STACKS, late)?;
    let short_flows = run_stacks(context, &seeds, &SHORT_STACKS, short)?;
    let udp_mbps = run_udp(context, &seeds)?;
    let measured: Vec<_> = Profile::ALL
        .into_iter()
        .zip(flows)
        .zip(late_flows)
        .zip(short_flows)
        .zip(udp_mbps)
        .map(|((((profile, flows), late_flows), short_flows), udp_mbps)| Measured {
            profile,
            flows,
            late_flows,
            short_flows,
            udp_mbps,
        })
        .collect();
    let mut checks = Vec::new();
    for wifi in &measured {
        checks.extend(paper_checks(wifi));
        checks.extend(target_checks(wifi));
    }
    checks.extend(measured.iter().map(short_check));
    Ok(Findings {
        parameters: parameters(duration, short_duration, &measured),
        seeds,
        tables: vec![table(&measured), short_table(&measured)],
        plots: vec![plot(&measured)],
        checks,
        notes: notes(),
    })
}

/// What the stacks of a series of runs have in common.
#[derive(Clone, Copy)]
struct Conditions {
    rtt: Duration,
    /// How late both ends read and send on average.
    late: Duration,
    duration: Duration,
}

/// Runs each stack on each kind of Wi-Fi: the median flows, by profile.
fn run_stacks(
    context: &Context,
    seeds: &[u64],
    stacks: &[Contender],
    conditions: Conditions,
) -> Result<Vec<Vec<FlowReport>>, Error> {
    let Conditions { rtt, late, duration } = conditions;
    let cells: Vec<_> = Profile::ALL
        .into_iter()
        .flat_map(|profile| stacks.iter().map(move |stack| (profile, *stack)))
        .collect();
    let runs = context.simulate(&cells, seeds, |(profile, stack), seed| {
        let scenario = Scenario {
            link: wlan(*profile)?,
            flows: vec![stack.flow(PathSpec::with_rtt(rtt)).with_busy_ends(late)],
            duration,
            warm_up: WARM_UP,
            bin: duration,
            seed,
        };
        let cell = format!("{}, {rtt:?}, {}, {late:?} late", standard(*profile), stack.label);
        Ok((cell, scenario))
    })?;
    let flows = |runs: &[Vec<ScenarioReport>]| -> Vec<FlowReport> {
        runs.iter().map(|runs| median_flow(runs, 0)).collect()
    };
    Ok(runs.chunks(stacks.len()).map(flows).collect())
}

/// What UDP without any ACKs carries on each kind of Wi-Fi, Mbit/s of payload.
fn run_udp(context: &Context, seeds: &[u64]) -> Result<Vec<f64>, Error> {
    let runs = context.each(&Profile::ALL, seeds, |profile, seed| {
        let emulation = Emulation::new(Parameters::from(*profile));
        Ok(Emulation { seed, ..emulation }.run()?.goodput_mbps)
    })?;
    Ok(runs.into_iter().map(|runs| median(runs).unwrap_or(f64::NAN)).collect())
}

/// The medians on one kind of Wi-Fi.
struct Measured {
    profile: Profile,
    /// Of [`Contender::ALL`].
    flows: Vec<FlowReport>,
    /// Of [`BUSY_STACKS`], whose ends are late.
    late_flows: Vec<FlowReport>,
    /// Of [`SHORT_STACKS`], on the short path.
    short_flows: Vec<FlowReport>,
    /// UDP without any ACKs.
    udp_mbps: f64,
}

impl Measured {
    /// Goodput as a share of the UDP baseline, percent.
    fn of_baseline(&self, flow: &FlowReport) -> f64 {
        100.0 * flow.goodput_mbps / udp_baseline(self.profile)
    }

    /// UDP payload as a share of that of UDP without ACKs, percent.
    fn of_udp(&self, flow: &FlowReport) -> f64 {
        // Headers of QUIC are not TACK's to save: what counts is the payload of UDP, as in the
        // baseline.
        100.0 * flow.utilisation * udp_baseline(self.profile) / self.udp_mbps
    }

    /// What TACK gains over one of [`Contender::ALL`], percent.
    fn gain(&self, over: usize) -> f64 {
        gain(&self.flows[TACK], &self.flows[over])
    }

    /// The ACKs that TACK saves against one of [`Contender::ALL`], percent.
    fn acks_saved(&self, against: usize) -> f64 {
        acks_saved(&self.flows[TACK], &self.flows[against])
    }

    /// A row of the first table, compared with `tack` unless it is TACK's own.
    fn row(&self, stack: &str, flow: &FlowReport, tack: Option<&FlowReport>) -> Vec<Value> {
        let front = [
            standard(self.profile).into(),
            stack.into(),
            self.of_baseline(flow).into(),
            tack.map(|tack| gain(tack, flow)).into(),
            tack.map(|tack| acks_saved(tack, flow)).into(),
        ];
        summary::row(front, flow)
    }
}

fn gain(tack: &FlowReport, other: &FlowReport) -> f64 {
    gain_percent(tack.goodput_mbps, other.goodput_mbps)
}

fn acks_saved(tack: &FlowReport, other: &FlowReport) -> f64 {
    100.0 * (1.0 - acks_per_100(tack) / acks_per_100(other))
}

fn table(measured: &[Measured]) -> Table {
    let mut table = summary::columns(
        Table::new("One bulk flow on a clean medium of two stations, RTT 80 ms")
            .text("profile", "profile")
            .text("stack", "stack")
            .number("baseline_percent", "of UDP", "%", 1)
            .number("tack_gain_percent", "TACK gains", "%", 1)
            .number("acks_removed_percent", "ACKs saved", "%", 1),
    );
    for wifi in measured {
        for (index, (stack, flow)) in Contender::ALL.iter().zip(&wifi.flows).enumerate() {
            let tack = (index > 0).then_some(&wifi.flows[TACK]);
            table.row(wifi.row(stack.label, flow, tack));
        }
        for (index, (stack, flow)) in BUSY_STACKS.iter().zip(&wifi.late_flows).enumerate() {
            let tack = (index > 0).then_some(&wifi.late_flows[TACK]);
            let stack = format!("{}, ends {} ms late", stack.label, LATE.as_millis());
            table.row(wifi.row(&stack, flow, tack));
        }
    }
    table
}

fn short_table(measured: &[Measured]) -> Table {
    let mut table = summary::columns(
        Table::new("The same with RTT 10 ms")
            .text("profile", "profile")
            .text("stack", "stack")
            .number("udp_payload_percent", "of UDP without ACKs", "%", 1)
            .number("tack_gain_percent", "TACK gains", "%", 1),
    );
    for wifi in measured {
        let flows = &wifi.short_flows;
        for (index, (stack, flow)) in SHORT_STACKS.iter().zip(flows).enumerate() {
            let front = [
                standard(wifi.profile).into(),
                stack.label.into(),
                wifi.of_udp(flow).into(),
                (index > 0).then_some(gain(&flows[TACK], flow)).into(),
            ];
            table.row(summary::row(front, flow));
        }
    }
    table
}

fn paper_checks(wifi: &Measured) -> Vec<Check> {
    let name = standard(wifi.profile);
    let paper = PAPER_GAIN[wifi.profile as usize];
    // L = 2 with the same congestion control, then plain quiche with BBRv2.
    let mut checks: Vec<_> = [EVERY_SECOND, QUICHE_BBR]
        .map(|over| {
            let what = format!("{name}: TACK over {}", Contender::ALL[over].label);
            summary::gain_check(what, wifi.gain(over), (paper, " over TCP BBR"))
        })
        .into();
    let paper = PAPER_REMOVED[wifi.profile as usize];
    let saved = wifi.acks_saved(EVERY_SECOND);
    checks.push(Check::paper_or_better(
        format!("{name}: ACKs saved against L = 2"),
        format!("{saved:.1} %"),
        format!("{paper:.1} %"),
        (saved - paper).abs() < 2.0,
        saved > paper,
    ));
    checks
}

fn target_checks(wifi: &Measured) -> Vec<Check> {
    let at = wifi.profile as usize;
    let what = |what: &str| format!("{}: {what}", standard(wifi.profile));
    let share = wifi.of_udp(&wifi.flows[TACK]);
    let mut checks =
        vec![Check::at_least(what("of UDP without ACKs"), share, "%", TARGET_OF_UDP)];
    let plain =
        if wifi.gain(QUICHE_CUBIC) < wifi.gain(QUICHE_BBR) { QUICHE_CUBIC } else { QUICHE_BBR };
    for (over, least) in [EVERY_SECOND, EVERY_PACKET, plain].into_iter().zip(TARGET_GAIN[at]) {
        let what = what(&format!("gain over {}", Contender::ALL[over].label));
        checks.push(Check::at_least(what, wifi.gain(over), "%", least));
    }
    for (against, least) in [EVERY_SECOND, EVERY_PACKET].into_iter().zip(TARGET_REMOVED[at]) {
        let what = what(&format!("ACKs saved against {}", Contender::ALL[against].label));
        checks.push(Check::at_least(what, wifi.acks_saved(against), "%", least));
    }
    checks
}

fn short_check(wifi: &Measured) -> Check {
    Check::at_least(
        format!("{}, 10 ms: of UDP without ACKs", standard(wifi.profile)),
        wifi.of_udp(&wifi.short_flows[TACK]),
        "%",
        TARGET_OF_UDP_SHORT,
    )
}

fn plot(measured: &[Measured]) -> Plot {
    let series = Contender::ALL.iter().enumerate().map(|(index, stack)| {
        let shares = measured.iter().map(|wifi| Some(wifi.of_baseline(&wifi.flows[index])));
        BarSeries::measured(stack.label, stack.colour, shares)
    });
    Plot::new(
        "Goodput as a share of the UDP baseline",
        Axis::linear(""),
        Axis::linear("share, %"),
        Chart::Bars { groups: Profile::ALL.map(standard).to_vec(), series: series.collect() },
    )
}

fn parameters(duration: Duration, short_duration: Duration, measured: &[Measured]) -> Value {
    let udp_mbps: Vec<_> = measured.iter().map(|wifi| wifi.udp_mbps).collect();
    json!({
        "rtt_ms": RTT.as_millis() as u64,
        "rtt_of": "not given in the paper (4 to 200 ms); follows from its numbers of ACKs",
        "udp_baseline_mbps": Profile::ALL.map(udp_baseline),
        "udp_without_acks_mbps": udp_mbps,
        "short_rtt_ms": SHORT_RTT.as_millis() as u64,
        "short_duration_s": short_duration.as_secs_f64(),
        "busy_ends_late_ms": LATE.as_millis() as u64,
        "buffer": "512 KiB or one BDP at each station",
        "duration_s": duration.as_secs_f64(),
        "warm_up_s": WARM_UP.as_secs_f64(),
        "flows": 1,
        "quinn_ack_frequency": 10,
    })
}

fn notes() -> Vec<String> {
    vec![
        "\"Of UDP\" in the first table is stream data over the closed form of UDP, with the \
         headers of QUIC against us (some 2 %); targets compare UDP payloads, of data packets \
         that arrived and of the medium without ACKs."
            .to_owned(),
        "Rows with late ends are `tack-lab transfer --busy 5`: both ends read and send a random \
         time after they are woken (see busy-ends), and what TACK gains there is over L = 2 with late ends too. A late end finds many packets \
         in its socket and acknowledges them once, L = 2 as well: it sends far fewer ACKs than \
         one for every second packet, and TACK gains less."
            .to_owned(),
        "Plain quiche in a target is the faster of its two controllers.".to_owned(),
        "The paper's rival is TCP BBR with an ACK for every second packet: that is \"tacklib \
         L=2\", which differs from TACK in its acknowledgements alone. Plain quiche and \
         quinn acknowledge once what arrives at one time, an A-MPDU for instance."
            .to_owned(),
        "Two stations on a clean medium, where contention alone is worth 10 to 22 % over L = \
         2; the paper measured in a busy room (see busy-room)."
            .to_owned(),
    ]
}
