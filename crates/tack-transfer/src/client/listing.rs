//! Listing what a server has.

use std::io;
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

use super::jobs::TURN;
use crate::error::{Error, Feature};
use crate::protocol::{
    EntryKind, FileEntry, Group, Message, Mtime, TransferError, WirePath, printable,
};
use crate::session::{Link, Mailbox};

/// How long to let the server close its stream once everything is passed on.
const FAREWELL: Duration = Duration::from_secs(2);

/// Part of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listed {
    /// A file or directory.
    Entry {
        /// Relative to what is listed.
        path: WirePath,
        /// What it is.
        kind: ListedKind,
        /// Its permissions, if they are known.
        mode: Option<u32>,
    },
    /// Something that can't be transferred.
    Skipped {
        /// Its name, printable.
        name: String,
        /// Why, printable.
        reason: String,
        /// Whether this is a failure, and not merely no regular file.
        error: bool,
    },
}

/// What a listed path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListedKind {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
        /// When it was last modified, if that is known.
        modified: Option<Mtime>,
    },
}

type ListingError = Result<TransferError, io::Error>;

/// Runs the connection until all is passed on to `take`.
pub(super) fn list(
    link: &mut Link,
    path: WirePath,
    recursive: bool,
    is_over: impl Fn() -> bool,
    take: impl FnMut(&[Listed]) -> io::Result<()> + Send + 'static,
) -> Result<(), Error> {
    if path.has_backslash() {
        link.require_current(Feature::Backslashes)?;
    }
    let mailbox = loop {
        turn(link, &is_over)?;
        if let Some(mailbox) = link.open()? {
            break mailbox;
        }
    };
    let (tell, result) = mpsc::channel();
    let mut listing = Listing { take, recursive, directory: WirePath::root() };
    // A worker of its own, because whoever takes the entries may be slow.
    let follow = move || {
        let listed = listing.follow(&mailbox, &path);
        // The mailbox goes first, so that the stream has ended when the result is there.
        drop(mailbox);
        // Fails only if the operation has ended.
        let _ = tell.send(listed);
    };
    std::thread::Builder::new().spawn(follow).map_err(Error::Thread)?;
    let result = loop {
        match result.try_recv() {
            Ok(result) => break result,
            Err(TryRecvError::Disconnected) => break Err(Ok(TransferError::Disconnected)),
            Err(TryRecvError::Empty) => turn(link, &is_over)?,
        }
    };
    let deadline = Instant::now() + FAREWELL;
    while result.is_ok() && !link.is_quiet() && Instant::now() < deadline {
        turn(link, &is_over)?;
    }
    result.map_err(|error| error.map_or_else(Error::Output, Error::Transfer))
}

fn turn(link: &mut Link, is_over: &impl Fn() -> bool) -> Result<(), Error> {
    if is_over() { Err(Error::Interrupted) } else { link.turn(TURN) }
}

/// Passes entries on as they arrive, and keeps none of them.
struct Listing<F> {
    take: F,
    recursive: bool,
    /// The directory of the last entry: it is repeated where the next message begins within it.
    directory: WirePath,
}

impl<F: FnMut(&[Listed]) -> io::Result<()>> Listing<F> {
    fn follow(&mut self, mailbox: &Mailbox, path: &WirePath) -> Result<(), ListingError> {
        let depth = if self.recursive { u32::MAX } else { 1 };
        let request = {
            let (path, depth) = (path.clone(), Some(depth));
            Message::List { path, depth, links: false, content: false }
        };
        mailbox.send(request).map_err(Ok)?;
        let Message::Entry { kind } = mailbox.recv().map_err(Ok)? else {
            return Err(Ok(TransferError::Protocol("expected what the path is".to_owned())));
        };
        let mut is_described = false;
        loop {
            match mailbox.recv().map_err(Ok)? {
                Message::Manifest(groups) => {
                    is_described = true;
                    self.groups(&groups)?;
                }
                Message::Skipped { name, reason, error, .. } => {
                    let (name, reason) = (printable(&name), printable(&reason));
                    self.pass_on(&[Listed::Skipped { name, reason, error }])?;
                }
                Message::EndOfList => break,
                other => return Err(Ok(TransferError::unexpected(&other))),
            }
        }
        if let (EntryKind::File { size }, false) = (kind, is_described) {
            // A server that knows no depth says nothing but the size.
            let (_, name) = path.split_last().unwrap_or_default();
            let path = WirePath::new(name).map_err(|error| Ok(error.into()))?;
            let kind = ListedKind::File { size, modified: None };
            self.pass_on(&[Listed::Entry { path, kind, mode: None }])?;
        }
        Ok(())
    }

    fn groups(&mut self, groups: &[Group]) -> Result<(), ListingError> {
        let mut entries = Vec::new();
        for group in groups {
            let depth = group.directory.components().count();
            if depth > 1 && !self.recursive {
                continue;
            }
            if group.directory != self.directory {
                let (path, mode) = (group.directory.clone(), group.modes.last().copied());
                entries.push(Listed::Entry { path, kind: ListedKind::Directory, mode });
                self.directory = group.directory.clone();
            }
            if depth > 0 && !self.recursive {
                continue;
            }
            for (file, path) in group.files.iter().zip(group.paths(&WirePath::root())) {
                let (path, _) = path.map_err(|error| Ok(error.into()))?;
                entries.push(entry_of(file, path));
            }
        }
        self.pass_on(&entries)
    }

    fn pass_on(&mut self, entries: &[Listed]) -> Result<(), ListingError> {
        (self.take)(entries).map_err(Err)
    }
}

fn entry_of(file: &FileEntry, path: WirePath) -> Listed {
    let offer = file.offer();
    let kind = ListedKind::File { size: offer.size, modified: Some(offer.modified) };
    Listed::Entry { path, kind, mode: Some(offer.mode) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Offer;

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    fn group(directory: &str, files: &[&str]) -> Group {
        let modified = Mtime::default();
        let entry =
            |name: &&str| FileEntry::new(path(name), Offer { size: 7, modified, mode: 0o640 });
        let files = files.iter().map(entry).collect();
        Group { files, ..Group::new(path(directory), vec![0o700, 0o755]) }
    }

    fn listed(recursive: bool, messages: &[Vec<Group>]) -> Vec<String> {
        let mut lines = Vec::new();
        let take = |entries: &[Listed]| {
            for entry in entries {
                let Listed::Entry { path, kind, .. } = entry else { panic!("{entry:?}") };
                let slash = if *kind == ListedKind::Directory { "/" } else { "" };
                lines.push(format!("{path}{slash}"));
            }
            Ok(())
        };
        let mut listing = Listing { take, recursive, directory: WirePath::root() };
        for groups in messages {
            assert!(listing.groups(groups).is_ok());
        }
        lines
    }

    #[test]
    fn a_directory_that_fills_two_messages_is_named_once() {
        let messages =
            [vec![group("", &["top"]), group("a", &["b"])], vec![group("a", &["c"])]];
        assert_eq!(listed(true, &messages), ["top", "a/", "a/b", "a/c"]);
    }

    #[test]
    fn deeper_entries_of_a_server_that_knows_no_depth_are_left_out() {
        let messages = [vec![group("", &["top"]), group("a", &["b"]), group("a/deep", &["c"])]];
        assert_eq!(listed(false, &messages), ["top", "a/"]);
    }
}
