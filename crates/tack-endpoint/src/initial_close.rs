//! Refuses a client without a connection: an Initial packet that carries CONNECTION_CLOSE with
//! INVALID_TOKEN (RFC 9000 section 8.1.2).
//!
//! A client accepts one Retry only. One whose token has expired would wait in vain for the answer
//! to its next Initial until its handshake times out.

use ring::{aead, hkdf};

/// The salt of version 1 (RFC 9001 section 5.2).
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c,
    0xad, 0xcc, 0xbb, 0x7f, 0x0a,
];

/// CONNECTION_CLOSE of QUIC itself, INVALID_TOKEN, no frame type, no reason (RFC 9000 sections
/// 19.19 and 20.1).
const FRAME: [u8; 4] = [0x1c, 0x0b, 0, 0];

/// Long header, fixed bit, Initial, a packet number of one byte (RFC 9000 section 17.2.2).
const FIRST_BYTE: u8 = 0xc0;

const PN_LEN: usize = 1;

/// Where the sample of header protection begins, counted from the packet number (RFC 9001 section
/// 5.4.2).
const SAMPLE_OFFSET: usize = 4;

/// Writes the packet, in version 1. The connection ids are those of the client's Initial, whose
/// destination is the one that the Retry named.
pub(crate) fn invalid_token(client_scid: &[u8], client_dcid: &[u8]) -> Option<Vec<u8>> {
    let initial = hkdf::Salt::new(hkdf::HKDF_SHA256, &SALT).extract(client_dcid);
    let secret = expand::<32>(&initial, b"server in")?;
    let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &secret);
    let key = aead::UnboundKey::new(&aead::AES_128_GCM, &expand::<16>(&secret, b"quic key")?);
    let header_key = aead::quic::HeaderProtectionKey::new(
        &aead::quic::AES_128,
        &expand::<16>(&secret, b"quic hp")?,
    );

    let mut packet = vec![FIRST_BYTE, 0, 0, 0, 1];
    for id in [client_scid, client_dcid] {
        packet.push(u8::try_from(id.len()).ok()?);
        packet.extend_from_slice(id);
    }
    packet.push(0); // no token
    packet.push((PN_LEN + FRAME.len() + aead::AES_128_GCM.tag_len()) as u8);
    let pn_offset = packet.len();
    packet.push(0);

    // The packet number is 0, so the nonce is the IV (RFC 9001 section 5.3).
    let nonce = aead::Nonce::assume_unique_for_key(expand(&secret, b"quic iv")?);
    let mut payload = FRAME;
    let tag = aead::LessSafeKey::new(key.ok()?)
        .seal_in_place_separate_tag(nonce, aead::Aad::from(&packet), &mut payload)
        .ok()?;
    packet.extend_from_slice(&payload);
    packet.extend_from_slice(tag.as_ref());

    let sample = packet.get(pn_offset + SAMPLE_OFFSET..)?.first_chunk::<16>()?;
    let mask = header_key.ok()?.new_mask(sample).ok()?;
    packet[0] ^= mask[0] & 0x0f;
    packet[pn_offset] ^= mask[1];
    Some(packet)
}

/// HKDF-Expand-Label without context (RFC 8446 section 7.1).
fn expand<const LEN: usize>(secret: &hkdf::Prk, label: &[u8]) -> Option<[u8; LEN]> {
    const PREFIX: &[u8] = b"tls13 ";

    let label_len = u8::try_from(PREFIX.len() + label.len()).ok()?;
    let lengths = [(LEN >> 8) as u8, LEN as u8, label_len];
    let info = [&lengths[..], PREFIX, label, &[0]];
    let mut out = [0; LEN];
    secret.expand(&info, OutputLen(LEN)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

struct OutputLen(usize);

impl hkdf::KeyType for OutputLen {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9001 appendix A.1.
    #[test]
    fn the_keys_are_those_of_the_rfc() {
        let dcid = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
        let initial = hkdf::Salt::new(hkdf::HKDF_SHA256, &SALT).extract(&dcid);
        let secret = expand::<32>(&initial, b"server in").unwrap();
        let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &secret);
        let key = 0xcf3a_5331_653c_364c_88f0_f379_b606_7e37_u128.to_be_bytes();
        assert_eq!(expand(&secret, b"quic key"), Some(key));
        let header_key = 0xc206_b8d9_b9f0_f376_4443_0b49_0eea_a314_u128.to_be_bytes();
        assert_eq!(expand(&secret, b"quic hp"), Some(header_key));
    }

    #[test]
    fn the_packet_goes_back_to_the_client_and_is_far_smaller_than_an_initial() {
        let packet = invalid_token(&[7; 20], &[8; 8]).unwrap();
        let header = tack_packet::LongHeader::parse(&packet).unwrap();
        assert_eq!(header.packet_type, tack_packet::LongPacketType::Initial);
        assert_eq!((header.dcid, header.scid), (&[7; 20][..], &[8; 8][..]));
        assert_eq!(header.packet_len(), packet.len());
        assert!(packet.len() < 100);
    }
}
