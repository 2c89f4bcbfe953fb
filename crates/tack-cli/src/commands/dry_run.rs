//! `--dry-run`: what `tack get` and `tack send` would transfer.
//!
//! The server is only asked what there is, so that nothing changes there, whatever its version.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::get::expect_end;
use super::jobs::{Job, Kind, Producer, Run};
use crate::error::Error;
use crate::session::Mailbox;
use crate::transfer::{
    Change, EntryKind, Fail, FailCode, FileSource, Filter, Message, Offer, Root, TransferError,
    Walk, WalkItem, WirePath,
};

/// Most files of a server's directory that are held against this machine's.
const MAX_LISTED: usize = 1 << 20;

/// What of a listing a dry run of `get` goes by.
pub(super) struct GetPlan {
    pub(super) remote: WirePath,
    pub(super) filter: Filter,
    pub(super) producer: Producer,
}

/// Where a dry run of `get` looks.
pub(super) enum Local {
    /// At the file of this name in this directory.
    File(PathBuf, WirePath),
    /// Below this directory.
    Directory(PathBuf),
}

impl GetPlan {
    /// Holds what the server lists against what is there. A directory that does not exist has nothing.
    pub(super) fn follow(
        &self,
        mailbox: &Mailbox,
        kind: EntryKind,
        local: &Local,
    ) -> Result<(), TransferError> {
        let root = match local {
            Local::File(directory, name) => {
                let found = Root::open(directory).ok().and_then(|root| root.offer(name));
                if let EntryKind::File { size } = kind {
                    let change = Change::of_size(size, found.map(|found| found.size));
                    self.producer.planned(self.remote.as_str().to_owned(), size, change);
                }
                return expect_end(mailbox);
            }
            Local::Directory(directory) => Root::open(directory).ok(),
        };
        self.producer.take_listing(mailbox, |groups| {
            for group in groups.iter().filter(|group| self.filter.keeps_whole(&group.directory))
            {
                for entry in group.paths(&WirePath::root()) {
                    let (path, offer) = entry?;
                    if self.filter.keeps(&path, false) {
                        let found = root.as_ref().and_then(|root| root.offer(&path));
                        let name = self.remote.join(&path)?.as_str().to_owned();
                        let change = Change::of(&offer, found.as_ref());
                        self.producer.planned(name, offer.size, change);
                    }
                }
            }
            Ok(())
        })
    }
}

/// Something that would be sent: a file or a directory, and its path on the server.
pub(super) struct Sent {
    pub(super) path: PathBuf,
    pub(super) remote: WirePath,
    pub(super) is_directory: bool,
}

/// Holds what would be sent against what the server has, one thing after the other.
pub(super) fn send(
    run: &mut Run<'_>,
    producer: &Producer,
    sent: Vec<Sent>,
    filter: &Filter,
) -> Result<(), Error> {
    for sent in sent {
        let mailbox = run.open()?;
        let (producer, filter) = (producer.clone(), filter.clone());
        let name = sent.remote.to_string();
        let work = Box::new(move |mailbox: &Mailbox| {
            let there = Remote::ask(mailbox, &producer, &sent.remote)?;
            sent.compare(&there, &producer, filter)?;
            Ok(None)
        });
        run.spawn_inquiry(mailbox, Job { kind: Kind::Inquiry, name, work });
    }
    Ok(())
}

/// What the server has at a path.
enum Remote {
    Nothing,
    File(u64),
    Directory(HashMap<WirePath, Offer>),
}

impl Remote {
    fn ask(
        mailbox: &Mailbox,
        producer: &Producer,
        path: &WirePath,
    ) -> Result<Self, TransferError> {
        mailbox.send(Message::List { path: path.clone(), depth: None })?;
        let kind = match mailbox.recv() {
            Ok(Message::Entry { kind }) => kind,
            Ok(other) => return Err(TransferError::unexpected(&other)),
            Err(TransferError::Remote(Fail { code: FailCode::NotFound, .. })) => {
                return Ok(Self::Nothing);
            }
            Err(error) => return Err(error),
        };
        let (mut files, top) = (HashMap::new(), WirePath::root());
        producer.take_listing(mailbox, |groups| {
            for entry in groups.iter().flat_map(|group| group.paths(&top)) {
                let (path, offer) = entry?;
                files.insert(path, offer);
            }
            if files.len() <= MAX_LISTED {
                return Ok(());
            }
            Err(TransferError::Protocol(format!("a listing of more than {MAX_LISTED} files")))
        })?;
        Ok(match kind {
            EntryKind::File { size } => Self::File(size),
            EntryKind::Directory { .. } => Self::Directory(files),
        })
    }
}

impl Sent {
    fn compare(
        &self,
        there: &Remote,
        producer: &Producer,
        filter: Filter,
    ) -> Result<(), TransferError> {
        if !self.is_directory {
            let offer = FileSource::look_at(&self.path).map_err(TransferError::reading)?;
            let change = match there {
                Remote::Nothing => Change::New,
                Remote::File(size) => Change::of_size(offer.size, Some(*size)),
                Remote::Directory(_) => Change::Changed,
            };
            producer.planned(self.remote.as_str().to_owned(), offer.size, change);
            return Ok(());
        }
        let root = Root::open(&self.path).map(Arc::new).map_err(TransferError::reading)?;
        let mut directory = WirePath::root();
        for item in Walk::filtered(root, WirePath::root(), filter) {
            match item {
                WalkItem::Directory(group) => directory = group.directory,
                WalkItem::File(file) => {
                    let (path, offer) = (directory.join(file.name())?, file.offer());
                    let found = match there {
                        Remote::Directory(files) => files.get(&path),
                        Remote::Nothing | Remote::File(_) => None,
                    };
                    let name = self.remote.join(&path)?.as_str().to_owned();
                    producer.planned(name, offer.size, Change::of(&offer, found));
                }
                other => producer.left_out(&other),
            }
        }
        Ok(())
    }
}
