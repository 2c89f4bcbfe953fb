//! The sending end of one file.

use std::io;

use super::chunking::ChunkSize;
use super::delta::{Delta, KnownChunks, Piece};
use super::holes::Holes;
use super::wire::{CHUNK, Fail, FailCode, Message, Mtime, Offer, Prefix, Resume};
use super::{Comparing, Digest, Hasher, SMALL_FILE};

/// How often a file may change under the sender before it gives up.
const MAX_RESTARTS: u32 = 3;

/// A file that can be read from any offset.
pub trait Source {
    /// What tells one version of the file from another.
    fn stamp(&mut self) -> io::Result<Stamp>;
    /// Continues reading at `offset`.
    fn seek(&mut self, offset: u64) -> io::Result<()>;
    /// Reads the next bytes; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}

/// One version of a file. Two equal stamps mean that the file was not written to in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// What the receiver is told.
    pub offer: Offer,
    /// When content or metadata last changed; unlike the time of modification, nobody can set
    /// it back.
    pub changed: Mtime,
}

/// Turns a file and what the receiver has of it into the messages to send.
#[derive(Debug)]
pub struct Sender<S> {
    source: S,
    stamp: Stamp,
    hasher: Hasher,
    position: u64,
    offset: u64,
    restarts: u32,
    /// Tells what the receiver has of the file in another version, if that is known.
    delta: Option<Delta>,
    /// Counts what is read to be compared.
    comparing: Comparing,
    /// Takes zeros out of the content, if the receiver knows holes.
    holes: Option<Holes>,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The receiver is asked for chunks of this size; where content starts then, and the state there.
    Chunks(ChunkSize, u64, Box<Hasher>),
    Content,
    Done,
}

impl<S: Source> Sender<S> {
    /// Looks at the file as it is now.
    pub fn new(mut source: S) -> io::Result<Self> {
        let stamp = source.stamp()?;
        check_empty(&mut source, &stamp)?;
        Ok(Self {
            source,
            stamp,
            hasher: Hasher::default(),
            position: 0,
            offset: 0,
            restarts: 0,
            delta: None,
            comparing: Comparing::default(),
            holes: None,
            phase: Phase::Content,
        })
    }

    /// Has `comparing` count what is read to be compared.
    pub fn count_by(&mut self, comparing: &Comparing) {
        self.comparing = comparing.clone();
    }

    /// Sends blocks of zeros as their number, if the receiver `knows` that.
    pub fn find_holes(&mut self, knows: bool) {
        self.holes = knows.then(Holes::default);
    }

    /// What is offered to the receiver.
    pub fn offer(&self) -> Offer {
        self.stamp.offer
    }

    /// Offset at which the content that was sent starts.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Digest of everything read so far; after [`Message::End`] or [`Message::Equal`], of the
    /// file.
    pub fn digest(&self) -> Digest {
        self.hasher.digest()
    }

    /// Compares what the receiver has with the file: [`Message::Equal`], [`Message::Start`], or
    /// [`Message::WantChunks`], after which [`begin_with`](Self::begin_with) is called. Reads as much of
    /// the file as the comparison needs.
    pub fn begin(&mut self, resume: &Resume) -> io::Result<Message> {
        let prefix_hasher = self.matching_prefix(resume.part)?;
        if let Some(theirs) = resume.whole {
            let rest = self.stamp.offer.size.saturating_sub(self.position);
            self.hash(rest)?;
            if theirs == self.hasher.digest() && (self.is_unchanged()? || self.has_grown()?) {
                self.phase = Phase::Done;
                return Ok(Message::Equal);
            }
        }
        let (offset, hasher) = prefix_hasher.unwrap_or_default();
        let left = self.stamp.offer.size - offset;
        if let Some(size) = resume.basis.filter(|_| left > SMALL_FILE) {
            self.phase = Phase::Chunks(size, offset, Box::new(hasher));
            return Ok(Message::WantChunks);
        }
        self.start_at(offset, hasher)?;
        Ok(Message::Start { offset })
    }

