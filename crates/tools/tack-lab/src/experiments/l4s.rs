//! TACK with ECT(1) over DualPI2: alone, beside Classic traffic, and where ECN does not work.

use std::time::Duration;

use serde_json::json;
use tack_link::PathSpec;
use tacklib::Ecn;

use super::links::dualpi2;
use super::statistics::median;
use super::summary::{goodputs_from, median_flow, share_from};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Check, Table};
use crate::sim::{Flow, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "l4s",
    title: "ECT(1) over a queue for L4S",
    question: "Does a sender with few acknowledgements fill a link whose queue marks from a \
               millisecond on, without a queue; what does it leave Classic traffic there; and what \
               does it mark where marks do not come back?",
    paper: "Not in the paper. RFC 9330 to 9332 describe what L4S is for.",
    measure,
};

/// Rates in Mbit/s; the short form has the first one.
const RATES: [f64; 3] = [50.0, 10.0, 200.0];
const RTTS: [u64; 5] = [5, 10, 20, 50, 100];
const SHARED_MBPS: f64 = 50.0;
const SHARED_RTTS: [u64; 3] = [10, 20, 50];
const PLAIN_RTT: Duration = Duration::from_millis(20);

const UTILISATION: f64 = 95.0;
const QUEUE_MS: f64 = 3.0;
/// What each of two flows should have of what both have, percent.
const FAIR: (f64, f64) = (40.0, 60.0);

/// What a test of the path marks at most (RFC 9000 appendix A.4), and what may leave beside it that elicits
/// no acknowledgement.
const TESTED: f64 = 20.0;

/// The CUBIC flow begins so much earlier.
const BEFORE: Duration = Duration::from_secs(5);

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let mut checks = Vec::new();
    let duration = Duration::from_secs(context.pick(60, 20));
    let alone = alone(context, &seeds, duration, &mut checks)?;
    let shared_for = Duration::from_secs(context.pick(180, 60));
    let shared = shared(context, &seeds, shared_for, &mut checks)?;
    let without = without(context, &seeds, &mut checks)?;
    Ok(Findings {
        parameters: json!({
            "alone_s": duration.as_secs_f64(),
            "alone_warm_up_s": ALONE_WARM_UP.as_secs_f64(),
            "shared_s": shared_for.as_secs_f64(),
            "shared_warm_up_s": SHARED_WARM_UP.as_secs_f64(),
            "tack_starts_after_s": BEFORE.as_secs_f64(),
        }),
        seeds,
        tables: vec![alone, shared, without],
        plots: Vec::new(),
        checks,
        notes: vec![
            "Alone, utilisation, percentiles and marks leave out the first two seconds; the longest queue \
             is that of the whole transfer, Startup included. The percentiles are of TACK's own packets."
                .to_owned(),
            "DualPI2 marks nothing while one packet waits behind the one that leaves. At 10 Mbit/s a packet \
             takes 1.2 ms, so marks begin near the 3 ms of the target."
                .to_owned(),
            "The CUBIC flows use no ECN, so DualPI2 drops what it would mark. The other flow is there first."
                .to_owned(),
            "quiche (0.30) takes a reduction back if less than a fifth of the window is lost until recovery \
             ends (cubic.rs, ROLLBACK_THRESHOLD_PERCENT). DualPI2 drops single packets, so plain \
             quiche hardly yields to it; the last rows show what quinn's CUBIC gets beside it."
                .to_owned(),
        ],
    })
}

const ALONE_WARM_UP: Duration = Duration::from_secs(2);
const SHARED_WARM_UP: Duration = Duration::from_secs(15);

/// A TACK flow that marks its packets with ECT(1).
fn tack(path: PathSpec) -> Flow {
    Contender::TACK.flow(path).with_ecn(Ecn::L4s)
}

fn path(rtt_ms: u64) -> PathSpec {
    PathSpec::with_rtt(Duration::from_millis(rtt_ms))
}

