//! What a server's worker does with one request.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use super::batch::{Expected, Results, receive_bundles, send_bundles, shortened};
use super::content::{Outcome, Progress, receive_content_and, send_content, sender_of};
use super::life::{Claims, Life};
use super::mailbox::Mailbox;
use super::offered::Offered;
use super::removed::{EarlyTeller, tell_removed};
use crate::protocol::{
    Attributes, Digest, Edit, EditKind, Edited, Editor, EntryKind, FileEntry, FileSource,
    Group, GroupCommit, Hasher, Incoming, MAX_FILES, MadeWay, Manifest, Message, Offer, Policy,
    RESERVED, Resume, Root, SmallFile, TransferError, Tree, Walk, WalkItem, Want, WantGroup,
    Wanted, WirePath,
};
use crate::quic::{BACKSLASHES, HOLES, TELLS_EARLY, TELLS_REMOVED};

/// What all workers of a server share.
pub(super) struct Service {
    pub(super) root: Arc<Root>,
    pub(super) read_only: bool,
    pub(super) links: bool,
    /// Whether clients may give what they send to other users.
    pub(super) owners: bool,
    pub(super) write_limit: Option<u64>,
    pub(super) claims: Claims,
    pub(super) commit: GroupCommit,
    /// One reference for each worker of all connections, and this one.
    pub(super) workers: Arc<()>,
    pub(super) report: Box<dyn Fn(ServerEvent) + Send + Sync>,
}

/// What is asked for with a listing, and by whom.
#[derive(Clone, Copy)]
struct Asked {
    depth: Option<u32>,
    links: bool,
    content: bool,
    /// Of the protocol that the client speaks.
    version: usize,
}

/// A `PutMany`.
struct PutOffer {
    base: WirePath,
    groups: Vec<Group>,
    checksum: bool,
    policy: Policy,
    sole: bool,
    name_within: Option<Box<WirePath>>,
    brief: bool,
    ahead: bool,
}

impl PutOffer {
    fn of(request: Message) -> Option<Self> {
        match request {
            Message::PutMany {
                base,
                groups,
                checksum,
                policy,
                sole,
                name_within,
                brief,
                ahead,
            } => Some(Self { base, groups, checksum, policy, sole, name_within, brief, ahead }),
            _ => None,
        }
    }

    /// Holds it against what is there.
    fn look_at(&self, tree: &mut Tree, mailbox: &Mailbox) -> Result<Offered, TransferError> {
        let mut offered = Offered::look_at(tree, &self.groups)?;
        if self.ahead {
            mailbox.hold_messages();
            offered.expect_all(&self.groups)?;
        }
        Ok(offered)
    }

    /// Lets the only file go into a directory, if one has its path.
    fn move_within(&mut self, root: &Root) -> bool {
        let Some(name) = self.name_within.take() else { return false };
        let [group] = &mut self.groups[..] else { return false };
        let ([file], true) = (&group.files[..], group.directory.is_root()) else {
            return false;
        };
        let Ok(path) = self.base.join(file.name()) else { return false };
        let is_directory = matches!(root.kind(&path), Ok(EntryKind::Directory { .. }));
        if is_directory {
            group.files = vec![FileEntry::new(*name, file.offer())];
            self.base = path;
        }
        is_directory
    }
}

/// Something worth logging.
#[derive(Debug)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Action {
    /// A file was sent to the client.
    Get,
    /// A file was received from the client.
    Put,
    /// A file, link or directory was removed.
    Delete,
    /// A symbolic or hard link was made.
    Link,
    /// Something got its attributes.
    Attributes,
    /// A directory was listed.
    List,
    /// A client said a token.
    LogIn,
}

impl Action {
    fn of(edit: EditKind) -> Self {
        match edit {
            EditKind::Removal => Self::Delete,
            EditKind::Link => Self::Link,
            EditKind::Attributes => Self::Attributes,
        }
    }

    /// What a request asks for, and on what.
    fn asked(request: Message) -> (Self, WirePath) {
        match request {
            Message::Get { path, .. } => (Self::Get, path),
            Message::GetMany { base, .. } => (Self::Get, base),
            Message::Put { path, .. } => (Self::Put, path),
            Message::PutMany { base, .. } => (Self::Put, base),
            Message::List { path, .. } | Message::Stat { path } => (Self::List, path),
            Message::Edit { edits, .. } => {
                let kind = edits.first().map_or(EditKind::Attributes, Edit::kind);
                (Self::of(kind), WirePath::root())
            }
            _ => (Self::List, WirePath::root()),
        }
    }

    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "send",
            Self::Delete => "delete",
            Self::Link => "link",
            Self::Attributes => "attributes",
            Self::List => "list",
            Self::LogIn => "login",
        }
    }
}

