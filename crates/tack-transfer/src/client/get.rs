//! Fetching files and directories.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attributes::Ours;
use super::closing::Closing;
use super::dry_run::WHOLE;
use super::dry_run::get::{GetPlan, Local};
use super::event::End;
use super::jobs::{Job, Kind, Run};
use super::options::{TransferOptions, beyond_version_2};
use super::producer::{Producer, Reporter};
use super::refused::Refused;
use super::waiting::Waiting;
use crate::error::{Error, Feature};
use crate::protocol::{
    Destination, EntryKind, FileEntry, Filter, Group, GroupCommit, Hasher, Incoming, Message,
    Mtime, NameError, Offer, PassThrough, Policy, Resume, Root, SMALL_FILE, Standing, Store,
    TransferError, Tree, WirePath, is_absent, printable,
};
use crate::quic::FEWER_ROUND_TRIPS;
use crate::session::{Mailbox, kept, receive_content, unchanged, with_attributes};

/// A file or directory to fetch, and where to put it.
#[derive(Debug)]
pub struct Get {
    remote: WirePath,
    dest: Destination,
    /// Its name here, if it has one.
    name: Option<String>,
    is_recursive: bool,
    /// A directory becomes one in the destination.
    is_named: bool,
}

impl Get {
    /// Fetches `remote` to the path `dest`.
    ///
    /// A file goes into `dest` if that is a directory or ends with a slash, and becomes `dest` otherwise. Of a
    /// directory ([`recursive`](Self::recursive)) the content goes into `dest`, which is made if it is missing.
    pub fn new(remote: WirePath, dest: impl Into<PathBuf>) -> Self {
        Self::to(remote, Destination::Path(dest.into()))
    }

    /// Fetches `remote` to a path, or through a pipe or device.
    pub fn to(remote: WirePath, dest: Destination) -> Self {
        let name = remote.split_last().map(|(_, name)| name.to_owned());
        Self { remote, dest, name, is_recursive: false, is_named: false }
    }

    /// Takes a directory with everything in it. Without this the server can answer with one file only.
    #[must_use]
    pub fn recursive(mut self) -> Self {
        self.is_recursive = true;
        self
    }

    /// Lets a directory become one in the destination, with its own name, as a file does.
    #[must_use]
    pub fn under_own_name(mut self) -> Self {
        self.is_named = true;
        self
    }

    /// Gives it another name here. Without a name it is a directory of which the content is fetched.
    #[must_use]
    pub fn called(mut self, name: Option<String>) -> Self {
        self.name = name;
        self
    }

    /// Whether there is nothing yet where it would go if it is a file.
    fn has_nothing(&self) -> bool {
        match (&self.dest, &self.name) {
            (Destination::PassThrough(_), _) => true,
            (Destination::Path(dest), name) if goes_into(dest) => {
                name.as_ref().is_some_and(|name| is_absent(&dest.join(name)))
            }
            (Destination::Path(dest), _) => is_absent(dest),
        }
    }
}

/// Makes sure that nothing gets in the way of another thing that is fetched at the same time.
pub(super) fn check(wanted: &[Get], options: &TransferOptions) -> Result<(), Error> {
    let deletes = options.delete;
    if let Some(suffix) = &options.policy.backup {
        let names: HashSet<_> = wanted.iter().filter_map(|get| get.name.clone()).collect();
        let kept = names.iter().filter_map(|name| suffix.name_of(name).ok());
        if let Some(kept) = kept.into_iter().find(|kept| names.contains(kept)) {
            return Err(Error::Invalid(format!(
                "{}: what is kept of another file would get this name; fetch them one after the other, or choose \
                 another suffix",
                printable(&kept)
            )));
        }
    }
    let mut taken = HashSet::new();
    for (at, get) in wanted.iter().enumerate() {
        let Destination::Path(dest) = &get.dest else { continue };
        if let Some(name) = &get.name
            && !taken.insert((dest, name))
        {
            return Err(same_name(name));
        }
        // Its content may go into `dest` itself.
        let is_bare = get.is_recursive && (get.name.is_none() || !get.is_named);
        let is_beside = |(other, get): (usize, &Get)| {
            let is_there = matches!(&get.dest, Destination::Path(other) if other == dest);
            other != at && is_there && (deletes || get.name.is_none())
        };
        if is_bare && wanted.iter().enumerate().any(is_beside) {
            return Err(Error::Invalid(format!(
                "{}: the content of a directory goes there beside something else, and one would be in the other's way; \
                 fetch one after the other, without deleting",
                dest.display()
            )));
        }
    }
    Ok(())
}

