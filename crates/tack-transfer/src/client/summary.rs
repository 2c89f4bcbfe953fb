//! What an operation came to.

use super::event::Event;
use crate::protocol::{Change, EditKind, Edited, TransferError};

/// Failures that are kept; all are counted.
pub const MAX_FAILURES: usize = 1000;

/// What an operation came to, in numbers.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Files that are in place and verified, those included that were there already.
    pub files: u64,
    /// Files among them that were there already.
    pub equal: u64,
    /// Files in whose place something stays that may be another one.
    pub kept: u64,
    /// Files, links and directories that were removed.
    pub deleted: u64,
    /// Files, links and directories that the source does not have, and that stay all the same.
    pub not_deleted: u64,
    /// Symbolic and hard links that were made.
    pub linked: u64,
    /// Files that could not be transferred.
    pub failed: u64,
    /// Things that are neither files nor directories, and were left out.
    pub skipped: u64,
    /// Files that would be transferred, and things that would be removed, by a dry run.
    pub planned: u64,
    /// Size of the files that are in place, in bytes.
    pub bytes: u64,
    /// Bytes of their content that crossed the network.
    pub moved: u64,
    /// Bytes that an earlier attempt had left.
    pub resumed: u64,
    /// Bytes that the files in whose place others are had, too.
    pub reused: u64,
    /// What has failed: the first [`MAX_FAILURES`].
    pub failures: Vec<Failure>,
}

/// Something that has failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Its path on the server.
    pub path: String,
    /// Why.
    pub error: TransferError,
}

impl Summary {
    /// Counts what has happened, unless it is a failure.
    pub(super) fn count(&mut self, event: &Event<'_>) {
        match event {
            Event::File { outcome, .. } if outcome.kept => self.kept += 1,
            Event::File { outcome, .. } => {
                self.files += 1;
                self.equal += u64::from(outcome.equal);
                self.bytes += outcome.size;
                self.moved += outcome.moved;
                self.resumed += outcome.resumed;
                self.reused += outcome.reused;
            }
            Event::Edited { edit, edited, .. } => match (edit, edited) {
                (EditKind::Removal, Edited::Done) => self.deleted += 1,
                (EditKind::Removal, Edited::Kept) => self.not_deleted += 1,
                (EditKind::Link, Edited::Done) => self.linked += 1,
                (EditKind::Link, Edited::Kept) => self.kept += 1,
                _ => {}
            },
            Event::NotDeleted { .. } => self.not_deleted += 1,
            Event::Planned { change: Change::Unchanged | Change::Kept, .. } => {}
            Event::Planned { .. } => self.planned += 1,
            Event::Skipped { failed: None, .. } => self.skipped += 1,
            _ => {}
        }
    }

    /// Counts a failure.
    pub(super) fn fail(&mut self, path: String, files: u64, error: TransferError) {
        self.failed += files;
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(Failure { path, error });
        }
    }
}
