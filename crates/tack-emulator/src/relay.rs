//! A UDP relay on the loopback interface, with a link inside.
//!
//! Clients send to the relay instead of the server. What the server sends goes forward over the
//! link, what clients send goes in reverse; each client is a flow of its own. The link sees IPv4
//! packets: what the datagrams hold, and 28 bytes of headers.
//!
//! The link says when datagrams arrive, and the relay sends them on then. If its thread gets the
//! processor late, they leave late, but what the link makes of them stays the same: it is asked
//! about every moment in its turn. ECN marks are not carried over.

mod counters;
#[cfg(test)]
mod tests;
mod wait;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tack_link::Direction;
use tack_link::compose::BoxedLink;

pub use self::counters::{LATE, LaneCounters, RelayReport};
use self::worker::Worker;

/// Sees every datagram as the endpoint sent it, before the link queues or loses it.
pub trait Observer: Send {
    /// Called on the relay's thread: whatever time it takes, datagrams wait for.
    fn datagram(&mut self, direction: Direction, bytes: &[u8]);
}

/// Observes nothing.
impl Observer for () {
    fn datagram(&mut self, _: Direction, _: &[u8]) {}
}

/// A running relay. Dropping it stops it.
pub struct Relay<O = ()> {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// `None` once joined.
    thread: Option<JoinHandle<io::Result<RelayReport<O>>>>,
}

impl Relay {
    /// Starts a relay on a free port of 127.0.0.1, in front of `server`, which must be an
    /// address of this machine.
    ///
    /// Fails if the system refuses a socket or a thread.
    pub fn start(server: SocketAddr, link: BoxedLink) -> io::Result<Self> {
        Self::start_observed(server, link, ())
    }
}

impl<O> Relay<O> {
    /// Starts a relay that shows every datagram to `observer`.
    ///
    /// Fails as [`start`](Relay::start) does.
    pub fn start_observed(server: SocketAddr, link: BoxedLink, observer: O) -> io::Result<Self>
    where
        O: Observer + 'static,
    {
        let worker = Worker::new(server, link, observer)?;
        let address = worker.address()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread =
            thread::Builder::new().name("relay".into()).spawn(move || worker.run(&stopped))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where clients send to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the relay. Datagrams still on their way are discarded.
    ///
    /// Fails if a socket failed while the relay ran, which ended it early.
    pub fn stop(mut self) -> io::Result<RelayReport<O>> {
        self.join().unwrap_or_else(|| Err(io::Error::other("the relay was stopped before")))
    }

    fn join(&mut self) -> Option<io::Result<RelayReport<O>>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or_else(|_| {
            Err(io::Error::other("the relay's thread panicked: please report this as a bug"))
        }))
    }
}

impl<O> Drop for Relay<O> {
    fn drop(&mut self) {
        self.join();
    }
}
