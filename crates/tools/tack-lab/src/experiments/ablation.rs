//! The controller without each of its deviations from the BBR draft.

use std::time::Duration;

use serde_json::{Value, json};
use tack_link::{LinkSpec, PathSpec, SpecError};
use tacklib::Deviation;

use super::links::pipe;
use super::statistics::median;
use super::{Contender, Context, Error, Experiment, Findings};
use crate::report::Table;
use crate::sim::{Flow, FlowReport, Load, Scenario, ScenarioReport};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ablation",
    title: "What each deviation from the BBR draft is worth",
    question: "What happens to goodput, queue and repetitions when the controller goes without one of its \
               deviations from draft-ietf-ccwg-bbr-06?",
    paper: "Section VI-D drives BBR by what the receiver measures. The paper does not take its parts \
            away one by one.",
    measure,
};

/// A change of goodput below this counts for nothing, percent.
const IDLE_GOODPUT: f64 = 1.0;
/// A change of the queue or of the repetitions below this counts for nothing, percent.
const IDLE_OTHER: f64 = 10.0;
/// Nor does a change of the queue by less than half of the pacer's burst, ms.
const LEAST_QUEUE_MS: f64 = 0.5;
/// Nor one of the repetitions by less than a packet in a thousand.
const LEAST_RESENT_PER_1000: f64 = 1.0;

/// Seeds of the row that shows what chance does are so much higher.
const OTHER_SEEDS: u64 = 1000;

/// How late busy ends run on average.
const LATE: Duration = Duration::from_millis(5);

/// A row of the tables: the controller as it is, or without a deviation.
#[derive(Clone, Copy)]
struct Row {
    without: Option<Deviation>,
    /// Added to each seed.
    seed_offset: u64,
}

/// What a scenario's goodput is.
#[derive(Clone, Copy)]
enum Goodput {
    /// That of the first flow, in both directions.
    First,
    /// That of the flow that has the least.
    Least,
    /// The bytes of the first flow over the time until the last of them has arrived.
    Completion(u64),
}

/// A path, and what goes over it.
struct Case {
    name: &'static str,
    link: LinkSpec,
    flows: Vec<Flow>,
    goodput: Goodput,
    /// The scenario lasts so many times as long as the others.
    lasts: u32,
}

/// What is compared: medians over the seeds, of the flows together.
#[derive(Clone, Copy)]
struct Measured {
    goodput_mbps: f64,
    queue_p95_ms: f64,
    resent_per_1000: f64,
}

/// Changes against the controller as it is, percent; zero where they are below what counts.
#[derive(Clone, Copy)]
struct Change {
    goodput: f64,
    queue: f64,
    resent: f64,
}

/// The names of the rows that can be run alone.
pub(super) fn row_names() -> Vec<String> {
    Deviation::ALL.iter().map(|deviation| format!("{deviation:?}")).collect()
}

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 3);
    let duration = Duration::from_secs(context.pick(20, 8));
    let warm_up = Duration::from_secs(2);
    let cases = cases(duration)?;
    let rows = rows(context);
    let cells: Vec<_> =
        rows.iter().flat_map(|row| cases.iter().map(move |case| (row, case))).collect();
    let runs = context.simulate(&cells, &seeds, |(row, case), seed| {
        let whole = matches!(case.goodput, Goodput::Completion(_));
        let scenario = Scenario {
            link: case.link.clone(),
            flows: case.flows.iter().map(|flow| row.flow(flow)).collect(),
            duration: duration * case.lasts,
            warm_up: if whole { Duration::ZERO } else { warm_up },
            bin: duration,
            seed: seed.wrapping_add(row.seed_offset),
        };
        Ok((format!("{}, without {:?}", case.name, row.without), scenario))
    })?;
    let measured: Vec<Vec<_>> = runs
        .chunks(cases.len())
        .map(|runs| {
            runs.iter().zip(&cases).map(|(runs, case)| of(runs, case.goodput)).collect()
        })
        .collect();
    let rows: Vec<_> = rows.iter().map(Row::name).zip(&measured).collect();
    Ok(Findings {
        parameters: json!({
            "scenarios": cases.iter().map(Case::parameters).collect::<Vec<_>>(),
            "duration_s": duration.as_secs_f64(),
            "warm_up_s": warm_up.as_secs_f64(),
            "idle_goodput_percent": IDLE_GOODPUT,
            "idle_queue_and_resent_percent": IDLE_OTHER,
            "least_queue_ms": LEAST_QUEUE_MS,
            "least_resent_per_1000": LEAST_RESENT_PER_1000,
        }),
        seeds,
        tables: tables(&cases, &rows),
        plots: Vec::new(),
        checks: Vec::new(),
        notes: notes(),
    })
}