/// The error where two things would become one.
pub(super) fn same_name(name: &str) -> Error {
    Error::Invalid(format!(
        "{}: two of what is transferred have this name, and would be in each other's way; transfer them one after the \
         other, to different places",
        printable(name)
    ))
}

/// The error where the content of two directories would go into one, and be deleted there as the other's.
fn same_place(remote: &WirePath) -> Error {
    Error::Invalid(format!(
        "{remote}: another directory that is fetched goes to the same place, though its name is another one there; fetch \
         one after the other, to different places"
    ))
}

/// Whether a file goes into `dest`, and does not become it.
fn goes_into(dest: &Path) -> bool {
    dest.is_dir() || ends_with_slash(dest)
}

/// Asks what there is, and lets the listing become jobs.
pub(super) fn start(wanted: Get, run: &mut Run<'_>, producer: Producer) -> Result<(), Error> {
    let options = run.options;
    if let Some(feature) = beyond_version_2(options, false) {
        run.require_current(feature)?;
    }
    if wanted.remote.has_backslash() {
        run.require_current(Feature::Backslashes)?;
    }
    let remote = wanted.remote.clone();
    let content = !options.dry_run
        && run.protocol_version()? >= FEWER_ROUND_TRIPS
        && wanted.has_nothing();
    let listing = Arc::new(Listing {
        remote: remote.clone(),
        content,
        write_limit: options.write_limit,
        checksum: options.checksum,
        tells_digests: run.protocol_version()? >= Feature::Digests.version(),
        policy: Arc::new(options.policy()),
        policy_within: Arc::new(options.policy_within()),
        closing: Closing::new(options, remote.clone(), true, run.attempt.as_ref()),
        filter: options.filter.clone(),
        commit: GroupCommit::start(),
        told: producer.reporter(),
        producer: Mutex::new(Some(producer)),
        places: Arc::clone(&run.places),
        refused: Mutex::default(),
        waiting: Mutex::default(),
        late: Mutex::default(),
    });
    let (name, dry_run) = (remote.to_string(), options.dry_run);
    let work = Box::new(move |mailbox: &Mailbox| {
        let kind = listing.ask(mailbox)?;
        match place_of(wanted, kind, dry_run) {
            Ok(place) => listing.follow(mailbox, kind, place)?,
            Err(error) => listing.told.refuse(error),
        }
        Ok(None)
    });
    run.inquire(Job { kind: Kind::Inquiry, name, work });
    Ok(())
}

/// What the server has, and where it becomes jobs.
pub(super) struct Listing {
    pub(super) remote: WirePath,
    /// A file's content comes with the listing.
    content: bool,
    pub(super) write_limit: Option<u64>,
    pub(super) checksum: bool,
    /// The server can be asked for digests.
    tells_digests: bool,
    pub(super) policy: Arc<Policy>,
    /// For what is in a directory.
    pub(super) policy_within: Arc<Policy>,
    pub(super) closing: Closing,
    pub(super) filter: Filter,
    pub(super) commit: GroupCommit,
    pub(super) told: Reporter,
    /// Until all has been listed.
    producer: Mutex<Option<Producer>>,
    /// Where directories of the same operation go.
    places: Arc<Mutex<HashSet<(u64, u64)>>>,
    pub(super) refused: Mutex<Refused>,
    /// With their directories.
    pub(super) waiting: Mutex<Waiting<(WirePath, FileEntry)>>,
    /// What of the listing comes behind all others.
    pub(super) late: Mutex<BTreeMap<usize, Vec<Group>>>,
}

