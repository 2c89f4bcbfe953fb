//! The endpoint: a socket, its connections, and the loop between them.

mod receive;
mod transmit;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use quiche::ConnectionId;

use crate::arrival_clock::{ArrivalClock, Reading};
use crate::connection_state::ConnectionState;
use crate::event::Event;
use crate::handle::Handle;
use crate::receive_schedule::ReceiveSchedule;
use crate::router::Router;
use crate::send_queue::BufferPool;
use crate::slab::Slab;
use crate::socket::{DatagramSocket, ReceiveBuffers, UdpSocket};
use crate::stats::EndpointStats;
use crate::timers::Timers;
use crate::wait::{Waiter, Waker};
use crate::{EndpointConfig, Error};

/// A UDP socket and the QUIC connections on it.
///
/// An endpoint does nothing by itself: the application calls [`poll`](Self::poll) in a loop, takes
/// the events, and reads and writes the connections they name. See the [crate's](crate)
/// documentation for an example.
pub struct Endpoint {
    config: EndpointConfig,
    /// For the connections a server accepts.
    server: Option<tacklib::Config>,
    socket: Box<dyn DatagramSocket>,
    waiter: Waiter,
    receive_buffers: ReceiveBuffers,
    receive_schedule: ReceiveSchedule,
    arrival_clock: ArrivalClock,
    pool: BufferPool,
    router: Router,
    connections: Slab<ConnectionState>,
    timers: Timers,
    /// Connections to drive: something arrived, expired or was written.
    ready: VecDeque<Handle>,
    events: VecDeque<Event>,
    /// Connections to remove at the next poll.
    finished: Vec<Handle>,
    blocked: Blocked,
    shut_down: bool,
    stats: EndpointStats,
}

/// Whether the system takes datagrams at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    No,
    /// The socket's buffer is full: until the socket is writable, or until this time should it
    /// not say so.
    Full(Instant),
    /// The device's queue is full, which nothing reports the end of: until this time.
    NoBuffers(Instant),
}

impl Blocked {
    /// When to try again.
    fn until(self) -> Option<Instant> {
        match self {
            Self::No => None,
            Self::Full(time) | Self::NoBuffers(time) => Some(time),
        }
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
        let socket = UdpSocket::bind(addr, &config)?;
        Self::with_socket(Box::new(socket), server, config)
    }

