//! Live media over a bottleneck of half its rate, with a deep queue: who keeps the delay low?

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::summary::median_flow;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Colour, Plot, Series, Table};
use crate::sim::{Flow, FlowReport, Load, Media, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "live-media",
    title: "Live media and a deep queue",
    question: "Does a live source of twice the bottleneck's rate fill the bottleneck without \
               filling its queue?",
    paper: "The case of bufferbloat that authors of Media over QUIC test congestion controllers \
            with: 10 Mbit/s of media into 5 Mbit/s, 100 ms, a queue of 500 ms. A controller that \
            fills queues runs at 600 ms.",
    measure,
};

const RATE_MBPS: f64 = 5.0;
const RTT: Duration = Duration::from_millis(100);
const BUFFER_MS: u64 = 500;
const SOURCE: Media = Media { bps: 10e6, fps: 30.0, patience: Duration::from_millis(100) };
const BIN: Duration = Duration::from_millis(100);
/// The video profile, then the others.
const STACKS: [Contender; 6] = [
    Contender::TACK_VIDEO,
    Contender::TACK.coloured(Colour::Sky),
    Contender::EVERY_SECOND.coloured(Colour::Violet),
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
];
const TARGET_MBPS: f64 = 4.8;
const TARGET_RTT_MS: f64 = 125.0;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let duration = Duration::from_secs(context.pick(60, 30));
    let warm_up = Duration::from_secs(5);
    let runs = context.simulate(&STACKS, &seeds, |stack, seed| {
        let flow = stack.flow(PathSpec::with_rtt(RTT));
        let scenario = Scenario {
            link: link()?,
            flows: vec![Flow { load: Load::Media(SOURCE), ..flow }],
            duration,
            warm_up,
            bin: BIN,
            seed,
        };
        Ok((stack.label.to_owned(), scenario))
    })?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
    Ok(Findings {
        parameters: json!({
            "link": link()?,
            "rtt_ms": RTT.as_millis() as u64,
            "source_mbps": SOURCE.bps / 1e6,
            "frames_per_second": SOURCE.fps,
            "frame_patience_ms": SOURCE.patience.as_millis() as u64,
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(&flows)],
        plots: vec![rtt_over_time(&flows), rtt_percentiles(&flows)],
        checks: checks(&flows),
        notes: vec![
            "A frame goes to the stack when the one before has all but left it (16 KiB unsent, \
             told from the wire for all stacks alike), whole; one that has waited for 100 ms is \
             dropped. So the application always has something to send and never much of it."
                .to_owned(),
            "Delivered are IP packets with data, goodput is stream data, of which 5 Mbit/s carry \
             4.8 at best. The RTT is what a packet took, and the way back: the receiver's wait \
             for its ACK is not in it."
                .to_owned(),
        ],
    })
}

fn table(flows: &[FlowReport]) -> Table {
    let mut table =
        Table::new("10 Mbit/s of frames into 5 Mbit/s, RTT 100 ms, 500 ms of queue")
            .text("stack", "stack")
            .number("delivered_mbps", "delivered", "Mbit/s", 2)
            .number("goodput_mbps", "goodput", "Mbit/s", 2)
            .number("rtt_p50_ms", "RTT p50", "ms", 1)
            .number("rtt_p95_ms", "RTT p95", "ms", 1)
            .number("lost", "lost", "", 0)
            .number("loss_percent", "loss", "%", 2)
            .number("retransmitted", "resent", "", 0);
    for (stack, flow) in STACKS.iter().zip(flows) {
        table.row([
            stack.label.into(),
            delivered_mbps(flow).into(),
            flow.goodput_mbps.into(),
            rtt_ms(flow.owd_p50_ms).into(),
            rtt_ms(flow.owd_p95_ms).into(),
            flow.lost.into(),
            (100.0 * flow.lost as f64 / flow.data_packets.max(1) as f64).into(),
            flow.retransmitted.into(),
        ]);
    }
    table
}

fn rtt_over_time(flows: &[FlowReport]) -> Plot {
    let series = STACKS.iter().zip(flows).map(|(stack, flow)| {
        let points = flow.timeline.iter().filter_map(|bin| Some((bin.at, rtt_ms(bin.owd_ms)?)));
        Series::measured(stack.label, stack.colour, points.collect())
    });
    Plot::new(
        "Round-trip time over time",
        Axis::linear("time, s"),
        Axis::linear("RTT, ms"),
        Chart::Steps { series: series.collect() },
    )
}

fn rtt_percentiles(flows: &[FlowReport]) -> Plot {
    let bars = STACKS.iter().zip(flows).map(|(stack, flow)| {
        let values = [flow.owd_p50_ms, flow.owd_p95_ms].map(rtt_ms);
        BarSeries::measured(stack.label, stack.colour, values)
    });
    Plot::new(
        "Round-trip time",
        Axis::linear(""),
        Axis::linear("RTT, ms"),
        Chart::Bars {
            groups: ["median", "95th percentile"].map(str::to_owned).to_vec(),
            series: bars.collect(),
        },
    )
}

/// The targets of the video profile.
fn checks(flows: &[FlowReport]) -> Vec<Check> {
    let video = STACKS[0].label;
    let p95 = rtt_ms(flows[0].owd_p95_ms).unwrap_or(f64::NAN);
    let delivered = delivered_mbps(&flows[0]);
    vec![
        Check::at_least(format!("{video}: delivered"), delivered, "Mbit/s", TARGET_MBPS),
        Check::at_most(format!("{video}: p95 of the RTT"), p95, "ms", TARGET_RTT_MS),
    ]
}

fn link() -> Result<LinkSpec, Error> {
    let toml = format!(
        "[[hop]]\nkind = \"pipe\"\nrate_mbps = {RATE_MBPS:?}\nbuffer_ms = {BUFFER_MS}\n"
    );
    Ok(LinkSpec::from_toml(&toml, "deep queue")?)
}

fn delivered_mbps(flow: &FlowReport) -> f64 {
    flow.utilisation * RATE_MBPS
}

/// A one-way delay and the way back.
fn rtt_ms(owd_ms: Option<f64>) -> Option<f64> {
    owd_ms.map(|owd| owd + RTT.as_secs_f64() * 1e3 / 2.0)
}
