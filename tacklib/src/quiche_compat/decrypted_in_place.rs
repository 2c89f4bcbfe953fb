//! Whether quiche has decrypted a packet, told by the buffer that it came in.
//!
//! What: compares the first bytes of a payload before quiche gets the packet with what it leaves there.
//! Why: reading the counters of all paths for each packet costs more than the layer's own record of it
//! (see `quiche_counters`). quiche (0.30, `decrypt_pkt`) decrypts in the caller's buffer. What it drops
//! before that stays as it was, and what does not authenticate BoringSSL overwrites with zeros, with
//! which no packet of data begins. Anything else is plaintext; in doubt the counters are asked, and so
//! they are of numbers that may be duplicates, and of packets from another address than the last one, which
//! quiche decrypts before it drops them.
//! Upstream: no hook. To delete: with `quiche_counters`.

use tack_packet::TAG_LEN;

/// Bytes that are compared: that two differ by chance in none of them happens once in 2^64 packets, and
/// costs a look at the counters.
const COMPARED: usize = 8;

/// The first bytes of a payload, before quiche gets the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedStart(Option<[u8; COMPARED]>);

impl SealedStart {
    /// Those of the payload at `at`, if it has as many: the tag behind it is not wiped.
    #[inline]
    pub fn of(packet: &[u8], at: usize) -> Self {
        let end = packet.len().saturating_sub(TAG_LEN);
        Self(packet.get(at..end).and_then(<[u8]>::first_chunk).copied())
    }

    /// Whether what is there now is certainly plaintext, if quiche returned no error.
    #[inline]
    pub fn was_decrypted(self, packet: &[u8], at: usize) -> bool {
        let now = Self::of(packet, at);
        now.0.is_some() && now != self && now.0 != Some([0; COMPARED])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unchanged_or_wiped_was_not_decrypted() {
        let packet = [7; 34];
        let sealed = SealedStart::of(&packet, 10);
        assert!(!sealed.was_decrypted(&packet, 10));
        assert!(!sealed.was_decrypted(&[0; 34], 10));
        assert!(sealed.was_decrypted(&[8; 34], 10));
    }

    #[test]
    fn of_a_payload_that_is_too_short_nothing_is_certain() {
        // Four bytes and a tag, wiped as BoringSSL does it.
        let sealed = SealedStart::of(&[7; 30], 10);
        let wiped = [[7; 10].as_slice(), &[0; 4], &[7; 16]].concat();
        assert!(!sealed.was_decrypted(&wiped, 10));
        assert!(!sealed.was_decrypted(&[8; 30], 10));
    }
}
