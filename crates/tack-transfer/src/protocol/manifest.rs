//! What a tree holds, as it crosses the wire: directories with the files in them, many in one
//! message.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

use super::wire::{Mtime, Offer, json_len};
use super::{Grain, LinkTarget, NameError, WirePath};

/// Largest file that travels in bundles with others, in bytes. Larger ones have a stream of
/// their own and can be resumed.
pub const SMALL_FILE: u64 = 128 * 1024;
/// Most files in one request.
pub const MAX_FILES: usize = 256;
/// Bytes of small files in one request, after which the next request begins.
const MAX_BYTES: u64 = 2 << 20;
/// Most bytes of JSON in one message, unless a directory and one thing in it take more. The longest path to it all and
/// a digest for each file still fit into [`MAX_CONTROL`](super::MAX_CONTROL) beside them.
const MAX_JSON: usize = 18 * 1024;
/// Most other names that a file is offered with.
const MAX_NAMES: usize = 64;
/// Most bytes of JSON that these take.
const MAX_NAMES_JSON: usize = 8 * 1024;
/// What stands between two of a list.
const COMMA: usize = 1;

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
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "links_in_it")]
    pub links: Vec<(WirePath, LinkTarget, Mtime)>,
    /// Positions of files that have several names, and numbers: the same for names of the same file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inodes: Vec<(u32, u64)>,
    /// Positions of files with permissions that are not preserved: setuid, setgid or sticky.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub special: Vec<u32>,
    /// Positions of files that have several names, and other names of theirs, with their paths below the base of the
    /// request: where the receiver has one of these, it need not be sent the file. Peers of versions before 9 do not
    /// know the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<(u32, Vec<WirePath>)>,
    /// How exactly times of files in it are kept, if that is not to the nanosecond; in listings that ask for links, and
    /// of a single file. Peers that do not know the field take all times for exact.
    #[serde(default, skip_serializing_if = "is_finest")]
    pub grain: Option<Grain>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    clippy::ref_option,
    reason = "serde passes references"
)]
fn is_finest(grain: &Option<Grain>) -> bool {
    grain.is_none_or(|grain| grain == Grain::FINEST)
}

/// A file in a directory: name (one component), size in bytes, seconds and nanoseconds of the time of
/// modification, permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry(
    #[serde(deserialize_with = "name_in_it")] WirePath,
    u64,
    i64,
    u32,
    u32,
    #[serde(skip)] Option<u64>,
    #[serde(skip)] Option<Grain>,
    #[serde(skip)] bool,
    #[serde(skip)] Vec<WirePath>,
);

/// Reads the name of a file in a directory.
fn name_in_it<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WirePath, D::Error> {
    let name = WirePath::deserialize(deserializer)?;
    check_name(&name).map(|()| name)
}

/// Reads the links in a directory.
fn links_in_it<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(WirePath, LinkTarget, Mtime)>, D::Error> {
    let links = <Vec<(WirePath, LinkTarget, Mtime)>>::deserialize(deserializer)?;
    links.iter().try_for_each(|(name, ..)| check_name(name)).map(|()| links)
}

/// Refuses a name that is not one component: receivers ask their filter about the directory of a group, and not about
/// those that a name could lead through.
fn check_name<E: Error>(name: &WirePath) -> Result<(), E> {
    match name.components().count() {
        1 => Ok(()),
        _ => Err(E::custom(format!("\"{name}\" is not the name of an entry of a directory"))),
    }
}

