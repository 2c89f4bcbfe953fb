//! The header of a datagram's first packet, as quiche's `Header::from_slice` reads it. quiche copies each field and wants
//! to be able to write to the packet, which a C program may have in constant memory.

use crate::error::tack_error;
use crate::library::read_varint;
use crate::packet::{TACK_MAX_CONN_ID_LEN, TACK_PROTOCOL_VERSION};

/// RFC 9000 section 17.2.
const LONG_FORM: u8 = 0x80;

/// Bytes of the Retry Integrity Tag (RFC 9001 section 5.8).
const RETRY_TAG_LEN: usize = 16;

/// Bytes of a version.
const VERSION_LEN: usize = 4;

/// Types of packets, by their numbers in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketType {
    Initial = 1,
    Retry,
    Handshake,
    ZeroRtt,
    Short,
    VersionNegotiation,
}

/// What a header says before anything is decrypted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PacketHeader<'a> {
    pub packet_type: PacketType,
    /// 0 in a short header.
    pub version: u32,
    pub dcid: &'a [u8],
    pub scid: &'a [u8],
    pub token: &'a [u8],
}

impl<'a> PacketHeader<'a> {
    /// Reads a header. `dcid_len` is how long the connection id of a short one is.
    pub(crate) fn parse(packet: &'a [u8], dcid_len: usize) -> Result<Self, tack_error> {
        let mut rest = packet;
        let first = take(&mut rest, 1)?[0];
        if first & LONG_FORM == 0 {
            let dcid = take(&mut rest, dcid_len)?;
            let packet_type = PacketType::Short;
            return Ok(Self { packet_type, version: 0, dcid, scid: &[], token: &[] });
        }
        let version = take(&mut rest, VERSION_LEN)?;
        let version = version.iter().fold(0, |version, byte| version << 8 | u32::from(*byte));
        let packet_type = match (version, first >> 4 & 3) {
            (0, _) => PacketType::VersionNegotiation,
            (_, 0) => PacketType::Initial,
            (_, 1) => PacketType::ZeroRtt,
            (_, 2) => PacketType::Handshake,
            _ => PacketType::Retry,
        };
        let dcid = long_connection_id(&mut rest, version)?;
        let scid = long_connection_id(&mut rest, version)?;
        let token = match packet_type {
            PacketType::Initial => {
                let (len, size) =
                    read_varint(rest).ok_or(tack_error::TACK_ERR_BUFFER_TOO_SHORT)?;
                take(&mut rest, size)?;
                take(&mut rest, usize::try_from(len).unwrap_or(usize::MAX))?
            }
            PacketType::Retry => {
                let len = rest.len().checked_sub(RETRY_TAG_LEN);
                take(&mut rest, len.ok_or(tack_error::TACK_ERR_INVALID_PACKET)?)?
            }
            PacketType::VersionNegotiation if !rest.len().is_multiple_of(VERSION_LEN) => {
                return Err(tack_error::TACK_ERR_BUFFER_TOO_SHORT);
            }
            _ => &[],
        };
        Ok(Self { packet_type, version, dcid, scid, token })
    }
}

/// A connection id of a long header. Those of other versions can be of any length (RFC 8999 section 5.1).
fn long_connection_id<'a>(rest: &mut &'a [u8], version: u32) -> Result<&'a [u8], tack_error> {
    let len = usize::from(take(rest, 1)?[0]);
    if version == TACK_PROTOCOL_VERSION && len > TACK_MAX_CONN_ID_LEN {
        return Err(tack_error::TACK_ERR_INVALID_PACKET);
    }
    take(rest, len)
}

/// Takes bytes off the beginning.
fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], tack_error> {
    rest.split_off(..len).ok_or(tack_error::TACK_ERR_BUFFER_TOO_SHORT)
}

#[cfg(test)]
mod tests {
    use tack_quiche::{Header, Type};

    use super::*;
    use crate::error::Failure;

    /// Holds a header against what quiche reads.
    fn compare(packet: &[u8], dcid_len: usize) {
        let ours = PacketHeader::parse(packet, dcid_len);
        let mut copy = packet.to_vec();
        let theirs = match Header::from_slice(&mut copy, dcid_len) {
            Ok(header) => header,
            Err(error) => {
                let error = Failure::from(error);
                assert_eq!(ours.map_err(Failure::from), Err(error), "{packet:x?}, {dcid_len}");
                return;
            }
        };
        let packet_type = match theirs.ty {
            Type::Initial => PacketType::Initial,
            Type::Retry => PacketType::Retry,
            Type::Handshake => PacketType::Handshake,
            Type::ZeroRTT => PacketType::ZeroRtt,
            Type::Short => PacketType::Short,
            Type::VersionNegotiation => PacketType::VersionNegotiation,
        };
        let theirs = PacketHeader {
            packet_type,
            version: theirs.version,
            dcid: &theirs.dcid,
            scid: &theirs.scid,
            token: theirs.token.as_deref().unwrap_or_default(),
        };
        assert_eq!(ours, Ok(theirs), "{packet:x?}, {dcid_len}");
    }

    /// A long header with connection ids and what follows.
    fn long(first: u8, version: u32, ids: [usize; 2], rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![first];
        packet.extend(version.to_be_bytes());
        for len in ids {
            packet.push(len as u8);
            packet.extend((0..len).map(|byte| byte as u8 ^ 0x5a));
        }
        packet.extend(rest);
        packet
    }

    #[test]
    fn headers_of_each_type_are_read_as_quiche_reads_them_and_so_are_those_that_are_cut_off() {
        let mut packets = vec![vec![0x40; 30], vec![0; 30]];
        for first in [0xc0, 0xd0, 0xe0, 0xf0, 0x80] {
            for version in [0, 1, 2, 0x0a0a_0a0a] {
                for ids in [[0, 0], [8, 20], [20, 5], [21, 4], [4, 21], [255, 255]] {
                    // A token of 3 bytes, by lengths of 1, 2, 4 and 8 bytes; and one that is not there.
                    for token in [&[3][..], &[0x40, 3], &[0x80, 0, 0, 3], &[0xff; 8]] {
                        let rest = [token, &[7; 24]].concat();
                        packets.push(long(first, version, ids, &rest));
                    }
                }
            }
        }
        for packet in packets {
            for len in 0..=packet.len() {
                compare(&packet[..len], 8);
            }
            for dcid_len in [0, 20, 29, 30, usize::MAX] {
                compare(&packet, dcid_len);
            }
        }
    }

    #[test]
    fn what_is_read_lies_in_the_packet() {
        let packet = long(0xc0, 1, [8, 4], &[3, 1, 2, 3, 0, 0]);
        let header = PacketHeader::parse(&packet, 0).unwrap();
        let within = packet.as_ptr_range();
        for (field, len) in [(header.dcid, 8), (header.scid, 4), (header.token, 3)] {
            assert!(field.len() == len && within.contains(&field.as_ptr()));
        }
    }
}
