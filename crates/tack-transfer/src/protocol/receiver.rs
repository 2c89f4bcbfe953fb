//! The receiving end of one file.

use std::io;

use super::holes::ZEROS;
use super::wire::{CHUNK, MAX_HOLE, Message, Offer, Resume, UNKNOWN_SIZE};
use super::{Basis, Digest, Hasher, TransferError};

/// Where the content goes until it is verified.
pub trait Store {
    /// Gets ready for content.
    fn begin(&mut self) -> Result<(), TransferError> {
        Ok(())
    }
    /// Appends to what is there.
    fn append(&mut self, data: &[u8]) -> io::Result<()>;
    /// Appends so many zeros.
    fn append_zeros(&mut self, bytes: u64) -> io::Result<()> {
        pieces_of_zeros(bytes).try_for_each(|zeros| self.append(zeros))
    }
    /// Cuts down to `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Makes the content durable and gives it its final name.
    fn commit(&mut self, offer: &Offer) -> io::Result<()>;
    /// Throws the content away.
    fn discard(&mut self) -> io::Result<()>;
    /// Notes that the file that has the final name is what was offered.
    fn keep_equal(&mut self, _offer: &Offer) -> Result<(), TransferError> {
        Ok(())
    }
}

/// Takes the sender's messages and fills a [`Store`].
#[derive(Debug)]
pub struct Receiver<S> {
    store: S,
    resume: Resume,
    /// What chunks can be copied from.
    basis: Option<Basis>,
    /// State after the part that was found, and after what has been appended since.
    hasher: Hasher,
    position: u64,
    offer: Option<Offer>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waiting for [`Message::Offer`].
    Offer,
    /// Waiting for [`Message::Start`] or [`Message::Equal`].
    Start,
    Content,
}

/// What a message led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The sender has announced the file's size in bytes.
    Offered(u64),
    /// Content follows from this offset, up to this size; what was before it is kept.
    Started(u64, u64),
    /// This many bytes of content were stored.
    Stored(usize),
    /// The sender wants [`chunks`](Receiver::chunks) to be told.
    ChunksWanted,
    /// This many zeros belong there, which have not been sent.
    Hole(u64),
    /// This many bytes were copied from the file that is to be replaced.
    Copied(u64),
    /// The file is there already; nothing was transferred.
    Equal(Digest),
    /// The file is verified and has its final name.
    Complete(Digest),
}

impl<S: Store> Receiver<S> {
    /// Continues `store`, which holds what `resume` says; `hasher` has taken in its content.
    pub fn new(store: S, resume: Resume, hasher: Hasher) -> Self {
        let position = resume.part.map_or(0, |part| part.length);
        let basis = None;
        Self { store, resume, basis, hasher, position, offer: None, phase: Phase::Offer }
    }

    /// Copies chunks from `basis` if the sender says so.
    #[must_use]
    pub fn with_basis(mut self, basis: Option<Basis>) -> Self {
        self.basis = basis;
        self
    }

    /// Notes an offer that came with the request.
    #[must_use]
    pub fn with_offer(mut self, offer: Offer) -> Self {
        self.offer = Some(offer);
        self.phase = Phase::Start;
        self
    }

    /// Size of the content that has been received, in bytes.
    pub fn size(&self) -> u64 {
        self.position
    }

    /// Size of what is offered, in bytes; 0 without an offer.
    pub fn announced(&self) -> u64 {
        self.offer.map_or(0, |offer| offer.size)
    }

    /// Nothing more is received. A part of unknown size is removed: its sender reads from a pipe, and cannot resume.
    pub fn abandon(&mut self) {
        if self.announced() == UNKNOWN_SIZE {
            // It stays behind then, and does no harm.
            let _ = self.store.discard();
        }
    }

