//! Runs the transfers of one command, a few at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connector::Connector;
use super::events::FileEvent;
use super::print_json;
use super::producer::{Producer, Report, Reporter};
use super::reconnect::Retry;
use crate::cli::{Profile, TransferArgs};
use crate::error::{Error, exit_of};
use crate::progress::Display;
use crate::quic::CloseCode;
use crate::session::{Link, Mailbox, Outcome, Progress};
use crate::summary::Summary;
use crate::termination::Termination;
use crate::transfer::{Change, EditKind, Edited, TransferError, printable};
use crate::units;

/// Jobs that may wait: enough to keep all streams busy, few enough for the largest trees.
const QUEUE: usize = 64;
/// Batches that run at the same time for each file that may: a batch waits for answers most of
/// the time, and the next ones fill it.
const BATCHES: usize = 3;
/// Most batches at the same time: with a few files beside them, what a server allows.
const MAX_BATCHES: usize = 12;
/// How often to look at the progress.
pub(super) const TURN: Duration = Duration::from_millis(200);
/// How long to let the server close its streams once everything is done.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long workers of a lost connection may take to end: one may be waiting for a disk.
const WORKERS_END: Duration = Duration::from_secs(10);

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
    /// Many small files.
    Batch,
    Inquiry,
}

/// A command that transfers files over one connection.
pub(super) struct Run<'a> {
    args: &'a TransferArgs,
    stop: &'a Termination,
    link: Link,
    pub(super) progress: Arc<Progress>,
    display: Display,
    summary: Summary,
    reports: Receiver<Report>,
    report: mpsc::Sender<Report>,
    /// Jobs that wait for others of their kind to end.
    waiting: VecDeque<Job>,
    /// Jobs that wait for all others, and run one after the other.
    last: VecDeque<Job>,
    /// Whether nothing has failed so far.
    is_faultless: Arc<AtomicBool>,
    /// The connection is lost, and another one follows.
    is_lost: bool,
    transfers: usize,
    batches: usize,
    inquiries: usize,
}

/// Ends the connection in good order on a signal. To be called before other threads are started; until then a
/// signal ends the process at once, and there is nothing to clean up.
pub(super) fn catch_signals(link: &Link) -> Result<Termination, Error> {
    let stop = Termination::catch().map_err(Error::local("signals"))?;
    let notify = link.notify();
    stop.on_signal(move || notify());
    Ok(stop)
}

/// Whether a command can be run again over another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// What was moved can be resumed.
    Possible,
    /// What was read or written through is gone.
    Impossible,
}

