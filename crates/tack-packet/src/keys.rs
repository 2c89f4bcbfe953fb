//! Keys of one generation, and how they follow from a traffic secret (RFC 9001 section 5.1).

use std::fmt;

use std::ops::Deref;

use ring::{aead, hkdf};
use zeroize::{Zeroize, Zeroizing};

use crate::{
    CipherSuite, Error, TAG_LEN,
    block_cipher::{BLOCK_LEN, Block, BlockCipher},
    header::HeaderProtection,
};

const NONCE_LEN: usize = aead::NONCE_LEN;

/// The secret of the suite with the longest hash, SHA-384.
const MAX_SECRET_LEN: usize = 48;

/// The traffic secret of one generation (RFC 8446 section 7.2), wiped when it is dropped.
///
/// ring's keys and pseudo-random keys have no such wipe. So the secret is kept as bytes, and a
/// key of ring's that is made from it lives only as long as a derivation takes.
pub(crate) struct TrafficSecret {
    suite: CipherSuite,
    /// [`CipherSuite::secret_len`] bytes of it are in use.
    bytes: Zeroizing<[u8; MAX_SECRET_LEN]>,
}

impl TrafficSecret {
    pub(crate) fn new(suite: CipherSuite, secret: &[u8]) -> Result<Self, Error> {
        let mut bytes = Zeroizing::new([0; MAX_SECRET_LEN]);
        if secret.len() != suite.secret_len() {
            return Err(Error::SecretLength { suite, actual: secret.len() });
        }
        bytes[..secret.len()].copy_from_slice(secret);
        Ok(Self { suite, bytes })
    }

    pub(crate) fn header_protection(&self) -> Result<HeaderProtection, Error> {
        HeaderProtection::new(self.suite, &self.prk())
    }

    pub(crate) fn keys(&self) -> Result<GenerationKeys, Error> {
        GenerationKeys::new(self.suite, &self.prk())
    }

    /// Turns it into the secret after the next key update (RFC 9001 section 6.1), in place:
    /// nothing is left from which the keys before could be derived.
    pub(crate) fn advance(&mut self) -> Result<(), Error> {
        let prk = self.prk();
        let len = self.suite.secret_len();
        let next = &mut self.bytes[..len];
        let filled = expand_label(&prk, b"quic ku", Length(len), |okm| Ok(okm.fill(next)?));
        if filled.is_err() {
            next.zeroize();
        }
        filled
    }

    fn prk(&self) -> hkdf::Prk {
        hkdf::Prk::new_less_safe(self.suite.hash(), &self.bytes[..self.suite.secret_len()])
    }
}

impl fmt::Debug for TrafficSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrafficSecret").field("suite", &self.suite).finish_non_exhaustive()
    }
}

/// What protects the payloads of one direction between two key updates.
pub(crate) struct GenerationKeys {
    aead: aead::LessSafeKey,
    /// The same key: see [`Self::first_bytes`].
    cipher: BlockCipher,
    suite: CipherSuite,
    iv: Zeroizing<[u8; NONCE_LEN]>,
}

impl GenerationKeys {
    pub(crate) fn new(suite: CipherSuite, secret: &hkdf::Prk) -> Result<Self, Error> {
        let key = expand_label(secret, b"quic key", suite.aead(), |okm| Ok(okm.into()))?;
        let cipher = BlockCipher::new(suite, secret, b"quic key")?;
        let mut iv = Zeroizing::new([0; NONCE_LEN]);
        expand_label(secret, b"quic iv", Length(NONCE_LEN), |okm| Ok(okm.fill(&mut iv[..])?))?;
        Ok(Self { aead: aead::LessSafeKey::new(key), cipher, suite, iv })
    }

