//! The connection IDs that an endpoint chooses, and which worker one of them belongs to.
//!
//! An ID of one of several workers has the worker's index in an octet. An observer must not learn it, as it
//! would link the IDs of a connection (RFC 9000 section 9.5), so it is encrypted with the rest where
//! QUIC-LB has a key, and otherwise masked with a keyed hash of the octets behind it, as
//! draft-ietf-quic-load-balancers-21 section 7.2 proposes. A load balancer takes the octet for the first of
//! the nonce, and need not know that there are workers (section 7.1).
//!
//! Sections below are the draft's.

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tack_packet::{MAX_CID_LEN, QuicLb, QuicLbConfig, unroutable_first_octet};

use crate::Error;
use crate::connection_ids::Cid;

/// The length of connection IDs that no load balancer reads, in bytes.
///
/// Each of the peer's packets carries one, so it is short: 64 random bits, as many as RFC 9000
/// section 7.2 asks of a client's first, do not collide among the connections of a socket.
pub(crate) const RANDOM_CID_LEN: usize = 8;

/// Octets of a nonce that are left for the nonce if one has the worker's index (section 5.3).
const MIN_NONCE_LEN: usize = 4;

/// Which of how many workers an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerIndex {
    pub(crate) index: u8,
    pub(crate) count: usize,
}

pub(crate) struct CidGenerator {
    random: SystemRandom,
    format: Format,
    worker: WorkerIndex,
    /// The same for all workers.
    mask: hmac::Key,
}

/// What an ID is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Connection,
    Retry,
}

enum Format {
    Random,
    /// What a load balancer can route; the nonces are counted if there is a key.
    QuicLb(QuicLb, Option<Nonces>),
}

impl CidGenerator {
    pub(crate) fn new(
        quic_lb: Option<&QuicLbConfig>,
        worker: WorkerIndex,
        mask: &[u8; 32],
    ) -> Result<Self, Error> {
        let random = SystemRandom::new();
        let format = match quic_lb {
            None => Format::Random,
            Some(config) => {
                let lb = QuicLb::new(config.clone()).map_err(Error::QuicLb)?;
                let octets = config.nonce_len - usize::from(worker.count > 1);
                if octets < MIN_NONCE_LEN {
                    return Err(Error::WorkerNonce(config.nonce_len));
                }
                let nonces = match config.key {
                    Some(_) => Some(Nonces::new(&random, octets)?),
                    None => None,
                };
                Format::QuicLb(lb, nonces)
            }
        };
        Ok(Self { random, format, worker, mask: hmac::Key::new(hmac::HMAC_SHA256, mask) })
    }

    /// The length of all IDs, in bytes.
    pub(crate) fn cid_len(&self) -> usize {
        match &self.format {
            Format::Random => RANDOM_CID_LEN,
            Format::QuicLb(lb, _) => lb.cid_len(),
        }
    }

    /// Whether IDs say which worker they belong to.
    pub(crate) fn has_workers(&self) -> bool {
        self.worker.count > 1
    }

    /// Whether a connection gets more than the one ID. Without a key they would show that they belong to one
    /// server (section 9); those that cannot be routed are of no use on another path (section 3.2).
    pub(crate) fn has_spare_ids(&self) -> bool {
        match &self.format {
            Format::Random => true,
            Format::QuicLb(_, nonces) => nonces.as_ref().is_some_and(|nonces| nonces.left > 0),
        }
    }

    /// A new ID of a connection, which is unlike all before it.
    pub(crate) fn generate(&mut self) -> Result<Cid, Error> {
        self.generate_for(Purpose::Connection)
    }

    /// A new source ID of a Retry, which sends the client's next Initial to this server and worker.
    ///
    /// It takes no nonce that a connection could have, as anybody gets as many Retries as it asks for.
    pub(crate) fn generate_for_retry(&mut self) -> Result<Cid, Error> {
        self.generate_for(Purpose::Retry)
    }

    fn generate_for(&mut self, purpose: Purpose) -> Result<Cid, Error> {
        let mut bytes = [0; MAX_CID_LEN];
        self.random.fill(&mut bytes).map_err(|_| Error::Random)?;
        let cid_len = self.cid_len();
        let is_exhausted = purpose == Purpose::Connection
            && matches!(&self.format, Format::QuicLb(_, Some(nonces)) if nonces.left == 0);
        if is_exhausted {
            // Section 9.6: a nonce must not be used again.
            bytes[0] = unroutable_first_octet(cid_len);
            self.mask_index(&mut bytes[1..cid_len]);
            return cid(&bytes[..cid_len]);
        }
        if matches!(self.format, Format::Random) {
            self.mask_index(&mut bytes[..cid_len]);
            return cid(&bytes[..cid_len]);
        }
        let is_worker = self.worker.count > 1;
        let Format::QuicLb(lb, nonces) = &mut self.format else { return Err(Error::Random) };
        // One random byte for the first octet.
        let (random, rest) = (bytes[0], &mut bytes[1..]);
        let nonce_len = lb.config().nonce_len;
        let nonce = &mut rest[..nonce_len];
        if let Some(nonces) = nonces {
            nonces.next(purpose, &mut nonce[usize::from(is_worker)..]);
            if is_worker {
                nonce[0] = self.worker.index;
            }
        } else if is_worker {
            nonce[0] = self.worker.index ^ mask_of(&self.mask, &nonce[1..]);
        }
        cid(&lb.encode(nonce, random).ok_or(Error::Random)?)
    }

