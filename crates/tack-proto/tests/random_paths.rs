//! Sender and receiver over paths that seeds decide, in virtual time: rates of 0.1 to 1,000 Mbit/s,
//! round trips of 1 to 800 ms, losses up to 20 %, jitter, reordering, blackouts, queues that mark,
//! and nodes that spoil the ECN field. What must hold on any path is held: no panic, no stall, no
//! rate far above the path's.
//!
//! A seed takes milliseconds, or tenths of a second on the fastest paths, so a night is worth 10^9
//! packets. `TACK_RANDOM_PATHS_PACKETS` and `TACK_RANDOM_PATHS_SEED` set how many packets the long
//! form sends and its first seed; a seed that fails is repeated by the latter, with 1 packet.

#![allow(clippy::unwrap_used)] // a simulation that goes wrong has failed

#[path = "common/event_queue.rs"]
mod event_queue;
#[path = "random_paths/marking.rs"]
mod marking;
#[path = "random_paths/path.rs"]
mod path;
#[path = "random_paths/rate_watch.rs"]
mod rate_watch;
#[path = "random_paths/simulation.rs"]
mod simulation;
#[path = "random_paths/stall_watch.rs"]
mod stall_watch;

use std::panic::catch_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use path::Path;
use simulation::{Outcome, Simulation};
use tack_proto::ecn::{Ecn, EcnState};

/// Packets that the tests send which run each time.
const PACKETS: u64 = 2_000_000;
/// Packets of the long form, unless it is told.
const LONG_PACKETS: u64 = 20_000_000;

/// The controller lets no data leave on a live path for so many probe timeouts (RFC 9002 section
/// 6.2.1): [`stall_watch`] says which paths are live.
const MOST_STALL: f64 = 3.0;
/// In no second after Startup does the sender send more than so many times what the path carries:
/// [`rate_watch`] says which seconds are looked at.
const MOST_RATE: f64 = 1.5;

/// A seed and what came of it; `None` after a panic.
type Run = (u64, Option<Outcome>);

/// Runs a seed. The message of a panic is on standard error, and other seeds go on.
fn run_seed(seed: u64) -> Run {
    run_path(seed, Path::draw(seed))
}

fn run_path(seed: u64, path: Path) -> Run {
    (seed, catch_unwind(|| Simulation::new(path, seed).run()).ok())
}

/// Runs seeds on all cores until so many packets were sent.
fn run_seeds(first: u64, packets: u64) -> Vec<Run> {
    let (next, sent) = (AtomicU64::new(first), AtomicU64::new(0));
    let work = || {
        let mut runs = Vec::new();
        while sent.load(Ordering::Relaxed) < packets {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let run = run_seed(seed);
            let packets = run.1.as_ref().map_or(1, |outcome| outcome.packets);
            sent.fetch_add(packets, Ordering::Relaxed);
            runs.push(run);
        }
        runs
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut runs: Vec<Run> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    runs.sort_by_key(|(seed, _)| *seed);
    runs
}

/// The runs of the short form, which several tests look at.
fn short() -> &'static [Run] {
    static RUNS: OnceLock<Vec<Run>> = OnceLock::new();
    RUNS.get_or_init(|| run_seeds(1, PACKETS))
}

/// The runs of the long form.
#[allow(clippy::disallowed_methods)] // says how long it took, and asserts nothing of that
fn long() -> &'static [Run] {
    static RUNS: OnceLock<Vec<Run>> = OnceLock::new();
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |value| value.parse().unwrap())
    };
    RUNS.get_or_init(|| {
        let packets = number("TACK_RANDOM_PATHS_PACKETS", LONG_PACKETS);
        let began = Instant::now();
        let runs = run_seeds(number("TACK_RANDOM_PATHS_SEED", 1), packets);
        let sent: u64 =
            runs.iter().flat_map(|(_, outcome)| outcome).map(|run| run.packets).sum();
        let seconds = began.elapsed().as_secs_f64();
        println!("{sent} packets over {} paths in {seconds:.1} s", runs.len());
        runs
    })
}

fn panicked(runs: &[Run]) -> Vec<String> {
    let failed = runs.iter().filter(|(_, outcome)| outcome.is_none());
    failed.map(|(seed, _)| format!("seed {seed}: panic, {:?}", Path::draw(*seed))).collect()
}

