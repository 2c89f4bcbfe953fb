//! Connections.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use tack_endpoint::runtime::EndpointCore;
use tacklib::quiche;
use tacklib::{MediaStats, TackStats};
use tokio::sync::Notify;

use crate::connection_state::ConnectionState;
use crate::effects::{Effects, Signals};
use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;
use crate::shared::{ConnectionParts, Shared};
use crate::socket::AsyncUdpSocket;
use crate::stream_deadlines::StreamDeadlines;
use crate::stream_id::{Direction, StreamId};
use crate::{ConnectionError, WriteError};

/// A QUIC connection.
///
/// Clones are handles of the same connection, and so are its streams. When the last handle is dropped, the
/// connection is closed with the error code 0, and what was not delivered is lost:
/// [`SendStream::stopped`] tells when a stream is.
#[derive(Clone)]
pub struct Connection(pub(crate) Arc<ConnectionRef>);

/// What the handles of one connection have in common.
pub(crate) struct ConnectionRef {
    shared: Arc<Shared>,
    handle: tack_endpoint::Handle,
    signals: Arc<Signals>,
}

impl Drop for ConnectionRef {
    fn drop(&mut self) {
        self.shared.with(|state, effects| state.abandon_connection(self.handle, effects));
    }
}

/// The connection while the lock is held.
pub(crate) struct Access<'a> {
    pub(crate) state: &'a mut ConnectionState,
    pub(crate) core: &'a mut EndpointCore<Box<dyn AsyncUdpSocket>>,
    pub(crate) handle: tack_endpoint::Handle,
    pub(crate) effects: &'a mut Effects,
    deadlines: &'a mut StreamDeadlines,
    has_written: bool,
}

impl Access<'_> {
    /// The connection, to look at it.
    pub(crate) fn look(&self) -> Option<&tacklib::Connection> {
        self.state.look(self.core, self.handle)
    }

    /// The connection, to read or write: the driver sends afterwards.
    pub(crate) fn touch(&mut self) -> Option<&mut tacklib::Connection> {
        self.has_written = true;
        self.state.touch(self.core, self.handle)
    }

    /// Sets urgency and `incremental` of a stream.
    pub(crate) fn set_priority(
        &mut self,
        id: StreamId,
        priority: (u8, bool),
    ) -> Result<(), WriteError> {
        self.has_written = true;
        self.state.set_priority(self.core, self.handle, id, priority)
    }

    /// Whether the deadline of a stream has passed before it was finished. It is reset then.
    pub(crate) fn has_expired(&mut self, id: StreamId) -> bool {
        self.has_written = true;
        self.state.has_expired(self.core, self.handle, id, self.effects)
    }

    /// Has the driver give a stream up if it is not finished at its deadline.
    pub(crate) fn set_deadline(&mut self, id: StreamId, deadline: Option<Instant>) {
        let is_open = self.state.stream(id).is_some_and(|stream| stream.is_open());
        let new = deadline.filter(|_| is_open);
        let old = self.state.replace_deadline(id, new);
        self.deadlines.replace((self.handle, id), old, new);
    }

    /// The end of a stream was read, or its reset.
    pub(crate) fn on_read_to_end(&mut self, id: StreamId) {
        self.state.on_read_to_end(self.core, self.handle, id, self.effects);
    }
}

impl ConnectionRef {
    /// Works on the connection under the lock. Fails if the endpoint has lost it.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut Access<'_>) -> T,
    ) -> Result<T, ConnectionError> {
        self.shared.with(|shared, effects| {
            let failure = shared.failure.clone();
            let Some(parts) = shared.connection(self.handle) else {
                return Err(failure.unwrap_or(ConnectionError::EndpointStopped));
            };
            let ConnectionParts { state, core, deadlines } = parts;
            let (handle, has_written) = (self.handle, false);
            let mut access = Access { state, core, handle, effects, deadlines, has_written };
            let result = work(&mut access);
            if access.has_written {
                shared.wake_driver(effects);
            }
            Ok(result)
        })
    }

    /// Tries until `attempt` is ready; tries again after each signal. A future that is dropped has
    /// changed nothing, as an attempt that is pending has not.
    pub(crate) async fn wait<T>(
        &self,
        signal: fn(&Signals) -> &Notify,
        mut attempt: impl FnMut(&mut Access<'_>) -> Poll<Result<T, ConnectionError>>,
    ) -> Result<T, ConnectionError> {
        loop {
            // Listens before it looks: nothing is missed between the two.
            let mut signalled = pin!(signal(&self.signals).notified());
            signalled.as_mut().enable();
            if let Poll::Ready(result) = self.with(&mut attempt)? {
                return result;
            }
            signalled.await;
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.0.handle).finish()
    }
}

