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
        let core = EndpointCore::new(socket, server, endpoint, clock())?;
        let local = core.local_addr();
        let shared = Arc::new(Shared::new(core, max_incoming));
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
        let shared = &self.0.shared;
        let (handle, signals) = shared.with(|state, effects| {
            if let Some(failure) = &state.failure {
                return Err(Error::Stopped(failure.clone()));
            }
            let handle = state.core.connect(clock(), server, name, config)?;
            let signals = Arc::clone(&state.insert_outgoing(handle).signals);
            state.wake_driver(effects);
            Ok((handle, signals))
        })?;
        let connection = Connection::new(Arc::clone(shared), handle, signals);
        Ok(Connecting(Box::pin(connection.established())))
    }

    /// Accepts the next connection; `None` once the endpoint is closed or has failed.
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

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local
    }

    /// What the endpoint has counted so far.
    pub fn stats(&self) -> EndpointStats {
        self.0.shared.with(|state, _| state.core.stats())
    }
}

/// A connection that is being made: a future that ends with it. Dropping it closes the connection.
#[must_use = "the connection is closed again if it is not waited for"]
pub struct Connecting(
    Pin<Box<dyn Future<Output = Result<Connection, ConnectionError>> + Send>>,
);

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}
