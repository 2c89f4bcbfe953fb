//! Figure 18: a server behind a wide-area network, a client on Wi-Fi.

use std::time::Duration;

use serde_json::{Value, json};
use tack_link::PathSpec;
use tack_link::emulation::{self, Emulation};
use tack_link::wlan::{Parameters, Profile};

use super::links::wan_and_wlan;
use super::statistics::median;
use super::summary::{self, acks_per_100, gain_percent, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Colour, Plot, Table};
use crate::sim::{FlowReport, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig18",
    title: "WLAN and WAN",
    question: "Does TACK pay when a long and lossy wide-area network lies behind the Wi-Fi?",
    paper: "Figure 18, goodput of TCP BBR and TCP-TACK: case 1 (54M, 20 ms) 17.16 and 20.21 \
            Mbit/s, case 2 (with 1 % loss) 16.90 and 18.44, case 3 (300M, 200 ms) 159.50 and \
            190.22, case 4 (with 1 % loss) 156.39 and 185.73.",
    measure,
};

/// One row of the paper's table.
#[derive(Clone, Copy, Debug)]
struct Case {
    profile: Profile,
    rtt: Duration,
    wan_mbps: f64,
    loss: f64,
    paper: [Reported; 2],
}

/// What the paper reports for TCP BBR and TCP-TACK.
#[derive(Clone, Copy, Debug)]
struct Reported {
    goodput_mbps: f64,
    data_packets: f64,
    acks: f64,
}

impl Reported {
    const fn new(goodput_mbps: f64, data_packets: f64, acks: f64) -> Self {
        Self { goodput_mbps, data_packets, acks }
    }

    fn acks_per_100(&self) -> f64 {
        100.0 * self.acks / self.data_packets
    }
}

const CASES: [Case; 4] = [
    Case {
        profile: Profile::G,
        rtt: Duration::from_millis(20),
        wan_mbps: 100.0,
        loss: 0.0,
        paper: [
            Reported::new(17.16, 190_896.0, 104_298.0),
            Reported::new(20.21, 222_561.0, 24_356.0),
        ],
    },
    Case {
        profile: Profile::G,
        rtt: Duration::from_millis(20),
        wan_mbps: 100.0,
        loss: 0.01,
        paper: [
            Reported::new(16.90, 175_434.0, 84_523.0),
            Reported::new(18.44, 213_161.0, 26_068.0),
        ],
    },
    Case {
        profile: Profile::N,
        rtt: Duration::from_millis(200),
        wan_mbps: 500.0,
        loss: 0.0,
        paper: [
            Reported::new(159.50, 1_657_476.0, 882_545.0),
            Reported::new(190.22, 2_067_212.0, 2_474.0),
        ],
    },
    Case {
        profile: Profile::N,
        rtt: Duration::from_millis(200),
        wan_mbps: 500.0,
        loss: 0.01,
        paper: [
            Reported::new(156.39, 1_767_197.0, 897_361.0),
            Reported::new(185.73, 2_204_647.0, 22_407.0),
        ],
    },
];

const STACKS: [Contender; 6] = [
    Contender::TACK,
    Contender::EVERY_SECOND,
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
    Contender::QUINN_TENTH,
];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 12));
    let warm_up = Duration::from_secs(context.pick(0, 4));
    let cells: Vec<_> =
        CASES.iter().flat_map(|case| STACKS.map(|stack| (*case, stack))).collect();
    let runs = context.simulate(&cells, &seeds, |(case, stack), seed| {
        let scenario = Scenario {
            link: wan_and_wlan(case.profile, case.wan_mbps, case.rtt, case.loss)?,
            flows: vec![stack.flow(PathSpec::default())],
            duration,
            warm_up,
            bin: duration,
            seed,
        };
        Ok((format!("{}, loss {}, {}", case.profile, case.loss, stack.label), scenario))
    })?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();

    // What no ACKs at all gain over L = 2 on this Wi-Fi, where the bottleneck is: nothing that
    // acknowledges can gain more. What as many ACKs as TACK's gain shows what those cost.
    let without_acks = CASES.map(|case| (case, emulation::Acks::None));
    let bounds = medium_gains(context, &without_acks, &seeds)?;
    let bounds_with_acks = medium_gains(context, &acks_of_tack(&flows), &seeds)?;

    let results: Vec<_> = CASES
        .into_iter()
        .zip(flows.chunks(STACKS.len()))
        .zip(bounds.iter().zip(&bounds_with_acks))
        .zip(1..)
        .map(|(((case, flows), (&bound, &bound_with_acks)), number)| CaseResult {
            number,
            case,
            flows,
            bound,
            bound_with_acks,
        })
        .collect();
    Ok(Findings {
        parameters: parameters(duration, warm_up, &bounds),
        seeds,
        tables: vec![table(&results), gains(&results)],
        plots: vec![plot(&results)],
        checks: results.iter().flat_map(checks).collect(),
        notes: notes(),
    })
}

