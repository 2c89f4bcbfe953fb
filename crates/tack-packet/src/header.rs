//! The short header and its protection (RFC 9000 section 17.3.1, RFC 9001 section 5.4).

use ring::hkdf;

use crate::{
    CipherSuite, Error, TAG_LEN,
    block_cipher::{BLOCK_LEN, BlockCipher, MASK_LEN},
    decode_packet_number,
    long_header::MAX_CID_LEN,
};

const LONG_HEADER: u8 = 0x80;
pub(crate) const RESERVED: u8 = 0x18;
pub(crate) const KEY_PHASE: u8 = 0x04;
const PN_LEN: u8 = 0x03;
/// The part of the first byte that header protection covers.
const PROTECTED: u8 = RESERVED | KEY_PHASE | PN_LEN;

/// The sample starts where the payload would after a packet number of this length.
const MAX_PN_LEN: usize = 4;

/// RFC 9000 section 17.3.1 with a connection id of 20 bytes, the longest that section 17.2
/// allows.
const MAX_HEADER_LEN: usize = 1 + MAX_CID_LEN + MAX_PN_LEN;

/// The short header of a 1-RTT packet, without its protection.
///
/// Nothing in it is authenticated until the packet has been opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortHeader {
    /// The first byte, unprotected.
    pub first_byte: u8,
    /// The full packet number.
    pub packet_number: u64,
    /// How many bytes of it the packet carries, 1 to 4.
    pub pn_len: usize,
    /// Length of the header in bytes: first byte, connection id and packet number.
    pub header_len: usize,
}

impl ShortHeader {
    /// The key phase bit, which changes with every key update.
    pub fn key_phase(&self) -> bool {
        self.first_byte & KEY_PHASE != 0
    }

    /// The two reserved bits, in place: a value within 0x18.
    pub fn reserved_bits(&self) -> u8 {
        self.first_byte & RESERVED
    }

    /// Where the packet number starts; `None` if the lengths contradict each other.
    fn pn_offset(&self) -> Option<usize> {
        self.header_len.checked_sub(self.pn_len).filter(|&offset| offset > 0)
    }

    /// Whether `plain`, an unprotected header, is the one described here.
    fn describes(&self, plain: &[u8]) -> bool {
        let Some(offset) = self.pn_offset() else { return false };
        plain.len() == self.header_len
            && plain[0] & LONG_HEADER == 0
            && usize::from(plain[0] & PN_LEN) + 1 == self.pn_len
            && self.packet_number.to_be_bytes().ends_with(&plain[offset..])
    }
}

/// The bytes of a short header without its protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainHeader {
    bytes: [u8; MAX_HEADER_LEN],
    len: u8,
}

impl PlainHeader {
    /// Lifts the protection from a copy of the packet's header.
    pub(crate) fn of(packet: &[u8], header: &ShortHeader, mask: Mask) -> Result<Self, Error> {
        let protected = packet.get(..header.header_len).ok_or(Error::HeaderMismatch)?;
        let mut bytes = [0; MAX_HEADER_LEN];
        let plain = bytes.get_mut(..protected.len()).ok_or(Error::HeaderMismatch)?;
        plain.copy_from_slice(protected);
        mask.apply(&mut bytes, header);
        Ok(Self { bytes, len: protected.len() as u8 })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Replaces the bits of the first byte that `mask` names.
    pub(crate) fn set_bits(&mut self, mask: u8, bits: u8) {
        self.bytes[0] = self.bytes[0] & !mask | bits;
    }
}

/// The header-protection key of one direction; it outlives key updates (RFC 9001 section 6).
pub(crate) struct HeaderProtection {
    key: BlockCipher,
}

/// What to exclusive-or a header with, to protect it or to lift the protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask([u8; MASK_LEN]);

impl HeaderProtection {
    pub(crate) fn new(suite: CipherSuite, secret: &hkdf::Prk) -> Result<Self, Error> {
        Ok(Self { key: BlockCipher::new(suite, secret, b"quic hp")? })
    }

