//! Bulk data and requests between two processes over UDP, with TACK or as plain quiche.
//!
//! `tack-perf run` starts both ends. The programs under `benches/rivals` do the same work on other
//! libraries, and `benches/compare-perf` runs all of them in turns.

#![forbid(unsafe_code)]

mod client;
mod medians;
mod server;
mod setup;
mod streams;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tack_perf::{ClientOptions, Command, Outcome, ServerOptions, Stack, execute};

/// Bulk data and requests between two processes, with TACK or as plain quiche.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    #[command(flatten)]
    Perf(Command),
    /// Print the medians of runs that were kept.
    Medians {
        /// Directory of scenarios: in each of them a file `title` and, for each contender,
        /// CONTENDER.jsonl with a line for each run.
        directory: PathBuf,
        /// The contender that the others are held against.
        #[arg(long, default_value = "quiche")]
        base: String,
        /// Print tables in Markdown.
        #[arg(long)]
        markdown: bool,
        /// Print JSON.
        #[arg(long, conflicts_with = "markdown")]
        json: bool,
    },
}

/// tacklib, or quiche alone.
struct Tacklib;

impl Stack for Tacklib {
    const HAS_PROFILES: bool = true;

    fn serve(options: &ServerOptions) -> Result<()> {
        server::serve(options)
    }

    fn measure(server: SocketAddr, options: &ClientOptions) -> Result<Outcome> {
        client::measure(server, options)
    }
}

fn main() -> Result<()> {
    match Arguments::parse().action {
        Action::Perf(command) => execute::<Tacklib>(&command),
        Action::Medians { directory, base, markdown, json } => {
            let scenarios = medians::load(&directory, &base)?;
            if json {
                println!("{}", serde_json::to_string_pretty(&scenarios)?);
            } else {
                medians::print(&scenarios, markdown);
            }
            Ok(())
        }
    }
}
