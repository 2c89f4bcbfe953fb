//! Where a received file goes, and whether it may replace what is there: known before anything is transferred.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType};

use super::make_way::{self, Goes};
use super::part_name::PartName;
use super::policy::Policy;
use super::replace;
use super::root::{Root, RootError};
use super::{TransferError, WirePath};

/// Where a file goes, in a directory that is there.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) final_name: String,
    pub(super) part_name: String,
    pub(super) path: WirePath,
    pub(super) policy: Arc<Policy>,
    /// Where what it replaces is kept.
    pub(super) backup: Option<String>,
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
