//! Removes what is in the place of something of another kind, where the user wants the receiver to
//! have what the source has (`--delete`).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, Stat};

use super::owner_writes;
use super::part_file::{is_held, may_chown_to};
use super::policy::Policy;
use super::printable;
use super::replace::{backup_name, entry_at, keep, kind_of};
use super::root::{Root, RootError, open_directory};

/// Names that are kept until they are told; of further ones only the number is.
const MAX_NAMES: usize = 1 << 18;

/// What has been removed because something of another kind takes its place, until that is told. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MadeWay(Arc<Mutex<Removed>>);

/// What has been removed.
#[derive(Debug, Default)]
pub struct Removed {
    /// The paths of files, links and directories.
    pub paths: Vec<String>,
    /// How many there were beside these.
    pub others: u64,
}

impl MadeWay {
    /// Takes what has not been told yet.
    pub fn take(&self) -> Removed {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, path: &str) {
        // What is in it is whole whenever the lock is free.
        let mut removed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if removed.paths.len() < MAX_NAMES {
            removed.paths.push(path.to_owned());
        } else {
            removed.others += 1;
        }
    }
}

/// Whether the directory `name`, at `path`, can be removed with everything in it. With a backup
/// nothing may be in it: a file is kept beside its old place, and so would keep the directory.
pub(super) fn check_directory(
    root: &Root,
    parent: &OwnedFd,
    name: &str,
    path: &str,
    policy: &Policy,
) -> Result<(), RootError> {
    let stays = |path: &str, why| Err(RootError::WrongKind(path.to_owned(), why));
    let directory = open_directory(parent, name)?;
    let stat = rustix::fs::fstat(&directory).map_err(io::Error::from)?;
    if !may_chown_to(stat.st_uid) {
        return Err(RootError::Foreign(path.to_owned()));
    }
    if stat.st_dev != rustix::fs::fstat(parent).map_err(io::Error::from)?.st_dev {
        return stays(path, "file: a file system is mounted there");
    }
    for entry in names_in(&directory)? {
        if policy.backup.is_some() {
            return stays(
                path,
                "file: a directory with something in it has this name, and can't be kept",
            );
        }
        let path = format!("{path}/{}", printable(&entry));
        if root.hides(&directory, &entry) {
            return Err(RootError::Hidden(path));
        }
        if is_held(&directory, &entry) {
            return stays(&path, "file that may go: a transfer into it is running");
        }
        match entry_at(&directory, &entry)?.map(|stat| kind_of(&stat)) {
            Some(FileType::Directory) => {
                check_directory(root, &directory, &entry, &path, policy)?;
            }
            None | Some(FileType::RegularFile | FileType::Symlink) => {}
            Some(_) => return stays(&path, "file or directory, and therefore not removed"),
        }
    }
    Ok(())
}

/// Removes the directory `name`, at `path`, if it is one, with everything in it. Nothing is followed out of it.
pub(super) fn remove_directory(
    parent: &OwnedFd,
    name: &str,
    path: &str,
    made_way: &MadeWay,
) -> io::Result<()> {
    let is_directory = |parent: &OwnedFd, name: &str| {
        let entry = entry_at(parent, name)?;
        io::Result::Ok(entry.is_some_and(|stat| kind_of(&stat) == FileType::Directory))
    };
    if !is_directory(parent, name)? {
        return Ok(());
    }
    let directory = open_directory(parent, name).map_err(io::Error::other)?;
    let entries = names_in(&directory)?;
    if entries.iter().any(|entry| is_held(&directory, entry)) {
        return Err(io::Error::other("a transfer into the directory is running"));
    }
    for entry in entries {
        let path = format!("{path}/{entry}");
        if is_directory(&directory, &entry)? {
            remove_directory(&directory, &entry, &path, made_way)?;
        } else {
            let remove = || rustix::fs::unlinkat(&directory, entry.as_str(), AtFlags::empty());
            owner_writes::change(&directory, remove)?;
            made_way.add(&path);
        }
    }
    let remove = || rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
    owner_writes::change(parent, remove)?;
    made_way.add(path);
    Ok(())
}

