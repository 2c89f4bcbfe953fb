//! Figure 7: the smallest round-trip time, as senders estimate it.

use std::time::Duration;

use serde_json::json;
use tack_link::wlan::Profile;
use tack_link::{LinkSpec, PathSpec};

use super::summary::{self, median_flow};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Plot, Series, Table};
use crate::sim::{FlowReport, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig7",
    title: "Round-trip timing with few ACKs",
    question: "How far is the sender's smallest round-trip time from that of the path when \
               ACKs are rare?",
    paper: "Figure 7(a), 100 ms between two Wi-Fi endpoints: plain sampling over-estimates by 8 \
            to 18 %, timing by one-way delays by about 0. Figure 7(b): 95th-percentile one-way \
            delay 20 % lower, losses 54 % fewer, throughput the same.",
    measure,
};

const RTT: Duration = Duration::from_millis(100);
const PROFILE: Profile = Profile::N;
const STACKS: [Contender; 7] = [
    Contender::TACK,
    Contender::TACK_PLAIN_SAMPLING,
    Contender::EVERY_SECOND,
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
    Contender::QUINN_TENTH,
];

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 15));
    let warm_up = Duration::from_secs(3);
    let runs = context.simulate(&STACKS, &seeds, |stack, seed| {
        let scenario = Scenario {
            link: link()?,
            flows: vec![stack.flow(PathSpec::default())],
            duration,
            warm_up,
            bin: Duration::from_millis(250),
            seed,
        };
        Ok((stack.label.to_owned(), scenario))
    })?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
    Ok(Findings {
        parameters: json!({
            "link": link()?,
            "rtt_ms": RTT.as_millis() as u64,
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(&flows)],
        plots: vec![min_rtt_over_time(&flows), error_at_the_end(&flows)],
        checks: checks(&flows),
        notes: vec![
            "Besides the 100 ms, a packet and its ACK spend half a millisecond at least on the \
             air of the two cells."
                .to_owned(),
            "QUIC samples the newest packet that an ACK acknowledges (RFC 9002, section 5.1), \
             which has waited least for it: rare ACKs bias it less than the paper's TCP."
                .to_owned(),
        ],
    })
}

fn table(flows: &[FlowReport]) -> Table {
    let mut table = summary::columns(
        Table::new("100 ms between two 802.11n cells")
            .text("stack", "stack")
            .number("min_rtt_ms", "RTTmin", "ms", 2)
            .number("error_percent", "off 100 ms", "%", 2)
            .number("owd_p95_ms", "one-way p95", "ms", 1),
    );
    for (stack, flow) in STACKS.iter().zip(flows) {
        let front = [
            stack.label.into(),
            flow.min_rtt_ms.into(),
            error_percent(flow).into(),
            flow.owd_p95_ms.into(),
        ];
        table.row(summary::row(front, flow));
    }
    table
}

fn min_rtt_over_time(flows: &[FlowReport]) -> Plot {
    let series = STACKS.iter().zip(flows).map(|(stack, flow)| {
        let points = flow.timeline.iter().filter_map(|bin| Some((bin.at, bin.min_rtt_ms?)));
        Series::measured(stack.label, stack.colour, points.collect())
    });
    Plot::new(
        "The sender's smallest round-trip time",
        Axis::linear("time, s"),
        Axis::range("RTTmin, ms"),
        Chart::Steps { series: series.collect() },
    )
}

fn error_at_the_end(flows: &[FlowReport]) -> Plot {
    let bars = STACKS.iter().zip(flows).map(|(stack, flow)| {
        BarSeries::measured(stack.label, stack.colour, [error_percent(flow)])
    });
    Plot::new(
        "Over-estimate of the smallest round-trip time at the end",
        Axis::linear(""),
        Axis::linear("above 100 ms, %"),
        Chart::Bars { groups: vec!["at the end".to_owned()], series: bars.collect() },
    )
}

fn checks(flows: &[FlowReport]) -> Vec<Check> {
    let (tack, plain_sampling) = (&flows[0], &flows[1]);
    let (error, plain_error) = (error_percent(tack), error_percent(plain_sampling));
    let shown = |error: Option<f64>| error.map_or("none".into(), |e| format!("{e:+.2} %"));
    let less = |value: Option<f64>, than: Option<f64>| Some((value? / than? - 1.0) * 100.0);
    let delay = less(tack.owd_p95_ms, plain_sampling.owd_p95_ms);
    vec![
        Check::paper(
            "TACK's RTTmin is that of the path",
            shown(error),
            "about 0 %: within 2 %",
            error.is_some_and(|error| error.abs() < 2.0),
        ),
        Check::paper(
            "plain sampling of the same TACKs over-estimates",
            shown(plain_error),
            "+8 to +18 %: 2 points more or less",
            plain_error.is_some_and(|error| (6.0..=20.0).contains(&error)),
        ),
        Check::paper_or_better(
            "95th-percentile one-way delay of TACK against plain sampling",
            shown(delay),
            "-20 %: 10 points more or less",
            delay.is_some_and(|delay| (-30.0..=-10.0).contains(&delay)),
            delay.is_some_and(|delay| delay < -20.0),
        ),
        Check::at_most(
            "how far TACK's RTTmin is from 100 ms",
            error.map_or(f64::NAN, f64::abs),
            "%",
            1.0,
        ),
    ]
}

/// Two Wi-Fi endpoints with an emulator between them.
fn link() -> Result<LinkSpec, Error> {
    let cell = format!("[[hop]]\nkind = \"wlan\"\nprofile = \"{PROFILE}\"\n");
    let delay_ms = RTT.as_millis() / 2;
    let toml = format!("{cell}[[hop]]\nkind = \"pipe\"\ndelay_ms = {delay_ms}\n{cell}");
    Ok(LinkSpec::from_toml(&toml, "two cells")?)
}

fn error_percent(flow: &FlowReport) -> Option<f64> {
    let rtt_ms = RTT.as_secs_f64() * 1e3;
    flow.min_rtt_ms.map(|min_rtt| (min_rtt / rtt_ms - 1.0) * 100.0)
}
