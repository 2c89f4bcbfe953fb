//! What happens during a transfer.

use crate::protocol::{Change, EditKind, Edited, TransferError};
use crate::session::{Outcome, Progress};

/// Something that has happened. Paths are the server's, as the peer says them: a name may hold characters that drive
/// a terminal ([`printable`](crate::printable)).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Time has passed; this is how far it has got. Comes several times a second, and at the end.
    Progress(&'a Progress),
    /// A file is where it belongs and verified, or stays as it was.
    File {
        /// Its path.
        path: &'a str,
        /// What was done for it.
        outcome: &'a Outcome,
    },
    /// Something has failed.
    Failed {
        /// Its path.
        path: &'a str,
        /// Paths of other files that have failed with it, for the same reason.
        others: &'a [String],
        /// Why.
        error: &'a TransferError,
    },
    /// Something was changed beside the content of files: a removal, a link, attributes.
    Edited {
        /// What was changed.
        path: &'a str,
        /// How.
        edit: EditKind,
        /// What has come of it.
        edited: Edited,
    },
    /// Something would be transferred or removed
    /// ([`TransferOptions::dry_run`](crate::TransferOptions::dry_run)).
    Planned {
        /// Its path.
        path: &'a str,
        /// Its size in bytes.
        size: u64,
        /// What is in its place.
        change: Change,
    },
    /// Something was left out.
    Skipped {
        /// Its name, printable.
        path: &'a str,
        /// Why.
        reason: &'a str,
        /// The end at which this is a failure, if it is one.
        failed: Option<End>,
    },
    /// Something stays at the destination that the source may not have, and that would have been removed.
    NotDeleted {
        /// Its name, printable.
        path: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// Something worth knowing that is no failure, in words.
    Note(&'a str),
}

/// An end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// This one.
    Local,
    /// The server.
    Remote,
}
