//! `tack send -`: standard input becomes a file at the server.

use std::io::{ErrorKind, Read, stdin};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::connector::Direct;
use super::jobs::{self, Again, Job, Kind};
use crate::cli::SendArgs;
use crate::error::Error;
use crate::session::{Mailbox, Outcome, Progress};
use crate::transfer::{CHUNK, Hasher, Message, Mtime, Offer, TransferError, UNKNOWN_SIZE};

/// Whether standard input is to be sent.
pub(super) fn is_asked_for(args: &SendArgs) -> bool {
    args.sources.iter().any(|source| source == Path::new("-"))
}

/// Sends standard input as it comes; its length is not known in advance.
pub(super) fn send(args: &SendArgs) -> Result<(), Error> {
    let client = &args.transfer;
    let refused = [
        (args.sources.len() > 1, "other files"),
        (client.dry_run, "--dry-run"),
        (client.delete, "--delete"),
        (client.update, "--update"),
        (client.ignore_existing, "--ignore-existing"),
    ];
    if let Some((_, what)) = refused.iter().find(|(is_given, _)| *is_given) {
        return Err(Error::Usage(format!("standard input (-) can't be sent with {what}")));
    }
    if args.dest.is_directory() {
        return Err(Error::Usage(
            "standard input (-) needs a name at the server: HOST:PORT/PATH, without a slash at \
             the end"
                .to_owned(),
        ));
    }
    let (path, policy) = (args.dest.path().clone(), client.policy());
    let mut request = Some((path, policy));
    let mut server = Direct { target: &args.dest, args: &args.connection };
    jobs::run("send", &mut server, client, Again::Impossible, |run, producer| {
        let Some((path, policy)) = request.take() else { return Ok(()) };
        run.require_current("- for standard input")?;
        let progress = Arc::clone(&producer.progress);
        let name = path.as_str().to_owned();
        let work = Box::new(move |mailbox: &Mailbox| {
            let offer = Offer { size: UNKNOWN_SIZE, modified: now(), mode: 0o666 };
            mailbox.send(Message::Put { path, offer, policy })?;
            match mailbox.recv()? {
                // Of what went before nothing can be read again.
                Message::Resume(_) => {
                    send_all(mailbox, &mut stdin().lock(), &progress).map(Some)
                }
                other => Err(TransferError::unexpected(&other)),
            }
        });
        producer.submit(Job { kind: Kind::Transfer, name, work });
        Ok(())
    })
}

fn send_all(
    mailbox: &Mailbox,
    input: &mut impl Read,
    progress: &Progress,
) -> Result<Outcome, TransferError> {
    mailbox.send(Message::Start { offset: 0 })?;
    let (mut hasher, mut size) = (Hasher::default(), 0);
    loop {
        let mut chunk = vec![0; CHUNK];
        let read = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(TransferError::reading(error)),
        };
        chunk.truncate(read);
        hasher.update(&chunk);
        mailbox.send(Message::Data(chunk))?;
        size += read as u64;
        progress.expect(read as u64);
        progress.advance(read as u64, read as u64);
    }
    mailbox.send(Message::End { digest: hasher.digest() })?;
    match mailbox.recv()? {
        Message::Stored => {
            let digest = Some(hasher.digest());
            Ok(Outcome { size, moved: size, digest, ..Outcome::default() })
        }
        other => Err(TransferError::unexpected(&other)),
    }
}

fn now() -> Mtime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Mtime {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos(),
    }
}
