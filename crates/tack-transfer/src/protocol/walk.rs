//! Everything below a path, one entry at a time.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Stat};

use super::acl;
use super::disk::{Grain, SPECIAL, number_of, offer_of};
use super::edit::DIRECTORY_MODE;
use super::filter::Filter;
use super::manifest::{FileEntry, Group};
use super::part_name::{PartName, RESERVED};
use super::root::open_file;
use super::wire::{Mtime, Offer};
use super::{LinkTarget, NameError, Root, TransferError, WirePath, printable};

/// Why a pipe, a device or a socket is left out.
pub const IS_SPECIAL: &str = "neither a file nor a directory";
/// Why a symbolic link is left out.
pub const IS_LINK: &str = "a symbolic link, which is not followed";

/// Walks a tree: each directory, then the files in it.
#[derive(Debug)]
pub struct Walk {
    root: Arc<Root>,
    base: WirePath,
    /// Where a peer puts what is found.
    prefix: WirePath,
    filter: Filter,
    depth: Option<u32>,
    links: bool,
    grains: bool,
    backslashes: bool,
    /// Directories still to be read, relative to `base`, and the permissions of their parents.
    pending: Vec<(WirePath, Vec<u32>)>,
    current: Option<Open>,
}

#[derive(Debug)]
struct Open {
    path: WirePath,
    /// Its permissions, behind those of its parents.
    modes: Vec<u32>,
    modified: Option<Mtime>,
    directory: OwnedFd,
    entries: Dir,
}

/// One thing that was found.
#[derive(Debug, PartialEq, Eq)]
pub enum WalkItem {
    /// A directory; the files that follow are in it.
    Directory(Group),
    /// A file.
    File(FileEntry),
    /// A symbolic link, if links are of interest: its name, its target, its time of modification.
    Link(WirePath, LinkTarget, Mtime),
    /// Something that is not transferred.
    Skipped {
        /// Its name, printable.
        name: String,
        /// Why.
        reason: String,
        /// Is it an error, or merely neither file nor directory?
        error: bool,
        /// Could it not be looked at?
        unread: bool,
    },
    /// A file whose name is kept for unfinished transfers, printable. It may be the rest of one,
    /// or a file of the user's.
    Reserved(String),
}

impl WalkItem {
    fn unread(name: String, reason: String) -> Self {
        Self::Skipped { name, reason, error: true, unread: true }
    }
}

impl Walk {
    /// Starts at `base`, which must be a directory.
    pub fn new(root: Arc<Root>, base: WirePath) -> Self {
        Self::filtered(root, base, Filter::all())
    }

    /// The same without what `filter` leaves out, which is not mentioned.
    pub fn filtered(root: Arc<Root>, base: WirePath, filter: Filter) -> Self {
        let pending = vec![(WirePath::root(), Vec::new())];
        let (prefix, depth, current) = (WirePath::root(), None, None);
        let (links, grains, backslashes) = (false, false, true);
        Self { root, base, prefix, filter, depth, links, grains, backslashes, pending, current }
    }

    /// The same for a peer, below whose `prefix` everything goes: what has too long a path there is left out.
    #[must_use]
    pub fn with_prefix(self, prefix: WirePath) -> Self {
        Self { prefix, ..self }
    }

    /// The same, but finds nothing in directories that lie `depth` below the base, or deeper.
    #[must_use]
    pub fn with_depth(self, depth: Option<u32>) -> Self {
        Self { depth, ..self }
    }

    /// The same, finds symbolic links as such, if so wanted, and tells which names are of the same
    /// file and when directories were modified.
    #[must_use]
    pub fn with_links(self, links: bool) -> Self {
        Self { links, ..self }
    }

    /// The same, and notes how exactly times of files are kept, if that is of interest.
    #[must_use]
    pub fn with_grains(self, grains: bool) -> Self {
        Self { grains, ..self }
    }

    /// The same, and leaves out names with a backslash if the peer does not take them.
    #[must_use]
    pub fn with_backslashes(self, backslashes: bool) -> Self {
        Self { backslashes, ..self }
    }

