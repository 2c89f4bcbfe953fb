//! A link that stands still for moments, as Wi-Fi does while a radio is elsewhere.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::json;
use tack_link::{LinkSpec, PathSpec};

use super::statistics::{mean, median, percentile};
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::{Axis, Chart, Check, Plot, Series, Table};
use crate::sim::{Bin, FlowReport, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "suspension",
    title: "A link that pauses",
    question: "What does a sender do when the link stands still for 50 to 250 ms: does it \
               repeat itself, lose its rate, or leave a queue behind?",
    paper: "draft-huitema-ccwg-bbr-realtime: Wi-Fi suspensions of 50 to 250 ms make plain BBR \
            misjudge the path, with spurious timeouts and retransmissions, and a rate that is \
            too low or a queue that stays.",
    measure,
};

const RTT: Duration = Duration::from_millis(40);
const RTT_S: f64 = 0.04;
const LENGTH_S: (f64, f64) = (0.05, 0.25);
/// Between the end of a pause and the next: so long at least, and on average.
const LEAST_GAP_S: f64 = 0.5;
const MEAN_GAP_S: f64 = 2.0;
const WARM_UP_S: f64 = 4.0;
/// A round trip has four bins.
const BIN: Duration = Duration::from_millis(10);
const BINS_PER_RTT: usize = 4;
/// Share of the unpaused goodput that counts as the full rate, and for how many round trips.
const FULL: f64 = 0.9;
const HOLD: usize = 3;
/// From when on after a pause its queue should be gone.
const SETTLED_S: f64 = 3.0 * RTT_S;

/// What the queue may be longer than without pauses: less than a probe of the sender adds.
const LASTING_S: f64 = 0.05 * RTT_S;

const LINKS: [(&str, &str); 2] = [
    ("802.11n", "kind = \"wlan\"\nprofile = \"n\"\n"),
    ("50 Mbit/s", "kind = \"pipe\"\nrate_mbps = 50.0\nbuffer_bdp = 2.0\n"),
];
const STACKS: [Contender; 5] = [
    Contender::TACK,
    Contender::EVERY_SECOND,
    Contender::QUICHE_BBR,
    Contender::QUICHE_CUBIC,
    Contender::QUINN,
];
const TACK: usize = 0;

/// How much of the time behind the warm-up a plot shows.
const SHOWN_S: f64 = 6.0;

/// A pause in seconds since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pause {
    start: f64,
    end: f64,
}

/// What the pauses of one run did, or of all runs.
#[derive(Clone, Debug, Default)]
struct Effect {
    /// Bits that arrived while the link ran, over what an unpaused run had, percent.
    goodput_percent: f64,
    /// Packets without new data, for each pause.
    repeated: Vec<f64>,
    /// Round trips until the full rate was back, for each pause; infinite where the next came
    /// first.
    recovery_rtts: Vec<f64>,
    /// Queueing in the bins that belong to no pause, ms.
    queue_ms: Vec<f64>,
    /// The same of the unpaused run.
    unpaused_queue_ms: Vec<f64>,
    needless: f64,
    /// For each pause, wherever in the run they were.
    needless_a_pause: f64,
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let seconds = context.pick(60.0, 14.0);
    let cells: Vec<_> = LINKS
        .iter()
        .flat_map(|link| STACKS.map(|stack| (*link, stack)))
        .flat_map(|(link, stack)| [(link, stack, true), (link, stack, false)])
        .collect();
    let runs = context.simulate(&cells, &seeds, |((name, hop), stack, paused), seed| {
        let pauses = if *paused { draw(seed, seconds) } else { Vec::new() };
        let scenario = Scenario {
            link: link(hop, &pauses)?,
            flows: vec![stack.flow(PathSpec::with_rtt(RTT))],
            duration: Duration::from_secs_f64(seconds),
            warm_up: Duration::from_secs_f64(WARM_UP_S),
            bin: BIN,
            seed,
        };
        Ok((format!("{name}, {}, paused: {paused}", stack.label), scenario))
    })?;

