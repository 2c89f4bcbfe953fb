//! Paths that have yet to be validated (RFC 9000 section 8.2).

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
}

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
    /// quiche has a challenge to send on a path that the application has chosen.
    pub(super) fn expect_challenge(&mut self) {
        self.validation.challenges = true;
        self.validation.is_running = true;
        self.passes = self.passes.max(1);
    }

    /// Whether any amount may be sent over a path.
    pub(super) fn is_proven(&self, path: Path) -> bool {
        !self.inner.is_server()
            || self.route == Some(path) && !self.validation.is_running
            || self.inner.is_path_validated(path.0, path.1) == Ok(true)
    }

    /// A packet has been accepted; `is_answer` if it answers a challenge.
    pub(super) fn follow_validation(&mut self, is_answer: bool) {
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
