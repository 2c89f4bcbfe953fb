//! Applies edits below a directory: here, or at a server for a client that asks for them. No path leads through a link.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, Stat};
use rustix::io::Errno;

use super::disk::{has_same_content, offer_of};
use super::edit::{DIRECTORY_MODE, Edit, EditKind, Edited, LinkTarget};
use super::owner_writes;
use super::part_file::{remove_part, times};
use super::place::may_chown_to;
use super::policy::Policy;
use super::replace::{backup_name, entry_at, keep, kind_of, move_to, replace};
use super::root::{Root, RootError, open_directory, open_file};
use super::wire::Mtime;
use super::{Attributes, TransferError, WirePath};

/// Applies edits below a directory.
#[derive(Debug)]
pub struct Editor {
    root: Arc<Root>,
    policy: Policy,
    /// The top of the tree is served: whatever a client asks, its owner must be able to use it.
    top_is_shared: bool,
}

impl Editor {
    /// For a tree of this user's.
    pub fn new(root: Arc<Root>, policy: Policy) -> Self {
        Self { root, policy, top_is_shared: false }
    }

    /// For a tree that is served.
    pub fn of_server(root: Arc<Root>, policy: Policy) -> Self {
        Self { root, policy, top_is_shared: true }
    }

    /// Applies one edit.
    pub fn apply(&self, edit: &Edit) -> Result<Edited, TransferError> {
        match edit {
            Edit::Directory(path, mode, modified) => {
                return self.set_directory(path, *mode, *modified);
            }
            Edit::Attributes(path, attributes) => return self.set_attributes(path, attributes),
            Edit::RemovePart(path) => return self.remove_part(path),
            _ => {}
        }
        let place = match self.place(edit.path()) {
            Err(TransferError::Root(RootError::NotFound(_)))
                if edit.kind() == EditKind::Removal =>
            {
                return Ok(Edited::Unchanged);
            }
            place => place?,
        };
        match edit {
            Edit::Remove(_) => self.remove(&place),
            Edit::RemoveDirectory(_) => match &place.entry {
                Some(entry) if self.is_mounted(entry)? => Ok(Edited::Kept),
                _ => place.remove_directory(),
            },
            Edit::Symlink(_, target, modified) => self.symlink(&place, target, *modified),
            Edit::HardLink(_, to) => self.hard_link(&place, to),
            Edit::RemovePart(_) | Edit::Directory(..) | Edit::Attributes(..) => {
                Ok(Edited::Unchanged)
            }
        }
    }

    /// Whether what is at `path` is a link to `target`, and when it was modified; `None` where there is nothing.
    pub fn find_symlink(&self, path: &WirePath, target: &LinkTarget) -> Option<(bool, Mtime)> {
        let place = self.place(path).ok()?;
        Some((place.leads_to(target), offer_of(place.entry.as_ref()?).modified))
    }

    /// Whether the entry at `path` is one file with the one at `first`, and when it was modified; `None` where there is
    /// nothing.
    pub fn find_hard_link(&self, path: &WirePath, first: &WirePath) -> Option<(bool, Mtime)> {
        let entry = self.place(path).ok()?.entry?;
        let other = self.place(first).ok().and_then(|place| place.entry);
        let number = |entry: &Stat| (entry.st_dev, entry.st_ino);
        let is_same = other.is_some_and(|other| number(&other) == number(&entry));
        Some((is_same, offer_of(&entry).modified))
    }

    /// Whether a removal or a link would succeed, once everything in the same directory has been removed that `goes`.
    /// What is in directories is received by the policy `within`.
    pub fn check(
        &self,
        edit: &Edit,
        within: &Policy,
        goes: impl Fn(&str) -> bool,
    ) -> Result<(), TransferError> {
        let (parent, _) = edit.path().split_last().unwrap_or_default();
        let is_checked = matches!(edit, Edit::Remove(_)) || edit.kind() == EditKind::Link;
        if !is_checked || !self.root.has_directory(&parent, within)? {
            return Ok(());
        }
        let place = self.place(edit.path())?;
        let Some(entry) = &place.entry else { return Ok(()) };
        if edit.kind() == EditKind::Link && kind_of(entry) == FileType::Directory {
            let directory = open_directory(&place.directory, &place.name)?;
            if self.is_emptied(&directory, goes).map_err(TransferError::reading)? {
                return Ok(());
            }
        }
        place.check_replaceable(entry)?;
        self.kept_name(&place).map(drop)
    }