    /// Processes the next message. After an error the receiver must not be used again.
    pub fn on_message(&mut self, message: Message) -> Result<Step, TransferError> {
        match (self.phase, message) {
            (_, Message::Fail(fail)) => Err(TransferError::Remote(fail)),
            (Phase::Offer, Message::Offer(offer)) => {
                self.offer = Some(offer);
                self.phase = Phase::Start;
                Ok(Step::Offered(offer.size))
            }
            (Phase::Start, Message::Equal) => self.equal(),
            (Phase::Start, Message::WantChunks)
                if self.basis.as_ref().is_some_and(|basis| !basis.is_read()) =>
            {
                Ok(Step::ChunksWanted)
            }
            (Phase::Start, Message::Start { offset }) => self.start(offset),
            (Phase::Content, Message::Restart(offer)) => {
                self.offer = Some(offer);
                self.start(0)
            }
            (Phase::Content, Message::Data(data)) => self.data(&data),
            (Phase::Content, Message::Hole { bytes }) => self.hole(bytes),
            (Phase::Content, Message::Copy { first, count, bytes }) => {
                self.copy(first, count, bytes)
            }
            (Phase::Content, Message::End { digest }) => self.end(digest),
            (_, other) => Err(TransferError::unexpected(&other)),
        }
    }

    /// Reads the file that is to be replaced: the digests of its chunks, one behind the other. To be
    /// called once the sender wants them.
    pub fn chunks(&mut self) -> Result<Vec<u8>, TransferError> {
        self.basis.as_mut().map_or(Ok(Vec::new()), Basis::read).map_err(TransferError::reading)
    }

    fn equal(&mut self) -> Result<Step, TransferError> {
        let Some(digest) = self.resume.whole else {
            return Err(TransferError::Protocol(
                "the sender calls equal a file that was not there".to_owned(),
            ));
        };
        self.store.discard().map_err(TransferError::writing)?;
        if let Some(offer) = &self.offer {
            self.store.keep_equal(offer)?;
        }
        Ok(Step::Equal(digest))
    }

    fn start(&mut self, offset: u64) -> Result<Step, TransferError> {
        // Only what the sender has compared may stay: all of the part, or nothing.
        if offset != 0 && Some(offset) != self.resume.part.map(|part| part.length) {
            return Err(TransferError::Protocol(format!(
                "the sender starts at byte {offset}, which was not offered"
            )));
        }
        self.store.begin()?;
        if offset == 0 {
            self.hasher = Hasher::default();
            self.store.cut(0).map_err(TransferError::writing)?;
        }
        self.position = offset;
        self.phase = Phase::Content;
        Ok(Step::Started(offset, self.announced()))
    }

    fn data(&mut self, data: &[u8]) -> Result<Step, TransferError> {
        self.check_room(data.len() as u64)?;
        self.append(data)?;
        Ok(Step::Stored(data.len()))
    }

    fn hole(&mut self, bytes: u64) -> Result<Step, TransferError> {
        if bytes > MAX_HOLE {
            return Err(TransferError::Protocol(format!(
                "a hole of {bytes} bytes exceeds the limit of {MAX_HOLE}"
            )));
        }
        self.check_room(bytes)?;
        self.store.append_zeros(bytes).map_err(TransferError::writing)?;
        pieces_of_zeros(bytes).for_each(|zeros| self.hasher.update(zeros));
        self.position += bytes;
        Ok(Step::Hole(bytes))
    }

    fn copy(&mut self, first: u32, count: u32, bytes: u64) -> Result<Step, TransferError> {
        self.check_room(bytes)?;
        let mut basis = self.basis.take();
        let range = basis.as_ref().and_then(|basis| basis.range(first, count));
        let found = basis.as_mut().zip(range.filter(|range| range.end - range.start == bytes));
        let Some((from, mut range)) = found else {
            return Err(TransferError::Protocol(format!(
                "the sender copies {count} chunks from number {first}, which it was not told"
            )));
        };
        let mut buffer = vec![0; CHUNK];
        while !range.is_empty() {
            match from.read_range(&mut range, &mut buffer).map_err(TransferError::reading)? {
                0 => return Err(TransferError::BasisChanged),
                n => self.append(&buffer[..n])?,
            }
        }
        self.basis = basis;
        Ok(Step::Copied(bytes))
    }

    /// Whether the announced size has room for so many bytes.
    fn check_room(&self, bytes: u64) -> Result<(), TransferError> {
        let size = self.announced();
        if self.position.saturating_add(bytes) <= size {
            return Ok(());
        }
        Err(TransferError::Protocol(format!(
            "the sender sent more than the {size} bytes it had announced"
        )))
    }

    fn append(&mut self, data: &[u8]) -> Result<(), TransferError> {
        self.store.append(data).map_err(TransferError::writing)?;
        self.hasher.update(data);
        self.position += data.len() as u64;
        Ok(())
    }

