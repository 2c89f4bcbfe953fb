//! What permissions are worth where a file has an access control list (acl(5)).
//!
//! Lists are not transferred. With one, the group's bits of a mode are its mask, the most that anybody named in the
//! list may do, and not what the file's group may: a copy with that mode would be open to a group that the file is
//! closed to.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::{Errno, Result};

/// The extended attribute that has the list.
const NAME: &str = "system.posix_acl_access";
/// Longest list that is looked at, in bytes.
const MAX_LENGTH: usize = 4096;
/// The head of a list: its version, little-endian.
const VERSION: [u8; 4] = [2, 0, 0, 0];
/// Bytes of an entry: tag, permissions and id, little-endian.
const ENTRY: usize = 8;
/// The tag of the entry of the file's group (ACL_GROUP_OBJ).
const OWN_GROUP: [u8; 2] = [4, 0];
const GROUP: u32 = 0o070;

/// The permissions of what is open, no wider than they are without its list.
pub(super) fn mode_of(file: &impl AsFd, mode: u32) -> u32 {
    narrowed(mode, |list| rustix::fs::fgetxattr(file, NAME, list))
}

/// The same for what is at `path`.
pub(super) fn mode_at(path: &Path, mode: u32) -> u32 {
    narrowed(mode, |list| rustix::fs::getxattr(path, NAME, list))
}

/// Whether a list could make a difference: what others may do, the group may as well.
pub(super) fn may_matter(mode: u32) -> bool {
    (mode & GROUP) >> 3 & !mode != 0
}

fn narrowed(mode: u32, read: impl FnOnce(&mut [u8]) -> Result<usize>) -> u32 {
    if !may_matter(mode) {
        return mode;
    }
    let mut list = [0; MAX_LENGTH];
    let own = match read(&mut list) {
        Ok(length) => list.get(..length).and_then(own_group),
        // The file has no list, or its file system keeps none.
        Err(Errno::NODATA | Errno::NOTSUP) => return mode,
        Err(_) => None,
    };
    mode & (!GROUP | own.unwrap_or(0) << 3)
}

/// What a list lets the file's group do.
fn own_group(list: &[u8]) -> Option<u32> {
    let entries = list.strip_prefix(&VERSION)?;
    entries.chunks_exact(ENTRY).find_map(|entry| match entry {
        [low, high, permissions, ..] if [*low, *high] == OWN_GROUP => {
            Some(u32::from(*permissions) & 0o7)
        }
        _ => None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A list that lets a user of another name read and write, and the group `own`.
    fn list(own: u8) -> Vec<u8> {
        let entry = |tag: u8, permissions: u8, id: u32| {
            [&[tag, 0, permissions, 0], &id.to_le_bytes()[..]].concat()
        };
        let none = u32::MAX;
        let entries = [
            entry(1, 6, none),
            entry(2, 6, 12345),
            entry(4, own, none),
            entry(16, 6, none),
            entry(32, 0, none),
        ];
        [&VERSION[..], &entries.concat()].concat()
    }

    /// Gives a file a list that lets its group do this; false where the file system keeps none.
    pub(in crate::protocol) fn give_list(file: &File, own: u8) -> bool {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::fsetxattr(file, NAME, &list(own), flags).is_ok()
    }

    #[test]
    fn the_mask_of_a_list_is_not_what_the_group_may_do() {
        let of = |mode, list: Vec<u8>| {
            narrowed(mode, |buffer| {
                buffer[..list.len()].copy_from_slice(&list);
                Ok(list.len())
            })
        };
        assert_eq!(of(0o660, list(0)), 0o600);
        assert_eq!(of(0o660, list(4)), 0o640);
        assert_eq!(of(0o640, list(6)), 0o640, "the mask is the most");
        assert_eq!(of(0o1664, list(0)), 0o1604);
        assert_eq!(of(0o644, list(0)), 0o644, "others may read it as well");
        assert_eq!(of(0o660, vec![9; 12]), 0o600, "what is not understood gives nothing");
        assert_eq!(narrowed(0o660, |_| Err(Errno::NODATA)), 0o660);
        assert_eq!(narrowed(0o660, |_| Err(Errno::RANGE)), 0o600);
    }

    #[test]
    fn the_systems_lists_are_read() {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o640)).unwrap();
        assert_eq!(mode_of(file.as_file(), 0o640), 0o640);
        if !give_list(file.as_file(), 0) {
            eprintln!("skipped: no access control lists here");
            return;
        }
        let mode = file.as_file().metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o660);
        assert_eq!(mode_of(file.as_file(), mode), 0o600);
        assert_eq!(mode_at(file.path(), mode), 0o600);
    }
}
