//! What would be done at the end of a transfer, for a dry run.

use std::collections::HashSet;

use super::closing::Closing;
use super::closing::collected::{Collected, There};
use super::producer::Reporter;
use super::server_tree::Remote;
use crate::protocol::{
    Change, Edit, Edited, Editor, Group, Mtime, RootError, TransferError, WirePath, printable,
    printed_below,
};

/// What is told once, if it is wanted.
const UNPLANNED: &str = "owners and extended attributes are not compared by a dry run; what would change of them is not listed";

impl Closing {
    /// Says what of the options a dry run does not look at.
    pub(super) fn tell_unplanned(&self, told: &Reporter) {
        if self.wanted.anything() {
            told.note(UNPLANNED);
        }
    }

    /// Notes that the source has a directory at `path`, which is the server's.
    pub(super) fn add_directory_name(&self, path: &WirePath) -> Result<(), TransferError> {
        if !self.dry_run || self.policy.backup.is_none() {
            return Ok(());
        }
        self.collected().source_directories.insert(path.as_str())
    }

    /// The error if what has the name `path`, the server's, would be kept under the name of a directory of the source.
    pub(super) fn is_kept_as_directory(&self, path: &WirePath) -> Option<RootError> {
        let kept = self.policy.backup.as_ref()?.name_of(path.as_str()).ok()?;
        let kept = WirePath::new(kept).ok()?;
        let is_taken = self.collected().source_directories.contains(&kept);
        let why = "file to keep another one in";
        is_taken.then(|| RootError::WrongKind(printable(kept.as_str()), why))
    }

    /// Whether a directory that is `found` with these permissions gets others. The one that is served stays open to its
    /// owner.
    pub(super) fn changes_mode(
        &self,
        group: &Group,
        found: Option<u32>,
        is_served: bool,
    ) -> bool {
        let (Some(mode), Some(_), Some(found)) = (group.modes.last(), group.modified, found)
        else {
            return false;
        };
        let owner = if is_served { 0o700 } else { 0 };
        self.policy.preserve && mode | owner != found
    }

    /// Notes a directory that would make way for something else, and has been told with what is in it.
    pub(super) fn note_making_way(&self, path: &WirePath) {
        self.collected().making_way.insert(path.clone());
    }

    /// Keeps what the server has at `base`.
    pub(super) fn add_listing(&self, base: WirePath, listing: Remote) {
        self.collected().listings.push((base, listing.into()));
    }

    /// Tells what would be done below a directory of this machine.
    pub(super) fn plan_here(&self, edits: &[Edit], editor: Option<&Editor>, told: &Reporter) {
        let removed = removed(edits);
        for edit in edits.iter().filter(|edit| !self.has_made_way(edit)) {
            if editor.is_some_and(|editor| editor.leaves(edit)) {
                continue;
            }
            let goes =
                |name: &str| removed.contains(&format!("{}/{name}", edit.path().as_str()));
            let check = || match editor {
                Some(editor) => editor.check(edit, &self.within, goes),
                None => Ok(()),
            };
            let name = printed_below(&self.remote, &edit.name());
            self.plan(told, (name, edit), finds_here(editor, edit), check);
        }
    }

    /// The same for the server.
    pub(super) fn plan_there(&self, edits: &[Edit], told: &Reporter) {
        let removed = removed(edits);
        for edit in edits.iter().filter(|edit| !self.has_made_way(edit)) {
            let check = || self.check_there(edit, &removed).map_or(Ok(()), Err);
            self.plan(told, (edit.name(), edit), self.finds_there(edit), check);
        }
    }

    /// Whether something goes with a directory that makes way, and has been told.
    fn has_made_way(&self, edit: &Edit) -> bool {
        let collected = self.collected();
        let parent = |path: &WirePath| path.split_last().map(|(above, _)| above);
        matches!(edit, Edit::Remove(_) | Edit::RemovePart(_) | Edit::RemoveDirectory(_))
            && !collected.making_way.is_empty()
            && std::iter::successors(Some(edit.path().clone()), parent)
                .any(|path| collected.making_way.contains(&path))
    }

