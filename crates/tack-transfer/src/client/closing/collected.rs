//! What a transfer collects for its end, apart from what is made of it: several threads add to it, under one lock, and
//! its size has a limit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::client::attributes::InPlace;
use crate::client::server_tree::Remote;
use crate::protocol::{
    Edit, Extraneous, Group, LinkTarget, Mtime, Names, Offer, TransferError, WirePath,
};

/// Edits that are remembered at most; a peer must not fill the memory.
const MAX_EDITS: usize = 1 << 20;

#[derive(Default)]
pub(in crate::client) struct Collected {
    pub(in crate::client) extraneous: Extraneous,
    pub(super) links: Vec<Edit>,
    /// With what was listed of the file.
    pub(super) hard_links: Vec<(Edit, Offer)>,
    /// Files that have left in another state than they were listed in.
    pub(super) changed: HashSet<WirePath>,
    pub(super) directories: Vec<Edit>,
    /// Those that the receiver could not make.
    pub(super) failed: HashSet<WirePath>,
    /// Those of which it could not take a file, perhaps because they are not there.
    pub(super) doubtful: HashSet<WirePath>,
    /// What is in place, if attributes are wanted; directories behind what is in them.
    pub(super) in_place: Vec<InPlace>,
    /// The first names of files with several.
    pub(super) first_names: HashMap<u64, WirePath>,
    /// First names under which the receiver does not have the file, and those under which it does.
    pub(super) elsewhere: HashMap<WirePath, WirePath>,
    /// There are such files, and each name becomes a file of its own.
    pub(super) are_separated: bool,
    /// Files with permissions that are not preserved.
    pub(super) special: u64,
    /// What the source has under names of kept files.
    pub(super) like_kept: Names,
    /// Files that are named one by one.
    pub(super) named: Vec<WirePath>,
    /// What the server has in the place of the source's links and of files with several names, for a dry run.
    pub(in crate::client) there: HashMap<WirePath, There>,
    /// All that the server has where something would be sent, for a dry run.
    pub(in crate::client) listings: Vec<(WirePath, Arc<Remote>)>,
    /// Directories that would make way for something of another kind, and have been told with what is in them.
    pub(in crate::client) making_way: HashSet<WirePath>,
    /// Directories of the source, for a dry run that has to know what would be kept.
    pub(in crate::client) source_directories: Names,
}

/// A file or link that the server has.
pub(in crate::client) struct There {
    /// Where a link leads.
    pub(in crate::client) target: Option<LinkTarget>,
    /// The number of a file that has several names.
    pub(in crate::client) inode: Option<u64>,
    pub(in crate::client) modified: Mtime,
}

impl Collected {
    /// The names that become links, each to the one under which the receiver has the file.
    pub(super) fn take_hard_links(&mut self) -> Vec<(Edit, Offer)> {
        let mut links = std::mem::take(&mut self.hard_links);
        for (edit, _) in &mut links {
            let Edit::HardLink(name, to) = edit else { continue };
            if let Some(other) = self.elsewhere.get(to) {
                if name == other {
                    name.clone_from(to);
                }
                to.clone_from(other);
            }
        }
        links
    }

    /// Links, and all names of files that have several.
    pub(super) fn names_of_links(&self) -> HashSet<WirePath> {
        let mut names: HashSet<_> = self.links.iter().map(|edit| edit.path().clone()).collect();
        for (edit, _) in &self.hard_links {
            if let Edit::HardLink(name, first) = edit {
                names.extend([name.clone(), first.clone()]);
            }
        }
        names
    }

    /// Notes what of a listing below `directory` of the server could be in the place of one of these `links`.
    pub(super) fn look_at(
        &mut self,
        directory: &WirePath,
        group: &Group,
        links: &HashSet<WirePath>,
    ) -> Result<(), TransferError> {
        let parent = directory.join(&group.directory)?;
        for (name, target, modified) in &group.links {
            let (target, modified) = (Some(target.clone()), *modified);
            self.there.insert(parent.join(name)?, There { target, inode: None, modified });
        }
        for (position, file) in group.files.iter().enumerate() {
            let path = parent.join(file.name())?;
            if links.contains(&path) {
                let (inode, modified) = (group.inode(position), file.offer().modified);
                self.there.insert(path, There { target: None, inode, modified });
            }
        }
        self.check()
    }

    pub(super) fn check(&self) -> Result<(), TransferError> {
        let edits = self.links.len()
            + self.hard_links.len()
            + self.directories.len()
            + self.in_place.len();
        if edits + self.first_names.len() + self.there.len() <= MAX_EDITS {
            return Ok(());
        }
        Err(TransferError::TooManyNames(MAX_EDITS))
    }
}
