//! How workers and those who find work tell the operation what there is to do and what has come of it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};

use super::event::End;
use super::jobs::{Job, Kind};
use crate::error::Error;
use crate::protocol::{
    Change, Edit, EditKind, Edited, Group, Message, RESERVED, Removed, TransferError, WalkItem,
    WirePath, printable, printed_below,
};
use crate::session::{Mailbox, Notify, Outcome, Progress};

/// What a server leaves out of a listing: its name and why, printable.
struct LeftOut {
    name: String,
    reason: String,
    error: bool,
    unread: bool,
}

/// What workers and producers have to tell.
pub(super) enum Report {
    /// A job has ended.
    Done { name: String, kind: Kind, result: Result<Option<Outcome>, TransferError> },
    /// A file of a batch is in place, or has failed.
    File { name: String, result: Result<Outcome, TransferError> },
    /// A file that would be transferred, or is there already.
    Planned { name: String, size: u64, change: Change },
    /// A batch has failed before anything was known of these of its files.
    Batch { names: Vec<String>, error: TransferError },
    /// A job that came up while another one ran.
    Job(Job),
    /// A job for the end, when all others have ended.
    Last(Job),
    /// An answer that ends the operation.
    Refused(Error),
    /// A change beside the content of files has been made or has failed.
    Edited { name: String, edit: EditKind, result: Result<Edited, TransferError> },
    /// Something stays at the destination that the source may not have.
    NotDeleted { name: String, reason: String },
    /// Something worth knowing.
    Note(String),
    /// Something was left out; with the end at which this is a failure, if it is one.
    Skipped { name: String, reason: String, failed: Option<End> },
}

/// Where producers put jobs.
#[derive(Clone)]
pub(super) struct Producer {
    jobs: SyncSender<Job>,
    reporter: Reporter,
}

/// Tells the operation what happens. Unlike a [`Producer`] it does not keep the operation waiting for more
/// jobs.
#[derive(Clone)]
pub(super) struct Reporter {
    reports: mpsc::Sender<Report>,
    notify: Notify,
    /// Totals to add expected sizes to.
    pub(super) progress: Arc<Progress>,
    faults: Arc<Faults>,
    /// Something has been removed, or would be, to make way for something else.
    has_removed: Arc<AtomicBool>,
}

/// What has failed so far. Certain only in the last jobs, when all has been told.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Anything.
    pub(super) any: AtomicBool,
    /// Files that were to be transferred.
    pub(super) of_files: AtomicBool,
}

impl Producer {
    pub(super) fn new(jobs: SyncSender<Job>, reporter: Reporter) -> Self {
        Self { jobs, reporter }
    }

    /// Queues a job; false once the workers have stopped.
    pub(super) fn submit(&self, job: Job) -> bool {
        let taken = self.jobs.send(job).is_ok();
        (self.reporter.notify)();
        taken
    }

    /// Only what tells.
    pub(super) fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }
}

impl Deref for Producer {
    type Target = Reporter;
    fn deref(&self) -> &Reporter {
        &self.reporter
    }
}

impl Reporter {
    pub(super) fn new(
        reports: mpsc::Sender<Report>,
        notify: Notify,
        progress: Arc<Progress>,
        faults: Arc<Faults>,
    ) -> Self {
        Self { reports, notify, progress, faults, has_removed: Arc::default() }
    }

    /// Whether nothing has failed.
    pub(super) fn is_faultless(&self) -> bool {
        !self.faults.any.load(Ordering::Relaxed)
    }

    /// Whether no file has failed that was to be transferred.
    pub(super) fn has_all_files(&self) -> bool {
        !self.faults.of_files.load(Ordering::Relaxed)
    }

    /// Ends the operation.
    pub(super) fn refuse(&self, error: Error) {
        // Fails only if the operation has ended.
        let _ = self.reports.send(Report::Refused(error));
    }

    /// Queues a job that runs alone, behind all others.
    pub(super) fn at_last(&self, job: Job) {
        // Fails only if the operation has ended.
        let _ = self.reports.send(Report::Last(job));
    }

    /// Says what came of an edit.
    pub(super) fn edited(
        &self,
        name: String,
        edit: &Edit,
        result: Result<Edited, TransferError>,
    ) {
        let edit = edit.kind();
        // Fails only if the operation has ended.
        let _ = self.reports.send(Report::Edited { name, edit, result });
    }

    /// Says what has been removed below `base` to make way for something of another kind.
    pub(super) fn removed(&self, base: &WirePath, removed: Removed) {
        if !removed.paths.is_empty() || removed.others > 0 {
            self.has_removed.store(true, Ordering::Relaxed);
        }
        for path in removed.paths {
            let (name, edit) = (printed_below(base, &path), EditKind::Removal);
            // Fails only if the operation has ended.
            let _ = self.reports.send(Report::Edited { name, edit, result: Ok(Edited::Done) });
        }
        if removed.others > 0 {
            self.note(&format!(
                "{} more files and directories are deleted to make way for what is transferred",
                removed.others
            ));
        }
    }

    /// Says what would be removed to make way for something of another kind.
    pub(super) fn planned_removal(&self, name: String, size: u64) {
        self.has_removed.store(true, Ordering::Relaxed);
        self.planned(name, size, Change::Deleted);
    }

    /// Whether something has made way, or would.
    pub(super) fn has_removed(&self) -> bool {
        self.has_removed.load(Ordering::Relaxed)
    }

