//! What the receiver has in the place of a file: chunks of it need not be sent again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use super::chunking::{ChunkDigest, ChunkSize, Chunker};

/// Most chunks of a file that are told to its sender; what is behind them is of no use then.
pub const MAX_CHUNKS: usize = 64 << 10;

/// A file of which chunks can be copied.
#[derive(Debug)]
pub struct Basis {
    file: File,
    size: ChunkSize,
    /// Where each chunk ends, once they are known.
    ends: Vec<u64>,
}

impl Basis {
    /// Uses `file`, which has `length` bytes.
    pub fn new(file: File, length: u64) -> Self {
        Self { file, size: ChunkSize::for_file(length), ends: Vec::new() }
    }

    /// How long its chunks are.
    pub fn chunk_size(&self) -> ChunkSize {
        self.size
    }

    /// Whether the chunks are known.
    pub fn is_read(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Reads the file: the digests of its chunks, one behind the other.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(0))?;
        self.ends.clear();
        let (mut digests, mut end) = (Vec::new(), 0);
        let mut chunker = Chunker::new(self.size);
        while self.ends.len() < MAX_CHUNKS {
            let chunk = chunker.next_chunk(|buffer| self.file.read(buffer))?;
            if chunk.is_empty() {
                break;
            }
            end += chunk.len() as u64;
            self.ends.push(end);
            digests.extend_from_slice(ChunkDigest::of(chunk).as_bytes());
        }
        Ok(digests)
    }

    /// Where `count` chunks lie, the first of which is the one with the number `first`. `None` unless
    /// there are some and all exist.
    pub fn range(&self, first: u32, count: u32) -> Option<Range<u64>> {
        let first = first as usize;
        let last =
            first.checked_add(count as usize)?.checked_sub(1).filter(|at| *at >= first)?;
        let end = *self.ends.get(last)?;
        let start = first.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(start..end)
    }

    /// Reads the next bytes of `range`, and takes them from its front. 0 if it is empty, or the file
    /// has become shorter.
    pub fn read_range(
        &mut self,
        range: &mut Range<u64>,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        self.file.seek(SeekFrom::Start(range.start))?;
        let left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        loop {
            match self.file.read(&mut buffer[..wanted]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
                Ok(n) => {
                    range.start += n as u64;
                    return Ok(n);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::testing::{file_of, noise};

    #[test]
    fn ranges_of_chunks_are_what_their_digests_are_of() {
        let content = noise(500_000, 1);
        let mut basis = Basis::new(file_of(&content), content.len() as u64);
        assert!(!basis.is_read());
        let digests = basis.read().unwrap();
        let number = (digests.len() / ChunkDigest::LEN) as u32;
        assert!(basis.is_read() && number > 10);
        for (n, digest) in (0..).zip(digests.chunks(ChunkDigest::LEN)) {
            let range = basis.range(n, 1).unwrap();
            let chunk = &content[range.start as usize..range.end as usize];
            assert_eq!(ChunkDigest::of(chunk).as_bytes(), digest);
        }
        assert_eq!(basis.range(0, number), Some(0..content.len() as u64));
    }

    #[test]
    fn chunks_that_do_not_exist_have_no_range() {
        let mut basis = Basis::new(file_of(&noise(100_000, 1)), 100_000);
        basis.read().unwrap();
        let number = basis.ends.len() as u32;
        for (first, count) in
            [(0, number + 1), (number, 1), (0, 0), (1, u32::MAX), (u32::MAX, 1)]
        {
            assert_eq!(basis.range(first, count), None, "{first}, {count}");
        }
    }

    #[test]
    fn a_range_is_read_piece_by_piece_and_ends_where_the_file_does() {
        let content = noise(1000, 1);
        let mut basis = Basis::new(file_of(&content), 1000);
        let mut read = |mut range: Range<u64>| {
            let (mut bytes, mut buffer) = (Vec::new(), [0; 300]);
            loop {
                match basis.read_range(&mut range, &mut buffer).unwrap() {
                    0 => return bytes,
                    n => bytes.extend_from_slice(&buffer[..n]),
                }
            }
        };
        assert_eq!(read(100..950), content[100..950]);
        assert_eq!(read(100..2000), content[100..]);
    }
}