    /// Decrypts `ciphertext` in place; its last [`TAG_LEN`] bytes are the tag.
    pub(crate) fn open(
        &self,
        packet_number: u64,
        header: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<(), Error> {
        let nonce = self.nonce(packet_number);
        self.aead
            .open_in_place(nonce, aead::Aad::from(header), ciphertext)
            .map(drop)
            .map_err(|_| Error::Authentication)
    }

    /// Decrypts a packet's ciphertext into `scratch`, which then holds the payload alone, or
    /// nothing if the packet does not authenticate.
    pub(crate) fn open_copy(
        &self,
        packet_number: u64,
        header: &[u8],
        ciphertext: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<(), Error> {
        scratch.clear();
        scratch.extend_from_slice(ciphertext);
        let opened = self.open(packet_number, header, scratch);
        let len = if opened.is_ok() { ciphertext.len() - TAG_LEN } else { 0 };
        scratch.truncate(len);
        opened
    }

    /// Decrypts the first bytes of a payload, and authenticates nothing; `ciphertext` is all of it.
    ///
    /// All suites encrypt by a stream of key bytes. What makes a header's mask of a sample also
    /// makes the first bytes of that stream, of the block that belongs to them: AES of the nonce
    /// and a counter of 2 (NIST SP 800-38D section 7.1), or ChaCha20 at a counter of 1 (RFC 8439
    /// section 2.8), of which RFC 9001 section 5.4.4 takes the counter first.
    #[inline]
    pub(crate) fn first_bytes(
        &self,
        packet_number: u64,
        ciphertext: &[u8],
    ) -> Result<FirstBytes, Error> {
        let nonce = self.nonce_bytes(packet_number);
        let mut input = [0; BLOCK_LEN];
        match self.suite {
            CipherSuite::Aes128GcmSha256 | CipherSuite::Aes256GcmSha384 => {
                input[..NONCE_LEN].copy_from_slice(&nonce);
                input[15] = 2;
            }
            CipherSuite::ChaCha20Poly1305Sha256 => {
                input[0] = 1;
                input[4..].copy_from_slice(&nonce);
            }
        }
        let Block { mut bytes, known } = self.cipher.encrypt(input)?;
        let len = ciphertext.len().min(known);
        if let Some(sealed) = ciphertext.first_chunk::<BLOCK_LEN>() {
            bytes = (u128::from_ne_bytes(bytes) ^ u128::from_ne_bytes(*sealed)).to_ne_bytes();
        } else {
            bytes.iter_mut().zip(ciphertext).for_each(|(byte, sealed)| *byte ^= sealed);
        }
        Ok(FirstBytes { bytes, len: len as u8 })
    }

    /// Encrypts `payload` in place and returns the tag to write behind it.
    pub(crate) fn seal(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<[u8; TAG_LEN], Error> {
        let nonce = self.nonce(packet_number);
        let tag =
            self.aead.seal_in_place_separate_tag(nonce, aead::Aad::from(header), payload)?;
        tag.as_ref().try_into().map_err(|_| Error::Crypto)
    }

    /// RFC 9001 section 5.3: the packet number, left-padded, exclusive-or the IV.
    fn nonce(&self, packet_number: u64) -> aead::Nonce {
        aead::Nonce::assume_unique_for_key(self.nonce_bytes(packet_number))
    }

    fn nonce_bytes(&self, packet_number: u64) -> [u8; NONCE_LEN] {
        let mut nonce = *self.iv;
        if let Some(end) = nonce.last_chunk_mut() {
            *end = (u64::from_be_bytes(*end) ^ packet_number).to_be_bytes();
        }
        nonce
    }
}

/// The first bytes of a payload: 16, or 5 where the suite is of ChaCha20, or the whole of a shorter
/// one. Nothing in them is authenticated.
#[derive(Clone, Copy, Debug)]
pub struct FirstBytes {
    bytes: [u8; BLOCK_LEN],
    len: u8,
}

impl Deref for FirstBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// HKDF-Expand-Label of TLS 1.3 with an empty context (RFC 8446 section 7.1).
pub(crate) fn expand_label<L: hkdf::KeyType, T>(
    secret: &hkdf::Prk,
    label: &[u8],
    length: L,
    make: impl FnOnce(hkdf::Okm<'_, L>) -> Result<T, Error>,
) -> Result<T, Error> {
    const PREFIX: &[u8] = b"tls13 ";

    let output_len = u16::try_from(length.len()).map_err(|_| Error::Crypto)?.to_be_bytes();
    let label_len = [u8::try_from(PREFIX.len() + label.len()).map_err(|_| Error::Crypto)?];
    let no_context: &[u8] = &[0];
    make(secret.expand(&[&output_len, &label_len, PREFIX, label, no_context], length)?)
}

/// An output that is plain bytes rather than a key of ring's.
pub(crate) struct Length(pub(crate) usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_secret_that_has_advanced_nothing_is_left() {
        for suite in CipherSuite::ALL {
            let first = [7; MAX_SECRET_LEN];
            let len = suite.secret_len();
            let mut secret = TrafficSecret::new(suite, &first[..len]).unwrap();
            secret.advance().unwrap();
            assert!(secret.bytes[..len].iter().zip(first).any(|(&new, old)| new != old));
            assert!(secret.bytes[len..].iter().all(|&byte| byte == 0));
            assert!(!secret.bytes.windows(8).any(|window| window == &first[..8]));
        }
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let secret = TrafficSecret::new(CipherSuite::Aes128GcmSha256, &[7; 32]).unwrap();
        assert_eq!(format!("{secret:?}"), "TrafficSecret { suite: Aes128GcmSha256, .. }");
    }
}
