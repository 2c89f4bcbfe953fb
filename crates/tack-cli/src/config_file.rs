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

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::progress::print;
use crate::target::Target;
use crate::user_directories;

/// Names another file in the place of both; none, if it is empty.
pub const VARIABLE: &str = "TACK_CONFIG";

const SYSTEM: &str = "/etc/tack/config.toml";
const FILE: &str = "config.toml";
/// Commands that have sections.
const COMMANDS: [&str; 7] = ["serve", "get", "send", "copy", "ls", "share", "receive"];
/// The command whose options a server's section can have.
const CLIENT: &str = "get";
const HOSTS: &str = "hosts";
/// The option that says where a server is, and what stands for it in a server's section: there it says who the server
/// is as well.
const ADDRESS: &str = "address";
const HOST_ADDRESS: &str = "host-address";
/// The argument that names a server, or whose last value does.
const TARGET: &str = "source";
const TARGET_IS_LAST: &str = "sources_and_dest";

/// An option of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// Its long name.
    option: String,
    /// As arguments of a command.
    arguments: Vec<OsString>,
    /// File and line.
    place: String,
}

/// A file that has been read.
#[derive(Debug)]
struct ConfigFile {
    /// Name of a command or of a server, and what is set for it.
    commands: Vec<(String, Vec<Setting>)>,
    hosts: Vec<(String, Vec<Setting>)>,
}

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

