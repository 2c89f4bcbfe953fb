//! Many files that are offered with one request.

mod other_names;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::attributes::Ours;
use super::closing::Closing;
use super::jobs::{Job, Kind};
use super::producer::Reporter;
use crate::protocol::{
    Digest, Fail, FileEntry, FileSource, Group, Message, Offer, Policy, Removed, Resume, Root,
    SMALL_FILE, Sender, SmallFile, TransferError, WirePath,
};
use crate::quic::HOLES;
use crate::session::{
    Mailbox, Outcome, kept, send_bundles, send_content, unchanged, with_attributes,
};
use other_names::other_names;

/// Where the files of a batch are on this machine.
#[derive(Clone)]
pub(super) enum Origin {
    /// Below this directory, under the same paths as in the request.
    Tree(Arc<Root>),
    /// One by one, in the order of the request.
    Files(Vec<PathBuf>),
}

/// Directories and files that go to the server.
pub(super) struct PutBatch {
    pub(super) base: WirePath,
    pub(super) groups: Vec<Group>,
    pub(super) origin: Origin,
    pub(super) checksum: bool,
    pub(super) policy: Arc<Policy>,
    pub(super) closing: Closing,
    /// The name that the only file gets in a directory of its path, should there be one.
    pub(super) name_within: Option<WirePath>,
    /// Where nothing is wanted nothing more is said.
    pub(super) is_brief: bool,
    /// The server is thought to have nothing of it: small files follow at once.
    pub(super) is_ahead: bool,
    /// The version of the protocol that the server speaks.
    pub(super) version: usize,
}

impl PutBatch {
    /// The job that sends it.
    pub(super) fn into_job(self, told: &Reporter) -> Job {
        let name = self.base.to_string();
        let told = told.clone();
        let work = Box::new(move |mailbox: &Mailbox| {
            let mut exchange = Exchange::new(self, told)?;
            let ended = exchange.run(mailbox);
            exchange.conclude(mailbox, ended);
            Ok(None)
        });
        Job { kind: Kind::Batch, name, work }
    }
}

struct Exchange {
    batch: PutBatch,
    told: Reporter,
    /// Paths below the base, and what is offered.
    files: Vec<(WirePath, Offer)>,
    /// Files whose fate has been reported, or is another job's.
    settled: HashSet<u32>,
    /// Files that the server could not take.
    failed: Vec<WirePath>,
    /// The directories that are offered.
    directories: Vec<WirePath>,
    /// Other names of files that have several, and what is known of these files.
    names: HashMap<u32, (Vec<WirePath>, FileEntry)>,
    /// Files that have been sent, and count once the server has stored them.
    sent: BTreeMap<u32, Outcome>,
}

/// What a server wants of a batch.
struct WantedFiles {
    files: HashSet<u32>,
    /// What is to be compared first.
    compare: HashMap<u32, Digest>,
    /// What it has of the sole file, whose content it takes at once.
    resume: Option<Box<Resume>>,
}

impl Exchange {
    fn new(batch: PutBatch, told: Reporter) -> Result<Self, TransferError> {
        let root = WirePath::root();
        let files = batch.groups.iter().flat_map(|group| group.paths(&root));
        let files = files.collect::<Result<_, _>>()?;
        let directories = batch.groups.iter().map(|group| group.directory.clone()).collect();
        let names = other_names(&batch.groups);
        let (settled, failed, sent) = (HashSet::new(), Vec::new(), BTreeMap::new());
        Ok(Self { batch, told, files, settled, failed, directories, names, sent })
    }

