//! The exchange of many small files, from a worker's point of view.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use super::content::{Outcome, Progress};
use super::mailbox::Mailbox;
use crate::protocol::{
    Bundle, Content, Digest, Fail, GroupCommit, Message, Offer, PartFile, Record, Records,
    SmallFile, Store, TransferError, Tree, WirePath,
};

/// How long one exchange waits in all for others that write the same files. What a client sent before it was
/// killed is soon on disk, and the next run of it may come while it is on its way there.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What became of a file, by its number in the request.
pub type Results = BTreeMap<u32, Result<Outcome, TransferError>>;

/// A small file that is to be received.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Its number in the request.
    pub file: u32,
    /// Where it goes, below the [`Tree`]'s base.
    pub path: WirePath,
    /// What was announced of it.
    pub offer: Offer,
    /// Digest of what is there, if that may turn out to be equal.
    pub compare: Option<Digest>,
    /// It comes all the same, and is passed over.
    pub is_unwanted: bool,
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
            Ok(Outcome {
                size: offer.size,
                moved,
                equal,
                digest: Some(*digest),
                ..Outcome::default()
            }),
        );
    }
    if let Some(message) = bundle.take() {
        mailbox.send(message)?;
    }
    mailbox.send(Message::EndOfBundles)
}

/// Receives the `expected` files into `tree` and waits until they are in place. What became of
/// them goes into `results`, even if the exchange ends with an error: a file that is in place is
/// in place. `told` is called whenever something has come.
pub fn receive_bundles(
    mailbox: &Mailbox,
    tree: &mut Tree,
    commit: &GroupCommit,
    expected: Vec<Expected>,
    progress: &Progress,
    results: &mut Results,
    told: impl FnMut() -> Result<(), TransferError>,
) -> Result<(), TransferError> {
    let (done, committed) = mpsc::channel();
    let waiting = expected.into_iter().map(|expected| (expected.file, expected)).collect();
    let (submitted, patience) = (HashMap::new(), PATIENCE);
    let mut receiving = Receiving { tree, commit, waiting, submitted, done, patience };
    let ended = receiving.run(mailbox, progress, results, told);
    let Receiving { submitted, done, .. } = receiving;
    // Ends when all that was handed in has been answered.
    drop(done);
    for (file, result) in committed {
        if let Some(outcome) = submitted.get(&file) {
            results.insert(file, result.map(|()| *outcome).map_err(TransferError::writing));
        }
    }
    for file in submitted.into_keys() {
        results.entry(file).or_insert_with(|| Err(uncommitted()));
    }
    ended
}

/// The error of a file of which it is not known whether it is in place.
pub fn uncommitted() -> TransferError {
    let text = "the thread that puts files in place has failed; transfer it again";
    TransferError::writing(io::Error::other(text))
}

struct Receiving<'a> {
    tree: &'a mut Tree,
    commit: &'a GroupCommit,
    /// Nothing has come of them yet.
    waiting: HashMap<u32, Expected>,
    /// Complete, and on their way to the disk.
    submitted: HashMap<u32, Outcome>,
    done: mpsc::Sender<(u32, io::Result<()>)>,
    /// How long it still waits for others.
    patience: Duration,
}

