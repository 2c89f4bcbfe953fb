//! The `tack-interop` command.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use tack_interop::cli::{Cli, Command, RunArgs};
use tack_interop::contract::Role;
use tack_interop::error::Error;
use tack_interop::peers::{self, Places};
use tack_interop::report::{self, Report, Run};
use tack_interop::run::Outcome;
use tack_interop::{cases, fetch, interrupt, own, run};

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List => list(),
        Command::Fetch { peers } => fetch_peers(&peers),
        Command::Run(args) => run_cells(&args),
        Command::Peer { kind, ours } => {
            let ours = ours.and_then(|name| cases::by_name(&name)).map(|case| case.kind);
            return own::run(kind.settings(), ours);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("tack-interop: {error}");
        error.exit_code()
    })
    .into()
}

fn list() -> Result<u8, Error> {
    let places = Places::of_checkout()?;
    say("Peers\n")?;
    for peer in peers::all() {
        let roles: Vec<_> = peer.roles.iter().copied().map(Role::name).collect();
        say(&format!("  {:<19} {:<14} {}\n", peer.name, roles.join(", "), peer.about))?;
        let state = match peer.program(&places) {
            Ok(_) => "available".to_owned(),
            Err(reason) => format!("unavailable: {reason}"),
        };
        say(&format!("  {:<19} {state}\n", ""))?;
    }
    say("\nTest cases\n")?;
    for case in &cases::ALL {
        say(&format!("  {:<19} {}\n", case.name, case.about))?;
    }
    Ok(0)
}

/// Prints. A reader that takes only the beginning, as `head` does, is no error.
fn say(text: &str) -> Result<(), Error> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::file("standard output")(error))
        }
        _ => Ok(()),
    }
}

fn fetch_peers(names: &[String]) -> Result<u8, Error> {
    let places = Places::of_checkout()?;
    let mut all_there = true;
    let peers = peers::select(names)?;
    for (at, peer) in peers.iter().enumerate() {
        eprintln!("fetching {} ({} of {})", peer.name, at + 1, peers.len());
        match fetch::fetch(peer, &places)? {
            Ok(()) => say(&format!("{}: available\n", peer.name))?,
            Err(reason) => {
                say(&format!("{}: unavailable: {reason}\n", peer.name))?;
                all_there = false;
            }
        }
    }
    Ok(u8::from(!all_there))
}

fn run_cells(args: &RunArgs) -> Result<u8, Error> {
    let cells = run::cells(args)?;
    let places = Places::of_checkout()?;
    for path in args.json.iter().chain(&args.html) {
        // An error shows now and not after the run. The contents stay until then.
        File::options().append(true).create(true).open(path).map_err(Error::file(path))?;
    }
    interrupt::take()?;
    let begun = Run::begin(&places, args.jobs);
    let done = |cell: &_| eprintln!("{}", report::line(cell));
    let Outcome { reports, error } = run::run(&cells, &places, args.jobs, args.keep, &done)?;
    let report = Report::new(reports).of_run(begun).with_warnings(&places, error.as_ref());
    if let Some(path) = &args.json {
        let mut json = serde_json::to_string_pretty(&report)
            .map_err(io::Error::from)
            .map_err(Error::file(path))?;
        json.push('\n');
        write(path, &json)?;
    }
    if let Some(path) = &args.html {
        write(path, &report::html(&report))?;
    }
    say(&report::matrix(&report))?;
    match error {
        Some(error) => Err(error),
        None => Ok(report.exit_code(!args.peers.is_empty())),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::file(path))
}
