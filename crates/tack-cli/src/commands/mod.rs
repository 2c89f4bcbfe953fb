//! What the command line offers.

mod completions;
mod connector;
mod copy;
mod dial_once;
mod event_paths;
mod events;
mod fetch_several;
mod get;
mod ls;
mod man;
mod one_time_server;
mod receive;
mod reconnect;
mod run;
mod send;
mod serve;
mod serve_once;
mod share;

use std::ffi::OsString;
use std::io;

use clap::{CommandFactory, FromArgMatches};
use tack_transfer::{WirePath, leave_directories_closed};

use crate::cli::{Cli, Command, TransferArgs};
use crate::config_file::{self, Failure};
use crate::error::Error;
use crate::exit::Exit;
use crate::progress;

pub use completions::completions;
pub use copy::copy;
pub use dial_once::dial_once;
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
    crate::limits::prepare();
    let read = config_file::read(&Cli::command(), arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(Failure::CommandLine));
    match read {
        Ok(cli) => {
            let exit = run(cli);
            // What threads are still doing ends with the process.
            leave_directories_closed();
            exit
        }
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
        Command::ServeOnce(args) => serve_once(&args),
        Command::DialOnce(args) => dial_once(&args),
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

/// Refuses what makes no sense together with a single file.
fn check_tree(args: &TransferArgs, has_tree: bool) -> Result<(), Error> {
    if args.delete && !has_tree {
        return Err(Error::Usage(
            "--delete removes what a directory no longer has; it takes a directory (-r with get)"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Calls a directory that a file was expected in the place of what its user does.
fn directory_as(
    shown: impl Fn(&WirePath) -> Option<String>,
) -> impl FnOnce(tack_transfer::Error) -> Error {
    move |error| match &error {
        tack_transfer::Error::Directory(path) => {
            shown(path).map_or_else(|| error.into(), Error::Directory)
        }
        tack_transfer::Error::Local { path, cause }
            if cause.kind() == io::ErrorKind::AlreadyExists =>
        {
            Error::InTheWay(path.clone())
        }
        _ => error.into(),
    }
}

/// Prints a value as one line of JSON on standard output.
fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    use std::io::Write;
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::local("standard output"))
}
