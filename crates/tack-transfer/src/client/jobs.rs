//! Runs the transfers of one operation, a few at a time.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::attempts::Attempt;
use super::event::{End, Event};
use super::options::TransferOptions;
use super::producer::{Faults, Producer, Report, Reporter};
use super::summary::Summary;
use crate::error::{Error, Feature};
use crate::protocol::{Change, EditKind, Edited, TransferError};
use crate::quic::{CloseCode, FEWER_ROUND_TRIPS, MAX_STREAMS};
use crate::session::{Link, Mailbox, Notify, Outcome, Progress};

/// Jobs that may wait: enough to keep all streams busy, few enough for the largest trees.
const QUEUE: usize = 64;
/// Batches that run at the same time for each file that may: a batch waits for answers most of
/// the time, and the next ones fill it.
const BATCHES: usize = 3;
/// Most batches at the same time: with a few files beside them, what a server allows. Some 3,000 files; more would save a
/// round trip for larger trees, and take memory for the content of each, at the server for each client.
const MAX_BATCHES: usize = 12;
/// How often to look at the progress.
pub(super) const TURN: Duration = Duration::from_millis(200);
/// How long to let the server close its streams once everything is done.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long to wait for a thread while nothing of the operation runs that would leave one.
const THREAD_PATIENCE: Duration = Duration::from_secs(10);

/// How long workers of a lost connection may take to end: one may be waiting for a disk.
const WORKERS_END: Duration = Duration::from_secs(10);

/// Told once, however many files it concerns.
const OWNERS_STAY: &str = "not all owners are kept: the receiver does not run as root, and only root may give files \
                           to other users, or it has been told not to";

/// What a worker does with its stream. No outcome: nothing worth counting.
type Work = Box<dyn FnOnce(&Mailbox) -> Result<Option<Outcome>, TransferError> + Send>;

/// One request.
pub(super) struct Job {
    pub(super) kind: Kind,
    /// What the user calls it.
    pub(super) name: String,
    pub(super) work: Work,
}

/// Transfers and batches wait for their own kind, inquiries for nothing: the others may come
/// from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One file.
    Transfer,
    /// Small files, one or many.
    Batch,
    Inquiry,
}

/// An operation that transfers files over one connection.
pub(super) struct Run<'a> {
    pub(super) options: &'a TransferOptions,
    link: &'a mut Link,
    progress: Arc<Progress>,
    observe: &'a mut dyn FnMut(Event<'_>),
    summary: Summary,
    reports: Receiver<Report>,
    report: mpsc::Sender<Report>,
    /// Jobs that wait for others of their kind to end.
    waiting: VecDeque<Job>,
    /// Inquiries that wait for others to be answered.
    asking: VecDeque<Job>,
    /// Jobs that wait for all others, and run one after the other.
    last: VecDeque<Job>,
    faults: Arc<Faults>,
    /// Which attempt at the operation this is, if there may be others.
    pub(super) attempt: Option<Arc<Attempt>>,
    /// Directories of this machine that others are fetched into, by device and number.
    pub(super) places: Arc<Mutex<HashSet<(u64, u64)>>>,
    /// What an answer ended the operation with.
    refused: Option<Error>,
    /// It has been told that owners stay as they are.
    owners_stay: bool,
    /// The operation has ended with an error: what fails by that alone has not failed.
    is_over: bool,
    /// Since when the system has had no thread to spare, and nothing runs that would leave one.
    without_thread: Option<Instant>,
    transfers: usize,
    batches: usize,
    inquiries: usize,
}

/// A thread that waits for a job.
struct Worker(mpsc::SyncSender<(Mailbox, Job)>);

/// Reports when it is dropped what has come of a job: a worker that panics does so, too, and the operation waits for
/// every report.
struct Ending {
    name: String,
    kind: Kind,
    /// `None` if the worker has panicked.
    result: Option<Result<Option<Outcome>, TransferError>>,
    report: mpsc::Sender<Report>,
    notify: Notify,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (name, kind) = (std::mem::take(&mut self.name), self.kind);
        let result = self.result.take().unwrap_or_else(|| Err(TransferError::panicked()));
        // Fails only if the operation has ended.
        let _ = self.report.send(Report::Done { name, kind, result });
        (self.notify)();
    }
}