fn percent(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

fn alone(
    context: &Context,
    seeds: &[u64],
    duration: Duration,
    checks: &mut Vec<Check>,
) -> Result<Table, Error> {
    let rates = &RATES[..context.pick(RATES.len(), 1)];
    let cells: Vec<_> =
        rates.iter().flat_map(|rate| RTTS.iter().map(move |rtt| (*rate, *rtt))).collect();
    let run = |warm_up: Duration| {
        context.simulate(&cells, seeds, |(rate, rtt), seed| {
            let scenario = Scenario {
                link: dualpi2(*rate, false)?,
                flows: vec![tack(path(*rtt))],
                duration,
                warm_up,
                bin: duration,
                seed,
            };
            Ok((format!("alone, {rate} Mbit/s, {rtt} ms"), scenario))
        })
    };
    let (settled, whole) = (run(ALONE_WARM_UP)?, run(Duration::ZERO)?);
    let mut table = Table::new("TACK with ECT(1) alone over DualPI2")
        .number("rate_mbps", "rate", "Mbit/s", 0)
        .number("rtt_ms", "RTT", "ms", 0)
        .number("utilisation_percent", "utilisation", "%", 1)
        .number("queue_p95_ms", "queue p95", "ms", 2)
        .number("queue_p99_ms", "queue p99", "ms", 2)
        .number("queue_max_ms", "longest queue, Startup included", "ms", 1)
        .number("marked_percent", "marked", "%", 2)
        .number("resent_percent", "resent", "%", 2);
    for (((rate, rtt), settled), whole) in cells.iter().zip(&settled).zip(&whole) {
        let flow = median_flow(settled, 0);
        let start = median_flow(whole, 0);
        let utilisation = 100.0 * flow.utilisation;
        table.row([
            (*rate).into(),
            (*rtt).into(),
            utilisation.into(),
            flow.queue_p95_ms.into(),
            flow.queue_p99_ms.into(),
            start.queue_max_ms.into(),
            percent(flow.ce_marked, flow.data_packets).into(),
            percent(start.retransmitted, start.data_packets).into(),
        ]);
        let of = format!("{rate} Mbit/s, {rtt} ms, alone");
        checks.push(Check::at_least(
            format!("{of}: utilisation"),
            utilisation,
            "%",
            UTILISATION,
        ));
        let queue = flow.queue_p99_ms.unwrap_or(f64::NAN);
        checks.push(Check::at_most(format!("{of}: p99 of the queue"), queue, "ms", QUEUE_MS));
    }
    Ok(table)
}

/// What begins later, and what is there before: TACK with ECT(1), or without ECN a contender. The last pair
/// shows what a CUBIC flow gets of plain quiche's.
const SHARES: [[Option<Contender>; 2]; 4] = [
    [None, Some(Contender::QUICHE_CUBIC)],
    [None, Some(Contender::QUINN)],
    [None, None],
    [Some(Contender::QUINN), Some(Contender::QUICHE_CUBIC)],
];

fn label(contender: Option<Contender>) -> &'static str {
    contender.map_or("tacklib TACK, ECT(1)", |contender| contender.label)
}

