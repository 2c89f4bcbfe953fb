//! The endpoint: a socket, its connections, and the loop between them.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use quiche::{ConnectionId, RecvInfo};

use crate::event::Event;
use crate::handle::{Handle, Slab};
use crate::peer::Peer;
use crate::router::{Admission, Reply, Route, Router};
use crate::send_queue::{BufferPool, Burst, Flush, Sink};
use crate::socket::{Inbox, Socket};
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
    socket: Socket,
    waiter: Waiter,
    inbox: Inbox,
    pool: BufferPool,
    router: Router,
    peers: Slab<Peer>,
    timers: Timers,
    /// Connections to drive: something arrived, expired or was written.
    ready: VecDeque<Handle>,
    events: VecDeque<Event>,
    /// Connections to remove at the next poll.
    finished: Vec<Handle>,
    /// The socket may hold more datagrams.
    readable: bool,
    blocked: Blocked,
    shut_down: bool,
    stats: EndpointStats,
}

/// Whether the system takes datagrams at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    No,
    UntilWritable,
    Until(Instant),
}

/// After so many datagrams it is time to drive the connections again.
const RECV_PER_TURN: usize = 128;

/// How long to wait when the device's queue is full, which nothing reports the end of.
const NO_BUFFERS_PAUSE: Duration = Duration::from_millis(1);

