//! How a command connects, for the first time and after a connection is lost.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tack_transfer::{Client, ConnectOptions, Fingerprint, ServerAddress, TlsSession, Trust};

use crate::cli::{ConnectionArgs, Profile, TransportArgs};
use crate::error::Error;
use crate::known_hosts::{KnownHost, KnownHosts};
use crate::progress::print;
use crate::target::Target;
use crate::termination::Termination;
use crate::user_directories;
use crate::waiting::{Patience, aside, wait_for};

/// Most bytes of answers to one question.
const MOST_ANSWERS: u64 = 4096;

/// An attempt to connect, after signals have been taken over.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    /// Ends waiting.
    pub(super) stop: &'a Termination,
    /// How much longer there can be another one, where this is not the first one.
    pub(super) left: Option<Duration>,
}

impl Attempt<'_> {
    /// Whether the command has not been connected before: later, the user may be away.
    pub(super) fn is_first(self) -> bool {
        self.left.is_none()
    }
}

/// Connects a command to its server.
pub(super) trait Connector {
    /// Connects. `rate` is the most bytes per second in each direction, if there is a limit.
    fn connect(&mut self, rate: Option<u64>, attempt: Attempt<'_>) -> Result<Client, Error>;

    /// What the user is told of an error that an operation has ended with.
    fn explain(&self, error: Error) -> Error {
        error
    }

    /// What acknowledges the data.
    fn profile(&self) -> Profile;

    /// Whether the server is there for this command alone, and reports of it to this client only.
    fn serves_one(&self) -> bool {
        false
    }
}

/// Connects a command for the first time; `stop` ends that. The error is explained.
pub(super) fn first_connection(
    server: &mut dyn Connector,
    rate: Option<u64>,
    stop: &Termination,
) -> Result<Client, Error> {
    let connected = server.connect(rate, Attempt { stop, left: None });
    // A signal ends ssh as well, whose error tells nothing then.
    connected.map_err(|error| {
        if stop.is_requested() { Error::Interrupted } else { server.explain(error) }
    })
}

/// Connects to a server that runs already.
pub(super) struct Direct<'a> {
    target: &'a Target,
    args: &'a ConnectionArgs,
    /// What was known of the server when it was connected to.
    known: Option<KnownHost>,
}

impl<'a> Direct<'a> {
    pub(super) fn new(target: &'a Target, args: &'a ConnectionArgs) -> Self {
        Self { target, args, known: None }
    }

    /// The server whose certificate is expected: a name of a configuration file stands for another one.
    fn named(&self) -> ServerAddress {
        let typed = self.target.server();
        let meant = self.args.host_address.as_ref();
        meant.map_or_else(|| typed.clone(), |address| address.for_server(typed))
    }
}

impl Connector for Direct<'_> {
    fn connect(&mut self, rate: Option<u64>, attempt: Attempt<'_>) -> Result<Client, Error> {
        let token = self.args.token()?;
        let named = self.named();
        let server = match &self.args.address {
            None => named.clone(),
            Some(address) => {
                let place = address.for_server(&named);
                let addresses = resolved(&place, attempt.stop)?.resolve()?;
                ServerAddress::new(named.host(), place.port()).at(addresses)
            }
        };
        let try_with = |trust| {
            let token = token.clone();
            let access =
                Access { trust, token, ended: None, session: None, is_one_time: false };
            connect(&server, access, &self.args.transport, rate, attempt)
        };
        let trust = self.args.trust();
        if !matches!(trust, Trust::Authorities(None)) {
            return try_with(trust);
        }
        let file = self.args.known_hosts.as_deref();
        let Some(hosts) = file.map(KnownHosts::at).or_else(KnownHosts::of_user) else {
            return try_with(trust);
        };
        let host = named.to_string();
        self.known = hosts.find(&host)?;
        if let Some(known) = &self.known {
            let connected = try_with(Trust::Pinned(known.fingerprint));
            return connected.map_err(|error| changed_since(known, error));
        }
        match try_with(trust) {
            Err(Error::Untrusted(reason)) if attempt.is_first() => {
                let terminal = Terminal::open();
                // Asking takes longer than a server waits.
                match (try_with(Trust::Asked), terminal) {
                    (Err(Error::UnknownHost(fingerprint)), None) => {
                        Err(Error::UnknownHost(fingerprint))
                    }
                    (_, None) => Err(Error::Untrusted(reason)),
                    (Err(Error::UnknownHost(fingerprint)), Some(terminal)) => {
                        if !terminal.asks(&host, fingerprint, &hosts, attempt.stop)? {
                            return Err(Error::Untrusted("you have said so".to_owned()));
                        }
                        hosts.add(&host, fingerprint)?;
                        try_with(Trust::Pinned(fingerprint))
                    }
                    (other, Some(_)) => other,
                }
            }
            result => result,
        }
    }

    /// Where a session is resumed, another certificate shows only behind the first requests.
    fn explain(&self, error: Error) -> Error {
        match &self.known {
            Some(known) => changed_since(known, error),
            None => error,
        }
    }

    fn profile(&self) -> Profile {
        self.args.transport.profile
    }
}

