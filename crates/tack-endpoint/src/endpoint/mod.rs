//! The endpoint of programs without an async runtime: a core that mio waits for.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::endpoint_core::{EndpointCore, clock};
use crate::event::Event;
use crate::handle::Handle;
use crate::socket::{DatagramSocket, PortUse, UdpSocket};
use crate::stats::EndpointStats;
use crate::wait::{Waiter, Waker};
use crate::workers::Worker;
use crate::{EndpointConfig, Error};

/// A UDP socket and the QUIC connections on it.
///
/// An endpoint does nothing by itself: the application calls [`poll`](Self::poll) in a loop, takes
/// the events, and reads and writes the connections they name. See the [crate's](crate)
/// documentation for an example.
pub struct Endpoint {
    core: EndpointCore<Box<dyn PolledSocket>>,
    waiter: Waiter,
}

/// A socket that mio can wait for. Tests put one between that fails.
trait PolledSocket: DatagramSocket {
    fn source(&mut self) -> &mut mio::net::UdpSocket;
}

impl PolledSocket for UdpSocket<mio::net::UdpSocket> {
    fn source(&mut self) -> &mut mio::net::UdpSocket {
        self.io_mut()
    }
}

impl Endpoint {
    /// Opens a server on `addr`; every connection it accepts gets `config`.
    pub fn server(
        addr: SocketAddr,
        config: tacklib::Config,
        endpoint: EndpointConfig,
    ) -> Result<Self, Error> {
        Self::new(addr, Some(config), endpoint)
    }

    /// Opens a server of several workers on `addr`, one for each of `configs`. Each is to be polled by a thread
    /// of its own.
    ///
    /// The kernel spreads new connections over them by the clients' addresses. A client whose address changes
    /// stays with its worker, which the others hand its datagrams to. Retry tokens, stateless resets and
    /// the [limit of connections](EndpointConfig::max_connections) are common to all; what else connections
    /// share, such as the certificate, is up to `configs`. There can be [`MAX_WORKERS`](crate::MAX_WORKERS)
    /// on Linux, and one elsewhere.
    pub fn workers(
        addr: SocketAddr,
        configs: Vec<tacklib::Config>,
        endpoint: &EndpointConfig,
    ) -> Result<Vec<Self>, Error> {
        let count = configs.len();
        if count > 1 && !cfg!(target_os = "linux") {
            return Err(Error::Workers(count));
        }
        let workers = Worker::all(count, clock())?;
        let mut endpoints: Vec<Self> = Vec::with_capacity(count);
        for (config, worker) in configs.into_iter().zip(workers) {
            let (addr, port) = match endpoints.first() {
                Some(first) => (first.local_addr(), PortUse::Further),
                None if count > 1 => (addr, PortUse::First),
                None => (addr, PortUse::Alone),
            };
            let register = |socket| Ok(mio::net::UdpSocket::from_std(socket));
            let socket = UdpSocket::bind_shared(addr, port, endpoint, register)?;
            let endpoint = endpoint.clone();
            endpoints.push(Self::for_worker(Box::new(socket), Some(config), endpoint, worker)?);
        }
        Ok(endpoints)
    }

    /// Opens an endpoint that makes connections but accepts none. `local` is usually `0.0.0.0:0`
    /// or `[::]:0`; the latter reaches both IP versions on most systems.
    pub fn client(local: SocketAddr, endpoint: EndpointConfig) -> Result<Self, Error> {
        Self::new(local, None, endpoint)
    }

    fn new(
        addr: SocketAddr,
        server: Option<tacklib::Config>,
        config: EndpointConfig,
    ) -> Result<Self, Error> {
        let register = |socket| Ok(mio::net::UdpSocket::from_std(socket));
        let socket = UdpSocket::bind(addr, &config, register)?;
        Self::with_socket(Box::new(socket), server, config)
    }

    fn with_socket(
        socket: Box<dyn PolledSocket>,
        server: Option<tacklib::Config>,
        config: EndpointConfig,
    ) -> Result<Self, Error> {
        Self::for_worker(socket, server, config, Worker::alone(clock())?)
    }

