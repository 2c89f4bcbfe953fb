//! What of a file a receiver lacks that has told the chunks of another version.

use std::collections::VecDeque;
use std::io;

use super::basis::MAX_CHUNKS;
use super::chunking::{ChunkDigest, ChunkSize, Chunker};
use super::sender::Source;
use super::wire::CHUNK;
use super::{Hasher, TransferError};

/// Chunks are copied in runs of about so many bytes, so that both ends see progress.
const LONGEST_RUN: u64 = 16 << 20;

/// The chunks that the receiver has.
#[derive(Debug, Default)]
pub struct KnownChunks {
    digests: Vec<ChunkDigest>,
    /// Numbers of the chunks, ordered by their digests.
    sorted: Vec<u32>,
}

impl KnownChunks {
    /// Adds the digests of the next chunks, one behind the other.
    pub fn add(&mut self, digests: &[u8]) -> Result<(), TransferError> {
        let (digests, rest) = digests.as_chunks::<{ ChunkDigest::LEN }>();
        if !rest.is_empty() {
            return Err(TransferError::Protocol("a part of a chunk's digest".to_owned()));
        }
        if self.digests.len() + digests.len() > MAX_CHUNKS {
            return Err(TransferError::Protocol(format!("more than {MAX_CHUNKS} chunks")));
        }
        self.digests.extend(digests.iter().copied().map(ChunkDigest::from_bytes));
        Ok(())
    }

    /// All have been added.
    #[must_use]
    pub fn complete(mut self) -> Self {
        self.sorted = (0..self.digests.len() as u32).collect();
        self.sorted.sort_by_key(|n| self.digests[*n as usize]);
        self
    }

    /// The number of a chunk: `preferred` if that has the digest.
    fn find(&self, digest: ChunkDigest, preferred: Option<u32>) -> Option<u32> {
        let digest_of = |n: u32| self.digests.get(n as usize).copied();
        if preferred.and_then(digest_of) == Some(digest) {
            return preferred;
        }
        let at = self.sorted.binary_search_by_key(&Some(digest), |n| digest_of(*n)).ok()?;
        Some(self.sorted[at])
    }
}

/// The next bytes of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// The receiver lacks them.
    New(Vec<u8>),
    /// They are chunks that the receiver has.
    Known(Run),
}

/// Chunks that follow one another at the receiver, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the first chunk.
    pub first: u32,
    /// How many there are.
    pub count: u32,
    /// Their length together.
    pub bytes: u64,
}

/// Divides a file into what its receiver has and what it lacks.
#[derive(Debug)]
pub struct Delta {
    known: KnownChunks,
    size: ChunkSize,
    chunker: Chunker,
    /// Bytes of the file that have not been read.
    unread: u64,
    /// What the next chunk may belong to.
    last: Option<Piece>,
    ready: VecDeque<Piece>,
}

impl Delta {
    /// For `length` bytes that are about to be read.
    pub fn new(size: ChunkSize, known: KnownChunks, length: u64) -> Self {
        let (chunker, ready) = (Chunker::new(size), VecDeque::new());
        Self { known, size, chunker, unread: length, last: None, ready }
    }

    /// The file has changed, and is about to be read from its start: `length` bytes.
    pub fn restart(&mut self, length: u64) {
        let known = std::mem::take(&mut self.known);
        *self = Self::new(self.size, known, length);
    }

    /// The next piece; `None` once everything has been read, or the file has ended.
    pub fn next_piece(
        &mut self,
        source: &mut impl Source,
        hasher: &mut Hasher,
    ) -> io::Result<Option<Piece>> {
        while self.ready.is_empty() {
            let unread = &mut self.unread;
            let chunk = self.chunker.next_chunk(|buffer| {
                let wanted = buffer.len().min(usize::try_from(*unread).unwrap_or(usize::MAX));
                let n = source.read(&mut buffer[..wanted])?;
                *unread -= n as u64;
                Ok(n)
            })?;
            if chunk.is_empty() {
                let Some(last) = self.last.take() else { return Ok(None) };
                put(&mut self.ready, last);
                break;
            }
            hasher.update(chunk);
            let follows = match self.last {
                Some(Piece::Known(run)) => Some(run.first + run.count),
                _ => None,
            };
            let known = self.known.find(ChunkDigest::of(chunk), follows);
            let joined = match (&mut self.last, known) {
                (Some(Piece::New(bytes)), None) if bytes.len() < CHUNK => {
                    bytes.extend_from_slice(chunk);
                    true
                }
                (Some(Piece::Known(run)), Some(n))
                    if Some(n) == follows && run.bytes < LONGEST_RUN =>
                {
                    run.count += 1;
                    run.bytes += chunk.len() as u64;
                    true
                }
                _ => false,
            };
            if joined {
                continue;
            }
            let piece = match known {
                Some(first) => Piece::Known(Run { first, count: 1, bytes: chunk.len() as u64 }),
                None => Piece::New(chunk.to_vec()),
            };
            if let Some(last) = self.last.replace(piece) {
                put(&mut self.ready, last);
            }
        }
        Ok(self.ready.pop_front())
    }
}

