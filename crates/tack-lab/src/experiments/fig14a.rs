//! Figures 1 and 14(a): goodput of real stacks on all four kinds of Wi-Fi.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;
use tack_link::wlan::Profile;

use super::links::{standard, udp_baseline, wlan};
use super::summary::{self, acks_per_100, gain_percent, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Plot, Table};
use crate::sim::Scenario;

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

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 7));
    let warm_up = Duration::from_secs(3);
    let cells: Vec<_> = Profile::ALL
        .into_iter()
        .flat_map(|profile| Contender::ALL.map(|stack| (profile, stack)))
        .collect();
    let runs = context.simulate(&cells, &seeds, |(profile, stack), seed| {
        let scenario = Scenario {
            link: wlan(*profile)?,
            flows: vec![stack.flow(PathSpec::with_rtt(RTT))],
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        Ok((format!("{}, {}", standard(*profile), stack.label), scenario))
    })?;

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
        let paper: f64 = PAPER_GAIN[at];
        // L = 2 with the same congestion control, then plain quiche with BBRv2.
        for over in [1, 5] {
            checks.push(Check::paper(
                format!("{}: TACK over {}", standard(profile), Contender::ALL[over].label),
                format!("{:+.1} %", gain(over)),
                format!("{paper:+.1} % over TCP BBR"),
                (gain(over) - paper).abs() < 8.0,
            ));
        }
        let paper = PAPER_REMOVED[at];
        checks.push(Check::paper(
            format!("{}: ACKs saved against L = 2", standard(profile)),
            format!("{:.1} %", removed(1)),
            format!("{paper:.1} %"),
            removed(1) > paper - 2.0,
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
            "buffer": "512 KiB or one BDP at each station",
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
            "flows": 1,
            "quinn_ack_frequency": 10,
        }),
        seeds,
        tables: vec![table],
        plots: vec![plot],
        checks,
        notes: vec![
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