impl Service {
    /// Serves the request that `mailbox` begins with.
    pub(super) fn serve(&self, mailbox: &Mailbox, life: &Arc<Life>, client: SocketAddr) {
        let Ok(request) = mailbox.recv() else { return };
        if request.changes_something() && !life.handshake.pass() {
            return;
        }
        if let Err(error) = self.root.check_path() {
            let error = TransferError::from(error);
            mailbox.fail(&error);
            let (action, path) = Action::asked(request);
            return (self.report)(ServerEvent { client, action, path, result: Err(error) });
        }
        self.serve_request(request, mailbox, life, client);
    }

    fn serve_request(
        &self,
        request: Message,
        mailbox: &Mailbox,
        life: &Arc<Life>,
        client: SocketAddr,
    ) {
        let log = |action, path, result| {
            (self.report)(ServerEvent { client, action, path, result });
        };
        let (action, path, result) = match request {
            Message::Get { path, resume } => {
                let result = self.get(mailbox, &path, &resume, life.version()).map(Some);
                (Action::Get, path, result)
            }
            Message::Put { path, offer, policy } => {
                let policy = (policy, &MadeWay::default());
                let result = self.put(mailbox, life, &path, offer, policy, Message::Resume);
                let result = result.map(Some);
                (Action::Put, path, result)
            }
            Message::List { path, depth, links, content } => {
                if links && life.has_claimed() {
                    // What is there and not in the source may be removed next.
                    self.claims.wait_for_dead(&[&path], life);
                }
                let asked = Asked { depth, links, content, version: life.version() };
                let (action, result) = self.list_or_get(mailbox, &path, asked);
                (action, path, result)
            }
            Message::GetMany { base, groups } => {
                match self.get_many(mailbox, &base, &groups, log) {
                    Ok(()) => return,
                    Err(error) => (Action::Get, base, Err(error)),
                }
            }
            request @ Message::PutMany { .. } => {
                let Some(mut offer) = PutOffer::of(request) else { return };
                match self.put_many(mailbox, life, &mut offer, log) {
                    Ok(()) => return,
                    Err(error) => (Action::Put, offer.base, Err(error)),
                }
            }
            Message::Edit { edits, policy } => {
                let kind = edits.first().map_or(EditKind::Attributes, Edit::kind);
                match self.edit(mailbox, life, edits, policy, log) {
                    Ok(()) => return,
                    Err(error) => (Action::of(kind), WirePath::root(), Err(error)),
                }
            }
            question => {
                if let Err(error) = self.answer(mailbox, question) {
                    mailbox.fail(&error);
                }
                return;
            }
        };
        if let Err(error) = &result {
            mailbox.fail(error);
        }
        (self.report)(ServerEvent { client, action, path, result });
    }

    /// Answers a question that is not worth reporting: that there is nothing, say, is an ordinary answer.
    fn answer(&self, mailbox: &Mailbox, question: Message) -> Result<(), TransferError> {
        match question {
            Message::Stat { path } => self.stat(mailbox, &path),
            Message::GetAttributes { wanted, paths } => self.attributes(mailbox, wanted, paths),
            Message::GetDigests { paths } => self.digests(mailbox, paths),
            other => Err(TransferError::unexpected(&other)),
        }
    }

    fn get(
        &self,
        mailbox: &Mailbox,
        path: &WirePath,
        resume: &Resume,
        version: usize,
    ) -> Result<Outcome, TransferError> {
        let mut sender = sender_of(self.root.file(path)?)?;
        sender.find_holes(version >= HOLES);
        mailbox.send(Message::Offer(sender.offer()))?;
        send_content(mailbox, &mut sender, resume, &Progress::default(), drop)
    }

