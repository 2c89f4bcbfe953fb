//! Sending what comes from a reader: its length is not known in advance.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::jobs::{Job, Kind, Run};
use super::producer::Producer;
use crate::error::{Error, Feature};
use crate::protocol::{
    CHUNK, Hasher, Message, Mtime, Offer, TransferError, UNKNOWN_SIZE, WirePath,
};
use crate::session::{Mailbox, Outcome, Progress};

/// Starts what sends `input` as `path`.
#[allow(clippy::needless_pass_by_value, reason = "producers are handed over")]
pub(super) fn start(
    mut input: impl Read + Send + 'static,
    path: WirePath,
    run: &mut Run<'_>,
    producer: Producer,
) -> Result<(), Error> {
    let options = run.options;
    let asked = [
        (options.delete, "delete"),
        (options.dry_run, "dry_run"),
        (options.owner, "owner"),
        (options.xattrs, "xattrs"),
        (options.policy.update, "update"),
        (options.policy.ignore_existing, "ignore_existing"),
    ];
    if let Some((_, what)) = asked.iter().find(|(is_asked, _)| *is_asked) {
        return Err(Error::Invalid(format!("a stream can't be sent with the option {what}")));
    }
    run.require_current(Feature::UnknownSize)?;
    if path.has_backslash() {
        run.require_current(Feature::Backslashes)?;
    }
    let (progress, policy) = (Arc::clone(&producer.progress), options.policy.clone());
    let name = path.as_str().to_owned();
    let work = Box::new(move |mailbox: &Mailbox| {
        let offer = Offer { size: UNKNOWN_SIZE, modified: now(), mode: 0o666 };
        mailbox.send(Message::Put { path, offer, policy })?;
        match mailbox.recv()? {
            // Of what went before nothing can be read again.
            Message::Resume(_) => send_all(mailbox, &mut input, &progress).map(Some),
            other => Err(TransferError::unexpected(&other)),
        }
    });
    producer.submit(Job { kind: Kind::Transfer, name, work });
    Ok(())
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
