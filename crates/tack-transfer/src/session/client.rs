//! The asking end: one connection to a server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tack_endpoint::certificate::Fingerprint;
use tack_endpoint::{CloseReason, Endpoint, Event, Handle};

use super::connecting::Unproven;
use super::mailbox::{Mailbox, Notify};
use super::pump::Pump;
use super::pumps::Pumps;
use super::silence::Silence;
use super::trust::Trust;
use crate::cc_parameters::{RemoteEndpoint, Store, remote_endpoint};
use crate::error::{Error, Feature};
use crate::protocol::TransferError;
use crate::quic::{self, CloseCode};
use crate::server_address::ServerAddress;
use crate::tls_sessions::{Owner, SessionStore, TlsSession};

/// How long to wait for the CONNECTION_CLOSE to leave.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Distance between the ids of streams that a client opens.
const STREAM_STEP: u64 = 4;

/// A connection to a server.
pub struct Link {
    pub(super) endpoint: Endpoint,
    pub(super) handle: Handle,
    pub(super) server: ServerAddress,
    pub(super) notify: Notify,
    pub(super) pumps: Pumps,
    pub(super) next_stream: u64,
    pub(super) last_seen: Transport,
    /// Where to keep what the connection observes.
    pub(super) observed: Option<Observed>,
    /// Where to keep the session that the server gives.
    pub(super) session: Option<KeptSession>,
    /// Until the handshake is complete.
    pub(super) unproven: Option<Unproven>,
    /// How long nothing has come, if the host has other addresses.
    pub(super) silence: Option<Silence>,
    /// The endpoint has reported that the connection is closed.
    pub(super) is_closed: bool,
    /// Set when the server is known to have ended.
    pub(super) ended: Option<Arc<AtomicBool>>,
}

/// How to connect.
#[non_exhaustive]
pub struct ConnectOptions {
    /// What makes the server's certificate good.
    pub trust: Trust,
    /// The access token.
    pub token: Option<String>,
    /// Plain QUIC or TACK.
    pub profile: tacklib::Profile,
    /// Where TLS secrets of the first attempt to connect go, as lines of the NSS key log format.
    pub key_log: Option<Box<dyn std::io::Write + Send + Sync>>,
    /// Directory for a qlog file; created if it does not exist.
    pub qlog: Option<PathBuf>,
    /// Where the parameters of paths are kept, if they are.
    pub cc_parameters: Option<Store>,
    /// Where TLS sessions are kept, if they are. The requests of a connection that resumes one leave with the first
    /// packet.
    pub sessions: Option<SessionStore>,
    /// The session that the server itself has given ([`Server::first_session`](crate::Server::first_session)), in the
    /// place of a kept one.
    pub session: Option<TlsSession>,
    /// Whether a server has another port each time: parameters are then those of its address alone.
    pub port_varies: bool,
    /// Most bytes per second in each direction, if there is a limit.
    pub rate: Option<u64>,
    /// Set when the user has had enough of waiting for an answer.
    pub stop: Option<Arc<AtomicBool>>,
    /// Set when the server is known to have ended.
    pub ended: Option<Arc<AtomicBool>>,
}

impl ConnectOptions {
    /// Connects with TACK to the server that `trust` tells, and says no token.
    pub fn new(trust: Trust) -> Self {
        Self {
            trust,
            token: None,
            profile: tacklib::Profile::Default,
            key_log: None,
            qlog: None,
            cc_parameters: None,
            sessions: None,
            session: None,
            port_varies: false,
            rate: None,
            stop: None,
            ended: None,
        }
    }

    /// The same with an access token.
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }
}

/// What the connection measured.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Transport {
    /// Packets sent.
    pub packets_sent: usize,
    /// Packets received.
    pub packets_received: usize,
    /// Packets declared lost.
    pub packets_lost: usize,
    /// Bytes sent in QUIC packets.
    pub bytes_sent: u64,
    /// Bytes received in QUIC packets.
    pub bytes_received: u64,
    /// Bytes of streams that were sent more than once.
    pub bytes_retransmitted: u64,
    /// Smoothed round-trip time in milliseconds.
    pub rtt_ms: f64,
    /// Smallest round-trip time in milliseconds.
    pub min_rtt_ms: f64,
    /// How the last phase of Careful Resume has ended at this end (RFC 9959); `None` if there was none.
    pub careful_resume: Option<&'static str>,
    /// What became of early data; `None` if there was none, and while that is not known.
    pub early_data: Option<EarlyData>,
}

