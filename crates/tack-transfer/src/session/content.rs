//! The exchange of one file's content, from a worker's point of view.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Mailbox;
use crate::protocol::{
    CHUNK, Comparing, Digest, FileSource, Incoming, KnownChunks, Message, Offer, Receiver,
    Removed, Resume, Sender, Step, Store, TransferError, Waiting,
};

/// Running totals that other threads may read, in bytes.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    settled: AtomicU64,
    moved: AtomicU64,
    comparing: Comparing,
}

/// A file that arrived, or was there already.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Size of the file in bytes.
    pub size: u64,
    /// Bytes of content that crossed the network.
    pub moved: u64,
    /// Bytes that an earlier attempt had left.
    pub resumed: u64,
    /// Bytes that the file in whose place it is had, too.
    pub reused: u64,
    /// The receiver had an equal file.
    pub equal: bool,
    /// The receiver had an equal file, which has got other permissions.
    pub attributes: bool,
    /// The receiver has kept what it had, which may be another file.
    pub kept: bool,
    /// Digest of the whole file, if it was read.
    pub digest: Option<Digest>,
}

impl Progress {
    /// Adds the size of a file that is to be transferred.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds a piece of content that is where it belongs, and the bytes of it that crossed the
    /// network.
    pub fn advance(&self, settled: u64, moved: u64) {
        self.settled.fetch_add(settled, Ordering::Relaxed);
        self.moved.fetch_add(moved, Ordering::Relaxed);
    }

    /// Bytes to transfer, as far as known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Bytes that are where they belong, resumed ones included.
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Bytes of content that crossed the network.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// How far files have been read that are compared.
    pub fn comparing(&self) -> &Comparing {
        &self.comparing
    }
}

/// One file's share of a [`Progress`].
struct Share<'a> {
    progress: &'a Progress,
    settled: u64,
    moved: u64,
    reused: u64,
}

impl<'a> Share<'a> {
    fn new(progress: &'a Progress) -> Self {
        Self { progress, settled: 0, moved: 0, reused: 0 }
    }

    fn settle_at(&mut self, position: u64) {
        self.progress.settled.fetch_sub(self.settled, Ordering::Relaxed);
        self.progress.settled.fetch_add(position, Ordering::Relaxed);
        self.settled = position;
    }

    /// These bytes were at the receiver.
    fn reuse(&mut self, bytes: u64) {
        self.settle_at(self.settled + bytes);
        self.reused += bytes;
    }

    /// These bytes are zeros, and need not cross the network.
    fn skip(&mut self, bytes: u64) {
        self.settle_at(self.settled + bytes);
    }

    /// Nothing of what has come counts any more.
    fn restart(&mut self) {
        self.settle_at(0);
        self.reused = 0;
    }

