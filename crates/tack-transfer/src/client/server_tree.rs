//! What a server has where something would be sent, as far as a dry run is told of it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::dry_run::WHOLE;
use super::producer::Reporter;
use crate::protocol::{
    Change, EntryKind, Fail, FailCode, Found, Grain, Group, IS_SPECIAL, Message, Mtime, Offer,
    Policy, RootError, TransferError, WirePath, printable,
};
use crate::session::Mailbox;

/// Most files of a server's directory that are held against this machine's.
pub(super) const MAX_LISTED: usize = 1 << 20;

/// What is below a directory of the server.
#[derive(Default)]
pub(super) struct Tree {
    files: HashMap<WirePath, Found>,
    /// With times of modification and permissions.
    directories: HashMap<WirePath, (Mtime, u32)>,
    /// With the time of modification.
    links: HashMap<WirePath, Mtime>,
    /// Pipes, devices and sockets, as they are printed.
    specials: HashSet<String>,
    /// What the server does not list otherwise, as it is printed.
    left_out: HashSet<String>,
    /// Directories that have something in them.
    full: HashSet<WirePath>,
    /// All of this with sizes of files, in order of the paths.
    all: OnceLock<Vec<(String, u64)>>,
}

impl Tree {
    fn take(&mut self, groups: &[Group]) -> Result<(), TransferError> {
        for group in groups {
            self.note_full(group.directory.split_last().map(|(parent, _)| parent));
            if !group.files.is_empty() || !group.links.is_empty() {
                self.note_full(Some(group.directory.clone()));
            }
            let found =
                (group.modified.unwrap_or_default(), group.modes.last().copied().unwrap_or(0));
            self.directories.insert(group.directory.clone(), found);
            for (name, _, modified) in &group.links {
                self.links.insert(group.directory.join(name)?, *modified);
            }
            let grain = group.grain.unwrap_or(Grain::FINEST);
            for (position, entry) in group.paths(&WirePath::root()).enumerate() {
                let (path, offer) = entry?;
                let special = group.special.contains(&(position as u32));
                self.files.insert(path, Found { offer, grain, special });
            }
        }
        if self.files.len() + self.directories.len() + self.links.len() <= MAX_LISTED {
            return Ok(());
        }
        Err(TransferError::TooManyNames(MAX_LISTED))
    }

    /// Takes in what the server leaves out of the listing; its name is printable.
    fn take_left_out(&mut self, name: &str, reason: &str) {
        let parent = name.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.note_full(WirePath::new(parent).ok());
        if self.left_out.len() < MAX_LISTED {
            self.left_out.insert(name.to_owned());
        }
        if reason == IS_SPECIAL && self.specials.len() < MAX_LISTED {
            self.specials.insert(name.to_owned());
        }
    }

    /// Everything below the directory at `path`, with sizes of files.
    fn content(&self, path: &WirePath) -> &[(String, u64)] {
        let all = self.all.get_or_init(|| {
            let size = |found: &Found| found.offer.size;
            let files = self.files.iter().map(|(path, found)| (path, size(found)));
            let others = self.directories.keys().chain(self.links.keys());
            let named = files.chain(others.map(|path| (path, 0)));
            let named = named.map(|(path, size)| (path.as_str().to_owned(), size));
            let left_out = self.left_out.iter().map(|name| (name.clone(), 0));
            let mut all: Vec<_> = named.chain(left_out).collect();
            all.sort_unstable();
            all
        });
        if path.is_root() {
            return all.get(1..).unwrap_or_default();
        }
        let above = format!("{}/", path.as_str());
        let begin = all.partition_point(|(name, _)| name.as_str() < above.as_str());
        let behind = all.get(begin..).unwrap_or_default();
        let count = behind.partition_point(|(name, _)| name.starts_with(&above));
        behind.get(..count).unwrap_or_default()
    }

