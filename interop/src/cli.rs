//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use tacklib::{LabSwitches, Profile, TackConfig};

use crate::contract::Role;

/// What `--help` says of exit codes.
const EXIT_CODES: &str = "\
Exit codes:
  0  no cell failed
  1  a cell failed, a peer could not be fetched, or this machine failed
  2  the command line makes no sense
  3  no cell failed, but a peer named with --peers is not available";

/// Runs TACK endpoints against stock QUIC implementations, over an emulated link, and judges by
/// what was received and what was on the wire.
#[derive(Debug, Parser)]
#[command(name = "tack-interop", version, after_help = EXIT_CODES)]
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
    /// What the peers play against our end.
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

/// What the peers play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Clients of our server.
    Client,
    /// Servers of our client.
    Server,
    /// One after the other.
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

/// Our own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OwnKind {
    /// With TACK.
    Tack,
    /// Without.
    Quiche,
    /// With TACK, but a stock peer is asked for nothing.
    TackUnasking,
}

impl OwnKind {
    /// As the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tack => "tack",
            Self::Quiche => "quiche",
            Self::TackUnasking => "tack-unasking",
        }
    }

    /// What it does.
    pub fn settings(self) -> (TackConfig, LabSwitches) {
        let asks_stock_peers = !matches!(self, Self::TackUnasking);
        let lab = LabSwitches { asks_stock_peers, ..LabSwitches::default() };
        match self {
            Self::Tack | Self::TackUnasking => (TackConfig::default(), lab),
            Self::Quiche => (TackConfig::new(Profile::Off), lab),
        }
    }
}
