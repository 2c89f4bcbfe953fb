//! The receiver's side of a block-ACK agreement.

use std::collections::BTreeMap;

use crate::Packet;

/// Holds MPDUs until those before them have come (802.11-2016, 10.24.7.6).
#[derive(Clone, Debug, Default)]
pub(super) struct ReorderingBuffer {
    /// Sequence number of the next MPDU to deliver (WinStartB).
    next: u64,
    held: BTreeMap<u64, Packet>,
}

impl ReorderingBuffer {
    /// Takes an MPDU and delivers what is complete.
    pub fn receive(&mut self, sequence: u64, packet: Packet, delivered: &mut Vec<Packet>) {
        if sequence == self.next {
            self.next += 1;
            delivered.push(packet);
            self.deliver_in_sequence(delivered);
        } else if sequence > self.next {
            self.held.insert(sequence, packet);
        }
    }

    /// The sender has given up everything before `start`: a block-ACK request says so.
    pub fn advance(&mut self, start: u64, delivered: &mut Vec<Packet>) {
        while let Some(held) = self.held.first_entry().filter(|held| *held.key() < start) {
            delivered.push(held.remove());
        }
        self.next = self.next.max(start);
        self.deliver_in_sequence(delivered);
    }

    fn deliver_in_sequence(&mut self, delivered: &mut Vec<Packet>) {
        while let Some(packet) = self.held.remove(&self.next) {
            self.next += 1;
            delivered.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    fn packet(number: u32) -> Packet {
        Packet::new(1500, number, Time::ZERO, Vec::new())
    }

    fn numbers(delivered: &[Packet]) -> Vec<u32> {
        delivered.iter().map(|packet| packet.flow).collect()
    }

    #[test]
    fn what_comes_early_waits_for_what_is_missing() {
        let (mut buffer, mut delivered) = (ReorderingBuffer::default(), Vec::new());
        for sequence in [1, 2, 4] {
            buffer.receive(sequence, packet(sequence as u32), &mut delivered);
        }
        assert!(delivered.is_empty());
        buffer.receive(0, packet(0), &mut delivered);
        assert_eq!(numbers(&delivered), [0, 1, 2]);
    }

    #[test]
    fn what_the_sender_gave_up_is_not_waited_for() {
        let (mut buffer, mut delivered) = (ReorderingBuffer::default(), Vec::new());
        for sequence in [1, 3, 4, 6] {
            buffer.receive(sequence, packet(sequence as u32), &mut delivered);
        }
        buffer.advance(3, &mut delivered);
        assert_eq!(numbers(&delivered), [1, 3, 4]);
    }
}
