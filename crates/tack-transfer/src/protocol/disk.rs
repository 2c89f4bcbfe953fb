//! Files of this machine as a source of content, and a limit on how fast they are written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::num::NonZeroU32;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::acl;
use super::sender::{Source, Stamp};
use super::wire::{Mtime, Offer};

/// Bytes of two files that are compared at a time.
const COMPARED: usize = 64 * 1024;
/// Permissions of files that are not preserved: setuid, setgid, sticky.
pub(super) const SPECIAL: u32 = 0o7000;

/// An open file that is sent.
#[derive(Debug)]
pub struct FileSource(pub File);

impl FileSource {
    /// What would be offered of the file at `path`.
    pub fn look_at(path: &Path) -> io::Result<Offer> {
        let offer = offer_of(&rustix::fs::stat(path)?);
        Ok(Offer { mode: acl::mode_at(path, offer.mode), ..offer })
    }
}

/// A number for the file at `path`, the same for all its names, if it has several.
pub fn number_at(path: &Path) -> io::Result<Option<u64>> {
    let stat = rustix::fs::stat(path)?;
    Ok((stat.st_nlink > 1).then(|| number_of(&stat)))
}

/// A number for a file, which does not show where it lies.
pub(super) fn number_of(stat: &Stat) -> u64 {
    let (device, inode) = (stat.st_dev.to_be_bytes(), stat.st_ino.to_be_bytes());
    let digest = blake3::hash(&[device, inode].concat());
    digest.as_bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// What is offered of a file.
pub(super) fn offer_of(stat: &Stat) -> Offer {
    Offer {
        size: stat.st_size as u64,
        modified: Mtime { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
        mode: stat.st_mode & 0o777,
    }
}

/// Whether two files have the same content.
pub(super) fn has_same_content(one: &File, other: &File) -> io::Result<bool> {
    let length = one.metadata()?.len();
    if other.metadata()?.len() != length {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; COMPARED], vec![0; COMPARED]);
    let mut at = 0;
    while at < length {
        let count = COMPARED.min(usize::try_from(length - at).unwrap_or(usize::MAX));
        one.read_exact_at(&mut left[..count], at)?;
        other.read_exact_at(&mut right[..count], at)?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
        at += count as u64;
    }
    Ok(true)
}

/// How many nanoseconds the times are multiples of that a file system keeps: some keep whole seconds or
/// microseconds only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grain(NonZeroU32);

impl Grain {
    /// That of a file system that keeps all digits.
    pub const FINEST: Self = Self(NonZeroU32::MIN);

    /// That of a file's file system. The time of the last change, which only the system sets, shows how many digits
    /// are kept.
    pub fn of(stat: &Stat) -> Self {
        const GRAINS: [u32; 4] = [1_000_000_000, 1_000_000, 1_000, 100];
        let (changed, modified) = (stat.st_ctime_nsec, stat.st_mtime_nsec);
        let keeps = |grain: &u32| {
            let grain = u64::from(*grain);
            changed.is_multiple_of(grain) && modified.is_multiple_of(grain)
        };
        let grain = GRAINS.into_iter().find(keeps).and_then(NonZeroU32::new);
        grain.map_or(Self::FINEST, Self)
    }

    /// Whether a file that is `found` with this time was modified at the other one, as far as they can be told apart.
    pub fn is_same(self, found: Mtime, modified: Mtime) -> bool {
        found.seconds == modified.seconds && found.nanos / self.0 == modified.nanos / self.0
    }
}

/// A file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What would be offered of it.
    pub offer: Offer,
    /// How exactly its time is kept.
    pub grain: Grain,
    /// It is setuid, setgid or sticky.
    pub special: bool,
}

impl Found {
    pub(super) fn of(stat: &Stat) -> Self {
        let special = stat.st_mode & SPECIAL != 0;
        Self { offer: offer_of(stat), grain: Grain::of(stat), special }
    }
}

/// Whether a file was modified at this time, as far as its file system tells times apart.
pub(super) fn is_same_time(stat: &Stat, modified: Mtime) -> bool {
    Grain::of(stat).is_same(offer_of(stat).modified, modified)
}

impl Source for FileSource {
    fn stamp(&mut self) -> io::Result<Stamp> {
        let stat = rustix::fs::fstat(&self.0)?;
        let changed = Mtime { seconds: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 };
        let offer = offer_of(&stat);
        let offer = Offer { mode: acl::mode_of(&self.0, offer.mode), ..offer };
        Ok(Stamp { offer, changed })
    }

    fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(offset)).map(drop)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Holds writing down to a number of bytes per second by sleeping before each piece.
#[derive(Debug)]
pub struct WriteLimit {
    bytes_per_second: u64,
    /// When everything written so far would have been written at the allowed rate.
    due: Instant,
}

impl WriteLimit {
    /// A limit of this many bytes per second; zero is taken as one.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), due: Instant::now() }
    }

    /// Most bytes to write at once: a tenth of a second's worth, so that the end of a
    /// connection is noticed soon.
    pub fn piece(&self) -> usize {
        let piece = self.bytes_per_second / 10;
        usize::try_from(piece.max(1)).unwrap_or(usize::MAX)
    }

    /// Sleeps until `bytes` may be written.
    pub fn wait(&mut self, bytes: usize) {
        let now = Instant::now();
        // Time in which nothing was written is not saved up.
        self.due = self.due.max(now) + self.cost(bytes);
        std::thread::sleep(self.due - now);
    }

    fn cost(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn writing_to_a_file_changes_its_stamp_even_if_its_times_are_set_back() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one").unwrap();
        let mut source = FileSource(file.try_clone().unwrap());
        let before = source.stamp().unwrap();
        assert_eq!(source.stamp().unwrap(), before);
        let modified = file.metadata().unwrap().modified().unwrap();
        // The kernel's clock for file times ticks every few milliseconds.
        std::thread::sleep(Duration::from_millis(30));
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"two").unwrap();
        file.set_modified(modified).unwrap();
        let after = source.stamp().unwrap();
        assert_eq!(after.offer, before.offer);
        assert_ne!(after, before);
    }

    #[test]
    fn times_are_compared_by_the_digits_that_the_file_system_keeps() {
        let file = tempfile::tempfile().unwrap();
        let stat = |changed, found| {
            let mut stat = rustix::fs::fstat(&file).unwrap();
            (stat.st_ctime_nsec, stat.st_mtime, stat.st_mtime_nsec) = (changed, 1000, found);
            stat
        };
        let at = |nanos| Mtime { seconds: 1000, nanos };
        let fine = stat(123_456_789, 5);
        assert!(is_same_time(&fine, at(5)) && !is_same_time(&fine, at(6)));
        let whole = stat(123_456_789, 0);
        assert!(!is_same_time(&whole, at(5)), "it was written to at the second");
        let seconds = stat(0, 0);
        assert!(is_same_time(&seconds, at(999_999_999)));
        assert!(!is_same_time(&seconds, Mtime { seconds: 1001, nanos: 0 }));
        let micros = stat(123_456_000, 7_000);
        assert!(is_same_time(&micros, at(7_999)) && !is_same_time(&micros, at(8_000)));
        let windows = stat(123_456_700, 200);
        assert!(is_same_time(&windows, at(299)) && !is_same_time(&windows, at(300)));
    }

    #[test]
    fn a_write_limit_holds_writing_down() {
        let mut limit = WriteLimit::new(100_000);
        assert_eq!(limit.piece(), 10_000);
        let start = Instant::now();
        for _ in 0..3 {
            limit.wait(1000);
        }
        assert!(start.elapsed() >= Duration::from_millis(29));
    }
}
