//! What is done at the end of a transfer, when all files are in place: what the source no longer has
//! is removed, links are made, directories get their attributes.

pub(super) mod collected;
mod edits;
mod local;
mod remote;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attempts::Attempt;
use super::attributes::{InPlace, Ours};
use super::options::TransferOptions;
use super::producer::Reporter;
use crate::End;
use crate::error::Error;
use crate::protocol::{
    Edit, Extraneous, Filter, Group, IS_LINK, LinkTarget, MadeWay, Mtime, Offer, Policy, Root,
    TransferError, WalkItem, Wanted, WirePath, printed_below,
};
use collected::Collected;

/// What there is to do at the end, as far as it is known.
#[derive(Clone)]
pub(super) struct Closing {
    pub(super) policy: Policy,
    /// For what is in directories.
    pub(super) within: Policy,
    /// What of attributes is transferred.
    pub(super) wanted: Wanted,
    deletes: bool,
    /// Directories of this machine, by device and number, from which nothing is deleted.
    protected: Arc<[(u64, u64)]>,
    /// Parts of unfinished transfers are removed with what the source does not have.
    removes_parts: bool,
    pub(super) dry_run: bool,
    /// What is fetched: paths are told as the server's, like those of files.
    pub(super) remote: WirePath,
    /// Which attempt this is, if there may be others.
    attempt: Option<Arc<Attempt>>,
    /// What of this machine's has made way for something of another kind.
    made_way: MadeWay,
    collected: Arc<Mutex<Collected>>,
}

impl Closing {
    /// Nothing is known yet of what `options` ask for.
    pub(super) fn new(
        options: &TransferOptions,
        remote: WirePath,
        removes_parts: bool,
        attempt: Option<&Arc<Attempt>>,
    ) -> Self {
        let policy = options.policy.clone();
        let extraneous = Extraneous::keeping(policy.backup.clone()).with_sizes(options.dry_run);
        let collected = Collected { extraneous, ..Collected::default() };
        Self {
            policy,
            within: options.policy_within(),
            wanted: options.attributes(),
            deletes: options.delete,
            protected: options.protected.as_slice().into(),
            removes_parts,
            dry_run: options.dry_run,
            remote,
            attempt: attempt.filter(|_| !options.dry_run).cloned(),
            made_way: MadeWay::default(),
            collected: Arc::new(Mutex::new(collected)),
        }
    }

    /// Whether what the source does not have is removed, or would be.
    pub(super) fn deletes(&self) -> bool {
        self.deletes
    }

