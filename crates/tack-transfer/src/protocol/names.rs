//! What a source has, and what of a destination it therefore does not (`--delete`).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::manifest::Group;
use super::part_name::PartName;
use super::{Edit, Filter, Suffix, TransferError, WirePath, printable};

/// Most names that are kept: some 70 MB.
const MAX_NAMES: usize = 1 << 21;

/// Names that a source has. Kept as digests, so that millions fit into memory.
#[derive(Debug, Default)]
pub struct Names(HashSet<[u8; 16]>);

impl Names {
    /// Notes a name; also one that is not transferred, as it is printed.
    pub fn insert(&mut self, path: &str) -> Result<(), TransferError> {
        if self.0.len() >= MAX_NAMES {
            return Err(TransferError::TooManyNames(MAX_NAMES));
        }
        self.0.insert(digest(path));
        Ok(())
    }

    /// The same; whether it was not noted before.
    pub fn insert_new(&mut self, path: &str) -> Result<bool, TransferError> {
        let before = self.0.len();
        self.insert(path)?;
        Ok(self.0.len() > before)
    }

    /// Notes all `others` as well, as far as there is room.
    pub fn add(&mut self, others: Self) {
        let room = MAX_NAMES.saturating_sub(self.0.len());
        self.0.extend(others.0.into_iter().take(room));
    }

    /// How many of them `others` do not have.
    pub fn missing_in(&self, others: &Self) -> usize {
        self.0.difference(&others.0).count()
    }

    /// Takes a name away; whether it was one of them.
    pub fn remove(&mut self, path: &str) -> bool {
        self.0.remove(&digest(path))
    }

    /// Whether a name is one of them.
    pub fn contains(&self, path: &WirePath) -> bool {
        self.has(path.as_str()) || self.has(&printable(path.as_str()))
    }

    /// The same for a name as it is printed.
    fn has(&self, path: &str) -> bool {
        self.0.contains(&digest(path))
    }
}

fn digest(path: &str) -> [u8; 16] {
    let mut short = [0; 16];
    let whole = blake3::hash(path.as_bytes());
    short.iter_mut().zip(whole.as_bytes()).for_each(|(short, byte)| *short = *byte);
    short
}

/// Tells which entries of a destination the source does not have.
#[derive(Debug, Default)]
pub struct Extraneous {
    /// What the source has, but for what is still `unseen`.
    names: Names,
    /// What of it has to be at the destination, and has not been found there under exactly its name.
    unseen: Names,
    /// What of that is not transferred: at the destination it may be a directory, which stays.
    left_out: Names,
    /// The last directory that was looked for there, and whether it, or one above it, is.
    last_left_out: RefCell<Option<(WirePath, bool)>>,
    /// The directories that are transferred, and what is left out below each.
    pub filters: Vec<(WirePath, Filter)>,
    /// What kept files end with: they stay.
    backup: Option<Suffix>,
    /// Parts of unfinished transfers.
    parts: Vec<Edit>,
    files: Vec<Edit>,
    /// Their sizes, if they are of interest.
    sizes: Option<HashMap<WirePath, u64>>,
    directories: Vec<Edit>,
    /// Those of them that keep something which stays.
    not_empty: HashSet<WirePath>,
}

impl Extraneous {
    /// Leaves kept files alone, whose names end with `backup`.
    pub fn keeping(backup: Option<Suffix>) -> Self {
        Self { backup, ..Self::default() }
    }

    /// The same, and notes the sizes of files that are to be removed, if so wanted.
    #[must_use]
    pub fn with_sizes(self, wanted: bool) -> Self {
        Self { sizes: wanted.then(HashMap::new), ..self }
    }

    /// Size of what is to be removed at `path`, as far as it is noted.
    pub fn size_of(&self, path: &WirePath) -> u64 {
        self.sizes.as_ref().and_then(|sizes| sizes.get(path)).copied().unwrap_or_default()
    }

    /// Notes that the source has `path`, also as it is printed.
    pub fn insert(&mut self, path: &str) -> Result<(), TransferError> {
        if self.names.0.len() + self.unseen.0.len() >= MAX_NAMES {
            return Err(TransferError::TooManyNames(MAX_NAMES));
        }
        self.names.insert(path)
    }