impl Receiving<'_> {
    fn run(
        &mut self,
        mailbox: &Mailbox,
        progress: &Progress,
        results: &mut Results,
        mut told: impl FnMut() -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        loop {
            match mailbox.recv()? {
                Message::Bundle(bytes) => {
                    told()?;
                    for record in Records::new(&bytes) {
                        let record = record?;
                        let expected = self.expected(record.file)?;
                        if expected.is_unwanted {
                            continue;
                        }
                        match self.record(&expected, &record, progress) {
                            Ok(Some(outcome)) => drop(results.insert(record.file, Ok(outcome))),
                            Ok(None) => {}
                            Err(error) => drop(results.insert(record.file, Err(error))),
                        }
                    }
                }
                Message::Fault { file, fail } => {
                    if !self.expected(file)?.is_unwanted {
                        results.insert(file, Err(TransferError::Remote(fail)));
                    }
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

    /// An empty temporary file for `path`.
    fn part(&mut self, path: &WirePath) -> Result<PartFile, TransferError> {
        loop {
            match self.tree.part(path) {
                Err(TransferError::Busy) if !self.patience.is_zero() => {
                    std::thread::sleep(LOOK_AGAIN);
                    self.patience = self.patience.saturating_sub(LOOK_AGAIN);
                }
                result => return result,
            }
        }
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
            self.tree.keep_equal(&expected.path, &expected.offer, digest)?;
            let (size, digest) = (expected.offer.size, Some(digest));
            return Ok(Some(Outcome { size, equal: true, digest, ..Outcome::default() }));
        };
        let Content { offer, digest, bytes } = content;
        progress.advance(offer.size, offer.size);
        if Digest::of(bytes) != *digest {
            return Err(TransferError::Verification);
        }
        let mut part = self.part(&expected.path)?;
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

/// The outcome for a file that is there already, and has got other permissions.
pub fn with_attributes(offer: &Offer) -> Outcome {
    Outcome { attributes: true, ..unchanged(offer) }
}

/// The outcome for a file in whose place something stays.
pub fn kept(offer: &Offer) -> Outcome {
    Outcome { size: offer.size, kept: true, ..Outcome::default() }
}

/// Hundreds of these may have to fit into a queue.
pub fn shortened(mut fail: Fail) -> Fail {
    const LONGEST: usize = 1000;
    if let Some((end, _)) = fail.text.char_indices().nth(LONGEST) {
        fail.text.truncate(end);
    }
    fail
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::{FailCode, Mtime, Root};

    /// What a receiver that waits for the files 0 and 1, and has 1, makes of `messages`.
    fn receive(
        messages: Vec<Message>,
    ) -> (Result<(), TransferError>, Results, tempfile::TempDir) {
        receive_with(&GroupCommit::start(), messages)
    }

    fn receive_with(
        commit: &GroupCommit,
        messages: Vec<Message>,
    ) -> (Result<(), TransferError>, Results, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file1"), b"same").unwrap();
        let root = Arc::new(Root::open(dir.path()).unwrap());
        let mut tree = Tree::new(root, WirePath::root(), false, None);
        let expected = (0..2).map(|file| Expected {
            file,
            path: WirePath::new(format!("file{file}")).unwrap(),
            offer: Offer { size: 4, modified: Mtime::default(), mode: 0o600 },
            compare: (file == 1).then(|| Digest::of(b"same")),
            is_unwanted: false,
        });
        let (mailbox, mut stream) = Mailbox::new(Arc::new(|| {}));
        for message in messages {
            stream.deliver(message);
        }
        stream.inbox = None;
        let (progress, mut results) = (Progress::default(), Results::new());
        let expected = expected.collect();
        let told = || Ok(());
        let ended = receive_bundles(
            &mailbox,
            &mut tree,
            commit,
            expected,
            &progress,
            &mut results,
            told,
        );
        (ended, results, dir)
    }

    fn content(file: u32, bytes: &[u8], digest: Digest) -> Message {
        let offer = Offer { size: bytes.len() as u64, modified: Mtime::default(), mode: 0o600 };
        record(&Record { file, content: Some(Content { offer, digest, bytes }) })
    }

    fn record(record: &Record<'_>) -> Message {
        let mut bundle = Bundle::default();
        bundle.push(record);
        bundle.take().unwrap()
    }

    /// How many names there are that were not there before.
    fn names(dir: &tempfile::TempDir) -> usize {
        std::fs::read_dir(dir.path()).unwrap().count() - 1
    }

    #[test]
    fn each_file_has_a_result_of_its_own() {
        let equal = record(&Record { file: 1, content: None });
        let good = content(0, b"good", Digest::of(b"good"));
        let (ended, results, dir) = receive(vec![good, equal, Message::EndOfBundles]);
        ended.unwrap();
        assert_eq!(std::fs::read(dir.path().join("file0")).unwrap(), b"good");
        assert!(matches!(results[&1], Ok(Outcome { equal: true, size: 4, .. })));
        let fail = Fail { code: FailCode::Refused, text: "no".to_owned() };
        let fault = Message::Fault { file: 1, fail };
        let good = content(0, b"good", Digest::of(b"good"));
        let (ended, results, _dir) = receive(vec![fault, good, Message::EndOfBundles]);
        ended.unwrap();
        assert!(results[&0].is_ok() && matches!(results[&1], Err(TransferError::Remote(_))));
    }

    #[test]
    fn a_file_that_was_not_committed_is_an_error() {
        let good = content(0, b"good", Digest::of(b"good"));
        let equal = record(&Record { file: 1, content: None });
        let messages = vec![good, equal, Message::EndOfBundles];
        let (ended, results, dir) = receive_with(&GroupCommit::failing(), messages);
        ended.unwrap();
        assert!(matches!(results.get(&0), Some(Err(TransferError::Local { .. }))));
        assert!(results[&1].is_ok() && !dir.path().join("file0").exists());
    }

    #[test]
    fn without_a_thread_that_commits_files_are_committed_all_the_same() {
        let good = content(0, b"good", Digest::of(b"good"));
        let equal = record(&Record { file: 1, content: None });
        let messages = vec![good, equal, Message::EndOfBundles];
        let (ended, results, dir) = receive_with(&GroupCommit::without_thread(), messages);
        ended.unwrap();
        assert!(matches!(results.get(&0), Some(Ok(_))));
        assert_eq!(std::fs::read(dir.path().join("file0")).unwrap(), b"good");
    }

    #[test]
    fn a_file_that_others_are_about_to_finish_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::open(dir.path()).unwrap());
        let mut tree = Tree::new(root, WirePath::root(), false, None);
        let path = WirePath::new("file").unwrap();
        let others = tree.part(&path).unwrap();
        let (commit, (done, _committed)) = (GroupCommit::start(), mpsc::channel());
        let (waiting, submitted, patience) = (HashMap::new(), HashMap::new(), PATIENCE);
        let mut receiving =
            Receiving { tree: &mut tree, commit: &commit, waiting, submitted, done, patience };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(3 * LOOK_AGAIN);
                drop(others);
            });
            receiving.part(&path).unwrap();
        });
        assert!(receiving.patience < PATIENCE);
        // Whoever holds it for long is not waited for without end.
        let _others = receiving.tree.part(&path).unwrap();
        receiving.patience = 3 * LOOK_AGAIN;
        assert!(matches!(receiving.part(&path), Err(TransferError::Busy)));
    }

    #[test]
    fn content_that_is_not_what_its_digest_says_gets_no_name() {
        let wrong = content(0, b"evil", Digest::of(b"good"));
        let equal = record(&Record { file: 1, content: None });
        let (ended, results, dir) = receive(vec![wrong, equal, Message::EndOfBundles]);
        ended.unwrap();
        assert!(matches!(results[&0], Err(TransferError::Verification)));
        assert_eq!(names(&dir), 0);
    }

    #[test]
    fn files_that_were_not_asked_for_are_refused() {
        let good = || content(0, b"good", Digest::of(b"good"));
        for second in [content(7, b"more", Digest::of(b"more")), good()] {
            let (ended, _, dir) = receive(vec![good(), second, Message::EndOfBundles]);
            assert!(matches!(ended, Err(TransferError::Protocol(_))));
            assert!(names(&dir) <= 1);
        }
        let equal = record(&Record { file: 0, content: None });
        let (_, results, _dir) = receive(vec![equal, Message::EndOfBundles]);
        assert!(matches!(results[&0], Err(TransferError::Protocol(_))));
    }

    #[test]
    fn what_is_in_place_counts_even_if_the_exchange_fails() {
        let good = || content(0, b"good", Digest::of(b"good"));
        for messages in [vec![good()], vec![good(), Message::EndOfBundles]] {
            let (ended, results, dir) = receive(messages);
            assert!(ended.is_err());
            assert!(results[&0].is_ok() && !results.contains_key(&1));
            assert_eq!(names(&dir), 1);
        }
    }
}