    /// How many IDs of connections it can still count.
    #[cfg(test)]
    pub(crate) fn nonces_left(&self) -> Option<u64> {
        match &self.format {
            Format::QuicLb(_, Some(nonces)) => Some(nonces.left),
            _ => None,
        }
    }

    /// The worker that issued an ID, if it is another one of this server.
    ///
    /// An ID that a client has made up may pass for one, too: for each other worker, one of 256 does.
    pub(crate) fn other_worker(&self, cid: &[u8]) -> Option<usize> {
        if self.worker.count == 1 || cid.len() != self.cid_len() {
            return None;
        }
        let index = match &self.format {
            Format::Random => self.unmask(cid)?,
            Format::QuicLb(..) if cid[0] == unroutable_first_octet(cid.len()) => {
                self.unmask(&cid[1..])?
            }
            Format::QuicLb(lb, _) => {
                // Section 4.1: what is not this server's is as good as what a client has made up.
                let read = lb.decode(cid).ok()?;
                if read.server_id() != lb.config().server_id {
                    return None;
                }
                match lb.config().key {
                    Some(_) => *read.nonce().first()?,
                    None => self.unmask(read.nonce())?,
                }
            }
        };
        (index != self.worker.index && usize::from(index) < self.worker.count)
            .then_some(index.into())
    }

    /// Puts the masked index into the first octet, if there are several workers.
    fn mask_index(&self, octets: &mut [u8]) {
        if self.worker.count > 1
            && let Some((first, rest)) = octets.split_first_mut()
        {
            *first = self.worker.index ^ mask_of(&self.mask, rest);
        }
    }

    fn unmask(&self, octets: &[u8]) -> Option<u8> {
        octets.split_first().map(|(first, rest)| first ^ mask_of(&self.mask, rest))
    }
}

/// The octet that hides a worker's index.
fn mask_of(key: &hmac::Key, rest: &[u8]) -> u8 {
    hmac::sign(key, rest).as_ref().first().copied().unwrap_or_default()
}

fn cid(bytes: &[u8]) -> Result<Cid, Error> {
    // All lengths are checked where the configuration is.
    Cid::try_from(bytes).map_err(|()| Error::Random)
}

/// Nonces that are counted from a random one, so that none comes twice (section 9.6).
///
/// Their first bit says what an ID is for. Connections never take a nonce of a Retry then, nor run out of theirs because
/// of Retries, whose own come again at last: that links no connections, and no reset token is announced for them.
struct Nonces {
    next: u64,
    /// How many there still are for connections.
    left: u64,
    next_of_retry: u64,
}

/// Set in the first counted octet of a nonce that is for a Retry.
const OF_RETRY: u8 = 0x80;

impl Nonces {
    fn new(random: &SystemRandom, octets: usize) -> Result<Self, Error> {
        let mut starts = [0; 16];
        random.fill(&mut starts).map_err(|_| Error::Random)?;
        let start = u128::from_be_bytes(starts);
        let left = 1 << (8 * octets.min(8) - 1);
        Ok(Self { next: start as u64, left, next_of_retry: (start >> 64) as u64 })
    }

    /// Writes the count to the last octets of `nonce`, eight at most, whose others are random.
    fn next(&mut self, purpose: Purpose, nonce: &mut [u8]) {
        let next = match purpose {
            Purpose::Connection => &mut self.next,
            Purpose::Retry => &mut self.next_of_retry,
        };
        let counted = next.to_be_bytes();
        *next = next.wrapping_add(1);
        let octets = nonce.len().min(counted.len());
        let at = nonce.len() - octets;
        nonce[at..].copy_from_slice(&counted[counted.len() - octets..]);
        match purpose {
            Purpose::Connection => {
                nonce[at] &= !OF_RETRY;
                self.left = self.left.saturating_sub(1);
            }
            Purpose::Retry => nonce[at] |= OF_RETRY,
        }
    }
}

#[cfg(test)]
#[path = "cid_generator_tests.rs"]
mod tests;