    fn put(
        &self,
        mailbox: &Mailbox,
        life: &Arc<Life>,
        path: &WirePath,
        offer: Offer,
        (policy, made_way): (Policy, &MadeWay),
        answer: impl FnOnce(Resume) -> Message,
    ) -> Result<Outcome, TransferError> {
        self.check_writable()?;
        let _tree = self.claims.claim_tree(path, life);
        // Held longer than the file's own lock, which another process might hold.
        let _claim = self.claims.claim(path, life)?;
        let (limit, policy) = (self.write_limit, Arc::new(policy));
        let incoming = Incoming::open(&self.root, path, offer.size, limit, &policy)?;
        let incoming = incoming.with_made_way(made_way.clone());
        mailbox.send(answer(incoming.resume))?;
        let tell = || tell_removed_to(life, mailbox, made_way);
        receive_content_and(mailbox, incoming, Some(offer), &Progress::default(), tell)
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
        life: &Arc<Life>,
        offer: &mut PutOffer,
        log: impl Fn(Action, WirePath, Result<Option<Outcome>, TransferError>),
    ) -> Result<(), TransferError> {
        self.check_writable()?;
        limit(offer.groups.iter().map(|group| group.files.len()).sum())?;
        let _claim = self.claims.claim_tree(&offer.base, life);
        let within = offer.move_within(&self.root);
        let made_way = MadeWay::default();
        let mut tree = self.tree_of(offer, life).with_made_way(made_way.clone());
        let PutOffer { base, groups, policy, sole, brief, ahead, .. } = &*offer;
        let mut offered = offer.look_at(&mut tree, mailbox)?;
        send_faults(mailbox, offered.results.iter())?;
        if !offered.elsewhere.is_empty() {
            mailbox.send(Message::Elsewhere(std::mem::take(&mut offered.elsewhere)))?;
        }
        if *sole
            && let (true, [path]) = (offered.is_sole_large_one(), &offered.paths[..])
            && let Some(file) = groups.iter().flat_map(|group| &group.files).next()
        {
            let (path, offer) = (base.join(path)?, file.offer());
            let answer = |resume| offered.wanted(Some(resume), within);
            let policy = (policy.clone(), &made_way);
            let result = self.put(mailbox, life, &path, offer, policy, answer);
            if let Err(error) = &result {
                mailbox.fail(error);
            }
            log(Action::Put, path, result.map(Some));
            return Ok(());
        }
        let is_over = *brief && offered.files.is_empty() && !*ahead;
        if !*ahead {
            // Before any content, which may never come. A client that sends it ahead hears nothing until then.
            tell_removed_to(life, mailbox, &made_way)?;
        }
        mailbox.send(offered.wanted(None, within))?;
        let Offered { paths, expected, mut results, .. } = offered;
        let answered = if is_over {
            Ok(())
        } else {
            let mut early =
                (life.version() >= TELLS_EARLY).then(|| EarlyTeller::new(mailbox, &made_way));
            let tell = || early.as_mut().map_or(Ok(()), EarlyTeller::tell);
            let received = self.receive(mailbox, &mut tree, expected, &mut results, tell);
            received.and_then(|()| {
                tell_removed_to(life, mailbox, &made_way)?;
                mailbox.send(Message::Stored)
            })
        };
        for (file, result) in results {
            let path = paths.get(file as usize).and_then(|path| base.join(path).ok());
            log(Action::Put, path.unwrap_or_default(), result.map(Some));
        }
        answered
    }

    /// Where what is offered goes.
    fn tree_of(&self, offer: &PutOffer, life: &Life) -> Tree {
        let PutOffer { base, checksum, policy, .. } = offer;
        let tree = Tree::new(Arc::clone(&self.root), base.clone(), *checksum, self.write_limit);
        let tree = tree.with_inodes(Arc::clone(&life.inodes));
        tree.with_policy(Arc::new(policy.clone()))
    }

    /// Receives small files, and tells which of them could not be stored.
    fn receive(
        &self,
        mailbox: &Mailbox,
        tree: &mut Tree,
        expected: Vec<Expected>,
        results: &mut Results,
        tell: impl FnMut() -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let known: HashSet<u32> = results.keys().copied().collect();
        let (commit, progress) = (&self.commit, Progress::default());
        receive_bundles(mailbox, tree, commit, expected, &progress, results, tell)?;
        // The client knows what it could not send.
        let is_news = |file, result: &Result<_, _>| {
            !known.contains(file) && !matches!(result, Err(TransferError::Remote(_)))
        };
        let new = results.iter().filter(|(file, result)| is_news(file, result));
        send_faults(mailbox, new)
    }

