//! What a transfer came to, for people and for programs.

use serde::Serialize;

use crate::error::Error;
use crate::exit::Exit;
use crate::units;
use tack_transfer::{Change, Digest, EditKind, Edited, Outcome, Transport};

/// Below this many bytes a rate measures the handshake.
const WORTH_A_RATE: u64 = 100_000;
/// Errors that are kept; all are counted.
const MAX_ERRORS: usize = 1000;

/// The result of a command. Serialised, it is what `--json` prints.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// `get` or `send`.
    pub command: &'static str,
    /// Files that are in place, those included that were there already. All that was transferred is verified.
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
    /// Files that were there already and got other permissions, and whatever else got other attributes.
    pub attributes: u64,
    /// Files that could not be transferred.
    pub failed: u64,
    /// Things that are neither files nor directories, and were left out.
    pub skipped: u64,
    /// Size of the files that are in place.
    pub bytes: u64,
    /// Bytes of content that crossed the network.
    pub transferred_bytes: u64,
    /// Bytes that an earlier attempt had left.
    pub resumed_bytes: u64,
    /// Bytes that the files in whose place others are had, too.
    pub reused_bytes: u64,
    /// Time from the first packet to the last.
    pub seconds: f64,
    /// Content that crossed the network, in millions of bits per second.
    pub goodput_mbps: f64,
    /// Files that would be transferred, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Every file in place.
    pub digests: Vec<FileDigest>,
    /// Everything that went wrong.
    pub errors: Vec<String>,
    /// What is worth knowing and no failure.
    pub notes: Vec<String>,
    /// What the connection measured.
    pub transport: Transport,
    /// Plain QUIC (`off`) or TACK (`default`).
    pub profile: &'static str,
    /// The exit code of the process.
    pub exit_code: u8,
    /// Whether [`digests`](Self::digests) is wanted: a tree may have millions of files.
    /// Those of [`equal`](Self::equal) that were told by size and time alone.
    #[serde(skip)]
    unread: u64,
    #[serde(skip)]
    lists_files: bool,
    #[serde(skip)]
    worst_failure: Option<Exit>,
}

/// What `--dry-run` has found.
#[derive(Debug, Default, Serialize)]
pub struct Plan {
    /// Files that would be transferred.
    pub files: u64,
    /// Their size; an earlier attempt may have left a part of it.
    pub bytes: u64,
    /// Files, links and directories that would be removed.
    pub deleted: u64,
    /// Symbolic and hard links that would be made.
    pub linked: u64,
    /// Files that are there already and would get other permissions.
    pub attributes: u64,
    /// Each of them.
    pub changes: Vec<PlannedFile>,
}

/// One file that would be transferred, or something that would be linked or removed.
#[derive(Debug, Serialize)]
pub struct PlannedFile {
    /// Its path on the server.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// What is at its destination.
    pub change: Change,
}

/// One file that is in place.
#[derive(Debug, Serialize)]
pub struct FileDigest {
    /// Its path on the server.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its BLAKE3 digest; none for a file that was there already and not read.
    pub blake3: Option<Digest>,
}

impl Summary {
    /// Nothing has happened yet. With `lists_files` every file is kept for [`digests`](Self::digests).
    pub fn new(command: &'static str, profile: &'static str, lists_files: bool) -> Self {
        Self {
            command,
            files: 0,
            equal: 0,
            kept: 0,
            deleted: 0,
            not_deleted: 0,
            linked: 0,
            attributes: 0,
            failed: 0,
            skipped: 0,
            bytes: 0,
            transferred_bytes: 0,
            resumed_bytes: 0,
            reused_bytes: 0,
            seconds: 0.0,
            goodput_mbps: 0.0,
            plan: None,
            digests: Vec::new(),
            errors: Vec::new(),
            notes: Vec::new(),
            transport: Transport::default(),
            profile,
            exit_code: 0,
            unread: 0,
            lists_files,
            worst_failure: None,
        }
    }

    /// Counts a file that is in place, or in whose place something stays.
    pub fn add_file(&mut self, path: String, outcome: &Outcome) {
        if outcome.kept {
            self.kept += 1;
            return;
        }
        self.files += 1;
        self.equal += u64::from(outcome.equal);
        self.attributes += u64::from(outcome.attributes);
        self.unread += u64::from(outcome.equal && outcome.digest.is_none());
        self.bytes += outcome.size;
        self.resumed_bytes += outcome.resumed;
        self.reused_bytes += outcome.reused;
        if self.lists_files {
            self.digests.push(FileDigest { path, bytes: outcome.size, blake3: outcome.digest });
        }
    }

