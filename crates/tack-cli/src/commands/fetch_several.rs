//! Fetching several things at once, each under its own name.

use std::path::{Path, PathBuf};

use super::closing::check_tree;
use super::connector::Connector;
use super::get::{Fetch, TreeDestination, open_destination, start};
use super::jobs;
use crate::cli::TransferArgs;
use crate::error::Error;
use crate::transfer::{Destination, WirePath};

/// Something to fetch.
pub(super) struct Named {
    /// What the user calls it.
    pub(super) shown: String,
    /// Its name here; without one it is a directory of which the content is fetched.
    pub(super) name: Option<String>,
}

/// Where to, and how.
pub(super) struct FetchOptions<'a> {
    /// A directory, or the file's new name if there is but one.
    pub(super) to: &'a Path,
    /// Whether directories are fetched.
    pub(super) recursive: bool,
    pub(super) transfer: &'a TransferArgs,
}

/// Fetches `things`, which are called `paths` at the server; that is asked for once there is a connection.
pub(super) fn fetch_several(
    command: &'static str,
    server: &mut dyn Connector,
    things: &[Named],
    paths: impl Fn() -> Vec<WirePath>,
    FetchOptions { to, recursive, transfer }: &FetchOptions<'_>,
) -> Result<(), Error> {
    check_tree(transfer, *recursive)?;
    let filter = transfer.filter()?;
    // Several things go into a directory.
    let to: PathBuf = if things.len() > 1 { to.join("") } else { (*to).to_owned() };
    let (mut first, again) = open_destination(&to, transfer)?;
    jobs::run(command, server, transfer, again, |run, producer| {
        for (thing, remote) in things.iter().zip(paths()) {
            let fetch = Fetch {
                remote,
                shown: thing.shown.clone(),
                name: thing.name.clone(),
                tree: TreeDestination::Named(to.clone()),
                recursive: *recursive,
                write_limit: None,
                transfer,
            };
            let dest = std::mem::replace(&mut first, Destination::Path(to.clone()));
            start(&fetch, dest, filter.clone(), run, producer.clone())?;
        }
        Ok(())
    })
}
