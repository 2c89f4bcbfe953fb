//! `tack copy`

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tack_transfer::{Client, Place as ServerPlace, Source, Trust, WirePath};

use super::connector::{Access, Attempt, Connector, connect};
use super::event_paths::typed;
use super::fetch_several::{FetchOptions, Thing, fetch_several};
use super::run::refuse;
use super::send::{Destination, send_to, sources, stream_to};
use crate::cli::{CopyArgs, Profile, TOO_FEW};
use crate::error::Error;
use crate::ssh::{Login, Place, Request, Session, SshOptions, VERSION, Wanted};
use crate::waiting::{Patience, Unattended};

/// How long the other end waits for a client beyond the time that the client tries for, in seconds.
const PATIENCE: u64 = 30;
/// Names that the other end looks for at most, and how long all of them may be: more would make its command long.
const MOST_NAMES: usize = 16;
const MOST_NAME_BYTES: usize = 4096;
/// How long an attempt to connect again waits for ssh: as long as there may be another one, but no shorter and no longer
/// than this. An answer that is late by so much was lost with its connection, and ssh would not notice.
const ANSWER_WITHIN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// Copies files from or to another machine that ssh can log in to.
pub fn copy(args: &CopyArgs) -> Result<(), Error> {
    let plan = plan(&args.places).and_then(|plan| match &plan {
        Plan::Send { paths, .. } if paths.iter().any(|path| path == Path::new("-")) => {
            Ok((plan, Vec::new()))
        }
        Plan::Send { paths, .. } => {
            let sources = sources(paths)?;
            check_recursive(args, paths, &sources)?;
            Ok((plan, sources))
        }
        Plan::Fetch { .. } => Ok((plan, Vec::new())),
    });
    match plan {
        Ok((Plan::Fetch { login, from, to }, _)) => fetch(args, &to, (login, from)),
        Ok((Plan::Send { paths, login, to }, sources)) => {
            send(args, (&paths, &sources), login, to)
        }
        Err(error) => {
            let profile = args.transport.profile;
            refuse("copy", profile, &args.transfer, (Duration::ZERO, error))
        }
    }
}

/// What is copied where to.
enum Plan {
    /// From another machine.
    Fetch { login: Login, from: Vec<String>, to: PathBuf },
    /// To another machine.
    Send { paths: Vec<PathBuf>, login: Login, to: String },
}

fn plan(places: &[OsString]) -> Result<Plan, Error> {
    let parse = |argument: &OsString| Place::parse(argument).map_err(Error::Usage);
    let mut places = places.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let destination = places.pop().filter(|_| !places.is_empty());
    match destination {
        Some(Place::Here(to)) => {
            let (login, from) = from_one_login(places)?;
            Ok(Plan::Fetch { login, from, to })
        }
        Some(Place::There(login, to)) => {
            let here = |place| match place {
                Place::Here(path) => Ok(path),
                Place::There(other, _) => Err(Error::Usage(format!(
                    "{other} and {login}: tack copy copies between this machine and another one; \
                     run it on one of the two"
                ))),
            };
            let paths = places.into_iter().map(here).collect::<Result<_, _>>()?;
            Ok(Plan::Send { paths, login, to })
        }
        None => Err(Error::Usage(format!("{TOO_FEW}, and one of them is [USER@]HOST:PATH"))),
    }
}