fn shared(
    context: &Context,
    seeds: &[u64],
    duration: Duration,
    checks: &mut Vec<Check>,
) -> Result<Table, Error> {
    let cells: Vec<_> =
        SHARES.iter().flat_map(|pair| SHARED_RTTS.map(|rtt| (*pair, rtt))).collect();
    let runs = context.simulate(&cells, seeds, |(pair, rtt), seed| {
        let path = path(*rtt);
        let flow = |contender: Option<Contender>| {
            contender.map_or_else(|| tack(path), |contender| contender.flow(path))
        };
        let [later, before] = pair.map(flow);
        let scenario = Scenario {
            link: dualpi2(SHARED_MBPS, false)?,
            flows: vec![Flow { start: BEFORE, ..later }, before],
            duration,
            warm_up: SHARED_WARM_UP,
            bin: Duration::from_secs(1),
            seed,
        };
        Ok((format!("beside {}, {rtt} ms", label(pair[1])), scenario))
    })?;
    let mut table = Table::new("Two flows in the same DualPI2, 50 Mbit/s: 50 % is equal")
        .number("rtt_ms", "RTT", "ms", 0)
        .text("stack", "one")
        .text("beside", "beside")
        .number("share_percent", "share of the one", "%", 1)
        .number("goodput_mbps", "both", "Mbit/s", 2)
        .number("queue_p99_ms", "its queue p99", "ms", 2)
        .number("other_queue_p99_ms", "the other's", "ms", 1)
        .number("marked_percent", "its data marked", "%", 2)
        .number("lost_percent", "its data lost", "%", 2)
        .number("other_lost_percent", "the other's", "%", 2);
    for ((pair, rtt), runs) in cells.iter().zip(&runs) {
        let from = BEFORE + SHARED_WARM_UP;
        let share = median(runs.iter().map(|run| share_from(run, from))).unwrap_or(f64::NAN);
        let both = |run: &ScenarioReport| goodputs_from(run, from).iter().sum();
        let (one, other) = (median_flow(runs, 0), median_flow(runs, 1));
        table.row([
            (*rtt).into(),
            label(pair[0]).into(),
            label(pair[1]).into(),
            share.into(),
            median(runs.iter().map(both)).into(),
            one.queue_p99_ms.into(),
            other.queue_p99_ms.into(),
            percent(one.ce_marked, one.data_packets).into(),
            percent(one.lost, one.data_packets).into(),
            percent(other.lost, other.data_packets).into(),
        ]);
        if pair[0].is_none() {
            let what = format!("50 Mbit/s, {rtt} ms: TACK's share beside {}", label(pair[1]));
            checks.push(Check::between(what, share, "%", FAIR.0..=FAIR.1));
        }
    }
    Ok(table)
}

/// Peers and paths that do not pass validation (RFC 9000 section 13.4.2).
fn without(context: &Context, seeds: &[u64], checks: &mut Vec<Check>) -> Result<Table, Error> {
    let duration = Duration::from_secs(10);
    let path = PathSpec::with_rtt(PLAIN_RTT);
    let to = |peer: Contender| Flow { client: peer.end(), ..tack(path) };
    let mut reads = to(Contender::QUINN);
    reads.client.ecn = Ecn::Classic;
    let cells = [
        ("TACK, ECN works", tack(path), false),
        ("quinn, ECN works", reads, false),
        ("TACK, the path bleaches", tack(path), true),
        ("plain quiche", to(Contender::QUICHE_CUBIC), false),
        ("quinn without ECN", to(Contender::QUINN), false),
    ];
    let runs = context.simulate(&cells, seeds, |(label, flow, bleaches), seed| {
        let scenario = Scenario {
            link: dualpi2(SHARED_MBPS, *bleaches)?,
            flows: vec![flow.clone()],
            duration,
            warm_up: Duration::ZERO,
            bin: duration,
            seed,
        };
        Ok(((*label).to_owned(), scenario))
    })?;
    let mut table =
        Table::new("Where ECN works and where it does not pass validation, 50 Mbit/s, 20 ms")
            .text("receiver", "receiver")
            .number("ecn_marked", "left with ECT(1)", "", 0)
            .number("ce_marked", "arrived with CE", "", 0)
            .number("ce_reported", "reported to the controller", "", 0)
            .number("utilisation_percent", "utilisation", "%", 1);
    for ((label, _, _), runs) in cells.iter().zip(&runs) {
        let flow = median_flow(runs, 0);
        table.row([
            (*label).into(),
            flow.ecn_marked.into(),
            flow.ce_marked.into(),
            flow.ce_reported.into(),
            (100.0 * flow.utilisation).into(),
        ]);
        if label.ends_with("ECN works") {
            continue;
        }
        let most = |of: fn(&crate::sim::FlowReport) -> Option<u64>| {
            let values = runs.iter().map(|run| of(&run.flows[0]).map(|count| count as f64));
            // NaN, a count that is not there, is above all.
            values.map(|value| value.unwrap_or(f64::NAN)).max_by(f64::total_cmp)
        };
        let marked = most(|flow| flow.ecn_marked).unwrap_or(f64::NAN);
        let what = format!("{label}: packets marked, the test's");
        checks.push(Check::at_most(what, marked, "", TESTED));
        let what = format!("{label}: packets reported as CE");
        let reported = most(|flow| flow.ce_reported).unwrap_or(f64::NAN);
        checks.push(Check::at_most(what, reported, "", 0.0));
    }
    Ok(table)
}
