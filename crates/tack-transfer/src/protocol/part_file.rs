//! The temporary file that content is kept in until it is verified.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Gid, Mode, Stat, Timespec, Timestamps, Uid,
};

use super::acl;
use super::creation_mask::creation_mask;
use super::disk::has_same_content;
use super::edit::Edited;
use super::make_way::{self, Goes, MadeWay};
use super::owner_writes;
use super::part_opening::{open_existing, open_or_create, still_named};
use super::policy::Policy;
use super::receiver::Store;
use super::replace;
use super::root::{Root, RootError, open_file};
use super::wire::{Mtime, Offer, UNKNOWN_SIZE};
use super::{Comparing, Digest, Hasher, TransferError, WirePath, WriteLimit};

/// So many zeros, aligned, are left out: what common file systems store.
const HOLE: usize = 4096;

/// Why a file with such a name is left out.
pub const RESERVED: &str =
    "the name is one that tack keeps for unfinished transfers; remove or rename the file";

/// Names of temporary files.
pub struct PartName;

impl PartName {
    const PREFIX: &str = ".";
    const SUFFIX: &str = ".tack-part";

    /// The temporary name for `name`, in the same directory.
    pub fn of(name: &str) -> String {
        let full = format!("{}{name}{}", Self::PREFIX, Self::SUFFIX);
        if full.len() <= 255 {
            return full;
        }
        let short = Digest::of(name.as_bytes()).to_string();
        format!("{}{short}{}", Self::PREFIX, Self::SUFFIX)
    }

    /// The name of the file that the temporary name `part` is for, if that says it.
    pub fn file_of(part: &str) -> Option<&str> {
        let name = part.strip_prefix(Self::PREFIX)?.strip_suffix(Self::SUFFIX)?;
        // Otherwise it may be the digest of a long one.
        let is_digest = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        (!name.is_empty() && !is_digest).then_some(name)
    }

    /// Is `name` such a temporary name?
    pub fn is_reserved(name: &str) -> bool {
        name.starts_with(Self::PREFIX) && name.ends_with(Self::SUFFIX)
    }
}

/// A locked temporary file. Dropping it keeps what is in it, for the next attempt, but does
/// not leave an empty file behind.
#[derive(Debug)]
pub struct PartFile {
    place: Place,
    file: File,
    length: u64,
    /// Zeros at its end have been left out, so that it is shorter as yet.
    ends_with_hole: bool,
    limit: Option<WriteLimit>,
    made_way: MadeWay,
}

/// Where a file goes, in a directory that is there.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) final_name: String,
    part_name: String,
    path: WirePath,
    pub(super) policy: Arc<Policy>,
    /// Where what it replaces is kept.
    backup: Option<String>,
}

/// Whether there is neither a file at `path` nor a part of one.
pub fn is_absent(path: &Path) -> bool {
    let is_missing = |path: &Path| {
        path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| {
        is_missing(path) && is_missing(&path.with_file_name(PartName::of(name)))
    })
}

impl Place {
    /// Where the file at `path` goes; creates missing directories. What stays there is an error.
    pub(super) fn find(
        root: &Root,
        path: &WirePath,
        policy: &Arc<Policy>,
    ) -> Result<Self, TransferError> {
        let Some((parent, name)) = path.split_last() else {
            let wanted = RootError::WrongKind(path.to_string(), "file name");
            return Err(wanted.into());
        };
        Self::find_in(root, &Arc::new(root.create_directory(&parent)?), name, path, policy)
    }

    /// The same, with the directory that `path` lies in opened already.
    pub(super) fn find_in(
        root: &Root,
        directory: &Arc<OwnedFd>,
        name: &str,
        path: &WirePath,
        policy: &Arc<Policy>,
    ) -> Result<Self, TransferError> {
        if root.hides(directory, name) {
            return Err(RootError::Hidden(path.to_string()).into());
        }
        refuse_what_stays(root, (directory, name), path, policy, drop)?;
        let backup = match &policy.backup {
            Some(suffix) => Some(replace::backup_name(root, directory, name, suffix)?),
            None => None,
        };
        let (directory, final_name) = (Arc::clone(directory), name.to_owned());
        let (part_name, path, policy) = (PartName::of(name), path.clone(), Arc::clone(policy));
        Ok(Self { directory, final_name, part_name, path, policy, backup })
    }
}