impl Listing {
    fn ask(&self, mailbox: &Mailbox) -> Result<EntryKind, TransferError> {
        let links = self.closing.needs_time();
        let (path, content) = (self.remote.clone(), self.content);
        // An answer to this has the time of a single file, too.
        let depth = Some(WHOLE);
        mailbox.send(Message::List { path, depth, links, content })?;
        match mailbox.recv()? {
            Message::Entry { kind } => Ok(kind),
            other => Err(TransferError::unexpected(&other)),
        }
    }

    fn follow(
        self: &Arc<Self>,
        mailbox: &Mailbox,
        kind: EntryKind,
        place: Place,
    ) -> Result<(), TransferError> {
        let root = match place {
            Place::PassThrough(target) if self.content => {
                expect_end(mailbox)?;
                let incoming = incoming_through(target);
                return self.take_content(mailbox, incoming, size_of(kind));
            }
            Place::PassThrough(target) => {
                self.submit(self.fetch_through(target, size_of(kind)));
                return expect_end(mailbox).map(drop);
            }
            Place::File(root, name) => return self.file(mailbox, &root, name, size_of(kind)),
            Place::Directory(root) if self.is_shared(&root)? => {
                self.told.refuse(same_place(&self.remote));
                return Ok(());
            }
            Place::Directory(root) => match self.closing.check_destination(&root) {
                Ok(()) => root,
                Err(error) => {
                    self.told.refuse(error);
                    return Ok(());
                }
            },
            Place::Planned(local) => {
                let (remote, filter) = (self.remote.clone(), self.filter.clone());
                let (told, policy) = (self.told.clone(), Arc::clone(&self.policy_within));
                let closing = self.closing.clone();
                let (checksum, tells_digests) = (self.checksum, self.tells_digests);
                let (waiting, behind) = (RefCell::default(), RefCell::default());
                let plan = GetPlan {
                    remote,
                    filter,
                    told,
                    policy,
                    closing,
                    checksum,
                    tells_digests,
                    waiting,
                    behind,
                };
                return plan.follow(mailbox, kind, &local);
            }
        };
        let (base, limit) = (WirePath::root(), self.write_limit);
        let tree = Tree::new(Arc::clone(&root), base, self.checksum, limit);
        let tree = tree.with_policy(Arc::clone(&self.policy_within));
        let mut tree = tree.with_made_way(self.closing.made_way());
        self.closing.add_tree(&WirePath::root(), &self.filter);
        let take = |groups: &[_]| self.take_groups(&mut tree, &root, groups);
        let skipped = |name: &str| {
            self.closing.add_left_out_name(name)?;
            Ok(self.filter.keeps_printed(name))
        };
        self.told.take_listing(mailbox, &self.remote, take, skipped)?;
        self.closing.tell_missing(&self.told, End::Remote);
        locked(&self.refused).tell(&self.told);
        self.take_waiting(&mut tree, &root)?;
        self.take_late(tree, &root);
        self.closing.finish_here(&self.told, Some(root));
        // The jobs that are to come wait for those of the producer.
        locked(&self.producer).take();
        Ok(())
    }

    /// Whether another directory goes to the same place, under another name, and what one of them does not have is to be
    /// deleted: a file system may take two names for the same, and links may lead there.
    fn is_shared(&self, root: &Root) -> Result<bool, TransferError> {
        let place = root.number().map_err(TransferError::reading)?;
        Ok(!locked(&self.places).insert(place) && self.closing.deletes())
    }

