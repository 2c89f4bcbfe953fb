//! Connection ids from which a load balancer reads the server (draft-ietf-quic-load-balancers-21).
//!
//! A connection id is a first octet, the server's id and a nonce; with a key, the two latter are
//! encrypted. Sections are those of the draft. How many of the nonce's octets a server uses for itself
//! is its own matter: a load balancer does not look at them (section 7.1).

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
use aes_0_8::{
    self as aes,
    cipher::{BlockDecrypt, BlockEncrypt, KeyInit},
};
#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
use aes_0_9::{
    self as aes,
    cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit},
};

use crate::MAX_CID_LEN;

/// The config id of connection ids that no load balancer can route (section 3.2).
const UNROUTABLE: u8 = 0b111;
/// Bits of the first octet behind the config rotation bits (section 3.4).
const LENGTH_BITS: u8 = 0b1_1111;
/// The shortest nonce, in octets (section 5.3).
const MIN_NONCE_LEN: usize = 4;
/// The most octets of server id and nonce together (section 5.3).
const MOST_OCTETS: usize = MAX_CID_LEN - 1;
/// Octets that are encrypted as one block (section 5.4.1).
const BLOCK_LEN: usize = 16;
/// The longest half of what four passes encrypt.
const MAX_HALF_LEN: usize = MAX_CID_LEN / 2;

/// What servers and load balancers agree upon, with the id of one server.
#[derive(Clone, PartialEq, Eq)]
pub struct QuicLbConfig {
    /// The config rotation bits, 0 to 6: which of a load balancer's configurations this is (section 3.1).
    pub config_id: u8,
    /// What the load balancer knows this server by, at least one octet.
    pub server_id: Vec<u8>,
    /// Octets of the nonce, at least 4; together with the server's id 19 at most (section 5.3).
    pub nonce_len: usize,
    /// Encrypts both. Without it, an observer reads the server's id.
    pub key: Option<[u8; 16]>,
    /// Whether the first octet says how long the connection id is (section 3.3).
    pub first_octet_encodes_cid_length: bool,
}

/// Keeps the key out of logs.
impl std::fmt::Debug for QuicLbConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuicLbConfig")
            .field("config_id", &self.config_id)
            .field("server_id", &self.server_id)
            .field("nonce_len", &self.nonce_len)
            .field("has_key", &self.key.is_some())
            .field("first_octet_encodes_cid_length", &self.first_octet_encodes_cid_length)
            .finish()
    }
}

/// Why a configuration of QUIC-LB cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuicLbError {
    /// The config id is no value of three bits, or the reserved one.
    #[error("config id {0}: choose one from 0 to 6 (7 is that of ids which cannot be routed)")]
    ConfigId(u8),
    /// The server's id is empty.
    #[error("the server id is empty: it takes at least one octet")]
    ServerId,
    /// The nonce is too short.
    #[error("a nonce of {0} octets: it takes at least {MIN_NONCE_LEN}")]
    NonceLen(usize),
    /// Both together are too long for a connection id.
    #[error(
        "server id and nonce have {0} octets together: a connection id has room for {MOST_OCTETS}"
    )]
    TooLong(usize),
}

/// Why a connection id names no server (section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// Its config id is another.
    ConfigId,
    /// It is not as long as ids of this configuration, or does not say so.
    Length,
}

/// What is in a connection id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutedCid {
    block: [u8; MAX_CID_LEN],
    server_id_len: usize,
    len: usize,
}

impl RoutedCid {
    /// The id of the server that issued it. Nothing proves that the server exists.
    pub fn server_id(&self) -> &[u8] {
        &self.block[..self.server_id_len]
    }

    /// The nonce.
    pub fn nonce(&self) -> &[u8] {
        &self.block[self.server_id_len..self.len]
    }
}

/// Makes and reads the connection ids of one configuration.
pub struct QuicLb {
    config: QuicLbConfig,
    cipher: Option<Box<aes::Aes128>>,
}

impl QuicLb {
    /// Checks the configuration against the limits of section 5.3.
    pub fn new(config: QuicLbConfig) -> Result<Self, QuicLbError> {
        if config.config_id >= UNROUTABLE {
            return Err(QuicLbError::ConfigId(config.config_id));
        }
        if config.server_id.is_empty() {
            return Err(QuicLbError::ServerId);
        }
        if config.nonce_len < MIN_NONCE_LEN {
            return Err(QuicLbError::NonceLen(config.nonce_len));
        }
        let len = config.server_id.len().saturating_add(config.nonce_len);
        if len > MOST_OCTETS {
            return Err(QuicLbError::TooLong(len));
        }
        let cipher = config.key.map(|key| Box::new(aes::Aes128::new((&key).into())));
        Ok(Self { config, cipher })
    }

    /// The configuration.
    pub fn config(&self) -> &QuicLbConfig {
        &self.config
    }

    /// The length of each connection id, in bytes.
    pub fn cid_len(&self) -> usize {
        1 + self.block_len()
    }

    /// Server id and nonce together.
    fn block_len(&self) -> usize {
        self.config.server_id.len() + self.config.nonce_len
    }