    fn advance(&mut self, bytes: usize) {
        self.settle_at(self.settled + bytes as u64);
        self.moved += bytes as u64;
        self.progress.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Sends the content of a file to a receiver that has what `resume` says, and waits until it
/// is stored. `removed` hears what has made way for it there.
pub fn send_content(
    mailbox: &Mailbox,
    sender: &mut Sender<FileSource>,
    resume: &Resume,
    progress: &Progress,
    removed: impl FnMut(Removed),
) -> Result<Outcome, TransferError> {
    let mut share = Share::new(progress);
    sender.count_by(progress.comparing());
    let mut first = sender.begin(resume).map_err(TransferError::reading)?;
    if first == Message::WantChunks {
        mailbox.send(first)?;
        let waiting = progress.comparing().wait();
        let known = receive_chunks(mailbox)?;
        drop(waiting);
        first = sender.begin_with(known).map_err(TransferError::reading)?;
    }
    let equal = first == Message::Equal;
    share.settle_at(if equal { sender.offer().size } else { sender.offset() });
    mailbox.send(first)?;
    while let Some(message) = sender.next_message().map_err(TransferError::reading)? {
        match &message {
            Message::Data(data) => share.advance(data.len()),
            Message::Copy { bytes, .. } => share.reuse(*bytes),
            Message::Hole { bytes } => share.skip(*bytes),
            Message::Restart(_) => share.restart(),
            Message::Fail(fail) => return Err(TransferError::SourceChanged(fail.clone())),
            _ => {}
        }
        mailbox.send(message)?;
    }
    await_stored(mailbox, removed)?;
    Ok(Outcome {
        size: sender.offer().size,
        moved: share.moved,
        reused: share.reused,
        resumed: sender.offset(),
        equal,
        digest: Some(sender.digest()),
        ..Outcome::default()
    })
}

fn await_stored(
    mailbox: &Mailbox,
    mut removed: impl FnMut(Removed),
) -> Result<(), TransferError> {
    loop {
        match mailbox.recv() {
            Err(TransferError::Disconnected) if mailbox.peer_has_all() => return Ok(()),
            Err(error) => return Err(error),
            Ok(Message::Stored) => return Ok(()),
            Ok(Message::Removed { paths, others }) => removed(Removed { paths, others }),
            Ok(other) => return Err(TransferError::unexpected(&other)),
        }
    }
}

/// Receives the content of a file, `offer`ed with the request or by the next message, and
/// says so once it is stored.
pub fn receive_content(
    mailbox: &Mailbox,
    incoming: Incoming<impl Store>,
    offer: Option<Offer>,
    progress: &Progress,
) -> Result<Outcome, TransferError> {
    receive_content_and(mailbox, incoming, offer, progress, || Ok(()))
}

/// The same; does something before the sender hears that the file is stored.
pub(super) fn receive_content_and(
    mailbox: &Mailbox,
    incoming: Incoming<impl Store>,
    offer: Option<Offer>,
    progress: &Progress,
    stored: impl FnOnce() -> Result<(), TransferError>,
) -> Result<Outcome, TransferError> {
    // The sender compares what is here before it sends anything.
    let is_compared = incoming.resume != Resume::default();
    let mut receiver = Receiver::new(incoming.store, incoming.resume, incoming.hasher)
        .with_basis(incoming.basis);
    if let Some(offer) = offer {
        receiver = receiver.with_offer(offer);
    }
    let mut share = Share::new(progress);
    let waiting = is_compared.then(|| progress.comparing().wait());
    let received = receive_all(mailbox, &mut receiver, &mut share, waiting);
    if received.is_err() {
        receiver.abandon();
    }
    let Received { size, resumed, equal, digest } = received?;
    share.settle_at(size);
    // Removes what was only needed on the way, so that none of it is left when the sender
    // hears of the end.
    drop(receiver);
    stored()?;
    mailbox.send(Message::Stored)?;
    let (moved, reused) = (share.moved, share.reused);
    let digest = Some(digest);
    Ok(Outcome { size, moved, resumed, reused, equal, digest, ..Outcome::default() })
}

/// What has been received of a file.
struct Received {
    size: u64,
    resumed: u64,
    equal: bool,
    digest: Digest,
}

fn receive_all(
    mailbox: &Mailbox,
    receiver: &mut Receiver<impl Store>,
    share: &mut Share<'_>,
    mut waiting: Option<Waiting>,
) -> Result<Received, TransferError> {
    let (mut announced, mut resumed) = (receiver.announced(), 0);
    loop {
        let message = mailbox.recv()?;
        if !matches!(message, Message::Offer(_)) {
            drop(waiting.take());
        }
        match receiver.on_message(message)? {
            Step::Offered(size) => announced = size,
            Step::Started(offset, size) => {
                (resumed, announced) = (offset, size);
                share.restart();
                share.settle_at(offset);
            }
            Step::ChunksWanted => send_chunks(mailbox, &receiver.chunks()?)?,
            Step::Copied(bytes) => share.reuse(bytes),
            Step::Hole(bytes) => share.skip(bytes),
            Step::Stored(bytes) => share.advance(bytes),
            Step::Equal(digest) => {
                return Ok(Received { size: announced, resumed, equal: true, digest });
            }
            Step::Complete(digest) => {
                return Ok(Received { size: receiver.size(), resumed, equal: false, digest });
            }
        }
    }
}

/// Tells the sender of a file the chunks of the one that is there.
fn send_chunks(mailbox: &Mailbox, digests: &[u8]) -> Result<(), TransferError> {
    for digests in digests.chunks(CHUNK) {
        mailbox.send(Message::Chunks(digests.to_vec()))?;
    }
    mailbox.send(Message::EndOfChunks)
}

/// Takes in the chunks of the receiver's file.
fn receive_chunks(mailbox: &Mailbox) -> Result<KnownChunks, TransferError> {
    let mut known = KnownChunks::default();
    loop {
        match mailbox.recv()? {
            Message::Chunks(digests) => known.add(&digests)?,
            Message::EndOfChunks => return Ok(known.complete()),
            other => return Err(TransferError::unexpected(&other)),
        }
    }
}

/// Opens a file for sending.
pub(super) fn sender_of(file: File) -> Result<Sender<FileSource>, TransferError> {
    Sender::new(FileSource(file)).map_err(TransferError::reading)
}
