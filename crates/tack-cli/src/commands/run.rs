//! Runs what a command transfers: connects, connects again when the connection is lost, shows what happens,
//! and sums up.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tack_transfer::{
    Change, Client, Digest, EditKind, End, Event, Notify, Outcome, Summary as Totals,
    TransferError, TransferOptions, printable,
};

use super::connector::{Connector, first_connection};
use super::events::FileEvent;
use super::print_json;
use super::reconnect::Retry;
use crate::cli::{Profile, TransferArgs};
use crate::error::{Error, exit_of};
use crate::exit::Exit;
use crate::progress::Display;
use crate::summary::Summary;
use crate::termination::Termination;
use crate::units;

/// Whether a command can be run again over another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// What was moved can be resumed.
    Possible,
    /// What was read or written through is gone.
    Impossible,
}

/// Hears what happens during an operation.
pub(super) type Observer<'a> = dyn FnMut(Event<'_>) + 'a;

/// Runs a command from connecting to the summary. `operate` does the work over a connection; after the
/// loss of one once more.
pub(super) fn run(
    command: &'static str,
    server: &mut dyn Connector,
    (args, mut options): (&TransferArgs, TransferOptions),
    again: Again,
    mut operate: impl FnMut(
        &mut Client,
        &TransferOptions,
        &mut Observer<'_>,
    ) -> Result<Totals, Error>,
) -> Result<(), Error> {
    let start = Instant::now();
    // Before there are other threads, which inherit which signals are blocked.
    let stop = Termination::catch().map_err(Error::local("signals"))?;
    // Nothing has to be told before there is a connection.
    let notify: Arc<Mutex<Notify>> = Arc::new(Mutex::new(Arc::new(|| ())));
    let current = Arc::clone(&notify);
    stop.on_signal(move || (current.lock().unwrap_or_else(PoisonError::into_inner))());
    let mut client = match first_connection(server, args.bwlimit, &stop) {
        Ok(client) => client,
        Err(error) => {
            return refuse(command, server.profile(), args, (start.elapsed(), error));
        }
    };
    *notify.lock().unwrap_or_else(PoisonError::into_inner) = client.waker();
    options.stop = Some(stop.flag());
    options.leaves_at_once = server.serves_one();
    let patience = if again == Again::Possible { args.retry } else { 0 };
    options.attempts = (patience > 0).then(Arc::default);
    let mut retry = Retry::new(Duration::from_secs(patience.into()));
    let mut shown = Shown::new(args, new_summary(command, server.profile(), args));
    shown.remembers = patience > 0;
    loop {
        let ended = match operate(&mut client, &options, &mut |event| shown.observe(event)) {
            // Each failure has been shown.
            Ok(_) | Err(Error::Incomplete { .. }) => Ok(()),
            Err(error) => Err(server.explain(error)),
        };
        shown.summary.transport = client.close();
        let is_lost = ended.as_ref().is_err_and(|error| {
            patience > 0
                && matches!(
                    error,
                    Error::ConnectionLost { may_pass: true, .. } | Error::ServerBusy
                )
        });
        let ended = match ended {
            Err(lost) if is_lost => {
                shown.display.finish();
                match retry.reconnect(server, args, &stop, shown.all_moved(), lost) {
                    Ok(new) => {
                        shown.try_again();
                        *notify.lock().unwrap_or_else(PoisonError::into_inner) = new.waker();
                        client = new;
                        continue;
                    }
                    Err(error) => Err(error),
                }
            }
            ended if again == Again::Impossible => ended.map_err(Error::of_stream),
            ended => ended,
        };
        return shown.conclude(start.elapsed(), ended);
    }
}

/// Sums up what has ended before anything was transferred.
pub(super) fn refuse(
    command: &'static str,
    profile: Profile,
    args: &TransferArgs,
    (elapsed, error): (Duration, Error),
) -> Result<(), Error> {
    let mut summary = new_summary(command, profile, args);
    let result = summary.conclude(elapsed.as_secs_f64(), 0, Err(error));
    if args.json {
        print_summary(&summary)?;
    }
    result
}

