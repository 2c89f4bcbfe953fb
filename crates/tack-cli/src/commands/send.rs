//! `tack send`

use std::io::stdin;
use std::path::{Path, PathBuf};

use tack_transfer::{Place, Source};

use super::check_tree;
use super::connector::{Connector, Direct};
use super::run::{self, Again};
use crate::cli::{SendArgs, TransferArgs};
use crate::error::Error;

/// Sends files and directories.
pub fn send(args: &SendArgs) -> Result<(), Error> {
    if args.sources.iter().any(|source| source == Path::new("-")) {
        return send_standard_input(args);
    }
    let sources = sources(&args.sources)?;
    let path = args.dest.path().clone();
    let place =
        if args.dest.is_directory() { Place::Into(path) } else { Place::IntoOrAs(path) };
    let mut server = Direct { target: &args.dest, args: &args.connection };
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

/// Sends standard input as it comes; its length is not known in advance.
fn send_standard_input(args: &SendArgs) -> Result<(), Error> {
    let transfer = &args.transfer;
    let refused = [
        (args.sources.len() > 1, "other files"),
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
    if args.dest.is_directory() {
        return Err(Error::Usage(
            "standard input (-) needs a name at the server: HOST:PORT/PATH, without a slash at \
             the end"
                .to_owned(),
        ));
    }
    let options = transfer.options()?;
    let mut server = Direct { target: &args.dest, args: &args.connection };
    let again = Again::Impossible;
    run::run("send", &mut server, (transfer, options), again, |client, options, observe| {
        Ok(client.send_stream(stdin(), args.dest.path(), options, observe)?)
    })
}
