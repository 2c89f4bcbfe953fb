//! Sending files and directories.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};

use super::attributes::Ours;
use super::closing::Closing;
use super::dry_run;
use super::dry_run::send::Sent;
use super::event::End;
use super::get::same_name;
use super::jobs::{Job, Kind, Run};
use super::options::beyond_version_2;
use super::producer::{Producer, Reporter};
use super::put_batch::{Origin, PutBatch};
use crate::error::{Error, Feature};
use crate::protocol::{
    EntryKind, Fail, FailCode, FileEntry, FileSource, Filter, Group, Manifest, Message,
    NameError, Names, Policy, Root, TransferError, Walk, WalkItem, WirePath, number_at,
    printable,
};
use crate::quic::{BACKSLASHES, CONTENT_AHEAD, FEWER_ROUND_TRIPS, OTHER_NAMES, REMOVES_PARTS};
use crate::session::Mailbox;

/// Where things go on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into this directory, each under its own name. It is made if it is missing.
    Into(WirePath),
    /// Under this name, which no directory has.
    As(WirePath),
    /// A single file: into the directory of this name if the server has one, else under it. All else: into it.
    IntoOrAs(WirePath),
}

/// Why the second of two files is not sent.
const TWICE: &str = "another source has something of this name, which is sent";

/// Starts whatever sends `sources`; content leaves ahead of answers where the server is thought to have nothing of it.
pub(super) fn start(
    mut sources: Vec<Source>,
    (place, is_ahead): (&Place, bool),
    run: &mut Run<'_>,
    producer: Producer,
) -> Result<(), Error> {
    let options = run.options;
    if let Some(feature) = beyond_version_2(options, true) {
        run.require_current(feature)?;
    }
    if run.protocol_version()? < BACKSLASHES {
        if place.path().has_backslash() {
            run.require_current(Feature::Backslashes)?;
        }
        sources.iter_mut().for_each(Source::refuse_backslash);
    }
    let removes_parts = options.delete && run.protocol_version()? >= REMOVES_PARTS;
    let attempt = run.attempt.as_ref();
    let closing = Closing::new(options, WirePath::root(), removes_parts, attempt);
    check(&sources)?;
    let filter = options.filter.clone();
    let version = run.protocol_version()?;
    let is_current = version >= FEWER_ROUND_TRIPS;
    let is_ahead = is_ahead && version >= CONTENT_AHEAD;
    let place = if !options.dry_run && is_current {
        place.known(&sources).unwrap_or_else(|| place.clone())
    } else {
        // None: what the server has there can't be found out, which has been reported.
        let Some(place) = place.find(&sources, run)? else { return Ok(()) };
        place
    };
    let mut policy_within = options.policy_within();
    policy_within.make_way &= are_apart(&sources);
    let taken = Taken::by(&sources);
    if options.dry_run {
        let sent = planned(&sources, &place, &producer);
        let policy = policy_within;
        let checksum = options.checksum;
        let (how, content) = ((&filter, &policy), (checksum, &taken));
        return dry_run::send::send(run, &producer, sent, how, &closing, content);
    }
    let (checksum, policy) = (options.checksum, Arc::new(options.policy()));
    let policy_within = Arc::new(policy_within);
    let sending = Sending {
        taken,
        producer,
        filter,
        checksum,
        policy,
        policy_within,
        closing,
        is_ahead,
        version,
    };
    let produce = move || sending.produce(&sources, &place);
    std::thread::Builder::new().spawn(produce).map(drop).map_err(Error::Thread)
}

/// Makes sure that no file gets in the way of another thing that is sent at the same time.
fn check(sources: &[Source]) -> Result<(), Error> {
    let mut taken = HashMap::new();
    for source in sources {
        let Ok(Some(name)) = &source.name else { continue };
        let other = taken.insert(name, source.is_directory);
        if other.is_some_and(|is_directory| !(is_directory && source.is_directory)) {
            return Err(same_name(name.as_str()));
        }
    }
    Ok(())
}

/// Whether no source goes into the directory of another one: what one has sent must not make way for what another
/// one sends.
fn are_apart(sources: &[Source]) -> bool {
    let names: HashSet<_> =
        sources.iter().filter_map(|source| source.name.as_ref().ok()?.as_ref()).collect();
    sources.len() == 1 || names.len() == sources.len()
}

/// What would go where.
fn planned(sources: &[Source], place: &Place, producer: &Producer) -> Vec<Sent> {
    let mut sent = Vec::new();
    for source in sources {
        let path = source.path.clone();
        match place.of(source) {
            Ok(remote) => sent.push(Sent { path, remote, is_directory: source.is_directory }),
            Err(error) => {
                let shown = path.display().to_string();
                producer.skip(&shown, &error.to_string(), Some(End::Local));
            }
        }
    }
    sent
}