/// As it is, by chance, and without each deviation that is chosen.
fn rows(context: &Context) -> Vec<Row> {
    let chosen =
        Deviation::ALL.iter().filter(|deviation| context.selects(&format!("{deviation:?}")));
    [Row { without: None, seed_offset: 0 }, Row { without: None, seed_offset: OTHER_SEEDS }]
        .into_iter()
        .chain(chosen.map(|deviation| Row { without: Some(*deviation), seed_offset: 0 }))
        .collect()
}

impl Row {
    fn name(&self) -> String {
        match (self.without, self.seed_offset) {
            (Some(deviation), _) => format!("{deviation:?}"),
            (None, 0) => "none".to_owned(),
            (None, _) => "none, other seeds".to_owned(),
        }
    }

    /// The flow with the controller of this row.
    fn flow(&self, flow: &Flow) -> Flow {
        match self.without {
            Some(deviation) => flow.clone().without(deviation),
            None => flow.clone(),
        }
    }
}

fn notes() -> Vec<String> {
    vec![
        "Positive figures say that there is more of it without the deviation. Goodput is that of the \
         first flow, in both directions; of flows that share, the least; of a transfer, its bytes over \
         the time that it takes. Queue and repetitions are those of the flow that has most."
            .to_owned(),
        format!(
            "A change of the queue by less than {LEAST_QUEUE_MS} ms, and one of the repetitions by \
             less than {LEAST_RESENT_PER_1000} in a thousand packets, is 0. Idle is a deviation that \
             changes goodput by less than {IDLE_GOODPUT} % and the others by less than {IDLE_OTHER} % \
             in every scenario. The row of other seeds shows what chance does."
        ),
    ]
}

/// The scenarios. Each is there for some of the deviations.
fn cases(duration: Duration) -> Result<Vec<Case>, Error> {
    let groups = [
        steady()?,
        late_feedback()?,
        unsteady(duration)?,
        reordering()?,
        vec![transfer()?],
        shared(duration)?,
    ];
    Ok(groups.into_iter().flatten().collect())
}

/// Paths whose rate and delay do not change.
fn steady() -> Result<Vec<Case>, Error> {
    let two_way = Flow { load: Load::TwoWay, ..tack(20) };
    Ok(vec![
        Case::one("50 Mbit/s, 40 ms", pipe(50.0, 1.0)?, tack(40)),
        Case::one("long", pipe(20.0, 1.0)?, tack(400)),
        Case::one("long, 1 % lost", pipe(20.0, 1.0)?, lossy(200, 0.01, 0.0)),
        Case::one("20 % lost", pipe(50.0, 1.0)?, lossy(40, 0.2, 0.0)),
        Case::one("two-way", LinkSpec::resolve("pipe:20/5")?, two_way),
        Case::one("802.11n", LinkSpec::resolve("n")?, tack(20)),
    ])
}

/// Ends that run late, and lost acknowledgements.
fn late_feedback() -> Result<Vec<Case>, Error> {
    let busy = |rtt_ms| tack(rtt_ms).with_busy_ends(LATE);
    Ok(vec![
        Case::one("busy, 1 ms", LinkSpec::resolve("pipe:50")?, busy(1)),
        Case::one("busy, 10 ms", LinkSpec::resolve("pipe:50")?, busy(10)),
        Case::one("busy, 40 ms", pipe(50.0, 1.0)?, busy(40)),
        Case::one("busy, 802.11ac", LinkSpec::resolve("ac")?, busy(10)),
        Case::one("30 % of ACKs lost", pipe(50.0, 1.0)?, lossy(10, 0.0, 0.3)),
    ])
}

