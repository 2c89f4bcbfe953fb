//! Bulk data in both directions of one connection.

use std::time::Duration;

use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::summary::median_flow;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, BarSeries, Chart, Check, Colour, Plot, Table};
use crate::sim::{Flow, FlowReport, Load, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "two-way",
    title: "Bulk data both ways on one connection",
    question: "Do both directions of an asymmetric link fill up when both ends of a connection \
               send bulk data at the same time, and how long does the queue of the uplink get?",
    paper: "Not in the paper, whose data goes one way. TACK's acknowledgements then ride with \
            data, and data with acknowledgements.",
    measure,
};

/// A link and what this project wants to reach on it.
struct Path {
    down_mbps: f64,
    up_mbps: f64,
    rtt: Duration,
    targets: Option<Targets>,
}

/// What TACK at both ends should reach.
struct Targets {
    /// Goodput to the client, percent of the rate, at least.
    down_percent: f64,
    /// Goodput to the server, percent of the rate, at least.
    up_percent: f64,
    /// 95th percentile of the uplink's queue, bandwidth-delay products, at most.
    queue_bdp: Option<f64>,
}

const PATHS: [Path; 3] = [
    Path {
        down_mbps: 100.0,
        up_mbps: 10.0,
        rtt: Duration::from_millis(20),
        targets: Some(Targets { down_percent: 85.0, up_percent: 90.0, queue_bdp: Some(1.0) }),
    },
    Path { down_mbps: 50.0, up_mbps: 5.0, rtt: Duration::from_millis(20), targets: None },
    Path {
        down_mbps: 20.0,
        up_mbps: 0.5,
        rtt: Duration::from_millis(40),
        targets: Some(Targets { down_percent: 60.0, up_percent: 80.0, queue_bdp: None }),
    },
];

/// Who talks to whom.
struct Pair {
    label: &'static str,
    colour: Colour,
    client: Contender,
    server: Contender,
}

impl Pair {
    /// The same at both ends.
    const fn of(contender: Contender) -> Self {
        let Contender { label, colour, .. } = contender;
        Self { label, colour, client: contender, server: contender }
    }
}

const TACK: usize = 0;
const QUICHE: usize = 1;
const PAIRS: [Pair; 5] = [
    Pair::of(Contender::TACK),
    Pair::of(Contender::QUICHE_CUBIC),
    Pair::of(Contender::QUINN),
    Pair {
        label: "tacklib client, quiche server",
        colour: Colour::Sky,
        client: Contender::TACK,
        server: Contender::QUICHE_CUBIC,
    },
    Pair {
        label: "quiche client, tacklib server",
        colour: Colour::Violet,
        client: Contender::QUICHE_CUBIC,
        server: Contender::TACK,
    },
];
/// The first of the pairs in which TACK meets a stock peer.
const STOCK_PEERS: usize = 3;

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 3);
    let duration = Duration::from_secs(context.pick(30, 10));
    let cells: Vec<_> =
        PATHS.iter().flat_map(|path| PAIRS.iter().map(move |pair| (path, pair))).collect();
    let runs = context.simulate(&cells, &seeds, |(path, pair), seed| {
        let rtt = PathSpec::with_rtt(path.rtt);
        let flow = Flow::between(pair.server.end(), pair.client.end(), rtt);
        let scenario = Scenario {
            link: LinkSpec::resolve(&path.link())?,
            flows: vec![Flow { load: Load::TwoWay, ..flow }],
            duration,
            warm_up: Duration::ZERO,
            bin: duration,
            seed,
        };
        Ok((format!("{}, {}", path.name(), pair.label), scenario))
    })?;
    let flows: Vec<_> = runs.iter().map(|runs| median_flow(runs, 0)).collect();
    let by_path = || PATHS.iter().zip(flows.chunks(PAIRS.len()));
    Ok(Findings {
        parameters: json!({
            "down_mbps": PATHS.map(|path| path.down_mbps),
            "up_mbps": PATHS.map(|path| path.up_mbps),
            "rtt_ms": PATHS.map(|path| path.rtt.as_millis() as u64),
            "links": PATHS.map(|path| path.link()),
            "duration_s": duration.as_secs_f64(),
        }),
        seeds,
        tables: vec![table(by_path())],
        plots: plots(&flows),
        checks: by_path().flat_map(|(path, flows)| checks(path, flows)).collect(),
        notes: vec![
            "Each cell is also `tack-lab transfer --two-way --link pipe:DOWN/UP`. The queues hold \
             one bandwidth-delay product of their direction, 64 KiB at least. The start-up counts."
                .to_owned(),
            "Shares are of stream data, of which a full direction carries 96 %; the queue is that \
             of the direction in which the packets go, at its rate."
                .to_owned(),
        ],
    })
}

impl Path {
    fn link(&self) -> String {
        format!("pipe:{}/{}", self.down_mbps, self.up_mbps)
    }

    fn name(&self) -> String {
        format!("{}/{} Mbit/s, {} ms", self.down_mbps, self.up_mbps, self.rtt.as_millis())
    }