    /// Applies edits, as long as the client has some.
    fn edit(
        &self,
        mailbox: &Mailbox,
        life: &Arc<Life>,
        mut edits: Vec<Edit>,
        mut policy: Policy,
        log: impl Fn(Action, WirePath, Result<Option<Outcome>, TransferError>),
    ) -> Result<(), TransferError> {
        loop {
            self.check_writable()?;
            limit(edits.len())?;
            // Files that come later would change the times of directories that are set here.
            let paths: Vec<_> = edits.iter().map(Edit::path).collect();
            let _claims: Vec<_> =
                paths.iter().map(|path| self.claims.claim_tree(path, life)).collect();
            self.claims.wait_for_dead(&paths, life);
            let editor = Editor::of_server(Arc::clone(&self.root), policy);
            let (mut unchanged, mut kept) = (Vec::new(), Vec::new());
            for (number, edit) in (0..).zip(&edits) {
                let result = match edit {
                    Edit::Symlink(..) if !self.links => Err(TransferError::NoLinks),
                    Edit::Attributes(path, attributes) if !self.owners => {
                        self.set_without_owner(&editor, path, attributes)
                    }
                    edit => editor.apply(edit),
                };
                match &result {
                    Ok(Edited::Done) => {}
                    Ok(Edited::Unchanged) => unchanged.push(number),
                    Ok(Edited::Kept) => kept.push(number),
                    Err(error) => {
                        if let Some(fail) = error.to_fail() {
                            let fail = shortened(fail);
                            mailbox.send(Message::Fault { file: number, fail })?;
                        }
                    }
                }
                let is_news = !matches!(result, Ok(Edited::Unchanged | Edited::Kept))
                    && !matches!(edit, Edit::RemovePart(_));
                if is_news {
                    log(Action::of(edit.kind()), edit.path().clone(), result.map(|_| None));
                }
            }
            mailbox.send(Message::Edited { unchanged, kept })?;
            (edits, policy) = match mailbox.recv() {
                Ok(Message::Edit { edits, policy }) => (edits, policy),
                Ok(other) => return Err(TransferError::unexpected(&other)),
                // The client has no more.
                Err(TransferError::Disconnected) => return Ok(()),
                Err(error) => return Err(error),
            };
        }
    }

    /// Sets attributes of something that stays its owner's.
    fn set_without_owner(
        &self,
        editor: &Editor,
        path: &WirePath,
        attributes: &Attributes,
    ) -> Result<Edited, TransferError> {
        let (owners, others) =
            (Wanted { owner: true, xattrs: false }, Wanted { owner: false, xattrs: true });
        let rest = attributes.clone().only(others);
        let edited = editor.apply(&Edit::Attributes(path.clone(), rest))?;
        let asked = attributes.clone().only(owners);
        let is_other = asked != Attributes::default()
            && Attributes::read(&self.root, path, owners)? != asked;
        Ok(if is_other { Edited::Kept } else { edited })
    }

    /// Tells owners and extended attributes, as long as the client asks for some.
    fn attributes(
        &self,
        mailbox: &Mailbox,
        mut wanted: Wanted,
        mut paths: Vec<WirePath>,
    ) -> Result<(), TransferError> {
        loop {
            limit(paths.len())?;
            for (number, path) in (0..).zip(&paths) {
                match Attributes::read(&self.root, path, wanted) {
                    Ok(attributes) => {
                        mailbox.send(Message::Attributes(vec![(number, attributes)]))?;
                    }
                    Err(error) => {
                        let fail = error.to_fail().map(shortened);
                        if let Some(fail) = fail {
                            mailbox.send(Message::Fault { file: number, fail })?;
                        }
                    }
                }
            }
            mailbox.send(Message::EndOfAttributes)?;
            (wanted, paths) = match mailbox.recv() {
                Ok(Message::GetAttributes { wanted, paths }) => (wanted, paths),
                Ok(other) => return Err(TransferError::unexpected(&other)),
                // The client has no more.
                Err(TransferError::Disconnected) => return Ok(()),
                Err(error) => return Err(error),
            };
        }
    }

    /// Tells digests, as long as the client asks for some.
    fn digests(
        &self,
        mailbox: &Mailbox,
        mut paths: Vec<WirePath>,
    ) -> Result<(), TransferError> {
        loop {
            limit(paths.len())?;
            for (file, path) in (0..).zip(&paths) {
                match self.digest(path) {
                    Ok(digest) => mailbox.send(Message::Digest { file, digest })?,
                    Err(error) => {
                        if let Some(fail) = error.to_fail().map(shortened) {
                            mailbox.send(Message::Fault { file, fail })?;
                        }
                    }
                }
            }
            mailbox.send(Message::EndOfDigests)?;
            paths = match mailbox.recv() {
                Ok(Message::GetDigests { paths }) => paths,
                Ok(other) => return Err(TransferError::unexpected(&other)),
                // The client has no more.
                Err(TransferError::Disconnected) => return Ok(()),
                Err(error) => return Err(error),
            };
        }
    }

