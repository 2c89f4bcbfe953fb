//! What happened to a file, for those who want to know of each (`--verbose`).

use serde::Serialize;

use crate::units;
use tack_transfer::{EditKind, Edited, Outcome, TransferError, printable};

/// One file and what happened to it. Serialised, it is what `--verbose --json` prints.
#[derive(Debug, Serialize)]
pub(super) struct FileEvent<'a> {
    event: &'static str,
    /// Its path on the server.
    path: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transferred_bytes: Option<u64>,
    /// Why it failed, was left out, or stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl<'a> FileEvent<'a> {
    fn new(path: &'a str, outcome: &'static str) -> Self {
        let (bytes, transferred_bytes, error) = (None, None, None);
        Self { event: "file", path, outcome, bytes, transferred_bytes, error }
    }

    /// A file was transferred, or did not have to be.
    pub(super) fn of_file(path: &'a str, outcome: &Outcome) -> Self {
        let name = match outcome {
            Outcome { kept: true, .. } => "kept",
            Outcome { attributes: true, .. } => "attributes",
            Outcome { equal: true, .. } => "unchanged",
            Outcome { resumed: 1.., .. } => "resumed",
            Outcome { reused: 1.., .. } => "updated",
            _ => "transferred",
        };
        let (bytes, transferred_bytes) = (Some(outcome.size), Some(outcome.moved));
        Self { bytes, transferred_bytes, ..Self::new(path, name) }
    }

    /// Something was changed beside the content of files; `None` if it is not worth telling.
    pub(super) fn of_edit(path: &'a str, edit: EditKind, edited: Edited) -> Option<Self> {
        let name = match (edit, edited) {
            (EditKind::Attributes, Edited::Done) => "attributes",
            (EditKind::Attributes, _) => return None,
            (EditKind::Removal, Edited::Kept) => "not deleted",
            (_, Edited::Kept) => "kept",
            (_, Edited::Unchanged) => "unchanged",
            (EditKind::Removal, Edited::Done) => "deleted",
            (EditKind::Link, Edited::Done) => "linked",
        };
        Some(Self::new(path, name))
    }

    /// It failed.
    pub(super) fn of_failure(path: &'a str, error: &TransferError) -> Self {
        Self { error: Some(error.to_string()), ..Self::new(path, "failed") }
    }

    /// It stays at the destination, though the source may not have it.
    pub(super) fn of_not_deleted(path: &'a str, reason: &str) -> Self {
        Self { error: Some(reason.to_owned()), ..Self::new(path, "not deleted") }
    }

    /// It was left out, which may be a failure.
    pub(super) fn of_skipped(path: &'a str, reason: &str, is_failure: bool) -> Self {
        let outcome = if is_failure { "failed" } else { "skipped" };
        Self { error: Some(reason.to_owned()), ..Self::new(path, outcome) }
    }

    /// For people.
    pub(super) fn line(&self) -> String {
        let size = self.bytes.map(units::bytes).unwrap_or_default();
        format!("{:11} {size:>9}  {}", self.outcome, printable(self.path))
    }
}
