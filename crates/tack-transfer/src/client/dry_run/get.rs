//! What fetching would do: what the server lists is held against what is there on this machine.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Name, is_there, wait_for_directories};
use crate::client::attributes::Ours;
use crate::client::closing::Closing;
use crate::client::comparison::{ComparedFile, Comparison};
use crate::client::get::{expect_end, or_latest};
use crate::client::producer::Reporter;
use crate::client::refused::{Directory, Refused};
use crate::client::waiting::Waiting;
use crate::error::Error;
use crate::protocol::{
    Change, EntryKind, Filter, Found, Goes, Group, Offer, Policy, Root, SMALL_FILE,
    TransferError, WirePath, check_backup, check_place, may_create_in, printed_below,
};
use crate::session::Mailbox;

/// What of a listing a dry run of `get` goes by.
pub(in crate::client) struct GetPlan {
    pub(in crate::client) remote: WirePath,
    pub(in crate::client) filter: Filter,
    pub(in crate::client) told: Reporter,
    pub(in crate::client) policy: Arc<Policy>,
    pub(in crate::client) closing: Closing,
    /// The content of files decides.
    pub(in crate::client) checksum: bool,
    /// The server can be asked for digests.
    pub(in crate::client) tells_digests: bool,
    pub(in crate::client) waiting: RefCell<Waiting<Offer>>,
    /// Files that wait until all directories of the source are known.
    pub(in crate::client) behind: RefCell<Vec<(WirePath, Offer)>>,
}

/// Where a dry run of `get` looks.
pub(in crate::client) enum Local {
    /// At the file of this name in this directory.
    File(PathBuf, WirePath),
    /// Below this directory.
    Directory(PathBuf),
    /// Nowhere: it would go through a pipe or device.
    Through,
}

