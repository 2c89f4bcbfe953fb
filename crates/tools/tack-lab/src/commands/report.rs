//! `tack-lab report`: a page from stored results.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use super::run::{DEFAULT_STORE, run_and_store};
use crate::experiments::{self, Context};
use crate::output;
use crate::report::{Outcome, Store, page};

/// Makes a page of HTML from the results that `tack-lab run` stored.
///
/// The page stands on its own: plots, tables, comparisons with the paper, and how to repeat
/// everything. The same results give the same page.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Directory with the results
    #[arg(long, value_name = "DIR", default_value = DEFAULT_STORE)]
    from: PathBuf,
    /// The page [default: report.html in that directory]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// First run, in the quick form, every experiment that has no result yet
    #[arg(long)]
    quick: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let store = Store::new(&args.from);
    if args.quick {
        run_missing(&store)?;
    }
    let outcomes = stored(&store)?;
    if outcomes.is_empty() {
        bail!(
            "there are no results in {dir}: run tack-lab run all --quick --out {dir} first, or \
             tack-lab report --quick --from {dir} for both",
            dir = args.from.display()
        );
    }
    let out = args.out.unwrap_or_else(|| args.from.join("report.html"));
    fs::write(&out, page(&outcomes)).with_context(|| format!("--out {}", out.display()))?;
    output::text(&format!("{}: {} experiments", out.display(), outcomes.len()))?;
    Ok(ExitCode::SUCCESS)
}

fn run_missing(store: &Store) -> Result<()> {
    let mut missing = Vec::new();
    for experiment in experiments::ALL {
        if store.load(experiment.name)?.is_none() {
            missing.push(experiment);
        }
    }
    for (index, experiment) in missing.iter().enumerate() {
        let progress = (index + 1, missing.len());
        run_and_store(*experiment, (true, Context::DEFAULT_SEED, Vec::new()), store, progress)?;
    }
    Ok(())
}

/// All stored results, in the order of the experiments.
fn stored(store: &Store) -> Result<Vec<Outcome>> {
    let outcomes = experiments::ALL.iter().map(|experiment| store.load(experiment.name));
    Ok(outcomes.filter_map(Result::transpose).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::{Experiment, Progress};

    /// A directory that is removed when the test is over.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let name = format!("tack-lab-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn args(from: &Directory) -> Args {
        Args { from: from.0.clone(), out: None, quick: false }
    }

    #[test]
    fn without_results_it_says_what_to_run() {
        let error = run(args(&Directory::new("empty"))).unwrap_err().to_string();
        assert!(error.contains("tack-lab run all --quick"), "{error}");
    }

    #[test]
    fn a_stored_result_is_read_back_as_it_was_and_makes_the_same_page() {
        let directory = Directory::new("stored");
        let store = Store::new(&directory.0);
        let experiment = Experiment::named("fig13").unwrap();
        let outcome = experiment.run(&Context::new(true, 1, Progress::hidden())).unwrap();
        store.save(&outcome).unwrap();
        assert_eq!(store.load("fig13").unwrap().as_ref(), Some(&outcome));
        assert!(directory.0.join("fig13-1.svg").exists());

        run(args(&directory)).unwrap();
        let html = fs::read_to_string(directory.0.join("report.html")).unwrap();
        assert_eq!(html, page(&[outcome]));
    }

    #[test]
    fn a_broken_result_is_named() {
        let directory = Directory::new("broken");
        fs::create_dir_all(&directory.0).unwrap();
        fs::write(directory.0.join("fig3.json"), "{").unwrap();
        let error = run(args(&directory)).unwrap_err().to_string();
        assert!(error.contains("fig3.json") && error.contains("run the experiment again"));
    }
}
