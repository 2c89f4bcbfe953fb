//! What is done at the end of a transfer, when all files are in place: what the source no longer has
//! is removed, links are made, directories get their attributes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attempts::Attempt;
use super::attributes::{InPlace, Ours};
use super::jobs::{Job, Kind};
use super::options::TransferOptions;
use super::producer::Reporter;
use super::requests::next_request;
use super::server_tree::Remote;
use crate::End;
use crate::error::{Error, Feature};
use crate::protocol::{
    Edit, EditKind, Edited, Editor, Extraneous, Fail, FailCode, Filter, Group, IS_LINK,
    LinkTarget, MadeWay, Message, Mtime, Names, Offer, Policy, RESERVED, Root, TransferError,
    Walk, WalkItem, Wanted, WirePath, json_len, printed_below,
};
use crate::session::Mailbox;

/// Edits that are remembered at most; a peer must not fill the memory.
const MAX_EDITS: usize = 1 << 20;

/// Why another name of a file is not made.
const MAY_BE_ANOTHER: &str =
    "another name of a file, and not made because a file has failed, which may be that one";
/// The same where the file that has been transferred is not the one that was listed.
const HAS_CHANGED: &str =
    "another name of a file, and not made because that has changed since; transfer it again";
/// Told once, however many names it concerns.
const SEPARATED: &str =
    "other names of a file become files of their own, because what the receiver has may stay";

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

#[derive(Default)]
pub(super) struct Collected {
    pub(super) extraneous: Extraneous,
    links: Vec<Edit>,
    /// With what was listed of the file.
    hard_links: Vec<(Edit, Offer)>,
    /// Files that have left in another state than they were listed in.
    changed: HashSet<WirePath>,
    directories: Vec<Edit>,
    /// Those that the receiver could not make.
    failed: HashSet<WirePath>,
    /// Those of which it could not take a file, perhaps because they are not there.
    doubtful: HashSet<WirePath>,
    /// What is in place, if attributes are wanted; directories behind what is in them.
    in_place: Vec<InPlace>,
    /// The first names of files with several.
    first_names: HashMap<u64, WirePath>,
    /// First names under which the receiver does not have the file, and those under which it does.
    elsewhere: HashMap<WirePath, WirePath>,
    /// There are such files, and each name becomes a file of its own.
    are_separated: bool,
    /// Files with permissions that are not preserved.
    special: u64,
    /// What the source has under names of kept files.
    like_kept: Names,
    /// Files that are named one by one.
    named: Vec<WirePath>,
    /// What the server has in the place of the source's links and of files with several names, for a dry run.
    pub(super) there: HashMap<WirePath, There>,
    /// All that the server has where something would be sent, for a dry run.
    pub(super) listings: Vec<(WirePath, Arc<Remote>)>,
    /// Directories that would make way for something of another kind, and have been told with what is in them.
    pub(super) making_way: HashSet<WirePath>,
    /// Directories of the source, for a dry run that has to know what would be kept.
    pub(super) source_directories: Names,
}

/// A file or link that the server has.
pub(super) struct There {
    /// Where a link leads.
    pub(super) target: Option<LinkTarget>,
    /// The number of a file that has several names.
    pub(super) inode: Option<u64>,
    pub(super) modified: Mtime,
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

    /// Whether nothing is changed.
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

    /// Whether an edit fails because of what has been told already.
    fn is_doubtful(&self, edit: &Edit) -> bool {
        matches!(edit, Edit::Directory(path, ..) if self.collected().doubtful.contains(path))
    }

    /// Notes that what has left as `path` was `sent`, and not what was `listed`, if that is so.
    pub(super) fn note_state(&self, path: &WirePath, listed: &Offer, sent: &Offer) {
        if self.policy.preserve && !is_same(listed, sent) {
            self.collected().changed.insert(path.clone());
        }
    }

