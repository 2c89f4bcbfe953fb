//! The temporary file that content is kept in until it is verified.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Gid, Mode, Stat, Timespec, Timestamps, Uid,
};

use super::acl;
use super::creation_mask::creation_mask;
use super::disk::has_same_content;
use super::edit::Edited;
use super::make_way::{self, MadeWay};
use super::owner_writes;
use super::part_name::PartName;
use super::part_opening::{open_existing, open_or_create, still_named};
use super::place::{Place, may_chown_to};
use super::policy::Policy;
use super::receiver::Store;
use super::replace;
use super::root::{RootError, open_file};
use super::sparse::write_sparse;
use super::wire::{Mtime, Offer, UNKNOWN_SIZE};
use super::{Comparing, Hasher, TransferError, WriteLimit};

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

impl PartFile {
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

/// The file that `name` replaces.
fn replaced_by(directory: &OwnedFd, name: &str) -> Option<Stat> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(stat)
}

#[cfg(test)]
mod tests;
