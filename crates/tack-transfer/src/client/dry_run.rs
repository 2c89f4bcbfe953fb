//! What a transfer would do, without doing it.
//!
//! The server is only asked what there is, and whether it may be changed, so that nothing changes there, whatever its
//! version.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use super::attributes::Ours;
use super::closing::Closing;
use super::comparison::{ComparedFile, Comparison};
use super::get::{expect_end, or_latest};
use super::jobs::{Job, Kind, Run};
use super::producer::{Producer, Reporter};
use super::refused::{Directory, Refused};
use super::send::Taken;
use super::server_tree::{MAX_LISTED, Remote, has_a_directory, refusal};
use super::waiting::Waiting;
use crate::error::Error;
use crate::protocol::{
    Change, EntryKind, Fail, FailCode, FileEntry, FileSource, Filter, Found, Goes, Group,
    Message, Offer, Policy, Root, SMALL_FILE, TransferError, Walk, WalkItem, WirePath,
    check_backup, check_place, may_create_in, number_at, printed_below,
};
use crate::quic::{BACKSLASHES, EDITS, OTHER_NAMES};
use crate::session::Mailbox;

/// The depth of all that there is. Who asks for a depth hears the time of a single file, too.
pub(super) const WHOLE: u32 = u32::MAX;

/// What of a listing a dry run of `get` goes by.
pub(super) struct GetPlan {
    pub(super) remote: WirePath,
    pub(super) filter: Filter,
    pub(super) told: Reporter,
    pub(super) policy: Arc<Policy>,
    pub(super) closing: Closing,
    /// The content of files decides.
    pub(super) checksum: bool,
    /// The server can be asked for digests.
    pub(super) tells_digests: bool,
    pub(super) waiting: RefCell<Waiting<Offer>>,
    /// Files that wait until all directories of the source are known.
    pub(super) behind: RefCell<Vec<(WirePath, Offer)>>,
}

/// Where a dry run of `get` looks.
pub(super) enum Local {
    /// At the file of this name in this directory.
    File(PathBuf, WirePath),
    /// Below this directory.
    Directory(PathBuf),
    /// Nowhere: it would go through a pipe or device.
    Through,
}

