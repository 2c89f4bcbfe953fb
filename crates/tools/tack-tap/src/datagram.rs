//! The packets that share a datagram (RFC 9000 sections 12.2 and 17.2).

use tack_proto::varint::{Reader, Truncated};

const LONG_HEADER: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
const VERSION_1: u32 = 1;

/// One packet of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    /// Initial, 0-RTT or Handshake.
    Long {
        /// Source connection id: what its sender wants to be called.
        scid: &'a [u8],
    },
    /// 1-RTT, still protected. It has no length of its own and ends the datagram.
    Short(&'a [u8]),
}

/// The packets of a datagram in order. Ends at Retry, Version Negotiation, a version other than
/// 1, and anything that is no packet.
pub(crate) fn packets(datagram: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    let mut reader = Reader::new(datagram);
    let mut is_first = true;
    std::iter::from_fn(move || {
        let packet = next(&mut reader, is_first).ok().flatten();
        is_first = false;
        if packet.is_none() {
            reader.take_rest();
        }
        packet
    })
}

fn next<'a>(reader: &mut Reader<'a>, is_first: bool) -> Result<Option<Packet<'a>>, Truncated> {
    const INITIAL: u8 = 0;
    const RETRY: u8 = 3;

    let mut rest = reader.clone();
    let first = reader.read_u8()?;
    // The bit may be greased (RFC 9287), but behind another packet zeros are padding.
    if first & (LONG_HEADER | FIXED_BIT) == 0 && !is_first {
        return Ok(None);
    }
    if first & LONG_HEADER == 0 {
        reader.take_rest();
        return Ok(Some(Packet::Short(rest.take_rest())));
    }
    if u32::from_be_bytes(*reader.take_array()?) != VERSION_1 {
        return Ok(None);
    }
    let packet_type = first >> 4 & 0x03;
    if packet_type == RETRY {
        return Ok(None);
    }
    let dcid_len = reader.read_u8()?;
    reader.take(dcid_len.into())?;
    let scid_len = reader.read_u8()?;
    let scid = reader.take(scid_len.into())?;
    if packet_type == INITIAL {
        reader.take_prefixed()?; // the token
    }
    reader.take_prefixed()?; // packet number and payload
    Ok(Some(Packet::Long { scid }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const INITIAL: u8 = 0xc0;
    const ZERO_RTT: u8 = 0xd0;
    const HANDSHAKE: u8 = 0xe0;
    const RETRY: u8 = 0xf0;
    const SHORT: [u8; 5] = [0x41, 1, 2, 3, 4];

    /// A packet whose payload and, in an Initial, token are `payload_len` bytes long.
    pub(in super::super) fn long(first: u8, scid: &[u8], payload_len: u16) -> Vec<u8> {
        let mut packet = vec![first, 0, 0, 0, 1, 3, 0xd, 0xd, 0xd, scid.len() as u8];
        packet.extend(scid);
        let mut prefixed = (0x4000 | payload_len).to_be_bytes().to_vec();
        prefixed.resize(2 + usize::from(payload_len), 0xff);
        if first == INITIAL {
            packet.extend(&prefixed);
        }
        packet.extend(prefixed);
        packet
    }

    fn all(datagram: &[u8]) -> Vec<Packet<'_>> {
        packets(datagram).collect()
    }

    #[test]
    fn a_short_header_packet_is_the_rest_of_the_datagram() {
        assert_eq!(all(&SHORT), [Packet::Short(&SHORT)]);
    }

    #[test]
    fn long_header_packets_are_stepped_over_by_token_and_length() {
        let datagram = [
            long(INITIAL, b"abc", 300),
            long(ZERO_RTT, b"abc", 20),
            long(HANDSHAKE, b"defgh", 70),
            SHORT.to_vec(),
        ]
        .concat();
        assert_eq!(
            all(&datagram),
            [
                Packet::Long { scid: b"abc" },
                Packet::Long { scid: b"abc" },
                Packet::Long { scid: b"defgh" },
                Packet::Short(&SHORT),
            ]
        );
    }

    #[test]
    fn retry_version_negotiation_and_unknown_versions_end_the_datagram() {
        let retry = long(RETRY, b"abc", 20);
        let mut negotiation = long(INITIAL, b"abc", 20);
        negotiation[1..5].fill(0);
        let mut unknown = long(HANDSHAKE, b"abc", 20);
        unknown[1] = 0x6b;
        for packet in [retry, negotiation, unknown] {
            assert_eq!(all(&[packet, SHORT.to_vec()].concat()), []);
        }
    }

    #[test]
    fn padding_behind_a_packet_is_no_packet() {
        let datagram = [long(HANDSHAKE, b"abc", 20), vec![0; 100]].concat();
        assert_eq!(all(&datagram), [Packet::Long { scid: b"abc" }]);
    }

    #[test]
    fn the_fixed_bit_may_be_greased() {
        let mut short = SHORT;
        short[0] &= !FIXED_BIT;
        let greased = long(HANDSHAKE & !FIXED_BIT, b"abc", 20);
        assert_eq!(all(&short), [Packet::Short(&short)]);
        assert_eq!(all(&greased), [Packet::Long { scid: b"abc" }]);
    }

    #[test]
    fn a_packet_cut_short_ends_the_datagram_wherever_it_is_cut() {
        let whole = long(INITIAL, b"abc", 20);
        for len in 0..whole.len() {
            assert_eq!(all(&whole[..len]), []);
        }
    }
}