    /// Takes what comes behind all others, once they are in place.
    fn take_late(self: &Arc<Self>, tree: Tree, root: &Arc<Root>) {
        let tree = Arc::new(Mutex::new(tree));
        for groups in std::mem::take(&mut *locked(&self.late)).into_values() {
            let (listing, root, tree) = (Arc::clone(self), Arc::clone(root), Arc::clone(&tree));
            let work = Box::new(move |_: &Mailbox| {
                for group in &groups {
                    let group = std::slice::from_ref(group);
                    listing.take_files(&mut locked(&tree), &root, group)?;
                }
                Ok(None)
            });
            let name = self.remote.to_string();
            self.told.at_last(Job { kind: Kind::Inquiry, name, work });
        }
    }

    /// Queues a job, at once if another one does this.
    pub(super) fn submit(&self, job: Job) {
        match &*locked(&self.producer) {
            Some(producer) => drop(producer.submit(job)),
            None => self.told.follow_up(job),
        }
    }

    /// Fetches the only file, unless what is there stays.
    fn file(
        &self,
        mailbox: &Mailbox,
        root: &Arc<Root>,
        name: WirePath,
        size: u64,
    ) -> Result<(), TransferError> {
        let listed = expect_end(mailbox)?;
        let offer = or_latest(listed, size);
        let stays = root.keeps(&name, &self.policy, &offer);
        if self.content && !stays {
            self.closing.note_begun(&self.remote);
            let incoming = Incoming::open(root, &name, size, self.write_limit, &self.policy)?;
            // Otherwise something has come up meanwhile, which is asked for once more.
            if incoming.resume == Resume::default() {
                self.take_content(mailbox, incoming, size)?;
                let ours = Ours::Below(Arc::clone(root), name);
                self.closing.add_in_place(self.remote.clone(), ours)?;
                self.finish_attributes();
                return Ok(());
            }
        }
        let found = root.offer(&name);
        let is_placed = found.is_some_and(|found| {
            self.closing.has_placed_here(&self.remote, &listed.unwrap_or(found), Some(&found))
        });
        let standing = if stays { None } else { self.standing(root, &name, listed)? };
        if is_placed || standing.is_some() {
            let has_changed = standing == Some(Standing::Attributes);
            let outcome = if has_changed { with_attributes(&offer) } else { unchanged(&offer) };
            self.told.file(self.remote.as_str().to_owned(), Ok(outcome));
            let ours = Ours::Below(Arc::clone(root), name);
            self.closing.add_in_place(self.remote.clone(), ours)?;
        } else if stays {
            self.told.file(self.remote.as_str().to_owned(), Ok(kept(&offer)));
        } else {
            if !self.checksum {
                self.closing.note_begun(&self.remote);
            }
            let (remote, policy) = (self.remote.clone(), &self.policy);
            self.submit(self.fetch(root, remote, name, size, policy));
        }
        self.finish_attributes();
        Ok(())
    }

    /// How the only file stands that is there with the size and time of what is listed, if it is.
    fn standing(
        &self,
        root: &Arc<Root>,
        name: &WirePath,
        listed: Option<Offer>,
    ) -> Result<Option<Standing>, TransferError> {
        let Some(listed) = listed.filter(|_| !self.checksum) else { return Ok(None) };
        let mut tree = Tree::new(Arc::clone(root), WirePath::root(), false, self.write_limit)
            .with_policy(Arc::clone(&self.policy));
        let standing = tree.standing(name, &listed, None)?;
        let is_there = matches!(standing, Standing::Unchanged | Standing::Attributes);
        Ok(is_there.then_some(standing))
    }

    fn finish_attributes(&self) {
        if self.closing.wanted.anything() {
            self.closing.finish_here(&self.told, None);
        }
    }

    /// Takes in a file's content that follows the listing.
    fn take_content(
        &self,
        mailbox: &Mailbox,
        incoming: Incoming<impl Store>,
        size: u64,
    ) -> Result<(), TransferError> {
        self.told.progress.expect(size);
        let outcome = receive_content(mailbox, incoming, None, &self.told.progress)?;
        self.told.file(self.remote.as_str().to_owned(), Ok(outcome));
        Ok(())
    }

