//! Which edits end a transfer, and in which order: the same for both receivers. Nothing is removed unless it is certain
//! what the source has.

use std::collections::HashMap;

use super::Closing;
use super::collected::Collected;
use crate::End;
use crate::client::producer::Reporter;
use crate::protocol::{Edit, EditKind, Edited, Offer, TransferError, WirePath, printed_below};

/// Why another name of a file is not made.
const MAY_BE_ANOTHER: &str =
    "another name of a file, and not made because a file has failed, which may be that one";

/// The same where the file that has been transferred is not the one that was listed.
const HAS_CHANGED: &str =
    "another name of a file, and not made because that has changed since; transfer it again";

/// Told once, however many names it concerns.
const SEPARATED: &str =
    "other names of a file become files of their own, because what the receiver has may stay";

impl Closing {
    /// What is to be done before attributes are set, in its order.
    pub(super) fn edits(
        &self,
        told: &Reporter,
        receiver: End,
        is_as_listed: impl Fn(&WirePath, &Offer) -> bool,
    ) -> Vec<Edit> {
        let mut collected = self.collected();
        if collected.are_separated {
            told.note(SEPARATED);
        }
        tell_special(told, collected.special);
        let has_all = told.has_all_files();
        let (mut links, mut is_whole) = (Vec::new(), true);
        for (edit, listed) in collected.take_hard_links() {
            let is_meant =
                matches!(&edit, Edit::HardLink(_, first) if is_as_listed(first, &listed));
            if has_all && is_meant {
                links.push(edit);
                continue;
            }
            is_whole = false;
            let reason = if has_all { HAS_CHANGED } else { MAY_BE_ANOTHER };
            let name = self.remote.join(edit.path()).unwrap_or_default();
            let failed = TransferError::Skipped(reason.to_owned());
            told.edited(name.as_str().to_owned(), &edit, Err(failed));
        }
        links.append(&mut collected.links);
        let count = links.len();
        links.retain(|edit| self.is_kept_elsewhere(&collected, told, edit));
        is_whole &= links.len() == count;
        let mut edits = Vec::new();
        if is_whole && self.may_delete(told) {
            edits.extend(collected.extraneous.edits());
            self.tell_removed_before(&collected, told, &edits);
            let unseen = collected.extraneous.unseen();
            if unseen > 0 {
                self.tell_unseen(told, receiver, unseen, edits.first());
                edits.clear();
            }
            edits.retain(|edit| self.is_kept_elsewhere(&collected, told, edit));
        } else if self.deletes {
            let nothing = if told.has_removed() { "nothing else" } else { "nothing" };
            told.note(&format!(
                "{nothing} is deleted, because not everything could be transferred"
            ));
        }
        // Behind what is removed, which may be all that there is in a directory in the place of a link.
        edits.append(&mut links);
        edits
    }

    /// Whether it is certain what the source has.
    pub(super) fn may_delete(&self, told: &Reporter) -> bool {
        self.deletes && told.is_faultless()
    }

    /// Tells what an earlier attempt has removed without having heard so: what is neither to be removed now nor the
    /// source's.
    fn tell_removed_before(&self, collected: &Collected, told: &Reporter, edits: &[Edit]) {
        let Some(attempt) = &self.attempt else { return };
        let removals = attempt.take_removals().into_iter();
        let mut removed: HashMap<_, _> = removals.map(|edit| (edit.name(), edit)).collect();
        for edit in edits {
            if removed.is_empty() {
                return;
            }
            removed.remove(&edit.name());
        }
        for (name, edit) in removed {
            if !collected.extraneous.has(&name) {
                told.edited(name, &edit, Ok(Edited::Done));
            }
        }
    }

    /// Reports that the receiver does not list names of what is in place there, so that nothing is deleted. `first` is
    /// what would be deleted before all else, if anything would.
    fn tell_unseen(&self, told: &Reporter, receiver: End, unseen: usize, first: Option<&Edit>) {
        let reason = format!(
            "{unseen} names of what is transferred are spelled otherwise at the destination, or gone from there (a \
             file system may leave out dots at the end of a name, or take upper and lower case for the same); \
             nothing is deleted, because it may be what has just been transferred"
        );
        match first {
            Some(edit) => {
                let name = printed_below(&self.remote, &edit.name());
                told.not_deleted(&name, &reason, Some(receiver));
            }
            None => told.skip(&self.remote.to_string(), &reason, Some(receiver)),
        }
    }

    /// Whether what an edit removes or replaces would be kept under a name that the source does not have.
    fn is_kept_elsewhere(&self, collected: &Collected, told: &Reporter, edit: &Edit) -> bool {
        let path = edit.path();
        let kept = self.policy.backup.as_ref().filter(|_| match edit {
            Edit::Remove(_) | Edit::Symlink(..) | Edit::HardLink(..) => true,
            Edit::RemovePart(_)
            | Edit::RemoveDirectory(_)
            | Edit::Directory(..)
            | Edit::Attributes(..) => false,
        });
        let kept = kept.and_then(|suffix| suffix.name_of(path.as_str()).ok());
        let kept = kept.and_then(|kept| WirePath::new(kept).ok());
        let Some(kept) = kept.filter(|kept| collected.like_kept.contains(kept)) else {
            return true;
        };
        let reason =
            format!("it would be kept as {kept}, which the source has; choose another suffix");
        if edit.kind() == EditKind::Removal {
            told.not_deleted(&printed_below(&self.remote, &edit.name()), &reason, None);
        } else {
            let reason = format!("stays, because {reason}");
            let name = self.remote.join(path).unwrap_or_default();
            told.edited(name.as_str().to_owned(), edit, Err(TransferError::Skipped(reason)));
        }
        false
    }

    /// Attributes of directories, the last of all. The deepest first, because a directory may be closed to its
    /// owner.
    pub(super) fn directories(&self) -> Vec<Edit> {
        let mut collected = self.collected();
        let directories = std::mem::take(&mut collected.directories);
        let is_left = |edit: &Edit| !collected.failed.contains(edit.path());
        directories.into_iter().rev().filter(is_left).collect()
    }
}

/// Says how many files have lost permissions that are not preserved.
fn tell_special(told: &Reporter, files: u64) {
    if files > 0 {
        let these = if files == 1 { "1 file has" } else { &format!("{files} files have") };
        told.note(&format!(
            "{these} setuid, setgid or sticky bits at the source, which are not preserved"
        ));
    }
}
