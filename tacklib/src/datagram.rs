//! Where in a datagram the 1-RTT packet begins.
//!
//! Long-header packets carry their length and come first; a packet with a short
//! header runs to the end of the datagram (RFC 9000 section 12.2).

use tack_proto::varint::Reader;

const LONG_HEADER: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
const PACKET_TYPE: u8 = 0x30;

/// Long packet types of QUIC version 1 (RFC 9000 section 17.2).
mod packet_type {
    pub const INITIAL: u8 = 0x00;
    pub const ZERO_RTT: u8 = 0x10;
    pub const HANDSHAKE: u8 = 0x20;
    pub const RETRY: u8 = 0x30;
}

/// What a datagram is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where the 1-RTT packet begins, if there is one.
    pub one_rtt: Option<usize>,
    /// Whether packets with long headers come first, or alone.
    pub has_long: bool,
    /// Whether one of them carries 0-RTT data.
    pub has_zero_rtt: bool,
    /// Whether one of them is a Handshake packet.
    pub has_handshake: bool,
    /// Whether it is a Version Negotiation packet.
    pub is_version_negotiation: bool,
}

/// Reads the layout. What cannot be read is left to quiche as a whole.
pub fn layout(datagram: &[u8]) -> Layout {
    let mut layout = Layout::default();
    let mut at = 0;
    while at < datagram.len() {
        let packet = &datagram[at..];
        if packet[0] & LONG_HEADER == 0 {
            // Without the fixed bit it is no packet: an Initial may be followed
            // by zeros that fill the datagram.
            layout.one_rtt = (packet[0] & FIXED_BIT != 0).then_some(at);
            return layout;
        }
        layout.has_long = true;
        layout.is_version_negotiation = packet.len() >= 5 && packet[1..5] == [0; 4];
        layout.has_zero_rtt |= packet[0] & PACKET_TYPE == packet_type::ZERO_RTT;
        layout.has_handshake |= packet[0] & PACKET_TYPE == packet_type::HANDSHAKE;
        match long_packet_len(packet) {
            Some(len) if !layout.is_version_negotiation => at += len,
            _ => return layout,
        }
    }
    layout
}

/// Length of the packet at the front; `None` if it fills the datagram.
fn long_packet_len(packet: &[u8]) -> Option<usize> {
    let kind = packet[0] & PACKET_TYPE;
    if kind == packet_type::RETRY {
        return None;
    }
    let mut reader = Reader::new(packet);
    reader.take(5).ok()?;
    for _ in 0..2 {
        let len = reader.read_u8().ok()?;
        reader.take(usize::from(len)).ok()?;
    }
    if kind == packet_type::INITIAL {
        let token = reader.read_varint().ok()?;
        reader.take(usize::try_from(token).ok()?).ok()?;
    }
    let payload = usize::try_from(reader.read_varint().ok()?).ok()?;
    let len = reader.position().checked_add(payload)?;
    (len <= packet.len()).then_some(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn long(kind: u8, payload: usize) -> Vec<u8> {
        let mut packet = vec![0xc0 | kind, 0, 0, 0, 1, 2, 7, 7, 1, 9];
        if kind == packet_type::INITIAL {
            packet.extend([3, 1, 2, 3]);
        }
        packet.push(payload as u8);
        packet.extend(vec![0xff; payload]);
        packet
    }

    #[test]
    fn a_short_header_is_found_behind_coalesced_long_ones() {
        let mut datagram = long(packet_type::INITIAL, 30);
        datagram.extend(long(0x20, 40));
        let at = datagram.len();
        datagram.extend([0x40; 25]);
        let layout = layout(&datagram);
        assert_eq!(layout.one_rtt, Some(at));
        assert!(layout.has_long && layout.has_handshake && !layout.has_zero_rtt);
    }

    #[test]
    fn zeros_that_fill_a_datagram_are_no_packet() {
        let mut datagram = long(packet_type::INITIAL, 30);
        datagram.extend([0; 1000]);
        assert_eq!(layout(&datagram).one_rtt, None);
        assert!(!layout(&datagram).has_handshake);
    }

    #[test]
    fn early_data_is_noticed_and_retry_ends_the_datagram() {
        let mut datagram = long(packet_type::ZERO_RTT, 20);
        assert!(layout(&datagram).has_zero_rtt);
        datagram.extend(long(packet_type::RETRY, 20));
        datagram.extend([0x40; 25]);
        assert_eq!(layout(&datagram).one_rtt, None);
    }

    #[test]
    fn version_negotiation_is_recognised() {
        let datagram = [0x80, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1];
        assert!(layout(&datagram).is_version_negotiation);
    }

    proptest! {
        #[test]
        fn any_datagram_can_be_looked_at(datagram in proptest::collection::vec(any::<u8>(), 0..1600)) {
            let layout = layout(&datagram);
            prop_assert!(layout.one_rtt.is_none_or(|at| at < datagram.len()));
        }
    }
}