impl FileEntry {
    /// The file `name` that is offered.
    pub fn new(name: WirePath, offer: Offer) -> Self {
        let Mtime { seconds, nanos } = offer.modified;
        Self(name, offer.size, seconds, nanos, offer.mode, None, None, false, Vec::new())
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

    /// The same, whose time this machine keeps so exactly.
    #[must_use]
    pub fn with_grain(mut self, grain: Grain) -> Self {
        self.6 = Some(grain);
        self
    }

    /// The same, which has permissions that are not preserved: setuid, setgid or sticky.
    #[must_use]
    pub fn with_special(mut self, special: bool) -> Self {
        self.7 = special;
        self
    }

    /// Whether it has such permissions, if this machine has listed it.
    pub fn is_special(&self) -> bool {
        self.7
    }

    /// The same with other names of the same file, as paths below the base of a request: as many as fit beside it.
    #[must_use]
    pub fn with_names(mut self, names: impl IntoIterator<Item = WirePath>) -> Self {
        let mut json = 0;
        let fits = |name: &WirePath| {
            json += json_len(name) + COMMA;
            json <= MAX_NAMES_JSON
        };
        self.8 = names.into_iter().take(MAX_NAMES).take_while(fits).collect();
        self
    }

    /// Whether it is offered with other names.
    pub fn has_names(&self) -> bool {
        !self.8.is_empty()
    }

    /// The name, relative to the directory.
    pub fn name(&self) -> &WirePath {
        &self.0
    }

    /// What is offered.
    pub fn offer(&self) -> Offer {
        let Self(_, size, seconds, nanos, mode, ..) = *self;
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

    /// Other names of the file at a position.
    pub fn names(&self, position: usize) -> &[WirePath] {
        let found = self.names.iter().find(|(at, _)| *at as usize == position);
        found.map_or(&[], |(_, names)| names)
    }

    /// Adds a file. The finest time of all that are listed counts: by chance, one may look coarse.
    pub fn add(&mut self, mut file: FileEntry) {
        let names = std::mem::take(&mut file.8);
        if !names.is_empty() {
            self.names.push((self.files.len() as u32, names));
        }
        if let Some(inode) = file.inode() {
            self.inodes.push((self.files.len() as u32, inode));
        }
        if file.is_special() {
            self.special.push(self.files.len() as u32);
        }
        if let Some(grain) = file.6 {
            self.grain = Some(self.grain.map_or(grain, |finest| finest.min(grain)));
        }
        self.files.push(file);
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
    /// What `groups` take, to the byte but for commas behind the last of a list.
    json: usize,
}

impl Manifest {
    /// Begins a directory. Returns the message that is full, if one is.
    pub fn directory(&mut self, group: Group) -> Option<Vec<Group>> {
        let json = json_len(&group) + COMMA;
        let is_full = !self.groups.is_empty() && self.json + json > MAX_JSON;
        let full = is_full.then(|| self.take());
        self.json += json;
        self.groups.push(group);
        full
    }

    /// Adds a file to the directory that was begun last. Returns the message that is full, if
    /// one is.
    pub fn file(&mut self, file: FileEntry) -> Option<Vec<Group>> {
        let entry = json_len(&file) + COMMA;
        let size = file.offer().size;
        let is_full = self.json + entry + self.extras_of(&file) > MAX_JSON
            || self.files == MAX_FILES
            || (self.bytes > 0 && size <= SMALL_FILE && self.bytes + size > MAX_BYTES);
        let full = is_full.then(|| self.take_and_go_on());
        self.json += entry + self.extras_of(&file);
        self.files += 1;
        self.bytes += if size <= SMALL_FILE { size } else { 0 };
        if let Some(group) = self.groups.last_mut() {
            group.add(file);
        }
        full
    }

    /// What a file takes beside its entry.
    fn extras_of(&self, file: &FileEntry) -> usize {
        let Some(group) = self.groups.last() else { return 0 };
        let mut json = 0;
        if let Some(inode) = file.inode() {
            let list = if group.inodes.is_empty() { ",\"inodes\":[]".len() } else { 0 };
            json += list + json_len(&(group.files.len(), inode)) + COMMA;
        }
        if file.is_special() {
            let list = if group.special.is_empty() { ",\"special\":[]".len() } else { 0 };
            json += list + json_len(&group.files.len()) + COMMA;
        }
        if !file.8.is_empty() {
            let list = if group.names.is_empty() { ",\"names\":[]".len() } else { 0 };
            json += list + json_len(&(group.files.len(), &file.8)) + COMMA;
        }
        if file.6.is_some() && group.grain.is_none() {
            // The longest there is.
            json += ",\"grain\":1000000000".len();
        }
        json
    }

    /// Adds a symbolic link to the directory that was begun last. Returns the message that is full,
    /// if one is.
    pub fn link(
        &mut self,
        name: WirePath,
        target: LinkTarget,
        modified: Mtime,
    ) -> Option<Vec<Group>> {
        let link = (name, target, modified);
        let entry = json_len(&link) + COMMA;
        let list = |manifest: &Self| match manifest.groups.last() {
            Some(group) if group.links.is_empty() => ",\"links\":[]".len(),
            _ => 0,
        };
        let is_full = self.json + entry + list(self) > MAX_JSON;
        let full = is_full.then(|| self.take_and_go_on());
        self.json += entry + list(self);
        if let Some(group) = self.groups.last_mut() {
            group.links.push(link);
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

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::protocol::Encoded;
    use crate::protocol::wire::{Message, Want, WantGroup};
    use crate::protocol::{Digest, Policy, Suffix};

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    fn file(name: &str, size: u64) -> FileEntry {
        let modified = Mtime { seconds: i64::MIN, nanos: u32::MAX };
        FileEntry::new(path(name), Offer { size, modified, mode: 0o777 })
    }

    fn grain(text: &str) -> Grain {
        serde_json::from_str(text).unwrap()
    }

    /// A path of `length` bytes that takes as much JSON as any.
    fn worst(length: usize) -> WirePath {
        let text: String =
            (1..=length).map(|at| if at % 256 == 0 { '/' } else { '\u{1}' }).collect();
        path(text.trim_end_matches('/'))
    }

    /// Everything that may be asked of a receiver.
    fn every_policy() -> Policy {
        Policy {
            update: true,
            ignore_existing: true,
            backup: Some(Suffix::new("\u{1}".repeat(64)).unwrap()),
            preserve: true,
            owner: true,
            whole_file: true,
            make_way: true,
            opens_directories: true,
            keeps_links: true,
        }
    }

    /// Holds that `groups` fit into each message that they may travel in, whatever else that says.
    #[track_caller]
    fn assert_fit(groups: &[Group]) {
        let names = |group: &Group| {
            let names = group.files.iter().map(|file| file.name().as_str().len() + 1);
            group.directory.as_str().len() + names.max().unwrap_or_default()
        };
        let longest = groups.iter().map(names).max().unwrap_or_default();
        let base = worst(4095usize.saturating_sub(longest));
        let want = |file: &FileEntry| Want(file.name().clone(), Some(Digest::of(b"")));
        let wanted = groups.iter().map(|group| {
            WantGroup(group.directory.clone(), group.files.iter().map(want).collect())
        });
        let wanted = wanted.collect();
        let offered = Message::PutMany {
            base: base.clone(),
            groups: groups.to_vec(),
            checksum: false,
            policy: every_policy(),
            sole: true,
            name_within: Some(Box::new(worst(255))),
            brief: true,
            ahead: false,
        };
        // Links are listed, and no end offers them.
        let is_offered = groups.iter().all(|group| group.links.is_empty());
        let listed = Message::Manifest(groups.to_vec());
        for message in [listed, Message::GetMany { base, groups: wanted }]
            .into_iter()
            .chain(is_offered.then_some(offered))
        {
            let name = format!("{message:?}").split([' ', '(']).next().unwrap().to_owned();
            let encoded = Encoded::new(message);
            assert!(encoded.is_ok(), "{name}: {:?}", encoded.err());
        }
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
        assert_eq!(counts, [256, 256, 256, 232]);
        for message in &messages {
            assert_eq!(message[0].directory, path("a"));
            assert_eq!(message[0].modes, [0o755, 0o700]);
        }
    }

    #[test]
    fn ordinary_names_make_no_more_messages_than_their_number_needs() {
        let modified = Mtime { seconds: 1_700_000_000, nanos: 123_456_789 };
        for (length, links) in [(14, false), (14, true), (30, false), (34, false)] {
            let mut manifest = Manifest::default();
            let mut messages = Vec::new();
            let modified_there = links.then_some(modified);
            for n in 0..2000 {
                if n % 500 == 0 {
                    let group = Group::new(path(&format!("d{n}")), vec![0o755, 0o755]);
                    let group = Group { modified: modified_there, ..group };
                    messages.extend(manifest.directory(group));
                }
                let offer = Offer { size: 4096, modified, mode: 0o644 };
                let name = path(&format!("{n:0length$}"));
                messages.extend(manifest.file(FileEntry::new(name, offer)));
            }
            messages.push(manifest.take());
            assert_eq!(messages.len(), 2000usize.div_ceil(MAX_FILES), "{length} {links}");
        }
    }

    #[test]
    fn no_more_other_names_are_offered_than_fit_beside_a_file() {
        let names = |count: usize, length| (0..count).map(move |_| worst(length));
        let kept = |names: &mut dyn Iterator<Item = WirePath>| {
            let mut group = Group::default();
            group.add(file("file", 1).with_names(names));
            assert!(json_len(&group.names(0)) <= MAX_NAMES_JSON + 2);
            group.names(0).len()
        };
        assert_eq!(kept(&mut names(3, 10)), 3);
        assert_eq!(kept(&mut names(1000, 10)), MAX_NAMES);
        assert_eq!(kept(&mut names(1000, 1000)), 1);
        assert_eq!(kept(&mut names(1, 4000)), 0);
    }

    /// A name of up to 255 bytes, of which some take several in JSON.
    fn any_name(random: &mut Pcg64Mcg) -> String {
        let length = if random.random_bool(0.2) { 255 } else { random.random_range(1..40) };
        let kinds = ["a", "\"", "\u{1}", "\n", "\u{7f}", "\u{e9}", "\u{1f600}"];
        let kind = kinds[random.random_range(0..kinds.len())];
        let text = kind.repeat(length / kind.len());
        if text.is_empty() { "x".to_owned() } else { text }
    }

    fn any_entry(random: &mut Pcg64Mcg, manifest: &mut Manifest) -> Option<Vec<Group>> {
        let modified = Mtime { seconds: i64::MIN >> random.random_range(0..64), nanos: 7 };
        match random.random_range(0..8) {
            0 => {
                let depth = random.random_range(0..12);
                let names: Vec<_> = (0..depth).map(|_| any_name(random)).collect();
                let modes = vec![random.random_range(0..0o4000); depth + 1];
                let modified = random.random_bool(0.5).then_some(modified);
                let group = Group::new(path(&names.join("/")), modes);
                manifest.directory(Group { modified, ..group })
            }
            1 => {
                let target = any_name(random).repeat(random.random_range(1..16));
                let target = LinkTarget::new(target).unwrap();
                manifest.link(path(&any_name(random)), target, modified)
            }
            kind => {
                let size = u64::MAX >> random.random_range(0..64);
                let offer = Offer { size, modified, mode: 0o777 };
                let file = FileEntry::new(path(&any_name(random)), offer);
                let grains = ["1", "100", "1000000000"].map(grain);
                let file = match kind {
                    2 | 3 => {
                        let inode = random.random_bool(0.5).then_some(u64::MAX);
                        file.with_inode(inode).with_grain(grains[random.random_range(0..3)])
                    }
                    4 => {
                        let count = random.random_range(0..200);
                        let names = (0..count).map(|_| path(&any_name(random)));
                        file.with_names(names.collect::<Vec<_>>())
                    }
                    _ => file,
                };
                manifest.file(file)
            }
        }
    }

    #[test]
    fn what_entries_take_is_counted_to_the_byte_and_every_mixture_fits() {
        const SEED: u64 = 20_261_127;
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        let mut full = 0;
        for round in 0..50 {
            let mut manifest = Manifest::default();
            manifest.directory(Group::default());
            for _ in 0..400 {
                if let Some(groups) = any_entry(&mut random, &mut manifest) {
                    assert_fit(&groups);
                    full += 1;
                }
                let groups = &manifest.groups;
                let (counted, taken) = (manifest.json, json_len(groups));
                // A comma behind the last of each list, and a grain that is shorter, or finest and not told.
                let more = groups.len() * (5 + ",\"grain\":1000000000".len());
                assert!(taken <= counted + 2, "{counted} {taken}, seed {SEED}, round {round}");
                assert!(counted <= taken + more, "{counted} {taken}, seed {SEED}, {round}");
            }
            assert_fit(&manifest.take());
        }
        assert!(full > 100, "{full}");
    }

    #[test]
    fn many_short_names_fit_with_a_digest_each_behind_the_longest_path() {
        let mut manifest = Manifest::default();
        manifest.directory(Group::default());
        let mut n = 0..;
        let full = n.find_map(|n: u32| manifest.file(file(&format!("{n:x}"), 0))).unwrap();
        assert_eq!(full[0].files.len(), MAX_FILES);
        assert_fit(&full);
        // All of a message is names, but for the least that they have beside them.
        let mut manifest = Manifest::default();
        manifest.directory(Group::default());
        let offer = Offer { size: 0, modified: Mtime::default(), mode: 0 };
        let each = json_len(&FileEntry::new(path("000"), offer)) + COMMA;
        let more = "\u{1}".repeat((MAX_JSON / MAX_FILES - each) / 6);
        let name = |n: u32| path(&format!("{:03}{more}", n % 1000));
        let full = n.find_map(|n: u32| manifest.file(FileEntry::new(name(n), offer))).unwrap();
        assert_fit(&full);
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
        let deeps = [(deep, 2048), (worst(3840), 16), (worst(255), 2)];
        for (directory, depth) in deeps {
            let mut manifest = Manifest::default();
            let mut messages = Vec::new();
            let modified = Some(Mtime { seconds: i64::MIN, nanos: u32::MAX });
            for n in 100..120 {
                let group = Group::new(directory.clone(), vec![0o3777; depth]);
                messages.extend(manifest.directory(Group { modified, ..group }));
                let name = format!("{n}{}", "\u{1}".repeat(250));
                let file = file(&name, 1)
                    .with_inode(Some(u64::MAX))
                    .with_grain(Grain::FINEST)
                    .with_special(true);
                messages.extend(manifest.file(file));
            }
            messages.push(manifest.take());
            assert!(messages.iter().all(|message| !message.is_empty()));
            for message in messages {
                assert_fit(&message);
            }
        }
    }

    #[test]
    fn the_longest_link_fits_into_a_message() {
        for directory in [path(&format!("{}x", "\u{1}/".repeat(2047))), worst(4095)] {
            let mut manifest = Manifest::default();
            let mut messages = Vec::new();
            let modes = vec![0o3777; directory.components().count() + 1];
            messages.extend(manifest.directory(Group::new(directory, modes)));
            for n in 0..3 {
                let name = path(&format!("{n}{}", "\u{1}".repeat(250)));
                let target = LinkTarget::new("\u{1}".repeat(4095)).unwrap();
                let modified = Mtime { seconds: i64::MIN, nanos: u32::MAX };
                messages.extend(manifest.link(name, target, modified));
            }
            messages.push(manifest.take());
            assert_eq!(messages.iter().flatten().flat_map(|group| &group.links).count(), 3);
            for message in messages {
                assert_fit(&message);
            }
        }
    }

    #[test]
    fn the_finest_time_of_a_directory_tells_how_exactly_its_file_system_keeps_them() {
        let listed = |grains: &[Grain]| {
            let mut manifest = Manifest::default();
            manifest.directory(Group::default());
            for (n, grain) in grains.iter().enumerate() {
                manifest.file(file(&n.to_string(), 1).with_grain(*grain));
            }
            let json = serde_json::to_string(&manifest.take()).unwrap();
            let groups: Vec<Group> = serde_json::from_str(&json).unwrap();
            groups[0].grain
        };
        let (seconds, micros) = (grain("1000000000"), grain("1000"));
        assert_eq!(listed(&[seconds, seconds]), Some(seconds));
        assert_eq!(listed(&[seconds, micros, seconds]), Some(micros));
        assert_eq!(listed(&[seconds, Grain::FINEST, seconds]), None, "as of a peer without it");
        assert_eq!(listed(&[]), None);
        assert!(serde_json::from_str::<Grain>("0").is_err());
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
    fn a_name_in_a_directory_leads_neither_out_of_it_nor_further_in() {
        let parse = |name: &str| {
            let file = format!("[\"{name}\",1,0,0,420]");
            let links = format!("[[\"{name}\",\"target\",{{\"seconds\":0,\"nanos\":0}}]]");
            let group =
                format!("{{\"directory\":\"\",\"modes\":[],\"files\":[],\"links\":{links}}}");
            let group = serde_json::from_str::<Group>(&group);
            (serde_json::from_str::<FileEntry>(&file).is_ok(), group.is_ok())
        };
        assert_eq!(parse("a"), (true, true));
        for name in ["../x", "/x", "..", "a/b", ".git/hooks/post-checkout", ""] {
            assert_eq!(parse(name), (false, false), "{name}");
        }
    }
}
