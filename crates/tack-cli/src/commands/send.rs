//! `tack send`

use std::io::stdin;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tack_transfer::{Event, Place, Source, TransferOptions, WirePath, is_closed};

use super::check_tree;
use super::connector::{Connector, Direct};
use super::event_paths::{EventPaths, Named, below};
use super::run::{self, Again};
use crate::cli::{SendArgs, TransferArgs};
use crate::error::Error;
use crate::target::Target;

/// Sends files and directories.
pub fn send(args: &SendArgs) -> Result<(), Error> {
    let profile = args.connection.transport.profile;
    let refuse = |error| run::refuse("send", profile, &args.transfer, (Duration::ZERO, error));
    let (paths, dest) = match args.places() {
        Ok(places) => places,
        Err(error) => return refuse(error),
    };
    if paths.iter().any(|source| source == Path::new("-")) {
        return send_standard_input(args, paths.len() == 1, &dest);
    }
    let sources = match sources(&paths) {
        Ok(sources) => sources,
        Err(error) => return refuse(error),
    };
    let path = dest.path().clone();
    let place = if dest.is_directory() { Place::Into(path) } else { Place::IntoOrAs(path) };
    let mut server = Direct::new(&dest, &args.connection);
    let destination = || Destination {
        place: place.clone(),
        shown: dest.path().as_str().to_owned(),
        login: None,
    };
    send_to("send", &mut server, (&paths, &sources), destination, &args.transfer)
}

/// What is named on the command line.
pub(super) fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, Error> {
    paths.iter().map(|path| Source::open(path).map_err(Error::from)).collect()
}

/// Where everything goes.
pub(super) struct Destination {
    pub(super) place: Place,
    /// What events call its path.
    pub(super) shown: String,
    /// How the user calls the machine, if it is not an address alone.
    pub(super) login: Option<String>,
}

impl Destination {
    /// What events call things: below the destination as it was typed. Errors of this end name what is sent.
    fn event_paths(self, paths: &[PathBuf], sources: &[Source]) -> EventPaths {
        let (Place::Into(at) | Place::As(at) | Place::IntoOrAs(at)) = self.place;
        let (mut names, mut bare) = (Vec::new(), Vec::new());
        for (path, source) in paths.iter().zip(sources) {
            let Some(name) = source.name() else {
                bare.push(path.display().to_string());
                continue;
            };
            if let Ok(remote) = at.join(name) {
                let shown = below(&self.shown, name.as_str());
                names.push(Named { remote, shown, local: Some(path.clone()) });
            }
        }
        // The new name of a single file, or a directory that holds all that has a name.
        let local = match paths {
            [only] => Some(only.clone()),
            _ => None,
        };
        names.push(Named { remote: at, shown: self.shown, local });
        EventPaths { names, bare, login: self.login }
    }
}

/// Sends to a server. `destination` is asked for once there is a connection.
pub(super) fn send_to(
    command: &'static str,
    server: &mut dyn Connector,
    (paths, sources): (&[PathBuf], &[Source]),
    destination: impl Fn() -> Destination,
    args: &TransferArgs,
) -> Result<(), Error> {
    let has_tree = sources.iter().any(Source::is_directory);
    let options = match check_tree(args, has_tree).and_then(|()| args.options()) {
        Ok(options) => options,
        Err(error) => {
            return run::refuse(command, server.profile(), args, (Duration::ZERO, error));
        }
    };
    run::run(command, server, (args, options), Again::Possible, |client, options, observe| {
        let destination = destination();
        let place = destination.place.clone();
        let told = destination.event_paths(paths, sources);
        let observe = &mut |event: Event<'_>| told.pass_on(event, observe);
        Ok(client.send(sources.to_vec(), &place, options, observe)?)
    })
}

/// Sends standard input as it comes to a server that runs already.
fn send_standard_input(args: &SendArgs, is_only: bool, dest: &Target) -> Result<(), Error> {
    let mut server = Direct::new(dest, &args.connection);
    let name = || (!dest.is_directory()).then(|| dest.path().clone());
    if name().is_none() {
        let refused = (Duration::ZERO, nameless());
        return run::refuse("send", server.profile(), &args.transfer, refused);
    }
    stream_to("send", &mut server, is_only, name, &args.transfer)
}

/// Sends standard input as it comes; its length is not known in advance. `name` is asked for the file's name once there
/// is a connection, and knows none if the destination is a directory.
pub(super) fn stream_to(
    command: &'static str,
    server: &mut dyn Connector,
    is_only: bool,
    name: impl Fn() -> Option<WirePath>,
    transfer: &TransferArgs,
) -> Result<(), Error> {
    let options = match stream_options(is_only, transfer) {
        Ok(options) => options,
        Err(error) => {
            return run::refuse(command, server.profile(), transfer, (Duration::ZERO, error));
        }
    };
    let again = Again::Impossible;
    run::run(command, server, (transfer, options), again, |client, options, observe| {
        let name = name().ok_or_else(nameless)?;
        Ok(client.send_stream(stdin(), &name, options, observe)?)
    })
}

/// The options, if standard input can be sent with them.
fn stream_options(is_only: bool, transfer: &TransferArgs) -> Result<TransferOptions, Error> {
    let refused = [
        (!is_only, "other files"),
        (transfer.dry_run, "--dry-run"),
        (transfer.delete, "--delete"),
        (transfer.owner, "--owner"),
        (transfer.xattrs, "--xattrs"),
        (transfer.update, "--update"),
        (transfer.ignore_existing, "--ignore-existing"),
    ];
    if let Some((_, what)) = refused.iter().find(|(is_given, _)| *is_given) {
        return Err(Error::Usage(format!("standard input (-) can't be sent with {what}")));
    }
    if is_closed(&stdin()) {
        return Err(Error::Usage("standard input (-) is closed".to_owned()));
    }
    transfer.options()
}

fn nameless() -> Error {
    Error::Usage(
        "standard input (-) needs a name at the other end, and that of no directory".to_owned(),
    )
}