impl GetPlan {
    /// Holds what the server lists against what is there. A directory that does not exist has nothing.
    pub(super) fn follow(
        &self,
        mailbox: &Mailbox,
        kind: EntryKind,
        local: &Local,
    ) -> Result<(), TransferError> {
        let mut comparison = Comparison::new(self.checksum);
        self.closing.tell_unplanned(&self.told);
        let (Local::File(directory, _) | Local::Directory(directory)) = local else {
            expect_end(mailbox)?;
            let EntryKind::File { size } = kind else { return Ok(()) };
            self.told.planned(self.remote.as_str().to_owned(), size, Change::New);
            return Ok(());
        };
        let root = match Root::open(directory) {
            Ok(root) => Some(Arc::new(root)),
            // It would be made.
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                if let Err(cause) = check_creation(directory) {
                    self.told.refuse(Error::local(directory)(cause));
                    return Ok(());
                }
                None
            }
            Err(cause) => {
                self.told.refuse(Error::local(directory)(cause));
                return Ok(());
            }
        };
        if let Local::File(directory, name) = local {
            let listed = expect_end(mailbox)?;
            let EntryKind::File { size } = kind else { return Ok(()) };
            let (change, found, refusal) =
                self.change_of_file(root.as_deref(), name, size, listed)?;
            let ours = Ours::At(directory.join(name.as_str()));
            let file = ComparedFile { theirs: self.remote.clone(), ours, size, refusal };
            comparison.plan(&self.told, file, found, change)?;
            comparison.submit(&self.told);
            return Ok(());
        }
        if let Some(Err(error)) =
            root.as_deref().map(|root| self.closing.check_destination(root))
        {
            self.told.refuse(error);
            return Ok(());
        }
        self.closing.add_tree(&WirePath::root(), &self.filter);
        let mut refused = Refused::default();
        let take = |groups: &[Group]| {
            self.compare(groups, root.as_ref(), &mut comparison, &mut refused)
        };
        let skipped = |name: &str| {
            self.closing.add_left_out_name(name)?;
            Ok(self.filter.keeps_printed(name))
        };
        self.told.take_listing(mailbox, &self.remote, take, skipped)?;
        let behind = self.behind.take();
        for (path, offer) in behind.into_iter().chain(self.waiting.take().take()) {
            self.compare_file(path, &offer, root.as_ref(), &mut comparison)?;
        }
        refused.tell(&self.told);
        comparison.submit(&self.told);
        self.closing.finish_here(&self.told, root);
        Ok(())
    }

    /// What would become of the only file, the size of what is there, and why it could not be received if its content is
    /// another.
    fn change_of_file(
        &self,
        root: Option<&Root>,
        name: &WirePath,
        size: u64,
        listed: Option<Offer>,
    ) -> Result<(Change, Option<u64>, Option<TransferError>), TransferError> {
        let Some(root) = root else { return Ok((Change::New, None, None)) };
        let found = root.found(name);
        let there = found.map(|found| found.offer.size);
        let mut refusal = None;
        let change = match listed {
            _ if root.keeps(name, &self.policy, &or_latest(listed, size)) => Change::Kept,
            Some(listed)
                if !self.checksum
                    && Change::of(&listed, found.as_ref()) == Change::Unchanged =>
            {
                Change::by(&self.policy, &listed, found.as_ref())
            }
            _ => {
                // What is named has no directory and no link make way.
                let policy = Policy {
                    make_way: false,
                    keeps_links: true,
                    opens_directories: false,
                    ..(*self.policy).clone()
                };
                check_place(root, name, &policy)?;
                check_backup(root, name, &policy)?;
                refusal = self.refusal(root, name, &policy, there == Some(size))?;
                Change::of_size(size, there)
            }
        };
        Ok((change, there, refusal))
    }

    /// Why nothing can be changed in the directory of a file: an error, unless the file is compared first, and may turn
    /// out to be there.
    fn refusal(
        &self,
        root: &Root,
        path: &WirePath,
        policy: &Policy,
        is_compared: bool,
    ) -> Result<Option<TransferError>, TransferError> {
        match root.check_change_of(path, policy) {
            Ok(()) => Ok(None),
            Err(error) if is_compared && self.tells_digests => Ok(Some(error.into())),
            Err(error) => Err(error.into()),
        }
    }

    /// Holds a part of the listing against what is below `root`.
    fn compare(
        &self,
        groups: &[Group],
        root: Option<&Arc<Root>>,
        comparison: &mut Comparison,
        refused: &mut Refused,
    ) -> Result<(), TransferError> {
        self.closing.add_names(groups, &self.filter)?;
        for group in groups.iter().filter(|group| self.filter.keeps_whole(&group.directory)) {
            match root.map(|root| self.check_directory(root, &group.directory)) {
                Some(Ok(true)) => {
                    self.closing.add_expected(&group.directory);
                    self.plan_mode(group, root)?;
                }
                Some(Err(error)) => {
                    refused.add(self.refused(group, error)?, &self.told);
                    continue;
                }
                _ => {}
            }
            for (position, entry) in group.paths(&WirePath::root()).enumerate() {
                let (path, offer) = entry?;
                let inode = group.inode(position);
                if !self.filter.keeps(&path, false) || self.waits(&path, inode, &offer, root)? {
                    continue;
                }
                if self.policy.backup.is_some() {
                    wait_for_directories(&mut self.behind.borrow_mut(), (path, offer))?;
                } else {
                    self.compare_file(path, &offer, root, comparison)?;
                }
            }
            for (name, target, modified) in &group.links {
                let path = group.directory.join(name)?;
                if self.filter.keeps(&path, false) {
                    self.closing.add_link(&self.told, path, target.clone(), *modified)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a file of the listing is not yet held against what is there, or not at all: it may be there under another
    /// name.
    fn waits(
        &self,
        path: &WirePath,
        inode: Option<u64>,
        offer: &Offer,
        root: Option<&Arc<Root>>,
    ) -> Result<bool, TransferError> {
        let found = root.and_then(|root| root.found(path));
        let is_there = is_there(found.as_ref(), offer, self.checksum);
        let name = Name { path, inode, offer, is_there };
        name.waits(&self.closing, &mut self.waiting.borrow_mut(), *offer)
    }

    /// Holds a file of the listing against what is there.
    fn compare_file(
        &self,
        path: WirePath,
        offer: &Offer,
        root: Option<&Arc<Root>>,
        comparison: &mut Comparison,
    ) -> Result<(), TransferError> {
        let theirs = self.remote.join(&path)?;
        let name = theirs.as_str().to_owned();
        let Some(root) = root else {
            self.told.planned(name, offer.size, Change::New);
            return Ok(());
        };
        if root.keeps(&path, &self.policy, offer) {
            self.closing.add_expected(&path);
            self.told.planned(name, offer.size, Change::Kept);
            return Ok(());
        }
        let found = root.found(&path);
        if found.is_some() {
            self.closing.add_expected(&path);
        }
        let change = Change::by(&self.policy, offer, found.as_ref());
        let (goes, refusal) = if self.needs_no_place(offer, found.as_ref(), change) {
            (Vec::new(), None)
        } else {
            let is_as_long = found.is_some_and(|found| found.offer.size == offer.size);
            match self.check_change(root, &path, is_as_long && offer.size > SMALL_FILE) {
                Ok(checked) => checked,
                Err(error) => {
                    self.told.file(name, Err(error));
                    return Ok(());
                }
            }
        };
        if root.directory(&path).is_ok() {
            self.closing.note_making_way(&path);
            for goes in goes {
                let path = printed_below(&self.remote, &goes.path);
                self.told.planned_removal(path, goes.size);
            }
            self.told.planned_removal(name, 0);
        }
        let ours = Ours::Below(Arc::clone(root), path);
        let file = ComparedFile { theirs, ours, size: offer.size, refusal };
        let found = found.map(|found| found.offer.size);
        comparison.plan(&self.told, file, found, change)
    }

    /// Whether a file is there in the end without having been received into another one.
    fn needs_no_place(&self, offer: &Offer, found: Option<&Found>, change: Change) -> bool {
        if self.checksum && found.is_some_and(|found| found.offer.size == offer.size) {
            // A large one is compared when it is asked for.
            return offer.size <= SMALL_FILE;
        }
        matches!(change, Change::Unchanged | Change::Attributes)
    }

    /// What would go with a directory in the place of a file, if the file can be received there, and why it can't unless
    /// it [is compared first](Self::refusal).
    fn check_change(
        &self,
        root: &Root,
        path: &WirePath,
        is_compared: bool,
    ) -> Result<(Vec<Goes>, Option<TransferError>), TransferError> {
        let goes = check_place(root, path, &self.policy)?;
        check_backup(root, path, &self.policy)?;
        if let Some(kept) = self.closing.is_kept_as_directory(&self.remote.join(path)?) {
            return Err(kept.into());
        }
        Ok((goes, self.refusal(root, path, &self.policy, is_compared)?))
    }

    /// Tells that a directory that is there gets the permissions of the source's.
    fn plan_mode(&self, group: &Group, root: Option<&Arc<Root>>) -> Result<(), TransferError> {
        let found = root.and_then(|root| root.mode_of_directory(&group.directory));
        if self.closing.changes_mode(group, found, false) {
            let name = self.remote.join(&group.directory)?;
            self.told.planned(name.as_str().to_owned(), 0, Change::Attributes);
        }
        Ok(())
    }

    /// Whether there is a directory at `path`. Tells what would make way for one.
    fn check_directory(&self, root: &Root, path: &WirePath) -> Result<bool, TransferError> {
        if let Some(size) = root.in_the_way(path, &self.policy)? {
            let name = self.remote.join(path)?;
            self.told.planned_removal(name.as_str().to_owned(), size);
        }
        Ok(root.has_directory(path, &self.policy)?)
    }

    /// A directory that could not be made, with the files in it that are not left out.
    fn refused(&self, group: &Group, error: TransferError) -> Result<Directory, TransferError> {
        let mut files = Vec::new();
        for entry in group.paths(&WirePath::root()) {
            let (path, _) = entry?;
            if self.filter.keeps(&path, false) {
                files.push(self.remote.join(&path)?.as_str().to_owned());
            }
        }
        Ok(Directory { path: self.remote.join(&group.directory)?, files, error })
    }
}

/// Whether a directory that is missing could be made, with those above it.
fn check_creation(directory: &Path) -> std::io::Result<()> {
    let mut next = Some(directory);
    while let Some(path) = next {
        let path = if path == Path::new("") { Path::new(".") } else { path };
        match path.symlink_metadata() {
            // A link that leads nowhere has its name.
            Ok(_) => {
                return if path.is_dir() { may_create_in(path) } else { Err(in_the_way()) };
            }
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => return Err(cause),
        }
        next = path.parent();
    }
    Ok(())
}

fn in_the_way() -> std::io::Error {
    ErrorKind::AlreadyExists.into()
}

/// Puts off what may have to be kept under the name of a directory that is still to be listed.
fn wait_for_directories<T>(behind: &mut Vec<T>, file: T) -> Result<(), TransferError> {
    if behind.len() == MAX_LISTED {
        return Err(TransferError::TooManyNames(MAX_LISTED));
    }
    behind.push(file);
    Ok(())
}

/// Whether what is found may be what is offered.
fn is_there(found: Option<&Found>, offer: &Offer, checksum: bool) -> bool {
    let is_as_long = found.is_some_and(|found| found.offer.size == offer.size);
    checksum && is_as_long || Change::of(offer, found) == Change::Unchanged
}

/// A name of a file.
struct Name<'a> {
    path: &'a WirePath,
    inode: Option<u64>,
    offer: &'a Offer,
    /// The receiver has the file under this name.
    is_there: bool,
}

impl Name<'_> {
    /// Whether the file waits, or is there under another name.
    fn waits<T>(
        &self,
        closing: &Closing,
        waiting: &mut Waiting<T>,
        file: T,
    ) -> Result<bool, TransferError> {
        let Self { path, inode, offer, is_there } = *self;
        let is_another = closing.is_another_name(path, inode, offer)?;
        let Some(inode) = closing.waits_for_names(inode) else { return Ok(is_another) };
        if !is_another && !is_there {
            waiting.add(inode, path.clone(), file);
            return Ok(true);
        }
        let first = if is_there { waiting.remove(inode) } else { None };
        let is_elsewhere = first.is_some();
        if let Some(first) = first {
            closing.note_elsewhere(first, path.clone());
        }
        Ok(is_another && !is_elsewhere)
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
