//! Reads an input as a list of choices.

/// What is left of an input. Past its end everything is zero or empty.
pub struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The next choice; `None` at the end.
    pub fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    pub fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// A length, and as many bytes; fewer at the end.
    pub fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.bytes.len());
        let (bytes, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        bytes
    }

    pub const fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes;
        self.bytes = &[];
        rest
    }
}
