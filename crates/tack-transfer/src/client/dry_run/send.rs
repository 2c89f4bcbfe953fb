//! What sending would do: what is there on this machine is held against what the server has, which is also asked whether
//! it may be changed.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use super::{Name, is_there, wait_for_directories};
use crate::client::attributes::Ours;
use crate::client::closing::Closing;
use crate::client::comparison::{ComparedFile, Comparison};
use crate::client::jobs::{Job, Kind, Run};
use crate::client::producer::{Producer, Reporter};
use crate::client::refused::{Directory, Refused};
use crate::client::send::Taken;
use crate::client::server_tree::{MAX_LISTED, Remote, has_a_directory, refusal};
use crate::client::waiting::Waiting;
use crate::error::Error;
use crate::protocol::{
    Change, Fail, FailCode, FileEntry, FileSource, Filter, Group, Message, Offer, Policy, Root,
    TransferError, Walk, WalkItem, WirePath, number_at, printed_below,
};
use crate::quic::{BACKSLASHES, EDITS, OTHER_NAMES};
use crate::session::Mailbox;

/// Something that would be sent: a file or a directory, and its path on the server.
pub(in crate::client) struct Sent {
    pub(in crate::client) path: PathBuf,
    pub(in crate::client) remote: WirePath,
    pub(in crate::client) is_directory: bool,
}

/// Holds what would be sent against what the server has, one thing after the other.
pub(in crate::client) fn send(
    run: &mut Run<'_>,
    producer: &Producer,
    sent: Vec<Sent>,
    (filter, policy): (&Filter, &Policy),
    closing: &Closing,
    (checksum, taken): (bool, &Taken),
) -> Result<(), Error> {
    closing.tell_unplanned(producer);
    let refusal = match sent.first() {
        Some(first) if run.protocol_version()? >= EDITS => may_write(run, &first.remote)?,
        _ => None,
    };
    let version = run.protocol_version()?;
    let trees = sent.iter().filter(|sent| sent.is_directory);
    let trees: Vec<WirePath> = trees.map(|sent| sent.remote.clone()).collect();
    for sent in sent {
        let mailbox = run.open()?;
        let (producer, filter) = (producer.clone(), filter.clone());
        let (policy, closing, taken) = (policy.clone(), closing.clone(), taken.clone());
        let (name, refusal) = (sent.remote.to_string(), refusal.clone());
        let work = Box::new(move |mailbox: &Mailbox| {
            if let Some(refusal) = refusal {
                return refuse(&sent, filter, &producer, refusal).map(|()| None);
            }
            let keeps_all = !sent.is_directory && policy.ignore_existing;
            let there = Remote::ask(mailbox, &sent.remote, keeps_all)?;
            let mut comparison = Comparison::new(checksum);
            let (producer, policy, closing) = (&producer, &policy, &closing);
            let taken = &taken;
            let plan = SendPlan { version, producer, policy, closing, checksum, taken };
            let planned = if sent.is_directory {
                plan.tree(&sent, &there, filter, &mut comparison)
            } else {
                plan.file(&sent, &there, &mut comparison)
            };
            closing.add_listing(sent.remote, there);
            planned?;
            comparison.submit(producer);
            Ok(None)
        });
        run.spawn_inquiry(mailbox, Job { kind: Kind::Inquiry, name, work })?;
    }
    closing.finish_there(producer, trees);
    Ok(())
}

/// Why the server takes nothing, if it is read-only. `first` is what is told where that can't be found out.
fn may_write(run: &mut Run<'_>, first: &WirePath) -> Result<Option<Fail>, Error> {
    let (tell, answer) = mpsc::channel();
    let mailbox = run.open()?;
    let work = Box::new(move |mailbox: &Mailbox| {
        let refusal = match ask_to_write(mailbox) {
            Err(TransferError::Remote(fail)) if fail.code == FailCode::Refused => Some(fail),
            asked => asked.map(|()| None)?,
        };
        // Fails only if the operation has ended.
        let _ = tell.send(refusal);
        Ok(None)
    });
    let name = first.to_string();
    run.spawn_inquiry(mailbox, Job { kind: Kind::Inquiry, name, work })?;
    Ok(run.wait_for(&answer)?.flatten())
}

/// Asks for no edit at all: a server that is read-only refuses that, too.
fn ask_to_write(mailbox: &Mailbox) -> Result<(), TransferError> {
    mailbox.send(Message::Edit { edits: Vec::new(), policy: Policy::default() })?;
    match mailbox.recv()? {
        Message::Edited { .. } => Ok(()),
        other => Err(TransferError::unexpected(&other)),
    }
}

