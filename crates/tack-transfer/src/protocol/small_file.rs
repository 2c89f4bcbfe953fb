//! A small file, read in one piece.

use std::io;

use super::sender::{Source, check_empty, read_full};
use super::wire::{Fail, FailCode, Offer};
use super::{Digest, SMALL_FILE, TransferError};

/// How often a file may change under the reader.
const MAX_ATTEMPTS: u32 = 4;

/// A file's content and what belongs to exactly this content.
#[derive(Debug, PartialEq, Eq)]
pub struct SmallFile {
    /// Size, time of modification and permissions.
    pub offer: Offer,
    /// Its digest.
    pub digest: Digest,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl SmallFile {
    /// Reads `source`, without what is written to its end meanwhile. A file that changes in another way, or that has
    /// become large, is an error: [`TransferError::SourceChanged`].
    pub fn read(source: &mut impl Source) -> Result<Self, TransferError> {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(file) = Self::try_read(source).map_err(TransferError::reading)? {
                return Ok(file);
            }
        }
        let text = "the file changed while it was read; send it once nothing writes to it";
        let code = FailCode::SourceChanged;
        Err(TransferError::SourceChanged(Fail { code, text: text.to_owned() }))
    }

    fn try_read(source: &mut impl Source) -> io::Result<Option<Self>> {
        let stamp = source.stamp()?;
        let size = stamp.offer.size;
        if size > SMALL_FILE {
            return Ok(None);
        }
        source.seek(0)?;
        check_empty(source, &stamp)?;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let read = read_full(source, &mut bytes)?;
        let now = source.stamp()?;
        if read < bytes.len()
            || now != stamp && (now.offer.size <= size || !begins_with(source, &bytes)?)
        {
            return Ok(None);
        }
        Ok(Some(Self { offer: stamp.offer, digest: Digest::of(&bytes), bytes }))
    }
}

/// Whether what was read is still how the file begins.
fn begins_with(source: &mut impl Source, bytes: &[u8]) -> io::Result<bool> {
    source.seek(0)?;
    let mut again = vec![0; bytes.len()];
    Ok(read_full(source, &mut again)? == bytes.len() && again == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::sender::Stamp;
    use crate::protocol::{FileSource, Mtime};

    #[test]
    fn a_file_is_read_with_what_describes_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "content").unwrap();
        let mut source = FileSource(file.reopen().unwrap());
        let read = SmallFile::read(&mut source).unwrap();
        assert_eq!(read.bytes, b"content");
        assert_eq!(read.offer, source.stamp().unwrap().offer);
        assert_eq!(read.digest, Digest::of(b"content"));
    }

    #[test]
    fn a_file_that_is_not_as_empty_as_it_says_is_refused() {
        let open = || FileSource(std::fs::File::open("/proc/self/status").unwrap());
        assert_eq!(open().stamp().unwrap().offer.size, 0);
        assert!(SmallFile::read(&mut open()).unwrap_err().to_string().contains("/proc"));
        assert!(crate::protocol::sender::Sender::new(open()).is_err());
    }

    #[test]
    fn a_file_that_has_become_large_is_left_to_a_stream_of_its_own() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SMALL_FILE + 1).unwrap();
        let error = SmallFile::read(&mut FileSource(file)).unwrap_err();
        assert!(matches!(error, TransferError::SourceChanged(_)));
    }

    /// A file whose content changes with each look.
    struct Restless(u8);

    impl Source for Restless {
        fn stamp(&mut self) -> io::Result<Stamp> {
            self.0 = self.0.saturating_sub(1);
            let modified = Mtime { seconds: i64::from(self.0), nanos: 0 };
            let offer = Offer { size: 4, modified, mode: 0o600 };
            Ok(Stamp { offer, changed: modified })
        }
        fn seek(&mut self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(self.0);
            Ok(buffer.len())
        }
    }

    /// A file that is longer with each look.
    struct Growing(u64);

    impl Source for Growing {
        fn stamp(&mut self) -> io::Result<Stamp> {
            self.0 += 1;
            let modified = Mtime { seconds: self.0.cast_signed(), nanos: 0 };
            let offer = Offer { size: self.0, modified, mode: 0o600 };
            Ok(Stamp { offer, changed: modified })
        }
        fn seek(&mut self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'.');
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_file_that_grows_is_read_as_it_was_at_the_start() {
        let read = SmallFile::read(&mut Growing(3)).unwrap();
        assert_eq!((&read.bytes[..], read.offer.size), (&b"...."[..], 4));
    }

    #[test]
    fn content_of_two_versions_is_never_mixed() {
        assert_eq!(SmallFile::read(&mut Restless(3)).unwrap().bytes, [0; 4]);
        assert!(SmallFile::read(&mut Restless(200)).is_err());
    }
}