    fn fetch_through(&self, store: PassThrough, size: u64) -> Job {
        let progress = Arc::clone(&self.told.progress);
        progress.expect(size);
        let (name, path) = (self.remote.as_str().to_owned(), self.remote.clone());
        let work = Box::new(move |mailbox: &Mailbox| {
            mailbox.send(Message::Get { path, resume: Resume::default() })?;
            let incoming = incoming_through(store);
            receive_content(mailbox, incoming, None, &progress).map(Some)
        });
        Job { kind: Kind::Transfer, name, work }
    }

    /// The job that fetches one file on a stream of its own.
    pub(super) fn fetch(
        &self,
        root: &Arc<Root>,
        remote: WirePath,
        local: WirePath,
        size: u64,
        policy: &Arc<Policy>,
    ) -> Job {
        let (root, limit) = (Arc::clone(root), self.write_limit);
        let (policy, closing) = (Arc::clone(policy), self.closing.clone());
        let (progress, told) = (Arc::clone(&self.told.progress), self.told.clone());
        progress.expect(size);
        let name = remote.as_str().to_owned();
        let work = Box::new(move |mailbox: &Mailbox| {
            let comparing = progress.comparing();
            let incoming =
                Incoming::open_counted(&root, &local, size, limit, &policy, comparing)?;
            let incoming = incoming.with_made_way(closing.made_way());
            let resume = incoming.resume;
            mailbox.send(Message::Get { path: remote.clone(), resume })?;
            let received = receive_content(mailbox, incoming, None, &progress);
            closing.tell_made_way(&told);
            let outcome = received?;
            closing.add_in_place(remote, Ours::Below(root, local))?;
            Ok(Some(outcome))
        });
        let kind = if size <= SMALL_FILE { Kind::Batch } else { Kind::Transfer };
        Job { kind, name, work }
    }
}

/// What is in it is whole whenever the lock is free.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing is known of what a pipe or device has.
fn incoming_through(store: PassThrough) -> Incoming<PassThrough> {
    Incoming { store, resume: Resume::default(), hasher: Hasher::default(), basis: None }
}

/// Takes in the rest of a file's listing: what the file is, if it was asked for.
pub(super) fn expect_end(mailbox: &Mailbox) -> Result<Option<Offer>, TransferError> {
    let mut listed = None;
    loop {
        match mailbox.recv()? {
            Message::EndOfList => return Ok(listed),
            Message::Manifest(groups) if listed.is_none() => {
                let mut files = groups.iter().flat_map(|group| &group.files);
                listed = files.next().map(FileEntry::offer);
            }
            other => return Err(TransferError::unexpected(&other)),
        }
    }
}

/// What is offered of a single file. One of which the server has not said when it was modified counts as the latest:
/// nothing stays because it is newer.
pub(super) fn or_latest(listed: Option<Offer>, size: u64) -> Offer {
    let latest = Mtime { seconds: i64::MAX, nanos: 0 };
    listed.unwrap_or(Offer { size, modified: latest, mode: 0 })
}

/// Where the answer goes.
enum Place {
    /// Into the file of this name.
    File(Arc<Root>, WirePath),
    /// Into this directory.
    Directory(Arc<Root>),
    /// Into a pipe or device.
    PassThrough(PassThrough),
    /// Nowhere: what would go there is told.
    Planned(Local),
}

fn size_of(kind: EntryKind) -> u64 {
    match kind {
        EntryKind::File { size } => size,
        EntryKind::Directory { .. } => 0,
    }
}