impl PartFile {
    /// Opens and locks the temporary file for `path`; creates it if it does not exist.
    #[cfg(test)]
    pub(crate) fn open(
        root: &Root,
        path: &WirePath,
        policy: &Arc<Policy>,
    ) -> Result<Self, TransferError> {
        Self::open_at(Place::find(root, path, policy)?)
    }

    /// Opens and locks the temporary file for a place; creates it if it does not exist.
    pub(super) fn open_at(place: Place) -> Result<Self, TransferError> {
        let Place { directory, part_name, policy, .. } = &place;
        let file = open_or_create(directory, part_name, policy.opens_directories)?;
        Self::new(file, place)
    }

    /// The same, if there is one already.
    pub(super) fn open_existing(place: &Place) -> Result<Option<Self>, TransferError> {
        let file = open_existing(&place.directory, &place.part_name)?;
        file.map(|file| Self::new(file, place.clone())).transpose()
    }

    fn new(file: File, place: Place) -> Result<Self, TransferError> {
        let length = file.metadata().map_err(TransferError::reading)?.len();
        let (limit, made_way) = (None, MadeWay::default());
        Ok(Self { place, file, length, ends_with_hole: false, limit, made_way })
    }

    /// Bytes that it has.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Takes in what it has.
    pub(super) fn hash(
        &mut self,
        hasher: &mut Hasher,
        comparing: &Comparing,
    ) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = comparing.reader(&mut self.file, self.length);
        self.length = hasher.read(&mut reader, self.length)?;
        Ok(())
    }

    fn unlink(&self) -> io::Result<()> {
        let (directory, name) = (&self.place.directory, self.place.part_name.as_str());
        let remove = || rustix::fs::unlinkat(directory, name, AtFlags::empty());
        Ok(owner_writes::change(directory, remove)?)
    }

    /// Gives the temporary file the permissions and the time of `offer`.
    pub(super) fn set_attributes(&self, offer: &Offer) -> io::Result<()> {
        if self.ends_with_hole {
            self.file.set_len(self.length)?;
        }
        let mode = match replaced_by(&self.place.directory, &self.place.final_name) {
            Some(old) => self.take_over(&old, offer)?,
            None if self.takes_mode(offer) => offer.mode & 0o777,
            None => offer.mode & 0o777 & !creation_mask(),
        };
        set_attributes_of(&self.file, mode, offer)
    }
}

impl PartFile {
    /// Renames the temporary file; its content must be on disk.
    pub(super) fn take_final_name(&self) -> io::Result<()> {
        if self.place.policy.make_way {
            let (name, path) = (&self.place.final_name, self.place.path.as_str());
            make_way::remove_directory(&self.place.directory, name, path, &self.made_way)?;
        }
        if let Some(kept) = &self.place.backup
            && !self.is_in_place()
        {
            replace::keep(&self.place.directory, &self.place.final_name, kept)?;
        }
        let dir = &self.place.directory;
        let (from, to) = (self.place.part_name.as_str(), self.place.final_name.as_str());
        Ok(owner_writes::change(dir, || rustix::fs::renameat(dir, from, dir, to))?)
    }

    /// Whether the file that has the final name has this content already: an earlier run of the same transfer may
    /// have brought it. To keep that would take the place of what was there before.
    fn is_in_place(&self) -> bool {
        open_file(&self.place.directory, &self.place.final_name)
            .is_ok_and(|there| has_same_content(&there, &self.file).unwrap_or(false))
    }

    /// What has been written may not be on disk: nothing is resumed from it. The system keeps in memory what it
    /// could not write, so that reading it again would show no fault.
    pub(super) fn throw_away(&mut self) {
        // Where it can't be removed, it is empty.
        let _ = self.file.set_len(0);
        let _ = self.unlink();
        self.length = 0;
    }

