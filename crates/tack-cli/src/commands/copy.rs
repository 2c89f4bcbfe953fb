//! `tack copy`

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tack_transfer::{Client, Place as ServerPlace, Source, Trust, WirePath};

use super::connector::{Access, Connector, connect};
use super::fetch_several::{FetchOptions, Named, fetch_several};
use super::run::refuse;
use super::send::{send_to, sources, stream_to};
use crate::cli::{CopyArgs, Profile, TOO_FEW};
use crate::error::Error;
use crate::ssh::{Login, Place, Request, Session, SshOptions, VERSION, Wanted};
use crate::termination::Termination;

/// How long the other end waits for a client beyond the time that the client tries for, in seconds.
const PATIENCE: u64 = 30;

/// Copies files from or to another machine that ssh can log in to.
pub fn copy(args: &CopyArgs) -> Result<(), Error> {
    let parse = |argument: &OsString| Place::parse(argument).map_err(Error::Usage);
    let mut places = args.places.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let destination = places.pop().filter(|_| !places.is_empty());
    match destination {
        Some(Place::Here(to)) => fetch(args, &to, from_one_login(places)?),
        Some(Place::There(login, path)) => {
            let here = |place| match place {
                Place::Here(path) => Ok(path),
                Place::There(other, _) => Err(Error::Usage(format!(
                    "{other} and {login}: tack copy copies between this machine and another one; \
                     run it on one of the two"
                ))),
            };
            send(
                args,
                &places.into_iter().map(here).collect::<Result<Vec<_>, _>>()?,
                login,
                path,
            )
        }
        None => Err(Error::Usage(format!("{TOO_FEW}, and one of them is [USER@]HOST:PATH"))),
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

fn send(args: &CopyArgs, paths: &[PathBuf], login: Login, to: String) -> Result<(), Error> {
    if paths.iter().any(|path| path == Path::new("-")) {
        let mut server = OverSsh::new(args, login, Wanted::Write(to));
        let served = Rc::clone(&server.served);
        let name = || {
            let served = served.borrow();
            served.paths.first().filter(|_| !served.is_directory).cloned()
        };
        return stream_to("copy", &mut server, paths.len() == 1, name, &args.transfer);
    }
    let sources: Vec<Source> = match sources(paths) {
        Ok(sources) => sources,
        Err(error) => {
            let profile = args.transport.profile;
            return refuse("copy", profile, &args.transfer, (Duration::ZERO, error));
        }
    };
    if let Some(directory) = sources.iter().position(Source::is_directory)
        && !args.recursive
    {
        let path = paths[directory].display();
        return Err(Error::Usage(format!(
            "{path} is a directory; pass -r to send it with everything in it"
        )));
    }
    let mut server = OverSsh::new(args, login, Wanted::Write(to));
    let served = Rc::clone(&server.served);
    let dest = || {
        let served = served.borrow();
        let path = served.paths.first().cloned().unwrap_or_default();
        if served.is_directory { ServerPlace::Into(path) } else { ServerPlace::As(path) }
    };
    send_to("copy", &mut server, &sources, dest, &args.transfer)
}

fn fetch(args: &CopyArgs, to: &Path, (login, from): (Login, Vec<String>)) -> Result<(), Error> {
    let named =
        |typed: &String| Named { shown: format!("{login}:{typed}"), name: name_of(typed) };
    let things: Vec<Named> = from.iter().map(named).collect();
    let mut server = OverSsh::new(args, login.clone(), Wanted::Read(from));
    let served = Rc::clone(&server.served);
    let paths = || served.borrow().paths.clone();
    let options = FetchOptions { to, recursive: args.recursive, transfer: &args.transfer };
    fetch_several("copy", &mut server, &things, paths, &options)
}

/// The name that something has here; none for `.` and the like, whose content is copied.
fn name_of(typed: &str) -> Option<String> {
    match Path::new(typed).components().next_back() {
        Some(Component::Normal(name)) if !typed.ends_with("/.") && typed != "~" => {
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
    fn new(args: &'a CopyArgs, login: Login, wanted: Wanted) -> Self {
        let request = Request {
            tack_copy: VERSION,
            wanted,
            ports: args.udp_port,
            patience: u64::from(args.transfer.retry) + PATIENCE,
            plain: args.transport.profile == Profile::Off,
            careful_resume: !args.transport.no_careful_resume,
        };
        let options = args.ssh_options();
        Self { args, login, options, request, session: None, served: Rc::default() }
    }

    /// The other end, which is started unless it is there.
    fn session(&mut self, may_ask: bool) -> Result<&Session, Error> {
        let mut session = self.session.take();
        if !session.as_mut().is_some_and(Session::is_alive) {
            session = None;
        }
        let session = match session {
            Some(session) => session,
            None => Session::start(&self.options, &self.login, &self.request, may_ask)?,
        };
        let paths = session.ready().paths.iter().map(|path| WirePath::new(path.as_str()));
        let paths = paths
            .collect::<Result<_, _>>()
            .map_err(|error| Error::Ssh(format!("{}: {error}", self.login)))?;
        let is_directory = session.ready().is_directory;
        *self.served.borrow_mut() = Served { paths, is_directory };
        Ok(self.session.insert(session))
    }
}

impl Connector for OverSsh<'_> {
    fn connect(
        &mut self,
        rate: Option<u64>,
        stop: Option<&Termination>,
    ) -> Result<Client, Error> {
        let args = self.args;
        // Later, nobody may be there to answer.
        let session = self.session(stop.is_none())?;
        let ready = session.ready();
        let fingerprint = ready.fingerprint.parse().map_err(Error::Ssh)?;
        let server = session.server();
        let access = Access {
            trust: Trust::Pinned(fingerprint),
            token: Some(ready.token.clone()),
            ended: Some(session.ended()),
            session: session.tls_session(&server),
            is_one_time: true,
        };
        connect(&server, access, &args.transport, rate, stop)
            .map_err(|error| self.explain(error))
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
