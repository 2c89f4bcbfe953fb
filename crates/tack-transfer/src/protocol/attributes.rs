//! Owners and extended attributes, which are transferred on request.
//!
//! Of extended attributes there are those of the namespace `user.` alone, whoever runs the receiver: the others
//! (`security.`, `trusted.`, `system.`) grant rights, and no peer may set them. Owners are numbers, and are set
//! where the receiver may: by root, or to what is its own. A file never keeps setuid or setgid with another owner.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use data_encoding::BASE64;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::edit::Edited;
use super::replace::{entry_at, kind_of};
use super::root::{Root, RootError, open_directory, open_file};
use super::{TransferError, WirePath};

/// The only namespace that is read or written.
const NAMESPACE: &str = "user.";
/// Longest name, in bytes: Linux allows no longer one.
const MAX_NAME: usize = 255;
/// Extended attributes of one file, at most.
const MAX_XATTRS: usize = 64;
/// Bytes of their names and values together, at most: in JSON they fit into one message, behind others.
const MAX_BYTES: usize = 16 * 1024;
/// Longest list of names that Linux gives out.
const MAX_LIST: usize = 64 * 1024;
/// The set-user-ID and set-group-ID bits.
const SET_ID: u32 = 0o6000;
/// The owner's right to write, which setting extended attributes takes.
const OWNER_WRITES: u32 = 0o200;

/// What of attributes is transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// Owner and group.
    pub owner: bool,
    /// Extended attributes.
    pub xattrs: bool,
}

impl Wanted {
    /// Whether anything is.
    pub fn anything(self) -> bool {
        self.owner || self.xattrs
    }
}

/// Attributes of a file, directory or link; those that are left out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// Owner and group.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
    /// All extended attributes of the namespace `user.`.
    #[serde(skip_serializing_if = "Option::is_none")]
    xattrs: Option<Xattrs>,
}

/// Numeric ids of owner and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
struct Owner(u32, u32);

impl TryFrom<(u32, u32)> for Owner {
    type Error = &'static str;
    fn try_from((user, group): (u32, u32)) -> Result<Self, Self::Error> {
        // chown(2) takes it for "leave it".
        if user == u32::MAX || group == u32::MAX {
            return Err("no owner has this id");
        }
        Ok(Self(user, group))
    }
}

impl From<Owner> for (u32, u32) {
    fn from(Owner(user, group): Owner) -> Self {
        (user, group)
    }
}

/// Extended attributes by their names, the values in base64 on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
struct Xattrs(BTreeMap<String, Vec<u8>>);

impl Xattrs {
    fn check(self) -> Result<Self, &'static str> {
        let is_good = |name: &String| {
            let rest = name.strip_prefix(NAMESPACE).unwrap_or_default();
            !rest.is_empty() && name.len() <= MAX_NAME && !name.contains('\0')
        };
        if !self.0.keys().all(is_good) {
            return Err("an extended attribute with a name outside the namespace user.");
        }
        let bytes: usize = self.0.iter().map(|(name, value)| name.len() + value.len()).sum();
        if self.0.len() > MAX_XATTRS || bytes > MAX_BYTES {
            return Err("more than 64 extended attributes, or more than 16 KiB of them");
        }
        Ok(self)
    }
}

impl TryFrom<BTreeMap<String, String>> for Xattrs {
    type Error = &'static str;
    fn try_from(texts: BTreeMap<String, String>) -> Result<Self, Self::Error> {
        let mut xattrs = BTreeMap::new();
        for (name, text) in texts {
            let value = BASE64.decode(text.as_bytes()).map_err(|_| "a value is not base64")?;
            xattrs.insert(name, value);
        }
        Self(xattrs).check()
    }
}

impl From<Xattrs> for BTreeMap<String, String> {
    fn from(Xattrs(xattrs): Xattrs) -> Self {
        xattrs.into_iter().map(|(name, value)| (name, BASE64.encode(&value))).collect()
    }
}

