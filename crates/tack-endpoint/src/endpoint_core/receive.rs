//! Datagrams on their way in: to a connection, to a new one, or to an answer that needs none.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use quiche::{ConnectionId, RecvInfo, RetryConnectionIds};
use quinn_udp::{BATCH_SIZE, RecvMeta};
use tacklib::EcnCodepoint;

use super::{EndpointCore, clock, start_logs};
use crate::Error;
use crate::arrival_clock::Reading;
use crate::connection_state::ConnectionState;
use crate::half_open::HalfOpen;
use crate::handle::Handle;
use crate::inbox::Forwarded;
use crate::receive_buffers::{ReceiveBuffers, codepoint, destination};
use crate::router::{Admission, Opening, Reply, Route};
use crate::send_queue::{Burst, Sink};
use crate::socket::DatagramSocket;
use crate::stats::DropReason;

/// After so many datagrams it is time to drive the connections again.
const RECEIVE_PER_TURN: usize = 128;

/// So many datagrams of other workers are taken in a turn: fewer than from the socket, whose own must not
/// wait for what somebody sends to the wrong worker.
const FORWARDED_PER_TURN: usize = 64;

/// Whether a datagram begins with an Initial or a Handshake packet (RFC 9000 section 17.2), which carry no data and without
/// which a connection would not get any further.
fn is_of_handshake(datagram: &[u8]) -> bool {
    const LONG_HEADER: u8 = 0x80;
    const TYPE: u8 = 0x30;
    const ZERO_RTT: u8 = 0x10;
    datagram.first().is_some_and(|first| first & LONG_HEADER != 0 && first & TYPE != ZERO_RTT)
}

/// Whether an answer can go to where a datagram came from, from where it came to.
///
/// Anybody can forge what cannot be answered, an established connection's packets among it, and each attempt costs the
/// socket's offloads for a moment: where Linux refuses to send (EINVAL), quinn-udp (0.6.3) takes that for a lack of
/// them. Port 0 says that there is no answer (RFC 768);
/// an address of several hosts is no source (RFC 1122 section 3.2.1.3).
fn is_answerable(info: &RecvInfo) -> bool {
    let RecvInfo { from, to } = info;
    from.port() != 0 && !is_of_several_hosts(from.ip()) && !is_of_several_hosts(to.ip())
}

fn is_of_several_hosts(ip: IpAddr) -> bool {
    // A socket for both IP versions names IPv4 addresses by those of IPv6.
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    }
}

/// Creates the connection of a client. After a Retry it announces the ID that the Retry named beside its own
/// (RFC 9000 section 7.3).
fn accept_as(
    admission: &Admission,
    from: SocketAddr,
    to: SocketAddr,
    config: &mut tacklib::Config,
) -> quiche::Result<tacklib::Connection> {
    let scid = ConnectionId::from_ref(&admission.scid);
    let Some(odcid) = &admission.odcid else {
        return tacklib::accept(&scid, None, to, from, config);
    };
    let retry_cids = RetryConnectionIds {
        original_destination_cid: odcid,
        retry_source_cid: &ConnectionId::from_ref(&admission.initial_dcid),
    };
    tacklib::accept_with_retry(&scid, retry_cids, to, from, config)
}

impl<S: DatagramSocket> EndpointCore<S> {
    pub(crate) fn receive(&mut self, now: Instant) -> Result<(), Error> {
        self.half_open.on_time(now);
        self.receive_forwarded(now);
        // Buffers and connections are borrowed at the same time.
        let mut buffers = mem::replace(&mut self.receive_buffers, ReceiveBuffers::empty());
        let received = self.receive_into(now, &mut buffers);
        self.receive_buffers = buffers;
        received
    }