/// The directory that the answer goes into, and its name there if it is a file.
fn names_of(
    dest: PathBuf,
    remote_name: Option<String>,
    is_named: bool,
    kind: EntryKind,
) -> Result<(PathBuf, Option<WirePath>), Error> {
    let (directory, name) = match kind {
        EntryKind::Directory { .. } => match remote_name {
            Some(name) if is_named => (dest.join(name), None),
            _ => (dest, None),
        },
        EntryKind::File { .. } => match (goes_into(&dest), remote_name, dest.file_name()) {
            (true, Some(name), _) => (dest, Some(name)),
            (false, _, Some(name)) => {
                let parent = dest.parent().filter(|parent| *parent != Path::new(""));
                let directory = parent.unwrap_or(Path::new(".")).to_owned();
                (directory, Some(utf8(name)?.to_owned()))
            }
            _ => {
                return Err(Error::Invalid(format!("{}: not a file name", dest.display())));
            }
        },
    };
    let name =
        name.map(WirePath::new).transpose().map_err(|e| Error::Invalid(e.to_string()))?;
    Ok((directory, name))
}

/// A name that can be told; others would have to be changed.
fn utf8(name: &OsStr) -> Result<&str, Error> {
    let shown = || NameError::NotUtf8(printable(&name.to_string_lossy()));
    name.to_str().ok_or_else(|| Error::Invalid(shown().to_string()))
}

fn place_of(wanted: Get, kind: EntryKind, dry_run: bool) -> Result<Place, Error> {
    // What arrives is decided here, not by whoever answers.
    if matches!(kind, EntryKind::Directory { .. }) && !wanted.is_recursive {
        return Err(Error::Directory(wanted.remote));
    }
    let dest = match (wanted.dest, kind) {
        (Destination::Path(dest), _) => dest,
        (Destination::PassThrough(target), EntryKind::File { .. }) => {
            return Ok(Place::PassThrough(target));
        }
        (Destination::PassThrough(_), EntryKind::Directory { .. }) => {
            return Err(through_a_pipe());
        }
    };
    // As without a dry run, which looks at it before anything else.
    let resolved = if dry_run { resolve(&dest)? } else { Some(dest) };
    let dest = match (resolved, kind) {
        (Some(dest), _) => dest,
        (None, EntryKind::File { .. }) => return Ok(Place::Planned(Local::Through)),
        (None, EntryKind::Directory { .. }) => return Err(through_a_pipe()),
    };
    let (directory, name) = names_of(dest, wanted.name, wanted.is_named, kind)?;
    if dry_run {
        return Ok(Place::Planned(match name {
            None => Local::Directory(directory),
            Some(name) => Local::File(directory, name),
        }));
    }
    create_destination(&directory, kind).map_err(Error::local(&directory))?;
    let root = open(&directory)?;
    Ok(match name {
        None => Place::Directory(root),
        Some(name) => Place::File(root, name),
    })
}

fn through_a_pipe() -> Error {
    Error::Invalid("a directory can't go through a pipe or device".to_owned())
}

/// What `dest` leads to, unless a file would be written through it to a pipe or device.
fn resolve(dest: &Path) -> Result<Option<PathBuf>, Error> {
    Destination::resolve(dest).map_err(Error::local(dest))
}

/// Creates what is missing of `directory`, which is to hold what `kind` says.
fn create_destination(directory: &Path, kind: EntryKind) -> std::io::Result<()> {
    if let (EntryKind::Directory { mode }, Some(parent)) = (kind, directory.parent())
        && !directory.exists()
    {
        std::fs::create_dir_all(parent)?;
        // No wider than the server's, but its owner has to be able to find what is in it.
        let created = std::fs::DirBuilder::new().mode(mode & 0o777 | 0o500).create(directory);
        // Another thing of the same name may have been quicker.
        return if directory.is_dir() { Ok(()) } else { created };
    }
    std::fs::create_dir_all(directory)
}

fn open(directory: &Path) -> Result<Arc<Root>, Error> {
    Root::open(directory).map(Arc::new).map_err(Error::local(directory))
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}