    /// Reads a protected header and leaves the packet as it is.
    #[inline]
    pub(crate) fn read(
        &self,
        packet: &[u8],
        dcid_len: usize,
        expected_pn: u64,
    ) -> Result<(ShortHeader, Mask), Error> {
        if dcid_len > MAX_CID_LEN {
            return Err(Error::ConnectionIdLength { actual: dcid_len });
        }
        let pn_offset = 1 + dcid_len;
        let mask = self.mask(packet, pn_offset)?;
        if packet[0] & LONG_HEADER != 0 {
            return Err(Error::LongHeader);
        }
        let first_byte = packet[0] ^ (mask.0[0] & PROTECTED);
        let pn_len = usize::from(first_byte & PN_LEN) + 1;
        let truncated = (four_bytes(&packet[pn_offset..]) ^ four_bytes(&mask.0[1..]))
            >> (8 * (MAX_PN_LEN - pn_len));
        let header = ShortHeader {
            first_byte,
            packet_number: decode_packet_number(expected_pn, truncated, pn_len),
            pn_len,
            header_len: pn_offset + pn_len,
        };
        Ok((header, mask))
    }

    /// Protects the header of a sealed packet.
    pub(crate) fn protect(&self, packet: &mut [u8], header: &ShortHeader) -> Result<(), Error> {
        let pn_offset = header.pn_offset().ok_or(Error::HeaderMismatch)?;
        self.mask(packet, pn_offset)?.apply(packet, header);
        Ok(())
    }

    /// The mask that the sample gives. `pn_offset` lies in the packet, or is that of one of the
    /// longest connection ids.
    #[inline]
    fn mask(&self, packet: &[u8], pn_offset: usize) -> Result<Mask, Error> {
        let start = pn_offset + MAX_PN_LEN;
        let sample = packet
            .get(start..)
            .and_then(<[u8]>::first_chunk)
            .ok_or(Error::TooShort { needed: start + BLOCK_LEN, actual: packet.len() })?;
        Ok(Mask(self.key.mask(*sample)?))
    }
}

impl Mask {
    /// Puts protection on the header at the front of `packet`, or lifts it.
    ///
    /// `packet` has four bytes at least from the packet number on, as every one has from which a
    /// mask can be made.
    #[inline]
    pub(crate) fn apply(self, packet: &mut [u8], header: &ShortHeader) {
        let number = packet
            .get_mut(header.header_len - header.pn_len..)
            .and_then(<[u8]>::first_chunk_mut);
        debug_assert!(number.is_some(), "no mask without a sample");
        if let Some(number) = number {
            let behind_it = 8 * (MAX_PN_LEN - header.pn_len);
            let mask = four_bytes(&self.0[1..]) & u32::MAX << behind_it;
            *number = (u32::from_be_bytes(*number) ^ mask).to_be_bytes();
            packet[0] ^= self.0[0] & PROTECTED;
        }
    }
}

/// The number that the first four bytes make; zero if there are not as many.
fn four_bytes(bytes: &[u8]) -> u32 {
    bytes.first_chunk().copied().map_or(0, u32::from_be_bytes)
}

/// Checks what is to be sealed and returns the length of the whole packet.
pub(crate) fn check_plain(
    packet: &[u8],
    header: &ShortHeader,
    payload_len: usize,
) -> Result<usize, Error> {
    let needed = header.header_len.saturating_add(payload_len).saturating_add(TAG_LEN);
    if packet.len() < needed {
        return Err(Error::BufferTooSmall { needed, actual: packet.len() });
    }
    if !header.describes(&packet[..header.header_len]) {
        return Err(Error::HeaderMismatch);
    }
    check_payload_len(header, payload_len)?;
    Ok(needed)
}

/// RFC 9001 section 5.4.2: packet number and payload together have at least four bytes.
pub(crate) fn check_payload_len(header: &ShortHeader, payload_len: usize) -> Result<(), Error> {
    let actual = header.header_len.saturating_add(payload_len).saturating_add(TAG_LEN);
    match MAX_PN_LEN.saturating_sub(header.pn_len.saturating_add(payload_len)) {
        0 => Ok(()),
        short_by => Err(Error::TooShort { needed: actual + short_by, actual }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HeaderProtection {
        pub(crate) fn mask_bytes(&self, sample: &[u8]) -> [u8; 5] {
            self.key.mask(sample.try_into().unwrap()).unwrap()
        }
    }

    #[test]
    fn the_first_byte_holds_key_phase_and_reserved_bits() {
        let header =
            ShortHeader { first_byte: 0x40, packet_number: 0, pn_len: 1, header_len: 2 };
        assert!(!header.key_phase());
        assert_eq!(header.reserved_bits(), 0);
        let header = ShortHeader { first_byte: 0x5d, ..header };
        assert!(header.key_phase());
        assert_eq!(header.reserved_bits(), 0x18);
    }
}