    /// Takes a file out again that has been transferred once more over another connection.
    pub fn take_back(&mut self, path: &str, outcome: &Outcome) {
        if outcome.kept {
            self.kept -= 1;
            return;
        }
        self.files -= 1;
        self.equal -= u64::from(outcome.equal);
        self.attributes -= u64::from(outcome.attributes);
        self.unread -= u64::from(outcome.equal && outcome.digest.is_none());
        self.bytes -= outcome.size;
        if let Some(at) = self.digests.iter().rposition(|file| file.path == path) {
            self.digests.swap_remove(at);
        }
    }

    /// Forgets what has failed over a connection that is lost: all of it is tried again.
    pub fn try_again(&mut self) {
        self.failed = 0;
        self.errors.clear();
        self.worst_failure = None;
    }

    /// Keeps something that is worth knowing.
    pub fn add_note(&mut self, text: &str) {
        if self.notes.len() < MAX_ERRORS {
            self.notes.push(text.to_owned());
        }
    }

    /// Counts what has changed beside the content of files.
    pub fn add_edit(&mut self, edit: EditKind, edited: Edited) {
        match (edit, edited) {
            (EditKind::Removal, Edited::Done) => self.deleted += 1,
            (EditKind::Removal, Edited::Kept) => self.not_deleted += 1,
            (EditKind::Attributes, Edited::Done) => self.attributes += 1,
            (EditKind::Link, Edited::Done) => self.linked += 1,
            (EditKind::Link, Edited::Kept) => self.kept += 1,
            _ => {}
        }
    }

    /// Whether there is something to sum up.
    pub fn has_something(&self) -> bool {
        self.files + self.kept + self.deleted + self.linked > 0 || self.plan.is_some()
    }

    /// Nothing is transferred: what would be is listed.
    pub fn plan(&mut self) {
        self.plan = Some(Plan::default());
    }

    /// Counts a file that would be transferred.
    pub fn add_planned(&mut self, path: String, bytes: u64, change: Change) {
        let plan = self.plan.get_or_insert_default();
        match change {
            Change::Deleted => plan.deleted += 1,
            Change::Linked => plan.linked += 1,
            Change::Attributes => plan.attributes += 1,
            _ => {
                plan.files += 1;
                plan.bytes += bytes;
            }
        }
        if self.lists_files {
            plan.changes.push(PlannedFile { path, bytes, change });
        }
    }

    /// Counts files that could not be transferred, for one reason.
    pub fn add_problem(&mut self, text: String, files: u64, exit: Exit) {
        self.failed += files;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(text);
        }
        self.worst_failure = self.worst_failure.max(Some(exit));
    }

    /// Notes how it ended and gives that back as one result.
    pub fn conclude(
        &mut self,
        seconds: f64,
        moved: u64,
        ended: Result<(), Error>,
    ) -> Result<(), Error> {
        self.seconds = seconds;
        self.transferred_bytes = moved;
        self.goodput_mbps = moved as f64 * 8.0 / 1e6 / seconds.max(1e-9);
        let result = match (ended, self.worst_failure) {
            (Ok(()), Some(exit)) => Err(Error::Incomplete { count: self.failed, exit }),
            (ended, _) => ended,
        };
        if let Err(error) = &result {
            self.exit_code = error.exit() as u8;
            self.errors.push(error.to_string());
        }
        result
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let named = |count| format!("{count} {}", if count == 1 { "file" } else { "files" });
        let mut parts = match &self.plan {
            None => {
                let state = if self.unread == 0 { "verified" } else { "in place" };
                vec![format!("{}, {} {state}", named(self.files), units::bytes(self.bytes))]
            }
            Some(plan) => {
                let (files, bytes) = (named(plan.files), units::bytes(plan.bytes));
                let mut parts = vec![format!("{files}, {bytes} would be transferred")];
                for (count, what) in [
                    (plan.linked, "be linked"),
                    (plan.attributes, "get other permissions"),
                    (plan.deleted, "be deleted"),
                ] {
                    if count > 0 {
                        parts.push(format!("{count} would {what}"));
                    }
                }
                parts
            }
        };
        if self.transferred_bytes >= WORTH_A_RATE {
            let rate = self.transferred_bytes as f64 / self.seconds.max(1e-9);
            parts.push(format!("{:.1} s, {}", self.seconds, units::bit_rate(rate)));
        }
        if self.resumed_bytes > 0 {
            parts.push(format!("{} resumed", units::bytes(self.resumed_bytes)));
        }
        if self.reused_bytes > 0 {
            parts
                .push(format!("{} taken from older versions", units::bytes(self.reused_bytes)));
        }
        for (count, what) in [
            (self.equal - self.unread, "already there"),
            (self.unread, "already there by size and time"),
            (self.kept, "kept as they are"),
            (self.linked, "linked"),
            (self.deleted, "deleted"),
            (self.not_deleted, "not deleted"),
            (self.skipped, "skipped"),
            (self.failed, "failed"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        parts.join(", ")
    }
}
