//! How far files have been read that are compared, which takes time in which nothing is transferred.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Running totals that other threads may read. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Comparing(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    expected: AtomicU64,
    read: AtomicU64,
    elsewhere: AtomicU64,
}

impl Comparing {
    /// Bytes of this machine's files to read, as far as known.
    pub fn expected(&self) -> u64 {
        self.0.expected.load(Ordering::Relaxed)
    }

    /// Bytes of them that have been read.
    pub fn read(&self) -> u64 {
        self.0.read.load(Ordering::Relaxed)
    }

    /// Whether the peer is reading a file of its own, of which it does not say how far it is.
    pub fn is_elsewhere(&self) -> bool {
        self.0.elsewhere.load(Ordering::Relaxed) > 0
    }

    /// Counts what is read of `inner`, some `expected` bytes. All of them count once the reader is dropped.
    pub(crate) fn reader<R: Read>(&self, inner: R, expected: u64) -> Reader<'_, R> {
        self.0.expected.fetch_add(expected, Ordering::Relaxed);
        Reader { inner, comparing: self, left: expected }
    }

    /// Notes that the peer is reading a file, until the value that this returns is dropped.
    pub(crate) fn wait(&self) -> Waiting {
        self.0.elsewhere.fetch_add(1, Ordering::Relaxed);
        Waiting(self.clone())
    }
}

/// Counts what is read.
pub(crate) struct Reader<'a, R> {
    inner: R,
    comparing: &'a Comparing,
    left: u64,
}

impl<R: Read> Read for Reader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let counted = self.left.min(count as u64);
        self.left -= counted;
        self.comparing.0.read.fetch_add(counted, Ordering::Relaxed);
        Ok(count)
    }
}

impl<R> Drop for Reader<'_, R> {
    fn drop(&mut self) {
        self.comparing.0.read.fetch_add(self.left, Ordering::Relaxed);
    }
}

/// The peer is reading a file.
pub(crate) struct Waiting(Comparing);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.elsewhere.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_counts_and_all_that_was_expected_in_the_end() {
        let comparing = Comparing::default();
        let mut reader = comparing.reader(&[7; 10][..], 100);
        reader.read_exact(&mut [0; 4]).unwrap();
        assert_eq!((comparing.expected(), comparing.read()), (100, 4));
        drop(reader);
        assert_eq!((comparing.expected(), comparing.read()), (100, 100));
        let waiting = comparing.wait();
        assert!(comparing.is_elsewhere());
        drop(waiting);
        assert!(!comparing.is_elsewhere());
    }
}