    /// Whether the directory at `path` will be empty once everything has gone that `goes`. What is kept stays in it.
    fn is_emptied(
        &self,
        path: &WirePath,
        policy: &Policy,
        goes: impl Fn(&str) -> bool,
    ) -> bool {
        let above = if path.is_root() { 0 } else { path.as_str().len() + 1 };
        let is_in_it = |name: &str| name.get(above..).is_some_and(|name| !name.contains('/'));
        let is_directory = |name: &str| {
            WirePath::new(name).is_ok_and(|path| self.directories.contains_key(&path))
        };
        self.content(path)
            .iter()
            .filter(|(name, _)| is_in_it(name))
            .all(|(name, _)| goes(name) && (policy.backup.is_none() || is_directory(name)))
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
        let is_taken = WirePath::new(&kept)
            .is_ok_and(|kept| self.directories.contains_key(&kept))
            || self.specials.contains(&printable(&kept));
        let why = "file to keep another one in";
        is_taken.then(|| RootError::WrongKind(printable(&kept), why))
    }
}

/// What the server has at a path.
pub(super) enum Remote {
    Nothing,
    File(u64, Option<Found>),
    Directory(Box<Tree>),
    /// Something that is neither, and stays.
    Other,
}

impl Remote {
    /// Asks for all that there is. What can't be listed is an error, unless the server `keeps_all`.
    pub(super) fn ask(
        mailbox: &Mailbox,
        path: &WirePath,
        keeps_all: bool,
    ) -> Result<Self, TransferError> {
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
            // A link, or what is neither a file nor a directory.
            Err(TransferError::Remote(fail)) if keeps_all && fail.is_in_the_way() => {
                return Ok(Self::Other);
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
            EntryKind::Directory { .. } => Self::Directory(Box::new(tree)),
        })
    }

    /// Whether something that is no file stays at `path` below this where a file is offered.
    pub(super) fn keeps(&self, path: &WirePath, policy: &Policy, offer: &Offer) -> bool {
        let Self::Directory(there) = self else { return false };
        let link =
            there.links.get(path).map(|modified| Offer { modified: *modified, ..*offer });
        link.is_some_and(|link| policy.keeps(&link, offer))
            || policy.ignore_existing && there.directories.contains_key(path)
    }

    /// What would become of a file at `path` below this, and the size of what is there.
    pub(super) fn change(
        &self,
        path: &WirePath,
        policy: &Policy,
        offer: &Offer,
    ) -> (Change, Option<u64>) {
        let found = match self {
            Self::Directory(there) => there.files.get(path),
            Self::Nothing | Self::File(..) | Self::Other => None,
        };
        if self.keeps(path, policy, offer) {
            return (Change::Kept, None);
        }
        (Change::by(policy, offer, found), found.map(|found| found.offer.size))
    }

    /// Why a file could not be received as `path` below this, in a directory that is there or could be made.
    pub(super) fn refuses(
        &self,
        path: &WirePath,
        policy: &Policy,
        offer: &Offer,
    ) -> Option<TransferError> {
        let Self::Directory(there) = self else { return None };
        if self.keeps(path, policy, offer) {
            return None;
        }
        if there.directories.contains_key(path) {
            return there.stays(path, policy).map(refusal);
        }
        if there.specials.contains(&path.to_string()) {
            return Some(refusal(is_special(path)));
        }
        if there.links.contains_key(path) && !policy.preserve {
            return Some(refusal(RootError::Symlink(path.to_string())));
        }
        None
    }

    /// Why what a file at `path` below this replaces could not be kept.
    pub(super) fn cannot_keep(
        &self,
        path: &WirePath,
        policy: &Policy,
    ) -> Option<TransferError> {
        let Self::Directory(there) = self else { return None };
        there.cannot_keep(path, policy).map(refusal)
    }

    /// What would go with a directory at `path` below this that makes way for something else, and that itself, with sizes
    /// of files.
    pub(super) fn goes_with(&self, path: &WirePath) -> Vec<(String, u64)> {
        let Self::Directory(there) = self else { return Vec::new() };
        if !there.directories.contains_key(path) {
            return Vec::new();
        }
        let mut goes = there.content(path).to_vec();
        goes.push((path.as_str().to_owned(), 0));
        goes
    }

    /// Size of what would make way for a directory at `path` below this, if anything would.
    pub(super) fn makes_way_for_directory(&self, path: &WirePath) -> Option<u64> {
        let Self::Directory(there) = self else { return None };
        let file = there.files.get(path).map(|found| found.offer.size);
        file.or_else(|| there.links.contains_key(path).then_some(0))
    }

    /// The file at `path` below this.
    pub(super) fn file(&self, path: &WirePath) -> Option<&Found> {
        match self {
            Self::Directory(there) => there.files.get(path),
            Self::Nothing | Self::File(..) | Self::Other => None,
        }
    }

    /// When what is at `path` below this was modified, if it is a directory or something that is no file and no link.
    pub(super) fn other_kind(&self, path: &WirePath) -> Option<Mtime> {
        let Self::Directory(there) = self else { return None };
        let is_special = || there.specials.contains(&path.to_string());
        let directory = there.directories.get(path).map(|(modified, _)| *modified);
        directory.or_else(|| is_special().then(Mtime::default))
    }

    /// Permissions of the directory at `path` below this.
    pub(super) fn mode_of_directory(&self, path: &WirePath) -> Option<u32> {
        let Self::Directory(there) = self else { return None };
        there.directories.get(path).map(|(_, mode)| *mode)
    }

    /// Why no link could be made at `path` below this, once everything has been removed that `goes`. What is in
    /// directories is received by the policy `within`.
    pub(super) fn refuses_link(
        &self,
        path: &WirePath,
        (policy, within): (&Policy, &Policy),
        goes: impl Fn(&str) -> bool,
    ) -> Option<TransferError> {
        if let Some((parent, _)) = path.split_last()
            && let Some(error) = self.refuses_directory(&parent, within)
        {
            return Some(error);
        }
        let Self::Directory(there) = self else { return None };
        if there.specials.contains(&path.to_string()) {
            return Some(refusal(is_special(path)));
        }
        if there.directories.contains_key(path) {
            let is_emptied = there.is_emptied(path, policy, goes);
            return (!is_emptied).then(|| refusal(has_a_directory(path)));
        }
        let is_there = there.files.contains_key(path) || there.links.contains_key(path);
        there.cannot_keep(path, policy).filter(|_| is_there).map(refusal)
    }

    /// Why `path` below this could not be a directory.
    pub(super) fn refuses_directory(
        &self,
        path: &WirePath,
        policy: &Policy,
    ) -> Option<TransferError> {
        let is_none = |path: &WirePath| {
            Some(refusal(RootError::WrongKind(path.to_string(), "directory")))
        };
        let there = match self {
            Self::Nothing => return None,
            Self::File(..) | Self::Other => return is_none(path),
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

/// The error where something would go into the place of a pipe, a device or a socket.
fn is_special(path: &WirePath) -> RootError {
    let why = "file: a pipe, device or socket has this name";
    RootError::WrongKind(path.to_string(), why)
}

/// The error where a file would go into the place of a directory.
pub(super) fn has_a_directory(path: &WirePath) -> RootError {
    RootError::WrongKind(path.to_string(), "file: a directory has this name")
}

/// As the server would say it.
pub(super) fn refusal(error: RootError) -> TransferError {
    let error = TransferError::from(error);
    error.to_fail().map_or(error, TransferError::Remote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::FileEntry;

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
            let there = Remote::ask(&mailbox, &WirePath::root(), false).unwrap();
            let told = there.change(&path("file"), &Policy::default(), &offer(123));
            assert_eq!(told, (change, Some(7)));
        }
    }
}
