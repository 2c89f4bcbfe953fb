//! A directory tree that nothing leads out of.
//!
//! Every path is opened component by component with `openat` and `O_NOFOLLOW`. Symbolic links
//! below the root are therefore never followed, not even those that point inside, and no
//! renaming behind our back can lead out of the tree between a check and its use. The root
//! itself may be reached through links.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};

use super::acl;
use super::disk::Found;
use super::hidden::Hidden;
use super::make_way::{self, ForDirectory, MadeWay};
use super::owner_writes;
use super::policy::Policy;
use super::replace::entry_at;
use super::{EntryKind, Offer, WirePath};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What the owner of a directory needs that can be opened for what is changed in it.
pub(super) const OPENED: u32 = 0o500;

/// An open directory under which paths are resolved.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    /// As it was opened.
    path: PathBuf,
    hidden: Vec<Hidden>,
    /// If there are any, all else is as if it did not exist.
    only: Vec<WirePath>,
}

/// How missing directories are created.
#[derive(Clone, Copy)]
struct Create<'a> {
    /// Permissions of the last directories of the path, which those that are created do not exceed, but for their
    /// owner.
    modes: &'a [u32],
    /// From how many components on directories may be opened to their owner for what is created in them.
    opens_from: Option<usize>,
    way: Option<Way<'a>>,
}

/// What may have to make way for directories.
#[derive(Clone, Copy)]
struct Way<'a> {
    /// The first component of a path that it may have the name of.
    first: usize,
    policy: &'a Policy,
    /// Hears what has.
    told_to: &'a MadeWay,
}

