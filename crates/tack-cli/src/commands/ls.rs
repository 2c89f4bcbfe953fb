//! `tack ls`

use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use tack_transfer::{Listed, ListedKind, Notify, TransferError, WirePath};

use super::connector::{Connector, Direct, first_connection};
use crate::cli::LsArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::progress;
use crate::target::Target;
use crate::termination::Termination;
use crate::units;

/// Lists what a server has.
pub fn ls(args: &LsArgs) -> Result<(), Error> {
    let mut server = Direct::new(&args.source, &args.connection);
    // Before there are other threads, which inherit which signals are blocked.
    let stop = Termination::catch().map_err(Error::local("signals"))?;
    // Nothing has to be told before there is a connection.
    let notify: Arc<OnceLock<Notify>> = Arc::default();
    let told = Arc::clone(&notify);
    stop.on_signal(move || {
        if let Some(notify) = told.get() {
            notify();
        }
    });
    let connected = first_connection(&mut server, None, &stop);
    let mut client = connected.map_err(|error| of_listing(error, &args.source))?;
    // It is set once.
    let _ = notify.set(client.waker());
    let out = BufWriter::new(io::stdout());
    let mut printer = Printer::new(out, args.json, args.quiet);
    let errors = Arc::clone(&printer.errors);
    let flag = stop.flag();
    let ended = client.list(args.source.path(), args.recursive, Some(&*flag), move |entries| {
        printer.print_all(entries)
    });
    client.close();
    match (ended.map_err(Error::from), errors.load(Ordering::Relaxed)) {
        (Ok(()), 0) => Ok(()),
        (Ok(()), count) => Err(Error::Unlisted { count, exit: Exit::Remote }),
        // Whoever reads has seen enough, as behind `tack ls … | head`.
        (Err(Error::Local { cause, .. }), _) if cause.kind() == io::ErrorKind::BrokenPipe => {
            Ok(())
        }
        (Err(error), _) => Err(of_listing(server.explain(error), &args.source)),
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

/// Prints entries as they arrive, and keeps none of them.
struct Printer<W> {
    out: W,
    json: bool,
    quiet: bool,
    /// Entries that the server could not list.
    errors: Arc<AtomicU64>,
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

/// Something that could not be listed.
#[derive(Serialize)]
struct Unlisted<'a> {
    /// As it is printed: it may be no name that can be told.
    path: &'a str,
    kind: &'static str,
    error: &'a str,
}

impl<'a> Entry<'a> {
    fn new(path: &'a WirePath, kind: &'static str, mode: Option<u32>) -> Self {
        let permissions = permissions(kind == "directory", mode);
        let mode = mode.map(|mode| format!("{:04o}", mode & 0o777));
        Self { path, kind, bytes: None, modified: None, mode, permissions }
    }

    fn of(path: &'a WirePath, kind: ListedKind, mode: Option<u32>) -> Self {
        match kind {
            ListedKind::File { size, modified } => Self {
                bytes: Some(size),
                modified: modified.and_then(|time| units::timestamp_at(time.seconds)),
                ..Self::new(path, "file", mode)
            },
            _ => Self::new(path, "directory", mode),
        }
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
    fn new(out: W, json: bool, quiet: bool) -> Self {
        Self { out, json, quiet, errors: Arc::default() }
    }

    fn print_all(&mut self, entries: &[Listed]) -> io::Result<()> {
        for entry in entries {
            match entry {
                Listed::Entry { path, kind, mode } => {
                    self.print(&Entry::of(path, *kind, *mode))?;
                }
                Listed::Skipped { name, reason, error } => {
                    self.skipped(name, reason, *error)?;
                }
                _ => {}
            }
        }
        self.out.flush()
    }

    fn print(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let line = if self.json { serde_json::to_string(entry)? } else { entry.line() };
        writeln!(self.out, "{line}")
    }

    fn skipped(&mut self, name: &str, reason: &str, error: bool) -> io::Result<()> {
        self.errors.fetch_add(u64::from(error), Ordering::Relaxed);
        if error || !self.quiet {
            progress::print(&format!("{name}: {reason}"));
        }
        if error && self.json {
            let entry = Unlisted { path: name, kind: "unlisted", error: reason };
            writeln!(self.out, "{}", serde_json::to_string(&entry)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tack_transfer::Mtime;

    use super::*;

    fn printed(path: &str, kind: ListedKind, mode: Option<u32>) -> String {
        let mut printer = Printer::new(Vec::new(), false, true);
        let path = WirePath::new(path).unwrap();
        printer.print(&Entry::of(&path, kind, mode)).unwrap();
        let text = String::from_utf8(printer.out).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_not_known_of_an_entry_is_shown_as_unknown() {
        let modified = Some(Mtime { seconds: i64::MAX, nanos: 0 });
        let file = ListedKind::File { size: 7, modified };
        assert_eq!(printed("a/b", file, Some(0o640)), "-rw-r----- 7 - a/b");
        let file = ListedKind::File { size: 7, modified: None };
        assert_eq!(printed("b", file, None), "-????????? 7 - b");
        assert_eq!(printed("a", ListedKind::Directory, Some(0o755)), "drwxr-xr-x - - a/");
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        let line = printed("a\u{1b}[2J\nb", ListedKind::Directory, Some(0o700));
        assert_eq!(line, "drwx------ - - a\\u{1b}[2J\\nb/");
    }
}
