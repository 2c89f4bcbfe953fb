//! The asking end: one connection to a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tack_endpoint::certificate::Fingerprint;
use tack_endpoint::{CloseReason, Endpoint, Event, Handle};

use super::mailbox::{Mailbox, Notify};
use super::pump::Pump;
use super::pumps::Pumps;
use super::race::{Attempt, race};
use super::rate_limit::RateLimits;
use super::trust::Trust;
use crate::cc_parameters::{RemoteEndpoint, Store, remote_endpoint};
use crate::error::{Error, Feature};
use crate::protocol::{Message, Secret, TransferError};
use crate::quic::{self, CloseCode, Verify};
use crate::server_address::ServerAddress;

/// How long to wait for an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Keeps address translators and the server's idle timer satisfied while a disk is busy.
const KEEP_ALIVE: Duration = Duration::from_secs(8);
/// How long to wait for the CONNECTION_CLOSE to leave.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Distance between the ids of streams that a client opens.
const STREAM_STEP: u64 = 4;

// TLS alerts as QUIC error codes (RFC 9001 section 4.8).
const TLS_ALERT_FIRST: u64 = 0x100;
const TLS_ALERT_LAST: u64 = 0x1ff;
const NO_APPLICATION_PROTOCOL: u64 = 0x178;

/// A connection to a server.
pub struct Link {
    endpoint: Endpoint,
    handle: Handle,
    server: ServerAddress,
    notify: Notify,
    pumps: Pumps,
    next_stream: u64,
    kept_alive: Instant,
    last_seen: Transport,
    /// Where to keep what the connection observes.
    observed: Option<Observed>,
    /// The endpoint has reported that the connection is closed.
    is_closed: bool,
    /// Set when the server is known to have ended.
    ended: Option<Arc<AtomicBool>>,
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
}

impl Link {
    /// Connects to `server`, makes sure that it is the right server, and says the token.
    pub fn connect(server: &ServerAddress, mut options: ConnectOptions) -> Result<Self, Error> {
        let stop = options.stop.clone();
        let is_over = || stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        let begin = |address| Self::begin(server, address, &mut options);
        let won = race(&server.resolve()?, begin, is_over);
        let mut link =
            won.map_err(|failure| failure.unwrap_or_else(|| no_answer(server)))?.link;
        link.hello(options.token, options.rate)?;
        Ok(link)
    }

