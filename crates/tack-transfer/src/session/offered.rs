//! Files that a client offers in one request, held against what is there.

use std::collections::HashSet;
use std::sync::Arc;

use super::batch::{Expected, Results, kept, unchanged, with_attributes};
use crate::protocol::{
    Digest, Fail, Group, Message, Resume, SMALL_FILE, Standing, TransferError, Tree, WirePath,
    json_len,
};

/// Bytes of JSON of what is told of directories that can't be made; of further ones less is. All have to fit into a
/// message, beside digests of files.
const MAX_REFUSED: usize = 12 * 1024;

/// What is to become of offered files, by their numbers.
#[derive(Default)]
pub(super) struct Offered {
    /// Their paths below the base.
    pub(super) paths: Vec<WirePath>,
    /// Those that are wanted.
    pub(super) files: Vec<u32>,
    /// The small ones of them to be compared first.
    pub(super) compare: Vec<(u32, Digest)>,
    /// Those that the policy keeps as they are.
    pub(super) kept: Vec<u32>,
    /// Those that are there already, and have got other permissions.
    pub(super) attributes: Vec<u32>,
    /// The small ones that are wanted.
    pub(super) expected: Vec<Expected>,
    /// Those of which another name is there, and which.
    pub(super) elsewhere: Vec<(u32, u32)>,
    /// Directories without files that could not be made.
    pub(super) refused: Vec<(u32, Fail)>,
    /// What that takes.
    refused_json: usize,
    /// What is known of the others.
    pub(super) results: Results,
}

impl Offered {
    /// Creates the directories of `groups` and looks at what is in them.
    pub(super) fn look_at(tree: &mut Tree, groups: &[Group]) -> Result<Self, TransferError> {
        let mut offered = Self::default();
        for (number, group) in (0..).zip(groups) {
            let fault = tree.create(&group.directory, &group.modes).err().map(Arc::new);
            match fault {
                Some(error) if group.files.is_empty() => {
                    if let Some(fail) = error.to_fail() {
                        offered.refuse(number, fail);
                    }
                }
                fault => offered.group(tree, group, fault.as_ref())?,
            }
        }
        Ok(offered)
    }

    /// Whether a large file is all that there is, and is wanted.
    pub(super) fn is_sole_large_one(&self) -> bool {
        self.files == [0] && self.paths.len() == 1 && self.expected.is_empty()
    }

    /// The answer to the offer; `resume` is what there is of the only file.
    pub(super) fn wanted(&mut self, resume: Option<Resume>, within: bool) -> Message {
        let take = std::mem::take::<Vec<u32>>;
        Message::Wanted {
            files: take(&mut self.files),
            compare: std::mem::take(&mut self.compare).into_boxed_slice(),
            kept: take(&mut self.kept).into_boxed_slice(),
            attributes: take(&mut self.attributes).into_boxed_slice(),
            resume: resume.map(Box::new),
            within,
            refused: std::mem::take(&mut self.refused).into_boxed_slice(),
        }
    }

    /// Expects what comes without being asked for as well.
    pub(super) fn expect_all(&mut self, groups: &[Group]) -> Result<(), TransferError> {
        let wanted: HashSet<u32> = self.expected.iter().map(|expected| expected.file).collect();
        let root = WirePath::root();
        for (file, found) in (0..).zip(groups.iter().flat_map(|group| group.paths(&root))) {
            let (path, offer) = found?;
            if offer.size <= SMALL_FILE && !wanted.contains(&file) {
                let (compare, is_unwanted) = (None, true);
                self.expected.push(Expected { file, path, offer, compare, is_unwanted });
            }
        }
        Ok(())
    }

    fn refuse(&mut self, number: u32, mut fail: Fail) {
        self.refused_json += json_len(&fail);
        if self.refused_json > MAX_REFUSED {
            "it can't be made".clone_into(&mut fail.text);
        }
        self.refused.push((number, fail));
    }

    fn group(
        &mut self,
        tree: &mut Tree,
        group: &Group,
        fault: Option<&Arc<TransferError>>,
    ) -> Result<(), TransferError> {
        for (position, path) in group.paths(&WirePath::root()).enumerate() {
            let (file, (path, offer)) = (self.paths.len() as u32, path?);
            self.paths.push(path.clone());
            if let Some(error) = fault {
                self.results.insert(file, Err(TransferError::Shared(Arc::clone(error))));
                continue;
            }
            let mut digest = None;
            let inode = group.inode(position);
            match tree.standing(&path, &offer, inode) {
                Err(error) => {
                    self.results.insert(file, Err(error));
                    continue;
                }
                Ok(Standing::Unchanged) => {
                    self.results.insert(file, Ok(unchanged(&offer)));
                    continue;
                }
                Ok(Standing::Attributes) => {
                    self.results.insert(file, Ok(with_attributes(&offer)));
                    self.attributes.push(file);
                    continue;
                }
                Ok(Standing::Kept) => {
                    self.results.insert(file, Ok(kept(&offer)));
                    self.kept.push(file);
                    continue;
                }
                Ok(Standing::Compare(found)) => {
                    self.compare.push((file, found));
                    digest = Some(found);
                }
                Ok(Standing::Wanted) => {
                    let is_there = |name: &WirePath| tree.has(name, &offer);
                    if let Some(name) = group.names(position).iter().position(is_there) {
                        self.elsewhere.push((file, name as u32));
                        continue;
                    }
                }
            }
            self.files.push(file);
            if offer.size <= SMALL_FILE {
                let (compare, is_unwanted) = (digest, false);
                self.expected.push(Expected { file, path, offer, compare, is_unwanted });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Encoded, Manifest, Root};

    #[test]
    fn what_is_told_of_directories_that_cannot_be_made_fits_into_a_message() {
        // As many as one offer has. Their names are longer as they are printed.
        let (mut manifest, mut full) = (Manifest::default(), None);
        for n in 0.. {
            let name = WirePath::new(format!("{n}{}", "\u{7f}".repeat(40))).unwrap();
            full = manifest.directory(Group::new(name, vec![0o755]));
            if full.is_some() {
                break;
            }
        }
        let groups = full.unwrap();
        let dir = tempfile::tempdir().unwrap();
        for group in &groups {
            std::fs::write(dir.path().join(group.directory.as_str()), "in the way").unwrap();
        }
        let root = Arc::new(Root::open(dir.path()).unwrap());
        let mut tree = Tree::new(root, WirePath::root(), false, None);
        let offered = Offered::look_at(&mut tree, &groups).unwrap();
        // Beside it, the largest answer to an offer of files.
        let digest = Digest::of(b"");
        let message = Message::Wanted {
            files: (0..256).collect(),
            compare: (0..256).map(|file| (file, digest)).collect(),
            kept: Box::default(),
            attributes: (0..256).collect(),
            resume: None,
            within: true,
            refused: offered.refused.clone().into_boxed_slice(),
        };
        let encoded = Encoded::new(message);
        assert!(encoded.is_ok(), "{:?}", encoded.err());
        let texts: Vec<_> = offered.refused.iter().map(|(_, fail)| &fail.text).collect();
        assert_eq!(texts.len(), groups.len());
        assert!(texts[0].contains("not a directory"), "{texts:?}");
        assert_eq!(texts[texts.len() - 1], "it can't be made");
    }
}