/// A path that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It does not exist.
    #[error("{0}: no such file or directory")]
    NotFound(String),
    /// A component is a symbolic link.
    #[error(
        "{0}: symbolic links are not followed; name what it leads to, or take the directory that it is in with \
         --preserve, which keeps links"
    )]
    Symlink(String),
    /// It is not what it should be.
    #[error("{0}: not a {1}")]
    WrongKind(String, &'static str),
    /// It belongs to another user.
    #[error("{0}: belongs to another user, and stays as it is")]
    Foreign(String),
    /// The server needs it for itself.
    #[error("{0}: the server keeps this file for itself")]
    Hidden(String),
    /// What is shared is no longer at its path.
    #[error("{} is another directory now, or gone; restart tack serve", super::printable(.0))]
    Replaced(String),
    /// The system refuses.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Root {
    /// Opens the directory at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { directory, path: path.to_owned(), hidden: Vec::new(), only: Vec::new() })
    }

    /// The path that it was opened at.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes sure that the directory is still what its path leads to. It may have been moved away, or something mounted
    /// over it, and nobody would find what goes into it.
    pub fn check_path(&self) -> Result<(), RootError> {
        let replaced = || RootError::Replaced(self.path.display().to_string());
        let stat = match rustix::fs::stat(&self.path).map_err(io::Error::from) {
            Ok(stat) => stat,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    return Err(replaced());
                }
                // Whether it is there can't be told.
                _ => return Ok(()),
            },
        };
        let is_same = self.number()? == (stat.st_dev, stat.st_ino);
        if is_same { Ok(()) } else { Err(replaced()) }
    }

    /// Device and number of the directory, the same by whatever path it was opened.
    pub fn number(&self) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.directory)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Keeps the file at `path` from being read, listed or replaced, should it be in the tree.
    pub fn hide(&mut self, path: &Path) -> io::Result<()> {
        self.hidden.push(Hidden::new(path)?);
        Ok(())
    }

    /// Lets these paths be read, what is below them, and nothing else.
    #[must_use]
    pub fn only(mut self, paths: &[WirePath]) -> Self {
        self.only = paths.to_vec();
        self
    }

    fn check_readable(&self, path: &WirePath) -> Result<(), RootError> {
        let is_readable = |only: &WirePath| path == only || path.below(only).is_some();
        if self.only.is_empty() || self.only.iter().any(is_readable) {
            return Ok(());
        }
        Err(RootError::NotFound(path.to_string()))
    }

    /// Is the entry `name` of `directory` hidden?
    pub(super) fn hides(&self, directory: &impl AsFd, name: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden.is(directory, name))
    }

    /// The directory that `path` lies in, and its name there; `None` for the root.
    pub(super) fn place(
        &self,
        path: &WirePath,
    ) -> Result<Option<(OwnedFd, String)>, RootError> {
        self.check_readable(path)?;
        let Some((parent, name)) = path.split_last() else { return Ok(None) };
        let directory = self.descend(&parent, None)?;
        if self.hides(&directory, name) {
            return Err(RootError::NotFound(path.to_string()));
        }
        Ok(Some((directory, name.to_owned())))
    }

    /// Opens a directory below the root.
    pub fn directory(&self, path: &WirePath) -> Result<OwnedFd, RootError> {
        self.check_readable(path)?;
        self.descend(path, None)
    }

    /// Opens a directory below the root; creates what is missing.
    pub fn create_directory(&self, path: &WirePath) -> Result<OwnedFd, RootError> {
        self.descend(path, Some(Create { modes: &[], opens_from: None, way: None }))
    }

    /// Opens the directory `path` below `base`, both of which are created where they are missing. `modes` are the
    /// permissions of the last directories, which those that are created do not exceed, but for their owner. What has
    /// the name of a directory below `base` may make way by the `policy`, and is told to `made_way`.
    pub fn create_directory_below(
        &self,
        base: &WirePath,
        path: &WirePath,
        modes: &[u32],
        policy: &Policy,
        made_way: &MadeWay,
    ) -> Result<OwnedFd, RootError> {
        let first = base.components().count();
        let way = policy.make_way.then_some(Way { first, policy, told_to: made_way });
        let opens_from = policy.opens_directories.then_some(first);
        self.descend(path, Some(Create { modes, opens_from, way }))
    }

    /// Opens a regular file for reading.
    pub fn file(&self, path: &WirePath) -> Result<File, RootError> {
        self.check_readable(path)?;
        let Some((parent, name)) = path.split_last() else {
            return Err(RootError::WrongKind(path.to_string(), "regular file"));
        };
        let directory = self.descend(&parent, None)?;
        if self.hides(&directory, name) {
            return Err(RootError::NotFound(path.to_string()));
        }
        open_file(&directory, name)
    }

    /// Size, time and permissions of a regular file; `None` where there is none, or a hidden one.
    pub fn offer(&self, path: &WirePath) -> Option<Offer> {
        self.found(path).map(|found| found.offer)
    }

    /// The same with how exactly the time is kept.
    pub fn found(&self, path: &WirePath) -> Option<Found> {
        self.check_readable(path).ok()?;
        let (parent, name) = path.split_last()?;
        let directory = self.descend(&parent, None).ok()?;
        if self.hides(&directory, name) {
            return None;
        }
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| Found::of(&stat))
    }

    /// Whether something at `path` stays by the `policy` where a file is offered.
    pub fn keeps(&self, path: &WirePath, policy: &Policy, offer: &Offer) -> bool {
        let Ok(Some((directory, name))) = self.place(path) else { return false };
        let Ok(Some(stat)) = entry_at(&directory, &name) else { return false };
        policy.keeps_entry(&stat, offer)
    }

    /// Whether there is a directory at `path`; false where it can be made, and what is on the way there, if anything is,
    /// makes way for it by the `policy`.
    pub fn has_directory(&self, path: &WirePath, policy: &Policy) -> Result<bool, RootError> {
        let mut directory = self.directory.try_clone()?;
        for name in path.components() {
            directory = match rustix::fs::openat(&directory, name, DIRECTORY, Mode::empty()) {
                Ok(below) => below,
                Err(rustix::io::Errno::NOENT) => return Ok(false),
                Err(error) => {
                    return match entry_at(&directory, name)? {
                        Some(entry)
                            if make_way::check_for_directory(
                                self, &directory, name, &entry, policy,
                            )? != ForDirectory::Stays =>
                        {
                            Ok(false)
                        }
                        _ => Err(explain(&directory, name, error, "directory")),
                    };
                }
            };
        }
        Ok(true)
    }

    /// Whether the directory that `path` lies in, or the deepest one on the way there, lets entries be made. By the
    /// `policy` it may be opened for that.
    pub fn check_change_of(&self, path: &WirePath, policy: &Policy) -> Result<(), RootError> {
        let mut directory = self.directory.try_clone()?;
        let (parent, _) = path.split_last().unwrap_or_default();
        for name in parent.components() {
            // What is missing, or makes way, is made.
            match rustix::fs::openat(&directory, name, DIRECTORY, Mode::empty()) {
                Ok(below) => directory = below,
                Err(_) => break,
            }
        }
        let may_open = policy.opens_directories && may_open(&directory);
        if may_open { Ok(()) } else { Ok(check_access(&directory, ".")?) }
    }

    /// Permissions of the directory at `path`.
    pub fn mode_of_directory(&self, path: &WirePath) -> Option<u32> {
        let stat = rustix::fs::fstat(self.directory(path).ok()?).ok()?;
        Some(stat.st_mode & 0o7777)
    }

    /// Size of the file or link at `path` that makes way for a directory, if there is one.
    pub fn in_the_way(
        &self,
        path: &WirePath,
        policy: &Policy,
    ) -> Result<Option<u64>, RootError> {
        let Ok(Some((directory, name))) = self.place(path) else { return Ok(None) };
        let Some(entry) = entry_at(&directory, &name)? else { return Ok(None) };
        let goes = make_way::check_for_directory(self, &directory, &name, &entry, policy)?;
        let is_file = FileType::from_raw_mode(entry.st_mode) == FileType::RegularFile;
        let size = if is_file { entry.st_size as u64 } else { 0 };
        Ok((goes != ForDirectory::Stays).then_some(size))
    }

    /// Says what `path` is.
    pub fn kind(&self, path: &WirePath) -> Result<EntryKind, RootError> {
        self.check_readable(path)?;
        let Some((parent, name)) = path.split_last() else {
            let stat = rustix::fs::fstat(&self.directory).map_err(io::Error::from)?;
            let mode = acl::mode_of(&self.directory, stat.st_mode & 0o777);
            return Ok(EntryKind::Directory { mode });
        };
        let directory = self.descend(&parent, None)?;
        if self.hides(&directory, name) {
            return Err(RootError::NotFound(path.to_string()));
        }
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| explain(&directory, name, e, "regular file or directory"))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(EntryKind::File { size: stat.st_size as u64 }),
            FileType::Directory => {
                let mode = stat.st_mode & 0o777;
                // One that can't be opened is not transferred.
                let below = open_directory(&directory, name);
                let mode = below.map_or(mode, |below| acl::mode_of(&below, mode));
                Ok(EntryKind::Directory { mode })
            }
            FileType::Symlink => Err(RootError::Symlink(path.to_string())),
            _ => Err(RootError::WrongKind(path.to_string(), "regular file or directory")),
        }
    }

    fn descend(
        &self,
        path: &WirePath,
        create: Option<Create<'_>>,
    ) -> Result<OwnedFd, RootError> {
        use rustix::io::Errno;
        let mut directory = self.directory.try_clone()?;
        for (at, name) in path.components().enumerate() {
            let opened = rustix::fs::openat(&directory, name, DIRECTORY, Mode::empty());
            directory = match (opened, create) {
                (Ok(below), _) => below,
                (Err(Errno::NOENT), Some(create)) => {
                    create.below(&directory, name, (path, at))?
                }
                (Err(error), Some(create))
                    if self.makes_way(create, (path, at), &directory, name)? =>
                {
                    log::debug!("{name} makes way for a directory: {error}");
                    create.below(&directory, name, (path, at))?
                }
                (Err(error), _) => return Err(explain(&directory, name, error, "directory")),
            };
        }
        Ok(directory)
    }

    /// Whether the component `name`, at this place of a path, has made way for a directory.
    fn makes_way(
        &self,
        create: Create<'_>,
        (path, at): (&WirePath, usize),
        directory: &OwnedFd,
        name: &str,
    ) -> Result<bool, RootError> {
        match create.way {
            Some(Way { first, policy, told_to }) if at >= first => {
                let path: Vec<_> = path.components().take(at + 1).collect();
                let path = path.join("/");
                make_way::for_directory(self, directory, name, &path, policy, told_to)
            }
            _ => Ok(false),
        }
    }
}