    /// The open file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The directory that it lies in.
    pub(super) fn directory(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.place.directory)
    }

    /// The same; `made_way` hears what is removed for the file.
    #[must_use]
    pub(super) fn with_made_way(mut self, made_way: MadeWay) -> Self {
        self.made_way = made_way;
        self
    }

    /// Holds writing down to so many bytes per second.
    pub(super) fn set_write_limit(&mut self, bytes_per_second: Option<u64>) {
        self.limit = bytes_per_second.map(WriteLimit::new);
    }

    /// Whether the file gets the permissions of `offer` as they are. What is sent from a pipe has none that could be
    /// preserved: those of its offer are the widest that a new file may have.
    fn takes_mode(&self, offer: &Offer) -> bool {
        self.place.policy.preserve && offer.size != UNKNOWN_SIZE
    }

    /// Gives the temporary file the owner of the file that it replaces, unless it gets the sender's, and says
    /// which mode is wider neither than that of `offer` nor, unless permissions are preserved, than the old file's.
    fn take_over(&self, old: &Stat, offer: &Offer) -> io::Result<u32> {
        let old_mode = if self.takes_mode(offer) { 0o777 } else { self.old_mode(old) };
        let mode = offer.mode & old_mode & 0o777;
        let new = rustix::fs::fstat(&self.file)?;
        if (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid) || self.place.policy.owner {
            return Ok(mode);
        }
        let group = Some(Gid::from_raw(old.st_gid));
        if old.st_uid != new.st_uid {
            rustix::fs::fchown(&self.file, Some(Uid::from_raw(old.st_uid)), group)?;
        } else if rustix::fs::fchown(&self.file, None, group).is_err() {
            // Another group gets what everybody gets.
            return Ok(mode & (0o707 | ((mode & 0o007) << 3)));
        }
        Ok(mode)
    }
}

impl PartFile {
    /// Permissions of the file that is replaced.
    fn old_mode(&self, old: &Stat) -> u32 {
        if !acl::may_matter(old.st_mode) {
            return old.st_mode;
        }
        // Whoever may not read it may not know what its group may do.
        let file = open_file(&self.place.directory, &self.place.final_name);
        file.map_or(old.st_mode & !0o070, |file| acl::mode_of(&file, old.st_mode))
    }
}

impl Store for PartFile {
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        let piece = self.limit.as_ref().map_or(data.len(), WriteLimit::piece);
        for piece in data.chunks(piece.max(1)) {
            if let Some(limit) = &mut self.limit {
                limit.wait(piece.len());
            }
            self.ends_with_hole = write_sparse(&mut self.file, self.length, piece)?;
            self.length += piece.len() as u64;
        }
        Ok(())
    }

    fn append_zeros(&mut self, bytes: u64) -> io::Result<()> {
        self.length += bytes;
        self.file.seek(SeekFrom::Start(self.length))?;
        self.ends_with_hole |= bytes > 0;
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        self.length = length;
        self.ends_with_hole = false;
        Ok(())
    }

    fn commit(&mut self, offer: &Offer) -> io::Result<()> {
        self.set_attributes(offer)?;
        self.file.sync_all().inspect_err(|_| self.throw_away())?;
        self.take_final_name()?;
        // The rename is on disk once the directory is. Should that fail, the file is in place
        // all the same, and whole.
        if let Err(error) = rustix::fs::fsync(&self.place.directory) {
            log::warn!(
                "synchronising the directory of {} failed: {error}",
                self.place.final_name
            );
        }
        Ok(())
    }

    fn discard(&mut self) -> io::Result<()> {
        self.cut(0)
    }
}

/// Gives a file that has the content of `offer` the rest of it, or its time, and takes away what the sender does not
/// permit.
pub(super) fn keep_equal(file: &File, policy: &Policy, offer: &Offer) -> io::Result<()> {
    if policy.preserve {
        return set_attributes_of(file, offer.mode & 0o777, offer);
    }
    // Another user's keeps its time, and is compared again.
    let _ = rustix::fs::futimens(file, &times(offer.modified));
    let mode = rustix::fs::fstat(file)?.st_mode & 0o7777;
    let narrower = mode & (offer.mode | !0o777);
    if narrower == mode {
        return Ok(());
    }
    match rustix::fs::fchmod(file, Mode::from_raw_mode(narrower)) {
        // Another user's, who may permit more.
        Err(rustix::io::Errno::PERM) => Ok(()),
        changed => Ok(changed?),
    }
}

/// Removes what is left of an unfinished transfer of `name`, unless one is running. Kept is also what is not this user's,
/// and no file.
pub(super) fn remove_part(directory: &OwnedFd, name: &str) -> io::Result<Edited> {
    let part_name = PartName::of(name);
    let file = match open_file(directory, &part_name) {
        Ok(file) => file,
        Err(RootError::NotFound(_)) => return Ok(Edited::Unchanged),
        Err(_) => return Ok(Edited::Kept),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Edited::Kept),
        Err(error) => return Err(error.into()),
    }
    if !may_chown_to(rustix::fs::fstat(&file)?.st_uid) {
        return Ok(Edited::Kept);
    }
    // A transfer that has just ended has given it its final name.
    if !still_named(directory, &part_name, &file) {
        return Ok(Edited::Unchanged);
    }
    let remove = || rustix::fs::unlinkat(directory, part_name.as_str(), AtFlags::empty());
    owner_writes::change(directory, remove)?;
    Ok(Edited::Done)
}

