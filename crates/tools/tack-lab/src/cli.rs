//! The command line.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[cfg(target_os = "linux")]
use crate::commands::relay;
use crate::commands::{list, medium, nagle, report, run, soak, tcp, transfer, tun};

/// Experiments with acknowledgements on emulated Wi-Fi and wide-area links.
///
/// Everything runs on this machine: in virtual time, or in network namespaces that the tool
/// makes and that lead nowhere.
#[derive(Debug, Parser)]
#[command(name = "tack-lab", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Medium(medium::Args),
    Transfer(Box<transfer::Args>),
    Tcp(tcp::Args),
    Nagle(nagle::Args),
    Tun(tun::Args),
    #[cfg(target_os = "linux")]
    Relay(relay::Args),
    #[cfg(target_os = "linux")]
    Tap(relay::TapArgs),
    Run(run::Args),
    Soak(soak::Args),
    List(list::Args),
    Report(report::Args),
    #[command(flatten)]
    Internal(tun::Internal),
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Medium(args) => medium::run(args),
            Command::Transfer(args) => transfer::run(&args),
            Command::Tcp(args) => tcp::run(args),
            Command::Nagle(args) => nagle::run(&args),
            Command::Tun(args) => tun::run(args),
            #[cfg(target_os = "linux")]
            Command::Relay(args) => relay::run(&args),
            #[cfg(target_os = "linux")]
            Command::Tap(args) => relay::run_tap(&args),
            Command::Run(args) => run::run(args),
            Command::Soak(args) => soak::run(&args),
            Command::List(args) => list::run(args),
            Command::Report(args) => report::run(args),
            Command::Internal(command) => Ok(command.run()),
        }
    }
}