    /// A connection id of this server (section 5.4). A nonce must not be used twice, and without a key be
    /// random (section 9.6). Of the `random` byte the first octet takes what it has no other use for.
    /// `None` if the nonce has another length than configured.
    pub fn encode(&self, nonce: &[u8], random: u8) -> Option<Vec<u8>> {
        if nonce.len() != self.config.nonce_len {
            return None;
        }
        let mut block = [0; MAX_CID_LEN];
        let (server_id, len) = (&self.config.server_id, self.block_len());
        block[..server_id.len()].copy_from_slice(server_id);
        block[server_id.len()..len].copy_from_slice(nonce);
        match &self.cipher {
            None => {}
            Some(cipher) if len == BLOCK_LEN => one_block(&mut block, |block| {
                cipher.encrypt_block(block);
            }),
            Some(cipher) => FourPasses { cipher, len }.encrypt(&mut block),
        }
        let rest = if self.config.first_octet_encodes_cid_length { len as u8 } else { random };
        let first = self.config.config_id << 5 | rest & LENGTH_BITS;
        Some([&[first], &block[..len]].concat())
    }

    /// Reads a connection id (section 5.5). The octets that it may have behind those of this configuration
    /// are the server's own (section 5.4), unless its length says that there are none.
    pub fn decode(&self, cid: &[u8]) -> Result<RoutedCid, Unroutable> {
        let len = self.block_len();
        let (first, rest) = cid.split_first().ok_or(Unroutable::Length)?;
        if first >> 5 != self.config.config_id {
            return Err(Unroutable::ConfigId);
        }
        let is_self_encoded = self.config.first_octet_encodes_cid_length;
        if rest.len() < len || is_self_encoded && usize::from(first & LENGTH_BITS) < len {
            return Err(Unroutable::Length);
        }
        let mut block = [0; MAX_CID_LEN];
        block[..len].copy_from_slice(&rest[..len]);
        match &self.cipher {
            None => {}
            Some(cipher) if len == BLOCK_LEN => one_block(&mut block, |block| {
                cipher.decrypt_block(block);
            }),
            Some(cipher) => FourPasses { cipher, len }.decrypt(&mut block),
        }
        Ok(RoutedCid { block, server_id_len: self.config.server_id.len(), len })
    }
}

/// The first octet of a connection id that no load balancer can route.
///
/// For servers that have no configuration, or none any more (section 3.2). The id has `cid_len` bytes, which the
/// octet must say.
pub fn unroutable_first_octet(cid_len: usize) -> u8 {
    UNROUTABLE << 5 | (cid_len.saturating_sub(1) as u8 & LENGTH_BITS)
}

/// Server id and nonce are one block (section 5.4.1).
fn one_block(bytes: &mut [u8; MAX_CID_LEN], change: impl FnOnce(&mut aes::Block)) {
    let mut block = aes::Block::default();
    block.copy_from_slice(&bytes[..BLOCK_LEN]);
    change(&mut block);
    bytes[..BLOCK_LEN].copy_from_slice(&block);
}

/// A Feistel network of four rounds for all other lengths (section 5.4.2). With an odd number of octets,
/// each half has four bits of the one in the middle.
struct FourPasses<'a> {
    cipher: &'a aes::Aes128,
    /// Octets of server id and nonce.
    len: usize,
}

type Half = [u8; MAX_HALF_LEN];

impl FourPasses<'_> {
    fn encrypt(&self, block: &mut [u8; MAX_CID_LEN]) {
        self.run(block, [1, 2, 3, 4]);
    }

    fn decrypt(&self, block: &mut [u8; MAX_CID_LEN]) {
        self.run(block, [4, 3, 2, 1]);
    }

    /// Passes 1 and 3 change the right half by the left one, 2 and 4 the left half by the right one
    /// (section 5.4.2.3). Each undoes itself.
    fn run(&self, block: &mut [u8; MAX_CID_LEN], passes: [u8; 4]) {
        let half = self.half_len();
        let (mut left, mut right) = ([0; MAX_HALF_LEN], [0; MAX_HALF_LEN]);
        left[..half].copy_from_slice(&block[..half]);
        right[..half].copy_from_slice(&block[self.len - half..self.len]);
        self.clear_last_bits(&mut left);
        self.clear_first_bits(&mut right);
        for pass in passes {
            if pass % 2 == 1 {
                self.mix(pass, &left, &mut right);
                self.clear_first_bits(&mut right);
            } else {
                self.mix(pass, &right, &mut left);
                self.clear_last_bits(&mut left);
            }
        }
        *block = [0; MAX_CID_LEN];
        for at in 0..half {
            // The octet in the middle gets four bits of each.
            block[at] |= left[at];
            block[self.len - half + at] |= right[at];
        }
    }

    fn half_len(&self) -> usize {
        self.len.div_ceil(2)
    }

    /// `expand`, AES-ECB, `truncate` and XOR (section 5.4.2.2).
    fn mix(&self, pass: u8, by: &Half, target: &mut Half) {
        let half = self.half_len();
        let mut block = aes::Block::default();
        block[..half].copy_from_slice(&by[..half]);
        block[14] = self.len as u8;
        block[15] = pass;
        self.cipher.encrypt_block(&mut block);
        for (octet, mask) in target[..half].iter_mut().zip(block) {
            *octet ^= mask;
        }
    }

    fn clear_last_bits(&self, left: &mut Half) {
        if self.len % 2 == 1 {
            left[self.half_len() - 1] &= 0xf0;
        }
    }

    fn clear_first_bits(&self, right: &mut Half) {
        if self.len % 2 == 1 {
            right[0] &= 0x0f;
        }
    }
}

#[cfg(test)]
#[path = "quic_lb_tests.rs"]
mod tests;
