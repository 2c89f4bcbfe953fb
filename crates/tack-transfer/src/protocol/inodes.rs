//! Files of a destination that have several names, where they are not one file at the source.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Gid, Mode, OFlags, Stat, Uid};

use super::acl;
use super::owner_writes;
use super::part_file::times;
use super::replace::replace;
use super::root::open_file;
use super::sparse::write_sparse;
use super::wire::Mtime;

/// Files with several names that are remembered at most; a peer must not fill the memory.
const MAX_INODES: usize = 1 << 16;
const PIECE: usize = 64 * 1024;

/// Which file of the source each file of the destination with several names has turned out to be.
#[derive(Debug, Default)]
pub struct Inodes(Mutex<HashMap<(u64, u64), Option<u64>>>);

impl Inodes {
    /// Whether what is there is another file of the source already, and not this one, which has the number
    /// `source` if it has several names there. Otherwise it is this one from now on.
    pub(super) fn is_anothers(&self, found: &Stat, source: Option<u64>) -> bool {
        if found.st_nlink < 2 {
            return false;
        }
        // Whole whenever the lock is free.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (found.st_dev, found.st_ino);
        if let Some(before) = known.get(&key) {
            return source.is_none() || *before != source;
        }
        if known.len() < MAX_INODES {
            known.insert(key, source);
        }
        false
    }
}

/// Makes the name `name` one of a file of its own, with the same content and attributes.
pub(super) fn separate(directory: &OwnedFd, name: &str) -> io::Result<()> {
    replace(directory, name, |temporary| {
        copy(directory, name, temporary).map_err(|error| {
            rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
        })
    })
}

fn copy(directory: &OwnedFd, name: &str, temporary: &str) -> io::Result<()> {
    let mut from = open_file(directory, name).map_err(io::Error::other)?;
    let old = rustix::fs::fstat(&from)?;
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || rustix::fs::openat(directory, temporary, flags, Mode::from_raw_mode(0o600));
    let created = owner_writes::change(directory, create)?;
    let mut to = File::from(created);
    let (mut piece, mut length) = (vec![0; PIECE], 0);
    loop {
        let read = from.read(&mut piece)?;
        let Some(data) = piece.get(..read).filter(|data| !data.is_empty()) else { break };
        write_sparse(&mut to, length, data)?;
        length += read as u64;
    }
    to.set_len(length)?;
    let new = rustix::fs::fstat(&to)?;
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) {
        let owner = (Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
        rustix::fs::fchown(&to, owner.0, owner.1)?;
    }
    // The list is not copied: what its mask lets others do is not for the group.
    let mode = acl::mode_of(&from, old.st_mode) & 0o777;
    rustix::fs::fchmod(&to, Mode::from_raw_mode(mode))?;
    let nanos = u32::try_from(old.st_mtime_nsec).unwrap_or(0);
    rustix::fs::futimens(&to, &times(Mtime { seconds: old.st_mtime, nanos }))?;
    to.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_file_with_several_names_is_one_file_of_the_source_at_most() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "content").unwrap();
        let fd: OwnedFd = File::open(dir.path()).unwrap().into();
        let stat = || rustix::fs::statat(&fd, "file", rustix::fs::AtFlags::empty()).unwrap();
        let inodes = Inodes::default();
        assert!((0..3).all(|_| !inodes.is_anothers(&stat(), None)), "it has one name");
        std::fs::hard_link(&file, dir.path().join("other")).unwrap();
        assert!(!inodes.is_anothers(&stat(), Some(7)));
        assert!(!inodes.is_anothers(&stat(), Some(7)), "another name of the same");
        assert!(inodes.is_anothers(&stat(), Some(8)) && inodes.is_anothers(&stat(), None));
        let single = Inodes::default();
        assert!(!single.is_anothers(&stat(), None) && single.is_anothers(&stat(), None));
    }

    #[test]
    fn a_name_gets_a_file_of_its_own_that_is_the_same_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let content = [vec![0; 3 * PIECE], b"end".to_vec(), vec![0; 9000]].concat();
        std::fs::write(&one, &content).unwrap();
        std::fs::set_permissions(&one, PermissionsExt::from_mode(0o640)).unwrap();
        std::fs::hard_link(&one, &two).unwrap();
        separate(&File::open(dir.path()).unwrap().into(), "two").unwrap();
        let (one, other) = (one.metadata().unwrap(), two.metadata().unwrap());
        assert_eq!((one.nlink(), other.nlink()), (1, 1));
        assert_eq!((one.mode(), one.mtime_nsec()), (other.mode(), other.mtime_nsec()));
        assert_eq!(std::fs::read(&two).unwrap(), content);
        assert!(other.blocks() < 100, "holes stay holes");
    }

    #[test]
    fn a_group_that_a_list_keeps_out_stays_out() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        std::fs::write(&one, "content").unwrap();
        if !acl::tests::give_list(&File::open(&one).unwrap(), 0) {
            eprintln!("skipped: no access control lists here");
            return;
        }
        std::fs::hard_link(&one, &two).unwrap();
        separate(&File::open(dir.path()).unwrap().into(), "two").unwrap();
        assert_eq!(one.metadata().unwrap().mode() & 0o777, 0o660, "that is the mask");
        assert_eq!(two.metadata().unwrap().mode() & 0o777, 0o600);
    }
}