    fn run(&mut self, mailbox: &Mailbox) -> Result<(), TransferError> {
        let (base, groups) = (self.batch.base.clone(), std::mem::take(&mut self.batch.groups));
        let (checksum, policy) = (self.batch.checksum, self.batch.policy.as_ref().clone());
        let mut large = self.sole_large_one();
        let sole = large.is_some();
        let name_within = self.batch.name_within.clone().map(Box::new);
        let (brief, ahead) = (self.batch.is_brief, self.is_ahead());
        mailbox.send(Message::PutMany {
            base,
            groups,
            checksum,
            policy,
            sole,
            name_within,
            brief,
            ahead,
        })?;
        if ahead {
            self.send_ahead(mailbox)?;
        }
        // Of a large file the server reads what it has before it answers.
        let progress = Arc::clone(&self.told.progress);
        let waiting = sole.then(|| progress.comparing().wait());
        let WantedFiles { files: wanted, compare, resume } = self.wanted(mailbox)?;
        drop(waiting);
        self.note_begun(&wanted, (!ahead).then_some(&compare))?;
        if let (Some(resume), Some(sender)) = (resume, &mut large) {
            progress.expect(sender.offer().size);
            if resume.whole.is_none() {
                let (path, _) = self.file(0)?;
                self.batch.closing.note_begun(&self.batch.base.join(&path)?);
            }
            let told = self.told.clone();
            let removed = |removed| told.removed(&WirePath::root(), removed);
            let outcome = send_content(mailbox, sender, &resume, &progress, removed)?;
            let sent = sender.offer();
            self.note_state(0, &sent)?;
            self.report(0, Ok(outcome));
            return Ok(());
        }
        for file in 0..self.files.len() as u32 {
            if wanted.contains(&file) || self.settled.contains(&file) {
                continue;
            }
            let (_, offer) = self.file(file)?;
            self.report(file, Ok(unchanged(&offer)));
        }
        if brief && wanted.is_empty() && !ahead {
            return Ok(());
        }
        // What was not wanted has been reported.
        self.sent.retain(|file, _| wanted.contains(file));
        let small = self.without_large_ones(wanted)?;
        if !ahead {
            small.iter().try_for_each(|&file| self.expect(file))?;
            self.send(mailbox, &small, &compare)?;
        }
        self.await_stored(mailbox)
    }

    /// Notes that these files are about to be transferred. What has been sent ahead, and is there already, is not, and
    /// what is to be compared only if it turns out to be another file.
    fn note_begun(
        &self,
        wanted: &HashSet<u32>,
        compare: Option<&HashMap<u32, Digest>>,
    ) -> Result<(), TransferError> {
        for (file, (path, offer)) in (0..).zip(&self.files) {
            let theirs = self.batch.base.join(path)?;
            let is_compared = compare.is_some_and(|compare| compare.contains_key(&file))
                || self.batch.checksum && offer.size > SMALL_FILE;
            if wanted.contains(&file) && !is_compared {
                self.batch.closing.note_begun(&theirs);
            } else {
                self.batch.closing.forget_begun(&theirs);
            }
        }
        Ok(())
    }

    /// What of the files that have been sent is in place.
    fn await_stored(&mut self, mailbox: &Mailbox) -> Result<(), TransferError> {
        loop {
            match mailbox.recv()? {
                Message::Stored => break,
                Message::Removed { paths, others } => self.removed(paths, others),
                Message::Fault { file, fail } if self.sent.remove(&file).is_some() => {
                    self.report(file, Err(TransferError::Remote(fail)));
                }
                // Earlier servers repeat what they have been told.
                Message::Fault { file, .. } if self.settled.contains(&file) => {}
                other => return Err(TransferError::unexpected(&other)),
            }
        }
        for (file, outcome) in std::mem::take(&mut self.sent) {
            self.report(file, Ok(outcome));
        }
        Ok(())
    }

    /// Whether small files follow their offer. What the policy lets stay may have been placed by an earlier attempt,
    /// which only an answer tells.
    fn is_ahead(&self) -> bool {
        let Policy { update, ignore_existing, backup, .. } = &*self.batch.policy;
        let is_plain = !update && !ignore_existing && backup.is_none() && self.names.is_empty();
        let has_small = self.files.iter().any(|(_, offer)| offer.size <= SMALL_FILE);
        self.batch.is_ahead && is_plain && has_small && self.batch.name_within.is_none()
    }

