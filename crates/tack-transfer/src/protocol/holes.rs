//! Zeros of a file, which cross the network as their number.

use std::collections::VecDeque;

use super::wire::{CHUNK, MAX_HOLE, Message};

/// Zeros that are looked for together: what common file systems leave out.
const BLOCK: usize = 4096;

/// As many zeros as content has at a time.
pub(super) static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// Takes blocks of zeros out of the messages that carry the content of a file.
#[derive(Debug, Default)]
pub(super) struct Holes {
    ready: VecDeque<Message>,
    /// Zeros behind all that is ready.
    zeros: u64,
}

impl Holes {
    /// The next message, if it is known.
    pub(super) fn next(&mut self) -> Option<Message> {
        self.ready.pop_front()
    }

    /// Takes the next message of a sender.
    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Data(bytes) => self.data(bytes),
            other => {
                // Content begins anew behind this.
                if matches!(other, Message::Restart(_)) {
                    self.zeros = 0;
                }
                self.end_hole();
                self.ready.push_back(other);
            }
        }
    }

    fn data(&mut self, bytes: Vec<u8>) {
        if !bytes.chunks(BLOCK).any(is_zeros) {
            self.end_hole();
            self.ready.push_back(Message::Data(bytes));
            return;
        }
        for run in
            bytes.chunks(BLOCK).collect::<Vec<_>>().chunk_by(|a, b| is_zeros(a) == is_zeros(b))
        {
            if run.first().is_some_and(|block| is_zeros(block)) {
                self.add_zeros(run.iter().map(|block| block.len() as u64).sum());
            } else {
                self.end_hole();
                self.ready.push_back(Message::Data(run.concat()));
            }
        }
    }

    fn add_zeros(&mut self, bytes: u64) {
        self.zeros += bytes;
        if self.zeros >= MAX_HOLE {
            self.zeros -= MAX_HOLE;
            self.ready.push_back(Message::Hole { bytes: MAX_HOLE });
        }
    }

    fn end_hole(&mut self) {
        let bytes = std::mem::take(&mut self.zeros);
        if bytes > 0 {
            self.ready.push_back(Message::Hole { bytes });
        }
    }
}

fn is_zeros(block: &[u8]) -> bool {
    ZEROS.get(..block.len()).is_some_and(|zeros| zeros == block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::testing::noise;
    use crate::protocol::{Digest, Mtime, Offer};

    /// What becomes of content that is cut at these lengths.
    fn messages(content: &[u8], cut: usize) -> Vec<Message> {
        let (mut holes, mut out) = (Holes::default(), Vec::new());
        let end = Message::End { digest: Digest::of(content) };
        let data = content.chunks(cut).map(|bytes| Message::Data(bytes.to_vec()));
        for message in data.chain([end]) {
            holes.take(message);
            out.extend(std::iter::from_fn(|| holes.next()));
        }
        out
    }

    fn content(messages: &[Message]) -> Vec<u8> {
        let mut content = Vec::new();
        for message in messages {
            match message {
                Message::Data(bytes) => content.extend_from_slice(bytes),
                Message::Hole { bytes } => content.resize(content.len() + *bytes as usize, 0),
                _ => {}
            }
        }
        content
    }

    #[test]
    fn zeros_become_holes_that_are_as_long_as_possible_and_nothing_is_lost() {
        let zeros = |length| vec![0; length];
        let file = [zeros(200_000), noise(5, 1), zeros(70_000), noise(100_000, 2), zeros(9)];
        for cut in [CHUNK, CHUNK - 1, 5000, 10] {
            let messages = messages(&file.concat(), cut);
            assert!(content(&messages) == file.concat(), "cut at {cut}");
            assert!(matches!(messages.last(), Some(Message::End { .. })));
            if cut == CHUNK {
                let sent: usize = messages
                    .iter()
                    .map(
                        |message| {
                            if let Message::Data(data) = message { data.len() } else { 0 }
                        },
                    )
                    .sum();
                assert!(sent < 100_000 + 4 * BLOCK, "{sent}");
                assert!(messages.len() < 10, "{}", messages.len());
            }
        }
    }

    #[test]
    fn a_hole_is_never_longer_than_a_receiver_takes() {
        let length = 2 * MAX_HOLE + 5;
        let mut holes = Holes::default();
        for _ in 0..length / CHUNK as u64 {
            holes.take(Message::Data(vec![0; CHUNK]));
        }
        holes.take(Message::Data(vec![0; (length % CHUNK as u64) as usize]));
        holes.take(Message::End { digest: Digest::of(b"") });
        let lengths: Vec<_> = std::iter::from_fn(|| holes.next())
            .map(|message| if let Message::Hole { bytes } = message { bytes } else { 0 })
            .collect();
        assert_eq!(lengths, [MAX_HOLE, MAX_HOLE, 5, 0]);
    }

    #[test]
    fn zeros_before_a_restart_do_not_count_behind_it() {
        let mut holes = Holes::default();
        holes.take(Message::Data(vec![0; CHUNK]));
        let restart =
            || Message::Restart(Offer { size: 1, modified: Mtime::default(), mode: 0 });
        holes.take(restart());
        assert_eq!(holes.next(), Some(restart()));
        assert_eq!(holes.next(), None);
    }
}
