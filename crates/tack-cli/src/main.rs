//! The `tack` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    tack_cli::commands::run(tack_cli::cli::Cli::parse()).into()
}