/// Paths whose rate or delay changes, for bulk data and for video, and a shallow buffer.
fn unsteady(duration: Duration) -> Result<Vec<Case>, Error> {
    let at = |share: f64| share * duration.as_secs_f64();
    let steps = format!("[[0, 5.0], [{:?}, 50.0], [{:?}, 5.0]]", at(0.4), at(0.7));
    let tenfold = || {
        hop(&format!(
            "kind = \"pipe\"\nbuffer_bytes = 250000\nrate_trace = {{ steps = {steps} }}"
        ))
    };
    let jitter =
        || hop("kind = \"pipe\"\nrate_mbps = 20.0\njitter_ms = 7.0\nbuffer_ms = 100.0");
    let pauses =
        format!("[[{:?}, 250.0], [{:?}, 120.0], [{:?}, 60.0]]", at(0.4), at(0.6), at(0.8));
    let pauses = hop(&format!(
        "kind = \"pipe\"\nrate_mbps = 50.0\nbuffer_bdp = 2.0\npauses = {pauses}"
    ))?;
    Ok(vec![
        Case::one("tenfold up and down", tenfold()?, tack(40)),
        Case::one("video, tenfold up and down", tenfold()?, video(40)),
        Case::one("video, 802.11n", LinkSpec::resolve("n")?, video(20)),
        Case::one("video, jitter", jitter()?, video(4)),
        Case::one("jitter", jitter()?, tack(4)),
        Case::one("0.25 BDP", pipe(50.0, 0.25)?, tack(40)),
        Case::one("pauses", pauses, tack(40)),
    ])
}

fn reordering() -> Result<Vec<Case>, Error> {
    let reordering = |more: &str, probability: f64, delay_ms: f64| {
        hop(&format!(
            "kind = \"pipe\"\nbuffer_bdp = 1.0\n{more}\n\
             reorder = {{ probability = {probability:?}, delay_ms = {delay_ms:?} }}"
        ))
    };
    let slow = "rate_mbps = 20.0";
    let jittery = "rate_mbps = 100.0\njitter_ms = 3.0";
    let lossy = lossy(200, 0.005, 0.0);
    Ok(vec![
        Case::one("reordering", reordering(slow, 0.01, 60.0)?, tack(40)),
        Case::one("reordering, rare", reordering(slow, 0.001, 150.0)?, tack(40)),
        Case::one("reordering, jitter", reordering(jittery, 0.03, 20.0)?, lossy),
    ])
}

fn transfer() -> Result<Case, Error> {
    let bytes = 2_000_000;
    let flow = Flow { load: Load::Bytes(bytes), ..tack(100) };
    Ok(Case {
        goodput: Goodput::Completion(bytes),
        ..Case::one("2 MB, 100 ms", pipe(50.0, 1.0)?, flow)
    })
}

/// Flows that share a bottleneck.
fn shared(duration: Duration) -> Result<Vec<Case>, Error> {
    let later = |flow: Flow, share| Flow { start: duration.mul_f64(share), ..flow };
    let cubic = Contender::QUINN.flow(PathSpec::with_rtt(Duration::from_millis(40)));
    Ok(vec![
        Case {
            name: "four flows",
            link: pipe(40.0, 1.0)?,
            flows: [0.0, 0.05, 0.1, 0.15].map(|share| later(tack(40), share)).into(),
            goodput: Goodput::Least,
            lasts: 2,
        },
        Case {
            name: "10 beside 60 ms",
            link: hop("kind = \"pipe\"\nrate_mbps = 20.0\nbuffer_ms = 60.0")?,
            flows: vec![tack(10), tack(60)],
            goodput: Goodput::Least,
            lasts: 2,
        },
        Case {
            name: "beside CUBIC",
            link: pipe(20.0, 1.0)?,
            flows: vec![tack(40), cubic],
            goodput: Goodput::Least,
            lasts: 2,
        },
    ])
}

fn tack(rtt_ms: u64) -> Flow {
    lossy(rtt_ms, 0.0, 0.0)
}

fn video(rtt_ms: u64) -> Flow {
    Contender::TACK_VIDEO.flow(PathSpec::with_rtt(Duration::from_millis(rtt_ms)))
}

fn lossy(rtt_ms: u64, loss_forward: f64, loss_reverse: f64) -> Flow {
    let rtt = Duration::from_millis(rtt_ms);
    Contender::TACK.flow(PathSpec { rtt, loss_forward, loss_reverse })
}

/// A link of one hop.
fn hop(fields: &str) -> Result<LinkSpec, SpecError> {
    LinkSpec::from_toml(&format!("[[hop]]\n{fields}\n"), "ablation")
}

impl Case {
    /// A flow alone.
    fn one(name: &'static str, link: LinkSpec, flow: Flow) -> Self {
        Self { name, link, flows: vec![flow], goodput: Goodput::First, lasts: 1 }
    }