impl GetPlan {
    /// Holds what the server lists against what is there. A directory that does not exist has nothing.
    pub(in crate::client) fn follow(
        &self,
        mailbox: &Mailbox,
        kind: EntryKind,
        local: &Local,
    ) -> Result<(), TransferError> {
        let mut comparison = Comparison::new(self.checksum);
        self.closing.tell_unplanned(&self.told);
        let (Local::File(directory, _) | Local::Directory(directory)) = local else {
            expect_end(mailbox)?;
            let EntryKind::File { size } = kind else { return Ok(()) };
            self.told.planned(self.remote.as_str().to_owned(), size, Change::New);
            return Ok(());
        };
        let root = match Root::open(directory) {
            Ok(root) => Some(Arc::new(root)),
            // It would be made.
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                if let Err(cause) = check_creation(directory) {
                    self.told.refuse(Error::local(directory)(cause));
                    return Ok(());
                }
                None
            }
            Err(cause) => {
                self.told.refuse(Error::local(directory)(cause));
                return Ok(());
            }
        };
        if let Local::File(directory, name) = local {
            let listed = expect_end(mailbox)?;
            let EntryKind::File { size } = kind else { return Ok(()) };
            let (change, found, refusal) =
                self.change_of_file(root.as_deref(), name, size, listed)?;
            let ours = Ours::At(directory.join(name.as_str()));
            let file = ComparedFile { theirs: self.remote.clone(), ours, size, refusal };
            comparison.plan(&self.told, file, found, change)?;
            comparison.submit(&self.told);
            return Ok(());
        }
        if let Some(Err(error)) =
            root.as_deref().map(|root| self.closing.check_destination(root))
        {
            self.told.refuse(error);
            return Ok(());
        }
        self.closing.add_tree(&WirePath::root(), &self.filter);
        let mut refused = Refused::default();
        let take = |groups: &[Group]| {
            self.compare(groups, root.as_ref(), &mut comparison, &mut refused)
        };
        let skipped = |name: &str| {
            self.closing.add_left_out_name(name)?;
            Ok(self.filter.keeps_printed(name))
        };
        self.told.take_listing(mailbox, &self.remote, take, skipped)?;
        let behind = self.behind.take();
        for (path, offer) in behind.into_iter().chain(self.waiting.take().take()) {
            self.compare_file(path, &offer, root.as_ref(), &mut comparison)?;
        }
        refused.tell(&self.told);
        comparison.submit(&self.told);
        self.closing.finish_here(&self.told, root);
        Ok(())
    }

    /// What would become of the only file, the size of what is there, and why it could not be received if its content is
    /// another.
    fn change_of_file(
        &self,
        root: Option<&Root>,
        name: &WirePath,
        size: u64,
        listed: Option<Offer>,
    ) -> Result<(Change, Option<u64>, Option<TransferError>), TransferError> {
        let Some(root) = root else { return Ok((Change::New, None, None)) };
        let found = root.found(name);
        let there = found.map(|found| found.offer.size);
        let mut refusal = None;
        let change = match listed {
            _ if root.keeps(name, &self.policy, &or_latest(listed, size)) => Change::Kept,
            Some(listed)
                if !self.checksum
                    && Change::of(&listed, found.as_ref()) == Change::Unchanged =>
            {
                Change::by(&self.policy, &listed, found.as_ref())
            }
            _ => {
                // What is named has no directory and no link make way.
                let policy = Policy {
                    make_way: false,
                    keeps_links: true,
                    opens_directories: false,
                    ..(*self.policy).clone()
                };
                check_place(root, name, &policy)?;
                check_backup(root, name, &policy)?;
                refusal = self.refusal(root, name, &policy, there == Some(size))?;
                Change::of_size(size, there)
            }
        };
        Ok((change, there, refusal))
    }

    /// Why nothing can be changed in the directory of a file: an error, unless the file is compared first, and may turn
    /// out to be there.
    fn refusal(
        &self,
        root: &Root,
        path: &WirePath,
        policy: &Policy,
        is_compared: bool,
    ) -> Result<Option<TransferError>, TransferError> {
        match root.check_change_of(path, policy) {
            Ok(()) => Ok(None),
            Err(error) if is_compared && self.tells_digests => Ok(Some(error.into())),
            Err(error) => Err(error.into()),
        }
    }

    /// Holds a part of the listing against what is below `root`.
    fn compare(
        &self,
        groups: &[Group],
        root: Option<&Arc<Root>>,
        comparison: &mut Comparison,
        refused: &mut Refused,
    ) -> Result<(), TransferError> {
        self.closing.add_names(groups, &self.filter)?;
        for group in groups.iter().filter(|group| self.filter.keeps_whole(&group.directory)) {
            match root.map(|root| self.check_directory(root, &group.directory)) {
                Some(Ok(true)) => {
                    self.closing.add_expected(&group.directory);
                    self.plan_mode(group, root)?;
                }
                Some(Err(error)) => {
                    refused.add(self.refused(group, error)?, &self.told);
                    continue;
                }
                _ => {}
            }
            for (position, entry) in group.paths(&WirePath::root()).enumerate() {
                let (path, offer) = entry?;
                let inode = group.inode(position);
                if !self.filter.keeps(&path, false) || self.waits(&path, inode, &offer, root)? {
                    continue;
                }
                if self.policy.backup.is_some() {
                    wait_for_directories(&mut self.behind.borrow_mut(), (path, offer))?;
                } else {
                    self.compare_file(path, &offer, root, comparison)?;
                }
            }
            for (name, target, modified) in &group.links {
                let path = group.directory.join(name)?;
                if self.filter.keeps(&path, false) {
                    self.closing.add_link(&self.told, path, target.clone(), *modified)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a file of the listing is not yet held against what is there, or not at all: it may be there under another
    /// name.
    fn waits(
        &self,
        path: &WirePath,
        inode: Option<u64>,
        offer: &Offer,
        root: Option<&Arc<Root>>,
    ) -> Result<bool, TransferError> {
        let found = root.and_then(|root| root.found(path));
        let is_there = is_there(found.as_ref(), offer, self.checksum);
        let name = Name { path, inode, offer, is_there };
        name.waits(&self.closing, &mut self.waiting.borrow_mut(), *offer)
    }

    /// Holds a file of the listing against what is there.
    fn compare_file(
        &self,
        path: WirePath,
        offer: &Offer,
        root: Option<&Arc<Root>>,
        comparison: &mut Comparison,
    ) -> Result<(), TransferError> {
        let theirs = self.remote.join(&path)?;
        let name = theirs.as_str().to_owned();
        let Some(root) = root else {
            self.told.planned(name, offer.size, Change::New);
            return Ok(());
        };
        if root.keeps(&path, &self.policy, offer) {
            self.closing.add_expected(&path);
            self.told.planned(name, offer.size, Change::Kept);
            return Ok(());
        }
        let found = root.found(&path);
        if found.is_some() {
            self.closing.add_expected(&path);
        }
        let change = Change::by(&self.policy, offer, found.as_ref());
        let (goes, refusal) = if self.needs_no_place(offer, found.as_ref(), change) {
            (Vec::new(), None)
        } else {
            let is_as_long = found.is_some_and(|found| found.offer.size == offer.size);
            match self.check_change(root, &path, is_as_long && offer.size > SMALL_FILE) {
                Ok(checked) => checked,
                Err(error) => {
                    self.told.file(name, Err(error));
                    return Ok(());
                }
            }
        };
        if root.directory(&path).is_ok() {
            self.closing.note_making_way(&path);
            for goes in goes {
                let path = printed_below(&self.remote, &goes.path);
                self.told.planned_removal(path, goes.size);
            }
            self.told.planned_removal(name, 0);
        }
        let ours = Ours::Below(Arc::clone(root), path);
        let file = ComparedFile { theirs, ours, size: offer.size, refusal };
        let found = found.map(|found| found.offer.size);
        comparison.plan(&self.told, file, found, change)
    }

    /// Whether a file is there in the end without having been received into another one.
    fn needs_no_place(&self, offer: &Offer, found: Option<&Found>, change: Change) -> bool {
        if self.checksum && found.is_some_and(|found| found.offer.size == offer.size) {
            // A large one is compared when it is asked for.
            return offer.size <= SMALL_FILE;
        }
        matches!(change, Change::Unchanged | Change::Attributes)
    }

    /// What would go with a directory in the place of a file, if the file can be received there, and why it can't unless
    /// it [is compared first](Self::refusal).
    fn check_change(
        &self,
        root: &Root,
        path: &WirePath,
        is_compared: bool,
    ) -> Result<(Vec<Goes>, Option<TransferError>), TransferError> {
        let goes = check_place(root, path, &self.policy)?;
        check_backup(root, path, &self.policy)?;
        if let Some(kept) = self.closing.is_kept_as_directory(&self.remote.join(path)?) {
            return Err(kept.into());
        }
        Ok((goes, self.refusal(root, path, &self.policy, is_compared)?))
    }

    /// Tells that a directory that is there gets the permissions of the source's.
    fn plan_mode(&self, group: &Group, root: Option<&Arc<Root>>) -> Result<(), TransferError> {
        let found = root.and_then(|root| root.mode_of_directory(&group.directory));
        if self.closing.changes_mode(group, found, false) {
            let name = self.remote.join(&group.directory)?;
            self.told.planned(name.as_str().to_owned(), 0, Change::Attributes);
        }
        Ok(())
    }

    /// Whether there is a directory at `path`. Tells what would make way for one.
    fn check_directory(&self, root: &Root, path: &WirePath) -> Result<bool, TransferError> {
        if let Some(size) = root.in_the_way(path, &self.policy)? {
            let name = self.remote.join(path)?;
            self.told.planned_removal(name.as_str().to_owned(), size);
        }
        Ok(root.has_directory(path, &self.policy)?)
    }

    /// A directory that could not be made, with the files in it that are not left out.
    fn refused(&self, group: &Group, error: TransferError) -> Result<Directory, TransferError> {
        let mut files = Vec::new();
        for entry in group.paths(&WirePath::root()) {
            let (path, _) = entry?;
            if self.filter.keeps(&path, false) {
                files.push(self.remote.join(&path)?.as_str().to_owned());
            }
        }
        Ok(Directory { path: self.remote.join(&group.directory)?, files, error })
    }
}

/// Whether a directory that is missing could be made, with those above it.
fn check_creation(directory: &Path) -> std::io::Result<()> {
    let mut next = Some(directory);
    while let Some(path) = next {
        let path = if path == Path::new("") { Path::new(".") } else { path };
        match path.symlink_metadata() {
            // A link that leads nowhere has its name.
            Ok(_) => {
                return if path.is_dir() { may_create_in(path) } else { Err(in_the_way()) };
            }
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => return Err(cause),
        }
        next = path.parent();
    }
    Ok(())
}

fn in_the_way() -> std::io::Error {
    ErrorKind::AlreadyExists.into()
}