    /// Sends all small files before anything is known of them.
    fn send_ahead(&mut self, mailbox: &Mailbox) -> Result<(), TransferError> {
        let is_small = |file: &u32| {
            self.files.get(*file as usize).is_some_and(|(_, offer)| offer.size <= SMALL_FILE)
        };
        let small: Vec<u32> = (0..self.files.len() as u32).filter(is_small).collect();
        small.iter().try_for_each(|&file| self.expect(file))?;
        // The server may place them, and the answer may never come.
        for &file in &small {
            let (path, _) = self.file(file)?;
            self.batch.closing.note_begun(&self.batch.base.join(&path)?);
        }
        self.send(mailbox, &small, &HashMap::new())
    }

    /// Counts a file among those that are to be transferred.
    fn expect(&self, file: u32) -> Result<(), TransferError> {
        let (_, offer) = self.file(file)?;
        self.told.progress.expect(offer.size);
        Ok(())
    }

    /// The only file, if it is large and still what is offered.
    fn sole_large_one(&self) -> Option<Sender<FileSource>> {
        let [(path, offer)] = &self.files[..] else { return None };
        if offer.size <= SMALL_FILE {
            return None;
        }
        let mut sender = Sender::new(FileSource(self.batch.origin.open(0, path).ok()?)).ok()?;
        sender.find_holes(self.batch.version >= HOLES);
        (sender.offer() == *offer).then_some(sender)
    }

    /// What the server wants.
    fn wanted(&mut self, mailbox: &Mailbox) -> Result<WantedFiles, TransferError> {
        loop {
            match mailbox.recv()? {
                Message::Fault { file, fail } => {
                    self.file(file)?;
                    self.report(file, Err(TransferError::Remote(fail)));
                }
                Message::Removed { paths, others } => self.removed(paths, others),
                Message::Elsewhere(files) => self.take_elsewhere(&files)?,
                Message::Wanted {
                    files,
                    compare,
                    kept: stays,
                    attributes,
                    resume,
                    within,
                    refused,
                } => {
                    if within {
                        self.move_within()?;
                    }
                    for file in stays {
                        let (path, offer) = self.file(file)?;
                        let placed =
                            self.batch.closing.has_placed(&self.batch.base.join(&path)?);
                        let outcome = if placed { unchanged(&offer) } else { kept(&offer) };
                        self.report(file, Ok(outcome));
                    }
                    for file in attributes {
                        let (_, offer) = self.file(file)?;
                        self.report(file, Ok(with_attributes(&offer)));
                    }
                    for (group, fail) in refused {
                        self.refuse(group, fail)?;
                    }
                    self.expect_first_names()?;
                    let files = files.into_iter().collect();
                    let compare = compare.into_iter().collect();
                    return Ok(WantedFiles { files, compare, resume });
                }
                other => return Err(TransferError::unexpected(&other)),
            }
        }
    }

    fn removed(&self, paths: Vec<String>, others: u64) {
        self.told.removed(&WirePath::root(), Removed { paths, others });
    }

    /// The server can't make a directory, which is told unless files in it have been.
    fn refuse(&mut self, group: u32, fail: Fail) -> Result<(), TransferError> {
        let Some(directory) = self.directories.get(group as usize) else {
            let what = format!("it names directory {group}, which was not offered");
            return Err(TransferError::Protocol(what));
        };
        let base = &self.batch.base;
        self.batch.closing.note_refused(base.join(directory)?);
        if !self.failed.iter().any(|file| file.below(directory).is_some()) {
            let name = base.join(directory)?.as_str().to_owned();
            self.told.file(name, Err(TransferError::Remote(fail)));
        }
        Ok(())
    }

