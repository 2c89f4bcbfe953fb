//! The packets that share a datagram, and the unprotected part of their headers (RFC 9000
//! sections 12.2 and 17.2).

use tack_proto::varint::{Reader, Truncated};

const LONG_HEADER: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;

/// The type of a packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongKind {
    /// The first packets of either side.
    Initial,
    /// Early data.
    ZeroRtt,
    /// The rest of the TLS handshake.
    Handshake,
    /// The server asks the client to validate its address.
    Retry,
    /// The server does not know the version.
    VersionNegotiation,
}

/// A packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongPacket<'a> {
    /// Its type.
    pub kind: LongKind,
    /// The destination connection id.
    pub dcid: &'a [u8],
    /// The source connection id.
    pub scid: &'a [u8],
    /// The token of an Initial; empty in all others.
    pub token: &'a [u8],
    /// The whole packet, still protected.
    pub bytes: &'a [u8],
    /// Where the packet number begins.
    pub number_at: usize,
}

/// A packet of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Everything before and around the handshake.
    Long(LongPacket<'a>),
    /// 1-RTT, still protected; ends the datagram.
    Short(&'a [u8]),
}

/// Returns the packets of a datagram in order, up to the first bytes that are no packet.
pub fn packets(datagram: &[u8]) -> Vec<Packet<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = datagram.get(at) {
        let rest = &datagram[at..];
        if first & LONG_HEADER == 0 {
            // Zeros behind another packet are padding.
            if first & FIXED_BIT != 0 || found.is_empty() {
                found.push(Packet::Short(rest));
            }
            break;
        }
        let Ok(packet) = long(rest) else { break };
        at += packet.bytes.len();
        found.push(Packet::Long(packet));
    }
    found
}

fn long(rest: &[u8]) -> Result<LongPacket<'_>, Truncated> {
    let mut reader = Reader::new(rest);
    let first = reader.read_u8()?;
    let version = u32::from_be_bytes(*reader.take_array()?);
    let dcid_len = reader.read_u8()?;
    let dcid = reader.take(dcid_len.into())?;
    let scid_len = reader.read_u8()?;
    let scid = reader.take(scid_len.into())?;
    let kind = match (version, first >> 4 & 0x03) {
        (0, _) => LongKind::VersionNegotiation,
        (_, 0) => LongKind::Initial,
        (_, 1) => LongKind::ZeroRtt,
        (_, 2) => LongKind::Handshake,
        _ => LongKind::Retry,
    };
    let whole = LongPacket { kind, dcid, scid, token: &[], bytes: rest, number_at: rest.len() };
    if matches!(kind, LongKind::Retry | LongKind::VersionNegotiation) {
        return Ok(whole);
    }
    let token = if kind == LongKind::Initial { reader.take_prefixed()? } else { &[] };
    let protected = reader.take_prefixed()?.len();
    let end = reader.position();
    Ok(LongPacket { token, bytes: &rest[..end], number_at: end - protected, ..whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Initial with a token of two bytes and a payload of three.
    const INITIAL: [u8; 17] = [0xc0, 0, 0, 0, 1, 2, 0xd, 0xd, 1, 0x5, 2, 7, 7, 3, 9, 9, 9];
    const RETRY: [u8; 12] = [0xf0, 0, 0, 0, 1, 2, 0xd, 0xd, 1, 0x5, 7, 7];
    const SHORT: [u8; 3] = [0x40, 1, 2];

    #[test]
    fn an_initial_is_told_from_the_packet_behind_it() {
        let datagram = [&INITIAL[..], &SHORT].concat();
        let found = packets(&datagram);
        let [Packet::Long(initial), Packet::Short(short)] = found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(initial.kind, LongKind::Initial);
        assert_eq!((initial.dcid, initial.scid), (&[0xd, 0xd][..], &[5][..]));
        assert_eq!(initial.token, [7, 7]);
        assert_eq!((initial.bytes, initial.number_at), (&INITIAL[..], 14));
        assert_eq!(short, SHORT);
    }

    #[test]
    fn a_retry_takes_the_rest_of_the_datagram() {
        let found = packets(&RETRY);
        let [Packet::Long(retry)] = found[..] else { panic!("{found:?}") };
        assert_eq!((retry.kind, retry.scid), (LongKind::Retry, &[5][..]));
    }

    #[test]
    fn padding_and_packets_cut_short_are_no_packets() {
        assert_eq!(packets(&[&INITIAL[..], &[0; 20]].concat()).len(), 1);
        for len in 0..INITIAL.len() {
            assert_eq!(packets(&INITIAL[..len]), []);
        }
    }
}
