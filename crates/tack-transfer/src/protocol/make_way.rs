//! Removes what is in the place of something of another kind, where the user wants the receiver to
//! have what the source has (`--delete`).

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType};

use super::owner_writes;
use super::part_file::{is_held, may_chown_to};
use super::policy::Policy;
use super::printable;
use super::replace::{backup_name, entry_at, keep, kind_of};
use super::root::{Root, RootError, open_directory};

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

/// Removes the directory `name`, if it is one, with everything in it. Nothing is followed out of it.
pub(super) fn remove_directory(parent: &OwnedFd, name: &str) -> io::Result<()> {
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
        if is_directory(&directory, &entry)? {
            remove_directory(&directory, &entry)?;
        } else {
            let remove = || rustix::fs::unlinkat(&directory, entry.as_str(), AtFlags::empty());
            owner_writes::change(&directory, remove)?;
        }
    }
    let remove = || rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
    Ok(owner_writes::change(parent, remove)?)
}

/// Removes the file, or where links are preserved the link, that has the name of a directory, or
/// keeps it under another name. Whether there is room now.
pub(super) fn for_directory(
    root: &Root,
    parent: &OwnedFd,
    name: &str,
    policy: &Policy,
) -> Result<bool, RootError> {
    let Some(entry) = entry_at(parent, name)? else { return Ok(true) };
    let goes = match kind_of(&entry) {
        FileType::RegularFile => true,
        FileType::Symlink => policy.preserve,
        _ => false,
    };
    if !goes || !policy.make_way || policy.ignore_existing {
        return Ok(false);
    }
    if root.hides(parent, name) {
        return Err(RootError::Hidden(printable(name)));
    }
    if !may_chown_to(entry.st_uid) {
        return Err(RootError::Foreign(printable(name)));
    }
    if let Some(suffix) = &policy.backup {
        let kept = backup_name(root, parent, name, suffix)?;
        keep(parent, name, &kept)?;
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        // Its file system has no hard links, and it has been renamed.
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(true),
        Err(error) => Err(io::Error::from(error).into()),
    }
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
        remove_directory(&fd, "d").unwrap();
        remove_directory(&fd, "d").unwrap();
        remove_directory(&fd, "file").unwrap();
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

    #[test]
    fn a_file_makes_way_for_a_directory_only_where_that_is_wanted() {
        let (dir, root, fd) = tree();
        assert!(!for_directory(&root, &fd, "file", &Policy::default()).unwrap());
        let stays = Policy { ignore_existing: true, ..policy() };
        assert!(!for_directory(&root, &fd, "file", &stays).unwrap());
        let backup = Some(Suffix::new("~").unwrap());
        assert!(for_directory(&root, &fd, "file", &Policy { backup, ..policy() }).unwrap());
        assert!(!dir.path().join("tree/file").exists());
        assert_eq!(fs::read(dir.path().join("tree/file~")).unwrap(), b"file");
    }

    #[test]
    fn a_link_makes_way_for_a_directory_where_links_are_preserved() {
        let (dir, root, fd) = tree();
        let link = dir.path().join("tree/link");
        symlink("d", &link).unwrap();
        assert!(!for_directory(&root, &fd, "link", &policy()).unwrap());
        let preserving = Policy { preserve: true, ..policy() };
        assert!(for_directory(&root, &fd, "link", &preserving).unwrap());
        assert!(link.symlink_metadata().is_err() && dir.path().join("tree/d/sub").exists());
    }
}