impl Attributes {
    /// The same without what is not `wanted`.
    #[must_use]
    pub fn only(self, wanted: Wanted) -> Self {
        let owner = self.owner.filter(|_| wanted.owner);
        Self { owner, xattrs: self.xattrs.filter(|_| wanted.xattrs) }
    }

    /// Reads what is `wanted` of the entry at `path`.
    pub fn read(root: &Root, path: &WirePath, wanted: Wanted) -> Result<Self, TransferError> {
        let Some((directory, name)) = root.place(path)? else {
            return Self::of_open(&root.directory(path)?, wanted);
        };
        let entry = entry_at(&directory, &name).map_err(TransferError::reading)?;
        match entry.as_ref().map(kind_of) {
            None => Err(RootError::NotFound(path.to_string()).into()),
            Some(FileType::RegularFile) => {
                Self::of_open(&open_file(&directory, &name)?, wanted)
            }
            Some(FileType::Directory) => {
                Self::of_open(&open_directory(&directory, &name)?, wanted)
            }
            // A link has an owner, and no attributes of the namespace user.
            Some(FileType::Symlink) => {
                let owner = entry.as_ref().map(|stat| Owner(stat.st_uid, stat.st_gid));
                Ok(Self { owner: owner.filter(|_| wanted.owner), xattrs: None })
            }
            Some(_) => Err(RootError::WrongKind(path.to_string(), "file or directory").into()),
        }
    }

    /// Reads what is `wanted` of an open file or directory.
    pub fn of_open(file: &impl AsFd, wanted: Wanted) -> Result<Self, TransferError> {
        let stat = rustix::fs::fstat(file).map_err(reading)?;
        let owner = wanted.owner.then_some(Owner(stat.st_uid, stat.st_gid));
        let xattrs = if wanted.xattrs { Some(read_xattrs(file)?) } else { None };
        Ok(Self { owner, xattrs })
    }

    /// Gives an open file or directory these attributes. [`Edited::Kept`] means that the owner stays, which
    /// this process may not change. With `keeps_owner` it stays in any case.
    pub fn set(&self, file: &impl AsFd, keeps_owner: bool) -> Result<Edited, TransferError> {
        // Before the owner, who may no longer be this user then.
        let is_new = match &self.xattrs {
            Some(xattrs) => set_xattrs(file, xattrs)?,
            None => false,
        };
        let stat = rustix::fs::fstat(file).map_err(writing)?;
        let Some(owner) = self.change_of(&stat).filter(|_| !keeps_owner) else {
            return Ok(if is_new { Edited::Done } else { Edited::Unchanged });
        };
        if !may_give(owner) {
            return Ok(Edited::Kept);
        }
        let (user, group) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
        rustix::fs::fchown(file, Some(user), Some(group)).map_err(writing)?;
        // The system takes these bits from most files, but not from all.
        let mode = rustix::fs::fstat(file).map_err(writing)?.st_mode & 0o7777;
        if mode & SET_ID != 0 {
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode & !SET_ID)).map_err(writing)?;
        }
        Ok(Edited::Done)
    }

    /// Gives the link `name` its owner.
    pub fn set_link(
        &self,
        directory: &OwnedFd,
        name: &str,
        stat: &Stat,
    ) -> Result<Edited, TransferError> {
        let Some(owner) = self.change_of(stat) else { return Ok(Edited::Unchanged) };
        if !may_give(owner) {
            return Ok(Edited::Kept);
        }
        let (user, group) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(directory, name, Some(user), Some(group), flags)
            .map_err(writing)?;
        Ok(Edited::Done)
    }

    /// The owner, if another one is there.
    fn change_of(&self, stat: &Stat) -> Option<Owner> {
        self.owner.filter(|owner| *owner != Owner(stat.st_uid, stat.st_gid))
    }
}

/// Whether this process may give a file away to these: root to all, others to themselves and their groups.
fn may_give(Owner(user, group): Owner) -> bool {
    let own = rustix::process::geteuid();
    if own.is_root() {
        return true;
    }
    let groups = rustix::process::getgroups().unwrap_or_default();
    let is_member = |id: Gid| groups.contains(&id) || rustix::process::getegid() == id;
    own.as_raw() == user && is_member(Gid::from_raw(group))
}

