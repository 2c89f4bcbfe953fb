//! One connection, with what the endpoint keeps beside it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::RecvInfo;

use crate::event::{CloseReason, handshake_error};
use crate::send_queue::{BufferPool, Meta, SendQueue};

pub(crate) struct Peer {
    pub(crate) connection: tacklib::Connection,
    pub(crate) queue: SendQueue,
    /// Where the peer was when the connection began.
    pub(crate) remote: SocketAddr,
    /// It is in the queue of connections to drive.
    pub(crate) is_ready: bool,
    /// Something happened that the application may want to act upon.
    pub(crate) is_active: bool,
    /// An `Activity` event waits to be taken.
    pub(crate) activity_pending: bool,
    /// The application has heard of it.
    pub(crate) announced: bool,
    pub(crate) connected_reported: bool,
    pub(crate) close_reported: bool,
    /// It is in the list of connections to remove.
    pub(crate) is_finished: bool,
    handshake: Handshake,
    farewell: Option<Farewell>,
    /// A stateless reset ends a connection inside `recv`, a dead path inside `on_timeout`.
    closed_by_datagram: bool,
    /// quiche can't even write a close frame.
    broken: bool,
    /// A deadline that passed without effect is not looked at again before this time.
    not_before: Option<Instant>,
}

enum Handshake {
    Until(Instant),
    Done,
    TimedOut,
}

/// The packet that told the peer of our close, to be said again (RFC 9000 section 10.2.1).
struct Farewell {
    packet: Vec<u8>,
    meta: Meta,
    heard: u64,
}

/// How long a deadline that passed without effect is let rest, so that the endpoint does not spin.
const STALE_DEADLINE: Duration = Duration::from_millis(1);

impl Peer {
    pub(crate) fn new(
        connection: tacklib::Connection,
        remote: SocketAddr,
        now: Instant,
        handshake_timeout: Duration,
    ) -> Self {
        Self {
            announced: !connection.is_server(),
            connection,
            remote,
            queue: SendQueue::default(),
            is_ready: false,
            is_active: false,
            activity_pending: false,
            connected_reported: false,
            close_reported: false,
            is_finished: false,
            handshake: Handshake::Until(now + handshake_timeout),
            farewell: None,
            closed_by_datagram: false,
            broken: false,
            not_before: None,
        }
    }

    /// Gives a datagram to the connection. An error has closed the connection, and only it.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        info: RecvInfo,
        pool: &mut BufferPool,
    ) -> quiche::Result<()> {
        if self.is_over() {
            self.repeat_farewell(now, datagram.len(), pool);
            return Ok(());
        }
        self.is_active = true;
        let received = self.connection.recv(datagram, info);
        self.closed_by_datagram = self.connection.is_closed();
        match received {
            Ok(_) | Err(quiche::Error::Done) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn on_timer(&mut self, now: Instant) {
        if self.connection.timeout_instant().is_some_and(|timeout| timeout <= now) {
            self.connection.on_timeout();
            self.is_active = true;
            self.not_before = Some(now + STALE_DEADLINE);
        }
        if let Handshake::Until(deadline) = self.handshake
            && deadline <= now
            && !self.connection.is_established()
        {
            self.handshake = Handshake::TimedOut;
            // `Done` only says that it was closed already.
            let _ = self.connection.close(false, 0, b"handshake timed out");
        }
    }

    /// Takes packets from the connection for as long as it has some, the queue has room, and
    /// their release time is near. Returns whether only the lack of room ended it.
    pub(crate) fn produce(&mut self, now: Instant, pace: bool, pool: &mut BufferPool) -> bool {
        while !self.queue.is_ahead(now) {
            let Some(room) = self.queue.room(pool) else { return true };
            match self.connection.send(room) {
                Ok((len, info)) => {
                    let at = if pace { info.at } else { now };
                    let meta = Meta { from: info.from, to: info.to, at };
                    if self.connection.is_draining() {
                        let packet = room[..len].to_vec();
                        self.farewell = Some(Farewell { packet, meta, heard: 0 });
                    }
                    self.queue.commit(len, meta);
                    self.is_active = true;
                }
                Err(quiche::Error::Done) => return false,
                Err(error) => {
                    log::debug!("quiche cannot send and closes the connection: {error}");
                    // INTERNAL_ERROR (RFC 9000 section 20.1). What fails again has no hope.
                    if self.connection.close(false, 0x1, b"").is_err() {
                        self.broken = true;
                        return false;
                    }
                }
            }
        }
        false
    }

    /// When the connection wants to be driven again.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let handshake = match self.handshake {
            Handshake::Until(deadline) => Some(deadline),
            Handshake::Done | Handshake::TimedOut => None,
        };
        let deadlines = [self.connection.timeout_instant(), self.queue.wakeup(), handshake];
        let deadline = deadlines.into_iter().flatten().min()?;
        Some(if deadline <= now {
            self.not_before.map_or(deadline, |time| deadline.max(time))
        } else {
            deadline
        })
    }

    pub(crate) fn handshake_done(&mut self) {
        self.handshake = Handshake::Done;
    }

    /// Nothing will be exchanged any more, though the peer's last packets may still arrive.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_draining() || self.is_gone()
    }

    /// Nothing is left to wait for.
    pub(crate) fn is_gone(&self) -> bool {
        self.connection.is_closed()
            || self.broken
            || matches!(self.handshake, Handshake::TimedOut)
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

    /// Says the close again to a peer that goes on sending: after 1, 2, 4, 8, ... datagrams, so
    /// that two endpoints can't keep each other busy (RFC 9000 section 10.2.1).
    fn repeat_farewell(&mut self, now: Instant, heard_len: usize, pool: &mut BufferPool) {
        let Some(farewell) = &mut self.farewell else { return };
        farewell.heard += 1;
        // The address may not be validated: no more than three times what came from there
        // (RFC 9000 section 8.1).
        let amplifies = farewell.packet.len() > 3 * heard_len;
        if !farewell.heard.is_power_of_two() || amplifies {
            return;
        }
        if let Some(room) = self.queue.room(pool) {
            let len = farewell.packet.len();
            room[..len].copy_from_slice(&farewell.packet);
            self.queue.commit(len, Meta { at: now, ..farewell.meta });
        }
    }
}
