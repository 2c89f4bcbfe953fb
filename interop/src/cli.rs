//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::cases;
use crate::contract::Role;
use crate::own_kind::OwnKind;

const EXIT_CODES: &str = "\
Exit codes:
  0  no cell failed
  1  a cell failed, a peer could not be fetched, or the run ended early
  2  the command line is wrong
  3  no cell failed, but a peer named with --peers is not available, or this machine lacks what a
     cell needs";

/// Runs TACK endpoints against stock QUIC implementations over an emulated link.
///
/// What was received and what was on the wire decides.
#[derive(Debug, Parser)]
#[command(name = "tack-interop", version, after_help = EXIT_CODES, after_long_help = long_help())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show peers, whether they are available, and test cases.
    List,
    /// Install and build peers.
    Fetch {
        /// Names of peers, with commas between; all if left out.
        #[arg(long, value_delimiter = ',')]
        peers: Vec<String>,
    },
    /// Run test cases and show the matrix.
    Run(RunArgs),
    /// Be a peer, as the environment says: tack-interop starts itself so.
    #[command(hide = true)]
    Peer {
        /// With TACK or without.
        #[arg(value_enum)]
        kind: OwnKind,
        /// Be our end in this test case.
        #[arg(long, value_name = "CASE")]
        ours: Option<String>,
    },
}

/// What to run, and where the report goes.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Names of peers, with commas between; all if left out.
    #[arg(long, value_delimiter = ',')]
    pub peers: Vec<String>,
    /// Names of test cases, with commas between; all if left out.
    #[arg(long, value_delimiter = ',')]
    pub tests: Vec<String>,
    /// The role of the peers.
    #[arg(long, value_enum, default_value = "both")]
    pub role: RoleArg,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as a web page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Cells at the same time; ackfrequency and immediateack run alone.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub jobs: usize,
    /// Keep logs and traces of cells that passed too.
    #[arg(long)]
    pub keep: bool,
}

/// The roles of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Clients of our server.
    Client,
    /// Servers of our client.
    Server,
    /// Both, in separate cells.
    Both,
}

impl RoleArg {
    /// Whether a role is among them.
    pub fn includes(self, role: Role) -> bool {
        match self {
            Self::Both => true,
            Self::Client => role == Role::Client,
            Self::Server => role == Role::Server,
        }
    }
}

/// The end of `--help`.
fn long_help() -> String {
    let cases = cases::ALL.iter().map(|case| format!("  {:<21} {}\n", case.name, case.about));
    format!("Test cases:\n{}\n{EXIT_CODES}", cases.collect::<String>())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn help_names_every_test_case_with_its_conditions() {
        let help = Cli::command().render_long_help().to_string();
        for case in &cases::ALL {
            assert!(help.contains(case.name) && help.contains(case.about), "{}", case.name);
        }
        assert!(help.contains("Exit codes:"));
    }
}