    let pauses: Vec<_> = seeds.iter().map(|seed| draw(*seed, seconds)).collect();
    let effects: Vec<_> = runs
        .chunks(2)
        .map(|runs| effect_of_all(&runs[0], &runs[1], &pauses, seconds))
        .collect();
    Ok(Findings {
        parameters: json!({
            "links": LINKS.map(|(name, hop)| format!("{name}: {}", hop.replace('\n', "; "))),
            "rtt_ms": RTT.as_millis() as u64,
            "pause_s": [LENGTH_S.0, LENGTH_S.1],
            "gap_s": format!("{LEAST_GAP_S}, and exponential up to {MEAN_GAP_S} on average"),
            "duration_s": seconds,
            "warm_up_s": WARM_UP_S,
            "bin_ms": BIN.as_millis() as u64,
            "full_rate": format!("{FULL} of unpaused goodput in {HOLD} round trips"),
        }),
        seeds,
        tables: vec![table(&effects)],
        plots: plots(&runs, &pauses[0]),
        checks: checks(&effects),
        notes: vec![
            "Nothing is lost in a pause: medium and queues stand still, in both directions, what \
             is on the path behind them goes on, and a queue that overflows drops packets. \
             Goodput counts the time in which the link ran."
                .to_owned(),
            "Repeated are packets of the server that bring no new data and want an \
             acknowledgement, retransmissions and probes, from the start of a pause to two round \
             trips after it."
                .to_owned(),
            "The full rate is back with the first of three round trips that carry 90 % each; 0 \
             is the one right after the pause."
                .to_owned(),
        ],
    })
}

impl Effect {
    fn recovery_p50_rtts(&self) -> Option<f64> {
        median(self.recovery_rtts.iter().copied())
    }

    fn queue_p95_ms(&self) -> Option<f64> {
        percentile(&self.queue_ms, 0.95)
    }

    fn unpaused_queue_p95_ms(&self) -> Option<f64> {
        percentile(&self.unpaused_queue_ms, 0.95)
    }
}

/// Of the stacks on each link.
fn table(effects: &[Effect]) -> Table {
    let mut table = Table::new("Pauses of 50 to 250 ms, every 2 s on average, RTT 40 ms")
        .text("link", "link")
        .text("stack", "stack")
        .number("goodput_percent", "of unpaused goodput", "%", 1)
        .number("repeated_mean", "repeated a pause", "", 1)
        .number("repeated_max", "at most", "", 0)
        .number("needless", "in vain", "", 0)
        .number("recovery_p50_rtts", "full rate after", "RTT", 0)
        .number("recovery_p95_rtts", "p95", "RTT", 0)
        .number("queue_p95_ms", "queue p95 later", "ms", 1)
        .number("unpaused_queue_p95_ms", "unpaused", "ms", 1);
    for ((link, _), effects) in LINKS.iter().zip(effects.chunks(STACKS.len())) {
        for (stack, effect) in STACKS.iter().zip(effects) {
            table.row([
                (*link).into(),
                stack.label.into(),
                effect.goodput_percent.into(),
                mean(effect.repeated.iter().copied()).into(),
                effect.repeated.iter().copied().fold(f64::NAN, f64::max).into(),
                effect.needless.into(),
                effect.recovery_p50_rtts().into(),
                percentile(&effect.recovery_rtts, 0.95).into(),
                effect.queue_p95_ms().into(),
                effect.unpaused_queue_p95_ms().into(),
            ]);
        }
    }
    table
}

/// TACK on each link.
fn checks(effects: &[Effect]) -> Vec<Check> {
    let mut checks = Vec::new();
    for ((link, _), effects) in LINKS.iter().zip(effects.chunks(STACKS.len())) {
        let effect = &effects[TACK];
        let what = |what: &str| format!("{link}: {what}");
        let unpaused_queue_ms = effect.unpaused_queue_p95_ms().unwrap_or(f64::NAN);
        checks.extend([
            // Not what was lost, which on Wi-Fi is an A-MPDU of 14 packets at times: a storm of
            // timeouts repeats what was not.
            Check::at_most(
                what("repeated in vain for each pause"),
                effect.needless_a_pause,
                "packets",
                2.0,
            ),
            Check::at_most(
                what("full rate after a pause"),
                effect.recovery_p50_rtts().unwrap_or(f64::NAN),
                "RTTs",
                2.0,
            ),
            Check::at_most(
                what("p95 of the queue from 3 RTTs after a pause on"),
                effect.queue_p95_ms().unwrap_or(f64::NAN),
                "ms",
                unpaused_queue_ms + LASTING_S * 1e3,
            ),
        ]);
    }
    checks
}

