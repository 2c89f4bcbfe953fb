//! Many small files that are asked for with one request.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attributes::Ours;
use super::get::{Listing, locked};
use super::jobs::{Job, Kind};
use super::refused::Directory;
use crate::protocol::{
    Fail, FailCode, FileEntry, Group, Manifest, Message, Offer, Root, SMALL_FILE, Standing,
    TransferError, Tree, Want, WantGroup, WirePath,
};
use crate::session::{
    Expected, Mailbox, Results, kept, receive_bundles, unchanged, uncommitted, with_attributes,
};

/// Small files that are wanted.
#[derive(Default)]
struct GetBatch {
    groups: Vec<WantGroup>,
    expected: Vec<Expected>,
}

impl Listing {
    /// Takes a part of the listing: creates its directories, and asks for what is not there.
    pub(super) fn take_groups(
        self: &Arc<Self>,
        tree: &mut Tree,
        root: &Arc<Root>,
        groups: &[Group],
    ) -> Result<(), TransferError> {
        let mut now = Vec::new();
        self.closing.add_names(groups, &self.filter)?;
        for group in groups {
            if !self.filter.keeps_whole(&group.directory) {
                continue;
            }
            let created = tree.create(&group.directory, &group.modes);
            self.closing.tell_made_way(&self.told);
            if let Err(error) = created {
                self.refuse(group, error)?;
                continue;
            }
            self.closing.add_directory(&group.directory, group)?;
            self.add_in_place(root, &group.directory)?;
            self.take_links(root, group)?;
            let mut files: BTreeMap<usize, Vec<_>> = BTreeMap::new();
            for (position, file) in group.files.iter().enumerate() {
                let path = group.directory.join(file.name())?;
                let inode = group.inode(position);
                if !self.filter.keeps(&path, false) {
                    continue;
                }
                let is_another = self.closing.is_another_name(&path, inode, &file.offer())?;
                let file = file.clone().with_inode(inode);
                if is_another && !self.is_elsewhere(tree, &path, &file) {
                    continue;
                }
                if !is_another && group.special.contains(&(position as u32)) {
                    self.closing.add_special();
                }
                let lateness = self.policy.lateness(&path);
                if lateness == 0
                    && !is_another
                    && let Some(inode) = self.waits(tree, &path, &file)
                {
                    let file = (group.directory.clone(), file);
                    locked(&self.waiting).add(inode, path, file);
                    continue;
                }
                self.closing.add_expected(&path);
                files.entry(lateness).or_default().push(file);
            }
            let with =
                |files| Group { files, ..Group::new(group.directory.clone(), Vec::new()) };
            now.push(with(files.remove(&0).unwrap_or_default()));
            for (lateness, files) in files {
                locked(&self.late).entry(lateness).or_default().push(with(files));
            }
        }
        self.take_files(tree, root, &now)
    }

    /// The number of a file that waits until all its names are known, because it is not here under its first one.
    fn waits(&self, tree: &Tree, path: &WirePath, file: &FileEntry) -> Option<u64> {
        self.closing.waits_for_names(file.inode()).filter(|_| !tree.has(path, &file.offer()))
    }

    /// Asks for files that have waited, and are here under none of their names.
    pub(super) fn take_waiting(
        self: &Arc<Self>,
        tree: &mut Tree,
        root: &Arc<Root>,
    ) -> Result<(), TransferError> {
        let (mut manifest, mut begun) = (Manifest::default(), None);
        let waiting = locked(&self.waiting).take();
        for (path, (directory, file)) in waiting {
            self.closing.add_expected(&path);
            if begun.as_ref() != Some(&directory) {
                begun = Some(directory.clone());
                if let Some(full) = manifest.directory(Group::new(directory, Vec::new())) {
                    self.take_files(tree, root, &full)?;
                }
            }
            if let Some(full) = manifest.file(file) {
                self.take_files(tree, root, &full)?;
            }
        }
        self.take_files(tree, root, &manifest.take())
    }

    /// Whether a file that waits is here under this other name.
    fn is_elsewhere(&self, tree: &Tree, path: &WirePath, file: &FileEntry) -> bool {
        let mut waiting = locked(&self.waiting);
        let Some(inode) = file.inode().filter(|inode| waiting.contains(*inode)) else {
            return false;
        };
        if self.policy.lateness(path) > 0 || !tree.has(path, &file.offer()) {
            return false;
        }
        let first = waiting.remove(inode);
        let is_elsewhere = first.is_some();
        if let Some(first) = first {
            self.closing.note_elsewhere(first, path.clone());
        }
        is_elsewhere
    }

    /// Notes that a directory can't be made.
    fn refuse(&self, group: &Group, error: TransferError) -> Result<(), TransferError> {
        let mut files = Vec::new();
        for file in &group.files {
            let path = group.directory.join(file.name())?;
            if self.filter.keeps(&path, false) {
                files.push(self.remote.join(&path)?.as_str().to_owned());
            }
        }
        let path = self.remote.join(&group.directory)?;
        locked(&self.refused).add(Directory { path, files, error }, &self.told);
        Ok(())
    }

