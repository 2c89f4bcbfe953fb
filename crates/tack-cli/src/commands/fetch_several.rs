//! Fetching several things at once, each under its own name.

use std::path::{Path, PathBuf};

use tack_transfer::{Get, WirePath};

use super::connector::Connector;
use super::get::{Reopened, open_destination};
use super::run;
use super::{check_tree, directory_as};
use crate::cli::TransferArgs;
use crate::error::Error;
use crate::exit::Exit;

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
    let options = transfer.options()?;
    // Several things go into a directory.
    let to: PathBuf = if things.len() > 1 { to.join("") } else { (*to).to_owned() };
    let (dest, again) = open_destination(&to, transfer)?;
    let mut dest = Reopened::new(dest);
    run::run(command, server, (transfer, options), again, |client, options, observe| {
        let paths = paths();
        if paths.len() != things.len() {
            return Err(Error::OtherEnd {
                text: format!(
                    "the other end serves {} of {} things",
                    paths.len(),
                    things.len()
                ),
                exit: Exit::Remote,
            });
        }
        let mut wanted = Vec::new();
        for (thing, remote) in things.iter().zip(&paths) {
            let get = Get::to(remote.clone(), dest.take()?).called(thing.name.clone());
            let get = get.under_own_name();
            wanted.push(if *recursive { get.recursive() } else { get });
        }
        let shown = |path: &WirePath| {
            let at = paths.iter().position(|known| known == path)?;
            things.get(at).map(|thing| thing.shown.clone())
        };
        client.get(wanted, options, observe).map_err(directory_as(shown))
    })
}