/// The first run on each link, with its pauses.
fn plots(runs: &[Vec<ScenarioReport>], pauses: &[Pause]) -> Vec<Plot> {
    let links = LINKS.iter().zip(runs.chunks(2 * STACKS.len()));
    links.map(|((link, _), runs)| plot(link, runs, pauses)).collect()
}

fn plot(link: &str, runs: &[Vec<ScenarioReport>], pauses: &[Pause]) -> Plot {
    let end = WARM_UP_S + SHOWN_S;
    // The runs with pauses stand in front of those without.
    let paused = STACKS.iter().zip(runs.iter().step_by(2));
    let series = paused.filter_map(|(stack, runs)| {
        let flow = runs.first()?.flows.first()?;
        let points = flow.timeline.iter().filter_map(|bin| Some((bin.at, bin.owd_ms?)));
        let shown = points.filter(|(at, _)| (WARM_UP_S..end).contains(at));
        Some(Series::measured(stack.label, stack.colour, shown.collect()))
    });
    let plot = Plot::new(
        format!("One-way delay through the first pauses: {link}"),
        Axis::range("time, s"),
        Axis::linear("one-way delay, ms"),
        Chart::Steps { series: series.collect() },
    );
    let shown = pauses.iter().filter(|pause| pause.start < end);
    shown.fold(plot, |plot, pause| plot.mark(pause.start, "pause"))
}

/// Pauses after the warm-up; the last one leaves time to recover.
fn draw(seed: u64, seconds: f64) -> Vec<Pause> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut pauses = Vec::new();
    let mut from = WARM_UP_S;
    loop {
        let exponential = -(1.0 - random.random::<f64>()).ln();
        let start = from + LEAST_GAP_S + (MEAN_GAP_S - LEAST_GAP_S) * exponential;
        let length = LENGTH_S.0 + (LENGTH_S.1 - LENGTH_S.0) * random.random::<f64>();
        // On whole bins, for counts to belong to one side.
        let on_bin = |at: f64| (at / BIN.as_secs_f64()).round() * BIN.as_secs_f64();
        let pause = Pause { start: on_bin(start), end: on_bin(start + length) };
        if pause.end + LEAST_GAP_S > seconds {
            return pauses;
        }
        from = pause.end;
        pauses.push(pause);
    }
}

fn link(hop: &str, pauses: &[Pause]) -> Result<LinkSpec, Error> {
    let pause =
        |pause: &Pause| format!("[{:.2}, {:.1}]", pause.start, (pause.end - pause.start) * 1e3);
    let pauses: Vec<_> = pauses.iter().map(pause).collect();
    let toml = format!("[[hop]]\n{hop}pauses = [{}]\n", pauses.join(", "));
    Ok(LinkSpec::from_toml(&toml, "pauses")?)
}

/// What the pauses of one run did, beside the same run without them.
fn effect(paused: &FlowReport, unpaused: &FlowReport, pauses: &[Pause], end: f64) -> Effect {
    let stood: f64 = pauses.iter().map(|pause| pause.end - pause.start).sum();
    let running = 1.0 - stood / (end - WARM_UP_S);
    let next = |at: usize| pauses.get(at + 1).map_or(end, |pause| pause.start);
    let after = |at: usize, pause: &Pause| {
        let repeated = bins(paused, pause.start, (pause.end + 2.0 * RTT_S).min(next(at)));
        let repeated: u64 = repeated.map(|bin| bin.repeated).sum();
        let goodputs: Vec<_> =
            bins(paused, pause.end, next(at)).map(|bin| bin.goodput_mbps).collect();
        (repeated as f64, recovery_rtts(&goodputs, unpaused.goodput_mbps))
    };
    let (repeated, recovery_rtts) =
        pauses.iter().enumerate().map(|(at, pause)| after(at, pause)).unzip();
    let settled = pauses
        .iter()
        .enumerate()
        .flat_map(|(at, pause)| bins(paused, pause.end + SETTLED_S, next(at)));
    let least = |flow: &FlowReport| {
        let delays = flow.timeline.iter().filter_map(|bin| bin.owd_ms);
        delays.fold(f64::INFINITY, f64::min)
    };
    let least = least(paused).min(least(unpaused));
    let queue = |bin: &Bin| Some(bin.owd_ms? - least);
    Effect {
        goodput_percent: 100.0 * paused.goodput_mbps / running / unpaused.goodput_mbps,
        repeated,
        recovery_rtts,
        queue_ms: settled.filter_map(queue).collect(),
        unpaused_queue_ms: bins(unpaused, WARM_UP_S, end).filter_map(queue).collect(),
        needless: paused.spurious as f64,
        needless_a_pause: paused.spurious as f64 / pauses.len().max(1) as f64,
    }
}

