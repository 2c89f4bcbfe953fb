//! Stream data by its offset, so that a receiver can check each byte.

use std::sync::OnceLock;

/// A prime, so that no packet size divides it.
const PERIOD: usize = 8_191;

/// The most that [`at`] returns.
pub const CHUNK: usize = 1 << 16;

fn bytes() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let byte = |at: usize| ((at % PERIOD) ^ ((at % PERIOD) >> 5)) as u8;
        (0..PERIOD + CHUNK).map(byte).collect()
    })
}

/// `len` bytes of content from `offset` on, at most [`CHUNK`].
pub fn at(offset: u64, len: usize) -> &'static [u8] {
    let start = (offset % PERIOD as u64) as usize;
    &bytes()[start..start + len.min(CHUNK)]
}
