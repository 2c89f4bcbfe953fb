//! Everything below a path, one entry at a time.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType};

use super::part_file::PartName;
use super::{EntryKind, NameError, Root, TransferError, WirePath, printable};

/// Walks a tree. Directories are given only if nothing in them is: the others come into being
/// with their files.
#[derive(Debug)]
pub struct Walk {
    root: Arc<Root>,
    base: WirePath,
    /// Directories still to be read, relative to `base`.
    pending: Vec<WirePath>,
    current: Option<Open>,
}

#[derive(Debug)]
struct Open {
    path: WirePath,
    directory: OwnedFd,
    entries: Dir,
    empty: bool,
}

/// One thing that was found.
#[derive(Debug, PartialEq, Eq)]
pub enum WalkItem {
    /// A file or an empty directory, relative to the start.
    Entry(WirePath, EntryKind),
    /// Something that is not transferred.
    Skipped {
        /// Its name, printable.
        name: String,
        /// Why.
        reason: String,
        /// Is it an error, or merely neither file nor directory?
        error: bool,
    },
    /// A file whose name is kept for unfinished transfers, printable. It may be the rest of one,
    /// or a file of the user's.
    Reserved(String),
}

impl Walk {
    /// Starts at `base`, which must be a directory.
    pub fn new(root: Arc<Root>, base: WirePath) -> Self {
        Self { root, base, pending: vec![WirePath::root()], current: None }
    }

    fn open(&self, path: WirePath) -> Result<Open, TransferError> {
        let directory = self.root.directory(&self.base.join(&path)?)?;
        let entries = Dir::read_from(&directory).map_err(reading)?;
        Ok(Open { path, directory, entries, empty: true })
    }

    /// The next entry of `open`; `None` at its end or for an entry that is not shown.
    fn entry(&mut self, open: &mut Open, name: &[u8]) -> Option<WalkItem> {
        if matches!(name, b"." | b"..") {
            return None;
        }
        let Ok(name) = std::str::from_utf8(name) else {
            let shown = printable(&String::from_utf8_lossy(name));
            let name = NameError::NotUtf8(shown.clone());
            return Some(skipped(&open.path, &shown, name.to_string(), true));
        };
        if PartName::is_reserved(name) {
            return Some(WalkItem::Reserved(below(&open.path, &printable(name))));
        }
        if self.root.hides(&open.directory, name) {
            return None;
        }
        open.empty = false;
        let path = match WirePath::new(name).and_then(|name| open.path.join(&name)) {
            Ok(path) => path,
            Err(e) => {
                return Some(skipped(&open.path, &printable(name), e.to_string(), true));
            }
        };
        let stat = match rustix::fs::statat(&open.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Removed since the directory was read.
            Err(rustix::io::Errno::NOENT) => return None,
            Err(e) => {
                let reason = io::Error::from(e).to_string();
                return Some(skipped(&open.path, &printable(name), reason, true));
            }
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                Some(WalkItem::Entry(path, EntryKind::File { size: stat.st_size as u64 }))
            }
            FileType::Directory => {
                self.pending.push(path);
                None
            }
            other => {
                let reason = match other {
                    FileType::Symlink => "a symbolic link, which is not followed",
                    _ => "neither a file nor a directory",
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
                let path = self.pending.pop()?;
                match self.open(path.clone()) {
                    Ok(open) => self.current = Some(open),
                    Err(e) => {
                        let name = path.to_string();
                        return Some(WalkItem::Skipped {
                            name,
                            reason: e.to_string(),
                            error: true,
                        });
                    }
                }
                continue;
            };
            match open.entries.read() {
                None if open.empty && !open.path.is_root() => {
                    return Some(WalkItem::Entry(open.path, EntryKind::Directory));
                }
                None => {}
                Some(Err(e)) => {
                    let reason = io::Error::from(e).to_string();
                    return Some(skipped(&open.path, ".", reason, true));
                }
                Some(Ok(entry)) => {
                    let item = self.entry(&mut open, entry.file_name().to_bytes());
                    self.current = Some(open);
                    if item.is_some() {
                        return item;
                    }
                }
            }
        }
    }
}

fn skipped(directory: &WirePath, name: &str, reason: String, error: bool) -> WalkItem {
    WalkItem::Skipped { name: below(directory, name), reason, error }
}

fn below(directory: &WirePath, name: &str) -> String {
    if directory.is_root() { name.to_owned() } else { format!("{directory}/{name}") }
}

fn reading(error: rustix::io::Errno) -> TransferError {
    TransferError::reading(error.into())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::*;

    fn walk(dir: &Path) -> Vec<WalkItem> {
        let root = Arc::new(Root::open(dir).unwrap());
        Walk::new(root, WirePath::root()).collect()
    }

    fn entries(items: &[WalkItem]) -> Vec<(&str, EntryKind)> {
        let mut entries: Vec<_> = items
            .iter()
            .filter_map(|item| match item {
                WalkItem::Entry(path, kind) => Some((path.as_str(), *kind)),
                WalkItem::Skipped { .. } | WalkItem::Reserved(_) => None,
            })
            .collect();
        entries.sort_by_key(|(path, _)| *path);
        entries
    }

    #[test]
    fn files_at_all_depths_and_empty_directories_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        std::fs::create_dir(dir.path().join("void")).unwrap();
        std::fs::write(dir.path().join("a/b/c/deep"), "12345").unwrap();
        std::fs::write(dir.path().join("top"), "").unwrap();
        std::fs::write(dir.path().join(".top.tack-part"), "unfinished").unwrap();
        let file = |size| EntryKind::File { size };
        assert_eq!(
            entries(&walk(dir.path())),
            [("a/b/c/deep", file(5)), ("top", file(0)), ("void", EntryKind::Directory)]
        );
    }

    #[test]
    fn what_cannot_be_sent_is_named_and_does_not_stop_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(OsStr::from_bytes(b"bad\xff")), "").unwrap();
        std::fs::write(dir.path().join("back\\slash"), "").unwrap();
        std::fs::write(dir.path().join("good"), "").unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let items = walk(dir.path());
        assert_eq!(entries(&items).len(), 1);
        let skipped = |wanted: &str| {
            items.iter().find_map(|item| match item {
                WalkItem::Skipped { name, error, .. } if name == wanted => Some(*error),
                _ => None,
            })
        };
        assert_eq!(skipped("bad\u{fffd}"), Some(true));
        assert_eq!(skipped("back\\slash"), Some(true));
        assert_eq!(skipped("link"), Some(false));
    }
}
