//! Holds requests back that came as early data and would change something.
//!
//! Whoever has seen early data can send it again and will be taken for the client until the handshake goes on
//! (RFC 9001 section 9.2). Reading twice does no harm, so that is done at once; anything else waits until the
//! client has shown that it is there now.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Shut until the handshake of a connection is complete, or the connection is over.
#[derive(Default)]
pub(super) struct HandshakeGate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waiting,
    Complete,
    Over,
}

impl HandshakeGate {
    /// The handshake is complete.
    pub(super) fn open(&self) {
        self.set(State::Complete);
    }

    /// The connection is over.
    pub(super) fn close(&self) {
        self.set(State::Over);
    }

    /// Waits for the end of the handshake. False if the connection has ended instead.
    pub(super) fn pass(&self) -> bool {
        let mut state = self.state();
        while *state == State::Waiting {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state == State::Complete
    }

    fn set(&self, next: State) {
        let mut state = self.state();
        if *state == State::Waiting {
            *state = next;
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// What whoever waits at a gate is told, and whether that was before `then`.
    fn pass(then: impl FnOnce(&HandshakeGate)) -> (bool, bool) {
        let gate = HandshakeGate::default();
        let (passed, is_passed) = mpsc::channel();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let may = gate.pass();
                // The receiver lives as long as the scope.
                let _ = passed.send(());
                may
            });
            let was_early = is_passed.recv_timeout(Duration::from_millis(50)).is_ok();
            then(&gate);
            (waiting.join().unwrap(), was_early)
        })
    }

    #[test]
    fn who_waits_passes_when_the_handshake_is_complete() {
        assert_eq!(pass(HandshakeGate::open), (true, false));
    }

    #[test]
    fn who_waits_is_sent_away_when_the_connection_ends() {
        assert_eq!(pass(HandshakeGate::close), (false, false));
    }

    #[test]
    fn an_open_gate_stays_open() {
        let gate = HandshakeGate::default();
        gate.open();
        gate.close();
        assert!(gate.pass() && gate.pass());
    }
}