    fn parameters(&self) -> Value {
        let flows = || self.flows.iter();
        json!({
            "name": self.name,
            "link": self.link,
            "rtt_ms": flows().map(|flow| flow.path.rtt.as_millis() as u64).collect::<Vec<_>>(),
            "loss": flows().map(|flow| flow.path.loss_forward).collect::<Vec<_>>(),
            "ack_loss": flows().map(|flow| flow.path.loss_reverse).collect::<Vec<_>>(),
            "busy_ms": flows().map(|flow| flow.server.busy.as_millis() as u64).collect::<Vec<_>>(),
        })
    }
}

/// Medians over the seeds.
fn of(runs: &[ScenarioReport], goodput: Goodput) -> Measured {
    let over = |of: &dyn Fn(&[FlowReport]) -> f64| {
        median(runs.iter().map(|run| of(&run.flows))).unwrap_or(f64::NAN)
    };
    let own = |flow: &FlowReport| {
        flow.goodput_mbps + flow.reverse.as_ref().map_or(0.0, |reverse| reverse.goodput_mbps)
    };
    let resent =
        |flow: &FlowReport| 1e3 * flow.retransmitted as f64 / flow.data_packets.max(1) as f64;
    let queue = |flow: &FlowReport| {
        let reverse = flow.reverse.as_ref().and_then(|reverse| reverse.queue_p95_ms);
        flow.queue_p95_ms.unwrap_or(0.0).max(reverse.unwrap_or(0.0))
    };
    let least = |flows: &[FlowReport]| flows.iter().map(own).fold(f64::INFINITY, f64::min);
    let most = |flows: &[FlowReport], of: &dyn Fn(&FlowReport) -> f64| {
        flows.iter().map(of).fold(0.0, f64::max)
    };
    Measured {
        goodput_mbps: over(&|flows| match goodput {
            Goodput::First => flows.first().map_or(f64::NAN, own),
            Goodput::Least => least(flows),
            Goodput::Completion(bytes) => {
                let took = flows.first().and_then(|flow| flow.completion_ms);
                took.map_or(0.0, |ms| bytes as f64 * 8.0 / 1e3 / ms)
            }
        }),
        queue_p95_ms: over(&|flows| most(flows, &queue)),
        resent_per_1000: over(&|flows| most(flows, &resent)),
    }
}

impl Change {
    fn between(without: &Measured, with: &Measured) -> Self {
        let percent = |without: f64, with: f64, least: f64| {
            if (without - with).abs() < least {
                0.0
            } else {
                100.0 * (without / with.max(least) - 1.0)
            }
        };
        Self {
            goodput: percent(without.goodput_mbps, with.goodput_mbps, 1e-6),
            queue: percent(without.queue_p95_ms, with.queue_p95_ms, LEAST_QUEUE_MS),
            resent: percent(
                without.resent_per_1000,
                with.resent_per_1000,
                LEAST_RESENT_PER_1000,
            ),
        }
    }

    fn is_idle(&self) -> bool {
        self.goodput.abs() < IDLE_GOODPUT
            && self.queue.abs() < IDLE_OTHER
            && self.resent.abs() < IDLE_OTHER
    }
}

/// The controller as it is, the worst and the best of each row, and the changes by scenario.
fn tables(cases: &[Case], rows: &[(String, &Vec<Measured>)]) -> Vec<Table> {
    let Some(((_, with), rows)) = rows.split_first() else { return Vec::new() };
    let changes = Changes::new(cases, with, rows);
    vec![
        as_it_is(cases, with),
        changes.worst_and_best(),
        changes.by_scenario("Goodput without each deviation", 1, |change| change.goodput),
        changes.by_scenario(
            "95th percentile of the queue without each deviation",
            0,
            |change| change.queue,
        ),
        changes.by_scenario("Repetitions without each deviation", 0, |change| change.resent),
    ]
}

fn as_it_is(cases: &[Case], measured: &[Measured]) -> Table {
    let mut table = Table::new("The controller as it is")
        .text("scenario", "scenario")
        .number("goodput_mbps", "goodput", "Mbit/s", 2)
        .number("queue_p95_ms", "queue p95", "ms", 1)
        .number("resent_per_1000", "resent of 1,000", "", 1);
    for (case, measured) in cases.iter().zip(measured) {
        table.row([
            case.name.into(),
            measured.goodput_mbps.into(),
            measured.queue_p95_ms.into(),
            measured.resent_per_1000.into(),
        ]);
    }
    table
}

/// The changes of all rows.
struct Changes<'a> {
    cases: &'a [Case],
    /// The name of each row, and its change in each scenario.
    rows: Vec<(&'a str, Vec<Change>)>,
}

