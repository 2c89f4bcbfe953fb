//! Endpoints that share a UDP port, one for each thread, and what they share besides.
//!
//! The kernel spreads datagrams over the sockets by the addresses that they come from and go to
//! (`SO_REUSEPORT`). So a connection stays with the worker that its first datagram came to, until the
//! client's address changes: then its datagrams come to another worker, most likely, which reads from the
//! connection ID whose they are and hands them over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use ring::rand::{SecureRandom, SystemRandom};

use crate::Error;
use crate::cid_generator::WorkerIndex;
use crate::inbox::{Forwarded, Inbox, Put};

/// The most workers that can share a port.
pub const MAX_WORKERS: usize = 64;

/// Bytes that wait for a worker at most after others have handed them over.
const INBOX: usize = 1 << 20;

/// What all workers of a port have in common.
struct Workers {
    keys: SharedKeys,
    posts: Vec<Post>,
    /// Connections of all of them.
    connections: AtomicUsize,
}

/// Keys that a client's next packet needs at whichever worker it comes to.
#[derive(Clone)]
pub(crate) struct SharedKeys {
    pub(crate) retry: [u8; 32],
    /// Of stateless resets, unless one is configured.
    pub(crate) reset: [u8; 32],
    /// Hides the index of a worker in its connection IDs.
    pub(crate) mask: [u8; 32],
    /// Times in Retry tokens count from here.
    pub(crate) epoch: Instant,
}

/// Where datagrams for one worker are left.
struct Post {
    inbox: Mutex<Inbox>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// One worker's access to all.
#[derive(Clone)]
pub(crate) struct Worker {
    workers: Arc<Workers>,
    index: usize,
}

impl Worker {
    /// All workers of a new port.
    pub(crate) fn all(count: usize, epoch: Instant) -> Result<Vec<Self>, Error> {
        if !(1..=MAX_WORKERS).contains(&count) {
            return Err(Error::Workers(count));
        }
        let random = SystemRandom::new();
        let key = || {
            let mut key = [0; 32];
            random.fill(&mut key).map_err(|_| Error::Random).map(|()| key)
        };
        let keys = SharedKeys { retry: key()?, reset: key()?, mask: key()?, epoch };
        let post =
            |_| Post { inbox: Mutex::new(Inbox::new(count, INBOX)), wake: OnceLock::new() };
        let posts = (0..count).map(post).collect();
        let workers = Arc::new(Workers { keys, posts, connections: AtomicUsize::new(0) });
        Ok((0..count).map(|index| Self { workers: Arc::clone(&workers), index }).collect())
    }

    /// The only one of its port.
    pub(crate) fn alone(epoch: Instant) -> Result<Self, Error> {
        Self::all(1, epoch)?.pop().ok_or(Error::Workers(0))
    }

    pub(crate) fn index(&self) -> WorkerIndex {
        // Fits: there are few.
        WorkerIndex { index: self.index as u8, count: self.workers.posts.len() }
    }

    pub(crate) fn keys(&self) -> &SharedKeys {
        &self.workers.keys
    }

    /// Has `wake` called when something is handed to this worker.
    pub(crate) fn on_forwarded(&self, wake: impl Fn() + Send + Sync + 'static) {
        if let Some(post) = self.workers.posts.get(self.index) {
            // A worker's endpoint is made once.
            let _ = post.wake.set(Box::new(wake));
        }
    }

    /// Hands a datagram to another worker; whether it has room.
    pub(crate) fn forward(&self, to: usize, forwarded: Forwarded) -> bool {
        let Some(post) = self.workers.posts.get(to) else { return false };
        // The lock is free before the other one is woken, which takes it.
        let put = post.lock().put(self.index, forwarded);
        if put == Put::First
            && let Some(wake) = post.wake.get()
        {
            wake();
        }
        put != Put::Full
    }

    /// Takes what others have handed over, up to `limit`; whether there is more.
    pub(crate) fn take(&self, limit: usize, taken: &mut Vec<Forwarded>) -> bool {
        match self.workers.posts.get(self.index) {
            Some(post) if self.workers.posts.len() > 1 => post.lock().take(limit, taken),
            _ => false,
        }
    }

    /// Connections of all workers together.
    pub(crate) fn connections(&self) -> usize {
        self.workers.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn connection_added(&self) {
        self.workers.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connections_removed(&self, count: usize) {
        self.workers.connections.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Post {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // Queues are whole whenever the lock is free, even after a panic elsewhere.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
