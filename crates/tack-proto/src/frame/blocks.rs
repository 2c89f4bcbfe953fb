//! Optional blocks at the end of TACK and IACK: type, length, value.
//!
//! ```text
//! Blocks {
//!   Block Count (i),       at most 16
//!   Block {
//!     Block Type (i),
//!     Block Length (i),    bytes of the value
//!     Block Value (..),
//!   } ...
//! }
//! ```
//!
//! A receiver skips blocks of types that it does not know, so new ones can be added without a new
//! version. For that to stay true, blocks of reserved types, which mean nothing, are sent now and
//! then.

use super::DecodeError;
use crate::varint::{self, Reader};

/// TACK-3.1-4: more blocks than this in a frame are an error: bounds the work that a frame makes.
const MAX_BLOCKS: u64 = 16;

/// Types of this form are reserved: 16 * N + 10 (TACK-3.1-5). No meaning is ever given to them.
const RESERVED: u64 = 0x0a;

/// The block of ECN counts, which TACK and IACK have in common.
pub(super) const ECN: u64 = 3;

/// The blocks of a frame, in order.
pub(super) struct Blocks<'r, 'a> {
    reader: &'r mut Reader<'a>,
    frame_type: u64,
    left: u64,
    seen: u64,
}

impl<'r, 'a> Blocks<'r, 'a> {
    /// Reads the count.
    pub fn decode(reader: &'r mut Reader<'a>, frame_type: u64) -> Result<Self, DecodeError> {
        let left = reader.read_varint()?;
        if left > MAX_BLOCKS {
            return Err(DecodeError::Malformed { frame_type, reason: "more than 16 blocks" });
        }
        Ok(Self { reader, frame_type, left, seen: 0 })
    }

    /// The type of the next block, and a reader of its value.
    pub fn next(&mut self) -> Result<Option<(u64, Reader<'a>)>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let block_type = self.reader.read_varint()?;
        let value = Reader::new(self.reader.take_prefixed()?);
        // Types that have a meaning are small. Others may come more than once, for all we know.
        if block_type < RESERVED {
            let bit = 1 << block_type;
            if self.seen & bit != 0 {
                return Err(self.malformed("two blocks of one type"));
            }
            self.seen |= bit;
        }
        Ok(Some((block_type, value)))
    }

    /// Refuses a value that is longer than what was read of it.
    pub fn finish(&self, value: &Reader<'_>) -> Result<(), DecodeError> {
        if value.remaining() > 0 {
            return Err(self.malformed("a block longer than its fields"));
        }
        Ok(())
    }

    /// What a value that ends too early is: the frame itself has not ended.
    pub fn within<T>(&self, read: Result<T, DecodeError>) -> Result<T, DecodeError> {
        read.map_err(|error| match error {
            DecodeError::Truncated => self.malformed("a block shorter than its fields"),
            other => other,
        })
    }

    fn malformed(&self, reason: &'static str) -> DecodeError {
        DecodeError::Malformed { frame_type: self.frame_type, reason }
    }
}

/// Appends a block with what `write` appends as its value.
pub(super) fn put_block(out: &mut Vec<u8>, block_type: u64, write: impl FnOnce(&mut Vec<u8>)) {
    varint::put(out, block_type);
    let value = out.len();
    write(out);
    let len = (out.len() - value) as u64;
    varint::insert(out, value, len);
}

/// Appends a block that means nothing; `number` chooses its type and length, 2 to 5 bytes in all.
pub(super) fn put_grease(out: &mut Vec<u8>, number: u64) {
    let block_type = RESERVED + 16 * (number & 3);
    let len = (number >> 2 & 3) as usize;
    put_block(out, block_type, |out| out.resize(out.len() + len, number as u8));
}
