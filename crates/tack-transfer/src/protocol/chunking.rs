//! Content-defined chunks: where one ends depends on the bytes before it alone, so that a change of a
//! file changes the chunks around it and no others.

use std::io;
use std::num::NonZeroU32;

use fastcdc::v2020::FastCDC;
use serde::{Deserialize, Serialize};

/// How long the chunks of a file are on average, in bytes: a power of two. Serialised as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct ChunkSize(NonZeroU32);

impl ChunkSize {
    const SMALLEST: u32 = 16 << 10;
    const LARGEST: u32 = 512 << 10;
    /// A longer file gets longer chunks rather than more, while there are such.
    const USUAL_NUMBER: u64 = 8192;
    /// How far the length of a chunk may be from the average, as a factor.
    const SPREAD: usize = 4;

    /// For a file of `length` bytes.
    pub fn for_file(length: u64) -> Self {
        let wanted = u32::try_from(length / Self::USUAL_NUMBER).unwrap_or(Self::LARGEST);
        let average = wanted.clamp(Self::SMALLEST, Self::LARGEST).next_power_of_two();
        Self(NonZeroU32::new(average).unwrap_or(NonZeroU32::MIN))
    }

    /// The average in bytes.
    pub fn average(self) -> usize {
        self.0.get() as usize
    }

    /// Length of the longest chunk.
    fn longest(self) -> usize {
        self.average() * Self::SPREAD
    }

    /// Length of the chunk that `bytes` begin with, which are as many as the longest has, or all that
    /// are left.
    fn cut(self, bytes: &[u8]) -> usize {
        let (average, longest) = (self.average(), self.longest());
        let mut cutter = FastCDC::new(bytes, average / Self::SPREAD, average, longest);
        cutter.next().map_or(bytes.len(), |chunk| chunk.length)
    }
}

impl TryFrom<u32> for ChunkSize {
    type Error = String;

    fn try_from(average: u32) -> Result<Self, String> {
        let usual = (Self::SMALLEST..=Self::LARGEST).contains(&average);
        NonZeroU32::new(average)
            .filter(|_| usual && average.is_power_of_two())
            .map(Self)
            .ok_or_else(|| format!("chunks of {average} bytes on average are not to be had"))
    }
}

impl From<ChunkSize> for u32 {
    fn from(size: ChunkSize) -> Self {
        size.0.get()
    }
}

/// The first half of a chunk's BLAKE3 digest. Chunks of the same digest are taken for equal; what is put
/// together from them is verified as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkDigest([u8; Self::LEN]);

impl ChunkDigest {
    /// Its length in bytes.
    pub const LEN: usize = 16;

    /// The digest of a chunk.
    pub fn of(chunk: &[u8]) -> Self {
        let mut half = [0; Self::LEN];
        half.copy_from_slice(&blake3::hash(chunk).as_bytes()[..Self::LEN]);
        Self(half)
    }

    /// The digest that consists of these bytes.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Cuts what is read into chunks.
#[derive(Debug)]
pub struct Chunker {
    size: ChunkSize,
    /// What has been read; what is before `start` is done with, the chunk that was given out last is
    /// the next `given` bytes.
    buffer: Vec<u8>,
    start: usize,
    given: usize,
    is_at_end: bool,
}

impl Chunker {
    /// Reads so many times the longest chunk at once, at most: what is left is moved to the front
    /// before.
    const READ_AHEAD: usize = 2;

    /// Cuts into chunks of this size.
    pub fn new(size: ChunkSize) -> Self {
        Self { size, buffer: Vec::new(), start: 0, given: 0, is_at_end: false }
    }

    /// The next chunk, of bytes that `read` gives: as many as it likes, none at the end. Empty at the
    /// end.
    pub fn next_chunk(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<&[u8]> {
        self.start += std::mem::take(&mut self.given);
        if !self.is_at_end && self.buffer.len() - self.start < self.size.longest() {
            self.fill(&mut read)?;
        }
        let ahead = &self.buffer[self.start..];
        let ahead = &ahead[..ahead.len().min(self.size.longest())];
        self.given = self.size.cut(ahead);
        Ok(&ahead[..self.given])
    }

    fn fill(
        &mut self,
        read: &mut impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.buffer.drain(..std::mem::take(&mut self.start));
        let mut filled = self.buffer.len();
        self.buffer.resize(Self::READ_AHEAD * self.size.longest(), 0);
        let result = loop {
            if filled == self.buffer.len() {
                break Ok(());
            }
            match read(&mut self.buffer[filled..]) {
                Ok(0) => {
                    self.is_at_end = true;
                    break Ok(());
                }
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
        };
        self.buffer.truncate(filled);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::testing::noise;

    fn chunks_of(size: ChunkSize, content: &[u8], at_once: usize) -> Vec<Vec<u8>> {
        let mut left = content;
        let mut chunker = Chunker::new(size);
        let mut chunks = Vec::new();
        loop {
            let read = |buffer: &mut [u8]| {
                let n = left.len().min(buffer.len()).min(at_once);
                let (now, later) = left.split_at(n);
                buffer[..n].copy_from_slice(now);
                left = later;
                Ok(n)
            };
            match chunker.next_chunk(read).unwrap() {
                [] => return chunks,
                chunk => chunks.push(chunk.to_vec()),
            }
        }
    }

    #[test]
    fn chunks_are_the_content_and_as_long_as_wanted_however_it_is_read() {
        let size = ChunkSize::for_file(1);
        let content = noise(3_000_000, 1);
        let chunks = chunks_of(size, &content, usize::MAX);
        assert_eq!(chunks.concat(), content);
        let (last, others) = chunks.split_last().unwrap();
        assert!(last.len() <= size.longest());
        let lengths = size.average() / ChunkSize::SPREAD..=size.longest();
        assert!(others.iter().all(|chunk| lengths.contains(&chunk.len())));
        let average = content.len() / chunks.len();
        assert!((size.average() / 2..size.average() * 2).contains(&average), "{average}");
        assert_eq!(chunks_of(size, &content, 1000), chunks);
    }

    #[test]
    fn bytes_that_are_put_in_change_the_chunks_around_them_alone() {
        let size = ChunkSize::for_file(1);
        let before = noise(2_000_000, 2);
        let mut after = before.clone();
        after.splice(1_000_000..1_000_000, *b"inserted");
        let (before, after) =
            (chunks_of(size, &before, usize::MAX), chunks_of(size, &after, usize::MAX));
        let new = after.iter().filter(|chunk| !before.contains(chunk)).count();
        assert!((1..=3).contains(&new), "{new} of {} chunks", after.len());
    }

    #[test]
    fn nothing_has_no_chunks() {
        assert!(chunks_of(ChunkSize::for_file(0), &[], 1).is_empty());
    }

    #[test]
    fn longer_files_have_longer_chunks_up_to_a_limit() {
        let average = |length| ChunkSize::for_file(length).average();
        assert_eq!(average(0), 16 << 10);
        assert_eq!(average(100 << 20), 16 << 10);
        assert_eq!(average(1 << 30), 128 << 10);
        assert_eq!(average(1 << 50), 512 << 10);
    }

    #[test]
    fn sizes_that_nobody_would_choose_are_refused() {
        for average in [0, 1, 16 << 9, (16 << 10) + 1, 1 << 20, u32::MAX] {
            assert!(
                serde_json::from_str::<ChunkSize>(&average.to_string()).is_err(),
                "{average}"
            );
        }
        assert!(serde_json::from_str::<ChunkSize>("16384").is_ok());
    }
}
