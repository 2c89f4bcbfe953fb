//! Room for path challenges, and when an address counts as proven (RFC 9000 section 8.2).
//!
//! What: keeps 1,200 bytes for quiche in the packet that may carry a PATH_CHALLENGE, and follows which
//! addresses have answered one. Why: the layer shortens packets by the room of its own frames; quiche
//! (0.30) takes a path for half validated if its challenge left in less than 1,200 bytes, and asks again
//! each round trip. It has a challenge to send for each path that is new, when a shorter one has been
//! answered, and when one may have been lost; it does not say so. One that it has given up for lost, and that is
//! answered late, it does not repeat: the layer has it ask again. Upstream: no hook. To delete: when quiche
//! tells that a challenge is due, or pads it itself.

use std::collections::VecDeque;
use std::time::Instant;

/// Local and remote address.
pub type AddressPair = (std::net::SocketAddr, std::net::SocketAddr);

/// How long a datagram with a PATH_CHALLENGE or a PATH_RESPONSE is to be, where the peer's address lets
/// it: what is found out is whether the path can carry that (RFC 9000 section 8.2.1). quiche compares
/// its challenges with the same.
pub const PATH_PROBE_LEN: usize = quiche::MIN_CLIENT_INITIAL_LEN;

/// What quiche may have to find out about paths, as far as it changes what is sent.
#[derive(Debug, Default)]
pub struct PathValidation {
    /// The peer may not have proven yet that it is where data goes to.
    pub is_running: bool,
    /// The next packet may have to carry a challenge.
    pub expects_challenge: bool,
    /// See [`is_without_path`](super::no_usable_path::is_without_path).
    pub has_no_path: bool,
    /// quiche's timer has expired meanwhile: it is told once it was asked for a packet.
    timeout_deferred: bool,
    /// The path of the last datagram is not that of the one before.
    pub has_changed: bool,
    /// The last challenges, and the path whose other end has answered one last.
    challenged: VecDeque<Challenge>,
    proven: Option<AddressPair>,
}

#[derive(Clone, Copy, Debug)]
struct Challenge {
    path: AddressPair,
    packet_number: u64,
    sent: Instant,
    data: [u8; 8],
}

/// Challenges that are remembered.
const MAX_CHALLENGED: usize = 8;

impl PathValidation {
    /// A datagram has come over another path than the one before.
    pub fn on_path_change(&mut self) {
        self.is_running = true;
        self.has_changed = true;
    }

    /// quiche has a challenge to send, most likely.
    pub fn expect_challenge(&mut self) {
        self.expects_challenge = true;
        self.is_running = true;
    }

    /// quiche's timer has expired: a challenge may have been lost.
    pub fn on_timeout(&mut self) {
        self.expects_challenge |= self.is_running;
    }

    /// quiche's timer has expired while quiche had no path.
    pub fn defer_timeout(&mut self) {
        self.timeout_deferred = true;
    }

    /// Whether quiche is still to be told of its timer, now that it was asked for a packet.
    pub fn take_deferred_timeout(&mut self) -> bool {
        std::mem::take(&mut self.timeout_deferred)
    }

    /// quiche has been asked for a packet.
    pub fn on_sent(&mut self) {
        self.expects_challenge = false;
        self.has_no_path = false;
    }

    /// A challenge has left.
    pub fn on_challenge_sent(
        &mut self,
        path: AddressPair,
        packet_number: u64,
        data: [u8; 8],
        sent: Instant,
    ) {
        if self.challenged.len() == MAX_CHALLENGED {
            self.challenged.pop_front();
        }
        self.challenged.push_back(Challenge { path, packet_number, sent, data });
    }

    /// The answer to a challenge has come over a path. Returns whether it was asked there.
    pub fn on_answer(&mut self, path: Option<AddressPair>, data: [u8; 8]) -> bool {
        let is_it =
            |challenge: &Challenge| Some(challenge.path) == path && challenge.data == data;
        let Some(at) = self.challenged.iter().position(is_it) else { return false };
        self.challenged.remove(at);
        self.proven = path;
        true
    }