    fn receive_into(
        &mut self,
        now: Instant,
        buffers: &mut ReceiveBuffers,
    ) -> Result<(), Error> {
        let mut datagrams = 0;
        while datagrams < RECEIVE_PER_TURN && self.receive_schedule.may_receive(now) {
            self.stats.recv_calls += 1;
            let asked = clock();
            let count = match self.socket.receive(buffers) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.receive_schedule.on_empty(now);
                    self.arrival_clock.on_batch(asked, Reading::take(clock()), true);
                    return Ok(());
                }
                Err(error) if self.socket.is_refusal(&error) => {
                    self.stats.refusals += 1;
                    datagrams += 1;
                    continue;
                }
                Err(error) => {
                    self.stats.recv_calls_failed += 1;
                    self.receive_schedule.on_error(now, &error).map_err(|failure| {
                        let duration = now.saturating_duration_since(failure.since);
                        Error::Receive { source: error, calls: failure.calls, duration }
                    })?;
                    datagrams += 1;
                    continue;
                }
            };
            // Where one call fetches several, fewer than asked for means that there are no more.
            let more = BATCH_SIZE == 1 || count == BATCH_SIZE;
            self.receive_schedule.on_received(now, more);
            self.arrival_clock.on_batch(asked, Reading::take(clock()), !more);
            for (meta, buffer) in buffers.filled(count) {
                datagrams += self.take_in(now, &meta, buffer);
            }
        }
        Ok(())
    }

    /// Takes what the system has put into one buffer, and returns how many datagrams that are.
    fn take_in(&mut self, now: Instant, meta: &RecvMeta, buffer: &mut [u8]) -> usize {
        let to = destination(self.socket.local_addr(), meta);
        let info = RecvInfo { from: meta.addr, to };
        let is_answerable = is_answerable(&info);
        let ecn = codepoint(meta);
        let at = self.arrival_clock.arrival(meta.timestamp);
        let is_marked = ecn == EcnCodepoint::Ce;
        let mut datagrams = 0;
        if buffer.is_empty() {
            // An empty datagram is one too, or a flood of them would not let go.
            datagrams += 1;
            self.stats.datagrams_in += 1;
            self.stats.dropped.count(DropReason::Malformed);
        }
        for datagram in buffer.chunks_mut(meta.stride.max(1)) {
            datagrams += 1;
            self.stats.datagrams_in += 1;
            self.stats.bytes_in += datagram.len() as u64;
            self.stats.ecn_ce_in += u64::from(is_marked);
            if is_answerable {
                self.dispatch(now, info, (ecn, at), datagram);
            } else {
                self.stats.dropped.count(DropReason::Unanswerable);
            }
        }
        datagrams
    }

    /// Takes what other workers have got that is for this one. It is not handed on again, whosever it is.
    fn receive_forwarded(&mut self, now: Instant) {
        let mut taken = Vec::new();
        self.has_forwarded = self.worker.take(FORWARDED_PER_TURN, &mut taken);
        for mut forwarded in taken {
            self.stats.forwarded_in += 1;
            let info = RecvInfo { from: forwarded.from, to: forwarded.to };
            let came = (forwarded.ecn, forwarded.at);
            let (from, opening) = (forwarded.from, self.opening());
            let route = self.router.route_here(now, from, &forwarded.datagram, opening);
            self.follow(now, route, info, came, &mut forwarded.datagram);
        }
    }

    fn forward(
        &mut self,
        worker: usize,
        info: RecvInfo,
        came: (EcnCodepoint, Instant),
        datagram: &[u8],
    ) {
        let RecvInfo { from, to } = info;
        let (ecn, at) = came;
        let forwarded = Forwarded { from, to, ecn, at, datagram: datagram.to_vec() };
        if self.worker.forward(worker, forwarded) {
            self.stats.forwarded_out += 1;
        } else {
            self.stats.dropped.count(DropReason::ForwardingFull);
        }
    }

    fn is_full(&self) -> bool {
        self.worker.connections() >= self.config.max_connections
    }

    fn opening(&self) -> Opening {
        let is_full = self.is_full();
        if self.shut_down || is_full && self.half_open.is_empty() {
            Opening::Refused
        } else if !is_full && (!self.config.retry || self.half_open.has_room()) {
            Opening::Direct
        } else {
            // Only to a client that has proven its address does another one give way.
            Opening::WithRetry
        }
    }

    fn dispatch(
        &mut self,
        now: Instant,
        info: RecvInfo,
        came: (EcnCodepoint, Instant),
        datagram: &mut [u8],
    ) {
        let route = self.router.route(now, info.from, datagram, self.opening());
        self.follow(now, route, info, came, datagram);
    }

    fn follow(
        &mut self,
        now: Instant,
        route: Route,
        info: RecvInfo,
        came: (EcnCodepoint, Instant),
        datagram: &mut [u8],
    ) {
        let RecvInfo { from, to } = info;
        match route {
            Route::Forward(worker) => self.forward(worker, info, came, datagram),
            Route::Connection(handle) => self.deliver(now, handle, info, came, datagram),
            Route::Accept(admission) => {
                if let Some(handle) = self.accept(now, &admission, from, to) {
                    self.deliver(now, handle, info, came, datagram);
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
        info: RecvInfo,
        came: (EcnCodepoint, Instant),
        datagram: &mut [u8],
    ) {
        let RecvInfo { from, to } = info;
        let Some(state) = self.connections.get_mut(handle) else { return };
        let is_handshake = !state.connection.is_established() && is_of_handshake(datagram);
        if state.is_full() && !is_handshake {
            self.stats.dropped.count(DropReason::ReceiveLimit);
            return;
        }
        // A client's connection was told the socket's address, wildcard or not.
        let to = if state.connection.is_server() { to } else { self.socket.local_addr() };
        let info = RecvInfo { from, to };
        if let Err(error) = state.receive(now, datagram, info, came, &mut self.pool) {
            log::debug!("connection {handle}: a datagram from {from} closes it: {error}");
            self.stats.connection_errors += 1;
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
        // Nobody gives way to an address that may be forged.
        if self.is_full() && !(admission.odcid.is_some() && self.make_room_for(from.ip())) {
            self.stats.dropped.count(DropReason::NotAccepting);
            return None;
        }
        let config = self.server.as_mut()?;
        config.set_stateless_reset_token(Some(self.router.reset_token(&admission.scid)));
        // A client that migrates needs another connection id (RFC 9000 section 9.5). Once: whatever changes the
        // configuration has its transport parameters read anew.
        if !self.router.has_spare_ids() && !mem::replace(&mut self.disables_migration, true) {
            config.set_disable_active_migration(true);
        }
        self.config.prepare_path_mtu(config, to, from);
        let accepted = accept_as(admission, from, to, config);
        let mut connection = accepted
            .inspect_err(|error| log::warn!("cannot accept a connection: {error}"))
            .ok()?;
        start_logs(&self.config, &mut connection);
        connection.set_ecn(self.config.ecn);
        self.stats.accepted += 1;
        let mut state = ConnectionState::new(connection, from, now, &self.config);
        state.receive_limit = self.config.receive_limit;
        let is_proven = admission.odcid.is_some();
        let timeout = self.config.handshake_timeout;
        let counts_until = HalfOpen::counts_until(now, timeout).filter(|_| !is_proven);
        let handle = self.connections.insert(state);
        let client = self.half_open.on_opened(handle, from.ip(), counts_until);
        if let Some(state) = self.connections.get_mut(handle) {
            state.half_open = Some(client);
        }
        self.worker.connection_added();
        self.router.ids.insert(admission.scid, handle);
        self.router.ids.insert_initial(from, &admission.initial_dcid, handle);
        Some(handle)
    }

    /// Sends an answer that needs no connection. If it does not leave, the client asks again.
    fn reply(&mut self, kind: Reply, reply: &[u8], from: SocketAddr, to: SocketAddr) {
        let burst = Burst {
            contents: reply,
            segment: reply.len(),
            count: 1,
            from: to,
            to: from,
            ecn: EcnCodepoint::NotEct,
        };
        self.stats.send_calls += 1;
        if Sink::send(&mut self.socket, &burst).is_err() {
            self.stats.dropped.send_failed += 1;
            return;
        }
        self.stats.datagrams_out += 1;
        self.stats.bytes_out += reply.len() as u64;
        *match kind {
            Reply::Retry => &mut self.stats.retries_sent,
            Reply::InvalidToken => &mut self.stats.invalid_tokens,
            Reply::VersionNegotiation => &mut self.stats.version_negotiations_sent,
            Reply::Reset => &mut self.stats.resets_sent,
        } += 1;
    }
}