/// What a server has done with early data (RFC 9001 section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EarlyData {
    /// It has taken it.
    Accepted,
    /// It no longer knew the session. Everything was sent again.
    Refused,
}

impl Link {
    /// Makes sure that the server knows `feature`.
    pub fn require_current(&mut self, feature: Feature) -> Result<(), Error> {
        if self.protocol_version()? >= feature.version() {
            return Ok(());
        }
        Err(Error::TooOld { server: self.server.to_string(), feature })
    }

    /// The version of the protocol that both ends speak; 0 as long as none is agreed.
    pub fn protocol_version(&mut self) -> Result<usize, Error> {
        let spoken = self.conn()?.application_proto();
        Ok(quic::version_of(spoken).unwrap_or_default())
    }

    /// Whether the server allows one more stream.
    pub fn may_open(&mut self) -> Result<bool, Error> {
        Ok(self.conn()?.peer_streams_left_bidi() > 0)
    }

    /// Opens a stream for one request; `None` while the server allows no more.
    pub fn open(&mut self) -> Result<Option<Mailbox>, Error> {
        let (stream, notify) = (self.next_stream, Arc::clone(&self.notify));
        if !self.may_open()? {
            return Ok(None);
        }
        let conn = self.conn()?;
        // A stream has a capacity only once it exists.
        conn.stream_send(stream, &[], false)?;
        let (pump, mailbox) = Pump::new(stream, notify);
        self.next_stream += STREAM_STEP;
        self.pumps.insert(stream, pump);
        Ok(Some(mailbox))
    }

    /// Moves everything that can be moved; waits up to `wait` if there is nothing to do. An
    /// error means that the connection is over.
    pub fn turn(&mut self, wait: Duration) -> Result<(), Error> {
        if self.ended.as_ref().is_some_and(|ended| ended.load(Ordering::Relaxed)) {
            let (server, reason) =
                (self.server.to_string(), "the other end has ended".to_owned());
            return Err(Error::ConnectionLost { server, reason, may_pass: true });
        }
        self.drive_pumps()?;
        let now = Instant::now();
        let resumes_at = self.pumps.limits.resumes_at(now);
        let wait = resumes_at.map_or(wait, |at| wait.min(at.saturating_duration_since(now)));
        self.endpoint.poll(Some(wait))?;
        while let Some(event) = self.endpoint.next_event() {
            self.on_event(&event)?;
        }
        self.check_answer()?;
        self.drive_pumps()?;
        Ok(self.endpoint.flush()?)
    }

    /// Fails if the server has been silent for so long that it may well answer at another of its addresses; for an
    /// operation that is tried again. A network may be left for one without IPv6, or IPv6 may break.
    pub fn check_silence(&mut self) -> Result<(), Error> {
        let Some(silence) = self.silence.as_mut().filter(|_| self.unproven.is_none()) else {
            return Ok(());
        };
        let Some(connection) = self.endpoint.connection(self.handle) else { return Ok(()) };
        let packets = connection.path_stats().map(|path| path.recv).sum();
        if !silence.is_too_long(Instant::now(), packets) {
            return Ok(());
        }
        let reason = "nothing has come for 6 s, and the server has other addresses".to_owned();
        Err(Error::ConnectionLost { server: self.server.to_string(), reason, may_pass: true })
    }

    /// Gives up all requests: their workers hear that nothing more comes.
    pub fn abandon(&mut self) {
        self.pumps = Pumps::default();
    }

    /// Have all requests been answered to the end?
    pub fn is_quiet(&self) -> bool {
        self.pumps.is_empty()
    }

    /// Tells the driving thread to look at the queues; for other threads.
    pub fn notify(&self) -> Notify {
        Arc::clone(&self.notify)
    }

    /// What the connection measured so far.
    pub fn transport(&mut self) -> Transport {
        if let Some(conn) = self.endpoint.connection_mut(self.handle) {
            let (stats, path) = (conn.stats(), conn.path_stats().next());
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            self.last_seen = Transport {
                packets_sent: stats.sent,
                packets_received: stats.recv,
                packets_lost: stats.lost,
                bytes_sent: stats.sent_bytes,
                bytes_received: stats.recv_bytes,
                bytes_retransmitted: stats.stream_retrans_bytes,
                rtt_ms: path.as_ref().map_or(0.0, |path| ms(path.rtt)),
                min_rtt_ms: path.and_then(|path| path.min_rtt).map_or(0.0, ms),
                careful_resume: conn
                    .tack_stats()
                    .careful_resume_trigger
                    .map(tacklib::CarefulResumeTrigger::name),
                early_data: self.last_seen.early_data,
            };
        }
        self.last_seen
    }