impl ConfigFile {
    /// `None` if there is no such file.
    fn read(path: &Path, command: &Command) -> Result<Option<Self>, Error> {
        let text = match fs::read_to_string(path) {
            // The home of some users of the system is no directory.
            Err(cause)
                if matches!(
                    cause.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(cause)
                if cause.kind() == io::ErrorKind::PermissionDenied
                    && path == Path::new(SYSTEM) =>
            {
                print(&format!("{SYSTEM} cannot be read, and does not count: {cause}"));
                return Ok(None);
            }
            read => read.map_err(Error::local(path))?,
        };
        let file = Self::parse(path, &text, command)?;
        let all = file.commands.iter().chain(&file.hosts).flat_map(|(_, settings)| settings);
        let mode = path.metadata().map_err(Error::local(path))?.mode();
        if mode & 0o077 != 0 && all.into_iter().any(|setting| setting.option == "token") {
            print(&format!("{}: other users may read the token; chmod 600 it", path.display()));
        }
        Ok(Some(file))
    }

    fn parse(path: &Path, text: &str, command: &Command) -> Result<Self, Error> {
        let source = Source { path, text };
        let table = DeTable::parse(text).map_err(|error| {
            source.error(error.span().map_or(0, |span| span.start), error.message())
        })?;
        let mut file = Self { commands: Vec::new(), hosts: Vec::new() };
        for (name, value) in table.get_ref() {
            let (at, name) = (name.span().start, name.get_ref().as_ref());
            let DeValue::Table(section) = value.get_ref() else {
                let text = format!("`{name}` stands outside of a section such as [get]");
                return Err(source.error(at, &text));
            };
            if name == HOSTS {
                for (host, value) in section {
                    let DeValue::Table(section) = value.get_ref() else {
                        let text = format!("expected a section [{HOSTS}.{}]", host.get_ref());
                        return Err(source.error(host.span().start, &text));
                    };
                    let mut settings = source.settings(section, command, CLIENT)?;
                    for setting in settings.iter_mut().filter(|one| one.option == ADDRESS) {
                        setting.arguments = of_host_address(&setting.arguments);
                    }
                    file.hosts.push((host.get_ref().to_string(), settings));
                }
            } else if COMMANDS.contains(&name) {
                let settings = source.settings(section, command, name)?;
                file.commands.push((name.to_owned(), settings));
            } else {
                let known = COMMANDS.map(|name| format!("[{name}]")).join(", ");
                let text =
                    format!("no section is called [{name}]; there are {known}, [{HOSTS}.NAME]");
                return Err(source.error(at, &text));
            }
        }
        Ok(file)
    }

    fn for_command(&self, name: &str) -> impl Iterator<Item = &Setting> {
        let section = self.commands.iter().find(|(section, _)| section == name);
        section.into_iter().flat_map(|(_, settings)| settings)
    }

    /// What is set for the server that the command line names.
    fn for_host(&self, typed: &ArgMatches) -> impl Iterator<Item = &Setting> {
        let only = typed.try_get_one::<Target>(TARGET).ok().flatten().cloned();
        let last =
            || typed.try_get_many::<OsString>(TARGET_IS_LAST).ok().flatten()?.next_back();
        let target = only.or_else(|| last()?.to_str()?.parse().ok());
        let section = self.hosts.iter().find(|(name, _)| {
            target.as_ref().is_some_and(|target| target.server().host() == name)
        });
        section.into_iter().flat_map(|(_, settings)| settings)
    }
}

/// The same arguments for the option of a server's section.
fn of_host_address(arguments: &[OsString]) -> Vec<OsString> {
    let replaced = |argument: &OsString| {
        let text = argument.to_string_lossy();
        let value = text.strip_prefix(&format!("--{ADDRESS}=")).map(str::to_owned);
        value.map_or_else(
            || argument.clone(),
            |value| format!("--{HOST_ADDRESS}={value}").into(),
        )
    };
    arguments.iter().map(replaced).collect()
}

/// A file's text, for errors that say where they are.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn place(&self, at: usize) -> String {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        format!("{}:{line}", self.path.display())
    }

    fn error(&self, at: usize, text: &str) -> Error {
        Error::Usage(format!("{}: {text}", self.place(at)))
    }

    fn settings(
        &self,
        section: &DeTable<'_>,
        command: &Command,
        name: &str,
    ) -> Result<Vec<Setting>, Error> {
        let unknown = || self.error(0, &format!("there is no command {name}"));
        let command = command.find_subcommand(name).ok_or_else(unknown)?;
        let mut settings = Vec::new();
        let mut options: Vec<_> = section.iter().collect();
        options.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in options {
            let (at, option) = (key.span().start, key.get_ref().as_ref());
            if find(command, option).is_none() {
                return Err(self.error(at, &format!("tack {name} has no option --{option}")));
            }
            let arguments = self.arguments(option, value)?;
            let (option, place) = (option.to_owned(), self.place(at));
            settings.push(Setting { option, arguments, place });
        }
        check_exclusions(command, &settings)?;
        Ok(settings)
    }

    /// An option as it would be typed.
    fn arguments(
        &self,
        option: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<OsString>, Error> {
        let with = |text: &str| -> OsString { format!("--{option}={}", expand(text)).into() };
        Ok(match value.get_ref() {
            DeValue::Boolean(true) => vec![format!("--{option}").into()],
            DeValue::Boolean(false) => Vec::new(),
            DeValue::String(text) => vec![with(text)],
            DeValue::Integer(number) => vec![with(number.as_str())],
            DeValue::Float(number) => vec![with(number.as_str())],
            DeValue::Array(values) => {
                let mut all = Vec::new();
                for value in values {
                    all.extend(self.arguments(option, value)?);
                }
                all
            }
            DeValue::Datetime(_) | DeValue::Table(_) => {
                let text =
                    "expected a text, a number, true, false, or several texts in brackets";
                return Err(self.error(value.span().start, text));
            }
        })
    }
}

