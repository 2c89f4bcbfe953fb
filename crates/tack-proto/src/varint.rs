//! Variable-length integers, RFC 9000 section 16, and the reader that walks over them.

use thiserror::Error;

/// The largest value that a variable-length integer can carry.
pub const MAX: u64 = (1 << 62) - 1;

/// Bytes that the shortest encoding of `value` takes: 1, 2, 4 or 8.
///
/// Values above [`MAX`] have no encoding; they count as [`MAX`], which [`put`] writes for them.
pub const fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends the shortest encoding of `value`.
///
/// A value above [`MAX`] is a mistake of the caller: a debug build panics, a release build
/// writes [`MAX`] rather than a smaller number that happens to share the low bits.
pub fn put(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX, "{value} does not fit a QUIC varint");
    let value = value.min(MAX);
    let size = len(value);
    // The two high bits of the first byte hold log2 of the size.
    let prefix = (size.trailing_zeros() as u8) << 6;
    let first = out.len();
    out.extend_from_slice(&value.to_be_bytes()[8 - size..]);
    out[first] |= prefix;
}

/// Inserts the shortest encoding of `value` at index `at`, moving what follows.
///
/// Lists carry their count in front, but how many entries fit is known only after writing
/// them.
pub(crate) fn insert(out: &mut Vec<u8>, at: usize, value: u64) {
    let size = len(value);
    put(out, value);
    out[at..].rotate_right(size);
}

/// The input ended inside a field.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the input ends inside a field")]
pub struct Truncated;

/// Walks over a borrowed buffer. A read that fails leaves the position where it was.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    buf: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `buf`.
    pub const fn new(buf: &'a [u8]) -> Self {
        Self { buf, position: 0 }
    }

    /// Reads one variable-length integer, in whatever length the sender chose.
    #[inline]
    pub fn read_varint(&mut self) -> Result<u64, Truncated> {
        fn chunk<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Truncated> {
            bytes.first_chunk().copied().ok_or(Truncated)
        }

        let rest = self.buf.get(self.position..).unwrap_or_default();
        let first = *rest.first().ok_or(Truncated)?;
        // The two high bits tell the length.
        let (value, len) = match first >> 6 {
            0 => (u64::from(first), 1),
            1 => (u64::from(u16::from_be_bytes(chunk(rest)?)) & 0x3fff, 2),
            2 => (u64::from(u32::from_be_bytes(chunk(rest)?)) & 0x3fff_ffff, 4),
            _ => (u64::from_be_bytes(chunk(rest)?) & MAX, 8),
        };
        self.position += len;
        Ok(value)
    }

    /// Reads one byte.
    pub fn read_u8(&mut self) -> Result<u8, Truncated> {
        Ok(self.take_array::<1>()?[0])
    }

    /// Reads two bytes, most significant first.
    pub fn read_u16(&mut self) -> Result<u16, Truncated> {
        Ok(u16::from_be_bytes(*self.take_array()?))
    }

    /// Takes the next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Truncated> {
        let bytes = self.buf[self.position..].get(..n).ok_or(Truncated)?;
        self.position += n;
        Ok(bytes)
    }

    /// Takes the next `N` bytes as an array.
    pub fn take_array<const N: usize>(&mut self) -> Result<&'a [u8; N], Truncated> {
        self.take(N)?.try_into().map_err(|_| Truncated)
    }

    /// Takes a byte string that a varint with its length precedes.
    pub fn take_prefixed(&mut self) -> Result<&'a [u8], Truncated> {
        let start = self.position;
        let bytes = self
            .read_varint()
            .and_then(|len| usize::try_from(len).map_err(|_| Truncated))
            .and_then(|len| self.take(len));
        if bytes.is_err() {
            self.position = start;
        }
        bytes
    }

    /// Takes everything that is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = &self.buf[self.position..];
        self.position = self.buf.len();
        rest
    }

    /// Takes bytes for as long as they equal `byte`; returns how many.
    pub fn skip_while(&mut self, byte: u8) -> usize {
        let run = self.buf[self.position..].iter().take_while(|b| **b == byte).count();
        self.position += run;
        run
    }

    /// Everything read since `start`, an earlier [`position`](Self::position).
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        &self.buf[start..self.position]
    }

    /// Bytes not yet read.
    pub const fn remaining(&self) -> usize {
        self.buf.len() - self.position
    }

    /// Bytes read so far.
    pub const fn position(&self) -> usize {
        self.position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, value);
        out
    }

    #[test]
    fn the_examples_of_rfc_9000_appendix_a1_encode_to_the_same_bytes() {
        assert_eq!(
            encoded(151_288_809_941_952_652),
            [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]
        );
        assert_eq!(encoded(494_878_333), [0x9d, 0x7f, 0x3e, 0x7d]);
        assert_eq!(encoded(15_293), [0x7b, 0xbd]);
        assert_eq!(encoded(37), [0x25]);
    }

    #[test]
    fn a_longer_encoding_than_needed_is_read_too() {
        let mut reader = Reader::new(&[0x40, 0x25]);
        assert_eq!(reader.read_varint(), Ok(37));
        assert_eq!(reader.remaining(), 0);
    }

    #[test]
    fn the_length_changes_exactly_at_the_limits_of_each_size() {
        for (value, size) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
            (MAX, 8),
        ] {
            assert_eq!(len(value), size, "{value}");
            assert_eq!(encoded(value).len(), size, "{value}");
        }
    }

    #[test]
    fn insert_puts_a_count_in_front_of_what_was_written() {
        let mut out = vec![1, 2, 3];
        insert(&mut out, 1, 0x1234);
        assert_eq!(out, [1, 0x52, 0x34, 2, 3]);
    }

    #[test]
    fn a_failed_read_moves_nothing() {
        let mut reader = Reader::new(&[0xc0, 1, 2]);
        assert_eq!(reader.read_varint(), Err(Truncated));
        assert_eq!(reader.take(4), Err(Truncated));
        assert_eq!(reader.position(), 0);

        let mut reader = Reader::new(&[3, 1, 2]);
        assert_eq!(reader.take_prefixed(), Err(Truncated));
        assert_eq!(reader.position(), 0);
    }

    #[test]
    fn a_length_above_the_address_space_is_truncation_not_overflow() {
        let mut reader = Reader::new(&[0xff; 8]);
        assert_eq!(reader.take_prefixed(), Err(Truncated));
    }

    proptest! {
        #[test]
        fn every_value_survives_the_round_trip(value in 0..=MAX) {
            let bytes = encoded(value);
            prop_assert_eq!(bytes.len(), len(value));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.read_varint(), Ok(value));
            prop_assert_eq!(reader.remaining(), 0);
        }
    }
}
