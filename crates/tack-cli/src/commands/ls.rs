//! `tack ls`

use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::connector::{Connector, Direct};
use super::jobs::{TURN, catch_signals};
use crate::cli::LsArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::progress;
use crate::quic::CloseCode;
use crate::session::{Link, Mailbox};
use crate::target::Target;
use crate::termination::Termination;
use crate::transfer::{
    EntryKind, FileEntry, Group, Message, Mtime, TransferError, WirePath, printable,
};
use crate::units;

/// How long to let the server close its stream once everything is printed.
const FAREWELL: Duration = Duration::from_secs(2);

/// Lists what a server has.
pub fn ls(args: &LsArgs) -> Result<(), Error> {
    let mut link =
        Direct { target: &args.source, args: &args.connection }.connect(None, None)?;
    let stop = catch_signals(&link)?;
    let ended = follow(args, &mut link, &stop);
    link.close(CloseCode::Done, "done");
    match ended {
        Ok(0) => Ok(()),
        Ok(count) => Err(Error::Unlisted { count, exit: Exit::Remote }),
        // Whoever reads has seen enough, as behind `tack ls … | head`.
        Err(Error::Local { cause, .. }) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(of_listing(error, &args.source)),
    }
}

/// The error of a listing, which nothing can resume.
fn of_listing(error: Error, target: &Target) -> Error {
    match error {
        Error::Interrupted => Error::ListingInterrupted,
        Error::ConnectionLost { target, reason, .. } => Error::ListingLost { target, reason },
        Error::Transfer(TransferError::Disconnected) => Error::ListingLost {
            target: target.to_string(),
            reason: "the stream ended early".to_owned(),
        },
        other => other,
    }
}

/// Runs the connection until all is printed; returns how many entries the server could not list.
fn follow(args: &LsArgs, link: &mut Link, stop: &Termination) -> Result<u64, Error> {
    let mailbox = loop {
        turn(link, stop)?;
        if let Some(mailbox) = link.open()? {
            break mailbox;
        }
    };
    let (tell, result) = mpsc::channel();
    let path = args.source.path().clone();
    let out = BufWriter::new(io::stdout());
    let mut printer = Printer::new(out, args.json, args.recursive, args.quiet);
    // A worker of its own, because standard output may be slow.
    std::thread::spawn(move || {
        let listed = printer.list(&mailbox, &path);
        // The mailbox goes first, so that the stream has ended when the result is there.
        drop(mailbox);
        // Fails only if the command has ended.
        let _ = tell.send(listed.map(|()| printer.errors));
    });
    let result = loop {
        match result.try_recv() {
            Ok(result) => break result,
            Err(TryRecvError::Disconnected) => break Err(TransferError::Disconnected.into()),
            Err(TryRecvError::Empty) => turn(link, stop)?,
        }
    };
    let deadline = Instant::now() + FAREWELL;
    while result.is_ok() && !link.is_quiet() && Instant::now() < deadline {
        turn(link, stop)?;
    }
    result
}

fn turn(link: &mut Link, stop: &Termination) -> Result<(), Error> {
    if stop.is_requested() { Err(Error::Interrupted) } else { link.turn(TURN) }
}

/// Prints entries as they arrive, and keeps none of them.
struct Printer<W> {
    out: W,
    json: bool,
    recursive: bool,
    quiet: bool,
    /// The directory of the last entry: it is repeated where the next message begins within it.
    directory: WirePath,
    /// Entries that the server could not list.
    errors: u64,
}

/// One entry.
#[derive(Serialize)]
struct Entry<'a> {
    /// Relative to what is listed.
    path: &'a WirePath,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// In UTC, in whole seconds, as RFC 3339 writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// In octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// As `ls -l` shows them.
    #[serde(skip)]
    permissions: String,
}

impl<'a> Entry<'a> {
    fn new(path: &'a WirePath, kind: &'static str, mode: Option<u32>) -> Self {
        let permissions = permissions(kind == "directory", mode);
        let mode = mode.map(|mode| format!("{:04o}", mode & 0o777));
        Self { path, kind, bytes: None, modified: None, mode, permissions }
    }

    fn directory(path: &'a WirePath, mode: Option<u32>) -> Self {
        Self::new(path, "directory", mode)
    }

    fn file(path: &'a WirePath, file: &FileEntry) -> Self {
        let offer = file.offer();
        let Mtime { seconds, .. } = offer.modified;
        let entry = Self::new(path, "file", Some(offer.mode));
        Self { bytes: Some(offer.size), modified: units::timestamp_at(seconds), ..entry }
    }

    /// For people.
    fn line(&self) -> String {
        let size = self.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        let modified = self.modified.as_deref().unwrap_or("-");
        let slash = if self.kind == "directory" { "/" } else { "" };
        format!("{} {size:>15} {modified:<20} {}{slash}", self.permissions, self.path)
    }
}