    fn end(&mut self, digest: Digest) -> Result<Step, TransferError> {
        let is_whole = |size| size == self.position || size == UNKNOWN_SIZE;
        let offer = self.offer.filter(|offer| is_whole(offer.size));
        match offer {
            Some(offer) if self.hasher.digest() == digest => {
                self.store.commit(&offer).map_err(TransferError::writing)?;
                Ok(Step::Complete(digest))
            }
            _ => {
                // It can't be told which bytes are wrong, so none are worth keeping.
                self.store.discard().map_err(TransferError::writing)?;
                Err(TransferError::Verification)
            }
        }
    }
}

/// So many zeros, piece by piece.
fn pieces_of_zeros(bytes: u64) -> impl Iterator<Item = &'static [u8]> {
    let mut left = bytes;
    std::iter::from_fn(move || {
        let length = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        left -= length as u64;
        ZEROS.get(..length).filter(|zeros| !zeros.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Mtime;
    use crate::protocol::chunking::ChunkDigest;
    use crate::protocol::testing::{file_of, noise};
    use crate::protocol::wire::Prefix;

    /// A store in memory whose disk holds `room` bytes.
    #[derive(Debug, Default)]
    struct Memory {
        content: Vec<u8>,
        room: Option<usize>,
        committed: bool,
        discarded: bool,
    }

    impl Store for Memory {
        fn append(&mut self, data: &[u8]) -> io::Result<()> {
            if self.room.is_some_and(|room| self.content.len() + data.len() > room) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.content.extend_from_slice(data);
            Ok(())
        }
        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.content.truncate(usize::try_from(length).unwrap());
            Ok(())
        }
        fn commit(&mut self, _: &Offer) -> io::Result<()> {
            self.committed = true;
            Ok(())
        }
        fn discard(&mut self) -> io::Result<()> {
            self.discarded = true;
            Ok(())
        }
    }

    fn offer(size: usize) -> Message {
        Message::Offer(Offer { size: size as u64, modified: Mtime::default(), mode: 0o644 })
    }

    fn with_part(part: &[u8]) -> Receiver<Memory> {
        let mut hasher = Hasher::default();
        hasher.update(part);
        let store = Memory { content: part.to_vec(), ..Memory::default() };
        let prefix = Prefix { length: part.len() as u64, digest: Digest::of(part) };
        let resume = Resume { part: Some(prefix), ..Resume::default() };
        Receiver::new(store, resume, hasher)
    }

    fn new() -> Receiver<Memory> {
        Receiver::new(Memory::default(), Resume::default(), Hasher::default())
    }

    #[test]
    fn a_file_of_unknown_size_is_as_long_as_what_arrives() {
        let mut receiver = new();
        let modified = Mtime::default();
        let offer = Message::Offer(Offer { size: UNKNOWN_SIZE, modified, mode: 0o644 });
        let end = Message::End { digest: Digest::of(b"content") };
        let data = Message::Data(b"content".to_vec());
        feed(&mut receiver, vec![offer, Message::Start { offset: 0 }, data, end]);
        assert!(receiver.store.committed);
        assert_eq!(receiver.size(), 7);
    }

    fn feed(receiver: &mut Receiver<Memory>, messages: Vec<Message>) -> Vec<Step> {
        messages.into_iter().map(|m| receiver.on_message(m).unwrap()).collect()
    }

    #[test]
    fn a_file_is_committed_once_size_and_digest_are_right() {
        let mut receiver = new();
        feed(
            &mut receiver,
            vec![
                offer(6),
                Message::Start { offset: 0 },
                Message::Data(b"foo".to_vec()),
                Message::Data(b"bar".to_vec()),
            ],
        );
        assert!(!receiver.store.committed);
        let digest = Digest::of(b"foobar");
        let step = receiver.on_message(Message::End { digest }).unwrap();
        assert_eq!(step, Step::Complete(digest));
        assert!(receiver.store.committed);
    }

    #[test]
    fn a_part_is_continued_and_the_digest_covers_it() {
        let mut receiver = with_part(b"foo");
        let digest = Digest::of(b"foobar");
        let steps = feed(
            &mut receiver,
            vec![
                offer(6),
                Message::Start { offset: 3 },
                Message::Data(b"bar".to_vec()),
                Message::End { digest },
            ],
        );
        assert_eq!(steps.last(), Some(&Step::Complete(digest)));
        assert_eq!(receiver.store.content, b"foobar");
    }

    #[test]
    fn starting_over_leaves_nothing_of_the_part() {
        let mut receiver = with_part(b"old");
        let digest = Digest::of(b"n");
        feed(
            &mut receiver,
            vec![
                offer(1),
                Message::Start { offset: 0 },
                Message::Data(b"n".to_vec()),
                Message::End { digest },
            ],
        );
        assert_eq!(receiver.store.content, b"n");
        assert!(receiver.store.committed);
    }

    #[test]
    fn a_restart_drops_what_came_before_it() {
        let mut receiver = new();
        let Message::Offer(second) = offer(3) else { unreachable!() };
        feed(
            &mut receiver,
            vec![
                offer(6),
                Message::Start { offset: 0 },
                Message::Data(b"first".to_vec()),
                Message::Restart(second),
                Message::Data(b"2nd".to_vec()),
                Message::End { digest: Digest::of(b"2nd") },
            ],
        );
        assert_eq!(receiver.store.content, b"2nd");
    }

    #[test]
    fn a_wrong_digest_or_a_short_file_is_never_committed() {
        for (announced, digest) in [(3, Digest::of(b"bar")), (4, Digest::of(b"foo"))] {
            let mut receiver = new();
            let start = Message::Start { offset: 0 };
            feed(&mut receiver, vec![offer(announced), start, Message::Data(b"foo".to_vec())]);
            let result = receiver.on_message(Message::End { digest });
            assert!(matches!(result, Err(TransferError::Verification)));
            assert!(!receiver.store.committed && receiver.store.discarded);
        }
    }

    #[test]
    fn a_hole_is_as_good_as_zeros() {
        let content = [&b"foo"[..], &vec![0; 100_000], b"bar"].concat();
        let mut receiver = new();
        let steps = feed(
            &mut receiver,
            vec![
                offer(content.len()),
                Message::Start { offset: 0 },
                Message::Data(b"foo".to_vec()),
                Message::Hole { bytes: 100_000 },
                Message::Data(b"bar".to_vec()),
                Message::End { digest: Digest::of(&content) },
            ],
        );
        assert_eq!(steps[3], Step::Hole(100_000));
        assert!(receiver.store.committed && receiver.store.content == content);
    }

    #[test]
    fn a_hole_that_is_too_long_or_that_nothing_has_announced_is_refused() {
        for (announced, bytes) in
            [(9, 10), (usize::MAX, MAX_HOLE + 1), (usize::MAX - 1, u64::MAX), (9, u64::MAX)]
        {
            let mut receiver = new();
            feed(&mut receiver, vec![offer(announced), Message::Start { offset: 0 }]);
            let result = receiver.on_message(Message::Hole { bytes });
            assert!(matches!(result, Err(TransferError::Protocol(_))), "{announced} {bytes}");
            assert!(receiver.store.content.is_empty());
        }
        assert!(new().on_message(Message::Hole { bytes: 1 }).is_err(), "before the content");
    }

    #[test]
    fn more_content_than_announced_is_refused_before_it_is_stored() {
        let mut receiver = new();
        feed(&mut receiver, vec![offer(2), Message::Start { offset: 0 }]);
        let result = receiver.on_message(Message::Data(b"foo".to_vec()));
        assert!(matches!(result, Err(TransferError::Protocol(_))));
        assert!(receiver.store.content.is_empty());
    }

    #[test]
    fn a_start_that_was_not_offered_is_refused() {
        for offset in [1, 2, 4] {
            let mut receiver = with_part(b"foo");
            feed(&mut receiver, vec![offer(9)]);
            let result = receiver.on_message(Message::Start { offset });
            assert!(matches!(result, Err(TransferError::Protocol(_))), "offset {offset}");
        }
    }

    #[test]
    fn equal_is_refused_when_there_was_nothing_to_compare() {
        let mut receiver = new();
        feed(&mut receiver, vec![offer(9)]);
        assert!(matches!(receiver.on_message(Message::Equal), Err(TransferError::Protocol(_))));
    }

    /// A receiver that has `old` where the file goes, and has told its chunks.
    fn with_chunks_of(old: &[u8]) -> (Receiver<Memory>, u32) {
        let mut receiver = new().with_basis(Some(Basis::new(file_of(old), old.len() as u64)));
        feed(&mut receiver, vec![offer(old.len())]);
        assert_eq!(receiver.on_message(Message::WantChunks).unwrap(), Step::ChunksWanted);
        let count = receiver.chunks().unwrap().len() / ChunkDigest::LEN;
        (receiver, count as u32)
    }

    #[test]
    fn chunks_of_the_file_that_is_there_are_copied_and_verified() {
        let old = noise(200_000, 1);
        let (mut receiver, count) = with_chunks_of(&old);
        let digest = Digest::of(&old);
        let copy = Message::Copy { first: 0, count, bytes: 200_000 };
        let steps = feed(
            &mut receiver,
            vec![Message::Start { offset: 0 }, copy, Message::End { digest }],
        );
        assert_eq!(steps[1..], [Step::Copied(200_000), Step::Complete(digest)]);
        assert!(receiver.store.content == old);
    }

    #[test]
    fn only_chunks_that_were_told_are_copied_and_no_more_than_was_announced() {
        let old = noise(200_000, 1);
        let copy = |first, count, bytes| Message::Copy { first, count, bytes };
        for copies in [
            vec![copy(0, 1, 1)],
            vec![copy(0, 1000, 200_000)],
            vec![copy(u32::MAX, 1, 1)],
            vec![copy(0, 0, 0)],
            vec![copy(0, 0, u64::MAX)],
        ] {
            let (mut receiver, _) = with_chunks_of(&old);
            feed(&mut receiver, vec![Message::Start { offset: 0 }]);
            let result: Result<Vec<_>, _> =
                copies.into_iter().map(|copy| receiver.on_message(copy)).collect();
            assert!(matches!(result, Err(TransferError::Protocol(_))));
            assert!(receiver.store.content.is_empty());
        }
        let (mut receiver, count) = with_chunks_of(&old);
        feed(&mut receiver, vec![Message::Start { offset: 0 }, copy(0, count, 200_000)]);
        let result = receiver.on_message(copy(0, count, 200_000));
        assert!(matches!(result, Err(TransferError::Protocol(_))), "twice the announced size");
    }

    #[test]
    fn chunks_are_told_once_and_only_where_there_are_some() {
        let mut receiver = new();
        feed(&mut receiver, vec![offer(9)]);
        assert!(receiver.on_message(Message::WantChunks).is_err());
        let (mut receiver, _) = with_chunks_of(&noise(100_000, 1));
        assert!(receiver.on_message(Message::WantChunks).is_err());
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_copied_from_is_told_and_nothing_committed() {
        let old = noise(200_000, 1);
        let file = file_of(&old);
        let writer = file.try_clone().unwrap();
        let mut receiver = new().with_basis(Some(Basis::new(file, 200_000)));
        feed(&mut receiver, vec![offer(200_000)]);
        receiver.on_message(Message::WantChunks).unwrap();
        let count = (receiver.chunks().unwrap().len() / ChunkDigest::LEN) as u32;
        writer.set_len(50_000).unwrap();
        feed(&mut receiver, vec![Message::Start { offset: 0 }]);
        let result = receiver.on_message(Message::Copy { first: 0, count, bytes: 200_000 });
        assert!(matches!(result, Err(TransferError::BasisChanged)));
        assert!(!receiver.store.committed);
    }

    #[test]
    fn a_full_disk_is_reported_and_keeps_what_was_stored() {
        let store = Memory { room: Some(4), ..Memory::default() };
        let mut receiver = Receiver::new(store, Resume::default(), Hasher::default());
        let start = Message::Start { offset: 0 };
        feed(&mut receiver, vec![offer(9), start, Message::Data(b"foo".to_vec())]);
        let error = receiver.on_message(Message::Data(b"bar".to_vec())).unwrap_err();
        assert!(error.is_disk_full());
        assert_eq!(receiver.store.content, b"foo");
        assert!(!receiver.store.discarded);
    }

    #[test]
    fn messages_out_of_order_are_refused() {
        for message in [Message::Data(vec![1]), Message::Stored, Message::Start { offset: 0 }] {
            assert!(new().on_message(message).is_err());
        }
    }
}