    fn for_worker(
        mut socket: Box<dyn PolledSocket>,
        server: Option<tacklib::Config>,
        config: EndpointConfig,
        worker: Worker,
    ) -> Result<Self, Error> {
        let waiter = Waiter::new(socket.source()).map_err(Error::Wait)?;
        let waker = waiter.waker();
        // Fails only if the endpoint is gone.
        worker.on_forwarded(move || drop(waker.wake()));
        let core = EndpointCore::for_worker(socket, server, config, clock(), worker)?;
        Ok(Self { core, waiter })
    }

    /// Begins a connection to `server`; [`Event::Connected`] or [`Event::Closed`] tells how that
    /// went. `name` is the host name that the server's certificate must be for.
    pub fn connect(
        &mut self,
        server: SocketAddr,
        name: Option<&str>,
        config: &mut tacklib::Config,
    ) -> Result<Handle, Error> {
        self.core.connect(clock(), server, name, config)
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.core.local_addr()
    }

    /// Sends, waits, receives, runs timers and sends again.
    ///
    /// It first sends what the application wrote. It waits for a datagram, a timer, the [`Waker`] or
    /// `max_wait`, whichever is first.
    ///
    /// Does not wait while there are events to take. May return before anything happened.
    /// Removes the connections that [`Event::Closed`] told of, once they need no more care.
    ///
    /// A system call that fails is tried again; only a failure that lasts is an error.
    pub fn poll(&mut self, max_wait: Option<Duration>) -> Result<(), Error> {
        while self.core.remove_finished().is_some() {}
        let now = clock();
        self.transmit(now)?;

        let until = self.wait_until(now, max_wait);
        let readiness = self.waiter.wait(now, until).map_err(Error::Wait)?;
        if readiness.readable {
            self.core.on_readable();
        }
        if readiness.writable {
            self.core.on_writable();
        }

        self.core.turn(clock())?;
        self.follow_socket()
    }

    /// Sends what the application wrote since the last [`poll`](Self::poll), which begins with
    /// this too.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.transmit(clock())
    }

    /// Takes the next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.core.next_event()
    }

    /// The connection, unless it is gone.
    pub fn connection(&self, handle: Handle) -> Option<&tacklib::Connection> {
        self.core.connection(handle)
    }

    /// The connection to read from or write to, unless it is gone. The endpoint asks it for packets
    /// to send afterwards; to look at it alone, take [`connection`](Self::connection).
    pub fn connection_mut(&mut self, handle: Handle) -> Option<&mut tacklib::Connection> {
        self.core.connection_mut(handle)
    }

    /// Lets a connection receive without [`EndpointConfig::receive_limit`](crate::EndpointConfig::receive_limit).
    pub fn lift_receive_limit(&mut self, handle: Handle) {
        self.core.lift_receive_limit(handle);
    }

    /// What makes [`poll`](Self::poll) return, for other threads.
    pub fn waker(&self) -> Waker {
        self.waiter.waker()
    }

    /// Opens and accepts no more connections, and closes those there are.
    ///
    /// `error_code` is one of the application's.
    ///
    /// Sends each peer the CONNECTION_CLOSE. To have it repeated to peers that missed it, go on
    /// calling [`poll`](Self::poll) until [`is_idle`](Self::is_idle), or for as long as the program
    /// can wait.
    pub fn shutdown(&mut self, error_code: u64, reason: &[u8]) {
        self.core.shutdown(clock(), error_code, reason);
        // What fails here fails again in `poll`, which reports it.
        let _ = self.follow_socket();
    }

    /// Whether no connection is left, not even one that is closing.
    pub fn is_idle(&self) -> bool {
        self.core.is_idle()
    }

    /// What has been counted so far.
    pub fn stats(&self) -> EndpointStats {
        self.core.stats()
    }

    fn transmit(&mut self, now: Instant) -> Result<(), Error> {
        self.core.transmit(now);
        self.follow_socket()
    }

    /// Waits for room in the socket's buffer, if it is full.
    fn follow_socket(&mut self) -> Result<(), Error> {
        let wanted = self.core.wants_writable();
        self.waiter.want_writable(self.core.socket_mut().source(), wanted).map_err(Error::Wait)
    }

    fn wait_until(&self, now: Instant, max_wait: Option<Duration>) -> Option<Instant> {
        if self.core.has_events() {
            return Some(now);
        }
        let at_most = max_wait.and_then(|wait| now.checked_add(wait));
        [self.core.next_deadline(now), at_most].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
