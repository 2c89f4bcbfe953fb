//! The bare cipher of a suite: one block for a header's mask, or for the first bytes of a payload.
//!
//! Three of these are needed for each packet that only passes, and nothing else of cryptography. ring
//! makes header masks and nothing else, and takes twice the instructions for one block; so AES comes
//! from the `aes` crate, which uses the processor's instructions where it has them and runs in constant
//! time where it has not. ChaCha20 stays ring's.
//!
//! Of that crate x86 takes 0.8 and all others take 0.9: Cargo.toml says why.

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
use aes_0_8::{
    self as aes,
    cipher::{BlockEncrypt, KeyInit},
};
#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
use aes_0_9::{
    self as aes,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use ring::{aead::quic, hkdf};
use zeroize::Zeroizing;

use crate::{
    CipherSuite, Error,
    keys::{Length, expand_label},
};

/// Bytes of a block of AES, and of a sample of ciphertext (RFC 9001 section 5.4.2).
pub(crate) const BLOCK_LEN: usize = 16;

/// Bytes of a header's mask, all that ring gives of a block of ChaCha20.
pub(crate) const MASK_LEN: usize = 5;

/// A key of the suite's cipher. The round keys of AES are wiped when it is dropped.
pub(crate) enum BlockCipher {
    Aes128(Box<aes::Aes128Enc>),
    Aes256(Box<aes::Aes256Enc>),
    ChaCha20(Box<quic::HeaderProtectionKey>),
}

/// The first bytes of a block, as many as the cipher gives.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) bytes: [u8; BLOCK_LEN],
    pub(crate) known: usize,
}

impl BlockCipher {
    /// The key that HKDF-Expand-Label makes of `secret` under `label` (RFC 9001 section 5.1).
    pub(crate) fn new(
        suite: CipherSuite,
        secret: &hkdf::Prk,
        label: &[u8],
    ) -> Result<Self, Error> {
        Ok(match suite {
            CipherSuite::Aes128GcmSha256 => {
                let key = expand::<16>(secret, label)?;
                Self::Aes128(Box::new(aes::Aes128Enc::new((&*key).into())))
            }
            CipherSuite::Aes256GcmSha384 => {
                let key = expand::<32>(secret, label)?;
                Self::Aes256(Box::new(aes::Aes256Enc::new((&*key).into())))
            }
            CipherSuite::ChaCha20Poly1305Sha256 => {
                let key = expand_label(secret, label, &quic::CHACHA20, |okm| Ok(okm.into()))?;
                Self::ChaCha20(Box::new(key))
            }
        })
    }

    /// AES of `input`, or the start of the ChaCha20 block whose counter and nonce `input` is.
    #[inline]
    pub(crate) fn encrypt(&self, input: [u8; BLOCK_LEN]) -> Result<Block, Error> {
        let mut block = aes::Block::from(input);
        match self {
            Self::Aes128(cipher) => cipher.encrypt_block(&mut block),
            Self::Aes256(cipher) => cipher.encrypt_block(&mut block),
            Self::ChaCha20(key) => {
                let mut bytes = [0; BLOCK_LEN];
                bytes[..MASK_LEN].copy_from_slice(&key.new_mask(&input)?);
                return Ok(Block { bytes, known: MASK_LEN });
            }
        }
        Ok(Block { bytes: block.into(), known: BLOCK_LEN })
    }

    /// The mask of a header for the sample of its packet (RFC 9001 section 5.4.1).
    #[inline]
    pub(crate) fn mask(&self, sample: [u8; BLOCK_LEN]) -> Result<[u8; MASK_LEN], Error> {
        let block = self.encrypt(sample)?;
        let mut mask = [0; MASK_LEN];
        mask.copy_from_slice(&block.bytes[..MASK_LEN]);
        Ok(mask)
    }
}

fn expand<const N: usize>(
    secret: &hkdf::Prk,
    label: &[u8],
) -> Result<Zeroizing<[u8; N]>, Error> {
    let mut key = Zeroizing::new([0; N]);
    expand_label(secret, label, Length(N), |okm| Ok(okm.fill(&mut key[..])?))?;
    Ok(key)
}
