//! What the command line offers.

mod closing;
mod completions;
mod connector;
mod copy;
mod dry_run;
mod events;
mod fetch_several;
mod get;
mod get_batch;
mod jobs;
mod ls;
mod man;
mod one_time_server;
mod producer;
mod put_batch;
mod receive;
mod reconnect;
mod send;
mod send_stream;
mod serve;
mod serve_once;
mod share;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

use crate::cli::{Cli, Command};
use crate::config_file::{self, Failure};
use crate::error::Error;
use crate::exit::Exit;
use crate::progress;

pub use completions::completions;
pub use copy::copy;
pub use get::get;
pub use ls::ls;
pub use man::man;
pub use receive::receive;
pub use send::send;
pub use serve::serve;
pub use serve_once::serve_once;
pub use share::share;

/// Runs what the arguments and the configuration files say.
pub fn main(arguments: &[OsString]) -> Exit {
    let read = config_file::read(&Cli::command(), arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(Failure::CommandLine));
    match read {
        Ok(cli) => run(cli),
        // Help and mistakes, each to its own stream.
        Err(Failure::CommandLine(error)) => error.exit(),
        Err(Failure::File(error)) => {
            progress::print(&error.to_string());
            error.exit()
        }
    }
}

/// Runs the command and reports its error on standard error.
pub fn run(cli: Cli) -> Exit {
    let result = match cli.command {
        Command::Serve(args) => serve(&args),
        Command::Get(args) => get(&args),
        Command::Send(args) => send(&args),
        Command::Ls(args) => ls(&args),
        Command::Copy(args) => copy(&args),
        Command::Share(args) => share(&args),
        Command::Receive(args) => receive(&args),
        Command::Completions(args) => completions(&args),
        Command::Man(args) => man(&args),
        Command::ServeOnce => serve_once(),
        Command::Demo(args) => crate::demo::run(&args),
    };
    match result {
        Ok(()) => Exit::Ok,
        Err(error) => {
            progress::print(&error.to_string());
            error.exit()
        }
    }
}

/// Prints a value as one line of JSON on standard output.
fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    use std::io::Write;
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::local("standard output"))
}
