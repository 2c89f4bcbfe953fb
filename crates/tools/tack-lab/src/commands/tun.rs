//! `tack-lab tun`: any two programs over an emulated link.

mod link_args;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use tack_emulator::tun::{self, CommandOptions, CommandsReport, PunctualitySummary};
use tack_link::LinkSpec;

pub(super) use link_args::{ChosenLink, LinkArgs};

/// What stands between the two commands.
const SEPARATOR: &str = ":::";

/// Runs two commands, one at each end of an emulated link, in real time.
///
/// Each runs in a network namespace of its own, which has one way out: the link. Both find the
/// addresses in TACK_LAB_LOCAL and TACK_LAB_PEER. Their standard input is empty. Needs root.
///
/// The exit code is that of the command that ended first. Ctrl-C ends both. When it is over,
/// nothing that they started is left.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    sudo tack-lab tun --link g -- iperf3 -s -1 ::: sh -c 'iperf3 -c $TACK_LAB_PEER'")]
pub struct Args {
    #[command(flatten)]
    link: LinkArgs,
    /// When it is over
    #[arg(long, value_enum, default_value_t = Until::First)]
    until: Until,
    /// The command at the first end, :::, and the command at the second end
    #[arg(last = true, required = true, value_name = "COMMAND ::: COMMAND")]
    commands: Vec<OsString>,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Until {
    /// When one command has ended; the other is ended then
    First,
    /// When both have ended; the exit code is the first that is not 0
    Both,
}

/// What the tool starts itself as, and users do not.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Internal {
    /// Runs one command of `tun`, and sees that nothing of it is left.
    #[command(name = "__in-namespace", hide = true)]
    InNamespace {
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    report: &'a CommandsReport,
    parameters: Parameters<'a>,
}

/// Everything that it takes to run it again, defaults filled in.
#[derive(Serialize)]
struct Parameters<'a> {
    #[serde(flatten)]
    args: &'a LinkArgs,
    rtt: f64,
    link_spec: LinkSpec,
}

impl Internal {
    /// Runs the command.
    pub fn run(self) -> ExitCode {
        let Self::InNamespace { command } = self;
        tun::init(&command).into()
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let commands = split(args.commands)?;
    let chosen = args.link.choose()?;
    let program = env::current_exe().context("the path of this program")?;
    let report = tun::run_commands(CommandOptions {
        link: chosen.link,
        commands,
        init: vec![program.into(), "__in-namespace".into(), "--".into()],
        until: match args.until {
            Until::First => tun::Until::First,
            Until::Both => tun::Until::Both,
        },
    })?;
    // Standard output is the commands'.
    if args.link.json {
        let report = Report {
            report: &report,
            parameters: Parameters {
                args: &args.link,
                rtt: chosen.path.rtt.as_secs_f64() * 1e3,
                link_spec: chosen.spec,
            },
        };
        eprintln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        eprintln!("{}", summary(&report.punctuality));
    }
    match (report.exit_code, report.punctuality.invalid) {
        (0, Some(reason)) if !args.link.allow_misses => {
            bail!("this run does not count: {reason}")
        }
        (code, _) => Ok(code.into()),
    }
}

/// The two commands.
fn split(mut commands: Vec<OsString>) -> Result<[Vec<OsString>; 2]> {
    let Some(at) = commands.iter().position(|word| word == SEPARATOR) else {
        bail!("two commands are needed, with {SEPARATOR} between them");
    };
    let second = commands.split_off(at).split_off(1);
    if commands.is_empty() || second.is_empty() {
        bail!("a command is needed on both sides of {SEPARATOR}");
    }
    Ok([commands, second])
}

fn summary(punctuality: &PunctualitySummary) -> String {
    let PunctualitySummary { delivered, deadline_misses, lateness_p99_us, .. } = punctuality;
    format!(
        "tack-lab: {delivered} packets delivered, {deadline_misses} of them late \
         (99 % within {lateness_p99_us:.0} µs)"
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[derive(Debug, Parser)]
    struct InternalCli {
        #[command(subcommand)]
        command: Internal,
    }

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn commands_keep_their_own_options() {
        let line = "tun --link g -- server -v --port 1 ::: client --link x";
        let args = Cli::try_parse_from(words(line)).unwrap().args;
        let [first, second] = split(args.commands).unwrap();
        assert_eq!(first, words("server -v --port 1"));
        assert_eq!(second, words("client --link x"));
    }

    #[test]
    fn a_missing_command_is_refused() {
        for commands in ["a", "a :::", "::: b"] {
            let error = split(words(commands)).unwrap_err().to_string();
            assert!(error.contains(SEPARATOR), "{error}");
        }
    }

    #[test]
    fn the_internal_command_takes_a_whole_command_line() {
        let line = "tack-lab __in-namespace -- sh -c true -- x";
        let Internal::InNamespace { command } =
            InternalCli::try_parse_from(words(line)).unwrap().command;
        assert_eq!(command, words("sh -c true -- x"));
    }
}
