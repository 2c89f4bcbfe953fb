//! Options that the user does not want to type each time: `~/.config/tack/config.toml`
//! (`XDG_CONFIG_HOME`), and `/etc/tack/config.toml` for everybody. What is on the command line wins, then
//! the user's file.
//!
//! A section has the name of a command, and its long options without the dashes. A section `hosts.NAME` has
//! what it takes to reach a server that is called by that name: its `address`, which also says who it is, and options
//! such as `fingerprint` and `token-file`. They are those of `get`; a command that has not all of them goes without the others.
//!
//! Two options of one section that exclude each other are a mistake. Of different sections the more specific one counts, as
//! a later file does.
//!
//! `NAME = false`, or an empty list, only takes back what is set as `NAME` before; other options stay as they are set.
//! `--no-NAME` on the command line, or `no-NAME` for a server, takes back the option `NAME`; where that begins with `no-`,
//! what is behind it does.
//!
//! ```toml
//! [send]
//! preserve = true
//! exclude = [".cache", "*.tmp"]
//!
//! [hosts.nas]
//! address = "192.0.2.7:4433"
//! token-file = "~/.config/tack/nas-token"
//! ```

mod sections;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::error::Error;
use crate::user_directories;
use sections::{ConfigFile, Setting};

/// Names another file in the place of both; none, if it is empty.
pub const VARIABLE: &str = "TACK_CONFIG";

const SYSTEM: &str = "/etc/tack/config.toml";
const FILE: &str = "config.toml";
/// Commands that have sections.
const COMMANDS: [&str; 7] = ["serve", "get", "send", "copy", "ls", "share", "receive"];
/// The command whose options a server's section can have.
const CLIENT: &str = "get";
/// The option that says where a server is, and what stands for it in a server's section: there it says who the server
/// is as well.
const ADDRESS: &str = "address";
const HOST_ADDRESS: &str = "host-address";

/// Why the arguments of a command cannot be made.
#[derive(Debug)]
pub enum Failure {
    /// The command line makes no sense, or asks for help.
    CommandLine(clap::Error),
    /// A file does.
    File(Error),
}

/// Reads the command line together with the files that there are.
pub fn read(command: &Command, arguments: &[OsString]) -> Result<ArgMatches, Failure> {
    let files = files();
    // A file that is named in so many words has to be there.
    if std::env::var_os(VARIABLE).is_some()
        && let [named] = &files[..]
    {
        named.metadata().map_err(|cause| {
            let text = format!("{VARIABLE} names {}: {cause}", named.display());
            Failure::File(Error::Usage(text))
        })?;
    }
    read_with(command, arguments, &files)
}

/// The command with a hidden opposite of each option that a file can set.
fn with_opposites(command: &Command) -> Command {
    let mut command = command.clone();
    for name in COMMANDS {
        let Some(subcommand) = command.find_subcommand(name) else { continue };
        let opposites: Vec<Arg> = subcommand
            .get_arguments()
            .filter_map(|option| opposite(subcommand, option))
            .collect();
        command = command.mut_subcommand(name, |subcommand| subcommand.args(opposites));
    }
    command
}

/// `None` if there is an option of that name.
fn opposite(command: &Command, option: &Arg) -> Option<Arg> {
    let long = option.get_long()?;
    let name = long.strip_prefix("no-").map_or_else(|| format!("no-{long}"), str::to_owned);
    let is_free = find(command, &name).is_none();
    let argument = Arg::new(name.clone()).long(name).action(ArgAction::SetTrue);
    is_free.then(|| argument.hide(true).conflicts_with(option.get_id()))
}

fn read_with(
    command: &Command,
    arguments: &[OsString],
    files: &[PathBuf],
) -> Result<ArgMatches, Failure> {
    let command = &with_opposites(command);
    // Only for the second reading: typing an option twice is a mistake.
    let again = command.clone().mut_subcommands(|command| command.args_override_self(true));
    let (given, lacks) = typed_alone(command, arguments)?;
    let Some((name, typed)) = given.subcommand().filter(|(name, _)| COMMANDS.contains(name))
    else {
        return complete(given, lacks);
    };
    let Some(subcommand) = command.find_subcommand(name) else { return complete(given, lacks) };
    let mut settings: Vec<Setting> = Vec::new();
    for path in files {
        let Some(file) = ConfigFile::read(path, command).map_err(Failure::File)? else {
            continue;
        };
        // What is set for a server is set for all commands, of which some have fewer options.
        let known = |setting: &&Setting| find(subcommand, &setting.option).is_some();
        let of_host = file.for_host(typed).filter(known);
        // The later file wins, and what is said of one server.
        settings.extend(file.for_command(name).chain(of_host).cloned());
    }
    // First what the command line takes back: it excludes nothing either.
    settings.retain(|setting| !is_overridden(subcommand, typed, &setting.option));
    let settings = those_that_count(subcommand, settings);
    if settings.is_empty() {
        return complete(given, lacks);
    }
    // The program and the command, then what is set, then what was typed.
    let at = arguments.len().min(2);
    let mut all = arguments[..at].to_vec();
    all.extend(settings.iter().flat_map(|setting| setting.arguments.iter().cloned()));
    all.extend_from_slice(&arguments[at..]);
    again.try_get_matches_from(all).map_err(|error| {
        if let Some(lacks) =
            lacks.filter(|_| error.kind() == ErrorKind::MissingRequiredArgument)
        {
            return Failure::CommandLine(lacks);
        }
        let places: Vec<&str> = settings.iter().map(|setting| setting.place.as_str()).collect();
        // The user has written `address`.
        let text = error.render().to_string();
        let text = text.replace(&format!("--{HOST_ADDRESS} "), &format!("--{ADDRESS} "));
        // What is missing is on lines of its own; usage and tips follow behind an empty one.
        let lines: Vec<&str> =
            text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let text = lines.join(" ");
        let text = text.trim_start_matches("error: ");
        Failure::File(Error::Usage(format!("{text} (set in {})", places.join(", "))))
    })
}

