//! Which connection is writing which file, and whether that connection is still alive.
//!
//! A client that was killed leaves its connection behind at the server until the idle timeout,
//! and with it the lock on the file that it was sending. When somebody wants to send the same
//! file, the server asks that connection for a sign of life. If there is none, it closes the
//! connection, and the new transfer continues where the old one stopped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Notify;
use super::handshake_gate::HandshakeGate;
use crate::protocol::{Inodes, TransferError, WirePath};

/// How long a connection may take to answer before it is considered dead: several round trips
/// of any real path.
const GRACE: Duration = Duration::from_secs(4);
/// How long packets that a dead client had sent may still arrive.
const IN_FLIGHT: Duration = Duration::from_secs(1);
/// How long to wait at most for a name, whatever happens to those who hold it: several dead
/// clients may have queued for it, and the idle timeout ends them all.
const PATIENCE: Duration = Duration::from_secs(45);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What the driving thread and the workers of one connection tell each other.
pub(super) struct Life {
    /// Packets heard from the peer.
    pub(super) heard: AtomicUsize,
    /// Somebody wants a sign of life.
    pub(super) ask: AtomicBool,
    /// There was none: the connection is to be closed.
    pub(super) condemned: AtomicBool,
    /// The client has ended the connection with everything that it wanted.
    pub(super) has_all: Arc<AtomicBool>,
    /// What has several names here.
    pub(super) inodes: Arc<Inodes>,
    /// What requests that change something wait for.
    pub(super) handshake: HandshakeGate,
    notify: Notify,
}

impl Life {
    pub(super) fn new(notify: Notify) -> Arc<Self> {
        Arc::new(Self {
            heard: AtomicUsize::new(0),
            ask: AtomicBool::new(false),
            condemned: AtomicBool::new(false),
            has_all: Arc::default(),
            inodes: Arc::default(),
            handshake: HandshakeGate::default(),
            notify,
        })
    }
}

/// A connection that holds what somebody else wants.
struct Rival {
    life: Arc<Life>,
    since: Instant,
    /// What was heard of it when it was asked for a sign of life.
    heard: Option<usize>,
}

impl Rival {
    fn new(life: Arc<Life>) -> Self {
        Self { life, since: Instant::now(), heard: None }
    }

    /// Has it answered? Asks it first; condemns it if it has not answered in time.
    fn is_alive(&mut self) -> bool {
        let heard = self.life.heard.load(Ordering::Relaxed);
        match self.heard {
            None if self.since.elapsed() > IN_FLIGHT => {
                self.heard = Some(heard);
                self.life.ask.store(true, Ordering::Relaxed);
                (self.life.notify)();
                false
            }
            Some(before) if before != heard => !self.life.condemned.load(Ordering::Relaxed),
            Some(_) if self.since.elapsed() > IN_FLIGHT + GRACE => {
                self.life.condemned.store(true, Ordering::Relaxed);
                (self.life.notify)();
                false
            }
            _ => false,
        }
    }
}

/// The files that are being written by connections of this process.
#[derive(Default)]
pub(super) struct Claims {
    holders: Mutex<HashMap<WirePath, Arc<Life>>>,
}

/// The right to write one file. Ends when dropped.
pub(super) struct Claim<'a> {
    claims: &'a Claims,
    path: WirePath,
}

impl Claims {
    /// Claims `path` for the connection of `life`. Waits for a sign of life of a connection
    /// that holds it, and takes over from one that is dead.
    pub(super) fn claim(
        &self,
        path: &WirePath,
        life: &Arc<Life>,
    ) -> Result<Claim<'_>, TransferError> {
        let start = Instant::now();
        let mut rival: Option<Rival> = None;
        loop {
            let holder = match self.holders().entry(path.clone()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Arc::clone(life));
                    return Ok(Claim { claims: self, path: path.clone() });
                }
                Entry::Occupied(occupied) => Arc::clone(occupied.get()),
            };
            let known = rival.take().filter(|rival| Arc::ptr_eq(&rival.life, &holder));
            let mut watched = known.unwrap_or_else(|| Rival::new(holder));
            let mine = Arc::ptr_eq(&watched.life, life);
            if mine || watched.is_alive() || start.elapsed() > PATIENCE {
                return Err(TransferError::Busy);
            }
            rival = Some(watched);
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn holders(&self) -> MutexGuard<'_, HashMap<WirePath, Arc<Life>>> {
        // A map is whole whenever the lock is free, even after a panic elsewhere.
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.holders().remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent() -> Arc<Life> {
        Life::new(Arc::new(|| {}))
    }

    fn path() -> WirePath {
        WirePath::new("file").unwrap()
    }

    #[test]
    fn a_claim_ends_when_it_is_dropped() {
        let claims = Claims::default();
        drop(claims.claim(&path(), &silent()).unwrap());
        assert!(claims.claim(&path(), &silent()).is_ok());
    }

    #[test]
    fn a_holder_that_shows_life_keeps_its_claim() {
        let claims = Claims::default();
        let holder = silent();
        let _held = claims.claim(&path(), &holder).unwrap();
        std::thread::scope(|scope| {
            let rival = scope.spawn(|| claims.claim(&path(), &silent()).map(drop));
            while !holder.ask.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            holder.heard.fetch_add(1, Ordering::Relaxed);
            assert!(matches!(rival.join().unwrap(), Err(TransferError::Busy)));
        });
        assert!(!holder.condemned.load(Ordering::Relaxed));
    }

    #[test]
    fn a_silent_holder_is_condemned_and_its_claim_taken_over() {
        let claims = Claims::default();
        let holder = silent();
        let held = claims.claim(&path(), &holder).unwrap();
        std::thread::scope(|scope| {
            let rival = scope.spawn(|| claims.claim(&path(), &silent()).map(drop));
            while !holder.condemned.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(held);
            assert!(rival.join().unwrap().is_ok());
        });
    }
}
