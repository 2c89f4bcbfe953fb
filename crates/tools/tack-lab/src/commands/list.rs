//! `tack-lab list`: what can be run.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::experiments;
use crate::output;
use crate::report::Table;

/// Lists the experiments.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.json {
        let experiments: Vec<_> = experiments::ALL
            .iter()
            .map(|experiment| {
                json!({
                    "name": experiment.name,
                    "title": experiment.title,
                    "question": experiment.question,
                    "paper": experiment.paper,
                })
            })
            .collect();
        output::json(&json!({ "experiments": experiments }))?;
    } else {
        output::text(&table())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table() -> String {
    let mut table = Table::new("Run one with tack-lab run NAME, all with tack-lab run all.")
        .text("name", "NAME")
        .text("question", "QUESTION");
    for experiment in experiments::ALL {
        table.row([experiment.name.into(), experiment.question.into()]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_listed() {
        let table = table();
        for experiment in experiments::ALL {
            assert!(table.contains(experiment.name) && table.contains(experiment.question));
        }
    }
}
