//! Many small files in one frame.
//!
//! A bundle is a sequence of records: the number of the file in the request (four bytes, big
//! endian like all numbers), a byte of kind, and for content (kind 0) size (4), seconds (8) and
//! nanoseconds (4) of the time of modification, permissions (4), the BLAKE3 digest (32), and the
//! content itself. Kind 1 has nothing behind it: the receiver's file is the sender's.

use super::framing::MAX_DATA;
use super::wire::{Message, Mtime, Offer};
use super::{CHUNK, Digest, SMALL_FILE, WireError};

const KIND_CONTENT: u8 = 0;
const KIND_EQUAL: u8 = 1;
const HEADER: usize = 4 + 1 + 4 + 8 + 4 + 4 + 32;

// The largest record fits behind the bytes that do not fill a bundle yet.
const _: () = assert!(CHUNK + HEADER + SMALL_FILE as usize <= MAX_DATA);

/// One file of a bundle.
#[derive(Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in the request.
    pub file: u32,
    /// What follows; `None` if the receiver's file is the sender's.
    pub content: Option<Content<'a>>,
}

/// A whole file.
#[derive(Debug, PartialEq, Eq)]
pub struct Content<'a> {
    /// The file as it was when it was read.
    pub offer: Offer,
    /// Its digest.
    pub digest: Digest,
    /// Its content.
    pub bytes: &'a [u8],
}

/// A bundle in the making.
#[derive(Debug, Default)]
pub struct Bundle(Vec<u8>);

impl Bundle {
    /// Appends a record. Returns the message to send once there is enough for one.
    pub fn push(&mut self, record: &Record<'_>) -> Option<Message> {
        self.0.extend_from_slice(&record.file.to_be_bytes());
        match &record.content {
            None => self.0.push(KIND_EQUAL),
            Some(Content { offer, digest, bytes }) => {
                self.0.push(KIND_CONTENT);
                self.0.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                self.0.extend_from_slice(&offer.modified.seconds.to_be_bytes());
                self.0.extend_from_slice(&offer.modified.nanos.to_be_bytes());
                self.0.extend_from_slice(&offer.mode.to_be_bytes());
                self.0.extend_from_slice(digest.as_bytes());
                self.0.extend_from_slice(bytes);
            }
        }
        if self.0.len() >= CHUNK { self.take() } else { None }
    }

    /// The message with what has not been given out, if there is anything.
    pub fn take(&mut self) -> Option<Message> {
        let bytes = std::mem::take(&mut self.0);
        (!bytes.is_empty()).then_some(Message::Bundle(bytes))
    }
}

/// The records of a bundle.
pub struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// Reads the records in `bundle`.
    pub fn new(bundle: &'a [u8]) -> Self {
        Self(bundle)
    }

    fn record(&mut self) -> Option<Record<'a>> {
        let file = u32::from_be_bytes(self.array()?);
        match self.array::<1>()?[0] {
            KIND_EQUAL => Some(Record { file, content: None }),
            KIND_CONTENT => {
                let size = u32::from_be_bytes(self.array()?);
                let seconds = i64::from_be_bytes(self.array()?);
                let nanos = u32::from_be_bytes(self.array()?);
                let mode = u32::from_be_bytes(self.array()?);
                let digest = Digest::from_bytes(self.array()?);
                let (bytes, rest) = self.0.split_at_checked(size as usize)?;
                self.0 = rest;
                let modified = Mtime { seconds, nanos };
                let offer = Offer { size: u64::from(size), modified, mode };
                Some(Record { file, content: Some(Content { offer, digest, bytes }) })
            }
            _ => None,
        }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_none() {
            // Nothing behind it can be made sense of.
            self.0 = &[];
        }
        Some(record.ok_or(WireError::Bundle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> Content<'_> {
        let modified = Mtime { seconds: -1, nanos: 7 };
        let offer = Offer { size: bytes.len() as u64, modified, mode: 0o640 };
        Content { offer, digest: Digest::of(bytes), bytes }
    }

    fn bytes_of(message: Option<Message>) -> Vec<u8> {
        match message {
            Some(Message::Bundle(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let records = || {
            [
                Record { file: 0, content: Some(content(b"zero")) },
                Record { file: 300, content: None },
                Record { file: 7, content: Some(content(b"")) },
            ]
        };
        let mut bundle = Bundle::default();
        for record in &records() {
            assert_eq!(bundle.push(record), None);
        }
        let bytes = bytes_of(bundle.take());
        let read: Vec<_> = Records::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(read, records());
        assert_eq!(bundle.take(), None);
    }

    #[test]
    fn a_bundle_is_sent_once_it_is_worth_a_write() {
        let large = vec![1; SMALL_FILE as usize];
        let mut bundle = Bundle::default();
        let small = vec![2; CHUNK - 2 * HEADER];
        assert_eq!(bundle.push(&Record { file: 0, content: Some(content(&small)) }), None);
        let bytes = bytes_of(bundle.push(&Record { file: 1, content: Some(content(&large)) }));
        assert!(bytes.len() <= MAX_DATA);
        assert_eq!(Records::new(&bytes).count(), 2);
    }

    #[test]
    fn a_bundle_that_is_cut_off_or_of_unknown_kind_is_refused() {
        let mut bundle = Bundle::default();
        bundle.push(&Record { file: 0, content: Some(content(b"content")) });
        let mut bytes = bytes_of(bundle.take());
        for length in 1..bytes.len() {
            assert!(Records::new(&bytes[..length]).any(|record| record.is_err()), "{length}");
        }
        bytes[4] = 9;
        assert!(Records::new(&bytes).next().unwrap().is_err());
    }
}