/// For each case as many ACKs as TACK sends in it.
fn acks_of_tack(flows: &[FlowReport]) -> Vec<(Case, emulation::Acks)> {
    let of_cases = CASES.into_iter().zip(flows.chunks(STACKS.len()));
    let acks = of_cases.map(|(case, flows)| {
        let data_per_ack = flows[0].data_packets as f64 / flows[0].ack_packets.max(1) as f64;
        (case, emulation::Acks::EveryN(data_per_ack.round() as u32))
    });
    acks.collect()
}

/// What the stacks reach in a case, and what the medium allows there.
struct CaseResult<'a> {
    number: u32,
    case: Case,
    /// In the order of the stacks.
    flows: &'a [FlowReport],
    /// Gain over L = 2 without any ACKs, percent.
    bound: f64,
    /// Gain over L = 2 with as many ACKs as TACK sends, percent.
    bound_with_acks: f64,
}

impl CaseResult<'_> {
    /// TACK's gain over L = 2, percent.
    fn gain(&self) -> f64 {
        gain_percent(self.flows[0].goodput_mbps, self.flows[1].goodput_mbps)
    }

    /// The paper's row for the stack at an index.
    fn reported(&self, stack: usize) -> Option<Reported> {
        let [bbr, tack] = self.case.paper;
        // The paper's TCP BBR stands beside the same stack with its ACK rate.
        match stack {
            0 => Some(tack),
            1 => Some(bbr),
            _ => None,
        }
    }
}