/// The names of a file's attributes in the namespace; none on a file system that has no attributes.
fn names_of(file: &impl AsFd) -> Result<BTreeSet<String>, TransferError> {
    let mut list = vec![0; MAX_LIST];
    let length = match rustix::fs::flistxattr(file, &mut list[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => 0,
        Err(error) => return Err(reading(error)),
    };
    let names = list.get(..length).unwrap_or_default().split(|byte| *byte == 0);
    let names = names.filter(|name| name.starts_with(NAMESPACE.as_bytes()));
    let text = |name: &[u8]| String::from_utf8(name.to_vec());
    names.map(text).collect::<Result<_, _>>().map_err(|_| {
        TransferError::Skipped("the name of an extended attribute is not UTF-8".to_owned())
    })
}

fn read_xattrs(file: &impl AsFd) -> Result<Xattrs, TransferError> {
    let (mut xattrs, mut buffer) = (BTreeMap::new(), vec![0; MAX_BYTES]);
    for name in names_of(file)? {
        match rustix::fs::fgetxattr(file, name.as_str(), &mut buffer[..]) {
            Ok(length) => {
                let value = buffer.get(..length).unwrap_or_default().to_vec();
                drop(xattrs.insert(name, value));
            }
            // Removed since it was listed.
            Err(Errno::NODATA) => {}
            Err(Errno::RANGE) => {
                let text = "its extended attributes are more than 16 KiB".to_owned();
                return Err(TransferError::Skipped(text));
            }
            Err(error) => return Err(reading(error)),
        }
    }
    Xattrs(xattrs).check().map_err(|reason| TransferError::Skipped(reason.to_owned()))
}

/// Makes a file's attributes these and no others. Whether anything had to be changed.
fn set_xattrs(file: &impl AsFd, Xattrs(wanted): &Xattrs) -> Result<bool, TransferError> {
    let names = names_of(file)?;
    let mut current = vec![0; MAX_BYTES + 1];
    let mut is_there = |name: &str, value: &[u8]| {
        let length = rustix::fs::fgetxattr(file, name, &mut current[..]);
        length.is_ok_and(|length| current.get(..length) == Some(value))
    };
    let missing: Vec<_> =
        wanted.iter().filter(|(name, value)| !is_there(name, value)).collect();
    let extraneous: Vec<_> = names.iter().filter(|name| !wanted.contains_key(*name)).collect();
    if missing.is_empty() && extraneous.is_empty() {
        return Ok(false);
    }
    let write = || -> rustix::io::Result<()> {
        for (name, value) in &missing {
            rustix::fs::fsetxattr(file, name.as_str(), value, XattrFlags::empty())?;
        }
        extraneous.iter().try_for_each(|name| rustix::fs::fremovexattr(file, name.as_str()))
    };
    match write() {
        // Its owner may not write a file that is read-only, and may let itself.
        Err(Errno::ACCESS | Errno::PERM) => as_writable(file, write),
        written => written,
    }
    .map_err(writing)?;
    Ok(true)
}

fn as_writable(
    file: &impl AsFd,
    write: impl Fn() -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let mode = rustix::fs::fstat(file)?.st_mode & 0o7777;
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode | OWNER_WRITES))?;
    let written = write();
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    written
}

fn reading(error: Errno) -> TransferError {
    TransferError::reading(io::Error::from(error))
}