impl Create<'_> {
    /// Creates and opens the directory `name`, the component at this place of a path.
    fn below(
        self,
        directory: &OwnedFd,
        name: &str,
        (path, at): (&WirePath, usize),
    ) -> Result<OwnedFd, RootError> {
        let last = path.components().count() - at;
        let given = self.modes.len().checked_sub(last).and_then(|at| self.modes.get(at));
        // Whoever creates it has to be able to fill it.
        let owner = if self.opens_from.is_some() { OPENED } else { 0o700 };
        let mode = Mode::from_raw_mode(given.map_or(0o777, |mode| mode & 0o777 | owner));
        let create = || rustix::fs::mkdirat(directory, name, mode);
        let created = match self.opens_from {
            Some(first) if at >= first => owner_writes::change(directory, create),
            _ => create(),
        };
        match created {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(RootError::Io(e.into())),
        }
        open_directory(directory, name)
    }
}

/// Whether entries may be made in the directory at `path`.
pub fn may_create_in(path: &Path) -> io::Result<()> {
    check_access(&rustix::fs::CWD, path)
}

fn check_access(directory: &impl AsFd, path: impl rustix::path::Arg) -> io::Result<()> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    Ok(rustix::fs::accessat(directory, path, access, AtFlags::EACCESS)?)
}