/// What was typed, and what it lacks for itself: an option may want another one that is set in a file.
fn typed_alone(
    command: &Command,
    arguments: &[OsString],
) -> Result<(ArgMatches, Option<clap::Error>), Failure> {
    match command.clone().try_get_matches_from(arguments) {
        Ok(given) => Ok((given, None)),
        Err(lacks) if lacks.kind() == ErrorKind::MissingRequiredArgument => {
            let given = command.clone().ignore_errors(true).try_get_matches_from(arguments);
            given.map(|given| (given, Some(lacks))).map_err(Failure::CommandLine)
        }
        Err(error) => Err(Failure::CommandLine(error)),
    }
}

/// What was typed, where no file adds anything.
fn complete(given: ArgMatches, lacks: Option<clap::Error>) -> Result<ArgMatches, Failure> {
    lacks.map_or(Ok(given), |lacks| Err(Failure::CommandLine(lacks)))
}

/// The settings that count: of the same option the last, and none that a later one excludes.
fn those_that_count(command: &Command, settings: Vec<Setting>) -> Vec<Setting> {
    let mut count: Vec<Setting> = Vec::new();
    // First of the same option: what is taken back again excludes nothing.
    for setting in settings {
        count.retain(|earlier| earlier.option != setting.option);
        count.push(setting);
    }
    // `false` sets nothing that could exclude another option: `insecure = false` keeps a fingerprint.
    count.retain(|setting| !setting.arguments.is_empty());
    let mut later: Vec<Setting> = Vec::new();
    for setting in count.into_iter().rev() {
        if !later.iter().any(|later| exclude_each_other(command, later, &setting)) {
            later.push(setting);
        }
    }
    later.reverse();
    later
}

fn exclude_each_other(command: &Command, one: &Setting, other: &Setting) -> bool {
    let find = |setting: &Setting| find(command, &setting.option);
    find(one).zip(find(other)).is_some_and(|(one, other)| {
        excludes(command, one, other) || excludes(command, other, one)
    })
}

/// Refuses two settings of one section that exclude each other: of these none is more specific.
fn check_exclusions(command: &Command, settings: &[Setting]) -> Result<(), Error> {
    let count = || settings.iter().filter(|setting| !setting.arguments.is_empty());
    for (number, one) in count().enumerate() {
        for other in count().skip(number + 1) {
            if exclude_each_other(command, one, other) {
                return Err(Error::Usage(format!(
                    "{} and {}: {} and {} exclude each other; remove one",
                    one.place, other.place, one.option, other.option
                )));
            }
        }
    }
    Ok(())
}

fn excludes(command: &Command, one: &Arg, other: &Arg) -> bool {
    let excluded = command.get_arg_conflicts_with(one);
    excluded.iter().any(|excluded| excluded.get_id() == other.get_id())
}

/// The files to read, the one that wins last.
fn files() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return if path.is_empty() { Vec::new() } else { vec![path.into()] };
    }
    let user = user_directories::config().map(|directory| directory.join(FILE));
    [Some(PathBuf::from(SYSTEM)), user].into_iter().flatten().collect()
}

/// Whether the command line has said something about an option, or something that excludes it.
fn is_overridden(command: &Command, typed: &ArgMatches, option: &str) -> bool {
    let is_typed = |argument: &Arg| {
        let source = typed.value_source(argument.get_id().as_str());
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let Some(argument) = find(command, option) else { return false };
    let mut others = command.get_arguments().filter(|other| is_typed(other));
    is_typed(argument)
        || others.any(|other| {
            excludes(command, other, argument) || excludes(command, argument, other)
        })
}

fn find<'a>(command: &'a Command, option: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|argument| argument.get_long() == Some(option))
}

#[cfg(test)]
mod tests;
