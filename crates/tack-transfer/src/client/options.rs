//! How a client transfers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::attempts::Attempts;
use crate::error::{Error, Feature};
use crate::protocol::{Filter, Policy, Wanted};

/// Files at the same time, at most.
const MAX_PARALLEL: usize = 16;

/// How to transfer, and what of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransferOptions {
    /// How the receiving end treats what it has, and what it keeps beside content.
    pub policy: Policy,
    /// What of directories is left out.
    pub filter: Filter,
    /// Compares content where sizes are equal, instead of times of modification. A dry run does so, too.
    pub checksum: bool,
    /// Removes what the source no longer has below directories, once all the rest is in place and nothing has failed.
    /// Where the destination spells names otherwise than the source, as file systems do that take upper and lower case
    /// for the same, nothing is removed, and this is a failure.
    /// Where the filter leaves nothing out, and nothing is to stay that is newer or there already, what is of another
    /// kind makes way at once ([`Policy::make_way`]).
    pub delete: bool,
    /// Directories of this machine, by device and number, from which nothing is deleted, whatever leads there: to fetch
    /// the content of a directory into one of them and [`delete`](Self::delete) is
    /// [`Error::Invalid`](crate::Error::Invalid).
    pub protected: Vec<(u64, u64)>,
    /// Changes nothing at either end: [`Event::Planned`](crate::Event::Planned) tells what would be done.
    pub dry_run: bool,
    /// Keeps owners and groups, as numbers, where the receiver may: as root, or where they are its own. Takes
    /// [`Policy::preserve`], as it belongs to what that keeps.
    pub owner: bool,
    /// Keeps extended attributes of the namespace `user.`. Takes [`Policy::preserve`], too.
    pub xattrs: bool,
    /// Files at the same time, 1 to 16; small ones, hundreds together, count less.
    pub parallel: usize,
    /// Most bytes per second to write to each file that is fetched.
    pub write_limit: Option<u64>,
    /// Returns as soon as everything is in place and known to be, or has failed, though the server may not have heard yet
    /// what has: for one that is there for this operation alone. Where nothing has failed, servers of the current
    /// version of the protocol are not waited for in any case.
    pub leaves_at_once: bool,
    /// What earlier attempts at this operation have seen, if it may be tried again over another connection. Such an
    /// operation also gives up a connection over which nothing has come for 6 s, if the server has other addresses.
    pub attempts: Option<Arc<Attempts>>,
    /// Ends the operation with [`Error::Interrupted`](crate::Error::Interrupted) once it is set.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for TransferOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            filter: Filter::all(),
            checksum: false,
            delete: false,
            protected: Vec::new(),
            dry_run: false,
            owner: false,
            xattrs: false,
            parallel: 4,
            write_limit: None,
            leaves_at_once: false,
            attempts: None,
            stop: None,
        }
    }
}

impl TransferOptions {
    pub(super) fn attributes(&self) -> Wanted {
        Wanted { owner: self.owner, xattrs: self.xattrs }
    }

    /// The policy for files that are named.
    pub(super) fn policy(&self) -> Policy {
        Policy { owner: self.owner, keeps_links: true, ..self.policy.clone() }
    }

    /// The policy for what is in directories that are transferred.
    pub(super) fn policy_within(&self) -> Policy {
        let Policy { update, ignore_existing, .. } = self.policy;
        // What a filter leaves out stays, and so does the directory that it may lie in. What a directory holds may be
        // newer than whatever has its name at the source.
        let make_way = self.delete && self.filter.keeps_all() && !update && !ignore_existing;
        Policy { make_way, opens_directories: true, keeps_links: false, ..self.policy() }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.attributes().anything() && !self.policy.preserve {
            let text = "owners and extended attributes are kept together with preserve alone";
            return Err(Error::Invalid(text.to_owned()));
        }
        Ok(())
    }

    pub(super) fn parallel(&self) -> usize {
        self.parallel.clamp(1, MAX_PARALLEL)
    }
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
