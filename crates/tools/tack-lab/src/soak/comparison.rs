//! The same transfer by every stack.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::Serialize;

use super::RandomLink;
use crate::experiments::Contender;
use crate::sim::{self, Flow, FlowReport, Load, Scenario};

/// What TACK is held against, each as its documentation recommends.
pub const RIVALS: [Contender; 3] =
    [Contender::QUICHE_CUBIC, Contender::QUICHE_BBR, Contender::QUINN];
/// A transfer ends after so many times what the link needs for it, complete or not: lossy links
/// leave some stacks with a few packets in a round trip.
const PATIENCE: f64 = 20.0;
/// It ends no sooner than after so many seconds.
const LEAST_PATIENCE: f64 = 120.0;
/// A transfer to which nothing is added for so many seconds has stalled. Where four of five
/// exchanges fail, probe timers back off to half a minute.
const STALL: f64 = 60.0;
/// Into how many parts the least time of a transfer is divided to see how it goes on.
const BINS: f64 = 200.0;
/// The middle of a transfer, as shares of its bytes: Startup is over, and the end, where losses
/// take a round trip each to repair, has not begun.
const MIDDLE: (f64, f64) = (0.5, 0.95);

/// A transfer by one stack.
#[derive(Clone, Debug, Serialize)]
pub struct Transfer {
    /// Which.
    pub stack: &'static str,
    /// Stream data that arrived, Mbit/s from the first of it to the last byte, or to the end of the
    /// run if that never came. The handshake, whose timers all stacks share, is left out.
    pub goodput_mbps: f64,
    /// Share of the link in the middle of the transfer; blackouts are taken off.
    pub link_share: Option<f64>,
    /// From the client's first packet to the last byte.
    pub completion_s: Option<f64>,
    /// The longest time in which nothing new arrived, the handshake's and blackouts included.
    pub silence_s: f64,
    /// Packets that were sent again although their data had arrived.
    pub needless: u64,
    /// 95th percentile of the queueing delay, milliseconds.
    pub queue_p95_ms: Option<f64>,
    /// What went wrong: wrong bytes, a closed connection, a timer that never stops, a panic.
    pub fault: Option<String>,
}

/// A seed's link and what became of the transfer over it.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The seed.
    pub seed: u64,
    /// The link and the size of the transfer.
    pub link: RandomLink,
    /// By TACK.
    pub tack: Transfer,
    /// By the others, in the order of [`RIVALS`].
    pub rivals: Vec<Transfer>,
    /// TACK's goodput as a part of the best rival's.
    pub ratio: Option<f64>,
    /// Which rival that is.
    pub best_rival: Option<&'static str>,
}

/// Runs the transfer of a seed with every stack.
pub fn compare(seed: u64) -> Comparison {
    let link = RandomLink::draw(seed);
    let tack = transfer(&link, &Contender::TACK, seed);
    let rivals = RIVALS.map(|rival| transfer(&link, &rival, seed)).to_vec();
    let best =
        rivals.iter().max_by(|one, other| one.goodput_mbps.total_cmp(&other.goodput_mbps));
    let best = best.filter(|best| best.goodput_mbps > 0.0);
    Comparison {
        seed,
        ratio: best.map(|best| tack.goodput_mbps / best.goodput_mbps),
        best_rival: best.map(|best| best.stack),
        link,
        tack,
        rivals,
    }
}

fn patience(link: &RandomLink) -> f64 {
    (link.least_seconds() * PATIENCE).max(LEAST_PATIENCE)
}

impl Transfer {
    /// What no link excuses: a fault or a stall.
    pub fn failure(&self) -> Option<String> {
        let stalled = || format!("stalled: nothing new for {:.0} s", self.silence_s);
        self.fault.clone().or_else(|| (self.silence_s > STALL).then(stalled))
    }
}

fn transfer(link: &RandomLink, stack: &Contender, seed: u64) -> Transfer {
    // A panic is the stack's own fault, and the other links are to be tried all the same.
    let result = catch_unwind(AssertUnwindSafe(|| simulate(link, stack, seed)));
    let result = result.unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))));
    let (report, fault) = match result {
        Ok(report) => (report, None),
        Err(fault) => (FlowReport::default(), Some(fault)),
    };
    let completion_s = report.completion_ms.map(|ms| ms / 1e3);
    Transfer {
        stack: stack.label,
        goodput_mbps: goodput_mbps(&report, completion_s.unwrap_or(report.seconds)),
        link_share: completion_s.and_then(|end| link_share(link, &report, end)),
        completion_s,
        silence_s: silence(&report, completion_s.unwrap_or(report.seconds)),
        needless: report.spurious,
        queue_p95_ms: report.queue_p95_ms,
        fault,
    }
}