    fn digest(&self, path: &WirePath) -> Result<Digest, TransferError> {
        let mut hasher = Hasher::default();
        let mut file = self.root.file(path)?;
        hasher.read(&mut file, u64::MAX).map_err(TransferError::reading)?;
        Ok(hasher.digest())
    }

    /// Lists what there is, and sends it if it is a file of which the `content` is wanted.
    fn list_or_get(
        &self,
        mailbox: &Mailbox,
        path: &WirePath,
        asked: Asked,
    ) -> (Action, Result<Option<Outcome>, TransferError>) {
        match self.list(mailbox, path, asked) {
            Ok(EntryKind::File { .. }) if asked.content => {
                let sent = self.get(mailbox, path, &Resume::default(), asked.version);
                (Action::Get, sent.map(Some))
            }
            listed => (Action::List, listed.map(|_| None)),
        }
    }

    fn list(
        &self,
        mailbox: &Mailbox,
        path: &WirePath,
        Asked { depth, links, version, .. }: Asked,
    ) -> Result<EntryKind, TransferError> {
        let kind = self.root.kind(path)?;
        mailbox.send(Message::Entry { kind })?;
        if matches!(kind, EntryKind::File { .. }) {
            // Older clients expect nothing here; they give no depth and want no links either.
            if depth.is_some() || links {
                mailbox.send(Message::Manifest(vec![self.entry_of(path)?]))?;
            }
            mailbox.send(Message::EndOfList)?;
            return Ok(kind);
        }
        let mut manifest = Manifest::default();
        let walk = Walk::new(Arc::clone(&self.root), path.clone()).with_depth(depth);
        let walk = walk.with_links(links).with_grains(links);
        for item in walk.with_backslashes(version >= BACKSLASHES) {
            let full = match item {
                WalkItem::Directory(group) => manifest.directory(group),
                WalkItem::File(file) => manifest.file(file),
                WalkItem::Link(name, ..) if !self.links => {
                    let reason = "a symbolic link, which this server does not show".to_owned();
                    let name = manifest.path_of(&name).to_string();
                    mailbox.send(Message::not_transferred(name, reason))?;
                    None
                }
                WalkItem::Link(name, target, modified) => manifest.link(name, target, modified),
                WalkItem::Skipped { name, reason, error, unread } => {
                    mailbox.send(Message::Skipped { name, reason, error, unread })?;
                    None
                }
                // Most likely what an interrupted transfer to this server has left.
                WalkItem::Reserved(name) => {
                    let reason = RESERVED.to_owned();
                    mailbox.send(Message::not_transferred(name, reason))?;
                    None
                }
            };
            if let Some(groups) = full {
                mailbox.send(Message::Manifest(groups))?;
            }
        }
        mailbox.send(Message::Manifest(manifest.take()))?;
        mailbox.send(Message::EndOfList)?;
        Ok(kind)
    }

    /// A file as the only one of its directory.
    fn entry_of(&self, path: &WirePath) -> Result<Group, TransferError> {
        let offer = sender_of(self.root.file(path)?)?.offer();
        let (_, name) = path.split_last().unwrap_or_default();
        let file = FileEntry::new(WirePath::new(name)?, offer);
        let mut group = Group::default();
        group.add(match self.root.found(path) {
            Some(found) => file.with_grain(found.grain).with_special(found.special),
            None => file,
        });
        Ok(group)
    }

    fn stat(&self, mailbox: &Mailbox, path: &WirePath) -> Result<(), TransferError> {
        let kind = self.root.kind(path)?;
        mailbox.send(Message::Entry { kind })
    }

    fn check_writable(&self) -> Result<(), TransferError> {
        if self.read_only { Err(TransferError::ReadOnly) } else { Ok(()) }
    }
}

/// Tells a client what has made way for what it sends, if it knows what that means.
fn tell_removed_to(
    life: &Life,
    mailbox: &Mailbox,
    made_way: &MadeWay,
) -> Result<(), TransferError> {
    if life.version() < TELLS_REMOVED {
        return Ok(());
    }
    tell_removed(mailbox, made_way)
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
