//! Opens and locks a part: of one transfer at a time, of this user alone, and also if a transfer that was killed has left
//! it with permissions that close it.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::TransferError;
use super::owner_writes;
use super::root::RootError;

/// How often to start over when the part is renamed away between opening and locking it.
const LOCK_ATTEMPTS: usize = 8;

/// What has come of an attempt to open a part.
enum Opened {
    Part(File),
    Missing,
    /// It was renamed or removed before it was locked, because the transfer that held it has just ended; or it was not this
    /// user's alone, and has been removed.
    Gone,
}

/// Opens and locks `part_name`, if there is one. Whoever owns a file, or has another name for it, could read and change
/// what is received into it: such a one is removed.
pub(super) fn open_existing(
    directory: &OwnedFd,
    part_name: &str,
) -> Result<Option<File>, TransferError> {
    for _ in 0..LOCK_ATTEMPTS {
        match try_open(directory, part_name)? {
            Opened::Part(file) => return Ok(Some(file)),
            Opened::Missing => return Ok(None),
            Opened::Gone => {}
        }
    }
    Err(TransferError::Busy)
}

/// The same; creates it if it does not exist. The directory may be opened to its owner where it `opens`.
pub(super) fn open_or_create(
    directory: &OwnedFd,
    part_name: &str,
    opens: bool,
) -> Result<File, TransferError> {
    let create = || open(directory, part_name, OFlags::CREATE | OFlags::EXCL);
    for _ in 0..LOCK_ATTEMPTS {
        let created = if opens { owner_writes::change(directory, create) } else { create() };
        let opened = match created {
            // Some file systems give what is created to somebody else.
            Ok(file) => take(directory, part_name, File::from(file), true)?,
            Err(Errno::EXIST) => try_open(directory, part_name)?,
            Err(error) => return Err(TransferError::writing(error.into())),
        };
        if let Opened::Part(file) = opened {
            return Ok(file);
        }
    }
    Err(TransferError::Busy)
}

fn open(directory: &OwnedFd, part_name: &str, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(directory, part_name, flags | more, Mode::from_raw_mode(0o600))
}

fn try_open(directory: &OwnedFd, part_name: &str) -> Result<Opened, TransferError> {
    let opened = match open(directory, part_name, OFlags::empty()) {
        Err(Errno::ACCESS) => match open_to_owner(directory, part_name)? {
            // Another one may have its name by now.
            Some(number) => open(directory, part_name, OFlags::empty()).and_then(|file| {
                let is_same = device_and_number(&rustix::fs::fstat(&file)?) == number;
                if is_same { Ok(file) } else { Err(Errno::NOENT) }
            }),
            None => return Ok(Opened::Gone),
        },
        opened => opened,
    };
    match opened {
        Ok(file) => take(directory, part_name, File::from(file), false),
        Err(Errno::NOENT) => Ok(Opened::Missing),
        Err(error) => Err(TransferError::writing(error.into())),
    }
}

/// Locks a part, and makes sure that it is this user's alone.
fn take(
    directory: &OwnedFd,
    part_name: &str,
    file: File,
    is_new: bool,
) -> Result<Opened, TransferError> {
    let stat = rustix::fs::fstat(&file).map_err(|e| TransferError::reading(e.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(RootError::WrongKind(part_name.to_owned(), "regular file").into());
    }
    if !lock(directory, part_name, &file)? {
        return Ok(Opened::Gone);
    }
    if !is_own(&stat) && !is_new {
        let remove = || rustix::fs::unlinkat(directory, part_name, AtFlags::empty());
        owner_writes::change(directory, remove)
            .map_err(|e| TransferError::writing(e.into()))?;
        return Ok(Opened::Gone);
    }
    // Only its owner may read it until it has the final mode.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o600))
        .map_err(|e| TransferError::writing(e.into()))?;
    Ok(Opened::Part(file))
}

/// Locks a part against other transfers. Not so if it is no part any more: the transfer that held the lock may have given
/// the file its final name.
fn lock(directory: &OwnedFd, part_name: &str, file: &File) -> Result<bool, TransferError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(still_named(directory, part_name, file)),
        Err(Errno::WOULDBLOCK) => Err(TransferError::Busy),
        Err(error) => Err(TransferError::writing(error.into())),
    }
}

/// Gives a part back to its owner that its permissions close, and says which it is: a transfer was killed after it had
/// given the part the permissions of the file, and before the final name. `None` if the part has gone meanwhile.
fn open_to_owner(
    directory: &OwnedFd,
    part_name: &str,
) -> Result<Option<(u64, u64)>, TransferError> {
    let failed = |error: Errno| TransferError::writing(error.into());
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // Its lock is taken before it is changed, so that a transfer that is running commits what it has made. Where not
    // even its owner may read it, only its name is left to change it by.
    let readable = match rustix::fs::openat(directory, part_name, flags, Mode::empty()) {
        Ok(file) => Some(File::from(file)),
        Err(Errno::ACCESS) => None,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if let Some(file) = &readable
        && !lock(directory, part_name, file)?
    {
        return Ok(None);
    }
    let stat = match &readable {
        Some(file) => rustix::fs::fstat(file),
        None => rustix::fs::statat(directory, part_name, AtFlags::SYMLINK_NOFOLLOW),
    };
    let stat = stat.map_err(failed)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || !is_own(&stat) {
        return Err(failed(Errno::ACCESS));
    }
    let mode = Mode::from_raw_mode(0o600);
    let changed = match &readable {
        Some(file) => rustix::fs::fchmod(file, mode),
        // Follows a link that somebody has put there since: the file behind it then permits its owner alone.
        None => rustix::fs::chmodat(directory, part_name, mode, AtFlags::empty()),
    };
    changed.map_err(failed)?;
    Ok(Some(device_and_number(&stat)))
}

/// Whether a part is this user's, and has no other name.
fn is_own(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink <= 1
}

fn device_and_number(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

pub(super) fn still_named(directory: &OwnedFd, name: &str, file: &File) -> bool {
    let named = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    match (named, rustix::fs::fstat(file)) {
        (Ok(named), Ok(open)) => device_and_number(&named) == device_and_number(&open),
        _ => false,
    }
}