    /// Asks for what is not there of files whose directories are.
    pub(super) fn take_files(
        self: &Arc<Self>,
        tree: &mut Tree,
        root: &Arc<Root>,
        groups: &[Group],
    ) -> Result<(), TransferError> {
        let mut batch = GetBatch::default();
        for group in groups {
            let mut wanted = Vec::new();
            for entry in &group.files {
                let (path, offer) = (group.directory.join(entry.name())?, entry.offer());
                let remote = self.remote.join(&path)?;
                let found = tree.standing(&path, &offer, entry.inode());
                let compare =
                    match found.map(|found| self.or_placed(found, root, &path, &offer)) {
                        Err(error) => {
                            self.told.file(remote.as_str().to_owned(), Err(error));
                            continue;
                        }
                        Ok(standing @ (Standing::Unchanged | Standing::Attributes)) => {
                            self.add_in_place(root, &path)?;
                            let outcome = match standing {
                                Standing::Attributes => with_attributes(&offer),
                                _ => unchanged(&offer),
                            };
                            self.told.file(remote.as_str().to_owned(), Ok(outcome));
                            continue;
                        }
                        Ok(Standing::Kept) => {
                            self.told.file(remote.as_str().to_owned(), Ok(kept(&offer)));
                            continue;
                        }
                        Ok(Standing::Compare(digest)) => Some(digest),
                        Ok(Standing::Wanted) => None,
                    };
                if !self.checksum {
                    // Otherwise it may turn out to be there.
                    self.closing.note_begun(&remote);
                }
                if offer.size > SMALL_FILE {
                    let policy = &self.policy_within;
                    self.submit(self.fetch(root, remote, path, offer.size, policy));
                    continue;
                }
                wanted.push(Want(entry.name().clone(), compare));
                batch.expect(path, &offer, compare);
                self.told.progress.expect(offer.size);
            }
            if !wanted.is_empty() {
                batch.groups.push(WantGroup(group.directory.clone(), wanted));
            }
        }
        if !batch.expected.is_empty() {
            self.submit(self.fetch_batch(root, batch));
        }
        Ok(())
    }

    fn take_links(&self, root: &Arc<Root>, group: &Group) -> Result<(), TransferError> {
        for (name, target, modified) in &group.links {
            let path = group.directory.join(name)?;
            if self.filter.keeps(&path, false) {
                self.add_in_place(root, &path)?;
                self.closing.add_link(&self.told, path, target.clone(), *modified)?;
            }
        }
        Ok(())
    }

    /// What is found of a file, which is unchanged if it stays and an earlier attempt has placed it.
    fn or_placed(
        &self,
        found: Standing,
        root: &Arc<Root>,
        path: &WirePath,
        listed: &Offer,
    ) -> Standing {
        let is_placed = || {
            let remote = self.remote.join(path).unwrap_or_default();
            self.closing.has_placed_here(&remote, listed, root.offer(path).as_ref())
        };
        if found == Standing::Kept && is_placed() { Standing::Unchanged } else { found }
    }

    /// Notes that something of the server's is in place here.
    fn add_in_place(&self, root: &Arc<Root>, path: &WirePath) -> Result<(), TransferError> {
        let ours = Ours::Below(Arc::clone(root), path.clone());
        self.closing.add_in_place(self.remote.join(path)?, ours)
    }

    fn fetch_batch(self: &Arc<Self>, root: &Arc<Root>, batch: GetBatch) -> Job {
        let (listing, root) = (Arc::clone(self), Arc::clone(root));
        let name = self.remote.to_string();
        let work = Box::new(move |mailbox: &Mailbox| {
            let GetBatch { groups, expected } = batch;
            let mut tree =
                Tree::new(Arc::clone(&root), WirePath::root(), true, listing.write_limit)
                    .with_policy(Arc::clone(&listing.policy_within))
                    .with_made_way(listing.closing.made_way());
            let mut results = Results::new();
            let base = listing.remote.clone();
            let ended = mailbox.send(Message::GetMany { base, groups }).and_then(|()| {
                receive_bundles(
                    mailbox,
                    &mut tree,
                    &listing.commit,
                    expected.clone(),
                    &listing.told.progress,
                    &mut results,
                    || Ok(()),
                )
            });
            if let Err(error) = &ended {
                mailbox.fail(error);
            }
            listing.closing.tell_made_way(&listing.told);
            listing.conclude(&root, &expected, results, ended)?;
            Ok(None)
        });
        Job { kind: Kind::Batch, name, work }
    }

    /// Reports what became of each file.
    fn conclude(
        &self,
        root: &Arc<Root>,
        expected: &[Expected],
        mut results: Results,
        ended: Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let mut open = Vec::new();
        for Expected { file, path, offer, .. } in expected {
            let remote = self.remote.join(path)?;
            match results.remove(file) {
                // It may have become large since it was listed.
                Some(Err(TransferError::Remote(Fail {
                    code: FailCode::SourceChanged,
                    ..
                }))) => {
                    let policy = &self.policy_within;
                    let job = self.fetch(root, remote, path.clone(), offer.size, policy);
                    self.told.follow_up(job);
                }
                Some(result) => {
                    if result.is_ok() {
                        self.add_in_place(root, path)?;
                    }
                    self.told.file(remote.as_str().to_owned(), result);
                }
                None => open.push(remote),
            }
        }
        let unknown = if open.is_empty() { Ok(()) } else { Err(uncommitted()) };
        if let Err(error) = ended.and(unknown) {
            if open.is_empty() {
                open.push(self.remote.clone());
            }
            let names = open.iter().map(|path| path.as_str().to_owned()).collect();
            self.told.batch_failed(names, error);
        }
        Ok(())
    }
}

impl GetBatch {
    fn expect(
        &mut self,
        path: WirePath,
        offer: &Offer,
        compare: Option<crate::protocol::Digest>,
    ) {
        let file = self.expected.len() as u32;
        let (offer, is_unwanted) = (*offer, false);
        self.expected.push(Expected { file, path, offer, compare, is_unwanted });
    }
}