    /// The 95th percentile of the uplink's queue, in bandwidth-delay products.
    fn up_queue_bdp(&self, flow: &FlowReport) -> Option<f64> {
        let bdp = self.up_mbps * 1e6 / 8.0 * self.rtt.as_secs_f64();
        flow.reverse.as_ref().and_then(|up| up.queue_p95_bytes).map(|bytes| bytes / bdp)
    }

    /// Goodput to the client and to the server, percent of the rates.
    fn shares(&self, flow: &FlowReport) -> [f64; 2] {
        [100.0 * flow.goodput_mbps / self.down_mbps, 100.0 * up_mbps(flow) / self.up_mbps]
    }
}

fn up_mbps(flow: &FlowReport) -> f64 {
    flow.reverse.as_ref().map_or(0.0, |up| up.goodput_mbps)
}

fn table<'a>(by_path: impl Iterator<Item = (&'a Path, &'a [FlowReport])>) -> Table {
    let mut table = Table::new("Client and server send as much as they can on one stream")
        .text("path", "down/up, RTT")
        .text("stack", "stack")
        .number("goodput_mbps", "down", "Mbit/s", 2)
        .number("down_percent", "down", "%", 1)
        .number("reverse_goodput_mbps", "up", "Mbit/s", 3)
        .number("up_percent", "up", "%", 1)
        .number("sum_mbps", "sum", "Mbit/s", 2)
        .number("queue_p95_ms", "queue down p95", "ms", 1)
        .number("reverse_queue_p95_ms", "queue up p95", "ms", 1)
        .number("reverse_queue_max_ms", "queue up max", "ms", 1)
        .number("reverse_queue_p95_bdp", "queue up p95", "BDP", 2)
        .number("lost", "lost down", "", 0)
        .number("reverse_lost", "lost up", "", 0);
    for (path, flows) in by_path {
        for (pair, flow) in PAIRS.iter().zip(flows) {
            let [down, up] = path.shares(flow);
            let reverse = flow.reverse.as_deref();
            let of_reverse = |value: fn(&FlowReport) -> Option<f64>| reverse.and_then(value);
            table.row([
                path.name().into(),
                pair.label.into(),
                flow.goodput_mbps.into(),
                down.into(),
                up_mbps(flow).into(),
                up.into(),
                (flow.goodput_mbps + up_mbps(flow)).into(),
                flow.queue_p95_ms.into(),
                of_reverse(|up| up.queue_p95_ms).into(),
                of_reverse(|up| up.queue_max_ms).into(),
                path.up_queue_bdp(flow).into(),
                flow.lost.into(),
                reverse.map(|up| up.lost).into(),
            ]);
        }
    }
    table
}

/// Of the flows of one path, in the order of the pairs.
fn checks(path: &Path, flows: &[FlowReport]) -> Vec<Check> {
    let what = |what: &str| format!("{}: {what}", path.name());
    let most = flows.iter().flat_map(|flow| {
        [flow.utilisation, flow.reverse.as_ref().map_or(0.0, |up| up.utilisation)]
    });
    let most = 100.0 * most.fold(0.0, f64::max);
    let mut checks = vec![Check::model(what("the fullest direction"), most, "%", 50.0..=100.0)];
    if let Some(targets) = &path.targets {
        let [down, up] = path.shares(&flows[TACK]);
        checks.push(Check::at_least(what("TACK down"), down, "%", targets.down_percent));
        checks.push(Check::at_least(what("TACK up"), up, "%", targets.up_percent));
        if let Some(most) = targets.queue_bdp {
            let queue = path.up_queue_bdp(&flows[TACK]).unwrap_or(f64::NAN);
            let what = what("TACK's queue up, 95th percentile");
            checks.push(Check::at_most(what, queue, "BDP", most));
        }
    }
    let sum = |flow: &FlowReport| flow.goodput_mbps + up_mbps(flow);
    for (pair, flow) in PAIRS.iter().zip(flows).skip(STOCK_PEERS) {
        let what = what(&format!("{}: sum of both directions, of plain quiche's", pair.label));
        let share = 100.0 * sum(flow) / sum(&flows[QUICHE]);
        checks.push(Check::at_least(what, share, "%", 100.0));
    }
    checks
}

fn plots(flows: &[FlowReport]) -> Vec<Plot> {
    let bars = |direction: usize| {
        let series = PAIRS.iter().enumerate().map(|(at, pair)| {
            let of_pair = flows.iter().skip(at).step_by(PAIRS.len());
            let shares = PATHS.iter().zip(of_pair);
            let shares = shares.map(|(path, flow)| Some(path.shares(flow)[direction]));
            BarSeries::measured(pair.label, pair.colour, shares)
        });
        Chart::Bars { groups: PATHS.iter().map(Path::name).collect(), series: series.collect() }
    };
    [("Goodput to the client", 0), ("Goodput to the server", 1)]
        .map(|(title, direction)| {
            let share = Axis::linear("goodput, % of the rate");
            Plot::new(title, Axis::linear(""), share, bars(direction))
        })
        .into()
}
