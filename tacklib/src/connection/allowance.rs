//! What a server may send to an address that its client has not proven (RFC 9000 section 8.1).
//!
//! quiche (0.30) keeps to the limit with its packets, but not with the zeros that fill datagrams with
//! an Initial: where packets are lost it has sent more than four times what had come. Here whole
//! datagrams count.

use crate::datagram::Layout;

/// How many bytes may leave for each that has come.
const FACTOR: usize = 3;

/// What may still leave.
#[derive(Debug)]
pub(super) struct Allowance {
    /// `None`: as much as there is.
    left: Option<usize>,
}

impl Allowance {
    /// Nothing yet.
    pub(super) const fn of_stranger() -> Self {
        Self { left: Some(0) }
    }

    /// As much as there is: the address was proven before, or is not the peer's to prove.
    pub(super) const fn unlimited() -> Self {
        Self { left: None }
    }

    /// A datagram has come. A Handshake packet takes what only the owner of the address was sent;
    /// whether it is genuine is for quiche to see, whose own limit stays until it is.
    pub(super) const fn received(&mut self, len: usize, layout: &Layout) {
        if layout.has_handshake {
            self.left = None;
        } else if let Some(left) = &mut self.left {
            *left = left.saturating_add(len.saturating_mul(FACTOR));
        }
    }

    /// The room that is left of `len` bytes.
    pub(super) fn room(&self, len: usize) -> usize {
        self.left.map_or(len, |left| left.min(len))
    }

    /// A datagram leaves.
    pub(super) const fn sent(&mut self, len: usize) {
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
        let mut allowance = Allowance::of_stranger();
        assert_eq!(allowance.room(1350), 0);
        allowance.received(1200, &Layout::default());
        for sent in [1350, 1350] {
            assert_eq!(allowance.room(1350), 1350);
            allowance.sent(sent);
        }
        assert_eq!(allowance.room(1350), 3 * 1200 - 2 * 1350);
        allowance.sent(allowance.room(1350));
        assert_eq!(allowance.room(1350), 0);
        allowance.received(100, &Layout::default());
        assert_eq!(allowance.room(1350), 300);
    }

    #[test]
    fn a_handshake_packet_ends_it_and_nothing_begins_it_again() {
        let mut allowance = Allowance::of_stranger();
        allowance.received(50, &Layout { has_handshake: true, ..Layout::default() });
        allowance.sent(100_000);
        allowance.received(50, &Layout::default());
        assert_eq!(allowance.room(1350), 1350);
        assert_eq!(Allowance::unlimited().room(1350), 1350);
    }
}
