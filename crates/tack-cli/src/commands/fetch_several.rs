//! Fetching several things at once, each under its own name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tack_transfer::{Destination, Get, TransferOptions, WirePath};

use super::connector::Connector;
use super::event_paths::{EventPaths, Named, destination};
use super::get::{Reopened, open_destination};
use super::run::{self, Again};
use super::{check_tree, directory_as};
use crate::cli::TransferArgs;
use crate::destination::{check_mirror, check_path};
use crate::error::Error;
use crate::exit::Exit;

/// Something to fetch.
pub(super) struct Thing {
    /// What the user calls it.
    pub(super) shown: String,
    /// Its name here; without one it is a directory of which the content is fetched.
    pub(super) name: Option<String>,
    /// What events call it; as the server does, if there is none.
    pub(super) typed: Option<String>,
}

/// Where to, and how.
pub(super) struct FetchOptions<'a> {
    /// A directory, or the file's new name if there is but one.
    pub(super) to: &'a Path,
    /// Whether directories are fetched.
    pub(super) recursive: bool,
    pub(super) transfer: &'a TransferArgs,
    /// How the user calls the other machine, if it is not an address alone.
    pub(super) login: Option<String>,
}

/// Finds out, before connecting, how and where to.
fn prepare(
    things: &[Thing],
    options: &FetchOptions<'_>,
) -> Result<(TransferOptions, PathBuf, Destination, Again), Error> {
    let FetchOptions { to, recursive, transfer, .. } = options;
    check_tree(transfer, *recursive)?;
    // Several things go into a directory.
    let to: PathBuf = if things.len() > 1 { to.join("") } else { (*to).to_owned() };
    check_path(&to)?;
    for thing in things.iter().filter(|_| transfer.delete) {
        let content_of = thing.name.as_ref().map(|name| to.join(name));
        check_mirror(content_of.as_ref().unwrap_or(&to))?;
    }
    let options = transfer.options()?;
    let (dest, again) = open_destination(&to, transfer)?;
    Ok((options, to, dest, again))
}

/// What is fetched is called as it was typed; errors of this end name where it goes here.
fn event_paths(
    things: &[Thing],
    paths: &[WirePath],
    to: &Path,
    fetch: &FetchOptions<'_>,
) -> EventPaths {
    let named = |(thing, remote): (&Thing, &WirePath)| {
        let local = match &thing.name {
            Some(name) if fetch.recursive => to.join(name),
            name => destination(to, name.as_deref()),
        };
        let shown = thing.typed.clone().unwrap_or_else(|| remote.as_str().to_owned());
        Named { remote: remote.clone(), shown, local: Some(local) }
    };
    let names = things.iter().zip(paths).map(named).collect();
    EventPaths { names, login: fetch.login.clone(), ..EventPaths::default() }
}

/// Fetches `things`, which are called `paths` at the server; that is asked for once there is a connection.
pub(super) fn fetch_several(
    command: &'static str,
    server: &mut dyn Connector,
    things: &[Thing],
    paths: impl Fn() -> Vec<WirePath>,
    fetch: &FetchOptions<'_>,
) -> Result<(), Error> {
    let transfer = fetch.transfer;
    let (options, to, dest, again) = match prepare(things, fetch) {
        Ok(prepared) => prepared,
        Err(error) => {
            return run::refuse(command, server.profile(), transfer, (Duration::ZERO, error));
        }
    };
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
            wanted.push(if fetch.recursive { get.recursive() } else { get });
        }
        let shown = |path: &WirePath| {
            let at = paths.iter().position(|known| known == path)?;
            things.get(at).map(|thing| thing.shown.clone())
        };
        let told = event_paths(things, &paths, &to, fetch);
        let got = client.get(wanted, options, &mut |event| told.pass_on(event, observe));
        got.map_err(directory_as(shown))
    })
}
