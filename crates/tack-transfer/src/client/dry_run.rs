//! What a transfer would do, without doing it.
//!
//! The server is only asked what there is, and whether it may be changed, so that nothing changes there, whatever its
//! version.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use super::attributes::Ours;
use super::closing::Closing;
use super::comparison::{ComparedFile, Comparison};
use super::get::{expect_end, or_latest};
use super::jobs::{Job, Kind, Run};
use super::producer::{Producer, Reporter};
use super::refused::{Directory, Refused};
use super::waiting::Waiting;
use crate::error::Error;
use crate::protocol::{
    Change, EntryKind, Fail, FailCode, FileEntry, FileSource, Filter, Found, Grain, Group,
    IS_SPECIAL, Message, Mtime, Offer, Policy, Root, RootError, TransferError, Walk, WalkItem,
    WirePath, check_backup, check_place, number_at, printable,
};
use crate::quic::{BACKSLASHES, EDITS, OTHER_NAMES};
use crate::session::Mailbox;

/// Most files of a server's directory that are held against this machine's.
const MAX_LISTED: usize = 1 << 20;

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
    pub(super) waiting: RefCell<Waiting<Offer>>,
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
        let (Local::File(directory, _) | Local::Directory(directory)) = local else {
            expect_end(mailbox)?;
            let EntryKind::File { size } = kind else { return Ok(()) };
            self.told.planned(self.remote.as_str().to_owned(), size, Change::New);
            return Ok(());
        };
        let root = match Root::open(directory) {
            Ok(root) => Some(Arc::new(root)),
            // It would be made.
            Err(cause) if cause.kind() == ErrorKind::NotFound => None,
            Err(cause) => {
                self.told.refuse(Error::local(directory)(cause));
                return Ok(());
            }
        };
        if let Local::File(directory, name) = local {
            let listed = expect_end(mailbox)?;
            let EntryKind::File { size } = kind else { return Ok(()) };
            let (change, found) = self.change_of_file(root.as_deref(), name, size, listed)?;
            let ours = Ours::At(directory.join(name.as_str()));
            let file = ComparedFile { theirs: self.remote.clone(), ours, size };
            comparison.plan(&self.told, file, found, change)?;
            comparison.submit(&self.told);
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
        for (path, offer) in self.waiting.take().take() {
            self.compare_file(path, &offer, root.as_ref(), &mut comparison)?;
        }
        refused.tell(&self.told);
        comparison.submit(&self.told);
        self.closing.finish_here(&self.told, root);
        Ok(())
    }

    /// What would become of the only file, and the size of what is there.
    fn change_of_file(
        &self,
        root: Option<&Root>,
        name: &WirePath,
        size: u64,
        listed: Option<Offer>,
    ) -> Result<(Change, Option<u64>), TransferError> {
        let Some(root) = root else { return Ok((Change::New, None)) };
        let found = root.found(name);
        let there = found.map(|found| found.offer.size);
        let change = match listed {
            _ if root.keeps(name, &self.policy, &or_latest(listed, size)) => Change::Kept,
            Some(listed) if Change::of(&listed, found.as_ref()) == Change::Unchanged => {
                Change::by(&self.policy, &listed, found.as_ref())
            }
            _ => {
                // What is named has no directory make way.
                let policy = Policy { make_way: false, ..(*self.policy).clone() };
                check_place(root, name, &policy)?;
                check_backup(root, name, &policy)?;
                Change::of_size(size, there)
            }
        };
        Ok((change, there))
    }

    /// Holds a part of the listing against what is below `root`.
    fn compare(
        &self,
        groups: &[Group],
        root: Option<&Arc<Root>>,
        comparison: &mut Comparison,
        refused: &mut Refused,
    ) -> Result<(), TransferError> {
        self.closing.add_names(groups)?;
        for group in groups.iter().filter(|group| self.filter.keeps_whole(&group.directory)) {
            match root.map(|root| self.check_directory(root, &group.directory)) {
                Some(Ok(true)) => self.closing.add_expected(&group.directory),
                Some(Err(error)) => {
                    refused.add(self.refused(group, error)?, &self.told);
                    continue;
                }
                _ => {}
            }
            for (position, entry) in group.paths(&WirePath::root()).enumerate() {
                let (path, offer) = entry?;
                let inode = group.inode(position);
                if self.filter.keeps(&path, false) && !self.waits(&path, inode, &offer, root)? {
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
        if let Err(error) = check_place(root, &path, &self.policy) {
            self.told.file(name, Err(error));
            return Ok(());
        }
        if root.directory(&path).is_ok() {
            // It makes way for the file.
            self.told.planned(name.clone(), 0, Change::Deleted);
        }
        let found = root.found(&path);
        if found.is_some() {
            self.closing.add_expected(&path);
        }
        let change = Change::by(&self.policy, offer, found.as_ref());
        if !matches!(change, Change::Unchanged | Change::Attributes)
            && let Err(error) = check_backup(root, &path, &self.policy)
        {
            self.told.file(name, Err(error));
            return Ok(());
        }
        let ours = Ours::Below(Arc::clone(root), path);
        let file = ComparedFile { theirs, ours, size: offer.size };
        let found = found.map(|found| found.offer.size);
        comparison.plan(&self.told, file, found, change)
    }

    /// Whether there is a directory at `path`, as by [`check_directory`]. Tells what would make way for one.
    fn check_directory(&self, root: &Root, path: &WirePath) -> Result<bool, TransferError> {
        if let Some(size) = root.in_the_way(path, &self.policy)? {
            let name = self.remote.join(path)?;
            self.told.planned(name.as_str().to_owned(), size, Change::Deleted);
        }
        check_directory(root, path, &self.policy)
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

/// Whether there is a directory at `path`, into which or in whose place others could be received. What would make way
/// for one does not count.
fn check_directory(
    root: &Root,
    path: &WirePath,
    policy: &Policy,
) -> Result<bool, TransferError> {
    match root.directory(path) {
        Ok(_) => Ok(true),
        Err(RootError::NotFound(_)) => Ok(false),
        Err(RootError::WrongKind(..)) if policy.make_way => Ok(false),
        Err(RootError::Symlink(_)) if policy.make_way && policy.preserve => Ok(false),
        Err(error) => Err(error.into()),
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
    policy: &Policy,
    closing: &Closing,
    checksum: bool,
) -> Result<(), Error> {
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
        let (policy, closing) = (policy.clone(), closing.clone());
        let (name, refusal) = (sent.remote.to_string(), refusal.clone());
        let work = Box::new(move |mailbox: &Mailbox| {
            if let Some(refusal) = refusal {
                return refuse(&sent, filter, &producer, refusal).map(|()| None);
            }
            let there = Remote::ask(mailbox, &sent.remote)?;
            let mut comparison = Comparison::new(checksum);
            let (producer, policy, closing) = (&producer, &policy, &closing);
            let plan = SendPlan { version, producer, policy, closing, checksum };
            if sent.is_directory {
                plan.tree(&sent, &there, filter, &mut comparison)?;
            } else {
                plan.file(&sent, &there, &mut comparison)?;
            }
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

/// What is below a directory of the server.
#[derive(Default)]
struct Tree {
    files: HashMap<WirePath, Found>,
    directories: HashSet<WirePath>,
    /// With the time of modification.
    links: HashMap<WirePath, Mtime>,
    /// Pipes, devices and sockets, as they are printed.
    specials: HashSet<String>,
    /// Directories that have something in them.
    full: HashSet<WirePath>,
}

impl Tree {
    fn take(&mut self, groups: &[Group]) -> Result<(), TransferError> {
        for group in groups {
            self.note_full(group.directory.split_last().map(|(parent, _)| parent));
            if !group.files.is_empty() || !group.links.is_empty() {
                self.note_full(Some(group.directory.clone()));
            }
            self.directories.insert(group.directory.clone());
            for (name, _, modified) in &group.links {
                self.links.insert(group.directory.join(name)?, *modified);
            }
            let grain = group.grain.unwrap_or(Grain::FINEST);
            for entry in group.paths(&WirePath::root()) {
                let (path, offer) = entry?;
                self.files.insert(path, Found { offer, grain });
            }
        }
        if self.files.len() + self.directories.len() + self.links.len() <= MAX_LISTED {
            return Ok(());
        }
        Err(TransferError::Protocol(format!("a listing of more than {MAX_LISTED} files")))
    }

    /// Takes in what the server leaves out of the listing; its name is printable.
    fn take_left_out(&mut self, name: &str, reason: &str) {
        let parent = name.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.note_full(WirePath::new(parent).ok());
        if reason == IS_SPECIAL && self.specials.len() < MAX_LISTED {
            self.specials.insert(name.to_owned());
        }
    }

    fn note_full(&mut self, directory: Option<WirePath>) {
        if let Some(directory) = directory.filter(|_| self.full.len() <= MAX_LISTED) {
            self.full.insert(directory);
        }
    }

    /// Why the directory at `path` could not make way for a file.
    fn stays(&self, path: &WirePath, policy: &Policy) -> Option<RootError> {
        let because = |path: String, why| Some(RootError::WrongKind(path, why));
        if !policy.make_way {
            return Some(has_a_directory(path));
        }
        if policy.backup.is_some() && self.full.contains(path) {
            return because(path.to_string(), HAS_CONTENT);
        }
        let above = format!("{path}/");
        let special = self.specials.iter().find(|name| name.starts_with(&above))?;
        because(special.clone(), "file or directory, and therefore not removed")
    }

    /// Why what is at `path` could not be kept under another name.
    fn cannot_keep(&self, path: &WirePath, policy: &Policy) -> Option<RootError> {
        let kept = policy.backup.as_ref()?.name_of(path.as_str()).ok()?;
        let is_taken = WirePath::new(&kept).is_ok_and(|kept| self.directories.contains(&kept))
            || self.specials.contains(&printable(&kept));
        let why = "file to keep another one in";
        is_taken.then(|| RootError::WrongKind(printable(&kept), why))
    }
}

/// What the server has at a path.
enum Remote {
    Nothing,
    File(u64, Option<Found>),
    Directory(Tree),
}

impl Remote {
    fn ask(mailbox: &Mailbox, path: &WirePath) -> Result<Self, TransferError> {
        mailbox.send(Message::List {
            path: path.clone(),
            depth: Some(WHOLE),
            // A link may be in the place of a file.
            links: true,
            content: false,
        })?;
        let kind = match mailbox.recv() {
            Ok(Message::Entry { kind }) => kind,
            Ok(other) => return Err(TransferError::unexpected(&other)),
            Err(TransferError::Remote(Fail { code: FailCode::NotFound, .. })) => {
                return Ok(Self::Nothing);
            }
            Err(error) => return Err(error),
        };
        let tree = RefCell::new(Tree::default());
        let take = |groups: &[Group]| tree.borrow_mut().take(groups);
        let skipped = |name: &str, reason: &str| tree.borrow_mut().take_left_out(name, reason);
        Reporter::look_at_listing_of_all(mailbox, take, skipped)?;
        let tree = tree.into_inner();
        Ok(match kind {
            EntryKind::File { size } => Self::File(size, tree.files.into_values().next()),
            EntryKind::Directory { .. } => Self::Directory(tree),
        })
    }

    /// Whether something that is no file stays at `path` below this where a file is offered.
    fn keeps(&self, path: &WirePath, policy: &Policy, offer: &Offer) -> bool {
        let Self::Directory(there) = self else { return false };
        let link =
            there.links.get(path).map(|modified| Offer { modified: *modified, ..*offer });
        link.is_some_and(|link| policy.keeps(&link, offer))
            || policy.ignore_existing && there.directories.contains(path)
    }

    /// What would become of a file at `path` below this, and the size of what is there.
    fn change(&self, path: &WirePath, policy: &Policy, offer: &Offer) -> (Change, Option<u64>) {
        let found = match self {
            Self::Directory(there) => there.files.get(path),
            Self::Nothing | Self::File(..) => None,
        };
        if self.keeps(path, policy, offer) {
            return (Change::Kept, None);
        }
        (Change::by(policy, offer, found), found.map(|found| found.offer.size))
    }

    /// Why a file could not be received as `path` below this, in a directory that is there or could be made.
    fn refuses(
        &self,
        path: &WirePath,
        policy: &Policy,
        offer: &Offer,
    ) -> Option<TransferError> {
        let Self::Directory(there) = self else { return None };
        if self.keeps(path, policy, offer) {
            return None;
        }
        if there.directories.contains(path) {
            return there.stays(path, policy).map(refusal);
        }
        if there.specials.contains(&path.to_string()) {
            let why = "file: a pipe, device or socket has this name";
            return Some(refusal(RootError::WrongKind(path.to_string(), why)));
        }
        if there.links.contains_key(path) && !policy.preserve {
            return Some(refusal(RootError::Symlink(path.to_string())));
        }
        None
    }

    /// Why what a file at `path` below this replaces could not be kept.
    fn cannot_keep(&self, path: &WirePath, policy: &Policy) -> Option<TransferError> {
        let Self::Directory(there) = self else { return None };
        there.cannot_keep(path, policy).map(refusal)
    }

    /// What would make way for a directory, or for something else, at `path` below this, and its size.
    fn makes_way(&self, path: &WirePath, for_directory: bool) -> Option<u64> {
        let Self::Directory(there) = self else { return None };
        if !for_directory {
            return there.directories.contains(path).then_some(0);
        }
        let file = there.files.get(path).map(|found| found.offer.size);
        file.or_else(|| there.links.contains_key(path).then_some(0))
    }

    /// Why `path` below this could not be a directory.
    fn refuses_directory(&self, path: &WirePath, policy: &Policy) -> Option<TransferError> {
        let is_none = |path: &WirePath| {
            Some(refusal(RootError::WrongKind(path.to_string(), "directory")))
        };
        let there = match self {
            Self::Nothing => return None,
            Self::File(..) => return is_none(path),
            Self::Directory(there) => there,
        };
        let parent = |path: &WirePath| path.split_last().map(|(above, _)| above);
        let mut line = std::iter::successors(Some(path.clone()), parent);
        line.find_map(|path| {
            if there.links.contains_key(&path) && !(policy.make_way && policy.preserve) {
                return Some(refusal(RootError::Symlink(path.to_string())));
            }
            let is_file = there.files.contains_key(&path) && !policy.make_way;
            if is_file || there.specials.contains(&path.to_string()) {
                return is_none(&path);
            }
            let is_there = there.files.contains_key(&path) || there.links.contains_key(&path);
            there.cannot_keep(&path, policy).filter(|_| is_there).map(refusal)
        })
    }
}

/// Why a directory that has content makes no way where what makes way is kept.
const HAS_CONTENT: &str =
    "file: a directory with something in it has this name, and can't be kept";

/// The error where a file would go into the place of a directory.
fn has_a_directory(path: &WirePath) -> RootError {
    RootError::WrongKind(path.to_string(), "file: a directory has this name")
}

/// As the server would say it.
fn refusal(error: RootError) -> TransferError {
    let error = TransferError::from(error);
    error.to_fail().map_or(error, TransferError::Remote)
}

/// What a dry run of sending goes by.
struct SendPlan<'a> {
    /// The version of the protocol that the server speaks.
    version: usize,
    producer: &'a Producer,
    policy: &'a Policy,
    closing: &'a Closing,
    checksum: bool,
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
        if closing.is_another_name(&sent.remote, number, &offer)? {
            return Ok(());
        }
        let (change, found) = match there {
            Remote::Nothing => (Change::New, None),
            Remote::File(size, Some(found)) => {
                (Change::by(policy, &offer, Some(found)), Some(*size))
            }
            Remote::File(size, None) if policy.ignore_existing => (Change::Kept, Some(*size)),
            Remote::File(size, None) => (Change::of_size(offer.size, Some(*size)), Some(*size)),
            Remote::Directory(..) if policy.ignore_existing => (Change::Kept, None),
            Remote::Directory(..) => return Err(refusal(has_a_directory(&sent.remote))),
        };
        let (theirs, ours) = (sent.remote.clone(), Ours::At(sent.path.clone()));
        let file = ComparedFile { theirs, ours, size: offer.size };
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
        let (mut directory, mut refused) = (WirePath::root(), Refused::default());
        // Files of the directory that the walk is in, if that could not be made.
        let mut within: Option<Directory> = None;
        let walk = Walk::filtered(Arc::clone(&root), WirePath::root(), filter);
        let walk = walk.with_links(self.policy.preserve);
        let walk = walk.with_backslashes(self.version >= BACKSLASHES);
        let mut waiting = Waiting::default();
        for item in walk.with_prefix(base.clone()) {
            match item {
                WalkItem::Directory(group) => {
                    directory = group.directory;
                    let path = base.join(&directory)?;
                    closing.add_name(path.as_str())?;
                    if let Some(last) = within.take() {
                        refused.add(last, producer);
                    }
                    let refused = there.refuses_directory(&directory, self.policy);
                    if let (None, Some(size)) = (&refused, there.makes_way(&directory, true)) {
                        producer.planned(path.as_str().to_owned(), size, Change::Deleted);
                    }
                    within = refused.map(|error| Directory { path, files: Vec::new(), error });
                }
                WalkItem::Link(name, target, modified) => {
                    let path = base.join(&directory.join(&name)?)?;
                    closing.add_file_name(path.as_str())?;
                    closing.add_link(producer, path, target, modified)?;
                }
                WalkItem::File(file) => {
                    let (path, offer) = (directory.join(file.name())?, file.offer());
                    let theirs = base.join(&path)?;
                    closing.add_file_name(theirs.as_str())?;
                    match &mut within {
                        Some(last) => {
                            if !closing.is_another_name(&theirs, file.inode(), &offer)? {
                                last.files.push(theirs.as_str().to_owned());
                            }
                        }
                        None if self.waits(&theirs, there, &path, &file, &mut waiting)? => {}
                        None => self.below(base, there, (&root, path), &offer, comparison)?,
                    }
                }
                other => {
                    closing.add_left_out(base, &other)?;
                    producer.left_out(base, &other);
                }
            }
        }
        for (_, (path, offer)) in waiting.take() {
            self.below(base, there, (&root, path), &offer, comparison)?;
        }
        if let Some(last) = within {
            refused.add(last, producer);
        }
        refused.tell(producer);
        Ok(())
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
        let found = match there {
            Remote::Directory(there) => there.files.get(path),
            Remote::Nothing | Remote::File(..) => None,
        };
        let is_there = is_there(found, offer, self.checksum);
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
        if !matches!(change, Change::Unchanged | Change::Attributes | Change::Kept)
            && let Some(error) = there.cannot_keep(&path, self.policy)
        {
            self.producer.file(theirs.as_str().to_owned(), Err(error));
            return Ok(());
        }
        if change != Change::Kept && there.makes_way(&path, false).is_some() {
            self.producer.planned(theirs.as_str().to_owned(), 0, Change::Deleted);
        }
        let ours = Ours::Below(Arc::clone(root), path);
        let file = ComparedFile { theirs, ours, size: offer.size };
        comparison.plan(self.producer, file, found, change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    #[test]
    fn a_server_that_keeps_whole_seconds_has_what_was_modified_within_one_of_them() {
        let offer =
            |nanos| Offer { size: 7, modified: Mtime { seconds: 1000, nanos }, mode: 0o644 };
        for (grain, change) in
            [(Some("1000000000"), Change::Unchanged), (None, Change::Changed)]
        {
            let grain = grain.map(|text| serde_json::from_str(text).unwrap());
            let mailbox = Mailbox::answered_by(move |_| {
                let files = vec![FileEntry::new(path("file"), offer(0))];
                let group = Group { files, grain, ..Group::default() };
                let kind = EntryKind::Directory { mode: 0o755 };
                vec![
                    Message::Entry { kind },
                    Message::Manifest(vec![group]),
                    Message::EndOfList,
                ]
            });
            let there = Remote::ask(&mailbox, &WirePath::root()).unwrap();
            let told = there.change(&path("file"), &Policy::default(), &offer(123));
            assert_eq!(told, (change, Some(7)));
        }
    }
}