    /// Closes the connection, and returns when the CONNECTION_CLOSE has left.
    pub fn close(&mut self, code: CloseCode, reason: &str) {
        self.transport();
        self.keep_cc_parameters();
        self.keep_session();
        self.endpoint.shutdown(code as u64, reason.as_bytes());
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        // If it does not leave, the server's idle timer ends the connection.
        while !self.is_closed
            && Instant::now() < deadline
            && self.endpoint.poll(Some(CLOSE_TIMEOUT)).is_ok()
        {
            while let Some(event) = self.endpoint.next_event() {
                self.is_closed |= matches!(event, Event::Closed(..));
            }
        }
    }

    /// The fingerprint of the server's certificate.
    pub fn fingerprint(&mut self) -> Option<Fingerprint> {
        self.conn().ok()?.peer_cert().map(Fingerprint::of)
    }

    pub(super) fn conn(&mut self) -> Result<&mut tacklib::Connection, Error> {
        let server = &self.server;
        self.endpoint.connection_mut(self.handle).ok_or_else(|| Error::ConnectionLost {
            server: server.to_string(),
            reason: "it is closed".to_owned(),
            may_pass: true,
        })
    }

    fn drive_pumps(&mut self) -> Result<(), Error> {
        let Some(conn) = self.endpoint.connection_mut(self.handle) else { return Ok(()) };
        if let Err(error) = self.pumps.drive(conn, Instant::now()) {
            self.close(CloseCode::Protocol, &error.to_string());
            return Err(TransferError::Wire(error).into());
        }
        Ok(())
    }

    /// Keeps what the connection has observed, once, unless data went over another path at the end.
    fn keep_cc_parameters(&mut self) {
        let Some(Observed { store, path, kept_as }) = self.observed.take() else { return };
        let Some(connection) = self.endpoint.connection(self.handle) else { return };
        let now = SystemTime::now();
        let is_same = remote_endpoint(path.1) == Some(path)
            && connection.path_stats().any(|now| now.active && now.peer_addr == path.1);
        if let Some(parameters) = connection.cc_parameters(now).filter(|_| is_same) {
            store.put(kept_as, parameters, now);
        }
    }

    /// Keeps the session that the server has given for the next connection.
    fn keep_session(&mut self) {
        let Some(KeptSession { store, owner }) = self.session.take() else { return };
        let Some(connection) = self.endpoint.connection(self.handle) else { return };
        let address =
            connection.path_stats().find(|path| path.active).map(|path| path.peer_addr);
        if let (Some(address), Some(bytes)) = (address, connection.session()) {
            store.put(owner, TlsSession { address, bytes: bytes.to_vec() }, SystemTime::now());
        }
    }

    /// The error that a connection has ended with.
    pub(super) fn closed(&mut self, reason: &CloseReason) -> Error {
        self.is_closed = true;
        if let Some(unproven) = self.unproven.take() {
            return self.handshake_error(&unproven, reason);
        }
        self.transport();
        self.keep_cc_parameters();
        self.keep_session();
        let known = match reason {
            CloseReason::Peer { application: true, code, .. } => *code,
            _ => CloseCode::Done as u64,
        };
        if known == CloseCode::WrongToken as u64 {
            Error::WrongToken
        } else if known == CloseCode::Busy as u64 {
            Error::ServerBusy
        } else {
            Error::ConnectionLost {
                server: self.server.to_string(),
                reason: reason.to_string(),
                // Otherwise the two ends do not understand each other. Whoever was silent for long may go on, unless
                // another transfer now writes the same file.
                may_pass: [CloseCode::Done, CloseCode::Superseded]
                    .iter()
                    .any(|code| known == *code as u64),
            }
        }
    }
}

/// What a connection observes, and where that goes.
pub(super) struct Observed {
    pub(super) store: Store,
    /// What it observes.
    pub(super) path: RemoteEndpoint,
    /// What the store has it for.
    pub(super) kept_as: RemoteEndpoint,
}

/// Whose session a connection has, and where that goes.
pub(super) struct KeptSession {
    pub(super) store: SessionStore,
    pub(super) owner: Owner,
}

/// However a command ends, the server is told.
impl Drop for Link {
    fn drop(&mut self) {
        self.keep_cc_parameters();
        self.keep_session();
        self.endpoint.shutdown(CloseCode::Done as u64, b"the client ended");
    }
}
