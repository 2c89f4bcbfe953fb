//! `tack-lab run`: experiments, their tables and their results on disk.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use crate::experiments::{self, Context, Experiment, Progress};
use crate::output;
use crate::report::{Outcome, Store};

/// Where results are kept unless somebody says otherwise: what cargo cleans and git ignores.
pub(super) const DEFAULT_STORE: &str = "target/tack-lab";
const EVERYTHING: &str = "all";

/// Runs experiments and shows their results.
///
/// The full form takes the paper's durations and medians over several seeds: hours for all. The
/// quick form takes minutes. Each result is stored for `tack-lab report`. Everything runs in
/// virtual time, where the same arguments give the same numbers, but for tables over kernel TCP:
/// they take real time, and root.
///
/// The exit code is 0 if the emulation passed all its checks; differences from the paper are
/// shown and do not count.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Which experiments: names from tack-lab list, or all
    #[arg(value_name = "NAME", required = true, value_parser = names())]
    names: Vec<String>,
    /// Short runs and few seeds
    #[arg(long)]
    quick: bool,
    /// First seed
    #[arg(long, default_value_t = Context::DEFAULT_SEED)]
    seed: u64,
    /// Only these rows, of an experiment whose rows can be run alone: ablation, realtime-board
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
    /// Directory for the results: NAME.json, and each plot as NAME-N.svg
    #[arg(long, value_name = "DIR", default_value = DEFAULT_STORE)]
    out: PathBuf,
    /// Print one JSON object with everything instead of tables
    #[arg(long)]
    json: bool,
}

fn names() -> PossibleValuesParser {
    let names = experiments::ALL.iter().map(|experiment| experiment.name);
    PossibleValuesParser::new(names.chain([EVERYTHING]))
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    passed: bool,
    outcomes: &'a [Outcome],
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let store = Store::new(args.out);
    let chosen = choose(&args.names);
    check_rows(&args.only, &chosen)?;
    let mut outcomes = Vec::with_capacity(chosen.len());
    for (index, experiment) in chosen.iter().enumerate() {
        let progress = (index + 1, chosen.len());
        let only = args.only.clone();
        let form = (args.quick, args.seed, only);
        let outcome = run_and_store(*experiment, form, &store, progress)?;
        if !args.json {
            output::text(&outcome.to_string())?;
        }
        outcomes.push(outcome);
    }
    if args.json {
        output::json(&Report { passed: passed(&outcomes), outcomes: &outcomes })?;
    } else {
        output::text(&verdict(&outcomes, &store))?;
    }
    Ok(exit_code(&outcomes))
}

/// The experiments of these names, in the order of the list, each once.
fn choose(names: &[String]) -> Vec<Experiment> {
    let chosen = |experiment: &Experiment| {
        names.iter().any(|name| name == experiment.name || name == EVERYTHING)
    };
    experiments::ALL.into_iter().filter(chosen).collect()
}

/// Fails if an experiment has no row of that name.
fn check_rows(only: &[String], chosen: &[Experiment]) -> Result<()> {
    for experiment in chosen {
        let rows = experiment.rows();
        if let Some(unknown) = only.iter().find(|row| !rows.contains(row)) {
            let known = if rows.is_empty() { "none".to_owned() } else { rows.join(", ") };
            bail!("--only: {} has no row {unknown}; its rows: {known}", experiment.name);
        }
    }
    Ok(())
}

/// Runs one experiment; `progress` is which of how many it is.
pub(super) fn run_and_store(
    experiment: Experiment,
    (quick, seed, only): (bool, u64, Vec<String>),
    store: &Store,
    (number, of): (usize, usize),
) -> Result<Outcome> {
    let progress = Progress::new(format!("{number}/{of} {}", experiment.name));
    let context = Context::new(quick, seed, progress.clone()).only(only);
    let outcome = experiment.run(&context);
    progress.finish();
    let outcome = outcome.with_context(|| format!("experiment {}", experiment.name))?;
    store.save(&outcome)?;
    Ok(outcome)
}

fn passed(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(Outcome::passed)
}

fn exit_code(outcomes: &[Outcome]) -> ExitCode {
    if passed(outcomes) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn verdict(outcomes: &[Outcome], store: &Store) -> String {
    let failed = outcomes.iter().flat_map(|outcome| &outcome.checks);
    let failed = failed.filter(|check| check.fails_the_run()).count();
    let stored = format!("Results are in {}.", store.dir().display());
    if failed == 0 {
        stored
    } else {
        format!(
            "{failed} checks of the emulation FAILED: what was measured on it counts for \
                 nothing. {stored}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::parse;
    use crate::report::Check;
    use crate::versions::Versions;

    #[test]
    fn rows_are_those_of_the_experiment() {
        let args = parse::<Args>("realtime-board --only alone,media_wb").unwrap();
        assert_eq!(args.only, ["alone", "media_wb"]);
        check_rows(&args.only, &choose(&args.names)).unwrap();
        let board = choose(&["realtime-board".to_owned()]);
        let error = check_rows(&["lone".to_owned()], &board).unwrap_err().to_string();
        assert!(error.contains("no row lone") && error.contains("wifi_bad"), "{error}");
        let other = choose(&["fig3".to_owned()]);
        assert!(check_rows(&args.only, &other).is_err());
    }

    fn outcome(check: Check) -> Outcome {
        Outcome {
            name: "x".to_owned(),
            title: String::new(),
            question: String::new(),
            paper: String::new(),
            quick: true,
            command: String::new(),
            parameters: serde_json::Map::new(),
            versions: Versions::of_this_build(),
            seeds: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            checks: vec![check],
            notes: Vec::new(),
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = parse::<Args>("fig99").unwrap_err().to_string();
        for name in ["fig99", "fig3", "traffic-change", "all"] {
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn all_means_every_experiment_once() {
        let args = parse::<Args>("fig3 all").unwrap();
        let chosen: Vec<_> = choose(&args.names).iter().map(|e| e.name).collect();
        assert_eq!(chosen, experiments::ALL.map(|e| e.name));
    }

    #[test]
    fn a_failed_check_of_the_emulation_is_a_failure() {
        let bad = [outcome(Check::model("baseline", 9.0, "", 6.0..=7.0))];
        assert_eq!(exit_code(&bad), ExitCode::FAILURE);
        assert!(verdict(&bad, &Store::new("d")).contains("1 checks of the emulation FAILED"));
    }

    #[test]
    fn a_difference_from_the_paper_is_not() {
        let differs = [outcome(Check::paper("gain", "1", "2", false))];
        assert_eq!(exit_code(&differs), ExitCode::SUCCESS);
    }
}
