//! Keys of Initial and Handshake packets (RFC 9001 sections 5.1 to 5.4).

use ring::aead::{self, quic};
use ring::hkdf;
use tack_packet::{CipherSuite, LongPacket, decode_packet_number};
use tack_tap::Direction;

/// RFC 9001 section 5.2.
const INITIAL_SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c,
    0xad, 0xcc, 0xbb, 0x7f, 0x0a,
];
const IV_LEN: usize = aead::NONCE_LEN;
const SAMPLE_LEN: usize = 16;
/// Bytes from the start of the packet number to the sample (RFC 9001 section 5.4.2).
const SAMPLE_AT: usize = 4;

/// Opens the packets of one direction and one packet-number space.
pub struct HandshakeKeys {
    key: aead::LessSafeKey,
    header: quic::HeaderProtectionKey,
    iv: [u8; IV_LEN],
    expected: u64,
}

impl HandshakeKeys {
    /// The keys of Initial packets, which the destination id of the client's first one gives.
    pub fn initial(dcid: &[u8], direction: Direction) -> Option<Self> {
        let label: &[u8] = match direction {
            Direction::ToServer => b"client in",
            Direction::ToClient => b"server in",
        };
        let initial = hkdf::Salt::new(hkdf::HKDF_SHA256, &INITIAL_SALT).extract(dcid);
        let info = info(label, 32);
        let secret = initial.expand(&info.slices(), hkdf::HKDF_SHA256).ok()?.into();
        Self::new(CipherSuite::Aes128GcmSha256, &secret)
    }

    /// The keys of Handshake packets from the secret in a key log, for every suite whose secrets
    /// are as long.
    pub fn handshake(secret: &[u8]) -> Vec<Self> {
        let fitting = CipherSuite::ALL.into_iter();
        fitting
            .filter(|suite| suite.secret_len() == secret.len())
            .filter_map(|suite| {
                Self::new(suite, &hkdf::Prk::new_less_safe(hash(suite), secret))
            })
            .collect()
    }

    fn new(suite: CipherSuite, secret: &hkdf::Prk) -> Option<Self> {
        let (algorithm, header) = match suite {
            CipherSuite::Aes128GcmSha256 => (&aead::AES_128_GCM, &quic::AES_128),
            CipherSuite::Aes256GcmSha384 => (&aead::AES_256_GCM, &quic::AES_256),
            CipherSuite::ChaCha20Poly1305Sha256 => (&aead::CHACHA20_POLY1305, &quic::CHACHA20),
        };
        let key = info(b"quic key", algorithm.key_len());
        let hp = info(b"quic hp", algorithm.key_len());
        let iv_info = info(b"quic iv", IV_LEN);
        let mut iv = [0; IV_LEN];
        secret.expand(&iv_info.slices(), Length(IV_LEN)).ok()?.fill(&mut iv).ok()?;
        Some(Self {
            key: aead::LessSafeKey::new(secret.expand(&key.slices(), algorithm).ok()?.into()),
            header: secret.expand(&hp.slices(), header).ok()?.into(),
            iv,
            expected: 0,
        })
    }

    /// The frames in a packet, if these keys open it.
    pub fn open(&mut self, packet: &LongPacket<'_>) -> Option<Vec<u8>> {
        let at = packet.header.pn_offset;
        let sample_at = at + SAMPLE_AT;
        let sample = packet.bytes.get(sample_at..sample_at + SAMPLE_LEN)?;
        let mask = self.header.new_mask(sample).ok()?;
        let mut bytes = packet.bytes.to_vec();
        bytes[0] ^= mask[0] & 0x0f; // the header is a long one
        let number_len = usize::from(bytes[0] & 0x03) + 1;
        let mut truncated = 0;
        for (byte, mask) in bytes[at..at + number_len].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            truncated = truncated << 8 | u32::from(*byte);
        }
        let number = decode_packet_number(self.expected, truncated, number_len);
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        let (header, payload) = bytes.split_at_mut(at + number_len);
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let opened =
            self.key.open_in_place(nonce, aead::Aad::from(&*header), payload).ok()?.to_vec();
        self.expected = self.expected.max(number + 1);
        Some(opened)
    }
}

#[cfg(test)]
impl HandshakeKeys {
    /// An Initial with these frames, without a source connection id and a token.
    pub fn seal_initial(&self, dcid: &[u8], number: u8, frames: &[u8]) -> Vec<u8> {
        let mut header = vec![0xc0, 0, 0, 0, 1, dcid.len() as u8];
        header.extend_from_slice(dcid);
        header.extend_from_slice(&[0, 0]); // no source id, no token
        let protected = (1 + frames.len() + aead::AES_128_GCM.tag_len()) as u16;
        header.extend_from_slice(&(0x4000 | protected).to_be_bytes());
        let at = header.len();
        header.push(number);
        let mut nonce = self.iv;
        nonce[IV_LEN - 1] ^= number;
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let mut sealed = frames.to_vec();
        self.key
            .seal_in_place_append_tag(nonce, aead::Aad::from(&header[..]), &mut sealed)
            .unwrap();
        let mut packet = [header, sealed].concat();
        let sample = &packet[at + SAMPLE_AT..at + SAMPLE_AT + SAMPLE_LEN];
        let mask = self.header.new_mask(sample).unwrap();
        packet[0] ^= mask[0] & 0x0f;
        packet[at] ^= mask[1];
        packet
    }
}

fn hash(suite: CipherSuite) -> hkdf::Algorithm {
    match suite {
        CipherSuite::Aes128GcmSha256 | CipherSuite::ChaCha20Poly1305Sha256 => hkdf::HKDF_SHA256,
        CipherSuite::Aes256GcmSha384 => hkdf::HKDF_SHA384,
    }
}

/// The HkdfLabel structure of RFC 8446 section 7.1, with an empty context.
struct Info(Vec<u8>);

impl Info {
    fn slices(&self) -> [&[u8]; 1] {
        [&self.0]
    }
}

fn info(label: &[u8], output_len: usize) -> Info {
    const PREFIX: &[u8] = b"tls13 ";
    // Labels and lengths are constants of a few bytes.
    let mut info = (output_len as u16).to_be_bytes().to_vec();
    info.push((PREFIX.len() + label.len()) as u8);
    info.extend_from_slice(PREFIX);
    info.extend_from_slice(label);
    info.push(0);
    Info(info)
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
