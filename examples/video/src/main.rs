//! The `video` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use tack_example_video::cli::Cli;

fn main() -> ExitCode {
    // RUST_LOG=debug tells more.
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info"))
        .format(|out, record| {
            use std::io::Write;
            writeln!(out, "video: {}", record.args())
        })
        .init();
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
