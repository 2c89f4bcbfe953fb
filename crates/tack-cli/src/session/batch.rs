//! The exchange of many small files, from a worker's point of view.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::mpsc;

use super::content::{Outcome, Progress};
use super::mailbox::Mailbox;
use crate::transfer::{
    Bundle, Content, Digest, Fail, GroupCommit, Message, Offer, Record, Records, SmallFile,
    Store, TransferError, Tree, WirePath,
};

/// What became of a file, by its number in the request.
pub type Results = BTreeMap<u32, Result<Outcome, TransferError>>;

/// A small file that is to be received.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Its number in the request.
    pub file: u32,
    /// Where it goes, below the [`Tree`]'s base.
    pub path: WirePath,
    /// Its size as it was announced, in bytes.
    pub size: u64,
    /// Digest of what is there, if that may turn out to be equal.
    pub compare: Option<Digest>,
}

/// Sends small files in bundles. `files` gives each file's number, its content, and the digest
/// of what the receiver has. `report` hears what could not be read, and what has been sent.
pub fn send_bundles(
    mailbox: &Mailbox,
    files: impl Iterator<Item = (u32, Result<SmallFile, TransferError>, Option<Digest>)>,
    progress: &Progress,
    mut report: impl FnMut(u32, Result<Outcome, TransferError>),
) -> Result<(), TransferError> {
    let mut bundle = Bundle::default();
    for (file, content, theirs) in files {
        let content = match content {
            Ok(content) => content,
            Err(error) => {
                if let Some(fail) = error.to_fail() {
                    mailbox.send(Message::Fault { file, fail: shortened(fail) })?;
                }
                report(file, Err(error));
                continue;
            }
        };
        let SmallFile { offer, digest, bytes } = &content;
        let equal = theirs == Some(*digest);
        let sent = Content { offer: *offer, digest: *digest, bytes };
        if let Some(message) = bundle.push(&Record { file, content: (!equal).then_some(sent) })
        {
            mailbox.send(message)?;
        }
        let moved = if equal { 0 } else { offer.size };
        progress.advance(offer.size, moved);
        report(
            file,
            Ok(Outcome { size: offer.size, moved, resumed: 0, equal, digest: Some(*digest) }),
        );
    }
    if let Some(message) = bundle.take() {
        mailbox.send(message)?;
    }
    mailbox.send(Message::EndOfBundles)
}

/// Receives the `expected` files into `tree` and waits until they are in place. What became of
/// them goes into `results`, even if the exchange ends with an error: a file that is in place is
/// in place.
pub fn receive_bundles(
    mailbox: &Mailbox,
    tree: &mut Tree,
    commit: &GroupCommit,
    expected: Vec<Expected>,
    progress: &Progress,
    results: &mut Results,
) -> Result<(), TransferError> {
    let (done, committed) = mpsc::channel();
    let waiting = expected.into_iter().map(|expected| (expected.file, expected)).collect();
    let mut receiving = Receiving { tree, commit, waiting, submitted: HashMap::new(), done };
    let ended = receiving.run(mailbox, progress, results);
    let Receiving { submitted, done, .. } = receiving;
    // Ends when all that was handed in has been answered.
    drop(done);
    for (file, result) in committed {
        if let Some(outcome) = submitted.get(&file) {
            results.insert(file, result.map(|()| *outcome).map_err(TransferError::writing));
        }
    }
    ended
}

struct Receiving<'a> {
    tree: &'a mut Tree,
    commit: &'a GroupCommit,
    /// Nothing has come of them yet.
    waiting: HashMap<u32, Expected>,
    /// Complete, and on their way to the disk.
    submitted: HashMap<u32, Outcome>,
    done: mpsc::Sender<(u32, io::Result<()>)>,
}

impl Receiving<'_> {
    fn run(
        &mut self,
        mailbox: &Mailbox,
        progress: &Progress,
        results: &mut Results,
    ) -> Result<(), TransferError> {
        loop {
            match mailbox.recv()? {
                Message::Bundle(bytes) => {
                    for record in Records::new(&bytes) {
                        let record = record?;
                        let expected = self.expected(record.file)?;
                        match self.record(&expected, &record, progress) {
                            Ok(Some(outcome)) => drop(results.insert(record.file, Ok(outcome))),
                            Ok(None) => {}
                            Err(error) => drop(results.insert(record.file, Err(error))),
                        }
                    }
                }
                Message::Fault { file, fail } => {
                    self.expected(file)?;
                    results.insert(file, Err(TransferError::Remote(fail)));
                }
                Message::EndOfBundles if self.waiting.is_empty() => return Ok(()),
                Message::EndOfBundles => {
                    let text = format!("it left out {} files", self.waiting.len());
                    return Err(TransferError::Protocol(text));
                }
                other => return Err(TransferError::unexpected(&other)),
            }
        }
    }

    fn expected(&mut self, file: u32) -> Result<Expected, TransferError> {
        self.waiting.remove(&file).ok_or_else(|| {
            TransferError::Protocol(format!("file {file} was not asked for, or comes twice"))
        })
    }

    /// Takes a file; the outcome if it is known already.
    fn record(
        &mut self,
        expected: &Expected,
        record: &Record<'_>,
        progress: &Progress,
    ) -> Result<Option<Outcome>, TransferError> {
        let Some(content) = &record.content else {
            let Some(digest) = expected.compare else {
                let text = "the sender calls equal a file that was not to be compared";
                return Err(TransferError::Protocol(text.to_owned()));
            };
            let (size, digest) = (expected.size, Some(digest));
            return Ok(Some(Outcome { size, equal: true, digest, ..Outcome::default() }));
        };
        let Content { offer, digest, bytes } = content;
        progress.advance(offer.size, offer.size);
        if Digest::of(bytes) != *digest {
            return Err(TransferError::Verification);
        }
        let mut part = self.tree.part(&expected.path)?;
        part.append(bytes).map_err(TransferError::writing)?;
        let (size, moved) = (offer.size, offer.size);
        let outcome = Outcome { size, moved, digest: Some(*digest), ..Outcome::default() };
        self.submitted.insert(record.file, outcome);
        self.commit.submit(part, *offer, record.file, &self.done);
        Ok(None)
    }
}

/// The outcome for a file that is there already.
pub fn unchanged(offer: &Offer) -> Outcome {
    Outcome { size: offer.size, equal: true, ..Outcome::default() }
}

/// Hundreds of these may have to fit into a queue.
pub fn shortened(mut fail: Fail) -> Fail {
    const LONGEST: usize = 1000;
    if let Some((end, _)) = fail.text.char_indices().nth(LONGEST) {
        fail.text.truncate(end);
    }
    fail
}
