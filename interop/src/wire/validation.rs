//! The anti-amplification limit: what a server may send to a client whose address is not validated
//! (RFC 9000 section 8.1).

use serde::Serialize;
use tack_packet::{LongPacketType, Packet, packets};

/// What passed before the client's address was validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Amplification {
    /// Bytes of datagrams that reached the server.
    pub received: u64,
    /// Bytes of datagrams that the server sent.
    pub sent: u64,
    /// The most that the server had sent at any time, as a multiple of what had reached it.
    pub worst: f64,
    /// The address is validated.
    pub validated: bool,
}

impl Amplification {
    /// A datagram reaches the server.
    pub fn arrived(&mut self, len: usize, bytes: &[u8]) {
        if self.validated {
            return;
        }
        self.received += len as u64;
        // The client needs the server's packets for Handshake keys, and for a token.
        self.validated = packets(bytes).any(|packet| match packet {
            Packet::Long(long) => {
                long.header.packet_type == LongPacketType::Handshake
                    || !long.header.token.is_empty()
            }
            Packet::Short(_) => true,
        });
    }

    /// The server sends a datagram.
    pub fn sent(&mut self, len: usize) {
        if self.validated {
            return;
        }
        self.sent += len as u64;
        self.worst = self.worst.max(self.sent as f64 / self.received.max(1) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: [u8; 17] = [0xc0, 0, 0, 0, 1, 2, 0xd, 0xd, 1, 5, 0, 0x40, 4, 9, 9, 9, 9];
    const WITH_TOKEN: [u8; 17] = [0xc0, 0, 0, 0, 1, 2, 0xd, 0xd, 1, 5, 2, 7, 7, 3, 9, 9, 9];
    const HANDSHAKE: [u8; 14] = [0xe0, 0, 0, 0, 1, 2, 0xd, 0xd, 1, 5, 3, 9, 9, 9];

    #[test]
    fn the_worst_moment_counts_and_not_the_end() {
        let mut seen = Amplification::default();
        seen.arrived(1200, &INITIAL);
        seen.sent(1200);
        seen.sent(3000);
        seen.arrived(1200, &INITIAL);
        assert_eq!((seen.received, seen.sent), (2400, 4200));
        assert!((seen.worst - 3.5).abs() < 1e-9);
        assert!(!seen.validated);
    }

    #[test]
    fn a_handshake_packet_or_a_token_validates_the_address() {
        for packet in
            [&HANDSHAKE[..], &WITH_TOKEN, &[INITIAL.to_vec(), HANDSHAKE.into()].concat()]
        {
            let mut seen = Amplification::default();
            seen.arrived(1200, &INITIAL);
            seen.arrived(100, packet);
            seen.sent(100_000);
            assert!(seen.validated);
            assert!(seen.worst < 1e-9);
        }
    }
}