/// Runs a command from connecting to the summary. `produce` starts whatever queues the jobs; after the
/// loss of a connection once more.
pub(super) fn run(
    command: &'static str,
    server: &mut dyn Connector,
    args: &TransferArgs,
    again: Again,
    mut produce: impl FnMut(&mut Run<'_>, Producer) -> Result<(), Error>,
) -> Result<(), Error> {
    let start = Instant::now();
    let mut link = match server.connect(args.bwlimit, None) {
        Ok(link) => link,
        Err(error) => {
            let mut summary = new_summary(command, server.profile(), args);
            let result = summary.conclude(start.elapsed().as_secs_f64(), 0, Err(error));
            if args.json {
                print_json(&summary)?;
            }
            return result;
        }
    };
    // Before there are other threads, which inherit which signals are blocked.
    let stop = Termination::catch().map_err(Error::local("signals"))?;
    let notify = Arc::new(Mutex::new(link.notify()));
    let current = Arc::clone(&notify);
    stop.on_signal(move || (current.lock().unwrap_or_else(PoisonError::into_inner))());
    let patience = if again == Again::Possible { args.retry } else { 0 };
    let mut retry = Retry::new(Duration::from_secs(patience.into()));
    let mut moved = 0;
    loop {
        let mut run = Run::new(args, &stop, link, new_summary(command, server.profile(), args));
        let ended = run.all(&mut produce);
        let is_lost = ended.as_ref().is_err_and(|error| {
            patience > 0 && matches!(error, Error::ConnectionLost { may_pass: true, .. })
        });
        let has_all = ended.is_ok() && run.is_faultless.load(Ordering::Relaxed);
        let code =
            if has_all && !args.dry_run { CloseCode::Satisfied } else { CloseCode::Done };
        run.disconnect(is_lost, code);
        moved += run.progress.moved();
        let ended = match ended {
            Err(lost) if is_lost => match retry.reconnect(server, args, &stop, moved, lost) {
                Ok(new) => {
                    *notify.lock().unwrap_or_else(PoisonError::into_inner) = new.notify();
                    link = new;
                    continue;
                }
                Err(error) => Err(error),
            },
            ended => ended,
        };
        return run.conclude(start.elapsed(), moved, ended);
    }
}

fn new_summary(command: &'static str, profile: Profile, args: &TransferArgs) -> Summary {
    let mut summary = Summary::new(command, profile.name(), args.json);
    if args.dry_run {
        summary.plan();
    }
    summary
}

impl<'a> Run<'a> {
    fn new(
        args: &'a TransferArgs,
        stop: &'a Termination,
        link: Link,
        summary: Summary,
    ) -> Self {
        let (report, reports) = mpsc::channel();
        Self {
            args,
            stop,
            link,
            progress: Arc::default(),
            display: Display::new(args.quiet),
            summary,
            reports,
            report,
            waiting: VecDeque::new(),
            last: VecDeque::new(),
            is_faultless: Arc::new(AtomicBool::new(true)),
            is_lost: false,
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
        if self.stop.is_requested() {
            return Err(Error::Interrupted);
        }
        self.link.turn(TURN)
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

    /// Makes sure that the server knows `option`.
    pub(super) fn require_current(&mut self, option: &'static str) -> Result<(), Error> {
        self.link.require_current(option)
    }

    /// Runs a job beside the transfers.
    pub(super) fn spawn_inquiry(&mut self, mailbox: Mailbox, job: Job) {
        self.spawn(mailbox, job);
    }

    fn spawn(&mut self, mailbox: Mailbox, job: Job) {
        let kind = job.kind;
        let (report, notify) = (self.report.clone(), self.link.notify());
        *self.running(kind) += 1;
        std::thread::spawn(move || {
            let result = (job.work)(&mailbox);
            if let Err(error) = &result {
                mailbox.fail(error);
            }
            drop(mailbox);
            // Fails only if the command has ended.
            let _ = report.send(Report::Done { name: job.name, kind, result });
            notify();
        });
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
        produce: &mut impl FnMut(&mut Self, Producer) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (sender, jobs) = mpsc::sync_channel(QUEUE);
        let reporter = Reporter::new(
            self.report.clone(),
            self.link.notify(),
            Arc::clone(&self.progress),
            Arc::clone(&self.is_faultless),
        );
        let producer = Producer::new(sender, reporter);
        produce(self, producer).and_then(|()| self.work(&jobs))
    }

    /// Ends the connection. If it `is_lost` and another one follows, nothing of this one may still
    /// hold a file then, and what has failed by the loss alone has not failed.
    fn disconnect(&mut self, is_lost: bool, code: CloseCode) {
        self.is_lost = is_lost;
        while let Ok(report) = self.reports.try_recv() {
            self.take(report);
        }
        self.link.close(code, "done");
        self.summary.transport = self.link.transport();
        if !is_lost {
            return;
        }
        self.link.abandon();
        let deadline = Instant::now() + WORKERS_END;
        while self.transfers + self.batches + self.inquiries > 0 && Instant::now() < deadline {
            if let Ok(report) = self.reports.recv_timeout(TURN) {
                self.take(report);
            }
        }
        self.display.finish();
    }

    /// Sums up.
    fn conclude(
        mut self,
        elapsed: Duration,
        moved: u64,
        ended: Result<(), Error>,
    ) -> Result<(), Error> {
        self.display.finish();
        let result = self.summary.conclude(elapsed.as_secs_f64(), moved, ended);
        if self.summary.has_something() {
            self.display.note(&self.summary.line());
        }
        if self.args.json {
            print_json(&self.summary)?;
        }
        result
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
            while let Some(job) = self.next_job(more) {
                let mailbox = self.open()?;
                self.spawn(mailbox, job);
            }
            self.turn()?;
            self.display.update(&self.progress);
        }
        // The last answers of ours are on their way until the server has closed its streams.
        let deadline = Instant::now() + FAREWELL;
        while !self.link.is_quiet() && Instant::now() < deadline {
            self.turn()?;
        }
        Ok(())
    }

    /// Whether something is being done, or can be as soon as something else is.
    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.transfers + self.batches + self.inquiries > 0
    }

    /// The first job that need not wait. `more` says whether others may come up.
    fn next_job(&mut self, more: bool) -> Option<Job> {
        if !more && !self.is_busy() {
            return self.last.pop_front();
        }
        let transfers = usize::from(self.args.parallel);
        let batches = (BATCHES * transfers).min(MAX_BATCHES);
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
            Report::File { name, result } => self.file(name, result),
            Report::Edited { name, edit, result } => self.edited(&name, edit, result),
            Report::Planned { name, size, change } => self.planned(name, size, change),
            Report::Batch { error: TransferError::Disconnected, .. } if self.is_lost => {}
            Report::Batch { name, files, error } => {
                let others = match files {
                    0 | 1 => String::new(),
                    n => format!(" and {} others", n - 1),
                };
                self.problem(format!("{name}{others}: {error}"), files.max(1), &error);
            }
            Report::Done { name, kind, result } => {
                *self.running(kind) -= 1;
                if let Some(result) = result.transpose() {
                    self.file(name, result);
                }
            }
            Report::Skipped(text, Some(exit)) => {
                self.display.problem(&text);
                self.is_faultless.store(false, Ordering::Relaxed);
                self.summary.add_problem(text, 1, exit);
            }
            Report::Skipped(text, None) => {
                self.display.note(&text);
                self.summary.skipped += 1;
            }
            Report::Note(text) => self.display.note(&text),
        }
    }

    fn file(&mut self, name: String, result: Result<Outcome, TransferError>) {
        match result {
            Err(TransferError::Disconnected) if self.is_lost => {}
            Ok(outcome) => {
                self.tell(&FileEvent::of_file(&name, &outcome));
                self.summary.add_file(name, &outcome);
            }
            Err(error) => {
                self.tell(&FileEvent::of_failure(&name, &error));
                self.problem(format!("{}: {error}", printable(&name)), 1, &error);
            }
        }
    }

    fn edited(&mut self, name: &str, edit: EditKind, result: Result<Edited, TransferError>) {
        match result {
            Ok(edited) => {
                if let Some(event) = FileEvent::of_edit(name, edit, edited) {
                    self.tell(&event);
                }
                self.summary.add_edit(edit, edited);
            }
            Err(error) => {
                self.tell(&FileEvent::of_failure(name, &error));
                self.problem(format!("{}: {error}", printable(name)), 1, &error);
            }
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
            _ => {
                if !self.args.json {
                    print_planned(&name, size, change);
                }
                self.summary.add_planned(name, size, change);
            }
        }
    }

    /// Tells what happened to a file, if the user wants to know of each.
    fn tell(&self, event: &FileEvent<'_>) {
        if !self.args.verbose {
            return;
        }
        if self.args.json {
            // Whoever closed standard output does not want to know.
            let _ = print_json(event);
        } else if event.error.is_none() {
            self.display.note(&event.line());
        }
    }

    fn problem(&mut self, text: String, files: u64, error: &TransferError) {
        self.display.problem(&text);
        self.is_faultless.store(false, Ordering::Relaxed);
        self.summary.add_problem(text, files, exit_of(error));
    }
}

/// A line on standard output. Whoever reads it may have seen enough.
fn print_planned(name: &str, size: u64, change: Change) {
    use std::io::Write;
    let (change, size, name) = (change.name(), units::bytes(size), printable(name));
    let _ = writeln!(std::io::stdout(), "{change:9} {size:>9}  {name}");
}
