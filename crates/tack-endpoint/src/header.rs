//! The part of a QUIC header that every version shares (RFC 8999).

use crate::connection_ids::{CID_LEN, Cid};

/// Where a datagram says it belongs; nothing in it is authenticated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invariants<'a> {
    /// Version Negotiation (version 0), Initial, 0-RTT, Handshake and Retry.
    Long { version: u32, dcid: &'a [u8], scid: &'a [u8] },
    /// 1-RTT, and what looks like it. The length of the connection ID is ours to know.
    Short { dcid: Cid },
}

const LONG_FORM: u8 = 0x80;

impl<'a> Invariants<'a> {
    /// Reads the header of the first packet; `None` if the datagram ends before it does.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (&first, rest) = datagram.split_first()?;
        if first & LONG_FORM == 0 {
            let dcid = rest.first_chunk::<CID_LEN>()?;
            return Some(Self::Short { dcid: *dcid });
        }
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (dcid, rest) = connection_id(rest)?;
        let (scid, _) = connection_id(rest)?;
        Some(Self::Long { version: u32::from_be_bytes(*version), dcid, scid })
    }
}

/// Splits off a connection ID preceded by its length.
fn connection_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_header_yields_version_and_both_ids() {
        let datagram = [0xc3, 0, 0, 0, 1, 3, 1, 2, 3, 2, 8, 9, 0xff, 0xff];
        assert_eq!(
            Invariants::parse(&datagram),
            Some(Invariants::Long { version: 1, dcid: &[1, 2, 3], scid: &[8, 9] })
        );
    }

    #[test]
    fn ids_of_an_unknown_version_may_be_longer_than_twenty_bytes() {
        let mut datagram = vec![0x80, 0x1a, 0x2a, 0x3a, 0x4a, 255];
        datagram.extend([7; 255]);
        datagram.push(0);
        assert_eq!(
            Invariants::parse(&datagram),
            Some(Invariants::Long { version: 0x1a2a_3a4a, dcid: &[7; 255], scid: &[] })
        );
    }

    #[test]
    fn every_truncation_of_a_header_is_refused() {
        let long = [0xc3, 0, 0, 0, 1, 3, 1, 2, 3, 2, 8, 9];
        for len in 0..long.len() {
            assert_eq!(Invariants::parse(&long[..len]), None, "{len} bytes");
        }
        let short = [0x40; 1 + CID_LEN];
        for len in 0..short.len() {
            assert_eq!(Invariants::parse(&short[..len]), None, "{len} bytes");
        }
        assert!(Invariants::parse(&short).is_some());
    }
}
