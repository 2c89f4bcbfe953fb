//! Which connection is writing which file, and whether that connection is still alive.
//!
//! A client that was killed leaves its connection behind at the server until the idle timeout,
//! and with it the lock on the file that it was sending. When somebody wants to send the same
//! file, the server asks that connection for a sign of life. If there is none, it closes the
//! connection, and the new transfer continues where the old one stopped.
//!
//! Nor does a directory get its last time, or lose what the source does not have, while files of a dead
//! client may still come into it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::Notify;
use super::handshake_gate::HandshakeGate;
use crate::protocol::{Inodes, TransferError, WirePath};
use crate::quic::VERSIONS;

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
    /// The version of the protocol that the client speaks.
    pub(super) version: AtomicUsize,
    /// What has several names here.
    pub(super) inodes: Arc<Inodes>,
    /// What requests that change something wait for.
    pub(super) handshake: HandshakeGate,
    /// It has had a claim.
    has_claimed: AtomicBool,
    /// Others that have been seen to be alive.
    others: Mutex<Vec<Weak<Life>>>,
    notify: Notify,
}

impl Life {
    pub(super) fn new(notify: Notify) -> Arc<Self> {
        Arc::new(Self {
            heard: AtomicUsize::new(0),
            ask: AtomicBool::new(false),
            condemned: AtomicBool::new(false),
            has_all: Arc::default(),
            version: AtomicUsize::new(*VERSIONS.end()),
            inodes: Arc::default(),
            handshake: HandshakeGate::default(),
            has_claimed: AtomicBool::new(false),
            others: Mutex::default(),
            notify,
        })
    }

    fn is_condemned(&self) -> bool {
        self.condemned.load(Ordering::Relaxed)
    }

    /// The version of the protocol that the client speaks.
    pub(super) fn version(&self) -> usize {
        self.version.load(Ordering::Relaxed)
    }

    /// Whether it has written, or wanted to.
    pub(super) fn has_claimed(&self) -> bool {
        self.has_claimed.load(Ordering::Relaxed)
    }
}

/// A connection that is asked for a sign of life: one that holds what somebody else wants, or that has waited for it.
struct LivenessCheck {
    life: Arc<Life>,
    since: Instant,
    /// What was heard of it when it was asked for a sign of life.
    heard: Option<usize>,
}

impl LivenessCheck {
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
            Some(before) if before != heard => !self.life.is_condemned(),
            Some(_) if self.since.elapsed() > IN_FLIGHT + GRACE => {
                self.life.condemned.store(true, Ordering::Relaxed);
                (self.life.notify)();
                false
            }
            _ => false,
        }
    }

    /// Waits until it is certain.
    fn shows_life(&mut self) -> bool {
        while !self.life.is_condemned() {
            if self.is_alive() {
                return true;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        false
    }
}

/// What is being written by connections of this process.
#[derive(Default)]
pub(super) struct Claims {
    /// Files, each by one connection.
    holders: Mutex<HashMap<WirePath, Arc<Life>>>,
    /// Directories below which files are being written, by any number of connections.
    trees: Mutex<Vec<(WirePath, Arc<Life>)>>,
}

/// The right to write one file. Ends when dropped.
pub(super) struct Claim<'a> {
    claims: &'a Claims,
    path: WirePath,
}

/// Files are being written below a directory until this is dropped.
pub(super) struct TreeClaim<'a> {
    claims: &'a Claims,
    base: WirePath,
    life: Arc<Life>,
}