    /// Plans the end of a transfer into a directory of this machine, if there is one already.
    pub(super) fn finish_here(&self, reporter: &Reporter, root: Option<Arc<Root>>) {
        if !self.needs_links() {
            return;
        }
        let (closing, told) = (self.clone(), reporter.clone());
        let work = Box::new(move |mailbox: &Mailbox| {
            closing.tell_made_way(&told);
            if let (Some(root), true) = (&root, closing.may_delete(&told)) {
                closing.look_here(&told, root)?;
            }
            let is_as_listed = |first: &WirePath, listed: &Offer| {
                if closing.dry_run {
                    return true;
                }
                let found = root.as_ref().and_then(|root| root.offer(first));
                found.is_some_and(|found| is_same(listed, &found))
            };
            let edits = closing.edits(&told, End::Local, is_as_listed);
            let editor = root.clone().map(|root| Editor::new(root, closing.policy.clone()));
            closing.apply_here(edits, editor.as_ref(), &told);
            closing.attributes_here(mailbox, &told)?;
            closing.apply_here(closing.directories(), editor.as_ref(), &told);
            Ok(None)
        });
        reporter.at_last(Job { kind: Kind::Inquiry, name: ".".to_owned(), work });
    }

    fn apply_here(&self, edits: Vec<Edit>, editor: Option<&Editor>, told: &Reporter) {
        if self.dry_run {
            return self.plan_here(&edits, editor, told);
        }
        for edit in edits {
            let name = printed_below(&self.remote, &edit.name());
            if let Some(editor) = editor {
                told.edited(name, &edit, editor.apply(&edit));
            }
        }
    }

    /// Plans the end of a transfer into `directories` of the server.
    pub(super) fn finish_there(&self, reporter: &Reporter, directories: Vec<WirePath>) {
        let is_needed = !directories.is_empty()
            || self.wanted.anything()
            || self.dry_run
            || !self.collected().hard_links.is_empty();
        if !self.needs_links() || !is_needed {
            return;
        }
        self.look_around(reporter, &directories);
        let looks = self.deletes || self.dry_run;
        for directory in directories.into_iter().filter(|_| looks) {
            let (closing, told) = (self.clone(), reporter.clone());
            let name = directory.to_string();
            let work = Box::new(move |mailbox: &Mailbox| {
                if closing.may_delete(&told) || closing.dry_run {
                    closing.look_there(&told, mailbox, &directory)?;
                }
                Ok(None)
            });
            reporter.at_last(Job { kind: Kind::Inquiry, name, work });
        }
        let (closing, told) = (self.clone(), reporter.clone());
        let work = Box::new(move |mailbox: &Mailbox| {
            let changed = std::mem::take(&mut closing.collected().changed);
            let edits = closing.edits(&told, End::Remote, |first, _| !changed.contains(first));
            if closing.dry_run {
                closing.plan_there(&edits, &told);
                return Ok(None);
            }
            match closing.edit_there(mailbox, edits, &told) {
                // A server that is read-only has said so of every file.
                Err(TransferError::Remote(Fail { code: FailCode::Refused, .. }))
                    if !told.is_faultless() =>
                {
                    Ok(None)
                }
                edited => edited.map(|()| None),
            }
        });
        reporter.at_last(Job { kind: Kind::Inquiry, name: ".".to_owned(), work });
    }

    /// Expects the named files that go below one of these `directories` of the server. If there are several, plans to
    /// find out how they are spelled.
    fn look_around(&self, reporter: &Reporter, directories: &[WirePath]) {
        let mut collected = self.collected();
        for path in std::mem::take(&mut collected.named) {
            if directories.iter().any(|directory| path.below(directory).is_some()) {
                collected.extraneous.expect(&path);
            }
        }
        if !self.deletes || self.dry_run || !collected.extraneous.has_several() {
            return;
        }
        let parents = directories.iter().filter_map(WirePath::split_last);
        let parents: HashSet<_> = parents.map(|(parent, _)| parent).collect();
        for parent in parents {
            let closing = self.clone();
            let name = parent.to_string();
            let work = Box::new(move |mailbox: &Mailbox| {
                closing.see_directories(mailbox, &parent).map(|()| None)
            });
            reporter.at_last(Job { kind: Kind::Inquiry, name, work });
        }
    }

    /// Sees which directories a directory of the server has.
    fn see_directories(
        &self,
        mailbox: &Mailbox,
        parent: &WirePath,
    ) -> Result<(), TransferError> {
        if !ask_for_listing(mailbox, parent, Some(1), false)? {
            return Ok(());
        }
        Reporter::look_at_listing(mailbox, |groups| {
            for group in groups.iter().filter(|group| !group.directory.is_root()) {
                let path = parent.join(&group.directory)?;
                self.collected().extraneous.see(path.as_str());
            }
            Ok(())
        })
    }