    fn with_socket(
        mut socket: Box<dyn DatagramSocket>,
        server: Option<tacklib::Config>,
        config: EndpointConfig,
    ) -> Result<Self, Error> {
        let waiter = Waiter::new(socket.source()).map_err(Error::Wait)?;
        let router = Router::new(&config, server.is_some(), clock())?;
        Ok(Self {
            config,
            server,
            socket,
            waiter,
            receive_buffers: ReceiveBuffers::new(),
            receive_schedule: ReceiveSchedule::new(),
            arrival_clock: ArrivalClock::new(Reading::take(clock())),
            pool: BufferPool::default(),
            router,
            connections: Slab::new(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            finished: Vec::new(),
            blocked: Blocked::No,
            shut_down: false,
            stats: EndpointStats::default(),
        })
    }

    /// Begins a connection to `server`; [`Event::Connected`] or [`Event::Closed`] tells how that
    /// went. `name` is the host name that the server's certificate must be for.
    pub fn connect(
        &mut self,
        server: SocketAddr,
        name: Option<&str>,
        config: &mut tacklib::Config,
    ) -> Result<Handle, Error> {
        if self.shut_down {
            return Err(Error::ShutDown);
        }
        let local = self.socket.local_addr();
        let server = match (local.ip(), server.ip()) {
            // A socket for both IP versions names IPv4 addresses in this way.
            (IpAddr::V6(_), IpAddr::V4(ip)) => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), server.port())
            }
            (IpAddr::V4(_), IpAddr::V6(_)) => {
                return Err(Error::AddressFamily { server, local });
            }
            _ => server,
        };
        let (scid, _) = self.router.new_id()?;
        let id = ConnectionId::from_ref(&scid);
        let mut connection =
            tacklib::connect(name, &id, local, server, config).map_err(Error::Connect)?;
        start_logs(&self.config, &mut connection);
        connection.set_ecn(self.config.ecn);
        let timeout = self.config.handshake_timeout;
        let state = ConnectionState::new(connection, server, clock(), timeout);
        let handle = self.connections.insert(state);
        self.router.ids.insert(scid, handle);
        self.make_ready(handle);
        Ok(handle)
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Sends what the application wrote; waits for a datagram, a timer, the [`Waker`] or
    /// `max_wait`, whichever is first; then receives, runs timers and sends.
    ///
    /// Does not wait while there are events to take. May return before anything happened.
    /// Removes the connections that [`Event::Closed`] told of, once they need no more care.
    ///
    /// A system call that fails is tried again; only a failure that lasts is an error.
    pub fn poll(&mut self, max_wait: Option<Duration>) -> Result<(), Error> {
        self.remove_finished();
        let now = clock();
        self.transmit(now)?;

        let until = self.wait_until(now, max_wait);
        let readiness = self.waiter.wait(now, until).map_err(Error::Wait)?;
        if readiness.readable {
            self.receive_schedule.on_readable();
        }
        if readiness.writable && matches!(self.blocked, Blocked::Full(_)) {
            self.blocked = Blocked::No;
        }

        let now = clock();
        self.receive(now)?;
        self.run_timers(now);
        self.transmit(now)
    }

    /// Sends what the application wrote since the last [`poll`](Self::poll), which begins with
    /// this too.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.transmit(clock())
    }

    /// Takes the next event.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Activity(handle) = event
            && let Some(state) = self.connections.get_mut(handle)
        {
            state.activity_pending = false;
        }
        Some(event)
    }

    /// The connection, unless it is gone.
    pub fn connection(&self, handle: Handle) -> Option<&tacklib::Connection> {
        self.connections.get(handle).map(|state| &state.connection)
    }

    /// The connection to read from or write to, unless it is gone. The endpoint asks it for packets
    /// to send afterwards; to look at it alone, take [`connection`](Self::connection).
    pub fn connection_mut(&mut self, handle: Handle) -> Option<&mut tacklib::Connection> {
        self.make_ready(handle);
        self.connections.get_mut(handle).map(|state| &mut state.connection)
    }

    /// What makes [`poll`](Self::poll) return, for other threads.
    pub fn waker(&self) -> Waker {
        self.waiter.waker()
    }

    /// Opens and accepts no more connections, and closes those there are, with an error code of
    /// the application.
    ///
    /// Sends each peer the CONNECTION_CLOSE. To have it repeated to peers that missed it, go on
    /// calling [`poll`](Self::poll) until [`is_idle`](Self::is_idle), or for as long as the program
    /// can wait.
    pub fn shutdown(&mut self, error_code: u64, reason: &[u8]) {
        self.shut_down = true;
        for handle in self.connections.handles().collect::<Vec<_>>() {
            if let Some(connection) = self.connection_mut(handle) {
                // `Done` only says that it was closed already.
                let _ = connection.close(true, error_code, reason);
            }
        }
        // What fails here fails again in `poll`, which reports it.
        let _ = self.transmit(clock());
    }

    /// Whether no connection is left, not even one that is closing.
    pub fn is_idle(&self) -> bool {
        self.connections.len() == self.finished.len()
    }

    /// What has been counted so far.
    pub fn stats(&self) -> EndpointStats {
        self.stats
    }

    fn wait_until(&self, now: Instant, max_wait: Option<Duration>) -> Option<Instant> {
        let can_send = self.blocked == Blocked::No && !self.ready.is_empty();
        if can_send || !self.events.is_empty() {
            return Some(now);
        }
        let at_most = max_wait.and_then(|wait| now.checked_add(wait));
        let receive = self.receive_schedule.next(now);
        [self.blocked.until(), at_most, receive, self.timers.next()].into_iter().flatten().min()
    }

    fn make_ready(&mut self, handle: Handle) {
        if let Some(state) = self.connections.get_mut(handle)
            && !state.is_ready
        {
            state.is_ready = true;
            self.ready.push_back(handle);
        }
    }
}

/// Sends the CONNECTION_CLOSE of each connection that was closed, if it has not been sent. A
/// connection that was not closed just falls silent.
impl Drop for Endpoint {
    fn drop(&mut self) {
        self.send_owed_closes(clock());
    }
}

/// Has the connection write what the endpoint is configured to keep of it.
fn start_logs(config: &EndpointConfig, connection: &mut tacklib::Connection) {
    if let Some(path) = &config.key_log {
        crate::key_log::start(path, connection);
    }
    #[cfg(feature = "qlog")]
    if let Some(directory) = &config.qlog {
        crate::qlog::start(directory, connection);
    }
}

/// The one place where the endpoint reads the clock; a batch of datagrams is held against it anew, beside the clock
/// of its timestamps.
#[expect(clippy::disallowed_methods, reason = "everything else is passed this time")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