/// Whether a directory that is closed to its owner can be opened for a change.
fn may_open(directory: &OwnedFd) -> bool {
    rustix::fs::fstat(directory).is_ok_and(|stat| {
        stat.st_uid == rustix::process::geteuid().as_raw() && !owner_writes::loses_setgid(&stat)
    })
}

/// Opens the regular file `name` of `directory` for reading, without following a link and
/// without waiting for the other end of a pipe.
pub(super) fn open_file(directory: &impl AsFd, name: &str) -> Result<File, RootError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())
        .map_err(|e| explain(directory, name, e, "regular file"))?;
    let mode = rustix::fs::fstat(&file).map_err(io::Error::from)?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        return Err(RootError::WrongKind(super::printable(name), "regular file"));
    }
    Ok(File::from(file))
}

/// Opens the directory `name` of `directory`, without following a link.
pub(super) fn open_directory(directory: &impl AsFd, name: &str) -> Result<OwnedFd, RootError> {
    rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())
        .map_err(|e| explain(directory, name, e, "directory"))
}

/// `openat` reports a symbolic link as ELOOP or, with `O_DIRECTORY`, as ENOTDIR.
fn explain(
    directory: &impl AsFd,
    name: &str,
    error: rustix::io::Errno,
    wanted: &'static str,
) -> RootError {
    use rustix::io::Errno;
    let shown = super::printable(name);
    match error {
        Errno::NOENT => RootError::NotFound(shown),
        Errno::LOOP => RootError::Symlink(shown),
        Errno::NOTDIR => {
            let stat = CString::new(name).map_err(io::Error::other).and_then(|name| {
                Ok(rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?)
            });
            match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Ok(FileType::Symlink) => RootError::Symlink(shown),
                _ => RootError::WrongKind(shown, wanted),
            }
        }
        // A socket, or a device without a driver.
        Errno::NXIO => RootError::WrongKind(shown, wanted),
        other => RootError::Io(io::Error::new(
            io::Error::from(other).kind(),
            format!("{shown}: {}", io::Error::from(other)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("served/sub")).unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        std::fs::write(dir.path().join("served/sub/file"), "f").unwrap();
        let root = Root::open(&dir.path().join("served")).unwrap();
        (dir, root)
    }

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    #[test]
    fn what_is_not_shared_is_as_if_it_did_not_exist() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a/x", "ab/x", "b/c/x", "b/x"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let root = Root::open(dir.path()).unwrap().only(&[path("a"), path("b/c/x")]);
        for shared in ["a/x", "b/c/x"] {
            assert!(root.file(&path(shared)).is_ok() && root.offer(&path(shared)).is_some());
            assert!(root.kind(&path(shared)).is_ok());
        }
        assert!(root.directory(&path("a")).is_ok());
        for other in ["ab/x", "b/x", "b", "b/c", "", "ab"] {
            let other = path(other);
            assert!(matches!(root.file(&other), Err(RootError::NotFound(_))), "{other}");
            assert!(matches!(root.kind(&other), Err(RootError::NotFound(_))), "{other}");
            assert!(matches!(root.directory(&other), Err(RootError::NotFound(_))), "{other}");
            assert!(root.offer(&other).is_none(), "{other}");
        }
    }

    #[test]
    fn files_and_directories_inside_are_found() {
        let (_dir, root) = tree();
        assert!(root.file(&path("sub/file")).is_ok());
        assert_eq!(root.kind(&path("sub/file")).unwrap(), EntryKind::File { size: 1 });
        assert!(matches!(root.kind(&path("sub")).unwrap(), EntryKind::Directory { .. }));
        assert!(matches!(root.file(&path("sub/none")), Err(RootError::NotFound(_))));
        assert!(matches!(root.file(&path("sub")), Err(RootError::WrongKind(..))));
        assert!(matches!(root.file(&path("sub/file/x")), Err(RootError::WrongKind(..))));
    }

    #[test]
    fn links_are_refused_wherever_they_appear() {
        let (dir, root) = tree();
        symlink(dir.path(), dir.path().join("served/up")).unwrap();
        symlink(dir.path().join("secret"), dir.path().join("served/leaf")).unwrap();
        symlink("sub", dir.path().join("served/inside")).unwrap();
        for name in ["up/secret", "leaf", "inside/file"] {
            let result = root.file(&path(name));
            assert!(matches!(result, Err(RootError::Symlink(_))), "{name}: {result:?}");
        }
        assert!(matches!(root.kind(&path("leaf")), Err(RootError::Symlink(_))));
        let created = root.create_directory(&path("up/new"));
        assert!(matches!(created, Err(RootError::Symlink(_))));
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn a_pipe_is_refused_without_waiting_for_its_other_end() {
        let (dir, root) = tree();
        let fifo = dir.path().join("served/fifo");
        let status = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(status.success());
        assert!(matches!(root.file(&path("fifo")), Err(RootError::WrongKind(..))));
    }

    #[test]
    fn a_hidden_file_is_found_under_none_of_its_names() {
        let (dir, mut root) = tree();
        let key = dir.path().join("served/sub/key");
        root.hide(&key).unwrap();
        std::fs::write(&key, "made later").unwrap();
        root.hide(&dir.path().join("served/sub/file")).unwrap();
        std::fs::hard_link(dir.path().join("served/sub/file"), dir.path().join("served/other"))
            .unwrap();
        for name in ["sub/key", "sub/file", "other"] {
            assert!(matches!(root.file(&path(name)), Err(RootError::NotFound(_))), "{name}");
            assert!(matches!(root.kind(&path(name)), Err(RootError::NotFound(_))), "{name}");
        }
        assert!(root.kind(&path("sub")).is_ok());
    }

    #[test]
    fn missing_directories_are_created() {
        let (dir, root) = tree();
        root.create_directory(&path("a/b/c")).unwrap();
        assert!(dir.path().join("served/a/b/c").is_dir());
    }
}
