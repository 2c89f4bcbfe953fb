//! What changes a tree beside the content of files: removals, links, attributes of directories.
//!
//! Edits come behind the files: links name them, and whatever happens in a directory changes its
//! time. No path leads through a link, and the target of a link is only text.

use serde::{Deserialize, Serialize};

use super::part_name::PartName;
use super::wire::Mtime;
use super::{Attributes, WirePath};

/// Longest target of a symbolic link, in bytes: what Linux allows.
const MAX_TARGET: usize = 4095;
/// What of a directory's permissions is kept: those for owner, group and others, that entries take
/// over the group, and that only owners remove entries.
pub(super) const DIRECTORY_MODE: u32 = 0o3777;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edit {
    /// Removes a file or a link.
    Remove(WirePath),
    /// Removes what is left of an unfinished transfer of a file, which has this path.
    RemovePart(WirePath),
    /// Removes a directory in which nothing is left.
    RemoveDirectory(WirePath),
    /// Makes a symbolic link.
    Symlink(WirePath, LinkTarget, Mtime),
    /// Gives a file, the second, another name, the first.
    HardLink(WirePath, WirePath),
    /// Gives a directory permissions and a time of modification.
    Directory(WirePath, u32, Mtime),
    /// Gives a file, directory or link an owner or extended attributes.
    Attributes(WirePath, Attributes),
}

/// Kinds of changes, as users are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind {
    /// A file, link or directory is removed.
    Removal,
    /// A symbolic or hard link is made.
    Link,
    /// Something gets its attributes.
    Attributes,
}

/// What has come of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edited {
    /// It is done.
    Done,
    /// Everything was as it should be.
    Unchanged,
    /// What is there stays: a directory that is not empty, what the policy protects, or an owner that the receiver
    /// may not change.
    Kept,
}

/// The text of a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkTarget(String);

impl LinkTarget {
    /// Checks `text`, which may lead anywhere: nothing follows it.
    pub fn new(text: impl Into<String>) -> Result<Self, &'static str> {
        let text = text.into();
        if text.is_empty() || text.len() > MAX_TARGET || text.contains('\0') {
            return Err("no link can have this target");
        }
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<LinkTarget> for String {
    fn from(target: LinkTarget) -> Self {
        target.0
    }
}

impl TryFrom<String> for LinkTarget {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl Edit {
    /// What kind of change it is.
    pub fn kind(&self) -> EditKind {
        match self {
            Self::Remove(_) | Self::RemovePart(_) | Self::RemoveDirectory(_) => {
                EditKind::Removal
            }
            Self::Symlink(..) | Self::HardLink(..) => EditKind::Link,
            Self::Directory(..) | Self::Attributes(..) => EditKind::Attributes,
        }
    }

    /// What it changes, as users are told.
    pub fn name(&self) -> String {
        match self {
            Self::RemovePart(path) => {
                let (directory, name) = path.split_last().unwrap_or_default();
                let slash = if directory.is_root() { "" } else { "/" };
                format!("{}{slash}{}", directory.as_str(), PartName::of(name))
            }
            edit => edit.path().as_str().to_owned(),
        }
    }

    /// What it changes; of a part of a transfer, the file that it was to become.
    pub fn path(&self) -> &WirePath {
        match self {
            Self::Remove(path)
            | Self::RemovePart(path)
            | Self::RemoveDirectory(path)
            | Self::Symlink(path, ..)
            | Self::HardLink(path, _)
            | Self::Directory(path, ..)
            | Self::Attributes(path, _) => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_that_no_link_can_have_are_refused() {
        for json in ["\"\"", "\"a\\u0000b\""] {
            assert!(serde_json::from_str::<LinkTarget>(json).is_err(), "{json}");
        }
        assert!(LinkTarget::new("x".repeat(4096)).is_err());
    }
}