/// Removes the file, or where links are preserved the link, that has the name of a directory, at `path`, or
/// keeps it under another name. Whether there is room now.
pub(super) fn for_directory(
    root: &Root,
    parent: &OwnedFd,
    name: &str,
    path: &str,
    policy: &Policy,
    made_way: &MadeWay,
) -> Result<bool, RootError> {
    let Some(entry) = entry_at(parent, name)? else { return Ok(true) };
    match check_for_directory(root, parent, name, &entry, policy)? {
        ForDirectory::Stays => return Ok(false),
        ForDirectory::IsKept(kept) => keep(parent, name, &kept)?,
        ForDirectory::Goes => {}
    }
    let remove = || rustix::fs::unlinkat(parent, name, AtFlags::empty());
    match owner_writes::change(parent, remove) {
        // Its file system has no hard links, and it has been renamed.
        Ok(()) | Err(rustix::io::Errno::NOENT) => {
            made_way.add(path);
            Ok(true)
        }
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// What becomes of an entry that has the name of a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ForDirectory {
    /// It makes no way.
    Stays,
    Goes,
    /// It gets this name.
    IsKept(String),
}

/// Whether an entry makes way for a directory, and how.
pub(super) fn check_for_directory(
    root: &Root,
    parent: &OwnedFd,
    name: &str,
    entry: &Stat,
    policy: &Policy,
) -> Result<ForDirectory, RootError> {
    let goes = match kind_of(entry) {
        FileType::RegularFile => true,
        FileType::Symlink => policy.preserve,
        _ => false,
    };
    if !goes || !policy.make_way || policy.ignore_existing {
        return Ok(ForDirectory::Stays);
    }
    if root.hides(parent, name) {
        return Err(RootError::Hidden(printable(name)));
    }
    if !may_chown_to(entry.st_uid) {
        return Err(RootError::Foreign(printable(name)));
    }
    Ok(match &policy.backup {
        Some(suffix) => ForDirectory::IsKept(backup_name(root, parent, name, suffix)?),
        None => ForDirectory::Goes,
    })
}

/// The names of a directory's entries. They are read before anything is removed.
fn names_in(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_str().map_err(|_| {
            io::Error::other(
                "a name in the directory that is to be replaced is not valid UTF-8",
            )
        })?;
        if !matches!(name, "." | "..") {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::protocol::Suffix;

    /// A directory `tree` with `d/sub/deep` in it, beside a file, which `d/out` leads to.
    fn tree() -> (tempfile::TempDir, Root, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("d/sub")).unwrap();
        fs::write(tree.join("d/sub/deep"), "deep").unwrap();
        fs::write(tree.join("file"), "file").unwrap();
        fs::write(dir.path().join("outside"), "outside").unwrap();
        symlink(dir.path(), tree.join("d/out")).unwrap();
        let (root, fd) = (Root::open(&tree).unwrap(), fs::File::open(&tree).unwrap().into());
        (dir, root, fd)
    }

    fn policy() -> Policy {
        Policy { make_way: true, ..Policy::default() }
    }

    #[test]
    fn a_directory_goes_with_everything_in_it_and_nothing_that_a_link_leads_to() {
        let (dir, root, fd) = tree();
        check_directory(&root, &fd, "d", "d", &policy()).unwrap();
        let made_way = MadeWay::default();
        remove_directory(&fd, "d", "in/d", &made_way).unwrap();
        let mut removed = made_way.take().paths;
        removed.sort_unstable();
        assert_eq!(removed, ["in/d", "in/d/out", "in/d/sub", "in/d/sub/deep"]);
        remove_directory(&fd, "d", "in/d", &made_way).unwrap();
        remove_directory(&fd, "file", "in/file", &made_way).unwrap();
        assert!(made_way.take().paths.is_empty());
        assert!(!dir.path().join("tree/d").exists() && dir.path().join("tree/file").exists());
        assert_eq!(fs::read(dir.path().join("outside")).unwrap(), b"outside");
    }

    #[test]
    fn a_directory_stays_with_what_a_server_hides_a_pipe_or_a_backup() {
        let (dir, mut root, fd) = tree();
        let backup = Some(Suffix::new("~").unwrap());
        let keeping = Policy { backup, ..policy() };
        assert!(check_directory(&root, &fd, "d", "d", &keeping).is_err());
        root.hide(&dir.path().join("tree/d/sub/deep")).unwrap();
        let error = check_directory(&root, &fd, "d", "d", &policy()).unwrap_err();
        assert!(matches!(&error, RootError::Hidden(path) if path == "d/sub/deep"), "{error}");
        let (dir, root, fd) = tree();
        let fifo = dir.path().join("tree/d/sub/fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let error = check_directory(&root, &fd, "d", "d", &policy()).unwrap_err();
        assert!(
            error.to_string().starts_with("d/sub/fifo: not a file or directory"),
            "{error}"
        );
    }

    /// Whether `name` has made way for a directory, and is told to have.
    fn makes_way(root: &Root, fd: &OwnedFd, name: &str, policy: &Policy) -> bool {
        let made_way = MadeWay::default();
        let is_gone = for_directory(root, fd, name, name, policy, &made_way).unwrap();
        assert_eq!(made_way.take().paths, if is_gone { vec![name.to_owned()] } else { vec![] });
        is_gone
    }

    #[test]
    fn a_file_makes_way_for_a_directory_only_where_that_is_wanted() {
        let (dir, root, fd) = tree();
        assert!(!makes_way(&root, &fd, "file", &Policy::default()));
        let stays = Policy { ignore_existing: true, ..policy() };
        assert!(!makes_way(&root, &fd, "file", &stays));
        let backup = Some(Suffix::new("~").unwrap());
        assert!(makes_way(&root, &fd, "file", &Policy { backup, ..policy() }));
        assert!(!dir.path().join("tree/file").exists());
        assert_eq!(fs::read(dir.path().join("tree/file~")).unwrap(), b"file");
    }

    #[test]
    fn a_link_makes_way_for_a_directory_where_links_are_preserved() {
        let (dir, root, fd) = tree();
        let link = dir.path().join("tree/link");
        symlink("d", &link).unwrap();
        assert!(!makes_way(&root, &fd, "link", &policy()));
        let preserving = Policy { preserve: true, ..policy() };
        assert!(makes_way(&root, &fd, "link", &preserving));
        assert!(link.symlink_metadata().is_err() && dir.path().join("tree/d/sub").exists());
    }
}