    /// Whether the content of a directory is of interest.
    fn looks_into(&self, directory: &WirePath) -> bool {
        self.depth.is_none_or(|depth| directory.components().count() < depth as usize)
    }

    fn open(&self, path: WirePath, mut modes: Vec<u32>) -> Result<Open, TransferError> {
        let directory = self.root.directory(&self.base.join(&path)?)?;
        let entries = Dir::read_from(&directory).map_err(reading)?;
        let stat = rustix::fs::fstat(&directory).map_err(reading)?;
        let mode = acl::mode_of(&directory, stat.st_mode);
        modes.push(mode & if self.links { DIRECTORY_MODE } else { 0o777 });
        let modified = self.links.then(|| offer_of(&stat).modified);
        Ok(Open { path, modes, modified, directory, entries })
    }

    /// The next entry of `open`; `None` at its end or for an entry that is not shown.
    fn entry(&mut self, open: &Open, name: &[u8]) -> Option<WalkItem> {
        if matches!(name, b"." | b"..") {
            return None;
        }
        let stat = rustix::fs::statat(&open.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        if matches!(stat, Err(rustix::io::Errno::NOENT)) {
            // Removed since the directory was read.
            return None;
        }
        let kind = stat.as_ref().ok().map(|stat| FileType::from_raw_mode(stat.st_mode));
        // Also what could not be transferred may be left out.
        let path = Path::new(open.path.as_str()).join(OsStr::from_bytes(name));
        if !self.filter.keeps_path(&path, kind == Some(FileType::Directory)) {
            return None;
        }
        let Ok(name) = std::str::from_utf8(name) else {
            let shown = printable(&String::from_utf8_lossy(name));
            let name = NameError::NotUtf8(shown.clone());
            return Some(skipped(&open.path, &shown, name.to_string(), true));
        };
        if PartName::is_reserved(name) {
            let shown = printed_below(&open.path, &printable(name));
            return Some(match kind {
                Some(FileType::RegularFile) => WalkItem::Reserved(shown),
                // No part of a transfer, whatever it is called.
                _ => skipped(&open.path, &printable(name), RESERVED.to_owned(), false),
            });
        }
        if self.root.hides(&open.directory, name) {
            return None;
        }
        let checked = WirePath::new(name).and_then(|name| {
            if name.has_backslash() && !self.backslashes {
                return Err(NameError::Backslash(name.to_string()));
            }
            let path = open.path.join(&name)?;
            [&self.base, &self.prefix]
                .into_iter()
                .try_for_each(|above| above.join(&path).map(drop))?;
            Ok((path, name))
        });
        match (checked, stat) {
            (Ok((path, file)), Ok(stat)) => self.item(open, name, (path, file), &stat),
            (Err(error), _) => {
                Some(skipped(&open.path, &printable(name), error.to_string(), true))
            }
            (_, Err(error)) => {
                let reason = io::Error::from(error).to_string();
                Some(WalkItem::unread(printed_below(&open.path, &printable(name)), reason))
            }
        }
    }

    /// What an entry that may be transferred is; `None` for a directory, which is found later.
    fn item(
        &mut self,
        open: &Open,
        name: &str,
        (path, file): (WirePath, WirePath),
        stat: &Stat,
    ) -> Option<WalkItem> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let several = self.links && stat.st_nlink > 1;
                let inode = several.then(|| number_of(stat));
                let offer = offer_at(&open.directory, name, stat);
                let special = self.links && stat.st_mode & SPECIAL != 0;
                let file = FileEntry::new(file, offer).with_inode(inode).with_special(special);
                Some(WalkItem::File(if self.grains {
                    file.with_grain(Grain::of(stat))
                } else {
                    file
                }))
            }
            FileType::Directory => {
                self.pending.push((path, open.modes.clone()));
                None
            }
            FileType::Symlink if self.links => Some(match target_of(open, name) {
                Ok(target) => WalkItem::Link(file, target, offer_of(stat).modified),
                Err(reason) => skipped(&open.path, &printable(name), reason, true),
            }),
            other => {
                let reason = match other {
                    FileType::Symlink => IS_LINK,
                    _ => IS_SPECIAL,
                };
                Some(skipped(&open.path, &printable(name), reason.to_owned(), false))
            }
        }
    }
}

