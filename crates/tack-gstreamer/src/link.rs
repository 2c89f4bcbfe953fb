//! An endpoint that has connected, or waits for who connects.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tack_endpoint::certificate::Fingerprint;
use tack_endpoint::{CloseReason, Endpoint, EndpointConfig, Event, Handle, Waker};
use tacklib::Config;

use crate::error::Error;
use crate::settings::{Mode, Settings};
use crate::transport::{DONE, Direction, UNTRUSTED, configure};
use crate::trust::Trust;

/// Peers of a listener at once, half-open ones included.
const MOST_PEERS: usize = 64;
/// How long an address may take to answer while there are others of the host's.
const ONE_OF_SEVERAL: Duration = Duration::from_secs(2);
/// A receiver sends a PING after so long without a packet from the sender.
const SILENCE: Duration = Duration::from_millis(500);
/// Addresses of a host that are tried.
const MOST_ADDRESSES: usize = 8;

/// What has happened.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A peer is there, and its certificate is good.
    Connected(Handle),
    /// It is gone. `Ok` if it says that nothing is wrong.
    Closed(Handle, Result<(), Error>),
    /// The listener that was called cannot be reached or trusted.
    Failed(Error),
}

/// What wakes a [`Link`] that waits, once there is one.
#[derive(Clone, Default)]
pub(crate) struct WakerSlot(Arc<Mutex<Option<Waker>>>);

impl WakerSlot {
    /// Makes the link return from its wait. False if there is no link yet.
    pub fn wake(&self) -> bool {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It fails if the endpoint is gone, which needs no waking.
        slot.as_ref().map(Waker::wake).is_some()
    }

    fn set(&self, waker: Waker) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }
}

/// A caller's connection, or a listener's.
pub(crate) struct Link {
    endpoint: Endpoint,
    waker: WakerSlot,
    caller: Option<Caller>,
    fingerprint: Option<Fingerprint>,
    /// The connection that this end has given up: it is no event any more.
    given_up: Option<Handle>,
}

struct Caller {
    config: Config,
    options: EndpointConfig,
    trust: Trust,
    name: Option<String>,
    /// The host, if it is an address.
    address: Option<IpAddr>,
    current: SocketAddr,
    handle: Handle,
    others: VecDeque<SocketAddr>,
}

impl Link {
    /// Opens the endpoint, and begins to connect if this is a caller. Finding the host's addresses may take some
    /// seconds.
    pub fn open(
        settings: &Settings,
        direction: Direction,
        waker: WakerSlot,
    ) -> Result<Self, Error> {
        let quic = configure(settings, direction)?;
        let mut addresses = resolve(settings)?;
        let first = addresses.pop_front().ok_or_else(|| Error::Resolve {
            host: settings.host.clone(),
            why: "it has none".to_owned(),
        })?;
        if settings.mode == Mode::Listener {
            let mut config = endpoint_config(direction);
            config.max_connections = MOST_PEERS;
            let endpoint = Endpoint::server(first, quic.config, config)?;
            waker.set(endpoint.waker());
            let fingerprint = quic.fingerprint;
            return Ok(Self { endpoint, waker, caller: None, fingerprint, given_up: None });
        }
        let address = settings.host.parse().ok();
        let name = settings.server_name.clone();
        let name = name.or_else(|| address.is_none().then(|| settings.host.clone()));
        // A name that is asked for takes the place of the address.
        let address = address.filter(|_| name.is_none());
        let trust = Trust::from_settings(settings).map_err(Error::Settings)?;
        let mut config = quic.config;
        let options = endpoint_config(direction);
        let (endpoint, handle) =
            call(first, name.as_deref(), &mut config, options.clone(), !addresses.is_empty())?;
        let caller = Caller {
            config,
            options,
            trust,
            name,
            address,
            current: first,
            handle,
            others: addresses,
        };
        waker.set(endpoint.waker());
        Ok(Self { endpoint, waker, caller: Some(caller), fingerprint: None, given_up: None })
    }

    /// The fingerprint of a listener's certificate.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// The port of a listener.
    pub fn listening_port(&self) -> Option<u16> {
        self.caller.is_none().then(|| self.endpoint.local_addr().port())
    }

    /// A connection, to read and write.
    pub fn connection_mut(&mut self, handle: Handle) -> Option<&mut tacklib::Connection> {
        self.endpoint.connection_mut(handle)
    }

    /// A connection, to look at.
    pub fn connection(&self, handle: Handle) -> Option<&tacklib::Connection> {
        self.endpoint.connection(handle)
    }

    /// Sends, waits until something happens or for so long, and receives.
    pub fn poll(&mut self, wait: Duration) -> Result<Vec<LinkEvent>, Error> {
        self.endpoint.poll(Some(wait))?;
        let mut events = Vec::new();
        while let Some(event) = self.endpoint.next_event() {
            match event {
                Event::Connected(handle) => events.push(self.on_connected(handle)),
                Event::Closed(handle, _) if self.given_up == Some(handle) => {}
                Event::Closed(handle, reason) => match self.on_closed(handle, &reason) {
                    Some(event) => events.push(event),
                    // Another address is tried, at another endpoint: this one has no more.
                    None => break,
                },
                _ => {}
            }
        }
        Ok(events)
    }