impl<'a> Changes<'a> {
    /// Of the rows against the controller as it is.
    fn new(cases: &'a [Case], with: &[Measured], rows: &'a [(String, &Vec<Measured>)]) -> Self {
        let rows = rows.iter().map(|(name, without)| {
            let pairs = without.iter().zip(with);
            let changes: Vec<_> =
                pairs.map(|(without, with)| Change::between(without, with)).collect();
            (name.as_str(), changes)
        });
        Self { cases, rows: rows.collect() }
    }

    fn worst_and_best(&self) -> Table {
        let mut table = Table::new("Worst and best without each deviation")
            .text("without", "without")
            .number("worst_goodput_percent", "least goodput", "%", 1)
            .text("worst_goodput_scenario", "where")
            .number("best_goodput_percent", "most goodput", "%", 1)
            .text("best_goodput_scenario", "where")
            .number("worst_queue_percent", "most queue", "%", 0)
            .number("best_queue_percent", "least queue", "%", 0)
            .number("worst_resent_percent", "most resent", "%", 0)
            .number("best_resent_percent", "least resent", "%", 0)
            .text("verdict", "");
        for (name, changes) in &self.rows {
            let by_goodput = |one: &(&Change, &Case), other: &(&Change, &Case)| {
                one.0.goodput.total_cmp(&other.0.goodput)
            };
            let pairs = || changes.iter().zip(self.cases);
            let (Some(worst), Some(best)) =
                (pairs().min_by(by_goodput), pairs().max_by(by_goodput))
            else {
                continue;
            };
            let range = |of: fn(&Change) -> f64| {
                let values = || changes.iter().map(of);
                (
                    values().fold(f64::NEG_INFINITY, f64::max),
                    values().fold(f64::INFINITY, f64::min),
                )
            };
            let (queue, resent) = (range(|change| change.queue), range(|change| change.resent));
            let idle = changes.iter().all(Change::is_idle);
            table.row([
                (*name).into(),
                worst.0.goodput.into(),
                worst.1.name.into(),
                best.0.goodput.into(),
                best.1.name.into(),
                queue.0.into(),
                queue.1.into(),
                resent.0.into(),
                resent.1.into(),
                if idle { "idle" } else { "" }.into(),
            ]);
        }
        table
    }

    /// One value of all changes: a row for each scenario, a column for each deviation.
    fn by_scenario(&self, title: &str, decimals: usize, of: fn(&Change) -> f64) -> Table {
        let titled = Table::new(title).text("scenario", "scenario");
        let mut table = self.rows.iter().fold(titled, |table, (name, _)| {
            table.number(&name.to_lowercase().replace([' ', ','], "_"), name, "%", decimals)
        });
        for (at, case) in self.cases.iter().enumerate() {
            let values = self.rows.iter().map(|(_, changes)| of(&changes[at]).into());
            table.row(std::iter::once(case.name.into()).chain(values));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH: Measured =
        Measured { goodput_mbps: 40.0, queue_p95_ms: 5.0, resent_per_1000: 20.0 };

    #[test]
    fn small_changes_of_everything_are_idle() {
        let without = Measured { goodput_mbps: 39.7, queue_p95_ms: 5.4, resent_per_1000: 20.9 };
        assert!(Change::between(&without, &WITH).is_idle());
    }

    #[test]
    fn one_change_that_counts_is_enough() {
        for without in [
            Measured { goodput_mbps: 39.0, ..WITH },
            Measured { goodput_mbps: 41.0, ..WITH },
            Measured { queue_p95_ms: 5.6, ..WITH },
            Measured { resent_per_1000: 17.0, ..WITH },
        ] {
            assert!(!Change::between(&without, &WITH).is_idle());
        }
    }

    #[test]
    fn what_is_almost_nothing_may_become_twice_that() {
        let with = Measured { queue_p95_ms: 0.1, resent_per_1000: 0.2, ..WITH };
        let without = Measured { queue_p95_ms: 0.4, resent_per_1000: 0.8, ..WITH };
        assert!(Change::between(&without, &with).is_idle());
        let without = Measured { queue_p95_ms: 0.8, ..with };
        assert!(!Change::between(&without, &with).is_idle());
    }

    #[test]
    fn every_scenario_can_be_built_and_has_a_name_of_its_own() {
        let cases = cases(Duration::from_secs(8)).unwrap();
        for case in &cases {
            assert_eq!(cases.iter().filter(|other| other.name == case.name).count(), 1);
        }
    }
}
