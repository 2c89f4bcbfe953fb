//! One connection, with what the endpoint keeps beside it.

use std::net::SocketAddr;
use std::time::Instant;

use quiche::RecvInfo;
use tacklib::EcnCodepoint;

use crate::close_packet::ClosePacket;
use crate::config::EndpointConfig;
use crate::event::{CloseReason, handshake_error};
use crate::half_open::HalfOpenClient;
use crate::keep_alive::KeepAlive;
use crate::send_queue::{BufferPool, Meta, SendQueue};
use crate::timer_guard::{Expiry, TimerGuard};

/// RFC 9000 section 20.1.
const CONNECTION_REFUSED: u64 = 0x02;

pub(crate) struct ConnectionState {
    pub(crate) connection: tacklib::Connection,
    pub(crate) queue: SendQueue,
    /// The peer's address when the connection began.
    pub(crate) remote: SocketAddr,
    /// It is in the queue of connections to drive.
    pub(crate) is_ready: bool,
    /// Something happened that the application may want to act upon.
    pub(crate) is_active: bool,
    /// An `Activity` event waits to be taken.
    pub(crate) activity_pending: bool,
    /// An event has named the connection to the application.
    pub(crate) is_announced: bool,
    pub(crate) connected_reported: bool,
    /// The client that has opened it, while its handshake is not done.
    pub(crate) half_open: Option<HalfOpenClient>,
    /// Bytes after which nothing more is taken in.
    pub(crate) receive_limit: Option<u64>,
    pub(crate) close_reported: bool,
    /// It is in the list of connections to remove.
    pub(crate) is_finished: bool,
    handshake: Handshake,
    /// Our CONNECTION_CLOSE, once quiche has written it.
    close_packet: Option<ClosePacket>,
    /// A stateless reset ends a connection inside `recv`, a dead path inside `on_timeout`.
    closed_by_datagram: bool,
    /// quiche cannot even write a CONNECTION_CLOSE, or may not send it.
    is_unable_to_close: bool,
    timer_guard: TimerGuard,
    keep_alive: KeepAlive,
}

enum Handshake {
    /// For ever where the time is more than the clock can tell.
    Until(Option<Instant>),
    Done,
    TimedOut,
}

impl ConnectionState {
    pub(crate) fn new(
        connection: tacklib::Connection,
        remote: SocketAddr,
        now: Instant,
        config: &EndpointConfig,
    ) -> Self {
        Self {
            is_announced: !connection.is_server(),
            connection,
            remote,
            queue: SendQueue::default(),
            is_ready: false,
            is_active: false,
            activity_pending: false,
            connected_reported: false,
            half_open: None,
            receive_limit: None,
            close_reported: false,
            is_finished: false,
            handshake: Handshake::Until(now.checked_add(config.handshake_timeout)),
            close_packet: None,
            closed_by_datagram: false,
            is_unable_to_close: false,
            timer_guard: TimerGuard::default(),
            keep_alive: KeepAlive::new(now, config.keep_alive),
        }
    }

    /// Whether it takes in no more. Datagrams count that quiche has accepted: forged ones use nothing up.
    pub(crate) fn is_full(&self) -> bool {
        let is_beyond = |limit| self.connection.stats().recv_bytes > limit;
        self.receive_limit.is_some_and(is_beyond) && !self.is_over()
    }

