//! Removes what is in the place of something of another kind, where the user wants the receiver to
//! have what the source has (`--delete`).

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, Stat};

use super::owner_writes;
use super::part_file::is_held;
use super::place::may_chown_to;
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

    /// The same, of as many paths only as `fits` says one by one.
    pub fn take_some(&self, mut fits: impl FnMut(&str) -> bool) -> Vec<String> {
        let mut removed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = removed.paths.iter().take_while(|path| fits(path)).count();
        removed.paths.drain(..count).collect()
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

/// How many levels of directories may lie below one that is removed: as many as a path of the protocol has. A deeper
/// one stays, because nothing that a transfer can name lies there.
const MAX_DEPTH: usize = 2048;

/// Why a directory with more levels stays.
const TOO_DEEP: &str = "directory that may go: it lies too deep (2048 levels at most)";

/// Something that goes with a directory that is removed.
#[derive(Debug, PartialEq, Eq)]
pub struct Goes {
    /// Where it is.
    pub path: String,
    /// Size of a file.
    pub size: u64,
}

/// Whether the directory `name`, at `path`, can be removed with everything in it. With a backup
/// nothing may be in it: a file is kept beside its old place, and so would keep the directory. `goes` hears what is in
/// it.
pub(super) fn check_directory(
    root: &Root,
    parent: &OwnedFd,
    name: &str,
    path: &str,
    policy: &Policy,
    mut goes: impl FnMut(Goes),
) -> Result<(), RootError> {
    let device = rustix::fs::fstat(parent).map_err(io::Error::from)?.st_dev;
    // Paths as the system has them, seen from `parent`, and as they are printed.
    let mut pending = vec![(name.to_owned(), path.to_owned())];
    let mut opener = Opener::new(parent);
    while let Some((next, shown)) = pending.pop() {
        let directory = opener.open(&next, &shown)?;
        let stat = rustix::fs::fstat(directory).map_err(io::Error::from)?;
        if !may_chown_to(stat.st_uid) {
            return Err(RootError::Foreign(shown));
        }
        if stat.st_dev != device {
            return Err(RootError::WrongKind(shown, "file: a file system is mounted there"));
        }
        for entry in names_in(directory)? {
            if policy.backup.is_some() {
                return Err(RootError::WrongKind(
                    shown,
                    "file: a directory with something in it has this name, and can't be kept",
                ));
            }
            let printed = format!("{shown}/{}", printable(&entry));
            let Some(stat) = check_entry(root, directory, &entry, &printed)? else { continue };
            let is_file = kind_of(&stat) == FileType::RegularFile;
            let size = if is_file { stat.st_size as u64 } else { 0 };
            let below = format!("{next}/{entry}");
            goes(Goes { path: told_as(&below, name, path), size });
            if kind_of(&stat) == FileType::Directory {
                pending.push((below, printed));
            }
        }
    }
    Ok(())
}

/// Looks at what has the name `entry` in a directory that is removed, unless it has to stay. It lies at `path`.
fn check_entry(
    root: &Root,
    directory: &OwnedFd,
    entry: &str,
    path: &str,
) -> Result<Option<Stat>, RootError> {
    let stays = |why| Err(RootError::WrongKind(path.to_owned(), why));
    if root.hides(directory, entry) {
        return Err(RootError::Hidden(path.to_owned()));
    }
    if is_held(directory, entry) {
        return stays("file that may go: a transfer into it is running");
    }
    let found = entry_at(directory, entry)?;
    match found.as_ref().map(kind_of) {
        None | Some(FileType::Directory | FileType::RegularFile | FileType::Symlink) => {
            Ok(found)
        }
        Some(_) => stays("file or directory, and therefore not removed"),
    }
}

/// How many directories on the way to another one are kept open.
const KEPT_OPEN: usize = 32;

/// Opens directories below another one, one after the other. The last ones on the way to one are kept open, for those
/// beside it and below it.
struct Opener<'a> {
    parent: &'a OwnedFd,
    /// Each lies in the one before it.
    open: VecDeque<(String, OwnedFd)>,
}

impl<'a> Opener<'a> {
    fn new(parent: &'a OwnedFd) -> Self {
        Self { parent, open: VecDeque::new() }
    }

