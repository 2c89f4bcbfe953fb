//! Endpoints: a socket, the task that drives it, and the connections on it.

use std::fmt;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tack_endpoint::runtime::EndpointCore;
use tack_endpoint::{EndpointConfig, EndpointStats};
use tokio::runtime::Handle;

use crate::connection::Connection;
use crate::driver::{Driver, clock};
use crate::shared::{Shared, State};
use crate::socket::{AsyncUdpSocket, TokioSocket};
use crate::timer::Timer;
use crate::{ConnectionError, Error};

/// A UDP socket and the QUIC connections on it, driven by a task of its own.
///
/// Clones are handles of the same endpoint. When the last one is dropped, no more connections come in,
/// those that were not accepted are closed, and those there are go on until they are over; then the task
/// ends and the socket is closed, whatever handles of connections and streams are left.
#[derive(Clone)]
pub struct Endpoint(Arc<EndpointRef>);

struct EndpointRef {
    shared: Arc<Shared>,
    local: SocketAddr,
}

impl Drop for EndpointRef {
    fn drop(&mut self) {
        self.shared.with(State::abandon);
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.0.local).finish()
    }
}

impl Endpoint {
    /// Opens an endpoint that accepts connections with `config`, and makes some, too.
    ///
    /// Fails if the address cannot be used, and outside of a tokio runtime.
    pub fn server(
        address: SocketAddr,
        config: tacklib::Config,
        endpoint: EndpointConfig,
    ) -> Result<Self, Error> {
        Self::bind(address, Some(config), endpoint)
    }

    /// Opens an endpoint that makes connections and accepts none. `local` is usually `0.0.0.0:0` or
    /// `[::]:0`; the latter reaches both IP versions on most systems.
    ///
    /// Fails if the address cannot be used, and outside of a tokio runtime.
    pub fn client(local: SocketAddr, endpoint: EndpointConfig) -> Result<Self, Error> {
        Self::bind(local, None, endpoint)
    }

    /// Opens an endpoint on an address; it accepts connections if there is a configuration for these.
    ///
    /// Fails if the address cannot be used, and outside of a tokio runtime.
    pub fn bind(
        address: SocketAddr,
        server: Option<tacklib::Config>,
        endpoint: EndpointConfig,
    ) -> Result<Self, Error> {
        // tokio panics where it has no runtime to register the socket with.
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let socket = TokioSocket::bind(address, &endpoint)?;
        let timer = Timer::of_system(clock());
        Self::start(&runtime, Box::new(socket), timer, server, endpoint)
    }