    /// Queues a job from within a job, which must not wait for others to end.
    pub(super) fn follow_up(&self, job: Job) {
        // Fails only if the operation has ended.
        let _ = self.reports.send(Report::Job(job));
    }

    /// Says what became of a file of a batch.
    pub(super) fn file(&self, name: String, result: Result<Outcome, TransferError>) {
        // Fails only if the operation has ended.
        let _ = self.reports.send(Report::File { name, result });
    }

    /// Says what would become of a file.
    pub(super) fn planned(&self, name: String, size: u64, change: Change) {
        // Fails only if the operation has ended.
        let _ = self.reports.send(Report::Planned { name, size, change });
    }

    /// Says that a batch has failed, and with it these files.
    pub(super) fn batch_failed(&self, names: Vec<String>, error: TransferError) {
        // Fails only if the operation has ended.
        let _ = self.reports.send(Report::Batch { names, error });
    }

    /// Says what a walk through a source that goes to `base` has found and does not transfer.
    pub(super) fn left_out(&self, base: &WirePath, item: &WalkItem) {
        match item {
            WalkItem::Directory(_) | WalkItem::File(_) | WalkItem::Link(..) => {}
            // It may be a file that the user counts on; most likely an interrupted transfer has left it.
            WalkItem::Reserved(name) => {
                self.skip(&printed_below(base, name), RESERVED, None);
            }
            WalkItem::Skipped { name, reason, error, .. } => {
                let failed = error.then_some(End::Local);
                self.skip(&printed_below(base, name), reason, failed);
            }
        }
    }

    /// Takes in a listing of `base` behind its first message, and says what the server leaves out of it.
    /// `skipped` hears the names of that, and returns false for what the user has excluded.
    pub(super) fn take_listing(
        &self,
        mailbox: &Mailbox,
        base: &WirePath,
        take: impl FnMut(&[Group]) -> Result<(), TransferError>,
        mut skipped: impl FnMut(&str) -> Result<bool, TransferError>,
    ) -> Result<(), TransferError> {
        Self::read_listing(mailbox, take, |left_out| {
            if skipped(&left_out.name)? {
                let failed = left_out.error.then_some(End::Remote);
                self.skip(&printed_below(base, &left_out.name), &left_out.reason, failed);
            }
            Ok(())
        })
    }

    /// The same for a listing of what may be deleted: what the server leaves out of it stays. `stays` hears the
    /// names of that, and says whether something could have been deleted there; `None` if that goes all the same.
    pub(super) fn take_destination(
        &self,
        mailbox: &Mailbox,
        base: &WirePath,
        take: impl FnMut(&[Group]) -> Result<(), TransferError>,
        mut stays: impl FnMut(&str) -> Option<bool>,
    ) -> Result<(), TransferError> {
        Self::read_listing(mailbox, take, |left_out| {
            if let Some(may_go) = stays(&left_out.name) {
                let failed = (may_go && left_out.unread).then_some(End::Remote);
                let name = printed_below(base, &left_out.name);
                self.not_deleted(&name, &left_out.reason, failed);
            }
            Ok(())
        })
    }

    /// Says that something at the destination stays that the source may not have, which may be a failure of an end: it
    /// could not be looked into.
    pub(super) fn not_deleted(&self, name: &str, reason: &str, failed: Option<End>) {
        if failed.is_some() {
            return self.skip(name, &format!("not deleted: {reason}"), failed);
        }
        let (name, reason) = (name.to_owned(), reason.to_owned());
        // Fails only once the run is over and no report counts.
        let _ = self.reports.send(Report::NotDeleted { name, reason });
    }

    /// Takes in a listing behind its first message, of something that is not transferred.
    pub(super) fn look_at_listing(
        mailbox: &Mailbox,
        take: impl FnMut(&[Group]) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        Self::read_listing(mailbox, take, |_| Ok(()))
    }

    /// The same; `skipped` hears name and reason of what is left out.
    pub(super) fn look_at_listing_of_all(
        mailbox: &Mailbox,
        take: impl FnMut(&[Group]) -> Result<(), TransferError>,
        mut skipped: impl FnMut(&str, &str),
    ) -> Result<(), TransferError> {
        Self::read_listing(mailbox, take, |left_out| {
            skipped(&left_out.name, &left_out.reason);
            Ok(())
        })
    }

    /// `skipped` hears of what is left out.
    fn read_listing(
        mailbox: &Mailbox,
        mut take: impl FnMut(&[Group]) -> Result<(), TransferError>,
        mut skipped: impl FnMut(LeftOut) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        loop {
            match mailbox.recv()? {
                Message::EndOfList => return Ok(()),
                Message::Manifest(groups) => take(&groups)?,
                Message::Skipped { name, reason, error, unread } => {
                    let (name, reason) = (printable(&name), printable(&reason));
                    skipped(LeftOut { name, reason, error, unread })?;
                }
                other => return Err(TransferError::unexpected(&other)),
            }
        }
    }

    /// Says something that is worth knowing.
    pub(super) fn note(&self, text: &str) {
        // Fails only once the run is over and no report counts.
        let _ = self.reports.send(Report::Note(text.to_owned()));
    }

    /// Says that something is left out.
    pub(super) fn skip(&self, name: &str, reason: &str, failed: Option<End>) {
        let (name, reason) = (name.to_owned(), reason.to_owned());
        // Fails only once the run is over and no report counts.
        let _ = self.reports.send(Report::Skipped { name, reason, failed });
    }
}