fn simulate(link: &RandomLink, stack: &Contender, seed: u64) -> Result<FlowReport, String> {
    let scenario = Scenario {
        link: link.spec().map_err(|error| error.to_string())?,
        flows: vec![Flow { load: Load::Bytes(link.bytes), ..stack.flow(link.path()) }],
        duration: Duration::from_secs_f64(patience(link)),
        warm_up: Duration::ZERO,
        bin: Duration::from_secs_f64(link.least_seconds() / BINS),
        seed,
    };
    let report = sim::run(&scenario).map_err(|error| error.to_string())?;
    report.flows.into_iter().next().ok_or_else(|| "no flow was reported".to_owned())
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}

/// The first bin with data, to within a bin.
fn goodput_mbps(report: &FlowReport, end: f64) -> f64 {
    let first = report.timeline.iter().find(|bin| bin.goodput_mbps > 0.0);
    let Some(first) = first.filter(|first| first.at < end) else { return 0.0 };
    report.goodput_mbps * report.seconds / (end - first.at)
}

/// Seconds between two bins with data, from the start to `end`.
fn silence(report: &FlowReport, end: f64) -> f64 {
    let heard = report.timeline.iter().filter(|bin| bin.goodput_mbps > 0.0).map(|bin| bin.at);
    let mut last = 0.0;
    let gaps = heard.chain([end]).map(|at| at - std::mem::replace(&mut last, at));
    gaps.fold(0.0, f64::max)
}

/// The share of the link in the middle of a transfer that was complete at `end`.
fn link_share(link: &RandomLink, report: &FlowReport, end: f64) -> Option<f64> {
    let starts = report.timeline.iter().map(|bin| bin.at);
    let ends = starts.skip(1).chain([end]);
    let total = link.bytes as f64 * 8e-6;
    let mut arrived = 0.0;
    let mut from = None;
    for (bin, to) in report.timeline.iter().zip(ends) {
        arrived += bin.goodput_mbps * (to - bin.at);
        let share = arrived / total;
        if share < MIDDLE.0 {
            continue;
        }
        let (begun, before) = *from.get_or_insert((to, arrived));
        if share < MIDDLE.1 {
            continue;
        }
        let seconds = to - begun - link.blackout_seconds(begun, to);
        return (seconds > 0.0).then(|| (arrived - before) / seconds / link.capacity_mbps());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Bin;

    fn clean_link() -> RandomLink {
        RandomLink {
            rate_mbps: 10.0,
            rtt_ms: 20.0,
            queue_bdp: 1.0,
            queue_bytes: 25_000,
            loss: 0.0,
            ack_loss: 0.0,
            jitter_ms: 0.0,
            reorder: None,
            blackouts: Vec::new(),
            bytes: 1_250_000,
        }
    }

    #[test]
    fn a_transfer_over_a_clean_link_is_complete_and_fills_it() {
        let transfer = transfer(&clean_link(), &Contender::TACK, 1);
        assert_eq!(transfer.failure(), None);
        let share = transfer.link_share.unwrap();
        assert!((0.9..1.01).contains(&share), "{share}");
    }

    #[test]
    fn the_middle_of_a_transfer_is_what_counts_and_blackouts_do_not() {
        let bin = |at: u32, goodput_mbps| Bin {
            at: f64::from(at) / 10.0,
            goodput_mbps,
            ..Bin::default()
        };
        // 10 Mbit: half of it by 1.0 s, 95 % by 2.2 s, and a second of 0 in between.
        let rates = [5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0];
        let rates = rates.into_iter().chain([0.0; 7]).chain([9.0; 5]).chain([0.5; 10]);
        let timeline: Vec<_> = (0..).zip(rates).map(|(at, rate)| bin(at, rate)).collect();
        let link = RandomLink { blackouts: vec![[1.0, 700.0]], ..clean_link() };
        let report = FlowReport { timeline, ..FlowReport::default() };
        let share = link_share(&link, &report, 3.2).unwrap();
        assert!((share - 9.0 / link.capacity_mbps()).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_transfer_that_stands_still_has_failed() {
        let link = RandomLink { blackouts: vec![[0.5, 100_000.0]], ..clean_link() };
        let stalled = transfer(&link, &Contender::TACK, 1);
        assert!(stalled.failure().is_some(), "{stalled:?}");
        let link = RandomLink { blackouts: vec![[0.5, 2000.0]], ..clean_link() };
        let held_up = transfer(&link, &Contender::TACK, 1);
        assert_eq!(held_up.failure(), None);
        assert!((1.9..5.0).contains(&held_up.silence_s), "{held_up:?}");
    }
}