impl Claims {
    /// Claims `path` for the connection of `life`. Waits for a sign of life of a connection
    /// that holds it, and takes over from one that is dead. Whoever has waited has to show life, too: a client that
    /// was killed meanwhile would begin its transfer behind one that came after it.
    pub(super) fn claim(
        &self,
        path: &WirePath,
        life: &Arc<Life>,
    ) -> Result<Claim<'_>, TransferError> {
        life.has_claimed.store(true, Ordering::Relaxed);
        let start = Instant::now();
        let mut rival: Option<LivenessCheck> = None;
        let mut own: Option<LivenessCheck> = None;
        loop {
            let holder = match self.holders().entry(path.clone()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Arc::clone(life));
                    None
                }
                Entry::Occupied(occupied) => Some(Arc::clone(occupied.get())),
            };
            let Some(holder) = holder else {
                let claim = Claim { claims: self, path: path.clone() };
                let is_alive = own.is_none_or(|mut own| own.shows_life());
                return if is_alive { Ok(claim) } else { Err(TransferError::Disconnected) };
            };
            // All that wait are asked at once, and the dead among them end together.
            own.get_or_insert_with(|| LivenessCheck::new(Arc::clone(life))).is_alive();
            if life.is_condemned() {
                return Err(TransferError::Disconnected);
            }
            let known = rival.take().filter(|rival| Arc::ptr_eq(&rival.life, &holder));
            let mut watched = known.unwrap_or_else(|| LivenessCheck::new(holder));
            let mine = Arc::ptr_eq(&watched.life, life);
            if mine || watched.is_alive() || start.elapsed() > PATIENCE {
                return Err(TransferError::Busy);
            }
            rival = Some(watched);
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Notes that the connection of `life` writes files below `base`.
    pub(super) fn claim_tree(&self, base: &WirePath, life: &Arc<Life>) -> TreeClaim<'_> {
        life.has_claimed.store(true, Ordering::Relaxed);
        self.trees().push((base.clone(), Arc::clone(life)));
        TreeClaim { claims: self, base: base.clone(), life: Arc::clone(life) }
    }

    /// Waits until no connection of a dead client writes at one of these paths, below it or above. Those that it
    /// finds dead are closed.
    pub(super) fn wait_for_dead(&self, paths: &[&WirePath], life: &Arc<Life>) {
        // Held while waiting: whoever comes second knows what the first has found out.
        let mut alive = life.others.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        let mut rivals: Vec<LivenessCheck> = Vec::new();
        loop {
            let mut others = self.others_at(paths, life);
            others.retain(|other| {
                !alive.iter().any(|known| known.as_ptr() == Arc::as_ptr(other))
            });
            rivals.retain(|rival| others.iter().any(|other| Arc::ptr_eq(other, &rival.life)));
            for other in others {
                if !rivals.iter().any(|rival| Arc::ptr_eq(&rival.life, &other)) {
                    rivals.push(LivenessCheck::new(other));
                }
            }
            rivals.retain_mut(|rival| {
                let is_alive = rival.is_alive();
                if is_alive {
                    alive.push(Arc::downgrade(&rival.life));
                }
                !is_alive
            });
            if rivals.is_empty() || start.elapsed() > PATIENCE {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Other connections that write at one of these paths, below it or above.
    fn others_at(&self, paths: &[&WirePath], life: &Arc<Life>) -> Vec<Arc<Life>> {
        let (holders, trees) = (self.holders(), self.trees());
        let claims = holders.iter().chain(trees.iter().map(|(base, holder)| (base, holder)));
        let is_others = |claim: &(&WirePath, &Arc<Life>)| {
            !Arc::ptr_eq(claim.1, life) && paths.iter().any(|path| overlap(claim.0, path))
        };
        claims.filter(is_others).map(|(_, holder)| Arc::clone(holder)).collect()
    }

    fn trees(&self) -> MutexGuard<'_, Vec<(WirePath, Arc<Life>)>> {
        // Whole whenever the lock is free, as below.
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Whether one is the other, or lies in it.
fn overlap(a: &WirePath, b: &WirePath) -> bool {
    a == b || a.below(b).is_some() || b.below(a).is_some()
}

impl Drop for TreeClaim<'_> {
    fn drop(&mut self) {
        let mut trees = self.claims.trees();
        let is_this = |(base, life): &(WirePath, Arc<Life>)| {
            *base == self.base && Arc::ptr_eq(life, &self.life)
        };
        if let Some(at) = trees.iter().position(is_this) {
            trees.swap_remove(at);
        }
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
    fn what_others_write_elsewhere_is_not_waited_for() {
        let claims = Claims::default();
        let (mine, other) = (silent(), silent());
        let _mine = claims.claim_tree(&WirePath::root(), &mine);
        let base = WirePath::new("a").unwrap();
        let _other = claims.claim_tree(&base, &other);
        let at = |path: &str| WirePath::new(path).unwrap();
        for (path, is_waited_for) in
            [("a", true), ("a/b/c", true), ("ab", false), ("b", false), ("", true)]
        {
            let path = if path.is_empty() { WirePath::root() } else { at(path) };
            let others = claims.others_at(&[&path], &mine);
            assert_eq!(others.len(), usize::from(is_waited_for), "{path}");
        }
        assert!(
            claims.others_at(&[&at("a")], &other).iter().any(|life| Arc::ptr_eq(life, &mine))
        );
    }

    #[test]
    fn a_dead_client_that_writes_below_a_directory_is_waited_for_and_a_live_one_is_not() {
        let claims = Claims::default();
        let (dead, live, mine) = (silent(), silent(), silent());
        let held = claims.claim_tree(&WirePath::root(), &dead);
        let _live = claims.claim_tree(&WirePath::root(), &live);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| claims.wait_for_dead(&[&path()], &mine));
            while !dead.condemned.load(Ordering::Relaxed) {
                assert!(!waiting.is_finished());
                if live.ask.load(Ordering::Relaxed) {
                    live.heard.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(held);
            waiting.join().unwrap();
        });
        assert!(!live.condemned.load(Ordering::Relaxed));
        // Known to be alive, it is not asked again.
        live.ask.store(false, Ordering::Relaxed);
        claims.wait_for_dead(&[&path()], &mine);
        assert!(!live.ask.load(Ordering::Relaxed));
    }

    #[test]
    fn a_silent_holder_is_condemned_and_its_claim_taken_over() {
        let claims = Claims::default();
        let holder = silent();
        let held = claims.claim(&path(), &holder).unwrap();
        std::thread::scope(|scope| {
            let (alive, dead) = (silent(), silent());
            let [first, second] = [&alive, &dead].map(|life| {
                let (claims, life) = (&claims, Arc::clone(life));
                scope.spawn(move || claims.claim(&path(), &life).map(drop))
            });
            while !holder.is_condemned() {
                alive.heard.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(held);
            while !first.is_finished() {
                alive.heard.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(first.join().unwrap().is_ok());
            let gave_up = second.join().unwrap();
            assert!(matches!(gave_up, Err(TransferError::Disconnected)), "{gave_up:?}");
            assert!(claims.holders().is_empty());
        });
    }
}