/// Runs an operation. `produce` starts whatever queues the jobs. On an error other than
/// [`Error::Incomplete`] the connection is closed.
pub(super) fn run(
    link: &mut Link,
    options: &TransferOptions,
    observe: &mut dyn FnMut(Event<'_>),
    produce: impl FnOnce(&mut Run<'_>, Producer) -> Result<(), Error>,
) -> Result<Summary, Error> {
    options.check()?;
    let mut run = Run::new(link, options, observe);
    let ended = run.all(produce);
    run.conclude(ended)
}

impl<'a> Run<'a> {
    fn new(
        link: &'a mut Link,
        options: &'a TransferOptions,
        observe: &'a mut dyn FnMut(Event<'_>),
    ) -> Self {
        let (report, reports) = mpsc::channel();
        Self {
            options,
            link,
            progress: Arc::default(),
            observe,
            summary: Summary::default(),
            reports,
            report,
            waiting: VecDeque::new(),
            asking: VecDeque::new(),
            last: VecDeque::new(),
            faults: Arc::default(),
            attempt: options.attempts.as_ref().map(|attempts| attempts.begin()),
            places: Arc::default(),
            refused: None,
            owners_stay: false,
            is_over: false,
            without_thread: None,
            transfers: 0,
            batches: 0,
            inquiries: 0,
        }
    }

    /// Opens a stream, waiting until the server allows one.
    pub(super) fn open(&mut self) -> Result<Mailbox, Error> {
        loop {
            if let Some(mailbox) = self.link.open()? {
                return Ok(mailbox);
            }
            self.turn()?;
        }
    }

    /// Runs the connection for a while, unless the user has had enough.
    fn turn(&mut self) -> Result<(), Error> {
        let stop = self.options.stop.as_ref();
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Error::Interrupted);
        }
        self.link.turn(TURN)?;
        if self.attempt.is_some() { self.link.check_silence() } else { Ok(()) }
    }

    /// Runs the connection until `wanted` arrives.
    pub(super) fn wait_for<T>(&mut self, wanted: &Receiver<T>) -> Result<Option<T>, Error> {
        loop {
            match wanted.try_recv() {
                Ok(value) => return Ok(Some(value)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => self.turn()?,
            }
        }
    }

    /// Makes sure that the server knows `feature`.
    pub(super) fn require_current(&mut self, feature: Feature) -> Result<(), Error> {
        self.link.require_current(feature)
    }

    /// The version of the protocol that the server speaks.
    pub(super) fn protocol_version(&mut self) -> Result<usize, Error> {
        self.link.protocol_version()
    }

    /// Has an inquiry run beside the transfers, as soon as it may.
    pub(super) fn inquire(&mut self, job: Job) {
        self.asking.push_back(job);
    }

    /// Runs a job beside the transfers.
    pub(super) fn spawn_inquiry(&mut self, mailbox: Mailbox, job: Job) -> Result<(), Error> {
        loop {
            if let Some(worker) = self.start_worker()? {
                self.hand_over(&worker, mailbox, job);
                return Ok(());
            }
            self.turn()?;
        }
    }

    /// Starts a thread for a job; `None` while the system has none to spare.
    fn start_worker(&mut self) -> Result<Option<Worker>, Error> {
        let (report, notify) = (self.report.clone(), self.link.notify());
        let (give, taken) = mpsc::sync_channel::<(Mailbox, Job)>(1);
        let started = std::thread::Builder::new().spawn(move || {
            let Ok((opened, Job { kind, name, work })) = taken.recv() else { return };
            let mut ending = Ending { name, kind, result: None, report, notify };
            // Declared behind it, and so dropped before it: the stream has ended when the report is there.
            let mailbox = opened;
            let result = work(&mailbox);
            if let Err(error) = &result {
                mailbox.fail(error);
            }
            ending.result = Some(result);
        });
        let Err(error) = started else {
            self.without_thread = None;
            return Ok(Some(Worker(give)));
        };
        let is_idle = self.transfers + self.batches + self.inquiries == 0;
        let now = Instant::now();
        let since = self.without_thread.filter(|_| is_idle).unwrap_or(now);
        self.without_thread = Some(since);
        if now.duration_since(since) < THREAD_PATIENCE {
            return Ok(None);
        }
        Err(Error::Thread(error))
    }

    /// Has a worker do a job.
    fn hand_over(&mut self, worker: &Worker, mailbox: Mailbox, job: Job) {
        *self.running(job.kind) += 1;
        // The thread waits for it.
        let _ = worker.0.send((mailbox, job));
    }

    fn running(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Transfer => &mut self.transfers,
            Kind::Batch => &mut self.batches,
            Kind::Inquiry => &mut self.inquiries,
        }
    }

    /// Does everything that there is to do.
    fn all(
        &mut self,
        produce: impl FnOnce(&mut Self, Producer) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (sender, jobs) = mpsc::sync_channel(QUEUE);
        let reporter = Reporter::new(
            self.report.clone(),
            self.link.notify(),
            Arc::clone(&self.progress),
            Arc::clone(&self.faults),
        );
        let producer = Producer::new(sender, reporter);
        produce(self, producer).and_then(|()| self.work(&jobs))
    }

    /// Sums up. After a loss of the connection nothing may still hold a file when this returns, because the same
    /// operation may follow over another one.
    fn conclude(mut self, ended: Result<(), Error>) -> Result<Summary, Error> {
        self.is_over = ended.is_err();
        while let Ok(report) = self.reports.try_recv() {
            self.take(report);
        }
        if let Err(error) = ended {
            self.link.close(CloseCode::Done, "the operation has ended early");
            self.link.abandon();
            if error.may_pass() {
                self.await_workers();
            }
            (self.observe)(Event::Progress(&self.progress));
            return Err(error);
        }
        (self.observe)(Event::Progress(&self.progress));
        if self.summary.failed == 0 {
            return Ok(self.summary);
        }
        Err(Error::Incomplete(Box::new(self.summary)))
    }

    fn await_workers(&mut self) {
        let deadline = Instant::now() + WORKERS_END;
        while self.transfers + self.batches + self.inquiries > 0 && Instant::now() < deadline {
            if let Ok(report) = self.reports.recv_timeout(TURN) {
                self.take(report);
            }
        }
    }

    fn work(&mut self, jobs: &Receiver<Job>) -> Result<(), Error> {
        let mut more = true;
        while more || self.is_busy() || !self.last.is_empty() {
            while more && self.waiting.len() < QUEUE {
                match jobs.try_recv() {
                    Ok(job) => self.waiting.push_back(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => more = false,
                }
            }
            // Behind the jobs: whoever has no more has told all before.
            while let Ok(report) = self.reports.try_recv() {
                self.take(report);
            }
            if let Some(error) = self.refused.take() {
                return Err(error);
            }
            self.start_jobs(more)?;
            // Behind the last one nothing has to come that would end the waiting.
            if more || self.is_busy() || !self.last.is_empty() {
                self.turn()?;
            }
            (self.observe)(Event::Progress(&self.progress));
        }
        let is_told = self.summary.failed == 0 && self.protocol_version()? >= FEWER_ROUND_TRIPS;
        if is_told || self.options.leaves_at_once {
            // The last answers of ours, and the end of the connection says the same once more.
            return self.link.turn(Duration::ZERO);
        }
        // The last answers of ours are on their way until the server has closed its streams.
        let deadline = Instant::now() + FAREWELL;
        while !self.link.is_quiet() && Instant::now() < deadline {
            self.turn()?;
        }
        Ok(())
    }

    /// Starts what need not wait.
    fn start_jobs(&mut self, more: bool) -> Result<(), Error> {
        while self.link.may_open()?
            && let Some(job) = self.next_job(more)
        {
            let Some(worker) = self.start_worker()? else {
                self.waiting.push_front(job);
                return Ok(());
            };
            let mailbox = self.open()?;
            self.hand_over(&worker, mailbox, job);
        }
        Ok(())
    }

    /// Whether something is being done, or can be as soon as something else is.
    fn is_busy(&self) -> bool {
        !(self.waiting.is_empty() && self.asking.is_empty())
            || self.transfers + self.batches + self.inquiries > 0
    }

    /// The first job that need not wait. `more` says whether others may come up.
    fn next_job(&mut self, more: bool) -> Option<Job> {
        if !more && !self.is_busy() {
            return self.last.pop_front();
        }
        let transfers = self.options.parallel();
        let batches = (BATCHES * transfers).min(MAX_BATCHES);
        // An inquiry keeps its stream until there is room for what it has found, so it must not take theirs.
        let inquiries = (MAX_STREAMS as usize).saturating_sub(transfers + batches);
        if self.inquiries < inquiries
            && let Some(job) = self.asking.pop_front()
        {
            return Some(job);
        }
        let (may_transfer, may_batch) = (self.transfers < transfers, self.batches < batches);
        let at = self.waiting.iter().position(|job| match job.kind {
            Kind::Transfer => may_transfer,
            Kind::Batch => may_batch,
            Kind::Inquiry => true,
        })?;
        self.waiting.remove(at)
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Job(job) => self.waiting.push_back(job),
            Report::Last(job) => self.last.push_back(job),
            Report::Refused(error) => self.refused = self.refused.take().or(Some(error)),
            Report::File { name, result } => self.file(name, result),
            Report::Edited { name, edit, result } => self.edited(name, edit, result),
            Report::Planned { name, size, change } => self.planned(name, size, change),
            Report::Batch { names, error } => {
                self.faults.of_files.store(true, Ordering::Relaxed);
                self.problem(&names, error);
            }
            Report::Done { name, kind, result } => {
                *self.running(kind) -= 1;
                if let Some(result) = result.transpose() {
                    self.file(name, result);
                }
            }
            Report::Skipped { name, reason, failed } => self.skipped(name, reason, failed),
            Report::NotDeleted { name, reason } => {
                self.tell(Event::NotDeleted { path: &name, reason: &reason });
            }
            Report::Note(text) => (self.observe)(Event::Note(&text)),
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        self.summary.count(&event);
        (self.observe)(event);
    }

    fn file(&mut self, name: String, result: Result<Outcome, TransferError>) {
        match result {
            Ok(outcome) => {
                let outcome = self
                    .attempt
                    .as_ref()
                    .map_or(outcome, |attempt| attempt.tell(&name, outcome));
                self.tell(Event::File { path: &name, outcome: &outcome });
            }
            Err(error) => {
                self.faults.of_files.store(true, Ordering::Relaxed);
                self.problem(&[name], error);
            }
        }
    }

    fn edited(&mut self, name: String, edit: EditKind, result: Result<Edited, TransferError>) {
        match result {
            Ok(edited) => {
                if (edit, edited) == (EditKind::Attributes, Edited::Kept) && !self.owners_stay {
                    self.owners_stay = true;
                    (self.observe)(Event::Note(OWNERS_STAY));
                }
                self.tell(Event::Edited { path: &name, edit, edited });
            }
            Err(error) => self.problem(&[name], error),
        }
    }

    fn planned(&mut self, name: String, size: u64, change: Change) {
        match change {
            Change::Unchanged => {
                self.file(name, Ok(Outcome { size, equal: true, ..Outcome::default() }));
            }
            Change::Kept => {
                self.file(name, Ok(Outcome { size, kept: true, ..Outcome::default() }));
            }
            _ => self.tell(Event::Planned { path: &name, size, change }),
        }
    }

    fn skipped(&mut self, name: String, reason: String, failed: Option<End>) {
        self.tell(Event::Skipped { path: &name, reason: &reason, failed });
        if failed.is_some() {
            self.faults.any.store(true, Ordering::Relaxed);
            self.summary.fail(name, 1, TransferError::Skipped(reason));
        }
    }

    /// Tells that all these have failed for one reason.
    fn problem(&mut self, names: &[String], error: TransferError) {
        let Some((path, others)) = names.split_first() else { return };
        if self.is_over && matches!(error, TransferError::Disconnected) {
            return;
        }
        self.tell(Event::Failed { path, others, error: &error });
        self.faults.any.store(true, Ordering::Relaxed);
        self.summary.fail(path.clone(), names.len() as u64, error);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::identity::Identity;
    use crate::protocol::Root;
    use crate::session::{ConnectOptions, Server, ServerOptions, Trust};

    #[test]
    fn a_job_that_panics_has_failed_and_nothing_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::in_directory(&dir.path().join("identity")).unwrap();
        let trust = Trust::Pinned(identity.fingerprint);
        let listen = "127.0.0.1:0".parse().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let server = Server::new(ServerOptions::new(listen, root, identity, None)).unwrap();
        let address = server.local_addr().into();
        let server = server.start();
        let mut link = Link::connect(&address, ConnectOptions::new(trust)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let options =
            TransferOptions { stop: Some(Arc::clone(&stop)), ..TransferOptions::default() };
        let _watchdog = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(20));
            stop.store(true, Ordering::Relaxed);
        });
        let ended = run(&mut link, &options, &mut |_| {}, |_, producer| {
            for kind in [Kind::Transfer, Kind::Batch, Kind::Inquiry] {
                let work = Box::new(|_: &Mailbox| panic!("as the test wants it"));
                assert!(producer.submit(Job { kind, name: format!("{kind:?}"), work }));
            }
            Ok(())
        });
        let Err(Error::Incomplete(summary)) = ended else { panic!("{ended:?}") };
        assert_eq!(summary.failed, 3);
        assert!(summary.failures[0].error.to_string().contains("panic"), "{summary:?}");
        server.stop().unwrap();
    }
}