/// Connection IDs given to a peer at most, however many it would take.
const MAX_IDS_PER_PEER: usize = 8;

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
        let mut socket = Socket::bind(addr, &config)?;
        let waiter = Waiter::new(&mut socket.io).map_err(Error::Wait)?;
        let router = Router::new(&config, server.is_some(), clock())?;
        Ok(Self {
            config,
            server,
            socket,
            waiter,
            inbox: Inbox::new(),
            pool: BufferPool::default(),
            router,
            peers: Slab::new(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            finished: Vec::new(),
            readable: true,
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
        if let Some(path) = &self.config.key_log {
            crate::key_log::start(path, &mut connection);
        }
        #[cfg(feature = "qlog")]
        if let Some(directory) = &self.config.qlog {
            crate::qlog::start(directory, &mut connection);
        }

        let timeout = self.config.handshake_timeout;
        let handle = self.peers.insert(Peer::new(connection, server, clock(), timeout));
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
    pub fn poll(&mut self, max_wait: Option<Duration>) -> Result<(), Error> {
        self.reap();
        let now = clock();
        self.transmit(now)?;

        let until = self.wait_until(now, max_wait);
        let readiness = self.waiter.wait(now, until).map_err(Error::Wait)?;
        self.readable |= readiness.readable;
        if readiness.writable {
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
            && let Some(peer) = self.peers.get_mut(handle)
        {
            peer.activity_pending = false;
        }
        Some(event)
    }

    /// The connection, unless it is gone.
    pub fn connection(&self, handle: Handle) -> Option<&tacklib::Connection> {
        self.peers.get(handle).map(|peer| &peer.connection)
    }

    /// The connection to read from or write to, unless it is gone. The endpoint will ask it for
    /// packets to send; who only wants to look takes [`connection`](Self::connection).
    pub fn connection_mut(&mut self, handle: Handle) -> Option<&mut tacklib::Connection> {
        self.make_ready(handle);
        self.peers.get_mut(handle).map(|peer| &mut peer.connection)
    }

    /// What makes [`poll`](Self::poll) return, for other threads.
    pub fn waker(&self) -> Waker {
        self.waiter.waker()
    }

    /// Opens and accepts no more connections, and closes those there are, with an error code of
    /// the application. Go on calling [`poll`](Self::poll) until [`is_idle`](Self::is_idle): the
    /// peers have to be told.
    pub fn shutdown(&mut self, error_code: u64, reason: &[u8]) {
        self.shut_down = true;
        for handle in self.peers.handles().collect::<Vec<_>>() {
            if let Some(connection) = self.connection_mut(handle) {
                // `Done` only says that it was closed already.
                let _ = connection.close(true, error_code, reason);
            }
        }
    }

    /// Whether no connection is left, not even one that is closing.
    pub fn is_idle(&self) -> bool {
        self.peers.len() == self.finished.len()
    }

    /// What has been counted so far.
    pub fn stats(&self) -> EndpointStats {
        self.stats
    }

    fn wait_until(&self, now: Instant, max_wait: Option<Duration>) -> Option<Instant> {
        let can_send = self.blocked == Blocked::No && !self.ready.is_empty();
        if can_send || self.readable || !self.events.is_empty() {
            return Some(now);
        }
        let unblock = match self.blocked {
            Blocked::Until(time) => Some(time),
            Blocked::No | Blocked::UntilWritable => None,
        };
        let at_most = max_wait.and_then(|wait| now.checked_add(wait));
        [unblock, at_most, self.timers.next()].into_iter().flatten().min()
    }

    fn receive(&mut self, now: Instant) -> Result<(), Error> {
        // Buffers and connections are borrowed at the same time.
        let mut inbox = std::mem::replace(&mut self.inbox, Inbox::empty());
        let received = self.receive_into(now, &mut inbox);
        self.inbox = inbox;
        received
    }

    fn receive_into(&mut self, now: Instant, inbox: &mut Inbox) -> Result<(), Error> {
        let mut datagrams = 0;
        while self.readable && datagrams < RECV_PER_TURN {
            self.stats.recv_calls += 1;
            let count = match self.socket.receive(inbox) {
                Ok(count) => count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.readable = false;
                        return Ok(());
                    }
                    // An ICMP message, about one of many peers: its timers will tell.
                    io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable
                    | io::ErrorKind::Interrupted => {
                        datagrams += 1;
                        continue;
                    }
                    _ => return Err(Error::Receive(error)),
                },
            };
            // Where one call fetches several, fewer than asked for means that there are no more.
            self.readable = quinn_udp::BATCH_SIZE == 1 || count == quinn_udp::BATCH_SIZE;
            for (meta, buffer) in inbox.filled(count) {
                let to = self.socket.destination(&meta);
                let marked = meta.ecn == Some(quinn_udp::EcnCodepoint::Ce);
                for datagram in buffer.chunks_mut(meta.stride.max(1)) {
                    datagrams += 1;
                    self.stats.datagrams_in += 1;
                    self.stats.bytes_in += datagram.len() as u64;
                    self.stats.ecn_ce_in += u64::from(marked);
                    self.dispatch(now, meta.addr, to, datagram);
                }
            }
        }
        Ok(())
    }

    fn dispatch(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        datagram: &mut [u8],
    ) {
        let accepting = !self.shut_down && self.peers.len() < self.config.max_connections;
        match self.router.route(now, from, datagram, accepting) {
            Route::Connection(handle) => self.deliver(now, handle, from, to, datagram),
            Route::Accept(admission) => {
                if let Some(handle) = self.accept(now, &admission, from, to) {
                    self.deliver(now, handle, from, to, datagram);
                }
            }
            Route::Reply(kind, reply) => self.reply(kind, &reply, from, to),
            Route::Drop(reason) => self.stats.dropped.count(reason),
        }
    }

    fn deliver(
        &mut self,
        now: Instant,
        handle: Handle,
        from: SocketAddr,
        to: SocketAddr,
        datagram: &mut [u8],
    ) {
        let Some(peer) = self.peers.get_mut(handle) else { return };
        // A client's connection was told the socket's address, wildcard or not.
        let to = if peer.connection.is_server() { to } else { self.socket.local_addr() };
        if let Err(error) = peer.receive(now, datagram, RecvInfo { from, to }, &mut self.pool) {
            log::debug!("connection {handle}: a datagram from {from} closes it: {error}");
            self.stats.recv_errors += 1;
        }
        self.make_ready(handle);
    }

    fn accept(
        &mut self,
        now: Instant,
        admission: &Admission,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<Handle> {
        let config = self.server.as_mut()?;
        config.set_stateless_reset_token(Some(self.router.reset_token(admission.scid)));
        let scid = ConnectionId::from_ref(&admission.scid);
        let accepted = tacklib::accept(&scid, admission.odcid.as_ref(), to, from, config);
        let mut connection = accepted
            .inspect_err(|error| log::warn!("cannot accept a connection: {error}"))
            .ok()?;
        if let Some(path) = &self.config.key_log {
            crate::key_log::start(path, &mut connection);
        }
        #[cfg(feature = "qlog")]
        if let Some(directory) = &self.config.qlog {
            crate::qlog::start(directory, &mut connection);
        }

        self.stats.accepted += 1;
        let timeout = self.config.handshake_timeout;
        let handle = self.peers.insert(Peer::new(connection, from, now, timeout));
        self.router.ids.insert(admission.scid, handle);
        if let Some(dcid) = &admission.initial_dcid {
            self.router.ids.insert_initial(from, dcid, handle);
        }
        Some(handle)
    }

    /// Sends an answer that needs no connection. If it does not leave, the client asks again.
    fn reply(&mut self, kind: Reply, reply: &[u8], from: SocketAddr, to: SocketAddr) {
        let burst =
            Burst { contents: reply, segment: reply.len(), count: 1, from: to, to: from };
        self.stats.send_calls += 1;
        if self.socket.send(&burst).is_err() {
            self.stats.dropped.send_failed += 1;
            return;
        }
        self.stats.datagrams_out += 1;
        self.stats.bytes_out += reply.len() as u64;
        *match kind {
            Reply::Retry => &mut self.stats.retries_sent,
            Reply::VersionNegotiation => &mut self.stats.version_negotiations_sent,
            Reply::Reset => &mut self.stats.resets_sent,
        } += 1;
    }

    fn run_timers(&mut self, now: Instant) {
        if matches!(self.blocked, Blocked::Until(time) if time <= now) {
            self.blocked = Blocked::No;
        }
        while let Some(handle) = self.timers.pop_due(now) {
            if let Some(peer) = self.peers.get_mut(handle) {
                peer.on_timer(now);
            }
            self.make_ready(handle);
        }
    }

    fn make_ready(&mut self, handle: Handle) {
        if let Some(peer) = self.peers.get_mut(handle)
            && !peer.is_ready
        {
            peer.is_ready = true;
            self.ready.push_back(handle);
        }
    }

    /// Gives every connection that is ready one turn. Who has more to send than fits one turn
    /// comes again after the others.
    fn transmit(&mut self, now: Instant) -> Result<(), Error> {
        for _ in 0..self.ready.len() {
            if self.blocked != Blocked::No {
                break;
            }
            if let Some(handle) = self.ready.pop_front() {
                self.drive(now, handle);
            }
        }
        let wanted = self.blocked == Blocked::UntilWritable;
        self.waiter.want_writable(&mut self.socket.io, wanted).map_err(Error::Wait)
    }

    fn drive(&mut self, now: Instant, handle: Handle) {
        let Some(peer) = self.peers.get_mut(handle) else { return };
        peer.is_ready = false;
        tend_ids(peer, handle, &mut self.router);

        let filled = peer.produce(now, self.config.pace, &mut self.pool);
        let flush = peer.queue.flush(now, &mut self.socket, &mut self.stats);
        peer.queue.release(&mut self.pool);
        match flush {
            Flush::Complete => {}
            Flush::Full => self.blocked = Blocked::UntilWritable,
            Flush::NoBuffers => self.blocked = Blocked::Until(now + NO_BUFFERS_PAUSE),
        }
        let has_more = filled && peer.queue.is_empty();

        self.report(handle);
        if let Some(peer) = self.peers.get_mut(handle) {
            self.timers.set(handle, peer.deadline(now));
        }
        if has_more || flush != Flush::Complete {
            self.make_ready(handle);
        }
    }

    /// Tells the application what has become of a connection.
    fn report(&mut self, handle: Handle) {
        let Some(peer) = self.peers.get_mut(handle) else { return };
        if peer.close_reported {
            self.finish(handle);
            return;
        }
        if !peer.connected_reported && peer.connection.is_established() {
            peer.handshake_done();
            peer.connected_reported = true;
            peer.announced = true;
            let announced = peer.connection.peer_transport_params();
            if let Some(token) = announced.and_then(|params| params.stateless_reset_token) {
                self.router.expect_reset(peer.remote, token, handle);
            }
            self.events.push_back(Event::Connected(handle));
        }
        let usable = peer.connected_reported || peer.connection.is_in_early_data();
        if std::mem::take(&mut peer.is_active) && usable && !peer.activity_pending {
            peer.activity_pending = true;
            peer.announced = true;
            self.events.push_back(Event::Activity(handle));
        }
        if peer.is_over() {
            peer.close_reported = true;
            if peer.announced {
                self.events.push_back(Event::Closed(handle, peer.close_reason()));
            } else {
                self.stats.handshakes_failed += 1;
            }
            self.finish(handle);
        }
    }

    /// Puts a connection that needs no more care on the list to be removed.
    fn finish(&mut self, handle: Handle) {
        if let Some(peer) = self.peers.get_mut(handle)
            && peer.is_gone()
            && !peer.is_finished
        {
            peer.is_finished = true;
            self.finished.push(handle);
        }
    }

    fn reap(&mut self) {
        for handle in self.finished.drain(..) {
            self.peers.remove(handle);
            self.router.ids.forget(handle);
            self.timers.set(handle, None);
        }
    }
}

/// Gives the peer spare connection IDs, which it needs to migrate, and drops those it has
/// retired.
fn tend_ids(peer: &mut Peer, handle: Handle, router: &mut Router) {
    let connection = &mut peer.connection;
    while let Some(retired) = connection.retired_scid_next() {
        router.ids.retire(&retired);
    }
    if connection.is_server() {
        // Nobody else takes these from a server's connection, and the client can cause any
        // number of them.
        while let Some(event) = connection.path_event_next() {
            log::debug!("connection {handle}: {event:?}");
        }
    }
    if !connection.is_established() {
        return;
    }
    while connection.scids_left() > 0 && connection.active_scids() < MAX_IDS_PER_PEER {
        let Ok((cid, token)) = router.new_id() else { return };
        if connection.new_scid(&ConnectionId::from_ref(&cid), token, false).is_err() {
            return;
        }
        router.ids.insert(cid, handle);
    }
}

/// The one place where the endpoint reads the clock.
#[expect(clippy::disallowed_methods, reason = "everything else is passed this time")]
fn clock() -> Instant {
    Instant::now()
}