    fn edit_there(
        &self,
        mailbox: &Mailbox,
        edits: Vec<Edit>,
        told: &Reporter,
    ) -> Result<(), TransferError> {
        self.send_edits(mailbox, edits, told)?;
        self.attributes_there(mailbox, told)?;
        self.send_edits(mailbox, self.directories(), told)
    }

    /// Sends edits, a request behind the other.
    pub(super) fn send_edits(
        &self,
        mailbox: &Mailbox,
        edits: impl IntoIterator<Item = Edit>,
        told: &Reporter,
    ) -> Result<(), TransferError> {
        let mut edits = edits.into_iter().peekable();
        while edits.peek().is_some() {
            let request = next_request(&mut edits, json_len);
            let (edits, policy) = (request.clone(), self.policy.clone());
            self.note_in_flight(&request);
            mailbox.send(Message::Edit { edits, policy })?;
            let mut failed = HashMap::new();
            let (unchanged, kept) = loop {
                match mailbox.recv()? {
                    Message::Fault { file, fail } => drop(failed.insert(file, fail)),
                    Message::Edited { unchanged, kept } => break (unchanged, kept),
                    other => return Err(TransferError::unexpected(&other)),
                }
            };
            self.note_in_flight(&[]);
            for (number, edit) in (0..).zip(request) {
                let result = match failed.remove(&number) {
                    Some(fail) => Err(TransferError::Remote(fail)),
                    None if unchanged.contains(&number) && !self.has_linked(&edit) => {
                        Ok(Edited::Unchanged)
                    }
                    None if kept.contains(&number) => Ok(Edited::Kept),
                    None => Ok(Edited::Done),
                };
                if result.is_ok() || !self.is_doubtful(&edit) {
                    told.edited(edit.name(), &edit, result);
                }
            }
        }
        Ok(())
    }

    fn note_in_flight(&self, edits: &[Edit]) {
        if let Some(attempt) = &self.attempt {
            attempt.note_in_flight(edits);
        }
    }