    /// The only file goes into a directory that has its path.
    fn move_within(&mut self) -> Result<(), TransferError> {
        let (Some(name), [(path, _)]) = (self.batch.name_within.take(), &mut self.files[..])
        else {
            return Err(TransferError::Protocol("no file goes into a directory".to_owned()));
        };
        self.batch.base = self.batch.base.join(path)?;
        *path = name;
        Ok(())
    }

    /// Leaves large files to jobs of their own; returns the small ones in order.
    fn without_large_ones(&mut self, wanted: HashSet<u32>) -> Result<Vec<u32>, TransferError> {
        let mut small = Vec::new();
        // One after the other, as they were found.
        let mut wanted: Vec<_> = wanted.into_iter().collect();
        wanted.sort_unstable();
        for file in wanted {
            let (_, offer) = self.file(file)?;
            if offer.size <= SMALL_FILE {
                small.push(file);
            } else {
                self.send_alone(file)?;
            }
        }
        Ok(small)
    }

    fn send(
        &mut self,
        mailbox: &Mailbox,
        small: &[u32],
        compare: &HashMap<u32, Digest>,
    ) -> Result<(), TransferError> {
        // Answers to what has been sent, and what makes way for it.
        mailbox.hold_messages();
        let mut unreadable = Vec::new();
        let (files, origin, sent) = (&self.files, &self.batch.origin, &mut self.sent);
        let (base, closing) = (&self.batch.base, &self.batch.closing);
        let contents = small.iter().map(|&file| {
            let opened = match files.get(file as usize) {
                Some((path, _)) => origin.open(file, path),
                None => Err(TransferError::Disconnected),
            };
            let content = opened.and_then(|opened| SmallFile::read(&mut FileSource(opened)));
            if let (Ok(content), Some((path, listed))) = (&content, files.get(file as usize))
                && let Ok(remote) = base.join(path)
            {
                closing.note_state(&remote, listed, &content.offer);
                if compare.get(&file).is_some_and(|theirs| *theirs != content.digest) {
                    closing.note_begun(&remote);
                }
            }
            (file, content, compare.get(&file).copied())
        });
        let progress = &self.told.progress;
        send_bundles(mailbox, contents, progress, |file, result| match result {
            Ok(outcome) => drop(sent.insert(file, outcome)),
            Err(error) => unreadable.push((file, error)),
        })?;
        for (file, error) in unreadable {
            match error {
                // It may have become large.
                TransferError::SourceChanged(_) => self.send_alone(file)?,
                error => self.report(file, Err(error)),
            }
        }
        Ok(())
    }

    fn send_alone(&mut self, file: u32) -> Result<(), TransferError> {
        let (path, listed) = self.file(file)?;
        let remote = self.batch.base.join(&path)?;
        let origin = self.batch.origin.clone();
        let (progress, told) = (Arc::clone(&self.told.progress), self.told.clone());
        let (policy, closing) =
            (self.batch.policy.as_ref().clone(), self.batch.closing.clone());
        let has_holes = self.batch.version >= HOLES;
        progress.expect(listed.size);
        let name = remote.as_str().to_owned();
        let work = Box::new(move |mailbox: &Mailbox| {
            let source = FileSource(origin.open(file, &path)?);
            let mut sender = Sender::new(source).map_err(TransferError::reading)?;
            sender.find_holes(has_holes);
            let (path_there, offer) = (remote.clone(), sender.offer());
            mailbox.send(Message::Put { path: path_there, offer, policy })?;
            // The server reads what it has of the file before it answers.
            let waiting = progress.comparing().wait();
            let answer = mailbox.recv()?;
            drop(waiting);
            match answer {
                Message::Resume(resume) => {
                    if resume.whole.is_none() {
                        closing.note_begun(&remote);
                    }
                    let removed = |removed| told.removed(&WirePath::root(), removed);
                    let outcome =
                        send_content(mailbox, &mut sender, &resume, &progress, removed)?;
                    closing.note_state(&remote, &listed, &sender.offer());
                    if let Some(ours) = origin.ours(file, &path) {
                        closing.add_in_place(remote, ours)?;
                    }
                    Ok(Some(outcome))
                }
                other => Err(TransferError::unexpected(&other)),
            }
        });
        self.settled.insert(file);
        self.told.follow_up(Job { kind: Kind::Transfer, name, work });
        Ok(())
    }