/// Whether `name` is a temporary file of a transfer that is running.
pub(super) fn is_held(directory: &OwnedFd, name: &str) -> bool {
    if !PartName::is_reserved(name) {
        return false;
    }
    let Ok(file) = open_file(directory, name) else { return false };
    let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    matches!(locked, Err(rustix::io::Errno::WOULDBLOCK))
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if self.length == 0
            && still_named(&self.place.directory, &self.place.part_name, &self.file)
        {
            // Nothing to resume from. Leaving the empty file behind would do no harm.
            let _ = self.unlink();
        }
    }
}

/// Gives a file these permissions, and the time of `offer`.
pub(super) fn set_attributes_of(file: &File, mode: u32, offer: &Offer) -> io::Result<()> {
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    // A file system that can't hold this time still holds the content.
    let _ = rustix::fs::futimens(file, &times(offer.modified));
    Ok(())
}

/// A time of modification, and of access, for the system.
pub(super) fn times(modified: Mtime) -> Timestamps {
    let modified = Timespec {
        tv_sec: modified.seconds,
        tv_nsec: i64::from(modified.nanos.min(999_999_999)),
    };
    Timestamps { last_access: modified, last_modification: modified }
}

/// Appends `data` at `offset`, where the file is positioned; leaves out blocks of zeros, which the
/// file system then need not store. Whether there are such behind the last byte that is written.
pub(super) fn write_sparse(file: &mut File, offset: u64, data: &[u8]) -> io::Result<bool> {
    let (mut done, mut ends_with_hole) = (0, false);
    while done < data.len() {
        // Up to the next boundary of blocks in the file, and then block by block.
        let length_of = |at: usize| {
            let in_block = ((offset + at as u64) % HOLE as u64) as usize;
            (HOLE - in_block).min(data.len() - at)
        };
        // A part of a block, too: the rest of it may be in the data before or behind.
        let is_hole = |at: usize| data[at..at + length_of(at)].iter().all(|byte| *byte == 0);
        let (start, hole) = (done, is_hole(done));
        while done < data.len() && is_hole(done) == hole {
            done += length_of(done);
        }
        ends_with_hole = hole;
        if hole {
            file.seek(SeekFrom::Start(offset + done as u64))?;
        } else {
            file.write_all(&data[start..done])?;
        }
    }
    Ok(ends_with_hole)
}

/// Whether a file could be received into `path`, as far as what is there tells.
pub fn check_place(
    root: &Root,
    path: &WirePath,
    policy: &Policy,
) -> Result<Vec<Goes>, TransferError> {
    let mut goes = Vec::new();
    let Some((parent, _)) = path.split_last() else { return Ok(goes) };
    if !root.has_directory(&parent, policy)? {
        return Ok(goes);
    }
    match root.place(path) {
        Ok(Some((directory, name))) => {
            let add = |next| goes.push(next);
            refuse_what_stays(root, (&directory, &name), path, policy, add)?;
            Ok(goes)
        }
        Ok(None) | Err(RootError::NotFound(_)) => Ok(goes),
        Err(error) => Err(error.into()),
    }
}

/// Whether what a file at `path` replaces could be kept under another name, if that is wanted.
pub fn check_backup(
    root: &Root,
    path: &WirePath,
    policy: &Policy,
) -> Result<(), TransferError> {
    if let (Some(suffix), Ok(Some((directory, name)))) = (&policy.backup, root.place(path)) {
        replace::backup_name(root, &directory, &name, suffix)?;
    }
    Ok(())
}

