//! Files that are there at both ends, of the same size, and that a dry run compares by their content.

use super::attributes::Ours;
use super::jobs::{Job, Kind};
use super::producer::Reporter;
use super::requests::{Asked, next_request};
use crate::protocol::{Change, Digest, Message, TransferError, WirePath, json_len};
use crate::session::{Mailbox, Outcome};

/// Files that are compared at most; what is listed must not fill the memory.
const MAX_COMPARED: usize = 1 << 20;

/// A file that is compared.
pub(super) struct ComparedFile {
    /// Its path on the server, by which it is told of, too.
    pub(super) theirs: WirePath,
    pub(super) ours: Ours,
    pub(super) size: u64,
    /// Why it could not be received, if its content is another.
    pub(super) refusal: Option<TransferError>,
}

/// What is still to be compared, if anything is.
pub(super) struct Comparison {
    by_content: bool,
    files: Vec<ComparedFile>,
}

impl Comparison {
    /// Compares only if the content is to decide.
    pub(super) fn new(by_content: bool) -> Self {
        Self { by_content, files: Vec::new() }
    }

    /// Tells what would become of a file, or puts that off until its content has been compared. `found` is its size
    /// at the receiver, if it has it.
    pub(super) fn plan(
        &mut self,
        told: &Reporter,
        file: ComparedFile,
        found: Option<u64>,
        change: Change,
    ) -> Result<(), TransferError> {
        let depends = matches!(
            change,
            Change::Changed | Change::Compared | Change::Unchanged | Change::Attributes
        );
        let is_compared = self.by_content && depends || file.refusal.is_some();
        if !is_compared || found != Some(file.size) {
            told.planned(file.theirs.as_str().to_owned(), file.size, change);
            return Ok(());
        }
        if self.files.len() == MAX_COMPARED {
            return Err(TransferError::TooManyNames(MAX_COMPARED));
        }
        self.files.push(file);
        Ok(())
    }

    /// Queues the comparison.
    pub(super) fn submit(self, told: &Reporter) {
        let Some(first) = self.files.first() else { return };
        let (name, told_by) = (first.theirs.to_string(), told.clone());
        let work = Box::new(move |mailbox: &Mailbox| {
            compare(mailbox, &told_by, self.files)?;
            Ok(None)
        });
        told.follow_up(Job { kind: Kind::Inquiry, name, work });
    }
}

/// Asks for digests, a request behind the other.
fn compare(
    mailbox: &Mailbox,
    told: &Reporter,
    files: Vec<ComparedFile>,
) -> Result<(), TransferError> {
    let mut files = files.into_iter().peekable();
    while files.peek().is_some() {
        let asked = next_request(&mut files, |file| json_len(&file.theirs));
        let paths = asked.iter().map(|file| file.theirs.clone()).collect();
        mailbox.send(Message::GetDigests { paths })?;
        take_digests(mailbox, told, Asked::new(asked))?;
    }
    Ok(())
}

fn take_digests(
    mailbox: &Mailbox,
    told: &Reporter,
    mut asked: Asked<ComparedFile>,
) -> Result<(), TransferError> {
    loop {
        match mailbox.recv()? {
            Message::EndOfDigests => break,
            Message::Digest { file, digest } => tell(told, asked.take(file)?, digest),
            Message::Fault { file, fail } => {
                let name = asked.take(file)?.theirs.as_str().to_owned();
                told.file(name, Err(TransferError::Remote(fail)));
            }
            other => return Err(TransferError::unexpected(&other)),
        }
    }
    if !asked.is_answered() {
        return Err(TransferError::Protocol("it left out digests".to_owned()));
    }
    Ok(())
}

fn tell(told: &Reporter, file: ComparedFile, theirs: Digest) {
    let name = file.theirs.as_str().to_owned();
    match file.ours.digest(file.size) {
        Ok(ours) if ours == theirs => {
            let (size, digest) = (file.size, Some(ours));
            told.file(name, Ok(Outcome { size, equal: true, digest, ..Outcome::default() }));
        }
        Ok(_) => match file.refusal {
            Some(refusal) => told.file(name, Err(refusal)),
            None => told.planned(name, file.size, Change::Changed),
        },
        Err(error) => told.file(name, Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    use super::*;

    #[test]
    fn digests_are_asked_for_in_no_more_requests_than_their_number_needs() {
        let here = tempfile::NamedTempFile::new().unwrap();
        let files = (0..2000).map(|n| ComparedFile {
            theirs: WirePath::new(format!("tree/{n:0200}")).unwrap(),
            ours: Ours::At(here.path().to_owned()),
            size: 0,
            refusal: None,
        });
        let (reports, heard) = mpsc::channel();
        let told = Reporter::new(reports, Arc::new(|| {}), Arc::default(), Arc::default());
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let mailbox = Mailbox::answered_by(move |message| {
            counted.fetch_add(1, Ordering::Relaxed);
            let Message::GetDigests { paths } = message else { panic!("{message:?}") };
            let digest = |file| Message::Digest { file, digest: Digest::of(b"") };
            let digests = (0..paths.len() as u32).map(digest);
            digests.chain([Message::EndOfDigests]).collect()
        });
        compare(&mailbox, &told, files.collect()).unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 2000usize.div_ceil(256));
        assert_eq!(heard.try_iter().count(), 2000);
    }
}