impl Connection {
    pub(crate) fn new(
        shared: Arc<Shared>,
        handle: tack_endpoint::Handle,
        signals: Arc<Signals>,
    ) -> Self {
        Self(Arc::new(ConnectionRef { shared, handle, signals }))
    }

    /// Waits until the handshake is complete. Fails if the connection is over before; what was exchanged on one
    /// that is over since can still be accepted and read.
    ///
    /// The peer may have sent early data before that, which anybody may have repeated (RFC 9001 section 9.2): see
    /// [`is_in_early_data`](Self::is_in_early_data). Cancellation safe.
    pub async fn handshake_completed(&self) -> Result<(), ConnectionError> {
        self.wait_for_state(|state| state.is_established).await
    }

    /// Waits until data can be exchanged: early, or when the handshake is complete.
    pub(crate) async fn usable(&self) -> Result<(), ConnectionError> {
        self.wait_for_state(|state| state.is_established || state.had_early_data).await
    }

    async fn wait_for_state(
        &self,
        is_reached: fn(&ConnectionState) -> bool,
    ) -> Result<(), ConnectionError> {
        // The end may have come before this looks, and does not undo what was reached.
        let reached = |access: &mut Access<'_>| match access.state.check() {
            _ if is_reached(access.state) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
            Ok(()) => Poll::Pending,
        };
        self.0.wait(|signals| &signals.state, reached).await
    }

    /// Whether the handshake is not complete, and data is exchanged in spite of that (0-RTT, RFC 9001 section 4.6):
    /// where the configurations of both ends enable early data, and the client resumes a session.
    ///
    /// What a server reads then may be a copy of what the client has sent before: an attacker can record early data
    /// and send it again. Do nothing for it that must not be done twice before
    /// [`handshake_completed`](Self::handshake_completed).
    pub fn is_in_early_data(&self) -> bool {
        let is_early = |connection: &tacklib::Connection| {
            connection.is_in_early_data() && !connection.is_established()
        };
        self.look(is_early).unwrap_or_default()
    }

    /// The session that a later connection to the same server can resume with
    /// [`Endpoint::connect_with_session`](crate::Endpoint::connect_with_session), on a client. It comes after the
    /// handshake, often with the server's first data; `None` until then. It holds secrets of the connection.
    pub fn session(&self) -> Option<Vec<u8>> {
        self.look(|connection| connection.session().map(<[u8]>::to_vec))?
    }

    /// Lets the connection receive without [`EndpointConfig::receive_limit`](crate::EndpointConfig::receive_limit):
    /// for a server that has found out that it wants what the client sends.
    pub fn lift_receive_limit(&self) {
        // A connection that is lost receives nothing.
        let _ = self.0.with(|access| access.core.lift_receive_limit(access.handle));
    }

    /// Opens a stream on which both ends send; waits until the peer lets another one be opened
    /// (MAX_STREAMS). The peer learns of the stream when something is written to it.
    ///
    /// Cancellation safe: a stream is opened only when this returns it.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Direction::Bi).await?;
        Ok(self.both(id))
    }

    /// Opens a stream on which only this end sends, as [`open_bi`](Self::open_bi) does.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        let id = self.open(Direction::Uni).await?;
        Ok(SendStream::new(Arc::clone(&self.0), id))
    }

    /// Accepts the next stream of the peer's on which both ends send, in the order in which the peer has
    /// opened them. Those that have come are accepted after the end of the connection, too.
    ///
    /// Cancellation safe: a stream is taken only when this returns it.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Direction::Bi).await?;
        Ok(self.both(id))
    }

    /// Accepts the next stream on which only the peer sends, as [`accept_bi`](Self::accept_bi) does.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let id = self.accept(Direction::Uni).await?;
        Ok(RecvStream::new(Arc::clone(&self.0), id))
    }

    fn both(&self, id: StreamId) -> (SendStream, RecvStream) {
        let send = SendStream::new(Arc::clone(&self.0), id);
        (send, RecvStream::new(Arc::clone(&self.0), id))
    }

    async fn open(&self, direction: Direction) -> Result<StreamId, ConnectionError> {
        let open = |access: &mut Access<'_>| {
            if let Err(error) = access.state.check() {
                return Poll::Ready(Err(error));
            }
            match access.state.open(access.core, access.handle, direction) {
                Ok(Some(id)) => Poll::Ready(Ok(id)),
                Ok(None) => Poll::Pending,
                Err(error) => {
                    // There was room for it, so that quiche has no reason to refuse.
                    log::debug!("quiche opens no stream yet: {error}");
                    access.state.waits.stream_credit = true;
                    Poll::Pending
                }
            }
        };
        self.0.wait(|signals| &signals.stream_credit, open).await
    }

    async fn accept(&self, direction: Direction) -> Result<StreamId, ConnectionError> {
        let accept = |access: &mut Access<'_>| match access.state.accept(direction) {
            Some(id) => Poll::Ready(Ok(id)),
            None => match access.state.check() {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        };
        self.0.wait(|signals| &signals.incoming_stream, accept).await
    }

    /// Closes the connection at once with an error code of the application and a reason, which the peer
    /// may see. What was not delivered is lost, and all that waits fails.
    ///
    /// To deliver what was written, wait for [`SendStream::stopped`] of each stream first; to have the peer
    /// told before the program ends, wait for [`Endpoint::wait_idle`](crate::Endpoint::wait_idle) after.
    pub fn close(&self, code: u64, reason: &[u8]) {
        // A connection that is lost is closed.
        let _ = self.0.with(|access| {
            access.state.close(access.core, access.handle, code, reason, access.effects);
            access.has_written = true;
        });
    }

    /// Waits until the connection is over, and tells why. Cancellation safe.
    pub async fn closed(&self) -> ConnectionError {
        let over = |access: &mut Access<'_>| match access.state.check() {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Ok(error)),
        };
        self.0.wait(|signals| &signals.state, over).await.unwrap_or_else(|error| error)
    }

    /// Why the connection is over; `None` while it is not.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.0.with(|access| access.state.check().err()).unwrap_or_else(Some)
    }

    /// The peer's address, which changes when the peer migrates. `None` once the connection is lost.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        self.look(|connection| {
            connection.path_stats().find(|path| path.active).map(|path| path.peer_addr)
        })?
    }

    /// The application protocol that was agreed upon (ALPN); empty if there is none.
    pub fn application_protocol(&self) -> Vec<u8> {
        self.look(|connection| connection.application_proto().to_vec()).unwrap_or_default()
    }

    /// The name of the server that the client has asked for, on a server.
    pub fn server_name(&self) -> Option<String> {
        self.look(|connection| connection.server_name().map(str::to_owned))?
    }

    /// The peer's certificate in DER; `None` if it has shown none.
    pub fn peer_certificate(&self) -> Option<Vec<u8>> {
        self.look(|connection| connection.peer_cert().map(<[u8]>::to_vec))?
    }

    /// The peer's certificate and those of its issuers in DER, in the order in which they came; empty if it
    /// has shown none.
    pub fn peer_certificate_chain(&self) -> Vec<Vec<u8>> {
        let chain = self.look(|connection| {
            let chain = connection.peer_cert_chain()?;
            Some(chain.into_iter().map(<[u8]>::to_vec).collect())
        });
        chain.flatten().unwrap_or_default()
    }

    /// Whether both ends speak TACK.
    pub fn is_tack(&self) -> bool {
        self.look(tacklib::Connection::is_tack).unwrap_or_default()
    }

    /// What quiche has counted; `None` once the endpoint has lost the connection.
    pub fn stats(&self) -> Option<quiche::Stats> {
        self.look(tacklib::Connection::stats)
    }

    /// Statistics of each path; `cwnd`, rates and round trips are those of the layer.
    pub fn path_stats(&self) -> Vec<quiche::PathStats> {
        self.look(|connection| connection.path_stats().collect()).unwrap_or_default()
    }

    /// What the layer has measured and done.
    pub fn tack_stats(&self) -> TackStats {
        self.look(tacklib::Connection::tack_stats).unwrap_or_default()
    }

    /// What a live source adapts to: rate, delays and backlog.
    pub fn media_stats(&self) -> MediaStats {
        self.look(tacklib::Connection::media_stats).unwrap_or_default()
    }

    fn look<T>(&self, look: impl FnOnce(&tacklib::Connection) -> T) -> Option<T> {
        self.0.with(|access| access.look().map(look)).ok().flatten()
    }
}
