//! What a tree holds, as it crosses the wire: directories with the files in them, many in one
//! message.

use serde::{Deserialize, Serialize};

use super::wire::{Mtime, Offer};
use super::{LinkTarget, NameError, WirePath};

/// Largest file that travels in bundles with others, in bytes. Larger ones have a stream of
/// their own and can be resumed.
pub const SMALL_FILE: u64 = 128 * 1024;
/// Most files in one request.
pub const MAX_FILES: usize = 256;
/// Bytes of small files in one request, after which the next request begins.
const MAX_BYTES: u64 = 2 << 20;
/// Bytes of JSON after which the next message begins. The longest path and its permissions still
/// fit into [`MAX_CONTROL`](super::wire::MAX_CONTROL) behind it, and so does a digest for each file.
const MAX_JSON: usize = 14 * 1024;
/// What a file or link takes beside its name, and a directory beside its path and permissions, at most.
const ENTRY_JSON: usize = 72;
/// What a time of a directory or link takes beside that, and the number of a file with several names.
const EXTRA_JSON: usize = 60;

/// A directory and files in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The directory, relative to what is transferred.
    pub directory: WirePath,
    /// Permissions of the directory, behind those of the directories that it lies in.
    pub modes: Vec<u32>,
    /// Files in it.
    pub files: Vec<FileEntry>,
    /// When the directory was last modified; in listings that ask for links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Mtime>,
    /// Symbolic links in it, their targets and times; in listings that ask for links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<(WirePath, LinkTarget, Mtime)>,
    /// Positions of files that have several names, and numbers: the same for names of the same file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inodes: Vec<(u32, u64)>,
}

/// A file in a directory: name, size in bytes, seconds and nanoseconds of the time of
/// modification, permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry(WirePath, u64, i64, u32, u32, #[serde(skip)] Option<u64>);

impl FileEntry {
    /// The file `name` that is offered.
    pub fn new(name: WirePath, offer: Offer) -> Self {
        let Mtime { seconds, nanos } = offer.modified;
        Self(name, offer.size, seconds, nanos, offer.mode, None)
    }

    /// The same, one of several names of the file with this number.
    #[must_use]
    pub fn with_inode(mut self, inode: Option<u64>) -> Self {
        self.5 = inode;
        self
    }

    /// The number of the file, if it has several names and this machine has listed it.
    pub fn inode(&self) -> Option<u64> {
        self.5
    }

    /// The name, relative to the directory.
    pub fn name(&self) -> &WirePath {
        &self.0
    }

    /// What is offered.
    pub fn offer(&self) -> Offer {
        let Self(_, size, seconds, nanos, mode, _) = *self;
        Offer { size, modified: Mtime { seconds, nanos }, mode }
    }
}

impl Group {
    /// A directory that nothing is listed of yet.
    pub fn new(directory: WirePath, modes: Vec<u32>) -> Self {
        Self { directory, modes, ..Self::default() }
    }

    /// The number of the file at a position, if it has several names.
    pub fn inode(&self, position: usize) -> Option<u64> {
        let found = self.inodes.iter().find(|(at, _)| *at as usize == position);
        found.map(|(_, inode)| *inode)
    }

    /// The same directory, with nothing in it.
    fn again(&self) -> Self {
        Self {
            modified: self.modified,
            ..Self::new(self.directory.clone(), self.modes.clone())
        }
    }

    /// The paths of its files below `base`, and what is offered.
    pub fn paths(
        &self,
        base: &WirePath,
    ) -> impl Iterator<Item = Result<(WirePath, Offer), NameError>> {
        let directory = base.join(&self.directory);
        self.files.iter().map(move |file| {
            let directory = directory.as_ref().map_err(Clone::clone)?;
            Ok((directory.join(file.name())?, file.offer()))
        })
    }
}

/// Puts entries together into messages.
#[derive(Debug, Default)]
pub struct Manifest {
    groups: Vec<Group>,
    files: usize,
    bytes: u64,
    json: usize,
}

impl Manifest {
    /// Begins a directory. Returns the message that is full, if one is.
    pub fn directory(&mut self, group: Group) -> Option<Vec<Group>> {
        let extra = if group.modified.is_some() { EXTRA_JSON } else { 0 };
        let path = json_length(group.directory.as_str());
        let json = ENTRY_JSON + extra + path + 5 * group.modes.len();
        let full = (self.json + json > MAX_JSON).then(|| self.take());
        self.json += json;
        self.groups.push(group);
        full
    }

    /// Adds a file to the directory that was begun last. Returns the message that is full, if
    /// one is.
    pub fn file(&mut self, file: FileEntry) -> Option<Vec<Group>> {
        let extra = if file.inode().is_some() { EXTRA_JSON } else { 0 };
        let json = ENTRY_JSON + extra + json_length(file.name().as_str());
        let size = file.offer().size;
        let is_full = self.json + json > MAX_JSON
            || self.files == MAX_FILES
            || (self.bytes > 0 && size <= SMALL_FILE && self.bytes + size > MAX_BYTES);
        let full = is_full.then(|| self.take_and_go_on());
        self.json += json;
        self.files += 1;
        self.bytes += if size <= SMALL_FILE { size } else { 0 };
        if let Some(group) = self.groups.last_mut() {
            if let Some(inode) = file.inode() {
                group.inodes.push((group.files.len() as u32, inode));
            }
            group.files.push(file);
        }
        full
    }