fn writing(error: Errno) -> TransferError {
    TransferError::writing(io::Error::from(error))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    const ALL: Wanted = Wanted { owner: true, xattrs: true };

    fn decode(json: &str) -> Result<Attributes, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// A file in the current directory, whose file system has extended attributes where `/tmp` may not.
    fn file() -> tempfile::NamedTempFile {
        tempfile::NamedTempFile::new_in(".").unwrap()
    }

    fn with(name: &str, value: &[u8]) -> Attributes {
        let xattrs = BTreeMap::from([(name.to_owned(), value.to_vec())]);
        Attributes { owner: None, xattrs: Some(Xattrs(xattrs)) }
    }

    #[test]
    fn what_grants_rights_is_refused_before_it_is_looked_at() {
        for name in
            ["security.capability", "trusted.x", "system.posix_acl_access", "user.", "x"]
        {
            assert!(decode(&format!("{{\"xattrs\":{{\"{name}\":\"\"}}}}")).is_err(), "{name}");
        }
        assert!(decode("{\"xattrs\":{\"user.a\":\"AA==\"}}").is_ok());
        assert!(decode("{\"xattrs\":{\"user.a\":\"?\"}}").is_err());
        assert!(decode(&format!("{{\"owner\":[{},0]}}", u32::MAX)).is_err());
    }

    #[test]
    fn nothing_is_left_of_what_is_not_wanted() {
        let both = || decode("{\"owner\":[1,2],\"xattrs\":{\"user.a\":\"\"}}").unwrap();
        assert_eq!(both().only(ALL), both());
        let owner = both().only(Wanted { owner: true, xattrs: false });
        assert_eq!(owner, decode("{\"owner\":[1,2]}").unwrap());
        let xattrs = both().only(Wanted { owner: false, xattrs: true });
        assert_eq!(xattrs, decode("{\"xattrs\":{\"user.a\":\"\"}}").unwrap());
    }

    #[test]
    fn count_and_size_are_bounded() {
        let many = |count: usize| {
            let entries: Vec<_> = (0..count).map(|n| format!("\"user.{n}\":\"\"")).collect();
            decode(&format!("{{\"xattrs\":{{{}}}}}", entries.join(",")))
        };
        assert!(many(MAX_XATTRS).is_ok() && many(MAX_XATTRS + 1).is_err());
        let large = |length| {
            let value = BASE64.encode(&vec![0; length]);
            decode(&format!("{{\"xattrs\":{{\"user.a\":\"{value}\"}}}}"))
        };
        assert!(large(MAX_BYTES - 6).is_ok() && large(MAX_BYTES - 5).is_err());
        let full = serde_json::to_string(&large(MAX_BYTES - 6).unwrap()).unwrap();
        assert!(full.len() < crate::protocol::MAX_CONTROL / 2);
    }

    #[test]
    fn attributes_are_made_those_of_the_sender_and_no_others() {
        let (from, to) = (file(), file());
        let other = with("user.other", b"gone").set(to.as_file(), false);
        if let Err(TransferError::Local { cause, .. }) = &other
            && cause.kind() == io::ErrorKind::Unsupported
        {
            eprintln!("skipped: no extended attributes here");
            return;
        }
        other.unwrap();
        with("user.a", b"\0binary\xff").set(from.as_file(), false).unwrap();
        let read = Attributes::of_open(from.as_file(), ALL).unwrap();
        let json = serde_json::to_string(&read).unwrap();
        let arrived = decode(&json).unwrap();
        // Read-only, as files that are kept so often are.
        std::fs::set_permissions(to.path(), PermissionsExt::from_mode(0o444)).unwrap();
        assert_eq!(arrived.set(to.as_file(), false).unwrap(), Edited::Done);
        assert_eq!(arrived.set(to.as_file(), false).unwrap(), Edited::Unchanged);
        assert_eq!(Attributes::of_open(to.as_file(), ALL).unwrap(), read);
        assert_eq!(to.path().metadata().unwrap().mode() & 0o7777, 0o444);
    }

    #[test]
    fn another_owner_does_not_get_setuid_or_setgid() {
        let file = file();
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may give files away");
            return;
        }
        // Without the group's execute bit, the system keeps setgid.
        for mode in [0o6755, 0o6644] {
            std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
            let user = 1000 + mode;
            let owner = decode(&format!("{{\"owner\":[{user},77]}}")).unwrap();
            assert_eq!(owner.set(file.as_file(), true).unwrap(), Edited::Unchanged);
            assert_eq!(owner.set(file.as_file(), false).unwrap(), Edited::Done);
            let stat = File::open(file.path()).unwrap().metadata().unwrap();
            assert_eq!((stat.uid(), stat.gid()), (user, 77));
            assert_eq!(stat.mode() & 0o7777, mode & 0o777);
        }
    }
}