/// Divides what is longer than a message.
fn put(ready: &mut VecDeque<Piece>, piece: Piece) {
    match piece {
        Piece::New(bytes) if bytes.len() > CHUNK => {
            ready.extend(bytes.chunks(CHUNK).map(|part| Piece::New(part.to_vec())));
        }
        piece => ready.push_back(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::testing::{file_of, noise};
    use crate::protocol::{Basis, Digest, FileSource};

    /// The pieces of `new` for a receiver of `old`, which they are put together from.
    fn pieces(old: &[u8], new: &[u8]) -> (Vec<Piece>, u64) {
        let mut basis = Basis::new(file_of(old), old.len() as u64);
        let mut known = KnownChunks::default();
        known.add(&basis.read().unwrap()).unwrap();
        let mut delta = Delta::new(basis.chunk_size(), known.complete(), new.len() as u64);
        let (mut source, mut hasher) = (FileSource(file_of(new)), Hasher::default());
        let (mut pieces, mut built, mut sent) = (Vec::new(), Vec::new(), 0);
        while let Some(piece) = delta.next_piece(&mut source, &mut hasher).unwrap() {
            match &piece {
                Piece::New(bytes) => {
                    assert!(bytes.len() <= CHUNK);
                    sent += bytes.len() as u64;
                    built.extend_from_slice(bytes);
                }
                Piece::Known(run) => {
                    let range = basis.range(run.first, run.count).unwrap();
                    assert_eq!(range.end - range.start, run.bytes);
                    built.extend_from_slice(&old[range.start as usize..range.end as usize]);
                }
            }
            pieces.push(piece);
        }
        assert!(built == new, "the pieces are not the file");
        assert_eq!(hasher.digest(), Digest::of(new));
        (pieces, sent)
    }

    #[test]
    fn a_changed_byte_costs_one_chunk_and_few_messages() {
        let old = noise(10_000_000, 1);
        let mut new = old.clone();
        new[5_000_000] ^= 1;
        let (pieces, sent) = pieces(&old, &new);
        assert!(sent <= 2 * 64 * 1024, "{sent} bytes");
        assert!(pieces.len() <= 5, "{} pieces", pieces.len());
    }

    #[test]
    fn what_was_moved_is_known_wherever_it_is_now() {
        let (a, b) = (noise(1_000_000, 1), noise(1_000_000, 2));
        let (_, sent) = pieces(&[&a[..], &b].concat(), &[&b[..], &a].concat());
        assert!(sent < 300_000, "{sent} bytes");
    }

    #[test]
    fn what_repeats_itself_is_known_once_and_copied_often() {
        let (_, sent) = pieces(&vec![0; 1_000_000], &vec![0; 3_000_000]);
        assert!(sent < 100_000, "{sent} bytes");
    }

    #[test]
    fn of_another_file_nothing_is_known() {
        let new = noise(1_000_000, 2);
        let (pieces, sent) = pieces(&noise(1_000_000, 1), &new);
        assert_eq!(sent, 1_000_000);
        // As many messages as of a file that is sent whole, or a few more.
        assert!(pieces.len() <= 2 * new.len().div_ceil(CHUNK), "{} pieces", pieces.len());
    }

    #[test]
    fn an_empty_file_has_no_pieces() {
        assert_eq!(pieces(&noise(100_000, 1), &[]), (vec![], 0));
    }

    #[test]
    fn a_copy_is_told_in_runs_so_that_progress_shows() {
        let old = noise(40 << 20, 1);
        let (pieces, sent) = pieces(&old, &old);
        assert_eq!(sent, 0);
        assert_eq!(pieces.len(), 3, "runs of 16 MiB");
    }

    #[test]
    fn more_chunks_than_allowed_and_parts_of_digests_are_refused() {
        let mut known = KnownChunks::default();
        assert!(known.add(&[0; ChunkDigest::LEN + 1]).is_err());
        let full = vec![0; MAX_CHUNKS * ChunkDigest::LEN];
        known.add(&full).unwrap();
        assert!(known.add(&full[..ChunkDigest::LEN]).is_err());
    }

    #[test]
    fn after_a_restart_the_file_is_read_from_its_start() {
        let mut known = KnownChunks::default();
        let old = noise(300_000, 1);
        let mut basis = Basis::new(file_of(&old), old.len() as u64);
        known.add(&basis.read().unwrap()).unwrap();
        let mut delta = Delta::new(basis.chunk_size(), known.complete(), 300_000);
        let mut hasher = Hasher::default();
        let mut source = FileSource(file_of(&noise(300_000, 2)));
        delta.next_piece(&mut source, &mut hasher).unwrap();
        delta.restart(300_000);
        let (mut source, mut hasher) = (FileSource(file_of(&old)), Hasher::default());
        let piece = delta.next_piece(&mut source, &mut hasher).unwrap();
        assert!(matches!(piece, Some(Piece::Known(Run { first: 0, bytes: 300_000, .. }))));
    }
}
