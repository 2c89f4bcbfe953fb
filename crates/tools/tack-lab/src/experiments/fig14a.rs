//! Figures 1 and 14(a): goodput of real stacks on all four kinds of Wi-Fi.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;
use tack_link::emulation::Emulation;
use tack_link::wlan::{Parameters, Profile};

use super::busy_ends::LATE;
use super::links::{standard, udp_baseline, wlan};
use super::statistics::median;
use super::summary::{self, acks_per_100, gain_percent, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Plot, Table};
use crate::sim::{FlowReport, Scenario};

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
const PAPER_GAIN: [f64; 4] = [20.0, 26.3, 27.7, 28.1];
const PAPER_REMOVED: [f64; 4] = [90.5, 95.4, 99.4, 99.8];

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
    let warm_up = Duration::from_secs(3);
    let cells: Vec<_> = Profile::ALL
        .into_iter()
        .flat_map(|profile| Contender::ALL.map(|stack| (profile, stack)))
        .collect();
    let scenario = |profile: Profile, stack: Contender, (rtt, late), duration, seed| {
        let scenario = Scenario {
            link: wlan(profile)?,
            flows: vec![stack.flow(PathSpec::with_rtt(rtt)).with_busy_ends(late)],
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        let cell = format!("{}, {rtt:?}, {}, {late:?} late", standard(profile), stack.label);
        Ok((cell, scenario))
    };
    let runs = context.simulate(&cells, &seeds, |(profile, stack), seed| {
        scenario(*profile, *stack, (RTT, Duration::ZERO), duration, seed)
    })?;
    let busy_cells: Vec<_> = Profile::ALL
        .into_iter()
        .flat_map(|profile| BUSY_STACKS.map(|stack| (profile, stack)))
        .collect();
    let busy_runs = context.simulate(&busy_cells, &seeds, |(profile, stack), seed| {
        scenario(*profile, *stack, (RTT, LATE), duration, seed)
    })?;
    let short_cells: Vec<_> = Profile::ALL
        .into_iter()
        .flat_map(|profile| SHORT_STACKS.map(|stack| (profile, stack)))
        .collect();
    let short_duration = Duration::from_secs(context.pick(30, 9));
    let short_runs = context.simulate(&short_cells, &seeds, |(profile, stack), seed| {
        scenario(*profile, *stack, (SHORT_RTT, Duration::ZERO), short_duration, seed)
    })?;
    let udp = context.each(&Profile::ALL, &seeds, |profile, seed| {
        let emulation = Emulation::new(Parameters::from(*profile));
        Ok(Emulation { seed, ..emulation }.run()?.goodput_mbps)
    })?;
    // Headers of QUIC are not TACK's to save: what counts is the payload of UDP, as in the
    // baseline.
    let of_udp = |profile: Profile, at: usize, flow: &FlowReport| {
        let baseline = median(udp[at].iter().copied()).unwrap_or(f64::NAN);
        100.0 * flow.utilisation * udp_baseline(profile) / baseline
    };

    let mut table = summary::columns(
        Table::new("One bulk flow on a clean medium of two stations, RTT 80 ms")
            .text("profile", "profile")
            .text("stack", "stack")
            .number("baseline_percent", "of UDP", "%", 1)
            .number("tack_gain_percent", "TACK gains", "%", 1)
            .number("acks_removed_percent", "ACKs saved", "%", 1),
    );
    let mut bars = Contender::ALL.map(|_| Vec::new());
    let mut checks = Vec::new();
    let stacks = Contender::ALL.len();
    for ((profile, runs), at) in Profile::ALL.into_iter().zip(runs.chunks(stacks)).zip(0..) {
        let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
        let tack = &flows[0];
        let removed =
            |over: usize| 100.0 * (1.0 - acks_per_100(tack) / acks_per_100(&flows[over]));
        let gain = |over: usize| gain_percent(tack.goodput_mbps, flows[over].goodput_mbps);
        for (index, (stack, flow)) in Contender::ALL.iter().zip(&flows).enumerate() {
            let share = 100.0 * flow.goodput_mbps / udp_baseline(profile);
            bars[index].push(Some(share));
            let compared = (index > 0).then(|| (gain(index), removed(index)));
            let front = [
                standard(profile).into(),
                stack.label.into(),
                share.into(),
                compared.map(|(gain, _)| gain).into(),
                compared.map(|(_, removed)| removed).into(),
            ];
            table.row(summary::row(front, flow));
        }
        let busy = &busy_runs[at * BUSY_STACKS.len()..][..BUSY_STACKS.len()];
        let busy: Vec<_> = busy.iter().map(|runs| median_flow(runs, 0)).collect();
        for (index, (stack, flow)) in BUSY_STACKS.iter().zip(&busy).enumerate() {
            let compared = (index > 0).then(|| {
                let saved = 100.0 * (1.0 - acks_per_100(&busy[0]) / acks_per_100(flow));
                (gain_percent(busy[0].goodput_mbps, flow.goodput_mbps), saved)
            });
            let front = [
                standard(profile).into(),
                format!("{}, ends {} ms late", stack.label, LATE.as_millis()).into(),
                (100.0 * flow.goodput_mbps / udp_baseline(profile)).into(),
                compared.map(|(gain, _)| gain).into(),
                compared.map(|(_, saved)| saved).into(),
            ];
            table.row(summary::row(front, flow));
        }
        let paper: f64 = PAPER_GAIN[at];
        // L = 2 with the same congestion control, then plain quiche with BBRv2.
        for over in [1, 5] {
            let what =
                format!("{}: TACK over {}", standard(profile), Contender::ALL[over].label);
            checks.push(summary::gain_check(what, gain(over), (paper, " over TCP BBR")));
        }
        let paper = PAPER_REMOVED[at];
        checks.push(Check::paper_or_better(
            format!("{}: ACKs saved against L = 2", standard(profile)),
            format!("{:.1} %", removed(1)),
            format!("{paper:.1} %"),
            (removed(1) - paper).abs() < 2.0,
            removed(1) > paper,
        ));
        let what = |what: &str| format!("{}: {what}", standard(profile));
        let share = of_udp(profile, at, tack);
        checks.push(Check::at_least(what("of UDP without ACKs"), share, "%", TARGET_OF_UDP));
        let plain = if gain(4) < gain(5) { 4 } else { 5 };
        for (over, least) in [1, 2, plain].into_iter().zip(TARGET_GAIN[at]) {
            let what = what(&format!("gain over {}", Contender::ALL[over].label));
            checks.push(Check::at_least(what, gain(over), "%", least));
        }
        for (over, least) in [1, 2].into_iter().zip(TARGET_REMOVED[at]) {
            let what = what(&format!("ACKs saved against {}", Contender::ALL[over].label));
            checks.push(Check::at_least(what, removed(over), "%", least));
        }
    }
    let mut short = summary::columns(
        Table::new("The same with RTT 10 ms")
            .text("profile", "profile")
            .text("stack", "stack")
            .number("udp_payload_percent", "of UDP without ACKs", "%", 1)
            .number("tack_gain_percent", "TACK gains", "%", 1),
    );
    for ((profile, runs), at) in
        Profile::ALL.into_iter().zip(short_runs.chunks(SHORT_STACKS.len())).zip(0..)
    {
        let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
        for (index, (stack, flow)) in SHORT_STACKS.iter().zip(&flows).enumerate() {
            let gain = gain_percent(flows[0].goodput_mbps, flow.goodput_mbps);
            let front = [
                standard(profile).into(),
                stack.label.into(),
                of_udp(profile, at, flow).into(),
                (index > 0).then_some(gain).into(),
            ];
            short.row(summary::row(front, flow));
        }
        checks.push(Check::at_least(
            format!("{}, 10 ms: of UDP without ACKs", standard(profile)),
            of_udp(profile, at, &flows[0]),
            "%",
            TARGET_OF_UDP_SHORT,
        ));
    }
    let series = Contender::ALL
        .iter()
        .zip(bars)
        .map(|(stack, values)| BarSeries::measured(stack.label, stack.colour, values));
    let plot = Plot::new(
        "Goodput as a share of the UDP baseline",
        Axis::linear(""),
        Axis::linear("share, %"),
        Chart::Bars { groups: Profile::ALL.map(standard).to_vec(), series: series.collect() },
    );
    Ok(Findings {
        parameters: json!({
            "rtt_ms": RTT.as_millis() as u64,
            "rtt_of": "not given in the paper (4 to 200 ms); follows from its numbers of ACKs",
            "udp_baseline_mbps": Profile::ALL.map(udp_baseline),
            "udp_without_acks_mbps": udp.iter().map(|runs| median(runs.iter().copied())).collect::<Vec<_>>(),
            "short_rtt_ms": SHORT_RTT.as_millis() as u64,
            "short_duration_s": short_duration.as_secs_f64(),
            "busy_ends_late_ms": LATE.as_millis() as u64,
            "buffer": "512 KiB or one BDP at each station",
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
            "flows": 1,
            "quinn_ack_frequency": 10,
        }),
        seeds,
        tables: vec![table, short],
        plots: vec![plot],
        checks,
        notes: vec![
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
        ],
    })
}