    /// Whether nothing is left in a directory once everything has been removed that `goes`. What is kept stays in it.
    fn is_emptied(&self, directory: &OwnedFd, goes: impl Fn(&str) -> bool) -> io::Result<bool> {
        for name in Dir::read_from(directory)? {
            let name = name?;
            let Ok(name) = name.file_name().to_str() else { return Ok(false) };
            let is_kept = || {
                let entry = entry_at(directory, name).ok().flatten();
                let is_directory =
                    entry.is_some_and(|stat| kind_of(&stat) == FileType::Directory);
                self.policy.backup.is_some() && !is_directory
            };
            if !matches!(name, "." | "..") && (!goes(name) || is_kept()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a removal leaves what it names, because that lies in a file system that is mounted below the root.
    pub fn leaves(&self, edit: &Edit) -> bool {
        let Ok(place) = self.place(edit.path()) else { return false };
        let stat = match edit {
            Edit::RemoveDirectory(_) => place.entry,
            Edit::Remove(_) | Edit::RemovePart(_) => rustix::fs::fstat(&place.directory).ok(),
            _ => None,
        };
        stat.is_some_and(|stat| self.is_mounted(&stat).unwrap_or(false))
    }

    /// Looks at the place of an entry without following anything.
    fn place(&self, path: &WirePath) -> Result<Place, TransferError> {
        let Some((parent, name)) = path.split_last() else {
            return Err(RootError::WrongKind(path.to_string(), "name below a directory").into());
        };
        let directory = self.root.directory(&parent)?;
        if self.root.hides(&directory, name) {
            return Err(RootError::Hidden(path.to_string()).into());
        }
        let entry = entry_at(&directory, name).map_err(TransferError::reading)?;
        if let Some(entry) = &entry
            && !may_chown_to(entry.st_uid)
        {
            return Err(RootError::Foreign(path.to_string()).into());
        }
        Ok(Place { directory, name: name.to_owned(), path: path.clone(), entry })
    }

    fn remove(&self, place: &Place) -> Result<Edited, TransferError> {
        let Some(entry) = &place.entry else { return Ok(Edited::Unchanged) };
        let directory = rustix::fs::fstat(&place.directory).map_err(writing)?;
        if self.is_mounted(&directory)? {
            return Ok(Edited::Kept);
        }
        place.check_replaceable(entry)?;
        let (directory, name) = (&place.directory, place.name.as_str());
        let kept = self.kept_name(place)?;
        let remove = || match &kept {
            Some(kept) => move_to(directory, name, kept),
            None => rustix::fs::unlinkat(directory, name, AtFlags::empty()),
        };
        owner_writes::change(directory, remove).map_err(writing)?;
        Ok(Edited::Done)
    }

    fn remove_part(&self, path: &WirePath) -> Result<Edited, TransferError> {
        let (parent, name) = path.split_last().unwrap_or_default();
        let directory = match self.root.directory(&parent) {
            Err(RootError::NotFound(_)) => return Ok(Edited::Unchanged),
            directory => directory?,
        };
        if self.root.hides(&directory, name) {
            return Err(RootError::Hidden(path.to_string()).into());
        }
        if self.is_mounted(&rustix::fs::fstat(&directory).map_err(writing)?)? {
            return Ok(Edited::Kept);
        }
        remove_part(&directory, name).map_err(TransferError::writing)
    }

    fn symlink(
        &self,
        place: &Place,
        target: &LinkTarget,
        modified: Mtime,
    ) -> Result<Edited, TransferError> {
        let is_there = place.leads_to(target);
        let (directory, name) = (&place.directory, place.name.as_str());
        if !is_there {
            let is_newer =
                |entry: &Stat| self.policy.update && offer_of(entry).modified > modified;
            if place.entry.as_ref().is_some_and(is_newer) || !self.make_way(place)? {
                return Ok(Edited::Kept);
            }
            replace(directory, name, |temporary| {
                let link = || rustix::fs::symlinkat(target.as_str(), directory, temporary);
                owner_writes::change(directory, link)
            })
            .map_err(TransferError::writing)?;
        }
        let has_time = |entry: &Stat| {
            (entry.st_mtime, entry.st_mtime_nsec as u32) == (modified.seconds, modified.nanos)
        };
        if is_there && place.entry.as_ref().is_some_and(has_time) {
            return Ok(Edited::Unchanged);
        }
        // A file system that can't hold the time of a link still holds the link.
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let _ = rustix::fs::utimensat(directory, name, &times(modified), flags);
        Ok(Edited::Done)
    }

    fn hard_link(&self, place: &Place, to: &WirePath) -> Result<Edited, TransferError> {
        let other = self.place(to)?;
        let file = match &other.entry {
            Some(entry) if kind_of(entry) == FileType::RegularFile => entry,
            Some(_) => return Err(RootError::WrongKind(to.to_string(), "regular file").into()),
            None => return Err(RootError::NotFound(to.to_string()).into()),
        };
        let is_same = |entry: &Stat| (entry.st_dev, entry.st_ino) == (file.st_dev, file.st_ino);
        if place.entry.as_ref().is_some_and(is_same) {
            return Ok(Edited::Unchanged);
        }
        let (there, offer) = (place.entry.as_ref().map(offer_of), offer_of(file));
        // What has the same content already is not kept, as with files.
        let is_in_place = self.policy.backup.is_some() && place.has_content_of(&other);
        if there.is_some_and(|there| self.policy.keeps(&there, &offer))
            || !is_in_place && !self.make_way(place)?
        {
            return Ok(Edited::Kept);
        }
        let (directory, name) = (&place.directory, place.name.as_str());
        replace(directory, name, |temporary| {
            let (from, name) = (&other.directory, other.name.as_str());
            let link =
                || rustix::fs::linkat(from, name, directory, temporary, AtFlags::empty());
            owner_writes::change(directory, link)
        })
        .map_err(TransferError::writing)?;
        Ok(Edited::Done)
    }

    /// Whether a directory lies in another file system, which is mounted below the root: nothing is removed from it.
    fn is_mounted(&self, directory: &Stat) -> Result<bool, TransferError> {
        let root = self.root.directory(&WirePath::root())?;
        Ok(rustix::fs::fstat(&root).map_err(writing)?.st_dev != directory.st_dev)
    }

    /// Keeps what is in a place that another entry is about to take; false if it is to stay.
    fn make_way(&self, place: &Place) -> Result<bool, TransferError> {
        let Some(entry) = &place.entry else { return Ok(true) };
        if self.policy.ignore_existing {
            return Ok(false);
        }
        if kind_of(entry) == FileType::Directory && place.remove_directory()? == Edited::Done {
            return Ok(true);
        }
        place.check_replaceable(entry)?;
        if let Some(kept) = self.kept_name(place)? {
            keep(&place.directory, &place.name, &kept).map_err(TransferError::writing)?;
        }
        Ok(true)
    }

    fn kept_name(&self, place: &Place) -> Result<Option<String>, TransferError> {
        let Some(suffix) = &self.policy.backup else { return Ok(None) };
        let (directory, name) = (&place.directory, place.name.as_str());
        Ok(Some(backup_name(&self.root, directory, name, suffix)?))
    }

    fn set_attributes(
        &self,
        path: &WirePath,
        attributes: &Attributes,
    ) -> Result<Edited, TransferError> {
        if path.is_root() {
            let directory = self.root.directory(path)?;
            return set_open(&directory, path, attributes, self.top_is_shared);
        }
        let Place { directory, name, entry, .. } = self.place(path)?;
        let Some(entry) = entry else {
            return Err(RootError::NotFound(path.to_string()).into());
        };
        match kind_of(&entry) {
            FileType::RegularFile => {
                set_open(&open_file(&directory, &name)?, path, attributes, false)
            }
            FileType::Directory => {
                set_open(&open_directory(&directory, &name)?, path, attributes, false)
            }
            FileType::Symlink => attributes.set_link(&directory, &name, &entry),
            _ => Err(RootError::WrongKind(path.to_string(), "file or directory").into()),
        }
    }

    fn set_directory(
        &self,
        path: &WirePath,
        mode: u32,
        modified: Mtime,
    ) -> Result<Edited, TransferError> {
        let directory = self.root.directory(path)?;
        let stat = rustix::fs::fstat(&directory).map_err(writing)?;
        let owner = if path.is_root() && self.top_is_shared { 0o700 } else { 0 };
        let mode = mode & DIRECTORY_MODE | owner;
        let has_time =
            (stat.st_mtime, stat.st_mtime_nsec as u32) == (modified.seconds, modified.nanos);
        if stat.st_mode & 0o7777 == mode && has_time {
            return Ok(Edited::Unchanged);
        }
        if !may_chown_to(stat.st_uid) {
            return Err(RootError::Foreign(path.to_string()).into());
        }
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode)).map_err(writing)?;
        rustix::fs::futimens(&directory, &times(modified)).map_err(writing)?;
        Ok(Edited::Done)
    }
}

/// Sets attributes of what is open, unless it is another user's.
fn set_open(
    file: &impl AsFd,
    path: &WirePath,
    attributes: &Attributes,
    keeps_owner: bool,
) -> Result<Edited, TransferError> {
    if !may_chown_to(rustix::fs::fstat(file).map_err(writing)?.st_uid) {
        return Err(RootError::Foreign(path.to_string()).into());
    }
    attributes.set(file, keeps_owner)
}

/// Where an entry is or will be.
struct Place {
    directory: OwnedFd,
    name: String,
    path: WirePath,
    entry: Option<Stat>,
}

impl Place {
    /// Only files and links are replaced and removed.
    fn check_replaceable(&self, entry: &Stat) -> Result<(), TransferError> {
        let wanted = match kind_of(entry) {
            FileType::RegularFile | FileType::Symlink => return Ok(()),
            FileType::Directory => "file: a directory has this name",
            _ => "file: a pipe, device or socket has this name",
        };
        Err(RootError::WrongKind(self.path.to_string(), wanted).into())
    }