    /// Adds a symbolic link to the directory that was begun last. Returns the message that is full,
    /// if one is.
    pub fn link(
        &mut self,
        name: WirePath,
        target: LinkTarget,
        modified: Mtime,
    ) -> Option<Vec<Group>> {
        let text = json_length(name.as_str()) + json_length(target.as_str());
        let json = ENTRY_JSON + EXTRA_JSON + text;
        let full = (self.json + json > MAX_JSON).then(|| self.take_and_go_on());
        self.json += json;
        if let Some(group) = self.groups.last_mut() {
            group.links.push((name, target, modified));
        }
        full
    }

    /// The path of the entry `name` of the directory that was begun last.
    pub fn path_of(&self, name: &WirePath) -> WirePath {
        let directory = self.groups.last().map(|group| group.directory.clone());
        directory.unwrap_or_default().join(name).unwrap_or_else(|_| name.clone())
    }

    /// Everything so far; what follows is in the same directory.
    fn take_and_go_on(&mut self) -> Vec<Group> {
        let again = self.groups.last().map(Group::again);
        let full = self.take();
        self.directory(again.unwrap_or_default());
        full
    }

    /// Everything that has not been given out.
    pub fn take(&mut self) -> Vec<Group> {
        std::mem::take(self).groups
    }
}

/// Bytes of `text` in JSON.
fn json_length(text: &str) -> usize {
    let length = |byte| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::MAX_CONTROL;

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    fn file(name: &str, size: u64) -> FileEntry {
        let modified = Mtime { seconds: i64::MIN, nanos: u32::MAX };
        FileEntry::new(path(name), Offer { size, modified, mode: 0o777 })
    }

    #[test]
    fn messages_hold_many_files_and_never_too_many() {
        let mut manifest = Manifest::default();
        let mut messages = Vec::new();
        messages.extend(manifest.directory(Group::new(path("a"), vec![0o755, 0o700])));
        for n in 0..1000 {
            messages.extend(manifest.file(file(&format!("{n}"), 4096)));
        }
        messages.push(manifest.take());
        let counts: Vec<usize> = messages.iter().map(|m| m[0].files.len()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 1000);
        assert!(counts.len() <= 6 && counts.iter().all(|n| *n <= MAX_FILES), "{counts:?}");
        for message in &messages {
            assert_eq!(message[0].directory, path("a"));
            assert_eq!(message[0].modes, [0o755, 0o700]);
        }
    }

    #[test]
    fn credit_is_by_bytes_of_small_files() {
        let mut manifest = Manifest::default();
        manifest.directory(Group::default());
        for n in 0..16 {
            assert_eq!(manifest.file(file(&n.to_string(), SMALL_FILE)), None);
        }
        assert_eq!(manifest.file(file("large", 1 << 40)), None);
        assert!(manifest.file(file("one more", SMALL_FILE)).is_some());
    }

    #[test]
    fn the_longest_names_fit_into_a_message() {
        let deep = path(&format!("{}x", "\u{1}/".repeat(2047)));
        let mut manifest = Manifest::default();
        let mut messages = Vec::new();
        for n in 0..20 {
            messages.extend(manifest.directory(Group::new(deep.clone(), vec![0o777; 2048])));
            messages.extend(manifest.file(file(&format!("{n}{}", "\u{1}".repeat(250)), 1)));
        }
        messages.push(manifest.take());
        for message in messages {
            let json = serde_json::to_vec(&message).unwrap();
            assert!(json.len() + MAX_FILES * 70 < MAX_CONTROL, "{}", json.len());
        }
    }

    #[test]
    fn the_longest_link_fits_into_a_message() {
        let deep = path(&format!("{}x", "\u{1}/".repeat(2047)));
        let mut manifest = Manifest::default();
        let mut messages = Vec::new();
        messages.extend(manifest.directory(Group::new(deep, vec![0o777; 2048])));
        for n in 0..3 {
            let name = path(&format!("{n}{}", "\u{1}".repeat(250)));
            let target = LinkTarget::new("\u{1}".repeat(4095)).unwrap();
            let modified = Mtime { seconds: i64::MIN, nanos: u32::MAX };
            messages.extend(manifest.link(name, target, modified));
        }
        messages.push(manifest.take());
        assert_eq!(messages.iter().flatten().flat_map(|group| &group.links).count(), 3);
        for message in messages {
            let length = serde_json::to_vec(&message).unwrap().len();
            assert!(length + 100 < MAX_CONTROL, "{length}");
        }
    }

    #[test]
    fn names_of_one_file_have_the_same_number_on_the_wire() {
        let mut manifest = Manifest::default();
        manifest.directory(Group::default());
        for (name, inode) in [("a", None), ("b", Some(7)), ("c", Some(7))] {
            manifest.file(file(name, 1).with_inode(inode));
        }
        let json = serde_json::to_string(&manifest.take()).unwrap();
        let groups: Vec<Group> = serde_json::from_str(&json).unwrap();
        let numbers: Vec<_> = (0..3).map(|position| groups[0].inode(position)).collect();
        assert_eq!(numbers, [None, Some(7), Some(7)]);
    }

    #[test]
    fn a_name_in_a_directory_cannot_lead_out_of_it() {
        for name in ["../x", "/x", ".."] {
            let json = format!("[\"{name}\",1,0,0,420]");
            assert!(serde_json::from_str::<FileEntry>(&json).is_err(), "{name}");
        }
    }
}
