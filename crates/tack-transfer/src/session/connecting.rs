//! How a client connects, and makes sure that it has reached the right server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tack_endpoint::{CloseReason, Endpoint, Event, Handle};

use super::client::{ConnectOptions, EarlyData, KeptSession, Link, Observed, Transport};
use super::pumps::Pumps;
use super::race::{Attempt, race};
use super::rate_limit::RateLimits;
use super::silence::Silence;
use super::strangers::{MAX_UNHEARD, MAX_UNHEARD_BEHIND_HANDSHAKE};
use super::trust::Trust;
use crate::cc_parameters::remote_endpoint;
use crate::error::Error;
use crate::pin::Pin;
use crate::protocol::{Message, Secret};
use crate::quic::{self, CloseCode, FEWER_ROUND_TRIPS, Verify};
use crate::server_address::ServerAddress;
use crate::tls_sessions::TlsSession;

/// A client sends a PING after so long without a packet from the server: a download goes on when the client's address
/// or its NAT's port has changed, and the connection survives a disk that is busy for longer than the idle timeout.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// How long to wait for an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The same where early data went to one of several addresses: the next attempt tries them all.
const EARLY_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the host has to say that the port is closed: the second packet leaves a third of a second after the first,
/// and a server that was just being started may be there by then.
const REFUSALS: u64 = 2;

/// With so many bytes more of early data a server may answer with the ten packets with which every sender begins (RFC 9002
/// section 7.2), and not with three.
const EARLY_FILLER: usize = 3 * 1200;

// TLS alerts as QUIC error codes (RFC 9001 section 4.8).
const TLS_ALERT_FIRST: u64 = 0x100;
const TLS_ALERT_LAST: u64 = 0x1ff;
const NO_APPLICATION_PROTOCOL: u64 = 0x178;

/// BoringSSL's `ssl_early_data_accepted`.
const EARLY_DATA_ACCEPTED: u32 = 2;

/// What is known of a connection whose handshake is not complete.
pub(super) struct Unproven {
    trust: Trust,
    pin: Option<Pin>,
    deadline: Instant,
    /// Requests leave before there is an answer.
    is_early: bool,
    /// The host has other addresses.
    has_others: bool,
}

impl Link {
    /// Connects to `server`, makes sure that it is the right server, and says the token.
    ///
    /// Where a session can be resumed, nothing waits for the server, and [`turn`](Self::turn) tells what has failed.
    pub fn connect(server: &ServerAddress, mut options: ConnectOptions) -> Result<Self, Error> {
        let stop = options.stop.clone();
        let is_over = || stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        let addresses = server.resolve()?;
        let kept = || kept_session(server, &options);
        let take = |kept: KeptSession| kept.store.take(kept.owner, SystemTime::now());
        let mut resumable = options.session.clone().or_else(|| kept().and_then(take));
        let has_others = addresses.len() > 1;
        let begin = |address| {
            let mut link = Self::begin(server, address, &mut options, has_others)?;
            let session = resumable.take_if(|session| session.address == address);
            let resumes = session.is_some_and(|session| link.resume(&session));
            Ok(Handshake { link, resumes })
        };
        let won = race(&addresses, begin, is_over);
        let mut link =
            won.map_err(|failure| failure.unwrap_or_else(|| no_answer(server)))?.link;
        let Some(mailbox) = link.open()? else {
            return Err(Error::NotTack(link.server.to_string()));
        };
        let (token, rate) = (options.token.map(Secret), options.rate);
        let is_early = link.unproven.as_ref().is_some_and(|unproven| unproven.is_early);
        let has_filler = is_early && link.protocol_version()? >= FEWER_ROUND_TRIPS;
        let filler = has_filler.then(|| "-".repeat(EARLY_FILLER));
        mailbox.send(Message::Hello { token, rate, filler })?;
        Ok(link)
    }

    /// Begins to connect to one of the host's addresses.
    fn begin(
        server: &ServerAddress,
        address: SocketAddr,
        options: &mut ConnectOptions,
        has_others: bool,
    ) -> Result<Self, Error> {
        let pin = options.trust.pin();
        let verify = pin.as_ref().map_or_else(|| options.trust.verify(), Verify::Pinned);
        let mut config = quic::client_config(options.profile, verify)?;
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
        let mut settings = quic::endpoint_config(options.qlog.as_deref())?;
        settings.count_refusals = true;
        settings.keep_alive = Some(KEEP_ALIVE);
        let mut endpoint = Endpoint::client(SocketAddr::new(local, 0), settings)?;
        // RFC 6066 section 3: an address is no server name.
        let name = server.ip().is_none().then_some(server.host());
        let handle = endpoint.connect(address, name, &mut config)?;
        let observed = prepare(&mut endpoint, handle, address, options);
        let waker = endpoint.waker();
        Ok(Self {
            endpoint,
            handle,
            server: server.clone(),
            // Fails only if the endpoint is gone, which needs no notice.
            notify: Arc::new(move || drop(waker.wake())),
            pumps: Pumps::new(RateLimits::new(options.rate).unheard(MAX_UNHEARD)),
            next_stream: 0,
            last_seen: Transport::default(),
            observed,
            session: kept_session(server, options),
            unproven: Some(Unproven {
                trust: options.trust.clone(),
                pin,
                deadline: Instant::now() + CONNECT_TIMEOUT,
                is_early: false,
                has_others,
            }),
            silence: has_others.then(Silence::default),
            is_closed: false,
            ended: options.ended.clone(),
        })
    }

    /// Resumes a session, if it is one.
    fn resume(&mut self, session: &TlsSession) -> bool {
        self.conn().is_ok_and(|connection| connection.set_session(&session.bytes).is_ok())
    }