    /// Puts an endpoint on a socket of another kind. Its timer is tokio's, which follows a clock that is
    /// paused; quiche reads the system's.
    ///
    /// Fails outside of a tokio runtime.
    pub fn with_socket(
        socket: Box<dyn AsyncUdpSocket>,
        server: Option<tacklib::Config>,
        endpoint: EndpointConfig,
    ) -> Result<Self, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        Self::start(&runtime, socket, Timer::of_tokio(clock()), server, endpoint)
    }

    fn start(
        runtime: &Handle,
        socket: Box<dyn AsyncUdpSocket>,
        timer: Timer,
        server: Option<tacklib::Config>,
        endpoint: EndpointConfig,
    ) -> Result<Self, Error> {
        let max_incoming = endpoint.max_connections;
        let deadline_error = server.as_ref().map_or(0, |config| config.tack().deadline_error);
        let core = EndpointCore::new(socket, server, endpoint, clock())?;
        let local = core.local_addr();
        let shared = Arc::new(Shared::new(core, max_incoming, deadline_error));
        runtime.spawn(Driver::new(Arc::clone(&shared), timer));
        Ok(Self(Arc::new(EndpointRef { shared, local })))
    }

    /// Begins a connection to a server. `name` is the host name that the server's certificate must be
    /// for. The configuration is free again when this returns.
    ///
    /// Fails if the address is of another IP version than the socket's, if quiche does not take the
    /// configuration, and once the endpoint is closed.
    pub fn connect(
        &self,
        server: SocketAddr,
        name: Option<&str>,
        config: &mut tacklib::Config,
    ) -> Result<Connecting, Error> {
        self.begin(server, name, config, None)
    }

    /// Begins a connection to a server and resumes a session of an earlier one to it
    /// ([`Connection::session`]), which saves the server its certificate and, if the configurations of both ends
    /// enable early data, the client a round trip: see [`Connecting::into_early_data`]. A server that does not take
    /// the session makes an ordinary handshake. Otherwise as [`connect`](Self::connect).
    ///
    /// Fails with [`Error::Session`] if these bytes are no session.
    pub fn connect_with_session(
        &self,
        server: SocketAddr,
        name: Option<&str>,
        config: &mut tacklib::Config,
        session: &[u8],
    ) -> Result<Connecting, Error> {
        self.begin(server, name, config, Some(session))
    }

    fn begin(
        &self,
        server: SocketAddr,
        name: Option<&str>,
        config: &mut tacklib::Config,
        session: Option<&[u8]>,
    ) -> Result<Connecting, Error> {
        let shared = &self.0.shared;
        let (handle, signals) = shared.with(|state, effects| {
            if let Some(failure) = &state.failure {
                return Err(Error::Stopped(failure.clone()));
            }
            let handle = state.core.connect(clock(), server, name, config)?;
            // Whatever becomes of it, the driver has something to do.
            state.wake_driver(effects);
            if let Some(session) = session {
                resume(&mut state.core, handle, session)?;
            }
            let deadline_error = config.tack().deadline_error;
            let signals = &state.insert_outgoing(handle, deadline_error).signals;
            Ok((handle, Arc::clone(signals)))
        })?;
        Ok(Connecting::new(Connection::new(Arc::clone(shared), handle, signals)))
    }

    /// Accepts the next connection; `None` once the endpoint is closed, or has failed, which
    /// [`failure`](Self::failure) tells.
    ///
    /// Its handshake is complete, unless the server's configuration enables early data
    /// ([`enable_early_data`](tacklib::quiche::Config::enable_early_data)): then a connection is accepted as soon as
    /// early data has come, which an attacker may have recorded and sent again.
    /// [`Connection::is_in_early_data`] tells that, and [`Connection::handshake_completed`] waits until it is over.
    ///
    /// Cancellation safe: a connection is taken only when this returns it. At most
    /// [`EndpointConfig::max_connections`] wait to be accepted; others are closed with code 0.
    pub async fn accept(&self) -> Option<Connection> {
        let shared = &self.0.shared;
        loop {
            let mut incoming = pin!(shared.incoming.notified());
            incoming.as_mut().enable();
            let next = shared.with(|state, _| {
                let next = state.accept().map(|(handle, it)| (handle, Arc::clone(&it.signals)));
                if next.is_none() && state.is_accepting() {
                    return Poll::Pending;
                }
                Poll::Ready(next)
            });
            if let Poll::Ready(next) = next {
                return next.map(|(handle, signals)| {
                    Connection::new(Arc::clone(shared), handle, signals)
                });
            }
            incoming.await;
        }
    }

    /// Closes all connections at once with an error code of the application, and takes no more. What was
    /// not delivered is lost. [`wait_idle`](Self::wait_idle) waits until the peers have been told.
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.0.shared.with(|state, effects| state.close(code, reason, effects));
    }

    /// Waits until no connection is left, not even one that is closing: a peer that has missed the
    /// CONNECTION_CLOSE gets it again until then (RFC 9000 section 10.2). That takes three probe timeouts
    /// after a close, and as long as the last connection lasts otherwise. Cancellation safe.
    pub async fn wait_idle(&self) {
        let shared = &self.0.shared;
        loop {
            let mut idle = pin!(shared.idle.notified());
            idle.as_mut().enable();
            if shared.with(|state, _| state.is_idle()) {
                return;
            }
            idle.await;
        }
    }

    /// Why the endpoint does not work any more: its socket has failed for good, or its runtime has ended. `None` while
    /// it works, and after an ordinary end.
    pub fn failure(&self) -> Option<ConnectionError> {
        self.0.shared.with(|state, _| state.failure.clone())
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local
    }

    /// What the endpoint has counted so far.
    pub fn stats(&self) -> EndpointStats {
        self.0.shared.with(|state, _| state.core.stats())
    }
}

/// Has a connection that was begun resume a session, or ends it.
fn resume(
    core: &mut EndpointCore<Box<dyn AsyncUdpSocket>>,
    handle: tack_endpoint::Handle,
    session: &[u8],
) -> Result<(), Error> {
    let Some(connection) = core.connection_mut(handle) else { return Ok(()) };
    connection.set_session(session).map_err(|error| {
        // `Done` says that it is closed already.
        let _ = connection.close(false, 0, b"");
        Error::Session(error)
    })
}

type Handshake = Pin<Box<dyn Future<Output = Result<Connection, ConnectionError>> + Send>>;

/// A connection that is being made: a future that ends with it. Dropping it closes the connection.
///
/// A connection that was made and is over when this is polled is there all the same: what came on it can be accepted
/// and read.
#[must_use = "the connection is closed again if it is not waited for"]
pub struct Connecting {
    /// Until it is handed over.
    connection: Option<Connection>,
    handshake: Handshake,
}

impl Connecting {
    fn new(connection: Connection) -> Self {
        let waiting = connection.clone();
        let handshake = Box::pin(async move {
            waiting.handshake_completed().await?;
            Ok(waiting)
        });
        Self { connection: Some(connection), handshake }
    }

    /// Waits until data can be written, and returns the connection: at once where the session of
    /// [`Endpoint::connect_with_session`] and the configuration permit early data (0-RTT), as
    /// [`Connection::is_in_early_data`] tells, or else when the handshake is complete.
    ///
    /// Early data can be recorded by an attacker and sent to the server again (RFC 9001 section 9.2): write only what
    /// may be done twice before [`Connection::handshake_completed`]. Where the server refuses it, the connection
    /// sends it again after the handshake.
    pub async fn into_early_data(mut self) -> Result<Connection, ConnectionError> {
        // A future that has ended must not be polled again, and says so.
        let Some(connection) = self.connection.take() else { return self.await };
        connection.usable().await?;
        Ok(connection)
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = self.handshake.as_mut().poll(cx);
        if poll.is_ready() {
            // Only what the application is given keeps it open now.
            self.connection = None;
        }
        poll
    }
}