/// Where the user is asked.
struct Terminal(File);

impl Terminal {
    /// `None` if nobody would see a question: standard error goes elsewhere, or there is no terminal.
    fn open() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        // Standard input may be what is sent.
        OpenOptions::new().read(true).write(true).open("/dev/tty").ok().map(Self)
    }

    fn asks(
        mut self,
        host: &str,
        fingerprint: Fingerprint,
        hosts: &KnownHosts,
        stop: &Termination,
    ) -> Result<bool, Error> {
        let path = hosts.path().display();
        let failed = || Error::local("/dev/tty");
        write!(
            self.0,
            "{host} is not known. Its certificate has the fingerprint (SHA-256)\n  {fingerprint}\n\
             If tack serve has printed the same there, it is the right server. Trust it from now on, \
             and keep it in {path} (yes/no)? "
        )
        .map_err(failed())?;
        let answer = aside(move |told| {
            // Fails if the wait is over.
            let _ = told.send(self.answer());
        })?;
        wait_for(&answer, Patience::of_user(stop))?.map_err(failed())
    }

    /// What the user says: yes or no.
    fn answer(&self) -> io::Result<bool> {
        let mut answers = BufReader::new(&self.0).take(MOST_ANSWERS);
        loop {
            let mut answer = String::new();
            if answers.read_line(&mut answer)? == 0 {
                return Ok(false);
            }
            match answer.trim().to_lowercase().as_str() {
                "yes" => return Ok(true),
                "no" => return Ok(false),
                _ => write!(&self.0, "yes or no? ")?,
            }
        }
    }
}

/// What lets a client in, and tells it the right server.
pub(super) struct Access {
    pub(super) trust: Trust,
    pub(super) token: Option<String>,
    /// Set when the server is known to have ended.
    pub(super) ended: Option<Arc<AtomicBool>>,
    /// The TLS session that it has given.
    pub(super) session: Option<TlsSession>,
    /// Whether the server is there for the occasion: the next one has another port, and knows no session.
    pub(super) is_one_time: bool,
}

/// Connects as the user wants it.
pub(super) fn connect(
    server: &ServerAddress,
    access: Access,
    args: &TransportArgs,
    rate: Option<u64>,
    attempt: Attempt<'_>,
) -> Result<Client, Error> {
    let server = &resolved(server, attempt.stop)?;
    let is_anybody = matches!(access.trust, Trust::Anything);
    let mut options = ConnectOptions::new(access.trust);
    options.token = access.token;
    options.ended = access.ended;
    options.port_varies = access.is_one_time;
    options.profile = args.profile.into();
    options.qlog.clone_from(&args.qlog);
    options.cc_parameters = user_directories::cc_parameters(!args.no_careful_resume);
    // Who connects again has to know first whether there is a server.
    let resumes = !args.no_early_data && attempt.is_first();
    options.sessions = user_directories::sessions(resumes && !access.is_one_time);
    options.session = access.session.filter(|_| resumes);
    options.rate = rate;
    options.stop = Some(attempt.stop.flag());
    let mut client = Client::connect(server, options)?;
    if is_anybody && let Some(fingerprint) = client.fingerprint() {
        print(&format!(
            "warning: with --insecure this may be anybody's server; once you know that it is the \
             right one, pass --fingerprint {fingerprint}"
        ));
    }
    Ok(client)
}

/// The server with its addresses, which name servers may take long to tell.
fn resolved(server: &ServerAddress, stop: &Termination) -> Result<ServerAddress, Error> {
    if server.ip().is_some() {
        return Ok(server.clone());
    }
    let asked = server.clone();
    let told = aside(move |told| {
        // Fails if the wait is over.
        let _ = told.send(asked.resolve());
    })?;
    let addresses = wait_for(&told, Patience::of_user(stop))??;
    Ok(server.clone().at(addresses))
}

/// The error when a server that the user has trusted before has another certificate.
fn changed_since(known: &KnownHost, error: Error) -> Error {
    match error {
        Error::WrongFingerprint { expected, actual } => {
            Error::ChangedCertificate { place: known.place.clone(), expected, actual }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_certificate_of_a_known_server_is_told_with_the_line_that_knows_it() {
        let (good, other) = (Fingerprint::of(b"good"), Fingerprint::of(b"other"));
        let known = KnownHost { fingerprint: good, place: "file:7".to_owned() };
        let wrong = tack_transfer::Error::WrongFingerprint { expected: good, actual: other };
        let error = changed_since(&known, wrong.into()).to_string();
        for told in ["file:7", &good.to_string(), &other.to_string()] {
            assert!(error.contains(told), "{told}: {error}");
        }
    }
}