/// What the pauses of all seeds did to a stack; runs and pauses are in the order of the seeds.
fn effect_of_all(
    paused: &[ScenarioReport],
    unpaused: &[ScenarioReport],
    pauses: &[Vec<Pause>],
    end: f64,
) -> Effect {
    let effects =
        paused.iter().zip(unpaused).zip(pauses).filter_map(|((paused, unpaused), pauses)| {
            Some(effect(paused.flows.first()?, unpaused.flows.first()?, pauses, end))
        });
    together(&effects.collect::<Vec<_>>())
}

/// Effects of all seeds: medians of the runs, and all pauses.
fn together(effects: &[Effect]) -> Effect {
    let of = |value: fn(&Effect) -> f64| median(effects.iter().map(value)).unwrap_or(f64::NAN);
    let all = |values: fn(&Effect) -> &Vec<f64>| {
        effects.iter().flat_map(values).copied().collect::<Vec<_>>()
    };
    Effect {
        goodput_percent: of(|effect| effect.goodput_percent),
        needless: of(|effect| effect.needless),
        needless_a_pause: of(|effect| effect.needless_a_pause),
        repeated: all(|effect| &effect.repeated),
        recovery_rtts: all(|effect| &effect.recovery_rtts),
        queue_ms: all(|effect| &effect.queue_ms),
        unpaused_queue_ms: all(|effect| &effect.unpaused_queue_ms),
    }
}

fn bins(flow: &FlowReport, from: f64, to: f64) -> impl Iterator<Item = &Bin> {
    // Starts of bins are rounded.
    let within = move |bin: &&Bin| bin.at > from - 1e-6 && bin.at < to - 1e-6;
    flow.timeline.iter().filter(within)
}

/// The first round trip of those from which on the full rate is used; infinite if none is.
fn recovery_rtts(goodputs: &[f64], full_mbps: f64) -> f64 {
    let rounds: Vec<f64> = goodputs
        .chunks_exact(BINS_PER_RTT)
        .map(|bins| bins.iter().sum::<f64>() / BINS_PER_RTT as f64)
        .collect();
    let full = |rounds: &[f64]| rounds.iter().all(|mbps| *mbps >= FULL * full_mbps);
    let first = rounds.windows(HOLD).position(full);
    first.map_or(f64::INFINITY, |round| round as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_pauses_that_do_not_overlap() {
        let pauses = draw(5, 60.0);
        assert_eq!(pauses, draw(5, 60.0));
        assert_ne!(pauses, draw(6, 60.0));
        assert!((15..40).contains(&pauses.len()), "{}", pauses.len());
        for pair in pauses.windows(2) {
            assert!(pair[1].start > pair[0].end + 0.4, "{pair:?}");
            assert!((0.04..0.26).contains(&(pair[0].end - pair[0].start)), "{pair:?}");
        }
        assert!(link(LINKS[0].1, &pauses).is_ok());
    }

    #[test]
    fn recovery_ends_with_the_first_of_three_full_round_trips() {
        let rounds = |mbps: &[f64]| -> Vec<f64> {
            mbps.iter().flat_map(|mbps| [*mbps; BINS_PER_RTT]).collect()
        };
        let after = |mbps: &[f64]| recovery_rtts(&rounds(mbps), 10.0);
        assert_eq!(after(&[9.5, 9.5, 9.5]).to_bits(), 0.0_f64.to_bits());
        assert_eq!(after(&[9.5, 3.0, 9.5, 9.5, 9.5]).to_bits(), 2.0_f64.to_bits());
        assert!(after(&[9.5, 9.5, 3.0, 9.5]).is_infinite());
    }

    #[test]
    fn goodput_counts_the_time_in_which_the_link_ran() {
        let flow = |goodput_mbps| FlowReport { goodput_mbps, ..FlowReport::default() };
        let pause = Pause { start: 5.0, end: 7.0 };
        let effect = effect(&flow(8.0), &flow(10.0), &[pause], WARM_UP_S + 10.0);
        assert!((effect.goodput_percent - 100.0).abs() < 1e-9, "{}", effect.goodput_percent);
    }
}