    fn file(&self, file: u32) -> Result<(WirePath, Offer), TransferError> {
        self.files.get(file as usize).cloned().ok_or_else(|| {
            TransferError::Protocol(format!("it names file {file}, which was not offered"))
        })
    }

    fn name(&self, file: u32) -> String {
        let path = self.files.get(file as usize).map(|(path, _)| self.batch.base.join(path));
        path.and_then(Result::ok).unwrap_or_default().as_str().to_owned()
    }

    fn report(&mut self, file: u32, result: Result<Outcome, TransferError>) {
        if self.settled.insert(file) {
            let noted = match &result {
                Ok(outcome) if !outcome.kept => self.note_in_place(file),
                Err(TransferError::Remote(_)) => self.file(file).and_then(|(path, _)| {
                    let (directory, _) = path.split_last().unwrap_or_default();
                    self.failed.push(path);
                    let directory = self.batch.base.join(&directory)?;
                    self.batch.closing.note_doubtful(directory);
                    Ok(())
                }),
                _ => Ok(()),
            };
            self.told.file(self.name(file), noted.and(result));
        }
    }

    /// Notes in which state a file has left.
    fn note_state(&self, file: u32, sent: &Offer) -> Result<(), TransferError> {
        let (path, listed) = self.file(file)?;
        self.batch.closing.note_state(&self.batch.base.join(&path)?, &listed, sent);
        Ok(())
    }

    fn note_in_place(&self, file: u32) -> Result<(), TransferError> {
        let (path, _) = self.file(file)?;
        let Some(ours) = self.batch.origin.ours(file, &path) else { return Ok(()) };
        self.batch.closing.add_in_place(self.batch.base.join(&path)?, ours)
    }

    /// Counts what is left open if the exchange has ended with an error.
    fn conclude(self, mailbox: &Mailbox, ended: Result<(), TransferError>) {
        let Err(error) = ended else { return };
        mailbox.fail(&error);
        let open = (0..self.files.len() as u32).filter(|file| !self.settled.contains(file));
        let mut names: Vec<_> = open.map(|file| self.name(file)).collect();
        if names.is_empty() {
            names.push(self.batch.base.to_string());
        }
        self.told.batch_failed(names, error);
    }
}

impl Origin {
    /// Where a file is on this machine, if it is named by that.
    fn path_of(&self, file: u32) -> Option<PathBuf> {
        match self {
            Self::Tree(_) => None,
            Self::Files(files) => files.get(file as usize).cloned(),
        }
    }

    /// The same for files that are named by these paths, or lie below the same directory.
    fn with_paths(&self, paths: Vec<PathBuf>) -> Self {
        match self {
            Self::Tree(root) => Self::Tree(Arc::clone(root)),
            Self::Files(_) => Self::Files(paths),
        }
    }

    fn ours(&self, file: u32, path: &WirePath) -> Option<Ours> {
        match self {
            Self::Tree(root) => Some(Ours::Below(Arc::clone(root), path.clone())),
            Self::Files(files) => files.get(file as usize).cloned().map(Ours::At),
        }
    }

    fn open(&self, file: u32, path: &WirePath) -> Result<File, TransferError> {
        match self {
            Self::Tree(root) => Ok(root.file(path)?),
            Self::Files(files) => match files.get(file as usize) {
                Some(path) => File::open(path).map_err(TransferError::reading),
                None => Err(TransferError::Disconnected),
            },
        }
    }
}

#[cfg(test)]
mod tests;
