//! A UDP relay on the loopback interface, with a link inside.
//!
//! Clients send to the relay instead of the server. What the server sends goes forward over the
//! link, what clients send goes in reverse; each client is a flow of its own. The link sees IP
//! packets: what the datagrams hold, and 28 bytes of headers, or 48 with IPv6. Several servers may
//! share the link.
//!
//! The link says when datagrams arrive, and the relay sends them on then. If its thread gets the
//! processor late, they leave late, but what the link makes of them stays the same: it is asked
//! about every moment in its turn. Its time begins with the first datagram of a client. The
//! ECN field is carried over, with the marks that the link sets.
//!
//! The relay may also be a NAT, right before the server, that loses its bindings: at the times of
//! [`Setup::rebindings`] all clients get another port or address there, and what the server still
//! sends to an old one is lost.

mod client;
#[cfg(test)]
mod conditions_tests;
mod counters;
mod socket;
#[cfg(test)]
mod tests;
mod wait;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tack_link::compose::{BoxedLink, Duplex};
use tack_link::pipe::PipeConfig;
use tack_link::{Direction, Ecn};

pub use self::counters::{LATE, LaneCounters, RelayReport};
use self::worker::Worker;

/// Sees every datagram. It is called on the relay's thread: whatever time it takes, datagrams wait
/// for.
pub trait Observer: Send {
    /// A datagram as the endpoint sent it, before the link queues or loses it.
    fn datagram(&mut self, datagram: &Datagram<'_>);

    /// A datagram is handed over to the other endpoint, as the link left it.
    fn delivered(&mut self, datagram: &Datagram<'_>) {
        let _ = datagram;
    }
}

/// Observes nothing.
impl Observer for () {
    fn datagram(&mut self, _: &Datagram<'_>) {}
}

/// A datagram that passes the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Forward is from the server to the client.
    pub direction: Direction,
    /// Number of the client, in the order of their coming.
    pub flow: u32,
    /// Number of the server, in the order of [`Setup::servers`].
    pub server: u32,
    /// How many addresses the client had before the one by which the server knows it here.
    pub path: u32,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// Its UDP payload.
    pub bytes: &'a [u8],
}

/// What a relay stands between, and what it does besides carrying datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Addresses of this machine, all IPv4 or all IPv6.
    pub servers: Vec<SocketAddr>,
    /// When clients get other addresses, in order of time.
    pub rebindings: Vec<Rebinding>,
}

/// All clients are known to the servers by another address from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebinding {
    /// Since the first datagram of a client.
    pub at: Duration,
    /// What changes.
    pub change: Change,
}

/// The part of a client's address that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The port.
    Port,
    /// The port and the host: 127.0.0.2 after 127.0.0.1. There is no such thing with IPv6, which
    /// has one loopback address.
    Address,
}

/// A running relay. Dropping it stops it.
pub struct Relay<O = ()> {
    /// In the order of the servers; not empty.
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    /// `None` once joined.
    thread: Option<JoinHandle<io::Result<RelayReport<O>>>>,
}

impl Relay {
    /// Starts a relay on a free port of 127.0.0.1, or of ::1, in front of `server`, which must be
    /// an address of this machine.
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
        let setup = Setup { servers: vec![server], rebindings: Vec::new() };
        Self::start_with(setup, link, observer)
    }

    /// Starts a relay that only shows every datagram to `observer`: it delays and loses nothing, however long.
    ///
    /// Fails as [`start`](Relay::start) does.
    pub fn start_wire(server: SocketAddr, observer: O) -> io::Result<Self>
    where
        O: Observer + 'static,
    {
        let setup = Setup { servers: vec![server], rebindings: Vec::new() };
        let wire = Duplex::new(&PipeConfig::default(), &PipeConfig::default(), 1)
            .map_err(io::Error::other)?;
        Self::run(Worker::new(setup, Box::new(wire), observer)?.without_mtu())
    }

    /// Starts a relay in front of several servers, which share the link, or one that gives clients
    /// other addresses.
    ///
    /// Fails as [`start`](Relay::start) does, and if there is no server or rebindings are not in
    /// order.
    pub fn start_with(setup: Setup, link: BoxedLink, observer: O) -> io::Result<Self>
    where
        O: Observer + 'static,
    {
        Self::run(Worker::new(setup, link, observer)?)
    }

    fn run(worker: Worker<O>) -> io::Result<Self>
    where
        O: Observer + 'static,
    {
        let addresses = worker.addresses()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread =
            thread::Builder::new().name("relay".into()).spawn(move || worker.run(&stopped))?;
        Ok(Self { addresses, stop, thread: Some(thread) })
    }

    /// Where clients send to; with several servers, those of the first.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where clients of each server send to, in the order of the servers.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
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
