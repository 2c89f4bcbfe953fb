//! Stateless resets: telling a peer that its connection is gone (RFC 9000 section 10.3).

use std::time::{Duration, Instant};

use ring::hmac;

/// Derives the reset token of every connection ID from one key.
pub(crate) struct ResetKey(hmac::Key);

/// Length of a reset when what triggered it is long enough: that of a short 1-RTT packet, so
/// that an observer does not see the difference (RFC 9000 section 10.3).
const RESET_LEN: usize = 42;

/// The shortest reset that a peer takes for a QUIC packet (RFC 9000 section 10.3).
const MIN_RESET_LEN: usize = 21;

const TOKEN_LEN: usize = 16;

impl ResetKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    pub(crate) fn token(&self, cid: &[u8]) -> u128 {
        let tag = hmac::sign(&self.0, cid);
        tag.as_ref()
            .iter()
            .take(TOKEN_LEN)
            .fold(0, |token, byte| token << 8 | u128::from(*byte))
    }

    /// The keyed hash of the token that a received packet ends in, if it is a reset; `None` if it is
    /// too short for one.
    pub(crate) fn token_hash_of_packet(&self, packet: &[u8]) -> Option<[u8; 32]> {
        if packet.len() < MIN_RESET_LEN {
            return None;
        }
        packet.last_chunk::<TOKEN_LEN>().map(|token| self.token_hash(token))
    }

    /// The keyed hash of a peer's token.
    pub(crate) fn token_hash(&self, token: &[u8; TOKEN_LEN]) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(hmac::sign(&self.0, token).as_ref());
        hash
    }

    /// A reset for a packet of `triggering_len` bytes sent to `cid`.
    ///
    /// It is always shorter than what triggered it, so resets that trigger resets end soon (RFC 9000
    /// section 10.3.3).
    pub(crate) fn packet(
        &self,
        cid: &[u8],
        triggering_len: usize,
        unpredictable: &UnpredictableBits,
    ) -> Option<Vec<u8>> {
        let len = triggering_len.saturating_sub(1).min(RESET_LEN);
        if len < MIN_RESET_LEN {
            return None;
        }
        let mut packet = unpredictable[..len - TOKEN_LEN].to_vec();
        // A short header: the form bit is clear, the fixed bit set.
        packet[0] = 0x40 | packet[0] & 0x3f;
        packet.extend_from_slice(&self.token(cid).to_be_bytes());
        Some(packet)
    }
}

/// Random bytes at the front of a reset (RFC 9000 section 10.3).
pub(crate) type UnpredictableBits = [u8; RESET_LEN - TOKEN_LEN];

/// Bounds the resets that a flood of packets for unknown connections triggers.
pub(crate) struct ResetLimit {
    second: Instant,
    sent: u32,
    per_second: u32,
}

/// Resets of a server, all of its workers together.
const RESETS_PER_SECOND: u32 = 200;

impl ResetLimit {
    /// The share of one of as many workers.
    pub(crate) fn new(now: Instant, workers: usize) -> Self {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        Self { second: now, sent: 0, per_second: (RESETS_PER_SECOND / workers).max(1) }
    }

    /// Whether one more reset may be sent now.
    pub(crate) fn permit(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.second) >= Duration::from_secs(1) {
            (self.second, self.sent) = (now, 0);
        }
        self.sent += 1;
        self.sent <= self.per_second
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to start from")]
mod tests {
    use super::*;

    const CID: &[u8] = &[3; 8];

    #[test]
    fn tokens_depend_on_the_id_and_the_key_alone() {
        let key = ResetKey::new(&[1; 32]);
        assert_eq!(key.token(CID), ResetKey::new(&[1; 32]).token(CID));
        assert_ne!(key.token(CID), key.token(&[4; 8]));
        assert_ne!(key.token(CID), ResetKey::new(&[2; 32]).token(CID));
    }

    #[test]
    fn a_reset_is_shorter_than_what_triggered_it_and_ends_in_the_token() {
        let key = ResetKey::new(&[1; 32]);
        for triggering_len in 0..1500 {
            let packet = key.packet(CID, triggering_len, &[0xff; 26]);
            if triggering_len < MIN_RESET_LEN + 1 {
                assert_eq!(packet, None, "{triggering_len}");
                continue;
            }
            let packet = packet.unwrap();
            assert!(packet.len() < triggering_len && packet.len() <= RESET_LEN);
            assert!(packet.ends_with(&key.token(CID).to_be_bytes()));
            assert_eq!(packet[0] & 0xc0, 0x40, "a short header");
        }
    }

    #[test]
    fn resets_are_limited_per_second() {
        let start = Instant::now();
        for workers in [1, 2, 64] {
            let mut limit = ResetLimit::new(start, workers);
            let sent = (0..10_000).filter(|_| limit.permit(start)).count();
            assert_eq!(sent, RESETS_PER_SECOND as usize / workers);
            assert!(limit.permit(start + Duration::from_secs(1)));
        }
    }
}