    /// Whether requests may leave though no answer has come.
    fn begins_early(&mut self) -> Result<bool, Error> {
        // Writes the first packet, and nothing is ready before it.
        self.endpoint.poll(Some(Duration::ZERO))?;
        if !self.conn()?.is_in_early_data() {
            return Ok(false);
        }
        self.check_certificate()?;
        if let Some(unproven) = &mut self.unproven {
            unproven.is_early = true;
            if unproven.has_others {
                unproven.deadline = Instant::now() + EARLY_TIMEOUT;
            }
        }
        Ok(true)
    }

    /// What the endpoint tells. An error means that the connection is over.
    pub(super) fn on_event(&mut self, event: &Event) -> Result<(), Error> {
        match event {
            Event::Connected(_) => self.on_handshake(),
            Event::Closed(_, reason) => Err(self.closed(reason)),
            _ => Ok(()),
        }
    }

    /// Makes sure that the handshake was one with the right server.
    fn on_handshake(&mut self) -> Result<(), Error> {
        self.check_certificate()?;
        if self.unproven.take().is_some_and(|unproven| unproven.is_early) {
            let conn = self.conn()?;
            // quiche repeats early data that was refused once it takes it for lost: when something later is
            // acknowledged, and that is asked for here.
            conn.send_ack_eliciting()?;
            let is_accepted = conn.early_data_reason() == EARLY_DATA_ACCEPTED;
            self.last_seen.early_data =
                Some(if is_accepted { EarlyData::Accepted } else { EarlyData::Refused });
            if is_accepted {
                self.pumps.limits.extend_unheard(MAX_UNHEARD_BEHIND_HANDSHAKE - MAX_UNHEARD);
            }
        }
        Ok(())
    }

    /// Looks at the certificate, which is that of the resumed session if there is one.
    fn check_certificate(&mut self) -> Result<(), Error> {
        let certificate = self.conn()?.peer_cert().map(<[u8]>::to_vec);
        let Some(unproven) = &self.unproven else { return Ok(()) };
        let checked = unproven.trust.check(certificate.as_deref(), self.server.ip());
        if checked.is_err() {
            self.session = None;
            self.close(CloseCode::Untrusted, "certificate not trusted");
        }
        checked
    }

    /// Makes sure that an answer does not take too long.
    pub(super) fn check_answer(&self) -> Result<(), Error> {
        let Some(unproven) = &self.unproven else { return Ok(()) };
        if self.endpoint.stats().refusals >= REFUSALS {
            return Err(Error::Refused { server: self.server.to_string() });
        }
        if Instant::now() < unproven.deadline {
            return Ok(());
        }
        if unproven.is_early && unproven.has_others {
            let reason = "no answer from the first of its addresses".to_owned();
            let server = self.server.to_string();
            return Err(Error::ConnectionLost { server, reason, may_pass: true });
        }
        Err(no_answer(&self.server))
    }

    /// Why a connection has ended in its handshake.
    pub(super) fn handshake_error(
        &mut self,
        unproven: &Unproven,
        reason: &CloseReason,
    ) -> Error {
        if let Some((expected, actual)) = unproven.pin.as_ref().and_then(Pin::mismatch) {
            return Error::WrongFingerprint { expected, actual };
        }
        let server = self.server.to_string();
        let Some(conn) = self.endpoint.connection_mut(self.handle) else {
            return no_answer(&self.server);
        };
        let code =
            |error: &quiche::ConnectionError| (!error.is_app).then_some(error.error_code);
        let (ours, theirs) =
            (conn.local_error().and_then(code), conn.peer_error().and_then(code));
        let verifies = !matches!(unproven.trust.verify(), Verify::Later);
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
}

/// Gives a new connection what it has to have before its first packet. Returns where its observations go.
fn prepare(
    endpoint: &mut Endpoint,
    handle: Handle,
    address: SocketAddr,
    options: &mut ConnectOptions,
) -> Option<Observed> {
    let connection = endpoint.connection_mut(handle)?;
    if let Some(key_log) = options.key_log.take() {
        connection.set_keylog(key_log);
    }
    let store = options.cc_parameters.clone()?;
    let port = if options.port_varies { 0 } else { address.port() };
    let path = remote_endpoint(address)?;
    let kept_as = (path.0, SocketAddr::new(address.ip(), port));
    let now = SystemTime::now();
    if let Some(parameters) = store.take(&kept_as, now) {
        connection.set_cc_parameters(parameters, now);
    }
    Some(Observed { store, path, kept_as })
}

/// Whose session a connection has, if sessions are kept.
fn kept_session(server: &ServerAddress, options: &ConnectOptions) -> Option<KeptSession> {
    let (store, owner) = (options.sessions.clone()?, options.trust.session_owner(server)?);
    Some(KeptSession { store, owner })
}

/// A connection on its way.
struct Handshake {
    link: Link,
    /// It has a session, and early data may be possible.
    resumes: bool,
}

impl Attempt for Handshake {
    fn advance(&mut self, wait: Duration) -> Result<bool, Error> {
        let link = &mut self.link;
        if std::mem::take(&mut self.resumes) && link.begins_early()? {
            return Ok(true);
        }
        link.check_answer()?;
        link.endpoint.poll(Some(wait))?;
        while let Some(event) = link.endpoint.next_event() {
            link.on_event(&event)?;
            if link.unproven.is_none() {
                return Ok(true);
            }
        }
        link.endpoint.flush()?;
        Ok(false)
    }
}

fn no_answer(server: &ServerAddress) -> Error {
    Error::NoAnswer { server: server.to_string(), seconds: CONNECT_TIMEOUT.as_secs() }
}
