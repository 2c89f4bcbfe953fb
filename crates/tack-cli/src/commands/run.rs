//! Runs what a command transfers: connects, connects again when the connection is lost, shows what happens,
//! and sums up.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tack_transfer::{
    Change, Client, End, Event, Summary as Totals, TransferError, TransferOptions, printable,
};

use super::connector::Connector;
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
    let mut client = match server.connect(args.bwlimit, None) {
        Ok(client) => client,
        Err(error) => {
            let error = server.explain(error);
            return refuse(command, server.profile(), args, (start.elapsed(), error));
        }
    };
    // Before there are other threads, which inherit which signals are blocked.
    let stop = Termination::catch().map_err(Error::local("signals"))?;
    options.stop = Some(stop.flag());
    options.leaves_at_once = server.serves_one();
    let notify = Arc::new(Mutex::new(client.waker()));
    let current = Arc::clone(&notify);
    stop.on_signal(move || (current.lock().unwrap_or_else(PoisonError::into_inner))());
    let patience = if again == Again::Possible { args.retry } else { 0 };
    options.attempts = (patience > 0).then(Arc::default);
    let mut retry = Retry::new(Duration::from_secs(patience.into()));
    let mut moved = 0;
    loop {
        let mut shown = Shown::new(args, new_summary(command, server.profile(), args));
        let ended = match operate(&mut client, &options, &mut |event| shown.observe(event)) {
            // Each failure has been shown.
            Ok(_) | Err(Error::Incomplete { .. }) => Ok(()),
            Err(error) => Err(server.explain(error)),
        };
        shown.summary.transport = client.close();
        moved += shown.moved;
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
                match retry.reconnect(server, args, &stop, moved, lost) {
                    Ok(new) => {
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
        return shown.conclude(start.elapsed(), moved, ended);
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
    /// Bytes of content that have crossed the network.
    moved: u64,
    /// Why what would be transferred could not be printed.
    unprinted: Option<std::io::Error>,
}

impl<'a> Shown<'a> {
    fn new(args: &'a TransferArgs, summary: Summary) -> Self {
        Self { args, display: Display::new(args.quiet), summary, moved: 0, unprinted: None }
    }

    fn observe(&mut self, event: Event<'_>) {
        match event {
            Event::Progress(progress) => {
                self.moved = progress.moved();
                self.display.update(progress);
            }
            Event::File { path, outcome } => {
                self.tell(&FileEvent::of_file(path, outcome));
                self.summary.add_file(path.to_owned(), outcome);
            }
            Event::Failed { path, others, error } => self.failed(path, others, error),
            Event::Edited { path, edit, edited } => {
                if let Some(event) = FileEvent::of_edit(path, edit, edited) {
                    self.tell(&event);
                }
                self.summary.add_edit(edit, edited);
            }
            Event::Planned { path, size, change } => {
                if !self.args.json && self.unprinted.is_none() {
                    self.unprinted = print_planned(path, size, change).err();
                }
                self.summary.add_planned(path.to_owned(), size, change);
            }
            Event::Skipped { path, reason, failed } => self.skipped(path, reason, failed),
            Event::Note(text) => self.display.note(text),
            _ => {}
        }
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
        self.tell(&FileEvent::of_skipped(path, reason, failed.is_some()));
        let text = format!("{path}: skipped, {reason}");
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
    fn conclude(
        mut self,
        elapsed: Duration,
        moved: u64,
        ended: Result<(), Error>,
    ) -> Result<(), Error> {
        self.display.finish();
        // Whoever reads it may have seen enough.
        let unprinted = self.unprinted.filter(|cause| cause.kind() != ErrorKind::BrokenPipe);
        let printed =
            unprinted.map_or(Ok(()), |cause| Err(Error::local("standard output")(cause)));
        let ended = ended.and(printed);
        let result = self.summary.conclude(elapsed.as_secs_f64(), moved, ended);
        if self.summary.has_something() {
            self.display.note(&self.summary.line());
        }
        if self.args.json {
            print_summary(&self.summary)?;
        }
        result
    }
}

/// A line on standard output.
fn print_planned(name: &str, size: u64, change: Change) -> std::io::Result<()> {
    use std::io::Write;
    let (change, size, name) = (change.name(), units::bytes(size), printable(name));
    writeln!(std::io::stdout(), "{change:9} {size:>9}  {name}")
}