/// Something of this machine that is sent: a file, or a directory with everything in it.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    /// Its name on the server; none for `.` and the like. One bad name must not keep the
    /// others from being sent.
    name: Result<Option<WirePath>, NameError>,
    is_directory: bool,
}

impl Place {
    fn path(&self) -> &WirePath {
        match self {
            Self::Into(path) | Self::As(path) | Self::IntoOrAs(path) => path,
        }
    }

    /// The place if it does not depend on what the server has: a single file may be given a new name.
    fn known(&self, sources: &[Source]) -> Option<Self> {
        let single_file = matches!(sources, [only] if !only.is_directory);
        match self {
            Self::As(path) if single_file => Some(Self::As(path.clone())),
            Self::IntoOrAs(path) if single_file && !path.is_root() => None,
            Self::Into(path) | Self::As(path) | Self::IntoOrAs(path) => {
                Some(Self::Into(path.clone()))
            }
        }
    }

    /// Asks the server, if the place depends on what it has.
    fn find(&self, sources: &[Source], run: &mut Run<'_>) -> Result<Option<Self>, Error> {
        let path = match self {
            Self::IntoOrAs(path) if self.known(sources).is_none() => path.clone(),
            _ => return Ok(self.known(sources)),
        };
        let (tell, answer) = mpsc::channel();
        let mailbox = run.open()?;
        let name = path.to_string();
        let asked = path.clone();
        let keeps_all = run.options.policy.ignore_existing;
        let work = Box::new(move |mailbox: &Mailbox| {
            let found = match look_up(mailbox, asked) {
                // A link, or what is neither a file nor a directory: it stays.
                Err(TransferError::Remote(fail)) if keeps_all && fail.is_in_the_way() => None,
                found => found?,
            };
            // Fails only if the operation has ended.
            let _ = tell.send(found);
            Ok(None)
        });
        run.spawn_inquiry(mailbox, Job { kind: Kind::Inquiry, name, work })?;
        Ok(match run.wait_for(&answer)? {
            Some(Some(EntryKind::Directory { .. })) => Some(Self::Into(path)),
            Some(_) => Some(Self::As(path)),
            None => None,
        })
    }

    fn of(&self, source: &Source) -> Result<WirePath, NameError> {
        match self {
            // If a directory is there the server lets it go into that.
            Self::As(path) | Self::IntoOrAs(path) => Ok(path.clone()),
            Self::Into(path) => match source.name.as_ref().map_err(Clone::clone)? {
                Some(name) => path.join(name),
                None => Ok(path.clone()),
            },
        }
    }
}

