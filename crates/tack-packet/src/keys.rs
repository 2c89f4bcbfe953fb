//! Keys of one generation, and how they follow from a traffic secret (RFC 9001 section 5.1).

use ring::{aead, hkdf};

use crate::{CipherSuite, Error, TAG_LEN};

const NONCE_LEN: usize = aead::NONCE_LEN;

/// What protects the payloads of one direction between two key updates.
pub(crate) struct GenerationKeys {
    aead: aead::LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// Kept for the derivation of the generation after this one.
    secret: hkdf::Prk,
}

impl GenerationKeys {
    pub(crate) fn new(suite: CipherSuite, secret: hkdf::Prk) -> Result<Self, Error> {
        let key = expand_label(&secret, b"quic key", suite.aead(), |okm| Ok(okm.into()))?;
        let iv = expand_label(&secret, b"quic iv", Length(NONCE_LEN), |okm| {
            let mut iv = [0; NONCE_LEN];
            okm.fill(&mut iv)?;
            Ok(iv)
        })?;
        Ok(Self { aead: aead::LessSafeKey::new(key), iv, secret })
    }

    /// The keys after the next key update (RFC 9001 section 6.1).
    pub(crate) fn next(&self, suite: CipherSuite) -> Result<Self, Error> {
        Self::new(
            suite,
            expand_label(&self.secret, b"quic ku", suite.hash(), |okm| Ok(okm.into()))?,
        )
    }

    /// Decrypts `ciphertext` in place; its last [`TAG_LEN`] bytes are the tag.
    pub(crate) fn open(
        &self,
        packet_number: u64,
        header: &[u8],
        ciphertext: &mut [u8],
    ) -> Result<(), Error> {
        self.aead
            .open_in_place(self.nonce(packet_number), aead::Aad::from(header), ciphertext)
            .map(drop)
            .map_err(|_| Error::Authentication)
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
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(packet_number.to_be_bytes()) {
            *byte ^= number;
        }
        aead::Nonce::assume_unique_for_key(nonce)
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