/// Permissions as `ls -l` shows them; question marks if they are not known.
fn permissions(is_directory: bool, mode: Option<u32>) -> String {
    let mut text = String::from(if is_directory { "d" } else { "-" });
    match mode {
        None => text.push_str("?????????"),
        Some(mode) => text.extend(
            "rwxrwxrwx"
                .chars()
                .enumerate()
                .map(|(at, c)| if mode >> (8 - at) & 1 == 1 { c } else { '-' }),
        ),
    }
    text
}

impl<W: Write> Printer<W> {
    fn new(out: W, json: bool, recursive: bool, quiet: bool) -> Self {
        Self { out, json, recursive, quiet, directory: WirePath::root(), errors: 0 }
    }

    fn list(&mut self, mailbox: &Mailbox, path: &WirePath) -> Result<(), Error> {
        let depth = if self.recursive { u32::MAX } else { 1 };
        mailbox.send(Message::List { path: path.clone(), depth: Some(depth), links: false })?;
        let Message::Entry { kind } = mailbox.recv()? else {
            return Err(TransferError::Protocol("expected what the path is".to_owned()).into());
        };
        let mut is_described = false;
        loop {
            match mailbox.recv()? {
                Message::Manifest(groups) => {
                    is_described = true;
                    self.groups(&groups)?;
                }
                Message::Skipped { name, reason, error } => self.skipped(&name, &reason, error),
                Message::EndOfList => break,
                other => return Err(TransferError::unexpected(&other).into()),
            }
        }
        if let (EntryKind::File { size }, false) = (kind, is_described) {
            // A server that knows no depth says nothing but the size.
            let (_, name) = path.split_last().unwrap_or_default();
            let name = WirePath::new(name).map_err(TransferError::from)?;
            let entry = Entry::new(&name, "file", None);
            self.print(&Entry { bytes: Some(size), ..entry })?;
            self.flush()?;
        }
        Ok(())
    }

    fn groups(&mut self, groups: &[Group]) -> Result<(), Error> {
        for group in groups {
            let depth = group.directory.components().count();
            if depth > 1 && !self.recursive {
                continue;
            }
            if group.directory != self.directory {
                let mode = group.modes.last().copied();
                self.print(&Entry::directory(&group.directory, mode))?;
                self.directory = group.directory.clone();
            }
            if depth > 0 && !self.recursive {
                continue;
            }
            for (file, path) in group.files.iter().zip(group.paths(&WirePath::root())) {
                let (path, _) = path.map_err(TransferError::from)?;
                self.print(&Entry::file(&path, file))?;
            }
        }
        self.flush()
    }

    fn print(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        let line = if self.json {
            serde_json::to_string(entry).map_err(io::Error::from)
        } else {
            Ok(entry.line())
        };
        line.and_then(|line| writeln!(self.out, "{line}"))
            .map_err(Error::local("standard output"))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.flush().map_err(Error::local("standard output"))
    }

    fn skipped(&mut self, name: &str, reason: &str, error: bool) {
        self.errors += u64::from(error);
        if error || !self.quiet {
            progress::print(&format!("{}: {}", printable(name), printable(reason)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Offer;

    fn path(text: &str) -> WirePath {
        WirePath::new(text).unwrap()
    }

    fn group(directory: &str, files: &[&str]) -> Group {
        let modified = Mtime { seconds: i64::MAX, nanos: 0 };
        let entry =
            |name: &&str| FileEntry::new(path(name), Offer { size: 7, modified, mode: 0o640 });
        let files = files.iter().map(entry).collect();
        Group { files, ..Group::new(path(directory), vec![0o700, 0o755]) }
    }

    fn printed(recursive: bool, messages: &[Vec<Group>]) -> Vec<String> {
        let mut printer = Printer::new(Vec::new(), false, recursive, true);
        for groups in messages {
            printer.groups(groups).unwrap();
        }
        let text = String::from_utf8(printer.out).unwrap();
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn a_directory_that_fills_two_messages_is_named_once() {
        let messages =
            [vec![group("", &["top"]), group("a", &["b"])], vec![group("a", &["c"])]];
        let expected = [
            "-rw-r----- 7 - top",
            "drwxr-xr-x - - a/",
            "-rw-r----- 7 - a/b",
            "-rw-r----- 7 - a/c",
        ];
        assert_eq!(printed(true, &messages), expected);
    }

    #[test]
    fn deeper_entries_of_a_server_that_knows_no_depth_are_left_out() {
        let messages = [vec![group("", &["top"]), group("a", &["b"]), group("a/deep", &["c"])]];
        assert_eq!(printed(false, &messages), ["-rw-r----- 7 - top", "drwxr-xr-x - - a/"]);
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        let lines = printed(false, &[vec![group("", &["a\u{1b}[2J\nb"])]]);
        assert_eq!(lines, ["-rw-r----- 7 - a\\u{1b}[2J\\nb"]);
    }
}
