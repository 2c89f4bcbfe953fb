//! The endpoint without its wait: a socket, its connections, and what is done when something happens.

mod receive;
mod transmit;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use quiche::ConnectionId;

use crate::arrival_clock::{ArrivalClock, Reading};
use crate::connection_state::ConnectionState;
use crate::event::Event;
use crate::half_open::HalfOpen;
use crate::handle::Handle;
use crate::receive_buffers::ReceiveBuffers;
use crate::receive_schedule::ReceiveSchedule;
use crate::router::Router;
use crate::send_queue::BufferPool;
use crate::slab::Slab;
use crate::socket::DatagramSocket;
use crate::stats::EndpointStats;
use crate::timers::Timers;
use crate::workers::Worker;
use crate::{EndpointConfig, Error};

/// A UDP socket and the QUIC connections on it, for a runtime that waits by means of its own.
///
/// [`Endpoint`](crate::Endpoint) is a core that mio waits for; `tack-tokio` drives another. Such a
/// runtime goes round in a loop:
///
/// 1. [`transmit`](Self::transmit) sends what the application has written;
/// 2. [`next_event`](Self::next_event) tells what happened, until it has nothing more to tell, and
///    [`remove_finished`](Self::remove_finished) hands over the connections that need no more care;
/// 3. the runtime waits until the socket is readable, or writable if
///    [`wants_writable`](Self::wants_writable) says so, until [`next_deadline`](Self::next_deadline), or
///    until the application has written something;
/// 4. it notes the first two ([`on_readable`](Self::on_readable), [`on_writable`](Self::on_writable)) and
///    calls [`turn`](Self::turn).
///
/// Times are of the clock that [`Instant::now`] reads, as quiche asks that clock, too.
pub struct EndpointCore<S: DatagramSocket> {
    config: EndpointConfig,
    /// For the connections a server accepts.
    server: Option<tacklib::Config>,
    /// Whether `server` asks clients not to migrate.
    disables_migration: bool,
    socket: S,
    receive_buffers: ReceiveBuffers,
    receive_schedule: ReceiveSchedule,
    arrival_clock: ArrivalClock,
    pool: BufferPool,
    router: Router,
    worker: Worker,
    /// Other workers have handed over more than the last turn took.
    has_forwarded: bool,
    connections: Slab<ConnectionState>,
    /// Those of clients that are still in their handshake.
    half_open: HalfOpen,
    timers: Timers,
    /// Connections to drive: something arrived, expired or was written.
    ready: VecDeque<Handle>,
    events: VecDeque<Event>,
    /// Connections to remove.
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

impl<S: DatagramSocket> EndpointCore<S> {
    /// Puts an endpoint on a socket. With the configuration of a `server` it accepts connections.
    pub fn new(
        socket: S,
        server: Option<tacklib::Config>,
        config: EndpointConfig,
        now: Instant,
    ) -> Result<Self, Error> {
        Self::for_worker(socket, server, config, now, Worker::alone(now)?)
    }