    /// Whether a link that is there may be an earlier attempt's.
    fn has_linked(&self, edit: &Edit) -> bool {
        edit.kind() == EditKind::Link
            && self.attempt.as_ref().is_some_and(|attempt| attempt.was_in_flight(edit))
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

    /// Whether it is certain what the source has.
    fn may_delete(&self, told: &Reporter) -> bool {
        self.deletes && told.is_faultless()
    }

    /// What is to be done before attributes are set, in its order.
    fn edits(
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
    fn directories(&self) -> Vec<Edit> {
        let mut collected = self.collected();
        let directories = std::mem::take(&mut collected.directories);
        let is_left = |edit: &Edit| !collected.failed.contains(edit.path());
        directories.into_iter().rev().filter(is_left).collect()
    }

    /// Looks for what is to be removed below a directory of this machine.
    fn look_here(&self, told: &Reporter, root: &Arc<Root>) -> Result<(), TransferError> {
        let mut collected = self.collected();
        let mut group = Group::default();
        for item in Walk::new(Arc::clone(root), WirePath::root()).with_links(true) {
            match item {
                WalkItem::Directory(next) => group = next,
                WalkItem::File(file) => group.files = vec![file],
                WalkItem::Link(name, target, time) => group.links = vec![(name, target, time)],
                WalkItem::Reserved(name) => {
                    if !self.removes_parts || !collected.extraneous.take_part(&name) {
                        collected.extraneous.note_stays(&name);
                        told.not_deleted(&printed_below(&self.remote, &name), RESERVED, None);
                    }
                }
                // Nothing that can't be named is removed.
                WalkItem::Skipped { name, reason, unread, .. } => {
                    collected.extraneous.note_stays(&name);
                    let counts = unread && collected.extraneous.may_go(&name);
                    let name = printed_below(&self.remote, &name);
                    told.not_deleted(&name, &reason, counts.then_some(End::Local));
                }
            }
            collected.extraneous.take(&WirePath::root(), std::slice::from_ref(&group))?;
            group.files.clear();
            group.links.clear();
        }
        Ok(())
    }

    /// Looks for what is to be removed below a directory of the server.
    fn look_there(
        &self,
        told: &Reporter,
        mailbox: &Mailbox,
        directory: &WirePath,
    ) -> Result<(), TransferError> {
        if !ask_for_listing(mailbox, directory, None, true)? {
            return Ok(());
        }
        let links = self.collected().names_of_links();
        let take = |groups: &[Group]| {
            let mut collected = self.collected();
            if self.dry_run {
                for group in groups {
                    collected.look_at(directory, group, &links)?;
                }
            }
            collected.extraneous.take(directory, groups)
        };
        if self.may_delete(told) {
            let stays = |name: &str| {
                let (mut collected, name) = (self.collected(), printed_below(directory, name));
                if self.removes_parts && collected.extraneous.take_part(&name) {
                    return None;
                }
                collected.extraneous.note_stays(&name);
                Some(collected.extraneous.may_go(&name))
            };
            return told.take_destination(mailbox, directory, take, stays);
        }
        Reporter::look_at_listing(mailbox, take)
    }

    pub(super) fn collected(&self) -> MutexGuard<'_, Collected> {
        // What is collected is whole whenever the lock is free.
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collected {
    /// The names that become links, each to the one under which the receiver has the file.
    fn take_hard_links(&mut self) -> Vec<(Edit, Offer)> {
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
    fn names_of_links(&self) -> HashSet<WirePath> {
        let mut names: HashSet<_> = self.links.iter().map(|edit| edit.path().clone()).collect();
        for (edit, _) in &self.hard_links {
            if let Edit::HardLink(name, first) = edit {
                names.extend([name.clone(), first.clone()]);
            }
        }
        names
    }

    /// Notes what of a listing below `directory` of the server could be in the place of one of these `links`.
    fn look_at(
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

    fn check(&self) -> Result<(), TransferError> {
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

/// Says how many files have lost permissions that are not preserved.
fn tell_special(told: &Reporter, files: u64) {
    if files > 0 {
        let these = if files == 1 { "1 file has" } else { &format!("{files} files have") };
        told.note(&format!(
            "{these} setuid, setgid or sticky bits at the source, which are not preserved"
        ));
    }
}

/// Asks for what a directory of the server has; false if it is not there.
fn ask_for_listing(
    mailbox: &Mailbox,
    directory: &WirePath,
    depth: Option<u32>,
    links: bool,
) -> Result<bool, TransferError> {
    let path = directory.clone();
    mailbox.send(Message::List { path, depth, links, content: false })?;
    match mailbox.recv() {
        Ok(Message::Entry { .. }) => Ok(true),
        Ok(other) => Err(TransferError::unexpected(&other)),
        Err(TransferError::Remote(Fail { code: FailCode::NotFound, .. })) => Ok(false),
        Err(error) => Err(error),
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

/// What of the `options` only a server of the current version can serve.
pub(super) fn beyond_version_2(options: &TransferOptions, sends: bool) -> Option<Feature> {
    let policy = &options.policy;
    let features = [
        (options.owner, Feature::Owner),
        (options.xattrs, Feature::Xattrs),
        (options.checksum && options.dry_run, Feature::Digests),
        (policy.preserve, Feature::Preserve),
        (options.delete, Feature::Delete),
        (policy.update, Feature::Update),
        (policy.ignore_existing && sends, Feature::IgnoreExisting),
        (policy.backup.is_some() && sends, Feature::Backup),
    ];
    features.into_iter().find(|(is_given, _)| *is_given).map(|(_, feature)| feature)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;
    use crate::client::producer::Report;
    use crate::protocol::{Encoded, FileEntry, MAX_FILES, Suffix};

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    fn reporter() -> (Reporter, mpsc::Receiver<Report>) {
        let (reports, heard) = mpsc::channel();
        (Reporter::new(reports, Arc::new(|| {}), Arc::default(), Arc::default()), heard)
    }

    /// What would be deleted below `tree`, where the source has `R.E.M./a` and the destination this.
    fn deleted(directory: &str) -> (Vec<Edit>, Vec<Report>) {
        let options = TransferOptions { delete: true, ..TransferOptions::default() };
        let closing = Closing::new(&options, WirePath::root(), true, None);
        closing.add_tree(&path("tree"), &Filter::all());
        for name in ["tree", "tree/R.E.M.", "tree/R.E.M./a"] {
            closing.add_name(name).unwrap();
            closing.add_expected(&path(name));
        }
        let offer = Offer { size: 1, modified: Mtime::default(), mode: 0o600 };
        let file = |name: &str| vec![FileEntry::new(path(name), offer)];
        let listed = [
            Group { files: file("gone"), ..Group::default() },
            Group { directory: path(directory), files: file("a"), ..Group::default() },
        ];
        closing.collected().extraneous.take(&path("tree"), &listed).unwrap();
        let (told, heard) = reporter();
        let edits = closing.edits(&told, End::Remote, |_, _| true);
        (edits, heard.try_iter().collect())
    }

    #[test]
    fn what_is_not_transferred_is_not_missed_after_a_reconnection() {
        let attempts = crate::client::attempts::Attempts::default();
        let offer = Offer { size: 1, modified: Mtime::default(), mode: 0o600 };
        let group = |directory: &str, names: &[&str], links: &[&str]| {
            let files = names.iter().map(|name| FileEntry::new(path(name), offer)).collect();
            let target = || LinkTarget::new("elsewhere").unwrap();
            let link = |name: &&str| (path(name), target(), Mtime::default());
            let links = links.iter().map(link).collect();
            Group { directory: path(directory), files, links, ..Group::default() }
        };
        let filter = Filter::new(["*.log", "cache"], []).unwrap();
        for (deletes, preserve) in [(false, false), (true, false), (false, true)] {
            let policy = Policy { preserve, ..Policy::default() };
            let options =
                TransferOptions { delete: deletes, policy, ..TransferOptions::default() };
            let closing = || {
                let attempt = attempts.begin();
                (Closing::new(&options, WirePath::root(), true, Some(&attempt)), attempt)
            };
            let (first, _) = closing();
            let before =
                [group("", &["kept", "a.log"], &["link"]), group("cache", &["x"], &[])];
            first.add_names(&before, &filter).unwrap();
            first.add_left_out_name(".b.tack-part").unwrap();
            let reserved = WalkItem::Reserved(".c.tack-part".to_owned());
            first.add_left_out(&WirePath::root(), &reserved).unwrap();
            let (second, attempt) = closing();
            second.add_names(&[group("", &["kept"], &[])], &filter).unwrap();
            assert_eq!(attempt.missing(&WirePath::root()), usize::from(preserve));
        }
    }

    #[test]
    fn nothing_is_deleted_where_the_destination_spells_names_otherwise() {
        let (edits, told) = deleted("R.E.M");
        assert_eq!(edits, []);
        let [Report::Skipped { name, reason, failed }] = &told[..] else { panic!() };
        assert_eq!((name.as_str(), *failed), ("tree/gone", Some(End::Remote)));
        assert!(reason.contains("2 names"), "{reason}");
        let (edits, told) = deleted("R.E.M.");
        assert_eq!((edits, told.len()), (vec![Edit::Remove(path("tree/gone"))], 0));
    }

    #[test]
    fn edits_travel_in_no_more_requests_than_their_number_needs() {
        let target = || LinkTarget::new("../elsewhere/of/a/usual/length").unwrap();
        let modified = Mtime { seconds: 1_700_000_000, nanos: 123_456_789 };
        let link = |path| Edit::Symlink(path, target(), modified);
        for edit in [&Edit::Remove as &dyn Fn(WirePath) -> Edit, &link] {
            let edits = (0..2000).map(|n| edit(path(&format!("tree/{n:014}"))));
            let (told, heard) = reporter();
            let requests = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&requests);
            let mailbox = Mailbox::answered_by(move |message| {
                assert!(matches!(&message, Message::Edit { .. }));
                assert!(Encoded::new(message).is_ok());
                counted.fetch_add(1, Ordering::Relaxed);
                vec![Message::Edited { unchanged: Vec::new(), kept: Vec::new() }]
            });
            let options = TransferOptions::default();
            let closing = Closing::new(&options, WirePath::root(), false, None);
            closing.send_edits(&mailbox, edits, &told).unwrap();
            assert_eq!(requests.load(Ordering::Relaxed), 2000usize.div_ceil(MAX_FILES));
            assert_eq!(heard.try_iter().count(), 2000);
        }
    }

    #[test]
    fn what_a_server_has_done_without_an_answer_is_told_by_the_next_attempt() {
        let attempts = crate::client::attempts::Attempts::default();
        let options = TransferOptions { delete: true, ..TransferOptions::default() };
        let link = |name: &str| Edit::HardLink(path(name), path("tree/first"));
        let removals = ["done", "left", "back"].map(|name| path(&format!("tree/{name}")));
        let first = Closing::new(&options, WirePath::root(), false, Some(&attempts.begin()));
        let (told, heard) = reporter();
        let edits =
            removals.map(Edit::Remove).into_iter().chain([link("tree/a"), link("tree/b")]);
        let lost = first.send_edits(&Mailbox::hearing(Vec::new()), edits, &told);
        assert!(matches!(lost, Err(TransferError::Disconnected)));
        assert_eq!(heard.try_iter().count(), 0);

        let second = Closing::new(&options, WirePath::root(), false, Some(&attempts.begin()));
        second.add_tree(&path("tree"), &Filter::all());
        // One is to be removed still, and the source has another one by now.
        second.add_name("tree/back").unwrap();
        let offer = Offer { size: 1, modified: Mtime::default(), mode: 0o600 };
        let files = vec![FileEntry::new(path("left"), offer)];
        let listed = [Group { files, ..Group::default() }];
        second.collected().extraneous.take(&path("tree"), &listed).unwrap();
        let edits = second.edits(&told, End::Remote, |_, _| true);
        assert_eq!(edits, [Edit::Remove(path("tree/left"))]);
        let told_of = |report| match report {
            Report::Edited { name, result, .. } => (name, result.unwrap()),
            _ => panic!("something else is told"),
        };
        let removed: Vec<_> = heard.try_iter().map(told_of).collect();
        assert_eq!(removed, [("tree/done".to_owned(), Edited::Done)]);
        let mailbox = Mailbox::answered_by(|_| {
            vec![Message::Edited { unchanged: vec![0, 1], kept: Vec::new() }]
        });
        second.send_edits(&mailbox, [link("tree/a"), link("tree/c")], &told).unwrap();
        let linked: Vec<_> = heard.try_iter().map(told_of).collect();
        let expected = [("tree/a", Edited::Done), ("tree/c", Edited::Unchanged)];
        assert_eq!(linked, expected.map(|(name, edited)| (name.to_owned(), edited)));
    }

    #[test]
    fn the_longest_edits_fit_into_their_requests() {
        let long =
            |n: usize| path(&vec![format!("{n:03}{}", "\u{1}".repeat(252)); 16].join("/"));
        let modified = Mtime { seconds: i64::MIN, nanos: u32::MAX };
        let target = LinkTarget::new("\u{1}".repeat(4095)).unwrap();
        let edits = (0..100).flat_map(|n| {
            [
                Edit::Symlink(long(n), target.clone(), modified),
                Edit::HardLink(long(n), long(n + 1)),
                Edit::RemovePart(path(&format!("\"{n}"))),
                Edit::Directory(long(n), u32::MAX, modified),
            ]
        });
        let backup = Some(Suffix::new("\u{1}".repeat(64)).unwrap());
        let policy = Policy {
            update: true,
            ignore_existing: true,
            backup,
            preserve: true,
            owner: true,
            whole_file: true,
            make_way: true,
            opens_directories: true,
            keeps_links: true,
        };
        let (told, _heard) = reporter();
        let mailbox = Mailbox::answered_by(|message| {
            let encoded = Encoded::new(message);
            assert!(encoded.is_ok(), "{encoded:?}");
            vec![Message::Edited { unchanged: Vec::new(), kept: Vec::new() }]
        });
        let options = TransferOptions { policy, ..TransferOptions::default() };
        let closing = Closing::new(&options, WirePath::root(), false, None);
        closing.send_edits(&mailbox, edits, &told).unwrap();
    }
}
