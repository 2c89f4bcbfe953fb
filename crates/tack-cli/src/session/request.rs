//! What a server's worker does with one request.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use super::batch::{Expected, Results, receive_bundles, send_bundles, shortened, unchanged};
use super::content::{Outcome, Progress, receive_content, send_content, sender_of};
use super::life::{Claims, Life};
use super::mailbox::Mailbox;
use crate::transfer::{
    EntryKind, FileEntry, FileSource, Group, GroupCommit, Incoming, MAX_FILES, Manifest,
    Message, Offer, RESERVED, Resume, Root, SMALL_FILE, SmallFile, Standing, TransferError,
    Tree, Walk, WalkItem, Want, WantGroup, WirePath,
};

/// What all workers of a server share.
pub(super) struct Service {
    pub(super) root: Arc<Root>,
    pub(super) read_only: bool,
    pub(super) write_limit: Option<u64>,
    pub(super) claims: Claims,
    pub(super) commit: GroupCommit,
    pub(super) report: Box<dyn Fn(ServerEvent) + Send + Sync>,
}

/// Something worth logging.
#[derive(Debug)]
pub struct ServerEvent {
    /// Whose request it was.
    pub client: SocketAddr,
    /// What was asked.
    pub action: Action,
    /// On what.
    pub path: WirePath,
    /// How it went; `None` for requests without content.
    pub result: Result<Option<Outcome>, TransferError>,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A file was sent to the client.
    Get,
    /// A file was received from the client.
    Put,
    /// A directory was listed.
    List,
    /// A client said a token.
    LogIn,
}

impl Action {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "send",
            Self::List => "list",
            Self::LogIn => "login",
        }
    }
}

impl Service {
    /// Serves the request that `mailbox` begins with.
    pub(super) fn serve(&self, mailbox: &Mailbox, life: &Arc<Life>, client: SocketAddr) {
        let Ok(request) = mailbox.recv() else { return };
        let log = |action, path, result| {
            (self.report)(ServerEvent { client, action, path, result });
        };
        let (action, path, result) = match request {
            // That there is nothing yet is an ordinary answer, not worth reporting.
            Message::Stat { path } => {
                if let Err(error) = self.stat(mailbox, &path) {
                    mailbox.fail(&error);
                }
                return;
            }
            Message::Get { path, resume } => {
                let result = self.get(mailbox, &path, &resume).map(Some);
                (Action::Get, path, result)
            }
            Message::Put { path, offer } => {
                let result = self.put(mailbox, life, &path, offer).map(Some);
                (Action::Put, path, result)
            }
            Message::List { path, depth } => {
                let result = self.list(mailbox, &path, depth).map(|()| None);
                (Action::List, path, result)
            }
            Message::GetMany { base, groups } => {
                match self.get_many(mailbox, &base, &groups, log) {
                    Ok(()) => return,
                    Err(error) => (Action::Get, base, Err(error)),
                }
            }
            Message::PutMany { base, groups, checksum } => {
                match self.put_many(mailbox, &base, &groups, checksum, log) {
                    Ok(()) => return,
                    Err(error) => (Action::Put, base, Err(error)),
                }
            }
            other => return mailbox.fail(&TransferError::unexpected(&other)),
        };
        if let Err(error) = &result {
            mailbox.fail(error);
        }
        (self.report)(ServerEvent { client, action, path, result });
    }

    fn get(
        &self,
        mailbox: &Mailbox,
        path: &WirePath,
        resume: &Resume,
    ) -> Result<Outcome, TransferError> {
        let mut sender = sender_of(self.root.file(path)?)?;
        mailbox.send(Message::Offer(sender.offer()))?;
        send_content(mailbox, &mut sender, resume, &Progress::default())
    }

    fn put(
        &self,
        mailbox: &Mailbox,
        life: &Arc<Life>,
        path: &WirePath,
        offer: Offer,
    ) -> Result<Outcome, TransferError> {
        self.check_writable()?;
        // Held longer than the file's own lock, which another process might hold.
        let _claim = self.claims.claim(path, life)?;
        let incoming = Incoming::open(&self.root, path, offer.size, self.write_limit)?;
        mailbox.send(Message::Resume(incoming.resume))?;
        receive_content(mailbox, incoming, Some(offer), &Progress::default())
    }

    fn get_many(
        &self,
        mailbox: &Mailbox,
        base: &WirePath,
        groups: &[WantGroup],
        log: impl Fn(Action, WirePath, Result<Option<Outcome>, TransferError>),
    ) -> Result<(), TransferError> {
        let mut files = Vec::new();
        for WantGroup(directory, wanted) in groups {
            let directory = base.join(directory)?;
            for Want(name, theirs) in wanted {
                files.push((directory.join(name)?, *theirs));
            }
        }
        limit(files.len())?;
        let read = (0..).zip(&files).map(|(file, (path, theirs))| {
            let content = self.root.file(path).map_err(TransferError::from);
            let content = content.and_then(|file| SmallFile::read(&mut FileSource(file)));
            (file, content, *theirs)
        });
        send_bundles(mailbox, read, &Progress::default(), |file, result| {
            let path = files.get(file as usize).map(|(path, _)| path.clone());
            log(Action::Get, path.unwrap_or_default(), result.map(Some));
        })
    }