fn look_up(mailbox: &Mailbox, path: WirePath) -> Result<Option<EntryKind>, TransferError> {
    mailbox.send(Message::Stat { path })?;
    match mailbox.recv() {
        Ok(Message::Entry { kind }) => Ok(Some(kind)),
        Ok(other) => Err(TransferError::unexpected(&other)),
        Err(TransferError::Remote(Fail { code: FailCode::NotFound, .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Source {
    /// The file or directory at `path`. Links that it leads through are followed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let metadata = path.metadata().map_err(Error::local(path))?;
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(Error::Invalid(format!(
                "{}: neither a file nor a directory",
                path.display()
            )));
        }
        // Of `directory/.` the content is sent, as of `.` alone.
        let name =
            path.file_name().filter(|_| !ends_with_dot(path)).map(|name| match name.to_str() {
                Some(text) => WirePath::new(text),
                None => Err(NameError::NotUtf8(printable(&name.to_string_lossy()))),
            });
        let is_directory = metadata.is_dir();
        Ok(Self { path: path.to_owned(), name: name.transpose(), is_directory })
    }

    /// Lets it have no name that has a backslash.
    fn refuse_backslash(&mut self) {
        if let Ok(Some(name)) = &self.name
            && name.has_backslash()
        {
            self.name = Err(NameError::Backslash(name.to_string()));
        }
    }

    /// Its name on the server; none for `.` and the like, and for one that can't be told.
    pub fn name(&self) -> Option<&WirePath> {
        self.name.as_ref().ok()?.as_ref()
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }
}

/// Whether a path is that of what a directory has, and not of the directory.
fn ends_with_dot(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    bytes[..end].ends_with(b"/.")
}

/// What several sources send, so that of two things of one name the first one counts.
#[derive(Clone, Default)]
pub(super) struct Taken(Option<Arc<Mutex<Names>>>);

impl Taken {
    fn by(sources: &[Source]) -> Self {
        Self((sources.len() > 1).then(Arc::default))
    }

    /// Whether no other source has sent something of this name.
    pub(super) fn takes(
        &self,
        remote: &WirePath,
        told: &Reporter,
    ) -> Result<bool, TransferError> {
        let Some(taken) = &self.0 else { return Ok(true) };
        // It is whole whenever the lock is free.
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = taken.insert_new(remote.as_str())?;
        if !is_new {
            told.skip(remote.as_str(), TWICE, Some(End::Local));
        }
        Ok(is_new)
    }
}

/// How everything is sent.
struct Sending {
    taken: Taken,
    producer: Producer,
    filter: Filter,
    checksum: bool,
    policy: Arc<Policy>,
    /// For what is in directories.
    policy_within: Arc<Policy>,
    closing: Closing,
    /// As in [`PutBatch`].
    is_ahead: bool,
    /// Of the protocol that the server speaks.
    version: usize,
}

impl Sending {
    /// Notes a file of a tree; when its content is sent. Never if another source has sent something of this name, or if
    /// it becomes a link to another file.
    fn turn_of(&self, remote: &WirePath, file: &FileEntry) -> Result<Turn, TransferError> {
        self.closing.add_file_name(remote.as_str())?;
        if !self.taken.takes(remote, &self.producer)?
            || self.closing.is_another_name(remote, file.inode(), &file.offer())?
        {
            return Ok(Turn::Never);
        }
        if file.is_special() {
            self.closing.add_special();
        }
        if self.waits(remote, file.inode()) {
            return Ok(Turn::Waits);
        }
        self.closing.add_expected(remote);
        Ok(match self.policy.lateness(remote) {
            0 => Turn::Now,
            lateness => Turn::Late(lateness),
        })
    }

    /// Whether a file that is sent waits until it is known under which of its names the server may have it.
    fn waits(&self, remote: &WirePath, inode: Option<u64>) -> bool {
        self.version >= OTHER_NAMES
            && !self.is_ahead
            && self.policy.lateness(remote) == 0
            && self.closing.waits_for_names(inode).is_some()
    }

    /// The files that wait, which are these below `base`, with their other names there. The server is expected to have
    /// one without others under this one.
    fn with_names<P>(
        &self,
        base: &WirePath,
        waiting: Vec<(WirePath, (P, FileEntry))>,
    ) -> Vec<(P, FileEntry)> {
        let firsts = waiting.iter().map(|(remote, _)| remote.clone()).collect();
        let mut names = self.closing.other_names(&firsts);
        let with_names = |(remote, (place, file)): (WirePath, (P, FileEntry))| {
            let others = names.remove(&remote).unwrap_or_default();
            let file = file.with_names(others.iter().filter_map(|name| name.below(base)));
            if !file.has_names() {
                self.closing.add_expected(&remote);
            }
            (place, file)
        };
        waiting.into_iter().map(with_names).collect()
    }

    /// Lets everything that was named become jobs.
    fn produce(&self, sources: &[Source], place: &Place) {
        let name_within = match (place, sources) {
            (Place::IntoOrAs(_), [only]) => only.name.clone().ok().flatten(),
            _ => None,
        };
        let mut files = Files::new(self, name_within);
        let mut late_files: BTreeMap<usize, Files<'_>> = BTreeMap::new();
        let mut late = LateJobs::default();
        let (mut trees, mut is_over) = (Vec::new(), false);
        for source in sources {
            let shown = source.path.display().to_string();
            let added = match place.of(source) {
                Ok(remote) if source.is_directory => {
                    let produced = self.produce_tree(&source.path, &remote, &mut late);
                    trees.push(remote);
                    produced.map(|is_whole| is_over |= !is_whole)
                }
                Ok(remote) => match self.policy.lateness(&remote) {
                    0 => files.add(&source.path, &remote, &mut late),
                    lateness => late_files
                        .entry(lateness)
                        .or_insert_with(|| Files::late(self, lateness))
                        .add(&source.path, &remote, &mut late),
                },
                Err(error) => Err(error.into()),
            };
            if let Err(error) = added {
                self.producer.skip(&shown, &error.to_string(), Some(End::Local));
            }
        }
        files.end(&mut late);
        for files in late_files.into_values() {
            files.end(&mut late);
        }
        // Each runs alone, behind those before it.
        for job in late.into_values().flatten() {
            self.producer.at_last(job);
        }
        if !is_over {
            self.closing.tell_missing(&self.producer, End::Local);
        }
        self.closing.finish_there(&self.producer.reporter(), trees);
    }

    /// Lets everything below a directory become jobs; false if all workers have ended.
    fn produce_tree(
        &self,
        path: &Path,
        base: &WirePath,
        late_jobs: &mut LateJobs,
    ) -> Result<bool, TransferError> {
        let root = Root::open(path).map(Arc::new).map_err(TransferError::reading)?;
        self.closing.add_tree(base, &self.filter);
        let (mut manifest, mut late) = (Manifest::default(), BTreeMap::<_, Late>::new());
        let (mut directory, mut local) = (base.clone(), WirePath::root());
        let (mut walked, mut waiting) = (Arc::default(), Vec::new());
        let walk = Walk::filtered(Arc::clone(&root), WirePath::root(), self.filter.clone());
        let walk = walk.with_links(self.policy.preserve).with_prefix(base.clone());
        for item in walk.with_backslashes(self.version >= BACKSLASHES) {
            let full = match item {
                WalkItem::Directory(group) => {
                    directory = base.join(&group.directory)?;
                    self.closing.add_name(directory.as_str())?;
                    self.closing.add_directory(&directory, &group)?;
                    let ours = Ours::Below(Arc::clone(&root), group.directory.clone());
                    self.closing.add_in_place(directory.clone(), ours)?;
                    local.clone_from(&group.directory);
                    walked = Arc::new(Group::new(group.directory.clone(), group.modes.clone()));
                    manifest.directory(group)
                }
                WalkItem::File(file) => {
                    let remote = directory.join(file.name())?;
                    match self.turn_of(&remote, &file)? {
                        Turn::Now => manifest.file(file),
                        Turn::Waits => {
                            waiting.push((remote, (Arc::clone(&walked), file)));
                            None
                        }
                        Turn::Late(lateness) => {
                            late.entry(lateness).or_default().file(&walked, file);
                            None
                        }
                        Turn::Never => None,
                    }
                }
                WalkItem::Link(name, target, modified) => {
                    let remote = directory.join(&name)?;
                    self.closing.add_file_name(remote.as_str())?;
                    if self.taken.takes(&remote, &self.producer)? {
                        let ours = Ours::Below(Arc::clone(&root), local.join(&name)?);
                        self.closing.add_in_place(remote.clone(), ours)?;
                        self.closing.add_link(&self.producer, remote, target, modified)?;
                    }
                    None
                }
                other => {
                    self.closing.add_left_out(base, &other)?;
                    self.producer.left_out(base, &other);
                    None
                }
            };
            if let Some(groups) = full
                && !self.submit(base, groups, Origin::Tree(Arc::clone(&root)))
            {
                return Ok(false);
            }
        }
        let is_taken = self.submit(base, manifest.take(), Origin::Tree(Arc::clone(&root)))
            && self.submit_waiting(base, &root, waiting);
        self.take_late(base, &root, late, late_jobs);
        Ok(is_taken)
    }

    /// Makes jobs of files that have waited until all their names are known; false if all workers have ended.
    fn submit_waiting(
        &self,
        base: &WirePath,
        root: &Arc<Root>,
        waiting: Vec<(WirePath, (Arc<Group>, FileEntry))>,
    ) -> bool {
        let mut files = Late::default();
        for (directory, file) in self.with_names(base, waiting) {
            files.file(&directory, file);
        }
        let mut messages = files.take().into_iter();
        messages.all(|groups| self.submit(base, groups, Origin::Tree(Arc::clone(root))))
    }

    /// Makes jobs of what comes behind all others.
    fn take_late(
        &self,
        base: &WirePath,
        root: &Arc<Root>,
        late: BTreeMap<usize, Late>,
        jobs: &mut LateJobs,
    ) {
        for (lateness, late) in late {
            for groups in late.take() {
                let batch = self.batch(base, groups, Origin::Tree(Arc::clone(root)), None);
                let job = batch.into_job(&self.producer.reporter());
                jobs.entry(lateness).or_default().push(job);
            }
        }
    }

    fn submit(&self, base: &WirePath, groups: Vec<Group>, origin: Origin) -> bool {
        let batch = self.batch(base, groups, origin, None);
        self.producer.submit(batch.into_job(&self.producer.reporter()))
    }

    /// `name_within` as in [`PutBatch`].
    fn batch(
        &self,
        base: &WirePath,
        groups: Vec<Group>,
        origin: Origin,
        name_within: Option<WirePath>,
    ) -> PutBatch {
        let (base, checksum) = (base.clone(), self.checksum);
        let policy = Arc::clone(match &origin {
            Origin::Tree(_) => &self.policy_within,
            Origin::Files(_) => &self.policy,
        });
        let closing = self.closing.clone();
        PutBatch {
            base,
            groups,
            origin,
            checksum,
            policy,
            closing,
            name_within,
            is_brief: self.version >= FEWER_ROUND_TRIPS,
            is_ahead: self.is_ahead,
            version: self.version,
        }
    }
}

/// When a file of a tree is sent.
enum Turn {
    Now,
    /// Once all its names are known.
    Waits,
    /// Behind so many others.
    Late(usize),
    Never,
}

/// Files that are named one by one, on their way into one directory.
struct Files<'a> {
    sending: &'a Sending,
    base: WirePath,
    manifest: Manifest,
    paths: Vec<PathBuf>,
    /// Files that wait until all their names are known.
    waiting: Vec<(WirePath, (PathBuf, FileEntry))>,
    /// The name of the only one, if it may turn out to go into a directory.
    name_within: Option<WirePath>,
    /// How many others they come behind.
    lateness: usize,
}

impl<'a> Files<'a> {
    fn new(sending: &'a Sending, name_within: Option<WirePath>) -> Self {
        let (base, manifest) = (WirePath::root(), Manifest::default());
        let (paths, waiting) = (Vec::new(), Vec::new());
        Self { sending, base, manifest, paths, waiting, name_within, lateness: 0 }
    }

    fn late(sending: &'a Sending, lateness: usize) -> Self {
        Self { lateness, ..Self::new(sending, None) }
    }

    fn add(
        &mut self,
        path: &Path,
        remote: &WirePath,
        late: &mut LateJobs,
    ) -> Result<(), TransferError> {
        self.sending.closing.add_file_name(remote.as_str())?;
        let offer = FileSource::look_at(path).map_err(TransferError::reading)?;
        let (base, name) = remote.split_last().unwrap_or_default();
        let file = FileEntry::new(WirePath::new(name)?, offer);
        let number = number_at(path).map_err(TransferError::reading)?;
        if !self.sending.taken.takes(remote, &self.sending.producer)?
            || self.sending.closing.is_another_name(remote, number, &offer)?
        {
            return Ok(());
        }
        self.sending.closing.add_named(remote);
        if self.paths.is_empty() && self.waiting.is_empty() {
            // The directory that all of them go into.
            self.manifest.directory(Group::default());
            self.base = base;
        }
        if self.sending.waits(remote, number) {
            let file = file.with_inode(number);
            self.waiting.push((remote.clone(), (path.to_owned(), file)));
        } else {
            self.file(path.to_owned(), file, late);
        }
        Ok(())
    }

    fn file(&mut self, path: PathBuf, file: FileEntry, late: &mut LateJobs) {
        if let Some(full) = self.manifest.file(file) {
            self.submit(full, late);
        }
        self.paths.push(path);
    }

    fn submit(&mut self, groups: Vec<Group>, late: &mut LateJobs) {
        let origin = Origin::Files(std::mem::take(&mut self.paths));
        let name_within = self.name_within.take();
        let batch = self.sending.batch(&self.base, groups, origin, name_within);
        let producer = &self.sending.producer;
        let job = batch.into_job(&producer.reporter());
        if self.lateness > 0 {
            late.entry(self.lateness).or_default().push(job);
        } else {
            producer.submit(job);
        }
    }

    fn end(mut self, late: &mut LateJobs) {
        let waiting = std::mem::take(&mut self.waiting);
        for (path, file) in self.sending.with_names(&self.base.clone(), waiting) {
            self.file(path, file, late);
        }
        if !self.paths.is_empty() {
            let groups = self.manifest.take();
            self.submit(groups, late);
        }
    }
}

/// Jobs that come behind all others, by [`Policy::lateness`](crate::Policy::lateness) of their files.
type LateJobs = BTreeMap<usize, Vec<Job>>;

/// Files of a tree that come behind others.
#[derive(Default)]
struct Late {
    /// The directory that has been begun.
    begun: Option<WirePath>,
    manifest: Manifest,
    full: Vec<Vec<Group>>,
}

impl Late {
    /// A file of the directory that the walk is in.
    fn file(&mut self, directory: &Group, file: FileEntry) {
        if self.begun.as_ref() != Some(&directory.directory) {
            self.begun = Some(directory.directory.clone());
            self.full.extend(self.manifest.directory(directory.clone()));
        }
        self.full.extend(self.manifest.file(file));
    }

    fn take(mut self) -> Vec<Vec<Group>> {
        self.full.extend(self.begun.map(|_| self.manifest.take()));
        self.full
    }
}