    /// Begins to connect to one of the host's addresses.
    fn begin(
        server: &ServerAddress,
        address: SocketAddr,
        options: &mut ConnectOptions,
    ) -> Result<Handshake, Error> {
        let mut config = quic::client_config(options.profile, options.trust.verify())?;
        if let Some(rate) = options.rate {
            quic::limit_windows(&mut config, rate);
        }
        if options.key_log.is_some() {
            config.log_keys();
        }
        let local = match address {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let settings = quic::endpoint_config(options.qlog.as_deref())?;
        let mut endpoint = Endpoint::client(SocketAddr::new(local, 0), settings)?;
        // RFC 6066 section 3: an address is no server name.
        let name = server.ip().is_none().then_some(server.host());
        let handle = endpoint.connect(address, name, &mut config)?;
        if let (Some(key_log), Some(connection)) =
            (options.key_log.take(), endpoint.connection_mut(handle))
        {
            connection.set_keylog(key_log);
        }
        let store = options.cc_parameters.clone();
        let port = if options.port_varies { 0 } else { address.port() };
        let observed = store.and_then(|store| {
            let path = remote_endpoint(address)?;
            let kept_as = (path.0, SocketAddr::new(address.ip(), port));
            Some(Observed { store, path, kept_as })
        });
        if let (Some(observed), Some(connection)) = (&observed, endpoint.connection_mut(handle))
        {
            let now = SystemTime::now();
            if let Some(parameters) = observed.store.take(&observed.kept_as, now) {
                connection.set_cc_parameters(parameters, now);
            }
        }
        let waker = endpoint.waker();
        let link = Self {
            endpoint,
            handle,
            server: server.clone(),
            // Fails only if the endpoint is gone, which needs no notice.
            notify: Arc::new(move || drop(waker.wake())),
            pumps: Pumps::new(RateLimits::new(options.rate)),
            next_stream: 0,
            kept_alive: Instant::now(),
            last_seen: Transport::default(),
            observed,
            is_closed: false,
            ended: options.ended.clone(),
        };
        let (trust, deadline) = (options.trust.clone(), Instant::now() + CONNECT_TIMEOUT);
        Ok(Handshake { link, trust, deadline })
    }

    /// Makes sure that the handshake was one with the right server.
    fn check(&mut self, trust: &Trust) -> Result<(), Error> {
        let certificate = self.conn()?.peer_cert().map(<[u8]>::to_vec);
        if let Err(error) = trust.check(certificate.as_deref(), self.server.ip()) {
            self.close(CloseCode::Untrusted, "certificate not trusted");
            return Err(error);
        }
        Ok(())
    }

    fn handshake_error(&mut self, verifies: bool, reason: &CloseReason) -> Error {
        let server = self.server.to_string();
        let Some(conn) = self.endpoint.connection_mut(self.handle) else {
            return no_answer(&self.server);
        };
        let code =
            |error: &quiche::ConnectionError| (!error.is_app).then_some(error.error_code);
        let (ours, theirs) =
            (conn.local_error().and_then(code), conn.peer_error().and_then(code));
        match (ours, theirs) {
            (_, Some(NO_APPLICATION_PROTOCOL)) | (Some(NO_APPLICATION_PROTOCOL), _) => {
                Error::NotTack(server)
            }
            (Some(TLS_ALERT_FIRST..=TLS_ALERT_LAST), _) if verifies => {
                Error::Untrusted(reason.to_string())
            }
            (Some(TLS_ALERT_FIRST..=TLS_ALERT_LAST), _) | (_, Some(_)) => {
                Error::ConnectionLost { server, reason: reason.to_string(), may_pass: false }
            }
            (_, None) => no_answer(&self.server),
        }
    }

    fn hello(&mut self, token: Option<String>, rate: Option<u64>) -> Result<(), Error> {
        let Some(mailbox) = self.open()? else {
            return Err(Error::NotTack(self.server.to_string()));
        };
        mailbox.send(Message::Hello { token: token.map(Secret), rate })?;
        Ok(())
    }

    /// Makes sure that the server knows `feature`.
    pub fn require_current(&mut self, feature: Feature) -> Result<(), Error> {
        let spoken = self.conn()?.application_proto();
        // Version 2 is the last of them.
        let versions = (2..).zip(quic::ALPN.iter().rev());
        let known = versions.filter(|(version, _)| *version >= feature.version());
        if known.into_iter().any(|(_, name)| *name == spoken) {
            return Ok(());
        }
        Err(Error::TooOld { server: self.server.to_string(), feature })
    }

    /// Opens a stream for one request; `None` while the server allows no more.
    pub fn open(&mut self) -> Result<Option<Mailbox>, Error> {
        let (stream, notify) = (self.next_stream, Arc::clone(&self.notify));
        let conn = self.conn()?;
        if conn.peer_streams_left_bidi() == 0 {
            return Ok(None);
        }
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
            if let Event::Closed(_, reason) = event {
                return Err(self.closed(&reason));
            }
        }
        self.drive_pumps()?;
        if self.kept_alive.elapsed() > KEEP_ALIVE {
            self.kept_alive = Instant::now();
            self.conn()?.send_ack_eliciting()?;
        }
        Ok(self.endpoint.flush()?)
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
            };
        }
        self.last_seen
    }

    /// Closes the connection, and returns when the CONNECTION_CLOSE has left.
    pub fn close(&mut self, code: CloseCode, reason: &str) {
        self.transport();
        self.keep_cc_parameters();
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

    fn conn(&mut self) -> Result<&mut tacklib::Connection, Error> {
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

    fn closed(&mut self, reason: &CloseReason) -> Error {
        self.is_closed = true;
        self.transport();
        self.keep_cc_parameters();
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
                // Another transfer has taken over, or the two ends do not understand each other.
                may_pass: known == CloseCode::Done as u64,
            }
        }
    }
}

/// What a connection observes, and where that goes.
struct Observed {
    store: Store,
    /// What it observes.
    path: RemoteEndpoint,
    /// What the store has it for.
    kept_as: RemoteEndpoint,
}

/// A connection on its way.
struct Handshake {
    link: Link,
    trust: Trust,
    deadline: Instant,
}

impl Attempt for Handshake {
    fn advance(&mut self, wait: Duration) -> Result<bool, Error> {
        let link = &mut self.link;
        if Instant::now() >= self.deadline {
            return Err(no_answer(&link.server));
        }
        link.endpoint.poll(Some(wait))?;
        while let Some(event) = link.endpoint.next_event() {
            match event {
                Event::Connected(_) => return link.check(&self.trust).map(|()| true),
                Event::Closed(_, reason) => {
                    link.is_closed = true;
                    let verifies = matches!(self.trust.verify(), Verify::Authorities(_));
                    return Err(link.handshake_error(verifies, &reason));
                }
                _ => {}
            }
        }
        link.endpoint.flush()?;
        Ok(false)
    }
}

/// However a command ends, the server is told.
impl Drop for Link {
    fn drop(&mut self) {
        self.keep_cc_parameters();
        self.endpoint.shutdown(CloseCode::Done as u64, b"the client ended");
    }
}

fn no_answer(server: &ServerAddress) -> Error {
    Error::NoAnswer { server: server.to_string(), seconds: CONNECT_TIMEOUT.as_secs() }
}