    /// Why a server would not make a link or remove a file.
    fn check_there(&self, edit: &Edit, removed: &HashSet<String>) -> Option<TransferError> {
        let (base, path, listing) = self.collected().listing_of(edit.path())?;
        match edit {
            Edit::Remove(_) => listing.cannot_keep(&path, &self.policy),
            Edit::Symlink(..) | Edit::HardLink(..) => {
                let goes = |name: &str| removed.contains(&below(&base, name));
                listing.refuses_link(&path, (&self.policy, &self.within), goes)
            }
            _ => None,
        }
    }

    /// What is at the place of a link on the server.
    fn finds_there(&self, edit: &Edit) -> Option<(bool, Mtime)> {
        let collected = self.collected();
        let Some(There { target: found, inode, modified }) = collected.there.get(edit.path())
        else {
            let (_, path, listing) = collected.listing_of(edit.path())?;
            return Some((false, listing.other_kind(&path)?));
        };
        let is_right = match edit {
            Edit::Symlink(_, target, _) => found.as_ref() == Some(target),
            Edit::HardLink(_, first) => {
                let first = collected.there.get(first).and_then(|first| first.inode);
                inode.is_some() && *inode == first
            }
            _ => return None,
        };
        Some((is_right, *modified))
    }

    /// Says what would be done; `found` is whether the right link is there, and since when, if anything is.
    fn plan(
        &self,
        told: &Reporter,
        (name, edit): (String, &Edit),
        found: Option<(bool, Mtime)>,
        check: impl FnOnce() -> Result<(), TransferError>,
    ) {
        let Some(change) = self.change_by(edit, found) else { return };
        let checked = match change {
            Change::Deleted | Change::Linked => check(),
            _ => Ok(()),
        };
        match (checked, change) {
            (Err(error), _) => told.edited(name, edit, Err(error)),
            (Ok(()), Change::Unchanged) => told.edited(name, edit, Ok(Edited::Unchanged)),
            (Ok(()), change) => {
                let size = self.collected().extraneous.size_of(edit.path());
                told.planned(name, size, change);
            }
        }
    }

    fn change_by(&self, edit: &Edit, found: Option<(bool, Mtime)>) -> Option<Change> {
        Some(match (edit, found) {
            (Edit::Remove(_) | Edit::RemovePart(_) | Edit::RemoveDirectory(_), _) => {
                Change::Deleted
            }
            (Edit::Symlink(..) | Edit::HardLink(..), None)
            | (Edit::HardLink(..), Some((false, _))) => Change::Linked,
            (Edit::HardLink(..), Some((true, _))) => Change::Unchanged,
            (Edit::Symlink(_, _, modified), Some((true, there))) => {
                if there == *modified {
                    Change::Unchanged
                } else {
                    Change::Linked
                }
            }
            (Edit::Symlink(_, _, modified), Some((false, there))) => {
                let is_newer = self.policy.update && there > *modified;
                let stays = self.policy.ignore_existing || is_newer;
                if stays { Change::Kept } else { Change::Linked }
            }
            _ => return None,
        })
    }
}

impl Collected {
    /// The listing that has `path`, where it begins, and the path in it.
    fn listing_of(
        &self,
        path: &WirePath,
    ) -> Option<(WirePath, WirePath, std::sync::Arc<Remote>)> {
        let within = |base: &WirePath| {
            if path == base { Some(WirePath::root()) } else { path.below(base) }
        };
        let found = self
            .listings
            .iter()
            .filter_map(|(base, listing)| Some((base, within(base)?, listing)));
        let (base, path, listing) = found.min_by_key(|(_, path, _)| path.as_str().len())?;
        Some((base.clone(), path, listing.clone()))
    }
}

/// The names of all that is removed.
fn removed(edits: &[Edit]) -> HashSet<String> {
    let is_removal = |edit: &&Edit| {
        matches!(edit, Edit::Remove(_) | Edit::RemovePart(_) | Edit::RemoveDirectory(_))
    };
    edits.iter().filter(is_removal).map(Edit::name).collect()
}

/// A name below `base`, which is not printed.
fn below(base: &WirePath, name: &str) -> String {
    if base.is_root() { name.to_owned() } else { format!("{}/{name}", base.as_str()) }
}

/// What is at the place of a link on this machine.
fn finds_here(editor: Option<&Editor>, edit: &Edit) -> Option<(bool, Mtime)> {
    match edit {
        Edit::Symlink(path, target, _) => editor?.find_symlink(path, target),
        Edit::HardLink(path, first) => editor?.find_hard_link(path, first),
        _ => None,
    }
}
