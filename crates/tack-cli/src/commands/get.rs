//! `tack get`

use std::path::{Path, PathBuf};
use std::time::Duration;

use tack_transfer::{Destination, Event, Get, TransferOptions};

use super::connector::Direct;
use super::event_paths::{EventPaths, Named, destination};
use super::run::{self, Again};
use super::{check_tree, directory_as};
use crate::cli::{GetArgs, TransferArgs};
use crate::destination::{check_mirror, check_path};
use crate::error::Error;

/// Fetches a file or a directory.
pub fn get(args: &GetArgs) -> Result<(), Error> {
    let (options, dest, again) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(error) => {
            let profile = args.connection.transport.profile;
            return run::refuse("get", profile, &args.transfer, (Duration::ZERO, error));
        }
    };
    let remote = args.source.path();
    let paths = event_paths(args);
    let mut dest = Reopened::new(dest);
    let mut server = Direct::new(&args.source, &args.connection);
    run::run(
        "get",
        &mut server,
        (&args.transfer, options),
        again,
        |client, options, observe| {
            let mut wanted = Get::to(remote.clone(), dest.take()?);
            if args.recursive {
                wanted = wanted.recursive();
            }
            if args.dest.is_none() {
                wanted = wanted.under_own_name();
            }
            let observe = &mut |event: Event<'_>| paths.pass_on(event, observe);
            let got = client.get(vec![wanted], options, observe);
            got.map_err(directory_as(|_| Some(format!("{}/{remote}", args.source))))
        },
    )
}

/// Finds out, before connecting, how and where to.
fn prepare(args: &GetArgs) -> Result<(TransferOptions, Destination, Again), Error> {
    if args.recursive && args.dest.is_none() && args.source.path().is_root() {
        return Err(Error::Usage(
            "name the directory that everything goes into (. is the current one)".to_owned(),
        ));
    }
    check_tree(&args.transfer, args.recursive)?;
    let dest = args.dest.as_deref().unwrap_or(Path::new("."));
    check_path(dest)?;
    if args.transfer.delete {
        check_mirror(&tree_destination(args))?;
    }
    let mut options = args.transfer.options()?;
    options.write_limit = args.write_limit;
    let (dest, again) = open_destination(dest, &args.transfer)?;
    Ok((options, dest, again))
}

/// The directory that the content of a directory goes into: without DEST, one of its name.
fn tree_destination(args: &GetArgs) -> PathBuf {
    let here = Path::new(".");
    args.dest.clone().unwrap_or_else(|| match args.source.path().split_last() {
        Some((_, name)) => here.join(name),
        None => here.to_owned(),
    })
}

/// What is fetched is called at both ends as it is at the server; errors of this end name where it goes here.
fn event_paths(args: &GetArgs) -> EventPaths {
    let remote = args.source.path();
    let name = remote.split_last().map(|(_, name)| name);
    let local = match &args.dest {
        Some(dest) if args.recursive => dest.clone(),
        dest => destination(dest.as_deref().unwrap_or(Path::new(".")), name),
    };
    let shown = remote.as_str().to_owned();
    let names = vec![Named { remote: remote.clone(), shown, local: Some(local) }];
    EventPaths { names, ..EventPaths::default() }
}

/// Opens what is fetched into, before connecting: a pipe may have to wait for its reader. What has gone
/// through one is gone, and nothing can be fetched again.
pub(super) fn open_destination(
    dest: &Path,
    args: &TransferArgs,
) -> Result<(Destination, Again), Error> {
    let opened = if args.dry_run {
        Destination::Path(dest.to_owned())
    } else {
        Destination::open(dest).map_err(Error::local(dest))?
    };
    match opened {
        Destination::Path(_) => Ok((opened, Again::Possible)),
        Destination::PassThrough(_) if args.json => Err(Error::Usage(
            "--json prints on standard output, where it would mix with what goes through a pipe \
             or device; leave it out"
                .to_owned(),
        )),
        Destination::PassThrough(_) => Ok((opened, Again::Impossible)),
    }
}

/// A destination for each time that something is fetched: a path again and again, a pipe once.
pub(super) struct Reopened {
    next: Option<Destination>,
}

impl Reopened {
    pub(super) fn new(first: Destination) -> Self {
        Self { next: Some(first) }
    }

    pub(super) fn take(&mut self) -> Result<Destination, Error> {
        let taken = self.next.take().ok_or_else(|| {
            Error::Usage("several things can't go through one pipe or device".to_owned())
        })?;
        if let Destination::Path(path) = &taken {
            self.next = Some(Destination::Path(path.clone()));
        }
        Ok(taken)
    }
}