impl Iterator for Walk {
    type Item = WalkItem;

    fn next(&mut self) -> Option<WalkItem> {
        loop {
            let Some(mut open) = self.current.take() else {
                let (path, modes) = self.pending.pop()?;
                match self.open(path.clone(), modes) {
                    Ok(open) => {
                        let is_open = self.looks_into(&path);
                        let modified = open.modified;
                        let group = Group { modified, ..Group::new(path, open.modes.clone()) };
                        self.current = is_open.then_some(open);
                        return Some(WalkItem::Directory(group));
                    }
                    Err(e) => {
                        let (name, reason) = (path.to_string(), e.to_string());
                        return Some(WalkItem::unread(name, reason));
                    }
                }
            };
            match open.entries.read() {
                None => {}
                Some(Err(e)) => {
                    let reason = io::Error::from(e).to_string();
                    return Some(WalkItem::unread(printed_below(&open.path, "."), reason));
                }
                Some(Ok(entry)) => {
                    let item = self.entry(&open, entry.file_name().to_bytes());
                    self.current = Some(open);
                    if item.is_some() {
                        return item;
                    }
                }
            }
        }
    }
}

/// What is offered of the file `name`.
fn offer_at(directory: &OwnedFd, name: &str, stat: &Stat) -> Offer {
    let offer = offer_of(stat);
    if !acl::may_matter(offer.mode) {
        return offer;
    }
    // What can't be opened is not transferred either.
    let mode = open_file(directory, name).map(|file| acl::mode_of(&file, offer.mode));
    Offer { mode: mode.unwrap_or(offer.mode), ..offer }
}

/// The target of the link `name`.
fn target_of(open: &Open, name: &str) -> Result<LinkTarget, String> {
    let text = rustix::fs::readlinkat(&open.directory, name, Vec::new())
        .map_err(|error| io::Error::from(error).to_string())?;
    let text = text.into_string().map_err(|_| "its target is not valid UTF-8".to_owned())?;
    LinkTarget::new(text).map_err(str::to_owned)
}

fn skipped(directory: &WirePath, name: &str, reason: String, error: bool) -> WalkItem {
    WalkItem::Skipped { name: printed_below(directory, name), reason, error, unread: false }
}

/// The name of something in `directory`, as it is printed.
pub fn printed_below(directory: &WirePath, name: &str) -> String {
    if directory.is_root() { name.to_owned() } else { format!("{directory}/{name}") }
}

