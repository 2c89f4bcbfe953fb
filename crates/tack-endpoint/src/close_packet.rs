//! The packet with our CONNECTION_CLOSE, repeated to a peer that goes on sending (RFC 9000 section
//! 10.2.1).

use std::time::Instant;

use crate::send_queue::{BufferPool, Meta, SendQueue};

/// A copy of the packet that closed the connection.
pub(crate) struct ClosePacket {
    bytes: Vec<u8>,
    meta: Meta,
    /// Datagrams received since it was first sent.
    received: u64,
}

impl ClosePacket {
    pub(crate) fn new(bytes: &[u8], meta: Meta) -> Self {
        Self { bytes: bytes.to_vec(), meta, received: 0 }
    }

    /// Queues the packet again after the peer's 1st, 2nd, 4th, 8th, ... further datagram, of which
    /// this one has `received_len` bytes: two endpoints cannot keep each other busy.
    pub(crate) fn on_received(
        &mut self,
        now: Instant,
        received_len: usize,
        queue: &mut SendQueue,
        pool: &mut BufferPool,
    ) {
        self.received += 1;
        // The address may not be validated: no more than three times what came from there
        // (RFC 9000 section 8.1).
        let amplifies = self.bytes.len() > 3 * received_len;
        if !self.received.is_power_of_two() || amplifies {
            return;
        }
        if let Some(room) = queue.room(pool) {
            let len = self.bytes.len();
            room[..len].copy_from_slice(&self.bytes);
            queue.commit(len, Meta { at: now, ..self.meta });
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use tacklib::EcnCodepoint;

    use super::*;

    /// Which of the peer's datagrams, of `received_len` bytes each, are answered.
    fn answered(received_len: usize) -> Vec<u32> {
        let now = Instant::now();
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let ecn = EcnCodepoint::NotEct;
        let meta = Meta { from: address, to: address, ecn, at: now };
        let mut close = ClosePacket::new(&[7; 90], meta);
        let mut pool = BufferPool::default();
        let mut answered = Vec::new();
        for datagram in 1..=40 {
            let mut queue = SendQueue::default();
            close.on_received(now, received_len, &mut queue, &mut pool);
            if !queue.is_empty() {
                answered.push(datagram);
            }
        }
        answered
    }

    #[test]
    fn the_close_is_repeated_ever_more_rarely() {
        assert_eq!(answered(30), [1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn the_close_is_not_repeated_to_datagrams_of_less_than_a_third_of_its_size() {
        assert!(answered(29).is_empty());
    }
}