fn exceeding(
    runs: &[Run],
    what: &str,
    of: fn(&Outcome) -> (f64, f64),
    most: f64,
) -> Vec<String> {
    let values = runs.iter().filter_map(|(seed, outcome)| Some((*seed, of(outcome.as_ref()?))));
    let above = values.filter(|(_, (value, _))| *value > most);
    above
        .map(|(seed, (value, at))| {
            format!("seed {seed}: {what} {value:.2} at {at:.3} s, {:?}", Path::draw(seed))
        })
        .collect()
}

fn stalled(runs: &[Run]) -> Vec<String> {
    exceeding(runs, "stall of PTOs", |outcome| outcome.stall_in_ptos, MOST_STALL)
}

fn too_fast(runs: &[Run]) -> Vec<String> {
    exceeding(runs, "rate over the path's", |outcome| outcome.rate_over_path, MOST_RATE)
}

/// From this rate on, 250 Mbit/s, a path may have ended its packets before its second behind Startup.
const FAST: f64 = 250.0 * 125_000.0;

/// Seeds of paths that had more than 1.5 times their rate for a second: a series of long probes went on.
const TOO_FAST_BEFORE: [u64; 5] = [1513, 7228, 7804, 20_089, 26_791];

/// Paths on which controllers have stalled behind a blackout.
const STALLED_BEFORE: [u64; 7] = [211, 766, 917, 1457, 3739, 3924, 16073];

fn assert_none(failures: &[String], runs: &[Run]) {
    assert!(
        failures.is_empty(),
        "{} of {} seeds failed:\n{}",
        failures.len(),
        runs.len(),
        failures.join("\n")
    );
}

#[test]
fn no_path_makes_sender_or_receiver_panic() {
    assert_none(&panicked(short()), short());
}

#[test]
fn data_leaves_while_acknowledgements_come() {
    assert_none(&stalled(short()), short());
}

#[test]
fn no_sender_is_much_faster_than_its_path_once_it_knows_it() {
    assert_none(&too_fast(short()), short());
}

#[test]
fn data_leaves_on_paths_that_have_stalled_before() {
    let run = |seed| run_path(seed, Path::draw(seed).without_marks());
    let runs: Vec<_> = STALLED_BEFORE.into_iter().map(run).collect();
    assert_none(&[panicked(&runs), stalled(&runs)].concat(), &runs);
}

#[test]
fn no_sender_is_much_faster_than_a_path_on_which_one_was_before() {
    let runs: Vec<_> =
        TOO_FAST_BEFORE.into_iter().map(|seed| run_path(seed, Path::draw(seed))).collect();
    assert_none(&[panicked(&runs), too_fast(&runs)].concat(), &runs);
}

#[test]
fn every_path_carries_data_to_the_end() {
    let idle = short().iter().filter(|(_, outcome)| {
        outcome.as_ref().is_some_and(|outcome| outcome.delivered * 2 < outcome.packets)
    });
    let idle: Vec<_> =
        idle.map(|(seed, _)| format!("seed {seed}: most packets got lost")).collect();
    assert_none(&idle, short());
}

#[test]
fn marks_of_queues_reach_senders_with_either_codepoint() {
    for ecn in [Ecn::Classic, Ecn::L4s] {
        let marked = short().iter().filter(|(seed, _)| Path::draw(*seed).ecn == ecn);
        let marked: Vec<_> = marked.flat_map(|(_, outcome)| outcome).collect();
        assert!(marked.iter().any(|run| run.ecn_state == EcnState::Capable && run.ce > 0));
        assert!(marked.iter().any(|run| run.ecn_state == EcnState::Failed));
    }
}

#[test]
fn the_fastest_paths_are_watched_behind_startup() {
    let fast = short().iter().filter(|(seed, _)| Path::draw(*seed).rate > FAST);
    let unwatched: Vec<_> = fast
        .filter(|(_, outcome)| outcome.as_ref().is_some_and(|run| run.windows == 0))
        .map(|(seed, _)| format!("seed {seed}: no second behind Startup"))
        .collect();
    assert_none(&unwatched, short());
}

#[test]
#[ignore = "the same with more seeds: 20 million packets, or TACK_RANDOM_PATHS_PACKETS"]
fn no_sender_panics_or_is_much_faster_than_its_path_on_many_paths() {
    let failures = [panicked(long()), too_fast(long())].concat();
    assert_none(&failures, long());
}

#[test]
#[ignore = "the same with more seeds: 20 million packets, or TACK_RANDOM_PATHS_PACKETS"]
fn data_leaves_while_acknowledgements_come_on_many_paths() {
    assert_none(&stalled(long()), long());
}
