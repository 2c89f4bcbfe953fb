//! The `tack-lab` tool.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use tack_lab::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run().unwrap_or_else(|error| {
        eprintln!("tack-lab: {error:#}");
        ExitCode::FAILURE
    })
}
