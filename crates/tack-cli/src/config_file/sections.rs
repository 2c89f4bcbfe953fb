//! The sections of a file, as arguments that could be typed: what a file says, before anything on the command line counts.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::{ArgMatches, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ADDRESS, CLIENT, COMMANDS, HOST_ADDRESS, SYSTEM, check_exclusions, find};
use crate::error::Error;
use crate::progress::print;
use crate::target::Target;

const HOSTS: &str = "hosts";

/// The argument that names a server, or whose last value does.
const TARGET: &str = "source";

const TARGET_IS_LAST: &str = "sources_and_dest";

/// An option of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Its long name.
    pub(super) option: String,
    /// As arguments of a command.
    pub(super) arguments: Vec<OsString>,
    /// File and line.
    pub(super) place: String,
}

/// A file that has been read.
#[derive(Debug)]
pub(super) struct ConfigFile {
    /// Name of a command or of a server, and what is set for it.
    commands: Vec<(String, Vec<Setting>)>,
    hosts: Vec<(String, Vec<Setting>)>,
}

impl ConfigFile {
    /// `None` if there is no such file.
    pub(super) fn read(path: &Path, command: &Command) -> Result<Option<Self>, Error> {
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

    pub(super) fn parse(path: &Path, text: &str, command: &Command) -> Result<Self, Error> {
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

    pub(super) fn for_command(&self, name: &str) -> impl Iterator<Item = &Setting> {
        let section = self.commands.iter().find(|(section, _)| section == name);
        section.into_iter().flat_map(|(_, settings)| settings)
    }

    /// What is set for the server that the command line names.
    pub(super) fn for_host(&self, typed: &ArgMatches) -> impl Iterator<Item = &Setting> {
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
