//! Files that a client offers in one request, held against what is there.

use super::batch::{Expected, Results, kept, unchanged};
use crate::protocol::{
    Digest, Fail, Group, SMALL_FILE, Standing, TransferError, Tree, WirePath,
};

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
    /// The small ones that are wanted.
    pub(super) expected: Vec<Expected>,
    /// Directories without files that could not be made.
    pub(super) refused: Vec<(u32, Fail)>,
    /// What is known of the others.
    pub(super) results: Results,
}

impl Offered {
    /// Creates the directories of `groups` and looks at what is in them.
    pub(super) fn look_at(tree: &mut Tree, groups: &[Group]) -> Result<Self, TransferError> {
        let mut offered = Self::default();
        for (number, group) in (0..).zip(groups) {
            let fault = tree.create(&group.directory, &group.modes).err();
            let fault = fault.and_then(|error| error.to_fail());
            match fault {
                Some(fail) if group.files.is_empty() => offered.refused.push((number, fail)),
                fault => offered.group(tree, group, fault.as_ref())?,
            }
        }
        Ok(offered)
    }

    fn group(
        &mut self,
        tree: &mut Tree,
        group: &Group,
        fault: Option<&Fail>,
    ) -> Result<(), TransferError> {
        for (position, path) in group.paths(&WirePath::root()).enumerate() {
            let (file, (path, offer)) = (self.paths.len() as u32, path?);
            self.paths.push(path.clone());
            if let Some(fail) = fault {
                self.results.insert(file, Err(TransferError::Remote(fail.clone())));
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
                Ok(Standing::Kept) => {
                    self.results.insert(file, Ok(kept(&offer)));
                    self.kept.push(file);
                    continue;
                }
                Ok(Standing::Compare(found)) => {
                    self.compare.push((file, found));
                    digest = Some(found);
                }
                Ok(Standing::Wanted) => {}
            }
            self.files.push(file);
            if offer.size <= SMALL_FILE {
                self.expected.push(Expected { file, path, offer, compare: digest });
            }
        }
        Ok(())
    }
}