/// Makes sure that a directory is only sent where the user wants that.
fn check_recursive(
    args: &CopyArgs,
    paths: &[PathBuf],
    sources: &[Source],
) -> Result<(), Error> {
    let mut named = paths.iter().zip(sources).filter(|_| !args.recursive);
    match named.find(|(_, source)| source.is_directory()) {
        Some((path, _)) => Err(Error::Usage(format!(
            "{} is a directory; pass -r to send it with everything in it",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// The paths of sources that are all at one other machine.
fn from_one_login(places: Vec<Place>) -> Result<(Login, Vec<String>), Error> {
    let mut found: Option<(Login, Vec<String>)> = None;
    for place in places {
        match (place, &mut found) {
            (Place::Here(path), _) => {
                return Err(Error::Usage(format!(
                    "{}: source and destination are on this machine; one has to be [USER@]HOST:PATH",
                    path.display()
                )));
            }
            (Place::There(login, path), None) => found = Some((login, vec![path])),
            (Place::There(login, path), Some((first, paths))) if login == *first => {
                paths.push(path);
            }
            (Place::There(login, _), Some((first, _))) => {
                return Err(Error::Usage(format!(
                    "sources at {first} and {login}; copy from one machine at a time"
                )));
            }
        }
    }
    found.ok_or_else(|| Error::Usage("nothing to copy".to_owned()))
}

fn send(
    args: &CopyArgs,
    (paths, sources): (&[PathBuf], &[Source]),
    login: Login,
    to: String,
) -> Result<(), Error> {
    let (shown, named) = (typed(&to), login.to_string());
    let mut server = OverSsh::new(args, login, Wanted::Write(to), names_of(sources));
    if args.transfer.delete {
        server.request.mirrors = mirrors_of(sources);
    }
    let served = Rc::clone(&server.served);
    if paths.len() > sources.len() {
        let name = || {
            let served = served.borrow();
            served.paths.first().filter(|_| !served.is_directory).cloned()
        };
        return stream_to("copy", &mut server, paths.len() == 1, name, &args.transfer);
    }
    let dest = || {
        let served = served.borrow();
        let path = served.paths.first().cloned().unwrap_or_default();
        let place =
            if served.is_directory { ServerPlace::Into(path) } else { ServerPlace::As(path) };
        Destination { place, shown: shown.clone(), login: Some(named.clone()) }
    };
    send_to("copy", &mut server, (paths, sources), dest, &args.transfer)
}

fn fetch(args: &CopyArgs, to: &Path, (login, from): (Login, Vec<String>)) -> Result<(), Error> {
    let thing = |path: &String| Thing {
        shown: format!("{login}:{path}"),
        name: name_of(path),
        typed: Some(typed(path)),
    };
    let things: Vec<Thing> = from.iter().map(thing).collect();
    let named = Some(login.to_string());
    let mut server = OverSsh::new(args, login.clone(), Wanted::Read(from), Vec::new());
    let served = Rc::clone(&server.served);
    let paths = || served.borrow().paths.clone();
    let (recursive, transfer) = (args.recursive, &args.transfer);
    let options = FetchOptions { to, recursive, transfer, login: named };
    fetch_several("copy", &mut server, &things, paths, &options)
}

/// The name that something has here; none for `.` and the like, whose content is copied.
fn name_of(typed: &str) -> Option<String> {
    match Path::new(typed).components().next_back() {
        // However many slashes and dots are behind it, `~` is the home.
        Some(Component::Normal(name))
            if !typed.ends_with("/.") && Path::new(typed) != Path::new("~") =>
        {
            name.to_str().map(str::to_owned)
        }
        _ => None,
    }
}

/// Connects to a server that ssh starts.
struct OverSsh<'a> {
    args: &'a CopyArgs,
    login: Login,
    options: SshOptions,
    request: Request,
    session: Option<Session>,
    /// Whether the other end of the session has not answered.
    is_doubted: bool,
    served: Rc<RefCell<Served>>,
}

/// What the other end serves.
#[derive(Default)]
struct Served {
    /// What is wanted, as it is called there.
    paths: Vec<WirePath>,
    /// Whether the path to write to is a directory.
    is_directory: bool,
}

impl<'a> OverSsh<'a> {
    fn new(args: &'a CopyArgs, login: Login, wanted: Wanted, names: Vec<String>) -> Self {
        let request = Request {
            tack_copy: VERSION,
            wanted,
            ports: args.udp_port,
            patience: u64::from(args.transfer.retry) + PATIENCE,
            plain: args.transport.profile == Profile::Off,
            careful_resume: !args.transport.no_careful_resume,
            names,
            mirrors: Vec::new(),
        };
        let options = args.ssh_options();
        Self {
            args,
            login,
            options,
            request,
            session: None,
            is_doubted: false,
            served: Rc::default(),
        }
    }

    /// Makes sure that there is another end: starts it unless it is there. Returns whether it was.
    fn have_session(&mut self, attempt: Attempt<'_>) -> Result<bool, Error> {
        let is_doubted = std::mem::take(&mut self.is_doubted);
        let is_there = self.session.as_mut().is_some_and(Session::is_alive);
        if !is_there {
            self.session = None;
        } else if !is_doubted {
            return Ok(true);
        }
        // Later, the user may be away.
        let unattended = attempt.left.map(|left| Unattended {
            until: Instant::now() + left.clamp(ANSWER_WITHIN.0, ANSWER_WITHIN.1),
            // The connection that the session goes over is doubted as well.
            shares: !is_doubted,
        });
        let patience = Patience { stop: attempt.stop, unattended };
        // A session that is doubted may be the only one that the user is there to log in for: if there is no other, the
        // next attempt is over it.
        let session = Session::start(&self.options, &self.login, &self.request, patience)?;
        let paths = session.ready().paths.iter().map(|path| WirePath::new(path.as_str()));
        let paths = paths
            .collect::<Result<_, _>>()
            .map_err(|error| Error::Ssh(format!("{}: {error}", self.login)))?;
        let is_directory = session.ready().is_directory;
        *self.served.borrow_mut() = Served { paths, is_directory };
        self.session = Some(session);
        Ok(false)
    }

    fn connect_to(
        &self,
        session: &Session,
        rate: Option<u64>,
        attempt: Attempt<'_>,
    ) -> Result<Client, Error> {
        let ready = session.ready();
        let fingerprint = ready.fingerprint.parse().map_err(Error::Ssh)?;
        let server = session.server(Patience::of_user(attempt.stop))?;
        let access = Access {
            trust: Trust::Pinned(fingerprint),
            token: Some(ready.token.clone()),
            ended: Some(session.ended()),
            session: session.tls_session(&server),
            is_one_time: true,
        };
        let mut client = connect(&server, access, &self.args.transport, rate, attempt)?;
        // What an attempt before has sent is there.
        if ready.has_nothing && attempt.is_first() {
            client.expect_nothing_there();
        }
        Ok(client)
    }
}

/// The names of what is sent; none if they are many, or not all of them are known.
fn names_of(sources: &[Source]) -> Vec<String> {
    let names: Option<Vec<_>> =
        sources.iter().map(|source| Some(source.name()?.as_str().to_owned())).collect();
    let is_short = |names: &Vec<String>| {
        names.len() <= MOST_NAMES
            && names.iter().map(String::len).sum::<usize>() <= MOST_NAME_BYTES
    };
    names.filter(is_short).unwrap_or_default()
}

/// The names of directories that are sent, empty where one's content is.
fn mirrors_of(sources: &[Source]) -> Vec<String> {
    let directories = sources.iter().filter(|source| source.is_directory());
    let name = |source: &Source| source.name().map(|name| name.as_str().to_owned());
    directories.map(|source| name(source).unwrap_or_default()).collect()
}

/// Whether no answer came, so that the other end may be gone without ssh's knowledge.
fn is_unanswered(error: &Error) -> bool {
    matches!(
        error,
        Error::NoAnswer { .. }
            | Error::Refused { .. }
            | Error::ConnectionLost { may_pass: true, .. }
    )
}

impl Connector for OverSsh<'_> {
    fn connect(&mut self, rate: Option<u64>, attempt: Attempt<'_>) -> Result<Client, Error> {
        let was_there = self.have_session(attempt)?;
        let Some(session) = &self.session else {
            return Err(Error::Ssh(format!("there is no session with {}", self.login)));
        };
        let connected = self.connect_to(session, rate, attempt);
        // What has just been started is there: UDP does not get through, for now or at all.
        self.is_doubted = was_there && connected.as_ref().is_err_and(is_unanswered);
        connected.map_err(|error| self.explain(error))
    }

    fn explain(&self, error: Error) -> Error {
        match error {
            Error::NoAnswer { target, seconds } => {
                Error::NoUdp { target, outcome: format!("no answer within {seconds} s") }
            }
            Error::Refused { target } => {
                Error::NoUdp { target, outcome: "nothing but a refusal".to_owned() }
            }
            other => other,
        }
    }

    fn profile(&self) -> Profile {
        self.args.transport.profile
    }

    fn serves_one(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_keep_their_names_unless_they_have_none() {
        for (typed, name) in [
            ("a/b", Some("b")),
            ("a/b/", Some("b")),
            ("~/a", Some("a")),
            ("~", None),
            ("~/", None),
            ("~//", None),
            ("~/.", None),
            ("~/./", None),
            ("~/~", Some("~")),
            ("./~", Some("~")),
            ("", None),
            (".", None),
            ("a/.", None),
            ("a/..", None),
            ("/", None),
        ] {
            assert_eq!(name_of(typed).as_deref(), name, "{typed:?}");
        }
    }
}