/// A path below the home, as a shell would read it.
fn expand(text: &str) -> String {
    match (text.strip_prefix("~/"), std::env::var("HOME")) {
        (Some(rest), Ok(home)) => format!("{home}/{rest}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::cli::{self, Cli};
    use crate::target::Address;

    struct Files {
        _dir: tempfile::TempDir,
        paths: Vec<PathBuf>,
    }

    fn files(texts: &[&str]) -> Files {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> =
            (0..texts.len()).map(|n| dir.path().join(format!("{n}.toml"))).collect();
        for (path, text) in paths.iter().zip(texts) {
            fs::write(path, text).unwrap();
        }
        Files { _dir: dir, paths }
    }

    impl Files {
        fn read(&self, typed: &str) -> Result<cli::Command, String> {
            let arguments: Vec<_> = typed.split_whitespace().map(OsString::from).collect();
            match read_with(&Cli::command(), &arguments, &self.paths) {
                Ok(matches) => Ok(Cli::from_arg_matches(&matches).unwrap().command),
                Err(Failure::CommandLine(error)) => Err(error.to_string()),
                Err(Failure::File(error)) => Err(error.to_string()),
            }
        }

        fn get(&self, typed: &str) -> cli::GetArgs {
            match self.read(typed).unwrap() {
                cli::Command::Get(args) => args,
                other => panic!("{other:?}"),
            }
        }
    }

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn options_of_a_file_count_unless_the_command_line_says_otherwise() {
        let files =
            files(&["[get]\nretry = 5\npreserve = true\nupdate = false\nbackup = \".old\"\n\
                             exclude = [\"a\", \"b\"]\n[send]\nretry = 9\n"]);
        let args = files.get("tack get host/x");
        let transfer = &args.transfer;
        assert_eq!((transfer.retry, transfer.preserve, transfer.update), (5, true, false));
        assert!(transfer.backup.is_some());
        assert_eq!(transfer.exclude, ["a", "b"]);
        let args = files.get("tack get --retry 7 --exclude c host/x");
        assert_eq!(args.transfer.retry, 7);
        assert_eq!(
            args.transfer.exclude,
            ["c"],
            "what is typed takes the place of what is set"
        );
    }

    #[test]
    fn what_a_file_sets_can_be_taken_back() {
        let files = files(&["[get]\npreserve = true\nbackup = true\nexclude = [\"a\"]\n\
                             no-early-data = true\n[hosts.nas]\nno-preserve = true\n"]);
        let args = files.get("tack get host/x");
        assert!(args.transfer.preserve && args.connection.transport.no_early_data);
        let taken_back = "--no-preserve --no-backup --no-exclude --early-data";
        let args = files.get(&format!("tack get {taken_back} host/x"));
        assert!(!args.transfer.preserve && !args.connection.transport.no_early_data);
        assert!(args.transfer.backup.is_none() && args.transfer.exclude.is_empty());
        assert!(!files.get("tack get nas:x").transfer.preserve);
        assert!(files.get("tack get --preserve nas:x").transfer.preserve);
        let both = files.read("tack get --preserve --no-preserve host/x").unwrap_err();
        assert!(both.contains("cannot be used with"), "{both}");
    }

    #[test]
    fn an_option_that_wants_another_finds_it_in_a_file() {
        let files = files(&["[get]\npreserve = true\n[send]\nretry = 1\n"]);
        assert!(files.get("tack get --xattrs host/x").transfer.xattrs);
        let lacks = files.read("tack send --xattrs file host:").unwrap_err();
        assert!(lacks.contains("--preserve"), "{lacks}");
        let lacks = files.read("tack get").unwrap_err();
        assert!(lacks.contains("required"), "{lacks}");
        let wrong = files.read("tack get --xattrs --no-such-option host/x").unwrap_err();
        assert!(wrong.contains("--no-such-option"), "{wrong}");
    }

    #[test]
    fn of_two_settings_that_exclude_each_other_the_later_one_counts() {
        let pin = "[hosts.nas]\naddress = \"192.0.2.7\"\nfingerprint = \"";
        let print = "ab".repeat(32);
        let files = files(&[
            "[get]\ninsecure = true\nquiet = true\n",
            &format!("[get]\nverbose = true\n{pin}{print}\"\n"),
        ]);
        let args = files.get("tack get nas:x");
        assert!(!args.connection.insecure && args.connection.fingerprint.is_some());
    }

    #[test]
    fn two_settings_of_one_section_that_exclude_each_other_are_a_mistake() {
        let command = with_opposites(&Cli::command());
        let parse = |section: &str, one: &str, other: &str| {
            let text = format!("[{section}]\n{one} = true\n\n{other} = true\n");
            ConfigFile::parse(Path::new("file"), &text, &command).map_err(|e| e.to_string())
        };
        for name in COMMANDS {
            let subcommand = command.find_subcommand(name).unwrap();
            let sections = match name {
                CLIENT => &[CLIENT, "hosts.nas"][..],
                _ => &[name],
            };
            let options: Vec<_> = subcommand
                .get_arguments()
                .filter(|option| option.get_long().is_some())
                .collect();
            let (mut excluding, mut known) = (0, false);
            for (one, other) in
                options.iter().flat_map(|one| options.iter().map(move |other| (one, other)))
            {
                let (long, other_long) = (one.get_long().unwrap(), other.get_long().unwrap());
                let excludes =
                    excludes(subcommand, one, other) || excludes(subcommand, other, one);
                if long == other_long || !excludes {
                    continue;
                }
                excluding += 1;
                known |= (long, other_long) == ("insecure", "fingerprint");
                for section in sections {
                    let error = parse(section, long, other_long).unwrap_err();
                    let expected = format!(
                        "file:2 and file:4: {long} and {other_long} exclude each other; remove one"
                    );
                    assert_eq!(error, expected);
                }
            }
            let has_servers = ["get", "send", "ls"].contains(&name);
            assert!(excluding > 0 && known == has_servers, "{name}: {excluding}");
        }
        assert!(parse("get", "insecure", "preserve").is_ok());
    }

    #[test]
    fn what_is_not_set_takes_the_place_of_nothing_but_itself() {
        let pin = format!("fingerprint = \"{}\"\n", "ab".repeat(32));
        let nothing = ["insecure = false\n", "insecure = []\n"];
        for (trusted, not_set) in [pin.as_str(), "ca = \"ca.pem\"\n"]
            .into_iter()
            .flat_map(|trusted| nothing.map(|not_set| (trusted, not_set)))
        {
            for texts in [
                vec![format!("[ls]\n{trusted}{not_set}")],
                vec![format!("[ls]\n{not_set}{trusted}")],
                vec![format!("[hosts.nas]\n{trusted}{not_set}")],
                vec![format!("[hosts.nas]\n{not_set}{trusted}")],
                vec![format!("[ls]\n{trusted}[hosts.nas]\n{not_set}")],
                vec![format!("[ls]\n{not_set}[hosts.nas]\n{trusted}")],
                vec![format!("[ls]\n{trusted}"), format!("[ls]\n{not_set}")],
                vec![format!("[hosts.nas]\n{not_set}"), format!("[hosts.nas]\n{trusted}")],
            ] {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let cli::Command::Ls(args) = files(&texts).read("tack ls nas:").unwrap() else {
                    panic!("another command")
                };
                let connection = &args.connection;
                let is_pinned = connection.fingerprint.is_some();
                assert_eq!(is_pinned, trusted == pin, "{texts:?}");
                assert_eq!(connection.ca.is_some(), trusted != pin, "{texts:?}");
                assert!(!connection.insecure, "{texts:?}");
            }
        }
    }

    #[test]
    fn what_is_not_taken_back_stays_and_what_is_set_no_more_goes() {
        for (text, preserve) in [
            ("[get]\npreserve = true\n[hosts.nas]\nno-preserve = false\n", true),
            ("[hosts.nas]\nno-preserve = false\npreserve = true\n", true),
            ("[get]\npreserve = true\n[hosts.nas]\npreserve = false\n", false),
            ("[get]\nno-preserve = true\n[hosts.nas]\npreserve = true\n", true),
            ("[get]\npreserve = true\n[hosts.nas]\nno-preserve = true\n", false),
        ] {
            assert_eq!(
                files(&[text]).get("tack get nas:x").transfer.preserve,
                preserve,
                "{text}"
            );
        }
        let pin = format!("[get]\nfingerprint = \"{}\"\n", "ab".repeat(32));
        let insecure = "[get]\ninsecure = true\n";
        for (texts, typed) in [
            (&[&pin, insecure, "[get]\ninsecure = false\n"][..], "tack get host/x"),
            (&[&pin, insecure], "tack get --no-insecure host/x"),
        ] {
            let connection = files(texts).get(typed).connection;
            assert!(!connection.insecure && connection.fingerprint.is_some(), "{typed}");
        }
    }

    #[test]
    fn a_home_that_is_no_directory_has_no_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().join("tack").join(FILE);
        assert!(ConfigFile::read(&path, &Cli::command()).unwrap().is_none());
    }

    #[test]
    fn what_excludes_a_setting_wins_on_the_command_line() {
        let files = files(&["[get]\ninsecure = true\nverbose = true\n"]);
        let fingerprint = "0".repeat(64);
        let args = files.get(&format!("tack get -q --fingerprint {fingerprint} host/x"));
        assert!(!args.connection.insecure && args.connection.fingerprint.is_some());
        assert!(args.transfer.quiet && !args.transfer.verbose);
    }

    #[test]
    fn the_later_file_wins() {
        let files = files(&["[get]\nretry = 1\nparallel = 2\n", "[get]\nretry = 3\n"]);
        let args = files.get("tack get host/x");
        assert_eq!((args.transfer.retry, args.transfer.parallel), (3, 2));
    }

    #[test]
    fn an_option_that_lacks_another_one_is_told_with_that() {
        let files = files(&["[get]\nowner = true\n"]);
        let error = files.read("tack get host/x").unwrap_err();
        assert!(error.contains("were not provided: --preserve (set in "), "{error}");
        assert!(error.ends_with("0.toml:2)"), "{error}");
    }

    #[test]
    fn a_name_in_the_file_stands_for_another_server_and_an_address_only_says_where() {
        let files = files(&["[hosts.nas]\naddress = \"files.example:5\"\n"]);
        let args = files.get("tack get nas:x --address 192.0.2.7:6");
        assert_eq!(args.connection.address, Some(address("192.0.2.7:6")));
        assert!(args.connection.host_address.is_none(), "what is typed wins");
        let args = files.get("tack get nas:x");
        assert!(args.connection.address.is_none());
        assert_eq!(args.connection.host_address, Some(address("files.example:5")));
        let args = files.get("tack get nas:x --no-address");
        assert!(args.connection.host_address.is_none());
    }

    #[test]
    fn a_server_that_is_called_by_its_name_has_its_address_and_options() {
        let fingerprint = "1".repeat(64);
        let text = format!(
            "[get]\ninsecure = true\n[hosts.nas]\naddress = \"192.0.2.7:5\"\nfingerprint = \"{fingerprint}\"\n"
        );
        let files = files(&[&text.replace("insecure = true", "retry = 4")]);
        let args = files.get("tack get nas:x");
        assert_eq!(args.connection.host_address, Some(address("192.0.2.7:5")));
        assert!(args.connection.fingerprint.is_some());
        assert_eq!(args.transfer.retry, 4);
        assert!(files.get("tack get other:x").connection.host_address.is_none());
    }

    #[test]
    fn a_command_goes_without_what_it_has_not_of_a_servers_section() {
        let files = files(&["[hosts.nas]\naddress = \"192.0.2.7:5\"\nbwlimit = \"10M\"\n\
                             recursive = true\nwrite-limit = \"1M\"\nretry = 5\n"]);
        let args = files.get("tack get nas:x");
        assert_eq!((args.transfer.bwlimit, args.transfer.retry), (Some(10_000_000), 5));
        assert!(args.recursive && args.write_limit.is_some());
        let cli::Command::Send(args) = files.read("tack send file nas:").unwrap() else {
            panic!("another command")
        };
        assert_eq!((args.transfer.bwlimit, args.transfer.retry), (Some(10_000_000), 5));
        assert_eq!(args.connection.host_address, Some(address("192.0.2.7:5")));
        let cli::Command::Ls(args) = files.read("tack ls nas:").unwrap() else {
            panic!("another command")
        };
        assert!(args.recursive);
        assert_eq!(args.connection.host_address, Some(address("192.0.2.7:5")));
    }

    #[test]
    fn what_no_command_has_is_a_mistake_in_a_servers_section_for_all() {
        let files = files(&["[hosts.nas]\nbwlimt = \"10M\"\n"]);
        for typed in ["tack get nas:x", "tack send file nas:", "tack ls nas:"] {
            let error = files.read(typed).unwrap_err();
            assert!(error.contains("0.toml:2") && error.contains("--bwlimt"), "{error}");
        }
    }

    #[test]
    fn mistakes_in_a_file_are_told_with_its_line() {
        for (text, line, expected) in [
            ("[get]\nretry = 1\nretri = 2\n", 3, "no option --retri"),
            ("\n[fetch]\n", 2, "no section is called [fetch]"),
            ("retry = 1\n", 1, "outside of a section"),
            ("[hosts]\nnas = 1\n", 2, "[hosts.nas]"),
            ("[hosts.nas]\nname = \"x\"\n", 2, "no option --name"),
            ("[get]\nretry = {}\n", 2, "expected a text"),
            ("[get]\nretry = \n", 2, ""),
            ("[get]\nretry = \"soon\"\n", 2, "invalid value"),
        ] {
            let error = files(&[text]).read("tack get host/x").unwrap_err();
            assert!(error.contains(&format!("0.toml:{line}")), "{text}: {error}");
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn without_files_the_command_line_is_read_as_it_is() {
        let missing =
            Files { _dir: tempfile::tempdir().unwrap(), paths: vec!["/no/such/file".into()] };
        assert_eq!(missing.get("tack get host/x").transfer.retry, 60);
        assert!(missing.read("tack get --retry 1 --retry 2 host/x").is_err());
        assert!(missing.read("tack").is_err());
    }
}
