//! quiche does not look at the reserved bits of Handshake packets (RFC 9000 section 17.2;
//! cloudflare/quiche#2526).

use ring::{aead, hkdf};
use tack_packet::{CipherSuite, TAG_LEN};
use tack_proto::varint::Reader;

use crate::harness::*;

const TYPE: u8 = 0x30;
const INITIAL: u8 = 0x00;
const HANDSHAKE: u8 = 0x20;
const RESERVED: u8 = 0x0c;

#[test]
fn a_handshake_packet_with_reserved_bits_is_accepted() {
    let mut ends = Ends::new(&mut config(), &mut config());
    let mut changed = 0;
    while !ends.server.is_established() {
        let datagrams = sent(&mut ends.client);
        assert!(!datagrams.is_empty());
        for (mut datagram, _) in datagrams {
            let mut at = 0;
            while let Some(packet) = LongPacket::read(&datagram[at..]) {
                let end = at + packet.end;
                if packet.kind == HANDSHAKE {
                    let secret = ends.secrets.secret("CLIENT_HANDSHAKE_TRAFFIC_SECRET");
                    let name = ends.client.as_mut().current_cipher().unwrap().name();
                    let suite = CipherSuite::from_name(name).unwrap();
                    set_reserved_bits(&mut datagram[at..end], packet.pn_at, suite, &secret);
                    changed += 1;
                }
                at = end;
            }
            ends.deliver_to_server(datagram).unwrap();
        }
        for (datagram, _) in sent(&mut ends.server) {
            ends.deliver_to_client(datagram).unwrap();
        }
        if ends.server.local_error().is_some() {
            break;
        }
    }
    assert!(changed > 0);
    assert_needed(ends.server.is_established(), "handshake_reserved_bits.rs");
}

/// Where the parts of an Initial or Handshake packet are.
pub struct LongPacket {
    kind: u8,
    pn_at: usize,
    pub end: usize,
}

impl LongPacket {
    /// The packet at the front of a datagram.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let first = *datagram.first()?;
        let kind = first & TYPE;
        if first & 0x80 == 0 || ![INITIAL, HANDSHAKE].contains(&kind) {
            return None;
        }
        let mut at = 5;
        for _ in 0..2 {
            at += 1 + usize::from(*datagram.get(at)?);
        }
        let varint = |at: &mut usize| {
            let mut reader = Reader::new(datagram.get(*at..)?);
            let value = reader.read_varint().ok()?;
            *at += 1 << (datagram[*at] >> 6);
            usize::try_from(value).ok()
        };
        if kind == INITIAL {
            at += varint(&mut at)?;
        }
        let len = varint(&mut at)?;
        Some(Self { kind, pn_at: at, end: at + len })
    }
}

/// Opens a long-header packet, sets its reserved bits and seals it again (RFC 9001 section 5).
fn set_reserved_bits(packet: &mut [u8], pn_at: usize, suite: CipherSuite, secret: &[u8]) {
    let (hash, algorithm, header) = match suite {
        CipherSuite::Aes128GcmSha256 => {
            (hkdf::HKDF_SHA256, &aead::AES_128_GCM, &aead::quic::AES_128)
        }
        CipherSuite::Aes256GcmSha384 => {
            (hkdf::HKDF_SHA384, &aead::AES_256_GCM, &aead::quic::AES_256)
        }
        CipherSuite::ChaCha20Poly1305Sha256 => {
            (hkdf::HKDF_SHA256, &aead::CHACHA20_POLY1305, &aead::quic::CHACHA20)
        }
    };
    let secret = hkdf::Prk::new_less_safe(hash, secret);
    let expand = |label: &str, len: usize| expand_label(&secret, label, len);
    let header_key =
        aead::quic::HeaderProtectionKey::new(header, &expand("quic hp", header.key_len()))
            .unwrap();
    let key =
        aead::UnboundKey::new(algorithm, &expand("quic key", algorithm.key_len())).unwrap();
    let (key, iv) = (aead::LessSafeKey::new(key), expand("quic iv", aead::NONCE_LEN));

    let protect = |packet: &mut [u8], pn_len: Option<usize>| {
        let sample = &packet[pn_at + 4..pn_at + 4 + header.sample_len()];
        let mask = header_key.new_mask(sample).unwrap();
        packet[0] ^= mask[0] & 0x0f;
        let pn_len = pn_len.unwrap_or(usize::from(packet[0] & 0x03) + 1);
        for (byte, mask) in packet[pn_at..pn_at + pn_len].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
        pn_len
    };
    let pn_len = protect(packet, None);
    let mut nonce: [u8; aead::NONCE_LEN] = iv.try_into().unwrap();
    let number = &packet[pn_at..pn_at + pn_len];
    for (byte, number) in nonce[aead::NONCE_LEN - pn_len..].iter_mut().zip(number) {
        *byte ^= number;
    }
    let nonce = || aead::Nonce::assume_unique_for_key(nonce);
    let (plain, sealed) = packet.split_at_mut(pn_at + pn_len);
    key.open_in_place(nonce(), aead::Aad::from(&plain), sealed).unwrap();
    plain[0] |= RESERVED;
    let len = sealed.len() - TAG_LEN;
    let (payload, tag) = sealed.split_at_mut(len);
    let new =
        key.seal_in_place_separate_tag(nonce(), aead::Aad::from(&plain), payload).unwrap();
    tag.copy_from_slice(new.as_ref());
    protect(packet, Some(pn_len));
}

/// HKDF-Expand-Label (RFC 8446 section 7.1).
fn expand_label(secret: &hkdf::Prk, label: &str, len: usize) -> Vec<u8> {
    struct Len(usize);
    impl hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let label = format!("tls13 {label}");
    let lengths = ((len as u16).to_be_bytes(), [label.len() as u8]);
    let info: [&[u8]; 4] = [&lengths.0, &lengths.1, label.as_bytes(), &[0]];
    let mut out = vec![0; len];
    secret.expand(&info, Len(len)).unwrap().fill(&mut out).unwrap();
    out
}