/// Tells that nothing of what would be sent is taken.
fn refuse(
    sent: &Sent,
    filter: Filter,
    told: &Reporter,
    refusal: Fail,
) -> Result<(), TransferError> {
    let mut names = Vec::new();
    if sent.is_directory {
        let root = Root::open(&sent.path).map(Arc::new).map_err(TransferError::reading)?;
        let mut directory = sent.remote.clone();
        for item in Walk::filtered(root, WirePath::root(), filter) {
            match item {
                WalkItem::Directory(group) => directory = sent.remote.join(&group.directory)?,
                WalkItem::File(file) if names.len() < MAX_LISTED => {
                    names.push(directory.join(file.name())?.as_str().to_owned());
                }
                other => told.left_out(&sent.remote, &other),
            }
        }
    }
    if names.is_empty() {
        names.push(sent.remote.to_string());
    }
    told.batch_failed(names, TransferError::Remote(refusal));
    Ok(())
}

/// What a dry run of sending goes by.
struct SendPlan<'a> {
    /// The version of the protocol that the server speaks.
    version: usize,
    producer: &'a Producer,
    policy: &'a Policy,
    closing: &'a Closing,
    checksum: bool,
    /// What several sources send.
    taken: &'a Taken,
}

/// What of a tree is not held against what is there at once.
#[derive(Default)]
struct PutOff {
    /// Files of the directory that the walk is in, if that could not be made.
    within: Option<Directory>,
    refused: Refused,
    /// Files that wait until all their names are known.
    waiting: Waiting<(WirePath, Offer)>,
    /// Files that wait until all directories of the source are known.
    behind: Vec<(WirePath, Offer)>,
}

impl PutOff {
    /// The walk is in another directory, or at its end.
    fn end_directory(&mut self, told: &Reporter) {
        if let Some(last) = self.within.take() {
            self.refused.add(last, told);
        }
    }
}

