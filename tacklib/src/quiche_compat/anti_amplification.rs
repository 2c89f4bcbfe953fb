//! What a server may send to an address that its client has not proven (RFC 9000 section 8.1).
//!
//! What: counts whole datagrams against three times what has come. Why: quiche (0.30) keeps to the limit
//! with its packets, but not with the zero bytes that fill datagrams with an Initial: where packets are
//! lost it has sent more than four times what had come. Upstream: not reported. To delete: when quiche
//! counts the datagrams that it returns.

/// How many bytes may leave for each that has come.
const FACTOR: usize = 3;

/// What may still leave.
#[derive(Debug)]
pub struct AntiAmplification {
    /// `None`: any amount.
    left: Option<usize>,
}

impl AntiAmplification {
    /// Nothing yet: the address is the client's claim.
    pub const fn of_unproven_address() -> Self {
        Self { left: Some(0) }
    }

    /// Any amount: the address was proven before, or is not the peer's to prove.
    pub const fn unlimited() -> Self {
        Self { left: None }
    }

    /// A datagram has come.
    pub const fn on_received(&mut self, len: usize) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_add(len.saturating_mul(FACTOR));
        }
    }

    /// quiche has accepted a Handshake packet: only the owner of the address was sent what it takes to
    /// write one.
    pub const fn on_proven(&mut self) {
        self.left = None;
    }

    /// The room that is left of `len` bytes.
    pub fn room(&self, len: usize) -> usize {
        self.left.map_or(len, |left| left.min(len))
    }

    /// A datagram leaves.
    pub const fn on_sent(&mut self, len: usize) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_what_has_come_may_leave_and_no_more() {
        let mut limit = AntiAmplification::of_unproven_address();
        assert_eq!(limit.room(1350), 0);
        limit.on_received(1200);
        for sent in [1350, 1350] {
            assert_eq!(limit.room(1350), 1350);
            limit.on_sent(sent);
        }
        assert_eq!(limit.room(1350), 3 * 1200 - 2 * 1350);
        limit.on_sent(limit.room(1350));
        assert_eq!(limit.room(1350), 0);
        limit.on_received(100);
        assert_eq!(limit.room(1350), 300);
    }

    #[test]
    fn a_proven_address_stays_proven() {
        let mut limit = AntiAmplification::of_unproven_address();
        limit.on_received(50);
        limit.on_proven();
        limit.on_sent(100_000);
        limit.on_received(50);
        assert_eq!(limit.room(1350), 1350);
        assert_eq!(AntiAmplification::unlimited().room(1350), 1350);
    }
}