    /// Notes that the source has `path`, as it is printed, and does not transfer it.
    pub fn leave_out(&mut self, path: &str) -> Result<(), TransferError> {
        self.last_left_out.take();
        self.left_out.insert(path)
    }

    /// Notes that `path`, which the source has, has to be at the destination unless something fails.
    ///
    /// A file system may store a name otherwise than it is spelled: without dots at its end, in the upper or lower case of
    /// what was there before, with accents put together or taken apart. What has just been placed would then look as if
    /// the source did not have it.
    pub fn expect(&mut self, path: &WirePath) {
        if self.names.remove(path.as_str()) {
            self.unseen.0.insert(digest(path.as_str()));
        }
    }

    /// How many names have to be at the destination and have not been found there. Nothing may be removed if there are
    /// any.
    pub fn unseen(&self) -> usize {
        self.unseen.0.len()
    }

    /// Notes that the destination has something that is listed as `path`, or so printed.
    pub fn see(&mut self, path: &str) {
        if self.unseen.remove(path) {
            self.names.0.insert(digest(path));
        }
    }

    /// Whether there are directories at different places of the destination: each may be found under its own name and
    /// another one's, so that only what its parent lists tells how it is spelled.
    pub fn has_several(&self) -> bool {
        let first = self.filters.first().map(|(base, _)| base);
        self.filters.iter().any(|(base, _)| Some(base) != first)
    }

    /// Whether the source has `path`, also as it is printed.
    pub fn has(&self, path: &str) -> bool {
        self.names.has(path) || self.unseen.has(path)
    }

    /// Takes in a part of what the destination has below `base`.
    pub fn take(&mut self, base: &WirePath, groups: &[Group]) -> Result<(), TransferError> {
        for group in groups {
            let directory = base.join(&group.directory)?;
            let is_base = group.directory.is_root();
            if !is_base || base.is_root() || !self.has_several() {
                self.see(directory.as_str());
            }
            let goes = !is_base && self.is_gone(&directory, true);
            if goes {
                let again = self.directories.last().map(Edit::path) == Some(&directory);
                if !again {
                    self.directories.push(Edit::RemoveDirectory(directory.clone()));
                }
            } else if !is_base {
                self.keep_parents(&directory);
            }
            let files = group.files.iter().map(|file| (file.name(), file.offer().size));
            for (name, size) in files.chain(group.links.iter().map(|(name, ..)| (name, 0))) {
                let path = directory.join(name)?;
                self.see(path.as_str());
                let is_gone = self.is_gone(&path, false);
                if is_gone {
                    self.files.push(Edit::Remove(path.clone()));
                    if let Some(sizes) = &mut self.sizes {
                        sizes.insert(path.clone(), size);
                    }
                }
                if goes && (!is_gone || self.backup.is_some()) {
                    self.keep_parents(&path);
                }
            }
            if self.files.len() + self.directories.len() > MAX_NAMES {
                return Err(TransferError::TooManyNames(MAX_NAMES));
            }
        }
        Ok(())
    }

    /// Notes that the destination has a part of an unfinished transfer at `path`, as it is printed, which then goes.
    /// False if it has to stay, or does not say of which file it is. It may be a file of the user's, after all: neither
    /// what the source has, too, nor what is excluded goes.
    pub fn take_part(&mut self, path: &str) -> bool {
        if path.contains('\\') {
            // It may stand for a character that is printed otherwise.
            return false;
        }
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Some(file) = PartName::file_of(name).and_then(|name| WirePath::new(name).ok())
        else {
            return false;
        };
        let directory = if directory.is_empty() {
            WirePath::root()
        } else if let Ok(directory) = WirePath::new(directory) {
            directory
        } else {
            return false;
        };
        let Ok(file) = directory.join(&file) else { return false };
        let is_excluded_as_named = self.filters.iter().any(|(base, filter)| {
            let below = if base.is_root() {
                Some(path)
            } else {
                path.strip_prefix(base.as_str()).and_then(|rest| rest.strip_prefix('/'))
            };
            below.is_some_and(|below| !filter.keeps_path(Path::new(below), false))
        });
        let goes = !self.has(path)
            && !is_excluded_as_named
            && !self.is_excluded(&file, false)
            && !self.is_left_out(&directory)
            && self.parts.len() < MAX_NAMES;
        if goes {
            self.parts.push(Edit::RemovePart(file));
        }
        goes
    }