/// Whoever reads it may have seen enough: that is no failure of the transfer.
fn print_summary(summary: &Summary) -> Result<(), Error> {
    match print_json(summary) {
        Err(Error::Local { cause, .. }) if cause.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

fn new_summary(command: &'static str, profile: Profile, args: &TransferArgs) -> Summary {
    let mut summary = Summary::new(command, profile.name(), args.json);
    if args.dry_run {
        summary.plan();
    }
    summary
}

/// What a user sees of an operation.
struct Shown<'a> {
    args: &'a TransferArgs,
    display: Display,
    summary: Summary,
    /// Bytes of content that have crossed the network over this connection, and over those before it.
    moved: u64,
    moved_before: u64,
    /// Another connection may follow, over which all is found again.
    remembers: bool,
    told: Told,
    /// Why what would be transferred could not be printed.
    unprinted: Option<std::io::Error>,
}

impl<'a> Shown<'a> {
    fn new(args: &'a TransferArgs, summary: Summary) -> Self {
        Self {
            args,
            display: Display::new(args.quiet),
            summary,
            moved: 0,
            moved_before: 0,
            remembers: false,
            told: Told::default(),
            unprinted: None,
        }
    }

    /// Bytes of content that have crossed the network over all connections.
    fn all_moved(&self) -> u64 {
        self.moved_before + self.moved
    }

    /// The operation begins again over another connection.
    fn try_again(&mut self) {
        self.moved_before = self.all_moved();
        self.moved = 0;
        self.display = Display::new(self.args.quiet);
        self.summary.try_again();
    }

    fn observe(&mut self, event: Event<'_>) {
        match event {
            Event::Progress(progress) => {
                self.moved = progress.moved();
                self.display.update(progress);
            }
            Event::File { path, outcome } => self.file(path, outcome),
            Event::Failed { path, others, error } => self.failed(path, others, error),
            // A file that has been transferred is told once.
            Event::Edited { path, edit: EditKind::Attributes, .. }
                if self.told.has_transferred(path) => {}
            Event::Edited { path, edit, edited } => {
                if let Some(event) = FileEvent::of_edit(path, edit, edited) {
                    self.tell(&event);
                }
                self.summary.add_edit(edit, edited);
            }
            Event::Planned { path, change, .. } if !self.is_new(path, change.name()) => {}
            Event::Planned { path, size, change } => {
                if !self.args.json && self.unprinted.is_none() {
                    self.unprinted = print_planned(path, size, change).err();
                }
                self.summary.add_planned(path.to_owned(), size, change);
            }
            Event::Skipped { path, reason, failed } => self.skipped(path, reason, failed),
            Event::NotDeleted { path, .. } if !self.is_new(path, "not deleted") => {}
            Event::NotDeleted { path, reason } => {
                self.tell(&FileEvent::of_not_deleted(path, reason));
                self.display.note(&format!("{path}: not deleted: {reason}"));
                self.summary.not_deleted += 1;
            }
            Event::Note(text) if !self.is_new(text, "note") => {}
            Event::Note(text) => {
                self.display.note(text);
                self.summary.add_note(text);
            }
            _ => {}
        }
    }

    /// Whether this has not been told over an earlier connection.
    fn is_new(&mut self, path: &str, what: &'static str) -> bool {
        !self.remembers || self.told.is_new(path, what)
    }

    fn file(&mut self, path: &str, outcome: &Outcome) {
        match self.told.file(path).copied() {
            // It has been told what has become of it.
            Some(_) if outcome.equal || outcome.kept => return,
            Some(before) => self.summary.take_back(path, &before.outcome()),
            None => {}
        }
        if self.remembers || self.args.verbose {
            self.told.add_file(path, outcome);
        }
        self.tell(&FileEvent::of_file(path, outcome));
        self.summary.add_file(path.to_owned(), outcome);
    }

    fn failed(&mut self, path: &str, others: &[String], error: &TransferError) {
        for path in std::iter::once(path).chain(others.iter().map(String::as_str)) {
            self.tell(&FileEvent::of_failure(path, error));
        }
        let and_others = match others.len() {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            others => format!(" and {others} others"),
        };
        let text = format!("{}{and_others}: {error}", printable(path));
        self.display.problem(&text);
        self.summary.add_problem(text, 1 + others.len() as u64, exit_of(error));
    }

    fn skipped(&mut self, path: &str, reason: &str, failed: Option<End>) {
        if failed.is_none() && !self.is_new(path, "skipped") {
            return;
        }
        self.tell(&FileEvent::of_skipped(path, reason, failed.is_some()));
        let what = if failed.is_some() { "failed" } else { "skipped" };
        let text = format!("{path}: {what}, {reason}");
        let exit = failed.map(|end| match end {
            End::Local => Exit::LocalIo,
            End::Remote => Exit::Remote,
        });
        if let Some(exit) = exit {
            self.display.problem(&text);
            self.summary.add_problem(text, 1, exit);
        } else {
            self.display.note(&text);
            self.summary.skipped += 1;
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
            // Errors have a line in any case.
            self.display.note(&event.line());
        }
    }

    /// Sums up.
    fn conclude(mut self, elapsed: Duration, ended: Result<(), Error>) -> Result<(), Error> {
        let moved = self.all_moved();
        self.display.finish();
        // Whoever reads it may have seen enough.
        let unprinted = self.unprinted.filter(|cause| cause.kind() != ErrorKind::BrokenPipe);
        let printed =
            unprinted.map_or(Ok(()), |cause| Err(Error::local("standard output")(cause)));
        let ended = ended.and(printed);
        let result = self.summary.conclude(elapsed.as_secs_f64(), moved, ended);
        // That there was nothing to do is worth a line, too; an error says why nothing was done.
        if self.summary.has_something() || result.is_ok() {
            self.display.note(&self.summary.line());
        }
        if self.args.json {
            print_summary(&self.summary)?;
        }
        result
    }
}

/// Files, and other things, that are remembered at most.
const MAX_TOLD: usize = 1 << 21;

/// What has been told, by hashes of paths: a command that connects again finds all of it once more.
#[derive(Default)]
struct Told {
    hasher: RandomState,
    files: HashMap<u64, ToldFile>,
    others: HashSet<u64>,
}

/// What has been told of a file.
#[derive(Clone, Copy)]
struct ToldFile {
    size: u64,
    equal: bool,
    attributes: bool,
    kept: bool,
    /// Its content was not read.
    unread: bool,
}

impl ToldFile {
    /// As much of the outcome as is remembered.
    fn outcome(self) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.size = self.size;
        outcome.equal = self.equal;
        outcome.attributes = self.attributes;
        outcome.kept = self.kept;
        outcome.digest = (!self.unread).then(|| Digest::of(b""));
        outcome
    }
}

impl Told {
    fn file(&self, path: &str) -> Option<&ToldFile> {
        self.files.get(&self.hasher.hash_one(path))
    }

    fn has_transferred(&self, path: &str) -> bool {
        self.file(path).is_some_and(|file| !file.equal && !file.kept)
    }

    fn add_file(&mut self, path: &str, outcome: &Outcome) {
        let Outcome { size, equal, attributes, kept, digest, .. } = *outcome;
        if self.files.len() < MAX_TOLD {
            let told = ToldFile { size, equal, attributes, kept, unread: digest.is_none() };
            self.files.insert(self.hasher.hash_one(path), told);
        }
    }

    /// Notes that something else has been told; whether that is new.
    fn is_new(&mut self, path: &str, what: &'static str) -> bool {
        let hash = self.hasher.hash_one((path, what));
        if self.others.len() < MAX_TOLD {
            return self.others.insert(hash);
        }
        !self.others.contains(&hash)
    }
}

/// A line on standard output.
fn print_planned(name: &str, size: u64, change: Change) -> std::io::Result<()> {
    use std::io::Write;
    let (change, size, name) = (change.name(), units::bytes(size), printable(name));
    writeln!(std::io::stdout(), "{change:9} {size:>9}  {name}")
}
