//! `tack send`

use std::io::stdin;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tack_transfer::{Place, Source, WirePath, is_closed};

use super::check_tree;
use super::connector::{Connector, Direct};
use super::run::{self, Again};
use crate::cli::{SendArgs, TransferArgs};
use crate::error::Error;
use crate::target::Target;

/// Sends files and directories.
pub fn send(args: &SendArgs) -> Result<(), Error> {
    let (paths, dest) = args.places()?;
    if paths.iter().any(|source| source == Path::new("-")) {
        return send_standard_input(args, paths.len() == 1, &dest);
    }
    let sources = match sources(&paths) {
        Ok(sources) => sources,
        Err(error) => {
            let profile = args.connection.transport.profile;
            return run::refuse("send", profile, &args.transfer, (Duration::ZERO, error));
        }
    };
    let path = dest.path().clone();
    let place = if dest.is_directory() { Place::Into(path) } else { Place::IntoOrAs(path) };
    let mut server = Direct::new(&dest, &args.connection);
    send_to("send", &mut server, &sources, || place.clone(), &args.transfer)
}

/// What is named on the command line.
pub(super) fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, Error> {
    paths.iter().map(|path| Source::open(path).map_err(Error::from)).collect()
}

/// Sends to a server. `place` is asked for once there is a connection.
pub(super) fn send_to(
    command: &'static str,
    server: &mut dyn Connector,
    sources: &[Source],
    place: impl Fn() -> Place,
    args: &TransferArgs,
) -> Result<(), Error> {
    let options = args.options()?;
    check_tree(args, sources.iter().any(Source::is_directory))?;
    run::run(command, server, (args, options), Again::Possible, |client, options, observe| {
        Ok(client.send(sources.to_vec(), &place(), options, observe)?)
    })
}

/// Sends standard input as it comes to a server that runs already.
fn send_standard_input(args: &SendArgs, is_only: bool, dest: &Target) -> Result<(), Error> {
    if dest.is_directory() {
        return Err(nameless());
    }
    let mut server = Direct::new(dest, &args.connection);
    let name = || Some(dest.path().clone());
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
    let options = transfer.options()?;
    let again = Again::Impossible;
    run::run(command, server, (transfer, options), again, |client, options, observe| {
        let name = name().ok_or_else(nameless)?;
        Ok(client.send_stream(stdin(), &name, options, observe)?)
    })
}

fn nameless() -> Error {
    Error::Usage(
        "standard input (-) needs a name at the other end, and that of no directory".to_owned(),
    )
}