fn reading(error: rustix::io::Errno) -> TransferError {
    TransferError::reading(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(dir: &Path) -> Vec<WalkItem> {
        let root = Arc::new(Root::open(dir).unwrap());
        Walk::new(root, WirePath::root()).collect()
    }

    /// Directories with their depth in permissions, and files with their sizes.
    fn entries(items: &[WalkItem]) -> Vec<(String, u64)> {
        let mut directory = WirePath::root();
        let mut entries = Vec::new();
        for item in items {
            match item {
                WalkItem::Directory(group) => {
                    directory = group.directory.clone();
                    entries.push((format!("{directory}/"), group.modes.len() as u64));
                }
                WalkItem::File(file) => {
                    let path = directory.join(file.name()).unwrap();
                    entries.push((path.to_string(), file.offer().size));
                }
                WalkItem::Link(..) | WalkItem::Skipped { .. } | WalkItem::Reserved(_) => {}
            }
        }
        entries.sort();
        entries
    }

    #[test]
    fn files_and_directories_at_all_depths_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        std::fs::create_dir(dir.path().join("void")).unwrap();
        std::fs::write(dir.path().join("a/b/c/deep"), "12345").unwrap();
        std::fs::write(dir.path().join("top"), "").unwrap();
        std::fs::write(dir.path().join(".top.tack-part"), "unfinished").unwrap();
        let expected =
            [("./", 1), ("a/", 2), ("a/b/", 3), ("a/b/c/", 4), ("a/b/c/deep", 5), ("top", 0)];
        let mut expected: Vec<_> = expected.map(|(name, n)| (name.to_owned(), n)).into();
        expected.push(("void/".to_owned(), 2));
        assert_eq!(entries(&walk(dir.path())), expected);
    }

    #[test]
    fn what_a_filter_leaves_out_is_neither_found_nor_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("build/deep")).unwrap();
        std::fs::write(dir.path().join("build/deep/kept.jpg"), "").unwrap();
        std::fs::write(dir.path().join("note.tmp"), "").unwrap();
        std::fs::write(dir.path().join("photo.jpg"), "").unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("link.tmp")).unwrap();
        let root = Arc::new(Root::open(dir.path()).unwrap());
        let filter = Filter::new(["build", "*.tmp"], ["*.jpg"]).unwrap();
        let items: Vec<_> = Walk::filtered(root, WirePath::root(), filter).collect();
        assert_eq!(entries(&items), [("./".to_owned(), 1), ("photo.jpg".to_owned(), 0)]);
        assert_eq!(items.len(), 2, "{items:?}");
    }

    #[test]
    fn directories_at_the_depth_are_named_and_not_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        std::fs::write(dir.path().join("a/one"), "1").unwrap();
        std::fs::write(dir.path().join("top"), "").unwrap();
        let found = |depth| {
            let root = Arc::new(Root::open(dir.path()).unwrap());
            let walk = Walk::new(root, WirePath::root()).with_depth(Some(depth));
            let items: Vec<_> = walk.collect();
            entries(&items).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(found(0), ["./"]);
        assert_eq!(found(1), ["./", "a/", "top"]);
        assert_eq!(found(2), ["./", "a/", "a/b/", "a/one", "top"]);
    }

    #[test]
    fn links_are_found_as_such_where_they_are_wanted() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::fs::hard_link(dir.path().join("file"), dir.path().join("same")).unwrap();
        std::fs::write(dir.path().join("other"), "").unwrap();
        std::os::unix::fs::symlink("/nowhere/at all", dir.path().join("link")).unwrap();
        let root = Arc::new(Root::open(dir.path()).unwrap());
        let (mut links, mut inodes) = (Vec::new(), Vec::new());
        for item in Walk::new(root, WirePath::root()).with_links(true) {
            match item {
                WalkItem::Link(name, target, _) => links.push((name.to_string(), target)),
                WalkItem::File(file) => inodes.push((file.name().to_string(), file.inode())),
                WalkItem::Directory(group) => assert!(group.modified.is_some()),
                other => panic!("{other:?}"),
            }
        }
        inodes.sort();
        let target = LinkTarget::new("/nowhere/at all").unwrap();
        assert_eq!(links, [("link".to_owned(), target)]);
        assert!(inodes[0].1.is_some() && inodes[0].1 == inodes[2].1 && inodes[1].1.is_none());
    }

    #[test]
    fn what_cannot_be_sent_is_named_and_does_not_stop_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(OsStr::from_bytes(b"bad\xff")), "").unwrap();
        std::fs::write(dir.path().join("back\\slash"), "").unwrap();
        std::fs::write(dir.path().join("good"), "").unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let items = walk(dir.path());
        assert_eq!(entries(&items).len(), 3);
        let root = Arc::new(Root::open(dir.path()).unwrap());
        let walk = Walk::new(root, WirePath::root()).with_backslashes(false);
        let items: Vec<_> = walk.collect();
        assert_eq!(entries(&items).len(), 2);
        let skipped = |wanted: &str| {
            items.iter().find_map(|item| match item {
                WalkItem::Skipped { name, error, .. } if name == wanted => Some(*error),
                _ => None,
            })
        };
        assert_eq!(skipped("bad\u{fffd}"), Some(true));
        assert_eq!(skipped("back\\slash"), Some(true));
        assert_eq!(skipped("link"), Some(false));
        let root = Arc::new(Root::open(dir.path()).unwrap());
        let filter = Filter::new(["bad*", "*slash", "link", ".*.tack-part"], []).unwrap();
        std::fs::write(dir.path().join(".x.tack-part"), "").unwrap();
        let items: Vec<_> = Walk::filtered(root, WirePath::root(), filter).collect();
        assert_eq!(entries(&items), [("./".to_owned(), 1), ("good".to_owned(), 0)]);
        assert_eq!(items.len(), 2, "{items:?}");
    }
}
