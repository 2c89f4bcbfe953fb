//! Puts a new entry in the place of an old one, which is kept if the user wants it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::owner_writes;
use super::part_name::PartName;
use super::policy::Suffix;
use super::root::{Root, RootError};

/// What has the name `name`, if anything has. Links are not followed.
pub(super) fn entry_at(directory: &OwnedFd, name: &str) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The kind of an entry.
pub(super) fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The name that `name` is to be kept under: neither a directory's nor one that is hidden.
pub(super) fn backup_name(
    root: &Root,
    directory: &OwnedFd,
    name: &str,
    suffix: &Suffix,
) -> Result<String, RootError> {
    let kept = suffix.name_of(name).map_err(|error| io::Error::other(error.to_string()))?;
    if root.hides(directory, &kept) {
        return Err(RootError::Hidden(super::printable(&kept)));
    }
    match entry_at(directory, &kept)? {
        Some(stat) if !matches!(kind_of(&stat), FileType::RegularFile | FileType::Symlink) => {
            Err(RootError::WrongKind(super::printable(&kept), "file to keep another one in"))
        }
        _ => Ok(kept),
    }
}

/// Gives what has the name `name` the name `kept` as well, instead of what had that. Nothing happens
/// where there is nothing.
pub(super) fn keep(directory: &OwnedFd, name: &str, kept: &str) -> io::Result<()> {
    let linked = replace(directory, kept, |temporary| {
        let link =
            || rustix::fs::linkat(directory, name, directory, temporary, AtFlags::empty());
        owner_writes::change(directory, link)
    });
    match linked {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(()),
        // A file system without hard links: for a moment there is nothing under the name.
        Err(_) => {
            let rename = || rustix::fs::renameat(directory, name, directory, kept);
            Ok(owner_writes::change(directory, rename)?)
        }
        Ok(()) => Ok(()),
    }
}

/// Gives what has the name `name` the name `kept` in its place, instead of what had that.
pub(super) fn move_to(directory: &OwnedFd, name: &str, kept: &str) -> rustix::io::Result<()> {
    let stat = |name| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    rustix::fs::renameat(directory, name, directory, kept)?;
    match (stat(name), stat(kept)) {
        // They are two links to one file: then rename(2) leaves both. Where there is but one link, the file system takes
        // both names for the same, and the file would be lost.
        (Ok(left), Ok(moved))
            if left.st_nlink > 1
                && (left.st_dev, left.st_ino) == (moved.st_dev, moved.st_ino) =>
        {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
        }
        _ => Ok(()),
    }
}

/// Makes an entry under a temporary name with `create`, and gives it the name `name` in one step. Where `directory` is
/// closed to its owner, it is for `create` to open it.
pub(super) fn replace(
    directory: &OwnedFd,
    name: &str,
    create: impl Fn(&str) -> rustix::io::Result<()>,
) -> io::Result<()> {
    // No file can have the inner name, so that this is no transfer's temporary name.
    let temporary = PartName::of(&format!("{name}\\"));
    let remove = || {
        let remove = || rustix::fs::unlinkat(directory, temporary.as_str(), AtFlags::empty());
        owner_writes::change(directory, remove)
    };
    let mut created = create(&temporary);
    if created == Err(Errno::EXIST) {
        // Left behind by a process that was killed.
        remove()?;
        created = create(&temporary);
    }
    if let Err(error) = created {
        // It may have been made in part. An entry that is in the way (EXIST) is another process's.
        if error != Errno::EXIST {
            // Fails where nothing has been made.
            let _ = remove();
        }
        return Err(error.into());
    }
    let rename = || rustix::fs::renameat(directory, temporary.as_str(), directory, name);
    let renamed = owner_writes::change(directory, rename);
    // Still there if it could not be renamed, or if both are names of the same file (rename(2)).
    match remove() {
        Ok(()) | Err(Errno::NOENT) => Ok(renamed?),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        let fd = std::fs::File::open(dir.path()).unwrap().into();
        (dir, fd)
    }

    fn names(dir: &tempfile::TempDir) -> Vec<String> {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_kept_file_has_both_names_and_replaces_what_was_kept_before() {
        let (dir, fd) = directory();
        for content in ["one", "two"] {
            std::fs::write(dir.path().join("new"), content).unwrap();
            std::fs::rename(dir.path().join("new"), dir.path().join("file")).unwrap();
            keep(&fd, "file", "file~").unwrap();
            // Again, as after a crash.
            keep(&fd, "file", "file~").unwrap();
            assert_eq!(std::fs::read_to_string(dir.path().join("file~")).unwrap(), content);
        }
        assert_eq!(names(&dir), ["file", "file~"]);
        keep(&fd, "none", "none~").unwrap();
        assert_eq!(names(&dir), ["file", "file~"]);
    }

    #[test]
    fn what_a_killed_process_has_left_is_no_hindrance() {
        let (dir, fd) = directory();
        std::fs::write(dir.path().join(PartName::of("link\\")), "").unwrap();
        replace(&fd, "link", |temporary| rustix::fs::symlinkat("to", &fd, temporary)).unwrap();
        assert_eq!(names(&dir), ["link"]);
    }

    #[test]
    fn what_could_be_made_in_part_only_is_removed() {
        let (dir, fd) = directory();
        let create = |temporary: &str| {
            std::fs::write(dir.path().join(temporary), "a part").unwrap();
            Err(Errno::NOSPC)
        };
        let error = replace(&fd, "name", create).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC));
        assert_eq!(names(&dir), [""; 0]);
    }

    #[test]
    fn what_cannot_take_the_name_is_removed() {
        let (dir, fd) = directory();
        std::fs::create_dir(dir.path().join("name")).unwrap();
        let link = |temporary: &str| rustix::fs::symlinkat("to", &fd, temporary);
        assert!(replace(&fd, "name", link).is_err());
        assert_eq!(names(&dir), ["name"]);
    }
}
