//! What an application holds between its protocol and the stream.

use super::ByteStream;

/// Bytes that the stream has not taken yet.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    taken: usize,
}

impl Outbox {
    /// Adds bytes behind the others.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Gives the stream what it takes; says whether nothing is left.
    pub fn flush(&mut self, stream: &mut dyn ByteStream) -> bool {
        while self.taken < self.bytes.len() {
            match stream.write(&self.bytes[self.taken..]) {
                0 => return false,
                taken => self.taken += taken,
            }
        }
        self.bytes.clear();
        self.taken = 0;
        true
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }
}

/// What is read at once.
const PIECE: usize = 16 << 10;

/// Bytes that have arrived and have not been made sense of.
#[derive(Clone, Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    used: usize,
    most: usize,
}

impl Inbox {
    /// An empty one, which never holds more than `most` bytes: the rest stays in the stream.
    pub const fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), used: 0, most }
    }

    /// Takes from the stream what there is and fits; returns how many bytes.
    pub fn fill(&mut self, stream: &mut dyn ByteStream) -> usize {
        self.bytes.drain(..self.used);
        self.used = 0;
        let before = self.bytes.len();
        loop {
            let end = self.bytes.len();
            let room = self.most.saturating_sub(end).min(PIECE);
            self.bytes.resize(end + room, 0);
            let read = stream.read(&mut self.bytes[end..]);
            self.bytes.truncate(end + read);
            if read == 0 || room == 0 {
                return end + read - before;
            }
        }
    }

    /// What has not been taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Takes the first `count` bytes if they are all there.
    pub fn take(&mut self, count: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.used..self.used.checked_add(count)?)?;
        self.used += count;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes and gives a few bytes at a time.
    struct Narrow {
        room: usize,
        written: Vec<u8>,
        incoming: Vec<u8>,
    }

    impl ByteStream for Narrow {
        fn is_open(&mut self) -> bool {
            true
        }
        fn read(&mut self, out: &mut [u8]) -> usize {
            let count = out.len().min(self.incoming.len()).min(3);
            out[..count].copy_from_slice(&self.incoming[..count]);
            self.incoming.drain(..count);
            count
        }
        fn write(&mut self, bytes: &[u8]) -> usize {
            let count = bytes.len().min(self.room);
            self.written.extend_from_slice(&bytes[..count]);
            self.room -= count;
            count
        }
        fn is_drained(&mut self) -> Option<bool> {
            None
        }
    }

    #[test]
    fn what_a_stream_does_not_take_is_kept_in_order() {
        let mut stream = Narrow { room: 4, written: Vec::new(), incoming: Vec::new() };
        let mut outbox = Outbox::default();
        outbox.push(b"header");
        assert!(!outbox.flush(&mut stream) && !outbox.is_empty());
        outbox.push(b"body");
        stream.room = 100;
        assert!(outbox.flush(&mut stream) && outbox.is_empty());
        assert_eq!(stream.written, b"headerbody");
    }

    #[test]
    fn an_inbox_holds_no_more_than_it_may_and_loses_nothing() {
        let incoming = (0..20).collect();
        let mut stream = Narrow { room: 0, written: Vec::new(), incoming };
        let mut inbox = Inbox::new(8);
        assert_eq!(inbox.fill(&mut stream), 8);
        assert_eq!(inbox.fill(&mut stream), 0);
        assert_eq!(inbox.take(9), None);
        assert_eq!(inbox.take(5), Some(&[0, 1, 2, 3, 4][..]));
        assert_eq!(inbox.fill(&mut stream), 5);
        assert_eq!(inbox.bytes(), [5, 6, 7, 8, 9, 10, 11, 12]);
    }
}