/// Only a regular file is replaced, a link in a directory whose links are preserved, and a directory where the policy
/// says so; others are refused before anything is transferred. A link is not followed either: its
/// target lies where the peer has no business. `goes` hears what is in a directory that makes way.
fn refuse_what_stays(
    root: &Root,
    (directory, name): (&OwnedFd, &str),
    path: &WirePath,
    policy: &Policy,
    goes: impl FnMut(Goes),
) -> Result<(), TransferError> {
    let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(());
    };
    let wanted = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if may_chown_to(stat.st_uid) => return Ok(()),
        FileType::RegularFile => return Err(RootError::Foreign(path.to_string()).into()),
        FileType::Symlink if policy.preserve && !policy.keeps_links => return Ok(()),
        FileType::Symlink => return Err(RootError::Symlink(path.to_string()).into()),
        FileType::Directory if policy.make_way => {
            let checked =
                make_way::check_directory(root, directory, name, path.as_str(), policy, goes);
            return Ok(checked?);
        }
        FileType::Directory => "file: a directory has this name",
        _ => "file: a pipe, device or socket has this name",
    };
    Err(RootError::WrongKind(path.to_string(), wanted).into())
}

/// Renaming over another user's file would take it from that user.
pub(super) fn may_chown_to(owner: u32) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || user.as_raw() == owner
}

