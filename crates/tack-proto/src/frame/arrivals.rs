//! The block of a TACK that tells when packets with a TIMESTAMP arrived (TACK-3.1-11, TACK-4.4-4): of the packet
//! trains that a sender with little to send measures the path with (TACK-6.8-1).
//!
//! ```text
//! Block 5, Arrivals {
//!   First Packet Number (i),
//!   Arrival {
//!     Number Delta (i),      from the packet before, at least 1
//!     Time Delta (i),        microseconds
//!     Received Bytes (i),    of all packets behind the one before, up to and with this one
//!   } ...                    1 to 47
//! }
//! ```

use super::DecodeError;
use crate::varint::{self, Reader};

/// Type of the block.
pub(super) const ARRIVALS: u64 = 5;

/// Packets in one block, the first included: both ends of the frames of 0.4 s, at sixty a second.
pub const MAX_ARRIVALS: usize = 48;

/// A packet with a TIMESTAMP that has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampedArrival {
    /// Its number.
    pub packet_number: u64,
    /// How long after the one before it arrived, in microseconds; of the first one zero.
    pub since_last_us: u64,
    /// Bytes of ack-eliciting packets that came since then, its own included; of the first one zero.
    pub bytes: u64,
}

/// Packets with a TIMESTAMP, in the order of their numbers and of their arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    entries: [StampedArrival; MAX_ARRIVALS],
    len: usize,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { entries: [StampedArrival::default(); MAX_ARRIVALS], len: 0 }
    }
}

impl Arrivals {
    /// The packets.
    pub fn as_slice(&self) -> &[StampedArrival] {
        &self.entries[..self.len]
    }

    /// Adds a packet, as far as a block holds it.
    pub fn push(&mut self, arrival: StampedArrival) {
        if self.len < MAX_ARRIVALS {
            self.entries[self.len] = arrival;
            self.len += 1;
        } else {
            self.extend_last(arrival);
        }
    }

    /// Puts a packet in the place of the last one, with the bytes and the time of both.
    pub fn extend_last(&mut self, arrival: StampedArrival) {
        let Some(last) = self.entries[..self.len].last_mut() else { return };
        last.packet_number = arrival.packet_number;
        last.since_last_us = last.since_last_us.saturating_add(arrival.since_last_us);
        last.bytes = last.bytes.saturating_add(arrival.bytes);
    }

    /// Forgets all but the last, which what comes next is measured from.
    pub fn keep_last(&mut self) {
        if let Some(last) = self.as_slice().last().copied() {
            self.entries[0] = StampedArrival { since_last_us: 0, bytes: 0, ..last };
            self.len = 1;
        }
    }

    /// Whether there is something to report: a time between two packets.
    pub fn is_worth_reporting(&self) -> bool {
        self.len > 1
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let mut last = None;
        for arrival in self.as_slice() {
            let Some(before) = last.replace(arrival.packet_number) else {
                varint::put(out, arrival.packet_number);
                continue;
            };
            varint::put(out, arrival.packet_number - before);
            varint::put(out, arrival.since_last_us);
            varint::put(out, arrival.bytes);
        }
    }
}

/// The block as it is in a frame, which has been checked.
#[derive(Clone, Debug)]
pub struct EncodedArrivals<'a> {
    value: &'a [u8],
}

impl PartialEq for EncodedArrivals<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for EncodedArrivals<'_> {}

impl<'a> EncodedArrivals<'a> {
    /// Reads the whole value.
    pub(super) fn decode(
        reader: &mut Reader<'a>,
        frame_type: u64,
    ) -> Result<Self, DecodeError> {
        let value = reader.take_rest();
        read(value, frame_type)?;
        Ok(Self { value })
    }

    /// The packets.
    pub fn get(&self) -> Arrivals {
        read(self.value, super::tack::TACK).unwrap_or_default()
    }
}

fn read(value: &[u8], frame_type: u64) -> Result<Arrivals, DecodeError> {
    let malformed = |reason| DecodeError::Malformed { frame_type, reason };
    let mut reader = Reader::new(value);
    let packet_number = reader.read_varint()?;
    let mut arrivals = Arrivals::default();
    arrivals.push(StampedArrival { packet_number, ..StampedArrival::default() });
    let mut last = packet_number;
    while reader.remaining() > 0 {
        if arrivals.len == MAX_ARRIVALS {
            return Err(malformed("more than 48 arrivals"));
        }
        let delta = reader.read_varint()?;
        // Both are below 2^62, and what is above that is no packet number.
        last += delta;
        if delta == 0 || last > varint::MAX {
            return Err(malformed("an arrival that is no later packet"));
        }
        let (since_last_us, bytes) = (reader.read_varint()?, reader.read_varint()?);
        arrivals.push(StampedArrival { packet_number: last, since_last_us, bytes });
    }
    if !arrivals.is_worth_reporting() {
        return Err(malformed("arrivals of one packet alone"));
    }
    Ok(arrivals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(packet_number: u64, since_last_us: u64, bytes: u64) -> StampedArrival {
        StampedArrival { packet_number, since_last_us, bytes }
    }

    fn of(packets: u64) -> Arrivals {
        let mut arrivals = Arrivals::default();
        arrivals.push(arrival(70_000, 0, 0));
        for packet in 1..packets {
            arrivals.push(arrival(70_000 + 3 * packet, 400 + packet, 3600));
        }
        arrivals
    }

    fn encoded(arrivals: &Arrivals) -> Vec<u8> {
        let mut out = Vec::new();
        arrivals.put(&mut out);
        out
    }

    #[test]
    fn a_block_says_what_was_put_into_it() {
        for packets in 2..=MAX_ARRIVALS as u64 {
            let value = encoded(&of(packets));
            let decoded = EncodedArrivals::decode(&mut Reader::new(&value), 0x2ac0).unwrap();
            assert_eq!(decoded.get(), of(packets));
        }
    }

    #[test]
    fn what_a_block_cannot_hold_lengthens_its_last_time() {
        let full = of(MAX_ARRIVALS as u64 + 2);
        assert_eq!(full.as_slice().len(), MAX_ARRIVALS);
        let last = full.as_slice()[MAX_ARRIVALS - 1];
        assert_eq!(last, arrival(70_147, 447 + 448 + 449, 3 * 3600));
    }

    #[test]
    fn the_last_packet_begins_the_next_block() {
        let mut arrivals = of(4);
        arrivals.keep_last();
        assert_eq!(arrivals.as_slice(), [arrival(70_009, 0, 0)]);
        assert!(!arrivals.is_worth_reporting());
    }

    #[test]
    fn what_is_not_a_list_of_later_packets_is_refused() {
        let refused = |value: &[u8]| {
            EncodedArrivals::decode(&mut Reader::new(value), 0x2ac0).unwrap_err();
        };
        refused(&[]);
        refused(&[7]);
        refused(&[7, 0, 1, 1]);
        refused(&[7, 1, 1]);
        refused(&[&[0xff; 8][..], &[1, 1, 1]].concat());
        let mut longer = encoded(&of(MAX_ARRIVALS as u64));
        longer.extend([1, 1, 1]);
        refused(&longer);
    }
}