    /// Gives a datagram to the connection. An error has closed the connection, and only it.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        info: RecvInfo,
        (ecn, at): (EcnCodepoint, Instant),
        pool: &mut BufferPool,
    ) -> quiche::Result<()> {
        if self.is_over() {
            if let Some(close_packet) = &mut self.close_packet {
                close_packet.on_received(now, datagram.len(), &mut self.queue, pool);
            }
            return Ok(());
        }
        self.is_active = true;
        self.timer_guard.on_progress();
        let received = self.connection.recv_at(datagram, info, ecn, at);
        self.closed_by_datagram = self.connection.is_closed();
        if self.is_over() {
            // The peer has closed the connection: nothing is sent any more (RFC 9000 section
            // 10.2.2).
            self.queue.clear();
        }
        match received {
            Ok(_) | Err(quiche::Error::Done) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn on_timer(&mut self, now: Instant) {
        if self.connection.timeout_instant().is_some_and(|timeout| timeout <= now) {
            self.connection.on_timeout();
            self.is_active = true;
            self.timer_guard.on_expired();
        }
        if let Handshake::Until(Some(deadline)) = self.handshake
            && deadline <= now
            && !self.connection.is_established()
        {
            self.handshake = Handshake::TimedOut;
            // `Done` only says that it was closed already.
            let _ = self.connection.close(false, 0, b"handshake timed out");
        }
        if self.keep_alive.is_silent(now, || self.connection.stats().recv)
            && self.connection.is_established()
        {
            // Fails only if the connection is over.
            let _ = self.connection.send_ack_eliciting();
        }
    }

    /// Ends a handshake of which the peer is not told.
    pub(crate) fn give_up(&mut self) {
        // `Done` only says that it was closed already.
        let _ = self.connection.close(false, CONNECTION_REFUSED, b"");
        self.is_unable_to_close = true;
    }

    /// Fills the send queue for as long as the connection has packets, the queue has room, and
    /// their release time is near. Returns whether only the lack of room ended it.
    pub(crate) fn fill_queue(
        &mut self,
        now: Instant,
        pace: bool,
        pool: &mut BufferPool,
    ) -> bool {
        while !self.queue.is_ahead(now) {
            let Some(room) = self.queue.room(pool) else { return true };
            match self.connection.send(room) {
                Ok((len, info)) => {
                    let is_close = self.connection.is_draining();
                    // Nothing is left to pace: the CONNECTION_CLOSE follows what is queued.
                    let at = if pace && !is_close { info.at } else { now };
                    let ecn = self.connection.send_ecn();
                    let meta = Meta { from: info.from, to: info.to, ecn, at };
                    if is_close {
                        self.close_packet = Some(ClosePacket::new(&room[..len], meta));
                    }
                    self.queue.commit(len, meta);
                    self.is_active = true;
                    self.timer_guard.on_progress();
                }
                Err(quiche::Error::Done) => {
                    self.is_unable_to_close |= self.may_not_send_close();
                    return false;
                }
                Err(error) => {
                    log::debug!("quiche cannot send and closes the connection: {error}");
                    // INTERNAL_ERROR (RFC 9000 section 20.1).
                    if self.connection.close(false, 0x1, b"").is_err() {
                        // It was closing already, and failed again.
                        self.is_unable_to_close = true;
                        return false;
                    }
                }
            }
        }
        false
    }

    /// When to drive the connection again; `None` while it has nothing to wait for. While the
    /// socket is `blocked`, what is queued waits for that, not for its release time.
    pub(crate) fn next_expiry(&mut self, now: Instant, blocked: bool) -> Option<Expiry> {
        let handshake = match self.handshake {
            Handshake::Until(deadline) => deadline,
            Handshake::Done | Handshake::TimedOut => None,
        };
        let release = self.queue.next_release().filter(|_| !blocked);
        let keep_alive = self.keep_alive.deadline().filter(|_| !self.is_over());
        let own = handshake.into_iter().chain(release).chain(keep_alive).min();
        let expiry = self
            .connection
            .timeout_instant()
            .map(|timeout| self.timer_guard.expiry(now, timeout));
        match (own, expiry) {
            (Some(own), Some(expiry)) if own < expiry.at() => Some(Expiry::AsAsked(own)),
            (own, expiry) => expiry.or(own.map(Expiry::AsAsked)),
        }
    }

    pub(crate) fn handshake_done(&mut self) {
        self.handshake = Handshake::Done;
    }

    /// Whether nothing will be exchanged any more, though the peer's last packets may still arrive.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_draining() || self.is_gone()
    }

    /// Whether the connection is over and its CONNECTION_CLOSE, if it has one, has been handed to
    /// the socket.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_gone() || self.connection.is_draining() && self.queue.is_empty()
    }

    /// Whether nothing is left to wait for.
    pub(crate) fn is_gone(&self) -> bool {
        self.connection.is_closed()
            || self.is_unable_to_close
            || matches!(self.handshake, Handshake::TimedOut) && self.queue.is_empty()
    }

    /// Whether the application or quiche has closed the connection and the peer has not been told.
    pub(crate) fn owes_close(&self) -> bool {
        self.connection.local_error().is_some() && !self.is_closed()
    }

    /// Whether quiche, which has nothing to send, still owes its CONNECTION_CLOSE to an address that is not validated
    /// and has used up what it may be sent (RFC 9000 section 8.1). quiche would keep the connection until it is idle
    /// for too long; if the peer comes again, it gets a stateless reset or a new connection. A connection that drains
    /// has written its close, which may be queued still.
    fn may_not_send_close(&self) -> bool {
        let is_opening = self.connection.is_server() && !self.connection.is_established();
        is_opening && !self.connection.is_draining() && self.owes_close()
    }

    pub(crate) fn close_reason(&self) -> CloseReason {
        let connection = &self.connection;
        let established = connection.is_established();
        if matches!(self.handshake, Handshake::TimedOut) || connection.is_timed_out() {
            return if established {
                CloseReason::IdleTimeout
            } else {
                CloseReason::HandshakeFailed(
                    "the peer did not answer in time; check address and port, that the server \
                     runs, and that UDP passes the firewalls between"
                        .to_owned(),
                )
            };
        }
        if let Some(error) = connection.peer_error() {
            let (application, code) = (error.is_app, error.error_code);
            return if established {
                CloseReason::Peer { application, code, reason: error.reason.clone() }
            } else {
                CloseReason::HandshakeFailed(handshake_error(true, code, &error.reason))
            };
        }
        if let Some(error) = connection.local_error() {
            let (application, code) = (error.is_app, error.error_code);
            return if established {
                CloseReason::Local { application, code, reason: error.reason.clone() }
            } else {
                CloseReason::HandshakeFailed(handshake_error(false, code, &error.reason))
            };
        }
        if self.closed_by_datagram { CloseReason::Reset } else { CloseReason::PathLost }
    }
}