    fn put_many(
        &self,
        mailbox: &Mailbox,
        base: &WirePath,
        groups: &[Group],
        checksum: bool,
        log: impl Fn(Action, WirePath, Result<Option<Outcome>, TransferError>),
    ) -> Result<(), TransferError> {
        self.check_writable()?;
        limit(groups.iter().map(|group| group.files.len()).sum())?;
        let root = Arc::clone(&self.root);
        let mut tree = Tree::new(root, base.clone(), checksum, self.write_limit);
        let (mut files, mut compare, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        let (mut paths, mut results) = (Vec::new(), Results::new());
        for group in groups {
            let created = tree.create(&group.directory, &group.modes);
            if let (Err(_), true) = (&created, group.files.is_empty()) {
                created?;
                continue;
            }
            let fault = created.err().and_then(|error| error.to_fail());
            for path in group.paths(&WirePath::root()) {
                let (file, (path, offer)) = (paths.len() as u32, path?);
                paths.push(path.clone());
                if let Some(fail) = &fault {
                    results.insert(file, Err(TransferError::Remote(fail.clone())));
                    continue;
                }
                match tree.standing(&path, &offer).map_err(TransferError::reading)? {
                    Standing::Unchanged => {
                        results.insert(file, Ok(unchanged(&offer)));
                        continue;
                    }
                    Standing::Compare(digest) => compare.push((file, digest)),
                    Standing::Wanted => {}
                }
                files.push(file);
                if offer.size <= SMALL_FILE {
                    let compare = compare.last().filter(|(of, _)| *of == file).map(|(_, d)| *d);
                    expected.push(Expected { file, path, size: offer.size, compare });
                }
            }
        }
        send_faults(mailbox, results.iter())?;
        let refused: HashSet<u32> = results.keys().copied().collect();
        mailbox.send(Message::Wanted { files, compare })?;
        let progress = Progress::default();
        let received = receive_bundles(
            mailbox,
            &mut tree,
            &self.commit,
            expected,
            &progress,
            &mut results,
        );
        let answered = received.and_then(|()| {
            let new = results.iter().filter(|(file, _)| !refused.contains(file));
            send_faults(mailbox, new)?;
            mailbox.send(Message::Stored)
        });
        for (file, result) in results {
            let path = paths.get(file as usize).and_then(|path| base.join(path).ok());
            log(Action::Put, path.unwrap_or_default(), result.map(Some));
        }
        answered
    }

    fn list(
        &self,
        mailbox: &Mailbox,
        path: &WirePath,
        depth: Option<u32>,
    ) -> Result<(), TransferError> {
        let kind = self.root.kind(path)?;
        mailbox.send(Message::Entry { kind })?;
        if matches!(kind, EntryKind::File { .. }) {
            // Older clients expect nothing here; they give no depth either.
            if depth.is_some() {
                mailbox.send(Message::Manifest(vec![self.entry_of(path)?]))?;
            }
            return mailbox.send(Message::EndOfList);
        }
        let mut manifest = Manifest::default();
        for item in Walk::new(Arc::clone(&self.root), path.clone()).to_depth(depth) {
            let full = match item {
                WalkItem::Directory(group) => manifest.directory(group),
                WalkItem::File(file) => manifest.file(file),
                WalkItem::Skipped { name, reason, error } => {
                    mailbox.send(Message::Skipped { name, reason, error })?;
                    None
                }
                // Most likely what an interrupted transfer to this server has left.
                WalkItem::Reserved(name) => {
                    let reason = RESERVED.to_owned();
                    mailbox.send(Message::Skipped { name, reason, error: false })?;
                    None
                }
            };
            if let Some(groups) = full {
                mailbox.send(Message::Manifest(groups))?;
            }
        }
        mailbox.send(Message::Manifest(manifest.take()))?;
        mailbox.send(Message::EndOfList)
    }

    /// A file as the only one of its directory.
    fn entry_of(&self, path: &WirePath) -> Result<Group, TransferError> {
        let offer = sender_of(self.root.file(path)?)?.offer();
        let (_, name) = path.split_last().unwrap_or_default();
        let files = vec![FileEntry::new(WirePath::new(name)?, offer)];
        Ok(Group { files, ..Group::default() })
    }

    fn stat(&self, mailbox: &Mailbox, path: &WirePath) -> Result<(), TransferError> {
        let kind = self.root.kind(path)?;
        mailbox.send(Message::Entry { kind })
    }

    fn check_writable(&self) -> Result<(), TransferError> {
        if self.read_only { Err(TransferError::ReadOnly) } else { Ok(()) }
    }
}

/// Tells the client about files that can't be stored.
fn send_faults<'a>(
    mailbox: &Mailbox,
    results: impl Iterator<Item = (&'a u32, &'a Result<Outcome, TransferError>)>,
) -> Result<(), TransferError> {
    for (file, result) in results {
        let fail = match result {
            Err(TransferError::Remote(fail)) => Some(fail.clone()),
            Err(error) => error.to_fail(),
            Ok(_) => None,
        };
        if let Some(fail) = fail {
            mailbox.send(Message::Fault { file: *file, fail: shortened(fail) })?;
        }
    }
    Ok(())
}

fn limit(files: usize) -> Result<(), TransferError> {
    if files <= MAX_FILES {
        return Ok(());
    }
    Err(TransferError::Protocol(format!("{files} files in one request, {MAX_FILES} at most")))
}