    /// Starts with the chunks that the receiver has, which it was asked for.
    pub fn begin_with(&mut self, known: KnownChunks) -> io::Result<Message> {
        let phase = std::mem::replace(&mut self.phase, Phase::Content);
        let Phase::Chunks(size, offset, hasher) = phase else {
            return Err(io::Error::other("chunks that nobody has asked for"));
        };
        self.delta = Some(Delta::new(size, known, self.stamp.offer.size - offset));
        self.start_at(offset, *hasher)?;
        Ok(Message::Start { offset })
    }

    /// The next message to send; `None` once the last one has been given out.
    pub fn next_message(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(ready) = self.holes.as_mut().and_then(Holes::next) {
                return Ok(Some(ready));
            }
            let next = self.read_message()?;
            match (&mut self.holes, next) {
                (Some(holes), Some(next)) => holes.take(next),
                (_, next) => return Ok(next),
            }
        }
    }

    /// The next message, with zeros as content.
    fn read_message(&mut self) -> io::Result<Option<Message>> {
        if matches!(self.phase, Phase::Done) {
            return Ok(None);
        }
        if self.delta.is_some() {
            return self.next_piece().map(Some);
        }
        let left = self.stamp.offer.size.saturating_sub(self.position);
        let mut chunk = vec![0; usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)];
        let read = read_full(&mut self.source, &mut chunk)?;
        if left == 0 {
            return self.end().map(Some);
        }
        if read < chunk.len() {
            return self.restart().map(Some);
        }
        self.hasher.update(&chunk);
        self.position += read as u64;
        Ok(Some(Message::Data(chunk)))
    }

    /// The next message to a receiver that has told chunks.
    fn next_piece(&mut self) -> io::Result<Message> {
        let piece = match &mut self.delta {
            Some(delta) => delta.next_piece(&mut self.source, &mut self.hasher)?,
            None => None,
        };
        match piece {
            Some(Piece::New(bytes)) => {
                self.position += bytes.len() as u64;
                Ok(Message::Data(bytes))
            }
            Some(Piece::Known(run)) => {
                self.position += run.bytes;
                Ok(Message::Copy { first: run.first, count: run.count, bytes: run.bytes })
            }
            None if self.position == self.stamp.offer.size => self.end(),
            None => self.restart(),
        }
    }

    /// The last message, unless the file has changed meanwhile. One that has grown is sent as it was at the start.
    fn end(&mut self) -> io::Result<Message> {
        if !self.is_unchanged()? && !self.has_grown()? {
            return self.restart();
        }
        self.phase = Phase::Done;
        Ok(Message::End { digest: self.hasher.digest() })
    }

    /// Hashes up to the end of the receiver's part. Gives offset and state there if the part
    /// is how the file begins.
    fn matching_prefix(&mut self, part: Option<Prefix>) -> io::Result<Option<(u64, Hasher)>> {
        self.source.seek(0)?;
        let Some(part) = part.filter(|part| part.length <= self.stamp.offer.size) else {
            return Ok(None);
        };
        self.hash(part.length)?;
        let matches = self.position == part.length && self.hasher.digest() == part.digest;
        Ok(matches.then(|| (part.length, self.hasher.clone())))
    }

    fn hash(&mut self, length: u64) -> io::Result<()> {
        let mut reader = self.comparing.reader(Reader(&mut self.source), length);
        self.position += self.hasher.read(&mut reader, length)?;
        Ok(())
    }

    fn start_at(&mut self, offset: u64, hasher: Hasher) -> io::Result<()> {
        self.source.seek(offset)?;
        self.hasher = hasher;
        self.position = offset;
        self.offset = offset;
        Ok(())
    }

    fn is_unchanged(&mut self) -> io::Result<bool> {
        Ok(self.source.stamp()? == self.stamp)
    }

    /// Whether the file still begins with all that was read, and has become longer: something is written to its end.
    fn has_grown(&mut self) -> io::Result<bool> {
        let size = self.stamp.offer.size;
        if self.source.stamp()?.offer.size <= size {
            return Ok(false);
        }
        self.source.seek(0)?;
        let mut again = Hasher::default();
        let read = again.read(&mut Reader(&mut self.source), size)?;
        Ok(read == size && again.digest() == self.hasher.digest())
    }

    fn restart(&mut self) -> io::Result<Message> {
        if self.restarts == MAX_RESTARTS {
            self.phase = Phase::Done;
            let text = "the file kept changing while it was read; \
                        send it once nothing writes to it"
                .to_owned();
            return Ok(Message::Fail(Fail { code: FailCode::SourceChanged, text }));
        }
        self.restarts += 1;
        self.stamp = self.source.stamp()?;
        self.start_at(0, Hasher::default())?;
        if let Some(delta) = &mut self.delta {
            delta.restart(self.stamp.offer.size);
        }
        Ok(Message::Restart(self.stamp.offer))
    }
}

