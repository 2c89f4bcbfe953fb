//! What is sent: bytes that the receiver can check without keeping them.

/// The content repeats itself; a prime, so that no packet size divides it.
const PERIOD: usize = 65_521;

/// Stream content by offset.
#[derive(Clone)]
pub struct Content {
    /// One period, and the start of the next.
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Content")
    }
}

impl Content {
    pub fn new() -> Self {
        // The high byte of a linear congruence: no short cycle.
        let mut state = 1_u32;
        let byte = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let mut bytes: Vec<u8> = (0..PERIOD).map(byte).collect();
        bytes.extend_from_within(..);
        Self { bytes }
    }

    /// Content from `offset` on, up to 64 KiB of it.
    pub fn at(&self, offset: u64, len: u64) -> &[u8] {
        let start = (offset % PERIOD as u64) as usize;
        &self.bytes[start..start + len.min(PERIOD as u64) as usize]
    }

    /// Whether `bytes` are the content from `offset` on.
    pub fn matches(&self, mut offset: u64, bytes: &[u8]) -> bool {
        bytes.chunks(PERIOD).all(|chunk| {
            let expected = self.at(offset, chunk.len() as u64);
            offset += chunk.len() as u64;
            expected == chunk
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_what_it_was_wherever_it_is_cut() {
        let content = Content::new();
        let len = 3 * PERIOD as u64;
        let mut whole = Vec::new();
        while (whole.len() as u64) < len {
            let offset = whole.len() as u64;
            whole.extend_from_slice(content.at(offset, (len - offset).min(1000)));
        }
        assert!(content.matches(0, &whole));
        assert!(content.matches(777, &whole[777..]));
    }

    #[test]
    fn content_of_another_offset_or_with_another_byte_does_not_match() {
        let content = Content::new();
        let mut bytes = content.at(5, 1000).to_vec();
        assert!(!content.matches(6, &bytes));
        bytes[999] ^= 1;
        assert!(!content.matches(5, &bytes));
    }
}