    /// Takes a challenge whose packet was lost, or that was sent before `unanswered_since` and not answered; its path. A
    /// PATH_RESPONSE is not sent again (RFC 9000 section 13.3), and quiche (0.30) repeats a challenge when its timer
    /// expires: while the peer acknowledges other packets, it does not.
    pub fn take_lost(
        &mut self,
        unanswered_since: Option<Instant>,
        was_delivered: impl Fn(u64) -> Option<bool>,
    ) -> Option<AddressPair> {
        let is_lost = |challenge: &Challenge| {
            was_delivered(challenge.packet_number) == Some(false)
                || unanswered_since.is_some_and(|since| challenge.sent <= since)
        };
        let at = self.challenged.iter().position(is_lost)?;
        self.challenged.remove(at).map(|challenge| challenge.path)
    }

    /// Whether the other end of a path has answered a challenge last.
    pub fn has_proven(&self, path: AddressPair) -> bool {
        self.proven == Some(path)
    }

    /// How much room quiche is to leave of `packet` bytes, where `wanted` would be good: the
    /// challenge goes first.
    pub fn room(&self, wanted: usize, packet: usize) -> usize {
        if self.expects_challenge {
            wanted.min(packet.saturating_sub(PATH_PROBE_LEN))
        } else {
            wanted
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn path(port: u16) -> AddressPair {
        let address = |port| (Ipv4Addr::LOCALHOST, port).into();
        (address(443), address(port))
    }

    fn challenge(validation: &mut PathValidation, port: u16, packet_number: u64, data: u8) {
        let sent = Instant::now();
        validation.on_challenge_sent(path(port), packet_number, [data; 8], sent);
    }

    #[test]
    fn only_the_answer_to_a_challenge_that_was_sent_there_proves_an_address() {
        let mut validation = PathValidation::default();
        challenge(&mut validation, 1, 9, 1);
        assert!(!validation.on_answer(Some(path(1)), [2; 8]));
        assert!(!validation.on_answer(Some(path(2)), [1; 8]));
        assert!(!validation.on_answer(None, [1; 8]));
        assert_eq!(validation.proven, None);
        assert!(validation.on_answer(Some(path(1)), [1; 8]));
        assert!(validation.has_proven(path(1)));
        assert!(!validation.on_answer(Some(path(1)), [1; 8]), "it was answered before");
    }

    #[test]
    fn a_challenge_that_was_lost_is_told_once_and_its_late_answer_counts_no_more() {
        let mut validation = PathValidation::default();
        challenge(&mut validation, 1, 7, 1);
        challenge(&mut validation, 2, 8, 2);
        assert_eq!(validation.take_lost(None, |_| None), None);
        assert_eq!(validation.take_lost(None, |pn| Some(pn == 7)), Some(path(2)));
        assert_eq!(validation.take_lost(None, |pn| Some(pn == 7)), None);
        assert!(!validation.on_answer(Some(path(2)), [2; 8]));
        assert!(validation.on_answer(Some(path(1)), [1; 8]));
    }

    #[test]
    fn a_challenge_that_arrived_and_got_no_answer_in_time_is_told_once() {
        let mut validation = PathValidation::default();
        challenge(&mut validation, 1, 7, 1);
        let now = Instant::now();
        let before = now.checked_sub(std::time::Duration::from_secs(1));
        assert_eq!(validation.take_lost(before, |_| Some(true)), None);
        assert_eq!(validation.take_lost(Some(now), |_| Some(true)), Some(path(1)));
        assert_eq!(validation.take_lost(Some(now), |_| Some(true)), None);
    }

    #[test]
    fn old_challenges_are_forgotten() {
        let mut validation = PathValidation::default();
        for data in 0..100 {
            challenge(&mut validation, 1, data.into(), data);
        }
        assert_eq!(validation.challenged.len(), MAX_CHALLENGED);
        assert!(!validation.on_answer(Some(path(1)), [0; 8]));
        assert!(validation.on_answer(Some(path(1)), [99; 8]));
    }

    #[test]
    fn a_challenge_gets_a_packet_of_full_length_whatever_else_is_due() {
        let mut validation = PathValidation::default();
        assert_eq!(validation.room(210, 1350), 210);
        validation.expect_challenge();
        assert_eq!(validation.room(210, 1350), 150);
        assert_eq!(validation.room(210, 1200), 0);
        validation.on_sent();
        assert_eq!(validation.room(210, 1350), 210);
    }
}