    /// Puts one of several workers of a port on its socket.
    pub(crate) fn for_worker(
        socket: S,
        server: Option<tacklib::Config>,
        config: EndpointConfig,
        now: Instant,
        worker: Worker,
    ) -> Result<Self, Error> {
        let router = Router::new(&config, server.is_some(), now, &worker)?;
        Ok(Self {
            half_open: HalfOpen::new(config.half_open_without_retry),
            config,
            server,
            disables_migration: false,
            socket,
            receive_buffers: ReceiveBuffers::new(),
            receive_schedule: ReceiveSchedule::new(),
            arrival_clock: ArrivalClock::new(Reading::take(now)),
            pool: BufferPool::default(),
            router,
            worker,
            has_forwarded: false,
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
        now: Instant,
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
        self.config.prepare_path_mtu(config, local, server);
        let (scid, _) = self.router.new_id()?;
        let id = ConnectionId::from_ref(&scid);
        let mut connection =
            tacklib::connect(name, &id, local, server, config).map_err(Error::Connect)?;
        start_logs(&self.config, &mut connection);
        connection.set_ecn(self.config.ecn);
        let state = ConnectionState::new(connection, server, now, &self.config);
        let handle = self.connections.insert(state);
        self.worker.connection_added();
        self.router.ids.insert(scid, handle);
        self.make_ready(handle);
        Ok(handle)
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// The socket, to wait for it.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Whether nothing says that the socket holds datagrams, so that [`on_readable`](Self::on_readable)
    /// is waited for. Not while calls that fail are spaced out.
    pub fn wants_readable(&self) -> bool {
        !self.receive_schedule.is_readable()
    }

    /// Notes that the socket may hold datagrams.
    pub fn on_readable(&mut self) {
        self.receive_schedule.on_readable();
    }

    /// Notes that the socket takes datagrams again.
    pub fn on_writable(&mut self) {
        if self.wants_writable() {
            self.blocked = Blocked::No;
        }
    }

    /// Whether the socket's buffer is full, so that [`on_writable`](Self::on_writable) is waited for.
    pub fn wants_writable(&self) -> bool {
        matches!(self.blocked, Blocked::Full(_))
    }

    /// Receives, runs the timers that are due, and sends.
    ///
    /// A system call that fails is tried again; only a failure that lasts is an error.
    pub fn turn(&mut self, now: Instant) -> Result<(), Error> {
        self.receive(now)?;
        self.run_timers(now);
        self.transmit(now);
        Ok(())
    }

    /// When to call [`turn`](Self::turn) if nothing happens before: at once if `now` or earlier, never
    /// if `None`.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let can_send = self.blocked == Blocked::No && !self.ready.is_empty();
        if can_send || self.has_forwarded {
            return Some(now);
        }
        let receive = self.receive_schedule.next(now);
        [self.blocked.until(), receive, self.timers.next()].into_iter().flatten().min()
    }

    /// Whether [`next_event`](Self::next_event) has something to tell.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
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

    /// The connection as it is, without asking it for packets to send afterwards.
    ///
    /// For code that needs the connection for itself and yet neither reads nor writes.
    pub fn inspect(&mut self, handle: Handle) -> Option<&mut tacklib::Connection> {
        self.connections.get_mut(handle).map(|state| &mut state.connection)
    }

    /// Lets a connection receive without [`EndpointConfig::receive_limit`](crate::EndpointConfig::receive_limit).
    pub fn lift_receive_limit(&mut self, handle: Handle) {
        if let Some(state) = self.connections.get_mut(handle) {
            state.receive_limit = None;
        }
    }

    /// Opens and accepts no more connections; those there are go on.
    pub fn refuse_new(&mut self) {
        self.shut_down = true;
    }

    /// Opens and accepts no more connections, and closes those there are.
    ///
    /// `error_code` is one of the application's.
    ///
    /// Sends each peer the CONNECTION_CLOSE. To have it repeated to peers that missed it, go on
    /// with the turns until [`is_idle`](Self::is_idle), or for as long as the program can wait.
    pub fn shutdown(&mut self, now: Instant, error_code: u64, reason: &[u8]) {
        self.shut_down = true;
        for handle in self.connections.handles().collect::<Vec<_>>() {
            if let Some(connection) = self.connection_mut(handle) {
                // `Done` only says that it was closed already.
                let _ = connection.close(true, error_code, reason);
            }
        }
        self.transmit(now);
    }

    /// Whether no connection is left, not even one that is closing.
    pub fn is_idle(&self) -> bool {
        self.connections.len() == self.finished.len()
    }

    /// What has been counted so far.
    pub fn stats(&self) -> EndpointStats {
        self.stats
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
impl<S: DatagramSocket> Drop for EndpointCore<S> {
    fn drop(&mut self) {
        self.send_owed_closes(clock());
        self.worker.connections_removed(self.connections.len());
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