    fn has_content_of(&self, other: &Self) -> bool {
        let open = |place: &Self| open_file(&place.directory, &place.name);
        let (Ok(one), Ok(other)) = (open(self), open(other)) else { return false };
        has_same_content(&one, &other).unwrap_or(false)
    }

    fn remove_directory(&self) -> Result<Edited, TransferError> {
        match &self.entry {
            None => return Ok(Edited::Unchanged),
            Some(entry) if kind_of(entry) == FileType::Directory => {}
            Some(_) => {
                return Err(RootError::WrongKind(self.path.to_string(), "directory").into());
            }
        }
        let remove = || rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::REMOVEDIR);
        match owner_writes::change(&self.directory, remove) {
            Ok(()) => Ok(Edited::Done),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Edited::Kept),
            Err(error) => Err(writing(error)),
        }
    }

    fn leads_to(&self, target: &LinkTarget) -> bool {
        let read = || rustix::fs::readlinkat(&self.directory, &self.name, Vec::new());
        let is_link = |entry: &Stat| kind_of(entry) == FileType::Symlink;
        self.entry.as_ref().is_some_and(is_link)
            && read().is_ok_and(|text| text.to_bytes() == target.as_str().as_bytes())
    }
}

fn writing(error: Errno) -> TransferError {
    TransferError::writing(io::Error::from(error))
}

#[cfg(test)]
mod tests;