    /// Opens the directory at `path`, which is printed like `shown`. No path is where everything is.
    fn open(&mut self, path: &str, shown: &str) -> Result<&OwnedFd, RootError> {
        if path.split('/').count() > MAX_DEPTH {
            return Err(RootError::WrongKind(cut_short(shown), TOO_DEEP));
        }
        let is_above = |(above, _): &(String, OwnedFd)| {
            let rest = path.strip_prefix(above.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        while self.open.back().is_some_and(|last| !is_above(last)) {
            self.open.pop_back();
        }
        let mut at = self.open.back().map_or(0, |(above, _)| above.len());
        while at < path.len() {
            let begin = if at == 0 { 0 } else { at + 1 };
            let rest = path.get(begin..).unwrap_or_default();
            let name = rest.split('/').next().unwrap_or_default();
            let above = self.open.back().map_or(self.parent, |(_, above)| above);
            let opened = open_directory(above, name)?;
            at = begin + name.len();
            self.open.push_back((path.get(..at).unwrap_or_default().to_owned(), opened));
            if self.open.len() > KEPT_OPEN {
                self.open.pop_front();
            }
        }
        Ok(self.open.back().map_or(self.parent, |(_, opened)| opened))
    }
}

/// The beginning of a path that is too long to be read.
fn cut_short(path: &str) -> String {
    const SHOWN: usize = 60;
    match path.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

/// Removes the directory `name`, at `path`, if it is one, with everything in it. Nothing is followed out of it.
pub(super) fn remove_directory(
    parent: &OwnedFd,
    name: &str,
    path: &str,
    made_way: &MadeWay,
) -> io::Result<()> {
    if !is_directory(parent, name)? {
        return Ok(());
    }
    // Each behind the one that it lies in.
    let (mut directories, mut pending) = (Vec::new(), vec![name.to_owned()]);
    let mut opener = Opener::new(parent);
    while let Some(next) = pending.pop() {
        let directory = opener.open(&next, &next).map_err(io::Error::other)?;
        let entries = names_in(directory)?;
        if entries.iter().any(|entry| is_held(directory, entry)) {
            return Err(io::Error::other("a transfer into the directory is running"));
        }
        for entry in entries {
            let below = format!("{next}/{entry}");
            if is_directory(directory, &entry)? {
                pending.push(below);
                continue;
            }
            let remove = || rustix::fs::unlinkat(directory, entry.as_str(), AtFlags::empty());
            owner_writes::change(directory, remove)?;
            made_way.add(&told_as(&below, name, path));
        }
        directories.push(next);
    }
    while let Some(next) = directories.pop() {
        let (above, last) = next.rsplit_once('/').unwrap_or(("", &next));
        let above = opener.open(above, above).map_err(io::Error::other)?;
        let remove = || rustix::fs::unlinkat(above, last, AtFlags::REMOVEDIR);
        owner_writes::change(above, remove)?;
        made_way.add(&told_as(&next, name, path));
    }
    Ok(())
}

fn is_directory(parent: &OwnedFd, name: &str) -> io::Result<bool> {
    let entry = entry_at(parent, name)?;
    Ok(entry.is_some_and(|stat| kind_of(&stat) == FileType::Directory))
}

/// How something is told that lies at `below`, in or as the directory `name`, which is at `path`.
fn told_as(below: &str, name: &str, path: &str) -> String {
    format!("{path}{}", below.strip_prefix(name).unwrap_or(below))
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
        check_directory(&root, &fd, "d", "d", &policy(), drop).unwrap();
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

    /// Makes `depth` directories in each other, deeper than paths of the system reach.
    fn deep(parent: &OwnedFd, depth: usize) {
        let mut above = parent.try_clone().unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&above, "d", rustix::fs::Mode::RWXU).unwrap();
            above = open_directory(&above, "d").unwrap();
        }
    }

    /// Does something on a stack as small as a worker's may be.
    fn on_a_small_stack(work: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(128 * 1024);
            thread.spawn_scoped(scope, work).unwrap().join().unwrap();
        });
    }

    #[test]
    fn a_directory_as_deep_as_a_path_goes_with_few_files_open() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let fd: OwnedFd = fs::File::open(dir.path()).unwrap().into();
        deep(&fd, MAX_DEPTH);
        on_a_small_stack(|| {
            let mut inside = 0;
            check_directory(&root, &fd, "d", "d", &policy(), |_| inside += 1).unwrap();
            assert_eq!(inside, MAX_DEPTH - 1);
            let made_way = MadeWay::default();
            remove_directory(&fd, "d", "d", &made_way).unwrap();
            assert_eq!(made_way.take().paths.len(), MAX_DEPTH);
        });
        assert!(!dir.path().join("d").exists());
    }

    #[test]
    fn a_directory_that_is_deeper_stays() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let fd: OwnedFd = fs::File::open(dir.path()).unwrap().into();
        deep(&fd, MAX_DEPTH + 1);
        on_a_small_stack(|| {
            let error =
                check_directory(&root, &fd, "d", "d", &policy(), drop).unwrap_err().to_string();
            assert!(error.contains("2048 levels") && error.len() < 200, "{error}");
            let made_way = MadeWay::default();
            let error = remove_directory(&fd, "d", "d", &made_way).unwrap_err().to_string();
            assert!(error.contains("2048 levels"), "{error}");
            assert!(made_way.take().paths.is_empty());
        });
        assert!(dir.path().join("d").exists());
        // The standard library needs an open file for each level.
        let removed = std::process::Command::new("rm").arg("-r").arg(dir.path()).status();
        assert!(removed.unwrap().success());
    }

    #[test]
    fn a_directory_stays_with_what_a_server_hides_a_pipe_or_a_backup() {
        let (dir, mut root, fd) = tree();
        let backup = Some(Suffix::new("~").unwrap());
        let keeping = Policy { backup, ..policy() };
        assert!(check_directory(&root, &fd, "d", "d", &keeping, drop).is_err());
        root.hide(&dir.path().join("tree/d/sub/deep")).unwrap();
        let error = check_directory(&root, &fd, "d", "d", &policy(), drop).unwrap_err();
        assert!(matches!(&error, RootError::Hidden(path) if path == "d/sub/deep"), "{error}");
        let (dir, root, fd) = tree();
        let fifo = dir.path().join("tree/d/sub/fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let error = check_directory(&root, &fd, "d", "d", &policy(), drop).unwrap_err();
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