/// The file that `name` replaces.
fn replaced_by(directory: &OwnedFd, name: &str) -> Option<Stat> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(stat)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown};

    use super::*;
    use crate::protocol::wire::{Prefix, Resume};
    use crate::protocol::{Incoming, Mtime};

    impl PartFile {
        /// Puts something in the place of the open file that can't be written to a disk: a pipe.
        pub(in crate::protocol) fn lose_disk(&mut self) {
            let (_, pipe) = io::pipe().unwrap();
            self.file = File::from(OwnedFd::from(pipe));
        }
    }

    /// The names in a directory.
    fn names(dir: &tempfile::TempDir) -> Vec<std::ffi::OsString> {
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn nothing_is_resumed_from_what_was_thrown_away() {
        let (dir, root) = root();
        let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
        part.append(b"content").unwrap();
        part.throw_away();
        drop(part);
        assert_eq!(names(&dir), [""; 0]);
        let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
        part.append(b"content").unwrap();
        part.lose_disk();
        assert!(part.commit(&offer(7)).is_err());
        assert_eq!(names(&dir), [""; 0], "neither under its name nor to be resumed");
    }

    #[test]
    fn a_part_that_has_another_name_or_another_owner_is_not_written_to() {
        let (dir, root) = root();
        let is_root = rustix::process::geteuid().is_root();
        for is_anothers in [false, true] {
            let planted = dir.path().join(".file.tack-part");
            std::fs::write(&planted, "planted").unwrap();
            let kept = File::open(&planted).unwrap();
            if is_anothers && is_root {
                chown(&planted, Some(12345), None).unwrap();
            } else {
                std::fs::hard_link(&planted, dir.path().join(format!("other{is_anothers}")))
                    .unwrap();
            }
            let incoming =
                Incoming::open(&root, &path("file"), 9, None, &Arc::default()).unwrap();
            assert_eq!(incoming.resume, Resume::default(), "nothing is resumed");
            let mut part = incoming.store;
            part.begin().unwrap();
            part.append(b"secret").unwrap();
            part.commit(&offer(6)).unwrap();
            let file = dir.path().join("file").metadata().unwrap();
            let planted = kept.metadata().unwrap();
            assert_ne!(file.ino(), planted.ino());
            assert_eq!((planted.len(), file.uid()), (7, rustix::process::geteuid().as_raw()));
        }
    }

    #[test]
    fn a_file_that_has_changed_since_it_was_compared_is_not_called_equal() {
        let (dir, root) = root();
        let file = dir.path().join("file");
        std::fs::write(&file, "content").unwrap();
        let open = || Incoming::open(&root, &path("file"), 7, None, &Arc::default()).unwrap();
        let mut incoming = open();
        assert_eq!(incoming.resume.whole, Some(Digest::of(b"content")));
        incoming.store.keep_equal(&offer(7)).unwrap();
        drop(incoming);
        let mut incoming = open();
        // The kernel's clock for file times ticks every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::fs::write(&file, "another").unwrap();
        let equal = incoming.store.keep_equal(&offer(7));
        assert!(matches!(equal, Err(TransferError::BasisChanged)), "{equal:?}");
        drop(incoming);
        // Attributes are no content: another name of the file may have been given others.
        let mut incoming = open();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(&file, mode).unwrap();
        incoming.store.keep_equal(&offer(7)).unwrap();
    }

    #[test]
    fn the_old_owner_does_not_get_what_the_senders_owner_will_have() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may give files away");
            return;
        }
        let (dir, root) = root();
        let file = dir.path().join("file");
        for (owner, expected) in [(false, 12345), (true, 0)] {
            std::fs::write(&file, "old").unwrap();
            chown(&file, Some(12345), Some(12345)).unwrap();
            let policy = Policy { preserve: true, owner, ..Policy::default() };
            let mut part = PartFile::open(&root, &path("file"), &Arc::new(policy)).unwrap();
            part.append(b"new").unwrap();
            part.commit(&offer(3)).unwrap();
            assert_eq!(file.metadata().unwrap().uid(), expected);
        }
    }

    fn root() -> (tempfile::TempDir, Arc<Root>) {
        let dir = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::open(dir.path()).unwrap());
        (dir, root)
    }

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    fn offer(size: u64) -> Offer {
        Offer { size, modified: Mtime { seconds: 1_000_000, nanos: 5 }, mode: 0o755 }
    }

    #[test]
    fn content_has_no_final_name_before_it_is_committed() {
        let (dir, root) = root();
        let mut part = PartFile::open(&root, &path("d/file"), &Arc::default()).unwrap();
        part.append(b"content").unwrap();
        assert!(!dir.path().join("d/file").exists());
        part.commit(&offer(7)).unwrap();
        drop(part);
        let file = dir.path().join("d/file");
        assert_eq!(std::fs::read(&file).unwrap(), b"content");
        assert_eq!(std::fs::read_dir(dir.path().join("d")).unwrap().count(), 1);
        let modified = file.metadata().unwrap().modified().unwrap();
        let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(since, std::time::Duration::new(1_000_000, 5));
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
        assert_eq!(mode & 0o100, 0o100);
    }

    #[test]
    fn an_interrupted_transfer_leaves_its_length_and_digest() {
        let (_dir, root) = root();
        let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
        part.append(b"begin").unwrap();
        drop(part);
        let incoming = Incoming::open(&root, &path("file"), 10, None, &Arc::default()).unwrap();
        let prefix = Prefix { length: 5, digest: Digest::of(b"begin") };
        assert_eq!(incoming.resume, Resume { part: Some(prefix), ..Resume::default() });
        let shorter = {
            drop(incoming);
            Incoming::open(&root, &path("file"), 4, None, &Arc::default()).unwrap()
        };
        assert_eq!(shorter.resume.part, None, "a part longer than the file is no beginning");
    }

    #[test]
    fn appending_after_hashing_the_part_continues_it() {
        let (dir, root) = root();
        std::fs::write(dir.path().join(PartName::of("file")), "begin").unwrap();
        let mut incoming =
            Incoming::open(&root, &path("file"), 8, None, &Arc::default()).unwrap();
        incoming.store.append(b"end").unwrap();
        incoming.store.commit(&offer(8)).unwrap();
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"beginend");
    }

    #[test]
    fn a_file_of_the_same_size_is_offered_for_comparison() {
        let (dir, root) = root();
        std::fs::write(dir.path().join("file"), "same").unwrap();
        let incoming = Incoming::open(&root, &path("file"), 4, None, &Arc::default()).unwrap();
        assert_eq!(incoming.resume.whole, Some(Digest::of(b"same")));
        drop(incoming);
        let incoming = Incoming::open(&root, &path("file"), 5, None, &Arc::default()).unwrap();
        assert_eq!(incoming.resume.whole, None);
    }

    #[test]
    fn a_second_transfer_into_the_same_name_is_refused() {
        let (_dir, root) = root();
        let first = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
        let second = PartFile::open(&root, &path("file"), &Arc::default());
        assert!(matches!(second, Err(TransferError::Busy)));
        drop(first);
        assert!(PartFile::open(&root, &path("file"), &Arc::default()).is_ok());
    }

    #[test]
    fn a_file_that_turns_out_to_be_there_gets_no_part() {
        let (dir, root) = root();
        std::fs::write(dir.path().join("file"), "same").unwrap();
        let before = dir.path().metadata().unwrap();
        let open = || Incoming::open(&root, &path("file"), 4, None, &Arc::default()).unwrap();
        let mut incoming = open();
        incoming.store.discard().unwrap();
        incoming.store.keep_equal(&offer(4)).unwrap();
        drop(incoming);
        let after = dir.path().metadata().unwrap();
        assert_eq!(
            (before.mtime(), before.mtime_nsec()),
            (after.mtime(), after.mtime_nsec()),
            "nothing was made in the directory"
        );
        // Two may find out so, and one receives.
        let (mut first, mut second) = (open().store, open().store);
        first.begin().unwrap();
        assert!(matches!(second.begin(), Err(TransferError::Busy)));
    }

    #[test]
    fn a_part_file_that_was_not_written_to_disappears() {
        let (dir, root) = root();
        drop(PartFile::open(&root, &path("file"), &Arc::default()).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_place_of_the_part_file_is_not_written_through() {
        let (dir, root) = root();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let link = dir.path().join(PartName::of("file"));
        std::os::unix::fs::symlink(outside.path(), link).unwrap();
        assert!(PartFile::open(&root, &path("file"), &Arc::default()).is_err());
    }

    #[test]
    fn a_directory_in_place_of_the_file_is_reported_at_once() {
        let (dir, root) = root();
        std::fs::create_dir(dir.path().join("file")).unwrap();
        let error = PartFile::open(&root, &path("file"), &Arc::default()).unwrap_err();
        assert!(error.to_string().contains("a directory has this name"));
    }

    fn mode_of(path: &Path) -> u32 {
        MetadataExt::mode(&path.metadata().unwrap()) & 0o7777
    }

    #[test]
    fn nobody_else_may_read_what_is_not_complete() {
        let (dir, root) = root();
        let part = dir.path().join(PartName::of("file"));
        std::fs::write(&part, "from before").unwrap();
        let _open = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
        assert_eq!(mode_of(&part), 0o600);
    }

    #[test]
    fn a_mode_is_wider_neither_than_the_source_nor_than_what_is_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, root) = root();
        let file = dir.path().join("file");
        for (source, old, expected) in [
            (0o600, None, 0o600),
            (0o700, None, 0o700),
            (0o4777, None, 0o777 & !creation_mask()),
            (0o755, Some(0o600), 0o600),
            (0o600, Some(0o644), 0o600),
            (0o664, Some(0o666), 0o664),
        ] {
            let _ = std::fs::remove_file(&file);
            if let Some(old) = old {
                std::fs::write(&file, "old").unwrap();
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(old)).unwrap();
            }
            let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
            part.append(b"new").unwrap();
            part.commit(&Offer { mode: source, ..offer(3) }).unwrap();
            assert_eq!(mode_of(&file), expected, "{source:o} over {old:?}");
        }
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_owner() {
        let (dir, root) = root();
        let file = dir.path().join("file");
        std::fs::write(&file, "old").unwrap();
        if chown(&file, Some(12_345), Some(12_345)).is_err() {
            eprintln!("skipped: only root may give files away");
            return;
        }
        let mut part = PartFile::open(&root, &path("file"), &Arc::default()).unwrap();
        part.append(b"new").unwrap();
        part.commit(&offer(3)).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), (12_345, 12_345));
        assert_eq!(std::fs::read(file).unwrap(), b"new");
    }

    #[test]
    fn zeros_become_a_hole_wherever_the_pieces_of_a_file_begin() {
        let (dir, root) = root();
        let policy = Arc::new(Policy { preserve: true, ..Policy::default() });
        let mut content = vec![0; 8_000_000];
        content[..10].fill(1);
        content[4_000_000..4_000_100].fill(1);
        let mut part = PartFile::open(&root, &path("file"), &policy).unwrap();
        part.append(&content[..33]).unwrap();
        // None of them begins or ends where a block does.
        for piece in content[33..].chunks(20_000) {
            part.append(piece).unwrap();
        }
        part.commit(&offer(content.len() as u64)).unwrap();
        let file = dir.path().join("file");
        assert!(std::fs::read(&file).unwrap() == content);
        let stored = file.metadata().unwrap().blocks() * 512;
        // A file system may store more than a block at a time.
        assert!(stored < 1_000_000, "{stored} bytes are stored of 110");
    }

    #[test]
    fn links_and_pipes_are_not_replaced() {
        let (dir, root) = root();
        std::os::unix::fs::symlink("elsewhere", dir.path().join("link")).unwrap();
        let fifo = dir.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for name in ["link", "fifo"] {
            let error = PartFile::open(&root, &path(name), &Arc::default()).unwrap_err();
            assert!(matches!(error, TransferError::Root(_)), "{name}: {error}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn temporary_names_fit_even_for_the_longest_names() {
        assert_eq!(PartName::of("a"), ".a.tack-part");
        let long = PartName::of(&"x".repeat(255));
        assert!(long.len() <= 255 && PartName::is_reserved(&long));
        assert_ne!(long, PartName::of(&"y".repeat(255)));
    }
}
