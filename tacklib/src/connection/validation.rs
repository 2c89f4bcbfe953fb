//! Paths that have yet to be validated (RFC 9000 section 8.2).

use std::collections::VecDeque;

use super::{Connection, Path};
use crate::layer::PATH_PROBE_LEN;

/// What quiche may have to find out about paths, as far as it changes what is sent.
///
/// quiche (0.30) has a challenge to send for each path that is new, when one that was shorter than
/// [`PATH_PROBE_LEN`] has been answered, and when one may have been lost.
#[derive(Debug, Default)]
pub(super) struct Validation {
    /// The peer may not have proven yet that it is where data goes to.
    is_running: bool,
    /// The next packet may have to carry a challenge.
    challenges: bool,
    is_stranded: bool,
    /// The path of the datagram that is being looked at is not that of the one before.
    has_changed: bool,
    /// The last challenges, and the path whose other end has answered one last.
    challenged: VecDeque<(Path, [u8; 8])>,
    proven: Option<Path>,
}

/// Challenges that are remembered.
const MAX_CHALLENGED: usize = 8;

impl Validation {
    /// Data goes another way now.
    pub(super) fn begin(&mut self) {
        self.is_running = true;
    }

    /// A datagram has come over another path than the one before.
    pub(super) fn on_path_change(&mut self) {
        self.is_running = true;
        self.has_changed = true;
    }

    /// quiche's timer has expired: a challenge may have been lost.
    pub(super) fn on_timeout(&mut self) {
        self.challenges |= self.is_running;
    }

    /// quiche has been asked for a packet.
    pub(super) fn on_sent(&mut self) {
        self.challenges = false;
        self.is_stranded = false;
    }

    /// A challenge has left.
    pub(super) fn on_challenge_sent(&mut self, path: Path, data: [u8; 8]) {
        if self.challenged.len() == MAX_CHALLENGED {
            self.challenged.pop_front();
        }
        self.challenged.push_back((path, data));
    }

    /// The answer to a challenge has come over a path. Returns whether it was asked there.
    fn on_answer(&mut self, path: Option<Path>, data: [u8; 8]) -> bool {
        let is_it =
            |(asked, expected): &(Path, [u8; 8])| Some(*asked) == path && *expected == data;
        let Some(at) = self.challenged.iter().position(is_it) else { return false };
        self.challenged.remove(at);
        self.proven = path;
        true
    }

    /// How much room quiche is to leave of `packet` bytes, where `wanted` would be good: the
    /// challenge goes first.
    pub(super) fn room(&self, wanted: usize, packet: usize) -> usize {
        if self.challenges { wanted.min(packet.saturating_sub(PATH_PROBE_LEN)) } else { wanted }
    }

    /// Whether the next datagram must not get to quiche before it has been asked for a packet.
    ///
    /// quiche (0.30) goes back to an older path when the validation of the one in use fails, for
    /// which it is enough on a server that a timer expires once. If the peer goes on where it is,
    /// quiche follows it, and has no path that it thinks works until it has sent the challenge: one
    /// more datagram before that, and it closes the connection.
    pub(super) const fn is_stranded(&self) -> bool {
        self.is_stranded
    }
}

impl Connection {
    /// quiche has a challenge to send, most likely: it is to be asked, and to have the room.
    pub(super) fn expect_challenge(&mut self) {
        self.validation.challenges = true;
        self.validation.is_running = true;
        self.passes = self.passes.max(1);
    }

    /// Whether any amount may be sent over a path. If not, quiche knows how much may, and what it
    /// writes must not get longer (RFC 9000 section 8.1).
    pub(super) fn is_proven(&self, path: Path) -> bool {
        !self.inner.is_server()
            || self.route == Some(path) && !self.validation.is_running
            || self.validation.proven == Some(path)
            || self.inner.is_path_validated(path.0, path.1) == Ok(true)
    }

    /// A packet has been accepted, with an `answer` to a challenge.
    pub(super) fn follow_validation(&mut self, answer: Option<[u8; 8]>) {
        let is_answer = answer.is_some_and(|data| self.validation.on_answer(self.path, data));
        if !self.validation.is_running && !is_answer {
            return;
        }
        let is_open = |path: Option<Path>| {
            path.is_some_and(|(local, peer)| {
                self.inner.is_path_validated(local, peer) == Ok(false)
            })
        };
        let is_new = std::mem::take(&mut self.validation.has_changed) || is_answer;
        self.validation.is_running = is_open(self.route);
        // quiche's way to say that it has no path.
        self.validation.is_stranded = self.inner.send_quantum() == 0;
        if is_new && is_open(self.path) || self.validation.is_stranded {
            self.expect_challenge();
        }
        // Each datagram lets more leave, the answer to the challenge all (RFC 9000 section 8.1).
        self.data_pending = true;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn path(port: u16) -> Path {
        let address = |port| (Ipv4Addr::LOCALHOST, port).into();
        (address(443), address(port))
    }

    #[test]
    fn only_the_answer_to_a_challenge_that_was_sent_there_proves_an_address() {
        let mut validation = Validation::default();
        validation.on_challenge_sent(path(1), [1; 8]);
        assert!(!validation.on_answer(Some(path(1)), [2; 8]));
        assert!(!validation.on_answer(Some(path(2)), [1; 8]));
        assert!(!validation.on_answer(None, [1; 8]));
        assert_eq!(validation.proven, None);
        assert!(validation.on_answer(Some(path(1)), [1; 8]));
        assert_eq!(validation.proven, Some(path(1)));
        assert!(!validation.on_answer(Some(path(1)), [1; 8]), "it was answered before");
    }

    #[test]
    fn old_challenges_are_forgotten() {
        let mut validation = Validation::default();
        for data in 0..100 {
            validation.on_challenge_sent(path(1), [data; 8]);
        }
        assert_eq!(validation.challenged.len(), MAX_CHALLENGED);
        assert!(!validation.on_answer(Some(path(1)), [0; 8]));
        assert!(validation.on_answer(Some(path(1)), [99; 8]));
    }

    #[test]
    fn a_challenge_gets_a_packet_of_full_length_whatever_else_is_due() {
        let mut validation = Validation::default();
        assert_eq!(validation.room(210, 1350), 210);
        validation.challenges = true;
        assert_eq!(validation.room(210, 1350), 150);
        assert_eq!(validation.room(210, 1200), 0);
        validation.on_sent();
        assert_eq!(validation.room(210, 1350), 210);
    }
}