struct Reader<'a, S>(&'a mut S);

impl<S: Source> io::Read for Reader<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Refuses what says that it is empty and is not: a file that the system writes while it is read, as in `/proc`.
pub(super) fn check_empty(source: &mut impl Source, stamp: &Stamp) -> io::Result<()> {
    if stamp.offer.size > 0 || read_full(source, &mut [0])? == 0 {
        return Ok(());
    }
    // It may have been written to meanwhile, and is sent as it was.
    if source.stamp()?.offer.size > 0 {
        return source.seek(0);
    }
    let text = "the file says that it is empty, and is not, as those in /proc do; send it through a pipe";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

pub(super) fn read_full(source: &mut impl Source, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match source.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Basis;
    use crate::protocol::testing::{file_of, noise};

    /// A file in memory that is replaced, once, when reading reaches `change.0`.
    struct Memory {
        content: Vec<u8>,
        position: usize,
        version: i64,
        changes: Vec<(usize, Vec<u8>)>,
    }

    impl Memory {
        fn new(content: &[u8]) -> Self {
            let content = content.to_vec();
            Self { content, position: 0, version: 0, changes: Vec::new() }
        }
    }

    impl Source for Memory {
        fn stamp(&mut self) -> io::Result<Stamp> {
            let changed = Mtime { seconds: self.version, nanos: 0 };
            let offer = Offer {
                size: self.content.len() as u64,
                modified: Mtime::default(),
                mode: 0o644,
            };
            Ok(Stamp { offer, changed })
        }
        fn seek(&mut self, offset: u64) -> io::Result<()> {
            self.position = usize::try_from(offset).unwrap();
            Ok(())
        }
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let from = &self.content[self.position.min(self.content.len())..];
            let n = from.len().min(buffer.len());
            buffer[..n].copy_from_slice(&from[..n]);
            self.position += n;
            if self.changes.first().is_some_and(|(at, _)| self.position >= *at) {
                self.content = self.changes.remove(0).1;
                self.version += 1;
            }
            Ok(n)
        }
    }

    fn content(length: usize, seed: u8) -> Vec<u8> {
        (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
    }

    /// Sends everything: bytes since the last start, how often it restarted, the last message.
    #[test]
    fn zeros_are_sent_as_their_number_to_a_receiver_that_knows_holes_and_to_no_other() {
        let content = [noise(100_000, 1), vec![0; 300_000], noise(10, 2)].concat();
        for knows in [false, true] {
            let mut sender = Sender::new(Memory::new(&content)).unwrap();
            sender.find_holes(knows);
            sender.begin(&Resume::default()).unwrap();
            let (mut sent, mut zeros) = (0, 0);
            loop {
                match sender.next_message().unwrap().unwrap() {
                    Message::Data(bytes) => sent += bytes.len(),
                    Message::Hole { bytes } => zeros += bytes,
                    Message::End { digest } => break assert_eq!(digest, Digest::of(&content)),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(sent as u64 + zeros, 400_010);
            assert_eq!(zeros > 290_000, knows, "{zeros}");
            assert_eq!(sender.next_message().unwrap(), None);
        }
    }

    fn run(sender: &mut Sender<Memory>) -> (Vec<u8>, u32, Message) {
        let (mut bytes, mut restarts) = (Vec::new(), 0);
        loop {
            match sender.next_message().unwrap().expect("a last message") {
                Message::Data(chunk) => bytes.extend(chunk),
                Message::Restart(_) => {
                    bytes.clear();
                    restarts += 1;
                }
                last => {
                    assert!(sender.next_message().unwrap().is_none());
                    return (bytes, restarts, last);
                }
            }
        }
    }

    fn part(bytes: &[u8]) -> Resume {
        let prefix = Prefix { length: bytes.len() as u64, digest: Digest::of(bytes) };
        Resume { part: Some(prefix), ..Resume::default() }
    }

    #[test]
    fn a_new_receiver_gets_everything_and_the_digest() {
        for length in [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let file = content(length, 0);
            let mut sender = Sender::new(Memory::new(&file)).unwrap();
            let start = sender.begin(&Resume::default()).unwrap();
            assert_eq!(start, Message::Start { offset: 0 });
            let end = Message::End { digest: Digest::of(&file) };
            assert_eq!(run(&mut sender), (file, 0, end));
        }
    }

    #[test]
    fn a_matching_part_is_continued_with_the_digest_of_the_whole() {
        let file = content(2 * CHUNK + 5, 0);
        let mut sender = Sender::new(Memory::new(&file)).unwrap();
        let start = sender.begin(&part(&file[..CHUNK + 7])).unwrap();
        assert_eq!(start, Message::Start { offset: CHUNK as u64 + 7 });
        let end = Message::End { digest: Digest::of(&file) };
        assert_eq!(run(&mut sender), (file[CHUNK + 7..].to_vec(), 0, end));
    }

    #[test]
    fn a_part_of_another_file_is_not_continued() {
        let file = content(1000, 0);
        let mut sender = Sender::new(Memory::new(&file)).unwrap();
        let start = sender.begin(&part(&content(500, 1))).unwrap();
        assert_eq!(start, Message::Start { offset: 0 });
        assert_eq!(run(&mut sender).0, file);
    }

    #[test]
    fn a_part_longer_than_the_file_is_not_continued() {
        let file = content(1000, 0);
        let mut sender = Sender::new(Memory::new(&file[..900])).unwrap();
        assert_eq!(sender.begin(&part(&file)).unwrap(), Message::Start { offset: 0 });
        assert_eq!(run(&mut sender).0, file[..900]);
    }

    #[test]
    fn an_equal_file_is_not_sent() {
        let file = content(CHUNK, 0);
        let mut sender = Sender::new(Memory::new(&file)).unwrap();
        let mut resume = part(&file[..10]);
        resume.whole = Some(Digest::of(&file));
        assert_eq!(sender.begin(&resume).unwrap(), Message::Equal);
        assert!(sender.next_message().unwrap().is_none());
        assert_eq!(sender.digest(), Digest::of(&file));
    }

    #[test]
    fn a_different_final_file_does_not_cost_the_part() {
        let file = content(CHUNK, 0);
        let mut sender = Sender::new(Memory::new(&file)).unwrap();
        let mut resume = part(&file[..100]);
        resume.whole = Some(Digest::of(b"something else"));
        assert_eq!(sender.begin(&resume).unwrap(), Message::Start { offset: 100 });
        assert_eq!(run(&mut sender).0, file[100..]);
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_sent_again_from_the_start() {
        let (before, after) = (content(3 * CHUNK, 0), content(3 * CHUNK, 1));
        for at in [1, CHUNK + 1, 3 * CHUNK] {
            let mut memory = Memory::new(&before);
            memory.changes.push((at, after.clone()));
            let mut sender = Sender::new(memory).unwrap();
            sender.begin(&Resume::default()).unwrap();
            let end = Message::End { digest: Digest::of(&after) };
            assert_eq!(run(&mut sender), (after.clone(), 1, end), "changed at {at}");
        }
    }

    #[test]
    fn a_file_that_something_is_written_to_the_end_of_is_sent_as_it_was_at_the_start() {
        let before = content(3 * CHUNK, 0);
        let mut memory = Memory::new(&before);
        for n in 1..20 {
            let longer = [&before[..], &content(n * CHUNK, 1)].concat();
            memory.changes.push((n * 1000, longer));
        }
        let mut sender = Sender::new(memory).unwrap();
        sender.begin(&Resume::default()).unwrap();
        let end = Message::End { digest: Digest::of(&before) };
        assert_eq!(run(&mut sender), (before, 0, end));
    }

    #[test]
    fn a_file_that_shrinks_or_is_another_longer_one_is_sent_again_from_the_start() {
        let before = content(3 * CHUNK, 0);
        for length in [0, CHUNK, 5 * CHUNK] {
            let after = content(length, 1);
            let mut memory = Memory::new(&before);
            memory.changes.push((CHUNK, after.clone()));
            let mut sender = Sender::new(memory).unwrap();
            sender.begin(&Resume::default()).unwrap();
            assert_eq!(run(&mut sender).0, after);
        }
    }

    fn known(chunks: &[u8]) -> (Resume, KnownChunks) {
        let mut basis = Basis::new(file_of(chunks), chunks.len() as u64);
        let mut known = KnownChunks::default();
        known.add(&basis.read().unwrap()).unwrap();
        (Resume { basis: Some(basis.chunk_size()), ..Resume::default() }, known.complete())
    }

    #[test]
    fn chunks_that_the_receiver_has_are_not_sent() {
        let file = noise(500_000, 1);
        let (resume, known) = known(&file[..400_000]);
        let mut sender = Sender::new(Memory::new(&file)).unwrap();
        assert_eq!(sender.begin(&resume).unwrap(), Message::WantChunks);
        assert_eq!(sender.begin_with(known).unwrap(), Message::Start { offset: 0 });
        let copy = sender.next_message().unwrap();
        let Some(Message::Copy { first: 0, bytes, .. }) = copy else { panic!("{copy:?}") };
        let end = Message::End { digest: Digest::of(&file) };
        assert_eq!(run(&mut sender), (file[bytes as usize..].to_vec(), 0, end));
    }

    #[test]
    fn what_is_left_of_a_small_file_is_sent_without_asking_for_chunks() {
        let file = noise(500_000, 1);
        let (resume, _) = known(&file);
        let mut sender = Sender::new(Memory::new(&file[..1000])).unwrap();
        assert_eq!(sender.begin(&resume).unwrap(), Message::Start { offset: 0 });
        let part = part(&file[..499_000]).part;
        let mut sender = Sender::new(Memory::new(&file)).unwrap();
        let start = sender.begin(&Resume { part, ..resume }).unwrap();
        assert_eq!(start, Message::Start { offset: 499_000 });
    }

    #[test]
    fn a_file_that_changes_while_chunks_are_compared_is_compared_from_the_start() {
        let (before, after) = (noise(500_000, 1), noise(600_000, 2));
        let (resume, known) = known(&after[..300_000]);
        let mut memory = Memory::new(&before);
        memory.changes.push((before.len(), after.clone()));
        let mut sender = Sender::new(memory).unwrap();
        sender.begin(&resume).unwrap();
        sender.begin_with(known).unwrap();
        let (mut restarts, mut copied, mut sent) = (0, 0, 0);
        let end = loop {
            match sender.next_message().unwrap().unwrap() {
                Message::Restart(_) => (restarts, copied, sent) = (restarts + 1, 0, 0),
                Message::Copy { bytes, .. } => copied += bytes,
                Message::Data(data) => sent += data.len() as u64,
                last => break last,
            }
        };
        assert_eq!(end, Message::End { digest: Digest::of(&after) });
        assert_eq!(restarts, 1);
        assert!(copied > 200_000 && copied + sent == 600_000, "{copied} copied, {sent} sent");
    }

    #[test]
    fn a_file_that_never_rests_is_given_up() {
        let mut memory = Memory::new(&content(10, 0));
        memory.changes = (1..20).map(|n| (10, content(10, n))).collect();
        let mut sender = Sender::new(memory).unwrap();
        sender.begin(&Resume::default()).unwrap();
        let (_, restarts, last) = run(&mut sender);
        assert_eq!(restarts, MAX_RESTARTS);
        assert!(matches!(last, Message::Fail(Fail { code: FailCode::SourceChanged, .. })));
    }
}