    /// Connects a caller to its listener once more; a listener goes on. The connection before is closed, which is no
    /// event, and the close is repeated for so long to a peer that misses it.
    pub fn reconnect(&mut self, reason: &[u8], longest: Duration) -> Result<(), Error> {
        if self.caller.is_some() {
            self.shut_down(reason, longest);
        }
        let Some(caller) = &mut self.caller else { return Ok(()) };
        let (name, options) = (caller.name.as_deref(), caller.options.clone());
        let (endpoint, handle) =
            call(caller.current, name, &mut caller.config, options, false)?;
        caller.handle = handle;
        self.waker.set(endpoint.waker());
        self.endpoint = endpoint;
        Ok(())
    }

    /// Closes one connection. What happens to it then is no event any more.
    pub fn close(&mut self, handle: Handle, code: u64, reason: &[u8]) {
        if let Some(connection) = self.endpoint.connection_mut(handle) {
            // `Done` only says that it was closed already.
            let _ = connection.close(true, code, reason);
        }
    }

    /// Closes all connections, and repeats that for so long to peers that miss it.
    pub fn shut_down(&mut self, reason: &[u8], longest: Duration) {
        self.endpoint.shutdown(DONE, reason);
        for _ in 0..16 {
            if self.endpoint.is_idle() || self.endpoint.poll(Some(longest / 16)).is_err() {
                return;
            }
            while self.endpoint.next_event().is_some() {}
        }
    }

    fn on_connected(&mut self, handle: Handle) -> LinkEvent {
        let (Some(caller), Some(connection)) =
            (&self.caller, self.endpoint.connection_mut(handle))
        else {
            return LinkEvent::Connected(handle);
        };
        match caller.trust.check(connection.peer_cert(), caller.address) {
            Ok(()) => LinkEvent::Connected(handle),
            Err(why) => {
                let _ = connection.close(true, UNTRUSTED, b"the certificate is not trusted");
                self.given_up = Some(handle);
                LinkEvent::Failed(Error::Untrusted { peer: caller.current.to_string(), why })
            }
        }
    }

    /// `None` if the next address of the host is tried.
    fn on_closed(&mut self, handle: Handle, reason: &CloseReason) -> Option<LinkEvent> {
        let connection = self.endpoint.connection(handle);
        let peer = self.peer(handle);
        let (CloseReason::HandshakeFailed(why), Some(caller)) = (reason, &mut self.caller)
        else {
            return Some(LinkEvent::Closed(handle, closed(peer, reason)));
        };
        let own_code = connection.and_then(tacklib::Connection::local_error);
        if own_code.is_some_and(|error| is_about_certificate(error.error_code)) {
            let error = Error::Untrusted { peer, why: why.clone() };
            return Some(LinkEvent::Failed(error));
        }
        while let Some(next) = caller.others.pop_front() {
            let more = !caller.others.is_empty();
            gst::info!(crate::CAT, "{}: {why}; trying {next}", caller.current);
            if let Ok((endpoint, handle)) = call(
                next,
                caller.name.as_deref(),
                &mut caller.config,
                caller.options.clone(),
                more,
            ) {
                (caller.current, caller.handle) = (next, handle);
                self.waker.set(endpoint.waker());
                self.endpoint = endpoint;
                return None;
            }
        }
        Some(LinkEvent::Failed(Error::Unreachable { peer, why: why.clone() }))
    }

    /// The present address of a peer, for messages and statistics.
    pub fn peer(&self, handle: Handle) -> String {
        if let Some(caller) = &self.caller {
            return caller.current.to_string();
        }
        let connection = self.endpoint.connection(handle);
        // Paths that a peer has left stay in the list.
        let active = connection.and_then(|connection| {
            connection.path_stats().find(|path| path.active).map(|path| path.peer_addr)
        });
        active.map_or_else(|| handle.to_string(), |address| address.to_string())
    }
}

fn endpoint_config(direction: Direction) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.keep_alive = (direction == Direction::Receive).then_some(SILENCE);
    config
}

fn resolve(settings: &Settings) -> Result<VecDeque<SocketAddr>, Error> {
    let host = settings.host.as_str();
    let port = u16::try_from(settings.port)
        .map_err(|_| Error::Settings(format!("{} is no port", settings.port)))?;
    if port == 0 && settings.mode == Mode::Caller {
        return Err(Error::Settings("set `port` to the UDP port of the listener".to_owned()));
    }
    let addresses = (settings.resolve)(host, port);
    let addresses =
        addresses.map_err(|e| Error::Resolve { host: host.to_owned(), why: e.to_string() })?;
    Ok(addresses.into_iter().take(MOST_ADDRESSES).collect())
}

fn call(
    to: SocketAddr,
    name: Option<&str>,
    config: &mut Config,
    mut options: EndpointConfig,
    has_others: bool,
) -> Result<(Endpoint, Handle), Error> {
    let local: SocketAddr = if to.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    if has_others {
        options.handshake_timeout = ONE_OF_SEVERAL;
    }
    let mut endpoint = Endpoint::client(local, options)?;
    let handle = endpoint.connect(to, name, config)?;
    Ok((endpoint, handle))
}

/// TLS alerts about certificates: bad_certificate to certificate_unknown, and unknown_ca (RFC 8446 section 6).
fn is_about_certificate(code: u64) -> bool {
    matches!(code, 0x12a..=0x12e | 0x130)
}

fn closed(peer: String, reason: &CloseReason) -> Result<(), Error> {
    match reason {
        CloseReason::Local { application: true, code: DONE, .. }
        | CloseReason::Peer { application: true, code: DONE, .. } => Ok(()),
        other => Err(Error::Lost { peer, why: other.to_string() }),
    }
}