    /// Makes sure that the content of a directory may go into this one of this machine.
    pub(super) fn check_destination(&self, root: &Root) -> Result<(), Error> {
        let place = root.number().map_err(TransferError::reading)?;
        if !self.deletes || !self.protected.contains(&place) {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "{}: nothing is deleted from this directory, where all that the source does not have would be; name one for \
             the source alone",
            root.path().display()
        )))
    }

    /// How the receiver treats what it has.
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Where what makes way here for something of another kind is noted.
    pub(super) fn made_way(&self) -> MadeWay {
        self.made_way.clone()
    }

    /// Tells what has made way here.
    pub(super) fn tell_made_way(&self, told: &Reporter) {
        told.removed(&self.remote, self.made_way.take());
    }

    /// Notes that something is in place, `theirs` at the server, if its attributes are wanted.
    pub(super) fn add_in_place(
        &self,
        theirs: WirePath,
        ours: Ours,
    ) -> Result<(), TransferError> {
        if !self.wanted.anything() || self.dry_run {
            return Ok(());
        }
        let mut collected = self.collected();
        collected.in_place.push(InPlace { theirs, ours });
        collected.check()
    }

    /// What is in place, the deepest first.
    pub(super) fn in_place(&self) -> Vec<InPlace> {
        let mut in_place = std::mem::take(&mut self.collected().in_place);
        in_place.sort_by_key(|next| std::cmp::Reverse(next.theirs.components().count()));
        in_place
    }

    /// Whether links and attributes are of interest: to be transferred, or not to be removed.
    pub(super) fn needs_links(&self) -> bool {
        self.policy.preserve || self.deletes || self.wanted.anything()
    }

    /// Whether a listing has to tell more than sizes, of a single file its time.
    pub(super) fn needs_time(&self) -> bool {
        self.needs_links() || self.policy.update
    }

    /// Notes that something below `base` is transferred, but for what `filter` leaves out.
    pub(super) fn add_tree(&self, base: &WirePath, filter: &Filter) {
        self.collected().extraneous.filters.push((base.clone(), filter.clone()));
    }

    /// Notes that the source has `path`, and that it is transferred.
    pub(super) fn add_name(&self, path: &str) -> Result<(), TransferError> {
        self.note_listed(path);
        self.keep_name(path)
    }

    /// Notes what further attempts have to find again.
    fn note_listed(&self, path: &str) {
        if let Some(attempt) = &self.attempt {
            attempt.note_listed(&self.remote, path);
        }
    }

    /// Notes that the source has `path`, also as it is printed.
    fn keep_name(&self, path: &str) -> Result<(), TransferError> {
        if self.deletes {
            self.collected().extraneous.insert(path)?;
        }
        if WirePath::new(path).is_ok_and(|path| self.policy.lateness(&path) > 0) {
            self.collected().like_kept.insert(path)?;
        }
        Ok(())
    }

    /// Notes that the source has a file or link at `path`. What the receiver has there may stay, and is a directory
    /// perhaps, with all that is in it.
    pub(super) fn add_file_name(&self, path: &str) -> Result<(), TransferError> {
        self.note_listed(path);
        self.keep_file_name(path)
    }

    fn keep_file_name(&self, path: &str) -> Result<(), TransferError> {
        if self.policy.update || self.policy.ignore_existing {
            return self.add_left_out_name(path);
        }
        self.keep_name(path)
    }

    /// Notes that the source has `path`, as it is printed, and does not transfer it.
    pub(super) fn add_left_out_name(&self, path: &str) -> Result<(), TransferError> {
        self.keep_name(path)?;
        if self.deletes { self.collected().extraneous.leave_out(path) } else { Ok(()) }
    }

    /// Notes that a file or directory, whose name is noted, is at the receiver in the end, or has failed.
    pub(super) fn add_expected(&self, path: &WirePath) {
        if self.deletes {
            self.collected().extraneous.expect(path);
        }
    }

    /// The same for a file that is named, and may go below a directory that is transferred as well.
    pub(super) fn add_named(&self, path: &WirePath) {
        if self.deletes {
            self.collected().named.push(path.clone());
        }
    }

    /// Notes what a walk through a source that goes to `base` has found and does not transfer.
    pub(super) fn add_left_out(
        &self,
        base: &WirePath,
        item: &WalkItem,
    ) -> Result<(), TransferError> {
        match item {
            WalkItem::Skipped { name, .. } | WalkItem::Reserved(name) => {
                self.add_left_out_name(&printed_below(base, name))
            }
            _ => Ok(()),
        }
    }

    /// Notes all names of a listing, of which what the `filter` keeps is transferred.
    pub(super) fn add_names(
        &self,
        groups: &[Group],
        filter: &Filter,
    ) -> Result<(), TransferError> {
        let needs_names =
            self.deletes || self.policy.backup.is_some() || self.attempt.is_some();
        for group in groups.iter().filter(|_| needs_names) {
            let is_kept = filter.keeps_whole(&group.directory);
            if is_kept {
                self.add_directory_name(&self.remote.join(&group.directory)?)?;
                self.note_listed(group.directory.as_str());
            }
            self.keep_name(group.directory.as_str())?;
            let files = group.files.iter().map(|file| (file.name(), true));
            let links = group.links.iter().map(|(name, ..)| (name, self.policy.preserve));
            for (name, is_transferred) in files.chain(links) {
                let path = group.directory.join(name)?;
                if is_transferred && is_kept && filter.keeps(&path, false) {
                    self.note_listed(path.as_str());
                }
                self.keep_file_name(path.as_str())?;
            }
        }
        Ok(())
    }

    /// Reports what the source had before a connection was lost and has no more, once all its names are noted.
    ///
    /// This is a failure of `end`, after which nothing is deleted: a disk may not be mounted.
    pub(super) fn tell_missing(&self, told: &Reporter, end: End) {
        let missing = self.attempt.as_ref().map_or(0, |attempt| attempt.missing(&self.remote));
        if missing > 0 {
            let reason = format!(
                "{missing} files and directories that were there before the connection was lost are gone; make sure \
                 that everything is there, and run the command again"
            );
            told.skip(&self.remote.to_string(), &reason, Some(end));
        }
    }

    /// Notes that a file is about to be transferred, `theirs` at the server.
    pub(super) fn note_begun(&self, theirs: &WirePath) {
        if let Some(attempt) = &self.attempt {
            attempt.note_begun(theirs);
        }
    }

    /// Notes that a file has to be transferred no more.
    pub(super) fn forget_begun(&self, theirs: &WirePath) {
        if let Some(attempt) = &self.attempt {
            attempt.forget_begun(theirs);
        }
    }

    /// Whether an earlier attempt placed the file that the receiver keeps, `theirs` at the server.
    ///
    /// Nothing was there when that attempt began to transfer it.
    pub(super) fn has_placed(&self, theirs: &WirePath) -> bool {
        self.policy.ignore_existing
            && self.attempt.as_ref().is_some_and(|attempt| attempt.has_begun(theirs))
    }

    /// The same where the receiver is at this end: what is `found` has to have size and time of what was `listed`.
    pub(super) fn has_placed_here(
        &self,
        theirs: &WirePath,
        listed: &Offer,
        found: Option<&Offer>,
    ) -> bool {
        self.has_placed(theirs) && found.is_some_and(|found| is_same(listed, found))
    }

    /// Notes a directory that is made if it is missing, and whose attributes are set behind everything else.
    pub(super) fn add_directory(
        &self,
        path: &WirePath,
        group: &Group,
    ) -> Result<(), TransferError> {
        self.add_expected(path);
        let (Some(mode), Some(modified)) = (group.modes.last(), group.modified) else {
            return Ok(());
        };
        let mut collected = self.collected();
        let is_known = collected.directories.last().is_some_and(|last| last.path() == path);
        if self.policy.preserve && !is_known {
            collected.directories.push(Edit::Directory(path.clone(), *mode, modified));
        }
        collected.check()
    }

    /// Notes a symbolic link, or says that it is left out.
    pub(super) fn add_link(
        &self,
        told: &Reporter,
        path: WirePath,
        target: LinkTarget,
        modified: Mtime,
    ) -> Result<(), TransferError> {
        if !self.policy.preserve {
            told.skip(&path.to_string(), IS_LINK, None);
            return self.add_left_out_name(path.as_str());
        }
        let mut collected = self.collected();
        collected.links.push(Edit::Symlink(path, target, modified));
        collected.check()
    }

    /// Whether `path` is another name of a file that has been seen, and becomes a link to it. None does where what
    /// the receiver has under the first name may stay: that may be another file.
    pub(super) fn is_another_name(
        &self,
        path: &WirePath,
        inode: Option<u64>,
        listed: &Offer,
    ) -> Result<bool, TransferError> {
        let Some(inode) = inode.filter(|_| self.policy.preserve) else {
            return Ok(false);
        };
        let mut collected = self.collected();
        if self.policy.update || self.policy.ignore_existing {
            collected.are_separated = true;
            return Ok(false);
        }
        let Some(first) = collected.first_names.get(&inode).cloned() else {
            collected.first_names.insert(inode, path.clone());
            return collected.check().map(|()| false);
        };
        collected.hard_links.push((Edit::HardLink(path.clone(), first), *listed));
        collected.check().map(|()| true)
    }

    /// The number of a file that waits until all its names are known: the receiver may have it under another than the
    /// first.
    pub(super) fn waits_for_names(&self, inode: Option<u64>) -> Option<u64> {
        let Policy { preserve, update, ignore_existing, .. } = self.policy;
        inode.filter(|_| preserve && !update && !ignore_existing)
    }

    /// All other names of files whose first ones are these.
    pub(super) fn other_names(
        &self,
        firsts: &HashSet<WirePath>,
    ) -> HashMap<WirePath, Vec<WirePath>> {
        let mut names: HashMap<_, Vec<_>> = HashMap::new();
        for (edit, _) in &self.collected().hard_links {
            if let Edit::HardLink(name, first) = edit
                && firsts.contains(first)
            {
                names.entry(first.clone()).or_default().push(name.clone());
            }
        }
        names
    }

    /// Notes that the receiver has a file under this of its `other` names: its `first` one becomes a link to that, as
    /// all the rest do.
    pub(super) fn note_elsewhere(&self, first: WirePath, other: WirePath) {
        self.collected().elsewhere.insert(first, other);
    }

    /// Notes a file with permissions that are not preserved.
    pub(super) fn add_special(&self) {
        self.collected().special += u64::from(self.policy.preserve);
    }

    /// Notes that the receiver could not make the directory at `path`.
    pub(super) fn note_refused(&self, path: WirePath) {
        if self.policy.preserve {
            self.collected().failed.insert(path);
        }
    }

    /// Notes that the receiver could not take a file of the directory at `path`, which therefore may not be there.
    pub(super) fn note_doubtful(&self, path: WirePath) {
        if self.policy.preserve {
            self.collected().doubtful.insert(path);
        }
    }

    /// Notes that what has left as `path` was `sent`, and not what was `listed`, if that is so.
    pub(super) fn note_state(&self, path: &WirePath, listed: &Offer, sent: &Offer) {
        if self.policy.preserve && !is_same(listed, sent) {
            self.collected().changed.insert(path.clone());
        }
    }

    pub(super) fn collected(&self) -> MutexGuard<'_, Collected> {
        // What is collected is whole whenever the lock is free.
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file has not been written to, as far as size and time tell. Not all file systems keep nanoseconds, and some
/// whole seconds only.
fn is_same(listed: &Offer, found: &Offer) -> bool {
    let seconds = |offer: &Offer| (offer.size, offer.modified.seconds);
    let micros = |offer: &Offer| offer.modified.nanos / 1000;
    seconds(listed) == seconds(found)
        && (found.modified.nanos == 0 || micros(listed) == micros(found))
}

#[cfg(test)]
mod tests;