impl SendPlan<'_> {
    /// Holds a file against what is there under its name.
    fn file(
        &self,
        sent: &Sent,
        there: &Remote,
        comparison: &mut Comparison,
    ) -> Result<(), TransferError> {
        let (closing, policy) = (self.closing, self.policy);
        closing.add_file_name(sent.remote.as_str())?;
        let offer = FileSource::look_at(&sent.path).map_err(TransferError::reading)?;
        let number = number_at(&sent.path).map_err(TransferError::reading)?;
        if !self.taken.takes(&sent.remote, self.producer)?
            || closing.is_another_name(&sent.remote, number, &offer)?
        {
            return Ok(());
        }
        let (change, found) = match there {
            Remote::Nothing => (Change::New, None),
            Remote::File(size, Some(found)) => {
                (Change::by(policy, &offer, Some(found)), Some(*size))
            }
            Remote::File(size, None) if policy.ignore_existing => (Change::Kept, Some(*size)),
            Remote::File(size, None) => (Change::of_size(offer.size, Some(*size)), Some(*size)),
            Remote::Directory(..) | Remote::Other if policy.ignore_existing => {
                (Change::Kept, None)
            }
            Remote::Other => return Ok(()),
            Remote::Directory(..) => return Err(refusal(has_a_directory(&sent.remote))),
        };
        let (theirs, ours) = (sent.remote.clone(), Ours::At(sent.path.clone()));
        let file = ComparedFile { theirs, ours, size: offer.size, refusal: None };
        comparison.plan(self.producer, file, found, change)
    }

    /// Holds what is below a directory against what is there.
    fn tree(
        &self,
        sent: &Sent,
        there: &Remote,
        filter: Filter,
        comparison: &mut Comparison,
    ) -> Result<(), TransferError> {
        let (closing, producer, base) = (self.closing, self.producer, &sent.remote);
        let root = Root::open(&sent.path).map(Arc::new).map_err(TransferError::reading)?;
        closing.add_tree(base, &filter);
        let refused = Refused::of_server();
        let (mut directory, mut put_off) =
            (WirePath::root(), PutOff { refused, ..PutOff::default() });
        let walk = Walk::filtered(Arc::clone(&root), WirePath::root(), filter);
        let walk = walk.with_links(self.policy.preserve);
        let walk = walk.with_backslashes(self.version >= BACKSLASHES);
        for item in walk.with_prefix(base.clone()) {
            match item {
                WalkItem::Directory(group) => {
                    self.directory(base.join(&group.directory)?, there, &group, &mut put_off)?;
                    directory = group.directory;
                }
                WalkItem::Link(name, target, modified) => {
                    let path = base.join(&directory.join(&name)?)?;
                    closing.add_file_name(path.as_str())?;
                    if self.taken.takes(&path, producer)? {
                        closing.add_link(producer, path, target, modified)?;
                    }
                }
                WalkItem::File(file) => {
                    let path = directory.join(file.name())?;
                    let theirs = base.join(&path)?;
                    if !self.puts_off(&theirs, there, (&path, &file), &mut put_off)? {
                        self.below(base, there, (&root, path), &file.offer(), comparison)?;
                    }
                }
                other => {
                    closing.add_left_out(base, &other)?;
                    producer.left_out(base, &other);
                }
            }
        }
        let waiting = put_off.waiting.take().into_iter().map(|(_, file)| file);
        for (path, offer) in std::mem::take(&mut put_off.behind).into_iter().chain(waiting) {
            self.below(base, there, (&root, path), &offer, comparison)?;
        }
        put_off.end_directory(producer);
        put_off.refused.tell(producer);
        Ok(())
    }

    /// Holds the directory that goes to `path` against what is there.
    fn directory(
        &self,
        path: WirePath,
        there: &Remote,
        group: &Group,
        put_off: &mut PutOff,
    ) -> Result<(), TransferError> {
        self.closing.add_name(path.as_str())?;
        self.closing.add_directory_name(&path)?;
        put_off.end_directory(self.producer);
        let refused = there.refuses_directory(&group.directory, self.policy);
        if refused.is_none() {
            self.plan_directory(&path, there, group);
        }
        put_off.within = refused.map(|error| Directory { path, files: Vec::new(), error });
        Ok(())
    }

    /// Whether a file at `path` below a directory, which goes to `theirs`, is not held against what is there at once, or
    /// not at all.
    fn puts_off(
        &self,
        theirs: &WirePath,
        there: &Remote,
        (path, file): (&WirePath, &FileEntry),
        put_off: &mut PutOff,
    ) -> Result<bool, TransferError> {
        let (closing, offer) = (self.closing, file.offer());
        closing.add_file_name(theirs.as_str())?;
        if !self.taken.takes(theirs, self.producer)? {
            return Ok(true);
        }
        if let Some(last) = &mut put_off.within {
            if !closing.is_another_name(theirs, file.inode(), &offer)? {
                last.files.push(theirs.as_str().to_owned());
            }
            return Ok(true);
        }
        if self.waits(theirs, there, path, file, &mut put_off.waiting)? {
            return Ok(true);
        }
        if self.policy.backup.is_none() {
            return Ok(false);
        }
        wait_for_directories(&mut put_off.behind, (path.clone(), offer)).map(|()| true)
    }

    /// Tells what would make way for a directory, or that it would get other permissions.
    fn plan_directory(&self, theirs: &WirePath, there: &Remote, group: &Group) {
        let name = || theirs.as_str().to_owned();
        if let Some(size) = there.makes_way_for_directory(&group.directory) {
            self.producer.planned_removal(name(), size);
        }
        let found = there.mode_of_directory(&group.directory);
        if self.closing.changes_mode(group, found, theirs.is_root()) {
            self.producer.planned(name(), 0, Change::Attributes);
        }
    }

    /// Whether a file at `path` below a directory is not yet held against what is there, or not at all: it may be there
    /// under another name than `theirs`.
    fn waits(
        &self,
        theirs: &WirePath,
        there: &Remote,
        path: &WirePath,
        file: &FileEntry,
        waiting: &mut Waiting<(WirePath, Offer)>,
    ) -> Result<bool, TransferError> {
        let (inode, offer) = (file.inode(), &file.offer());
        if self.version < OTHER_NAMES {
            return self.closing.is_another_name(theirs, inode, offer);
        }
        let is_there = is_there(there.file(path), offer, self.checksum);
        let name = Name { path: theirs, inode, offer, is_there };
        name.waits(self.closing, waiting, (path.clone(), *offer))
    }

    /// Holds a file at `path` below a directory against what is there.
    fn below(
        &self,
        base: &WirePath,
        there: &Remote,
        (root, path): (&Arc<Root>, WirePath),
        offer: &Offer,
        comparison: &mut Comparison,
    ) -> Result<(), TransferError> {
        let theirs = base.join(&path)?;
        if let Some(error) = there.refuses(&path, self.policy, offer) {
            self.producer.file(theirs.as_str().to_owned(), Err(error));
            return Ok(());
        }
        let (change, found) = there.change(&path, self.policy, offer);
        let is_there = matches!(change, Change::Unchanged | Change::Attributes | Change::Kept);
        let as_directory = || self.closing.is_kept_as_directory(&theirs).map(refusal);
        if !is_there
            && let Some(error) = there.cannot_keep(&path, self.policy).or_else(as_directory)
        {
            self.producer.file(theirs.as_str().to_owned(), Err(error));
            return Ok(());
        }
        if change != Change::Kept && there.other_kind(&path).is_some() {
            self.closing.note_making_way(&theirs);
            for (name, size) in there.goes_with(&path) {
                self.producer.planned_removal(printed_below(base, &name), size);
            }
        }
        let ours = Ours::Below(Arc::clone(root), path);
        let file = ComparedFile { theirs, ours, size: offer.size, refusal: None };
        comparison.plan(self.producer, file, found, change)
    }
}
