//! Many small files that are asked for with one request.

use std::sync::Arc;

use super::attributes::Ours;
use super::get::Listing;
use super::jobs::{Job, Kind};
use crate::protocol::{
    Fail, FailCode, Group, Message, Offer, Root, SMALL_FILE, Standing, TransferError, Tree,
    Want, WantGroup, WirePath,
};
use crate::session::{Expected, Mailbox, Results, kept, receive_bundles, unchanged};

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
        let mut batch = GetBatch::default();
        self.closing.add_names(groups)?;
        for group in groups {
            if !self.filter.keeps_whole(&group.directory) {
                continue;
            }
            if let Err(error) = tree.create(&group.directory, &group.modes) {
                let name = self.remote.join(&group.directory)?.as_str().to_owned();
                self.producer.batch_failed(name, group.files.len() as u64, error);
                continue;
            }
            self.closing.add_directory(&group.directory, group)?;
            self.add_in_place(root, &group.directory)?;
            self.take_links(root, group)?;
            let mut wanted = Vec::new();
            let top = WirePath::root();
            let files = group.files.iter().zip(group.paths(&top));
            for (position, (entry, path)) in files.enumerate() {
                let (path, offer) = path?;
                if !self.filter.keeps(&path, false)
                    || self.closing.is_another_name(&path, group.inode(position), &offer)?
                {
                    continue;
                }
                let compare =
                    match tree.standing(&path, &offer).map_err(TransferError::reading)? {
                        Standing::Unchanged => {
                            let name = self.remote.join(&path)?.as_str().to_owned();
                            self.add_in_place(root, &path)?;
                            self.producer.file(name, Ok(unchanged(&offer)));
                            continue;
                        }
                        Standing::Kept => {
                            let name = self.remote.join(&path)?.as_str().to_owned();
                            self.producer.file(name, Ok(kept(&offer)));
                            continue;
                        }
                        Standing::Compare(digest) => Some(digest),
                        Standing::Wanted => None,
                    };
                if offer.size > SMALL_FILE {
                    let (remote, policy) = (self.remote.join(&path)?, &self.policy_within);
                    let job = self.fetch(root, remote, path, offer.size, policy);
                    self.producer.submit(job);
                    continue;
                }
                wanted.push(Want(entry.name().clone(), compare));
                batch.expect(path, &offer, compare);
                self.producer.progress.expect(offer.size);
            }
            if !wanted.is_empty() {
                batch.groups.push(WantGroup(group.directory.clone(), wanted));
            }
        }
        if !batch.expected.is_empty() {
            self.producer.submit(self.fetch_batch(root, batch));
        }
        Ok(())
    }

    fn take_links(&self, root: &Arc<Root>, group: &Group) -> Result<(), TransferError> {
        for (name, target, modified) in &group.links {
            let path = group.directory.join(name)?;
            if self.filter.keeps(&path, false) {
                self.add_in_place(root, &path)?;
                self.closing.add_link(&self.producer, path, target.clone(), *modified)?;
            }
        }
        Ok(())
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
                    .with_policy(Arc::clone(&listing.policy_within));
            let mut results = Results::new();
            let base = listing.remote.clone();
            let ended = mailbox.send(Message::GetMany { base, groups }).and_then(|()| {
                receive_bundles(
                    mailbox,
                    &mut tree,
                    &listing.commit,
                    expected.clone(),
                    &listing.producer.progress,
                    &mut results,
                )
            });
            if let Err(error) = &ended {
                mailbox.fail(error);
            }
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
                    self.producer.follow_up(job);
                }
                Some(result) => {
                    if result.is_ok() {
                        self.add_in_place(root, path)?;
                    }
                    self.producer.file(remote.as_str().to_owned(), result);
                }
                None => open.push(remote),
            }
        }
        if let Err(error) = ended {
            let name = open.first().unwrap_or(&self.remote).as_str().to_owned();
            self.producer.batch_failed(name, open.len() as u64, error);
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
        self.expected.push(Expected { file, path, offer: *offer, compare });
    }
}