    /// Notes that the destination has `path`, as it is printed, which stays.
    pub fn note_stays(&mut self, path: &str) {
        self.see(path);
        let Some((directory, _)) = path.rsplit_once('/') else { return };
        // A directory that is printed otherwise than it is named is not removed either.
        self.keep(WirePath::new(directory).ok());
    }

    /// Something stays, and so do the directories that it lies in.
    fn keep_parents(&mut self, path: &WirePath) {
        self.keep(path.split_last().map(|(directory, _)| directory));
    }

    fn keep(&mut self, mut next: Option<WirePath>) {
        while let Some(directory) = next {
            next = directory.split_last().map(|(parent, _)| parent);
            let goes = !directory.is_root() && self.is_gone(&directory, true);
            if !goes || !self.not_empty.insert(directory) {
                return;
            }
        }
    }

    /// What is to be removed: parts, files and links, then directories from the deepest up.
    pub fn edits(&mut self) -> Vec<Edit> {
        let mut edits = std::mem::take(&mut self.parts);
        edits.append(&mut self.files);
        let not_empty = std::mem::take(&mut self.not_empty);
        let directories = std::mem::take(&mut self.directories).into_iter().rev();
        edits.extend(directories.filter(|edit| !not_empty.contains(edit.path())));
        edits
    }

    /// Whether something that the source has and does not transfer has the name of a directory on the way to `path`.
    fn is_left_out(&self, path: &WirePath) -> bool {
        if self.left_out.0.is_empty() {
            return false;
        }
        let parent = || path.split_last().map(|(parent, _)| parent);
        self.left_out.contains(path)
            || parent().is_some_and(|parent| self.lies_left_out(parent))
    }

    /// The same for what lies in this directory. Most that is asked for lies in the one before, or right below it.
    fn lies_left_out(&self, directory: WirePath) -> bool {
        let mut last = self.last_left_out.borrow_mut();
        let (mut next, mut found) = (Some(directory.clone()), false);
        while let Some(path) = next.filter(|_| !found) {
            match &*last {
                Some((known, is_left_out)) if *known == path => {
                    found = *is_left_out;
                    break;
                }
                _ => found = self.left_out.contains(&path),
            }
            next = path.split_last().map(|(parent, _)| parent);
        }
        *last = Some((directory, found));
        found
    }

    fn is_gone(&self, path: &WirePath, is_directory: bool) -> bool {
        let is_backup =
            || !is_directory && self.backup.as_ref().is_some_and(|suffix| suffix.ends(path));
        !self.names.contains(path)
            && !self.unseen.contains(path)
            && !is_backup()
            && !self.is_excluded(path, is_directory)
            && !self.is_left_out(path)
    }

    fn is_excluded(&self, path: &WirePath, is_directory: bool) -> bool {
        self.filters.iter().any(|(base, filter)| {
            path.below(base).is_some_and(|below| {
                let parent = below.split_last().map(|(parent, _)| parent).unwrap_or_default();
                !filter.keeps_whole(&parent) || !filter.keeps(&below, is_directory)
            })
        })
    }

