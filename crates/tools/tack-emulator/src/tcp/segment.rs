//! The headers of a TCP segment.

/// The fields of an IPv4 packet with TCP in it that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Sequence number of the first payload byte.
    pub sequence: u32,
    /// The acknowledgement number, if it means anything.
    pub acknowledged: Option<u32>,
    /// Whether it opens, closes or resets the connection.
    pub is_control: bool,
    /// Bytes of payload.
    pub payload: u32,
}

/// A sequence number is before another one when it is less than half the number space behind.
pub(super) fn is_before(sequence: u32, other: u32) -> bool {
    sequence.wrapping_sub(other) > i32::MAX as u32
}

impl Segment {
    /// Reads it from an IP packet; `None` for anything but a whole TCP segment.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        const TCP: u8 = 6;
        const FIN_SYN_RST: u8 = 0b0000_0111;
        const ACK: u8 = 0b0001_0000;
        let u32_at = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
        };
        let length = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        let ip_header = usize::from(packet.first()? & 0xf) * 4;
        if *packet.get(9)? != TCP {
            return None;
        }
        let tcp = packet.get(ip_header..length)?;
        let tcp_header = usize::from(tcp.get(12)? >> 4) * 4;
        let flags = *tcp.get(13)?;
        Some(Self {
            sequence: u32_at(tcp, 4)?,
            acknowledged: if flags & ACK == 0 { None } else { u32_at(tcp, 8) },
            is_control: flags & FIN_SYN_RST != 0,
            payload: u32::try_from(tcp.len().checked_sub(tcp_header)?).ok()?,
        })
    }

    /// The sequence number behind the payload.
    pub(super) fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.payload)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A packet with headers of 20 bytes each.
    pub(in crate::tcp) fn packet(
        sequence: u32,
        ack: u32,
        flags: u8,
        payload: usize,
    ) -> Vec<u8> {
        let mut packet = vec![0; 40 + payload];
        packet[0] = 0x45;
        let length = u16::try_from(packet.len()).unwrap();
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[9] = 6;
        packet[24..28].copy_from_slice(&sequence.to_be_bytes());
        packet[28..32].copy_from_slice(&ack.to_be_bytes());
        packet[32] = 5 << 4;
        packet[33] = flags;
        packet
    }

    #[test]
    fn the_payload_is_what_follows_both_headers() {
        let segment = Segment::parse(&packet(7, 9, 0x10, 100)).unwrap();
        assert_eq!(
            segment,
            Segment { sequence: 7, acknowledged: Some(9), is_control: false, payload: 100 }
        );
    }

    #[test]
    fn a_first_syn_acknowledges_nothing() {
        let segment = Segment::parse(&packet(7, 0, 0x02, 0)).unwrap();
        assert_eq!((segment.acknowledged, segment.is_control), (None, true));
    }

    #[test]
    fn udp_and_cut_off_packets_are_no_segments() {
        let mut udp = packet(0, 0, 0x10, 8);
        udp[9] = 17;
        assert_eq!(Segment::parse(&udp), None);
        let whole = packet(0, 0, 0x10, 8);
        for length in 0..whole.len() {
            assert_eq!(Segment::parse(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn sequence_numbers_wrap() {
        assert!(is_before(u32::MAX, 0));
        assert!(!is_before(0, u32::MAX));
        assert!(!is_before(5, 5));
    }
}
