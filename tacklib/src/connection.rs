//! The connection that applications embed.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use quiche::{ConnectionId, RecvInfo, SendInfo};

use crate::Config;

/// A QUIC connection with TACK inside.
pub struct Connection {
    inner: quiche::Connection,
}

/// Creates a client connection, as [`quiche::connect`].
pub fn connect(
    server_name: Option<&str>,
    scid: &ConnectionId<'_>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> quiche::Result<Connection> {
    Ok(Connection { inner: quiche::connect(server_name, scid, local, peer, config)? })
}

/// Creates a server connection, as [`quiche::accept`].
pub fn accept(
    scid: &ConnectionId<'_>,
    odcid: Option<&ConnectionId<'_>>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> quiche::Result<Connection> {
    Ok(Connection { inner: quiche::accept(scid, odcid, local, peer, config)? })
}

impl Connection {
    /// Processes a datagram from the peer.
    pub fn recv(&mut self, buf: &mut [u8], info: RecvInfo) -> quiche::Result<usize> {
        self.inner.recv(buf, info)
    }

    /// Writes one datagram; `SendInfo::at` is the release time.
    pub fn send(&mut self, out: &mut [u8]) -> quiche::Result<(usize, SendInfo)> {
        self.inner.send(out)
    }

    /// When `on_timeout` wants to be called.
    pub fn timeout_instant(&self) -> Option<Instant> {
        self.inner.timeout_instant()
    }

    /// Time until `on_timeout` wants to be called.
    pub fn timeout(&self) -> Option<Duration> {
        self.inner.timeout()
    }

    /// Handles an expired timer.
    pub fn on_timeout(&mut self) {
        self.inner.on_timeout();
    }

    /// Writes stream data.
    pub fn stream_send(
        &mut self,
        stream_id: u64,
        buf: &[u8],
        fin: bool,
    ) -> quiche::Result<usize> {
        self.inner.stream_send(stream_id, buf, fin)
    }

    /// Reads stream data.
    pub fn stream_recv(
        &mut self,
        stream_id: u64,
        out: &mut [u8],
    ) -> quiche::Result<(usize, bool)> {
        self.inner.stream_recv(stream_id, out)
    }

    /// How much `stream_send` would take.
    pub fn stream_capacity(&mut self, stream_id: u64) -> quiche::Result<usize> {
        self.inner.stream_capacity(stream_id)
    }
}

impl Deref for Connection {
    type Target = quiche::Connection;
    fn deref(&self) -> &quiche::Connection {
        &self.inner
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut quiche::Connection {
        &mut self.inner
    }
}