    /// Whether something could have been deleted at `path` of the destination, or in the directory of that name,
    /// which is as it is printed.
    pub fn may_go(&self, path: &str) -> bool {
        let path = path.strip_suffix("/.").unwrap_or(path);
        WirePath::new(path)
            .is_ok_and(|path| !self.is_excluded(&path, true) && !self.is_left_out(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{FileEntry, LinkTarget, Mtime, Offer};

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    fn group(directory: &str, files: &[&str], links: &[&str]) -> Group {
        let offer = Offer { size: 0, modified: Mtime::default(), mode: 0 };
        let files = files.iter().map(|name| FileEntry::new(path(name), offer)).collect();
        let link = |name: &&str| (path(name), LinkTarget::new("x").unwrap(), Mtime::default());
        let links = links.iter().map(link).collect();
        Group { directory: path(directory), files, links, ..Group::default() }
    }

    fn removed(extraneous: &mut Extraneous) -> Vec<String> {
        extraneous.edits().iter().map(|edit| edit.path().as_str().to_owned()).collect()
    }

    #[test]
    fn what_the_source_does_not_have_goes_from_the_deepest_up() {
        let mut extraneous = Extraneous::default();
        for name in ["in/a", "in/a/x", "in/link"] {
            extraneous.insert(name).unwrap();
        }
        let listed = [
            group("", &["gone"], &["link", "gone-link"]),
            group("a", &["x", "y"], &[]),
            group("b", &["x"], &[]),
            group("b/c", &[], &[]),
        ];
        extraneous.take(&path("in"), &listed).unwrap();
        extraneous.take(&path("in"), &[group("b/c", &["z"], &[])]).unwrap();
        let expected =
            ["in/gone", "in/gone-link", "in/a/y", "in/b/x", "in/b/c/z", "in/b/c", "in/b"];
        assert_eq!(removed(&mut extraneous), expected);
    }

    #[test]
    fn what_is_excluded_or_a_kept_file_stays() {
        let filter = Filter::new(["*.tmp", "/cache"], []).unwrap();
        let mut extraneous = Extraneous {
            filters: vec![(path("in"), filter)],
            backup: Some(Suffix::new("~").unwrap()),
            ..Extraneous::default()
        };
        let listed = [
            group("", &["x.tmp", "old~", "gone"], &[]),
            group("cache", &["deep"], &[]),
            group("sub~", &[], &[]),
            group("full", &["gone"], &[]),
            group("full/deep", &["y.tmp"], &[]),
            group("full/void", &[], &[]),
        ];
        extraneous.take(&path("in"), &listed).unwrap();
        assert_eq!(
            removed(&mut extraneous),
            ["in/gone", "in/full/gone", "in/full/void", "in/sub~"],
            "directories with what stays stay"
        );
    }

    #[test]
    fn a_directory_in_which_kept_files_take_another_name_stays() {
        let backup = Some(Suffix::new("~").unwrap());
        let mut extraneous = Extraneous { backup, ..Extraneous::default() };
        let listed = [group("gone", &[], &[]), group("gone/deep", &["x"], &[])];
        extraneous.take(&WirePath::root(), &listed).unwrap();
        assert_eq!(removed(&mut extraneous), ["gone/deep/x"]);
    }

    #[test]
    fn parts_go_unless_they_are_of_what_is_excluded_or_do_not_say_of_what() {
        let filter =
            Filter::new(["*.tmp", "/cache", ".mine.*", "/.top.tack-part"], []).unwrap();
        let filters = vec![(path("in"), filter)];
        let mut extraneous = Extraneous { filters, ..Extraneous::default() };
        extraneous.insert("in/.report.tack-part").unwrap();
        extraneous.insert("in/there").unwrap();
        extraneous.leave_out("in/socket").unwrap();
        let long = PartName::of(&"x".repeat(255));
        for (name, goes) in [
            ("in/.gone.tack-part", true),
            ("in/.there.tack-part", true),
            ("in/.x.tmp.tack-part", false),
            ("in/sub/.mine.tack-part", false),
            ("in/.top.tack-part", false),
            ("in/.report.tack-part", false),
            ("in/cache/.x.tack-part", false),
            ("in/socket/.x.tack-part", false),
            ("in/.x\\.tack-part", false),
            ("in/.tack-part", false),
            (&format!("in/{long}"), false),
        ] {
            assert_eq!(extraneous.take_part(name), goes, "{name}");
        }
        assert_eq!(removed(&mut extraneous), ["in/gone", "in/there"]);
    }

    #[test]
    fn a_name_that_is_only_known_as_it_is_printed_stays() {
        let mut extraneous = Extraneous::default();
        extraneous.insert(&printable("a\u{1b}b")).unwrap();
        extraneous.take(&WirePath::root(), &[group("", &["a\u{1b}b"], &[])]).unwrap();
        assert_eq!(removed(&mut extraneous), [""; 0]);
    }

    /// What a source has that has just been transferred.
    fn transferred(names: &[&str]) -> Extraneous {
        let mut extraneous = Extraneous::default();
        for name in names {
            extraneous.insert(name).unwrap();
            extraneous.expect(&path(name));
        }
        extraneous
    }

    #[test]
    fn names_that_the_destination_spells_otherwise_are_missed() {
        for (source, there) in [("R.E.M.", "R.E.M"), ("Foo", "foo"), ("\u{e9}", "e\u{301}")] {
            let file = format!("{source}/a");
            let mut extraneous = transferred(&["", source, &file]);
            let listed = [group("", &[], &[]), group(there, &["a"], &[])];
            extraneous.take(&WirePath::root(), &listed).unwrap();
            assert_eq!(extraneous.unseen(), 2, "{source} and what is in it");
            let as_spelled = [group(source, &["a"], &[])];
            extraneous.take(&WirePath::root(), &as_spelled).unwrap();
            assert_eq!(extraneous.unseen(), 0);
        }
    }

    #[test]
    fn a_link_a_directory_or_what_is_not_listed_in_the_place_of_a_file_is_seen() {
        let mut extraneous = transferred(&["", "link", "directory", "a\nb", "file"]);
        // These need not be there: they have been left out, or are made later.
        for name in ["left out", "made later"] {
            extraneous.insert(name).unwrap();
        }
        extraneous.leave_out("left out").unwrap();
        extraneous.note_stays("a\\nb");
        let listed = [group("", &["file"], &["link"]), group("directory", &[], &[])];
        extraneous.take(&WirePath::root(), &listed).unwrap();
        assert_eq!(extraneous.unseen(), 1, "a name that is told as it is printed");
        let mut extraneous = transferred(&["", "socket"]);
        extraneous.take(&WirePath::root(), &[group("", &[], &[])]).unwrap();
        extraneous.note_stays("socket");
        assert_eq!(extraneous.unseen(), 0);
    }

    #[test]
    fn what_lies_below_something_left_out_is_so_however_it_is_asked_for() {
        let mut extraneous = Extraneous::default();
        assert!(extraneous.may_go("a/b/c/d"));
        extraneous.leave_out("a/b").unwrap();
        for (name, goes) in [
            ("a/b/c/d", false),
            ("a/b/c/e", false),
            ("a/b/c", false),
            ("a/b", false),
            ("a/c", true),
            ("a/c/d", true),
            ("a/b/x/y/z", false),
            ("a", true),
            ("b", true),
        ] {
            assert_eq!(extraneous.may_go(name), goes, "{name}");
        }
        assert!(extraneous.may_go("x/y/z"));
        extraneous.leave_out("x").unwrap();
        assert!(!extraneous.may_go("x/y/z"));
    }

    #[test]
    fn what_has_not_been_found_yet_is_no_less_the_sources() {
        let mut extraneous = transferred(&["a", "a/file"]);
        assert!(extraneous.has("a/file"));
        extraneous.take(&WirePath::root(), &[group("a", &["file", "other"], &[])]).unwrap();
        assert_eq!(removed(&mut extraneous), ["a/other"]);
        assert_eq!(extraneous.unseen(), 0);
    }

    #[test]
    fn of_two_directories_only_their_parent_tells_how_they_are_spelled() {
        let mut extraneous = transferred(&["Foo", "Foo/x", "foo", "foo/y"]);
        extraneous.filters = ["Foo", "foo"].map(|name| (path(name), Filter::all())).into();
        // One and the same directory.
        for base in ["Foo", "foo"] {
            extraneous.take(&path(base), &[group("", &["x", "y"], &[])]).unwrap();
        }
        assert_eq!(extraneous.unseen(), 2);
        extraneous.see("foo");
        assert_eq!(extraneous.unseen(), 1);
        extraneous.see("Foo");
        assert_eq!(extraneous.unseen(), 0);
    }
}
