//! What ssh's configuration says of a host, as `ssh -G` prints it.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::dial::Dial;
use super::place::Login;
use super::session::{SshOptions, spawn};
use crate::error::Error;
use crate::waiting::{Patience, aside, wait_for};

/// How long ssh's start may wait for it: a round trip of a path on which one counts. The configuration may have ssh
/// ask name servers, or run programs.
const DELAYS_START_BY: Duration = Duration::from_millis(50);

/// What ssh's configuration says of a host.
#[derive(Debug, PartialEq)]
pub struct Configuration {
    /// The name or address of the host behind what the user calls it.
    pub hostname: String,
    /// How to connect in ssh's place, where that is all the same to ssh.
    pub dial: Option<Dial>,
}

impl Configuration {
    fn from_text(text: &str) -> Option<Self> {
        let lines: Vec<_> = text.lines().filter_map(|line| line.split_once(' ')).collect();
        let said = |key| lines.iter().find(|(name, _)| *name == key).map(|&(_, value)| value);
        Some(Self { hostname: said("hostname")?.to_owned(), dial: Dial::in_place_of(said) })
    }
}

/// Finds out what the configuration says, while ssh logs in or before it does.
pub enum Lookup {
    /// `None` comes of it if ssh does not say.
    Running(Receiver<Option<Configuration>>),
    /// It has come to this.
    Over(Option<Configuration>),
}

impl Lookup {
    pub fn start(
        options: &SshOptions,
        login: &Login,
        patience: Patience<'_>,
    ) -> Result<Self, Error> {
        let mut command = Command::new(&options.program);
        command.args(&options.arguments).args(["-G", "--", login.as_str()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Not over there, where it would inherit that it gets no signals.
        let lookup = spawn(&mut command, patience).ok();
        let told = aside(move |told| {
            // Fails if the wait is over.
            let _ = told.send(lookup.and_then(told_by));
        })?;
        Ok(Self::Running(told))
    }

    /// How to connect in ssh's place, if that is known soon.
    pub fn dial(&mut self) -> Option<&Dial> {
        if let Self::Running(told) = self
            && let Ok(known) = told.recv_timeout(DELAYS_START_BY)
        {
            *self = Self::Over(known);
        }
        match self {
            Self::Over(Some(configuration)) => configuration.dial.as_ref(),
            _ => None,
        }
    }

    /// The host's name or address.
    pub fn hostname(self, otherwise: &str, patience: Patience<'_>) -> Result<String, Error> {
        let configuration = match self {
            Self::Over(known) => known,
            Self::Running(told) => wait_for(&told, patience)?,
        };
        Ok(configuration.map_or_else(|| otherwise.to_owned(), |known| known.hostname))
    }
}

fn told_by(lookup: Child) -> Option<Configuration> {
    let output = lookup.wait_with_output().ok().filter(|output| output.status.success())?;
    Configuration::from_text(&String::from_utf8(output.stdout).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What OpenSSH prints without a configuration.
    const PLAIN: &str = "\
host there
hostname 192.0.2.1
port 22
addressfamily any
canonicalizehostname false
checkhostip no
nohostauthenticationforlocalhost no
proxyusefdpass no
tcpkeepalive yes
verifyhostkeydns false
connecttimeout none
";

    #[test]
    fn the_connection_is_made_in_the_place_of_ssh_only_where_it_is_all_the_same_to_it() {
        let dials = |text: &str| Configuration::from_text(text).unwrap().dial.is_some();
        assert!(dials(PLAIN));
        for added in [
            "proxycommand nc %h %p",
            "proxyjump other",
            "bindaddress 192.0.2.7",
            "bindinterface eth1",
        ] {
            assert!(!dials(&format!("{PLAIN}{added}\n")), "{added}");
        }
        for (changed, to) in [
            ("addressfamily any", "addressfamily inet6"),
            ("canonicalizehostname false", "canonicalizehostname true"),
            ("checkhostip no", "checkhostip yes"),
            ("nohostauthenticationforlocalhost no", "nohostauthenticationforlocalhost yes"),
            ("proxyusefdpass no", "proxyusefdpass yes"),
            ("verifyhostkeydns false", "verifyhostkeydns ask"),
            ("verifyhostkeydns false\n", ""),
        ] {
            assert!(!dials(&PLAIN.replace(changed, to)), "{changed}");
        }
    }

    #[test]
    fn a_program_that_says_nothing_of_the_host_is_no_ssh() {
        assert_eq!(Configuration::from_text("port 22\n"), None);
        let known = Configuration::from_text("hostname there.example\n").unwrap();
        assert_eq!((known.hostname.as_str(), known.dial), ("there.example", None));
    }
}