fn table(results: &[CaseResult<'_>]) -> Table {
    let mut table = summary::columns(
        Table::new("A client in a Wi-Fi cell, a server behind a WAN")
            .number("case", "case", "", 0)
            .text("stack", "stack")
            .number("paper_mbps", "paper", "Mbit/s", 2)
            .number("data_packets", "data packets", "", 0)
            .number("ack_packets", "ACK packets", "", 0)
            .number("paper_acks_per_100_data", "paper, ACKs per 100 data", "", 2),
    );
    for result in results {
        for (index, (stack, flow)) in STACKS.iter().zip(result.flows).enumerate() {
            let reported = result.reported(index);
            let front = [
                result.number.into(),
                stack.label.into(),
                reported.map(|paper| paper.goodput_mbps).into(),
                flow.data_packets.into(),
                flow.ack_packets.into(),
                reported.map(|paper| paper.acks_per_100()).into(),
            ];
            table.row(summary::row(front, flow));
        }
    }
    table
}

/// What the medium allows to gain over L = 2, and what TACK gains.
fn gains(results: &[CaseResult<'_>]) -> Table {
    let mut table =
        Table::new("Gain over L = 2, which the Wi-Fi alone allows, and which TACK has")
            .number("case", "case", "", 0)
            .number("no_acks_percent", "no ACKs at all", "%", 1)
            .number("tacks_number_percent", "as many ACKs as TACK", "%", 1)
            .number("tack_percent", "TACK", "%", 1);
    for result in results {
        table.row([
            result.number.into(),
            result.bound.into(),
            result.bound_with_acks.into(),
            result.gain().into(),
        ]);
    }
    table
}

/// TACK in one case against the paper, then against the targets.
fn checks(result: &CaseResult<'_>) -> [Check; 5] {
    let CaseResult { number, case, flows, bound, .. } = result;
    let [bbr, tack] = case.paper;
    let gain = result.gain();
    let paper_gain = gain_percent(tack.goodput_mbps, bbr.goodput_mbps);
    let goodput_of_paper = flows[0].goodput_mbps / tack.goodput_mbps;
    let ratio = acks_per_100(&flows[0]);
    let ratio_of_paper = ratio / tack.acks_per_100();
    [
        Check::paper_or_better(
            format!("case {number}: TACK's goodput"),
            format!("{:.2} Mbit/s", flows[0].goodput_mbps),
            format!("{:.2} Mbit/s", tack.goodput_mbps),
            (0.97..=1.03).contains(&goodput_of_paper),
            goodput_of_paper > 1.0,
        ),
        summary::gain_check(
            format!("case {number}: TACK over L = 2"),
            gain,
            (paper_gain, " over TCP BBR"),
        ),
        Check::paper_or_better(
            format!("case {number}: TACK's ACKs per 100 data packets"),
            format!("{ratio:.2}"),
            format!("{:.2}", tack.acks_per_100()),
            (0.8..=1.25).contains(&ratio_of_paper),
            ratio_of_paper < 1.0,
        ),
        Check::at_least(
            format!("case {number}: gain over L = 2 (the medium allows {bound:.1} %)"),
            gain,
            "%",
            paper_gain.min(*bound),
        ),
        Check::at_most(
            format!("case {number}: ACKs per 100 data packets"),
            ratio,
            "",
            tack.acks_per_100(),
        ),
    ]
}

fn plot(results: &[CaseResult<'_>]) -> Plot {
    let measured = STACKS.iter().enumerate().map(|(index, stack)| {
        let values = results.iter().map(|result| Some(result.flows[index].goodput_mbps));
        BarSeries::measured(stack.label, stack.colour, values)
    });
    let mut series: Vec<_> = measured.collect();
    for (label, colour, index) in
        [("paper, TCP BBR", Colour::Grey, 0), ("paper, TACK", Colour::Blue, 1)]
    {
        let values = CASES.map(|case| Some(case.paper[index].goodput_mbps));
        series.push(BarSeries::reference(label, colour, values));
    }
    let groups = results.iter().map(|CaseResult { number, case, .. }| {
        let loss = if case.loss > 0.0 { ", 1 % loss" } else { "" };
        format!("case {number}: {} ms{loss}", case.rtt.as_millis())
    });
    Plot::new(
        "Goodput over WLAN and WAN",
        Axis::linear(""),
        Axis::linear("goodput, Mbit/s"),
        Chart::Bars { groups: groups.collect(), series },
    )
}

fn parameters(duration: Duration, warm_up: Duration, bounds: &[f64]) -> Value {
    json!({
        "wlan": CASES.map(|case| case.profile.name()),
        "wan_mbps": CASES.map(|case| case.wan_mbps),
        "wan_rtt_ms": CASES.map(|case| case.rtt.as_millis() as u64),
        "gain_bound_percent": bounds,
        "wan_loss_each_way": CASES.map(|case| case.loss),
        "duration_s": duration.as_secs_f64(),
        "warm_up_s": warm_up.as_secs_f64(),
    })
}

fn notes() -> Vec<String> {
    vec![
        "The numbers of packets in the paper are those of about two minutes; compare ACKs \
         per 100 data packets."
            .to_owned(),
        "TACK sends fewer ACKs than the paper's, which has L = 2 and beta = 4: here L = 10 and \
         beta = 2, and no more than one TACK for a round trip of up to 20 ms. `agrees` is \
         within a quarter of the paper's number of ACKs and 3 % of its goodput."
            .to_owned(),
        "The losses are in the WAN: lost data does not reach the Wi-Fi, lost ACKs have \
         crossed it."
            .to_owned(),
        "What case 1 lacks of a medium without any ACKs is the price of one TACK for a round \
         trip; `ack-interval` shows what longer intervals cost."
            .to_owned(),
    ]
}

/// What these ACKs gain over L = 2 on the Wi-Fi of a case if nothing in the transport depends on
/// them, percent.
fn medium_gains(
    context: &Context,
    cells: &[(Case, emulation::Acks)],
    seeds: &[u64],
) -> Result<Vec<f64>, Error> {
    let runs = context.each(cells, seeds, |(case, acks), seed| {
        let new = Emulation::new(Parameters::from(case.profile));
        let goodput =
            |acks| Ok::<_, Error>(Emulation { acks, seed, ..new.clone() }.run()?.goodput_mbps);
        Ok(gain_percent(goodput(*acks)?, goodput(emulation::Acks::EveryN(2))?))
    })?;
    Ok(runs.into_iter().map(|runs| median(runs).unwrap_or(f64::NAN)).collect())
}
