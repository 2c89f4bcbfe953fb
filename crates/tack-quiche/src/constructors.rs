//! quiche's constructors, for this crate's configuration.

use std::net::SocketAddr;

use quiche::{BufFactory, ConnectionId, Result, RetryConnectionIds};
use tacklib::Connection;

use crate::Config;

/// Creates a client connection, as [`quiche::connect`].
///
/// Errors are quiche's.
pub fn connect(
    server_name: Option<&str>,
    scid: &ConnectionId<'_>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> Result<Connection> {
    tacklib::connect(server_name, scid, local, peer, config)
}

/// Creates a client connection with a buffer factory, as [`quiche::connect_with_buffer_factory`].
///
/// Errors are quiche's.
pub fn connect_with_buffer_factory<F: BufFactory>(
    server_name: Option<&str>,
    scid: &ConnectionId<'_>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> Result<Connection<F>> {
    tacklib::connect_with_buffer_factory(server_name, scid, local, peer, config)
}

/// Creates a client connection with a destination connection id of the caller's, as
/// `quiche::connect_with_dcid`.
///
/// Errors are quiche's.
#[cfg(feature = "custom-client-dcid")]
pub fn connect_with_dcid(
    server_name: Option<&str>,
    scid: &ConnectionId<'_>,
    dcid: &ConnectionId<'_>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> Result<Connection> {
    tacklib::connect_with_dcid(server_name, scid, dcid, local, peer, config)
}

/// The same with a buffer factory, as `quiche::connect_with_dcid_and_buffer_factory`.
///
/// Errors are quiche's.
#[cfg(feature = "custom-client-dcid")]
pub fn connect_with_dcid_and_buffer_factory<F: BufFactory>(
    server_name: Option<&str>,
    scid: &ConnectionId<'_>,
    dcid: &ConnectionId<'_>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> Result<Connection<F>> {
    tacklib::connect_with_dcid_and_buffer_factory(server_name, scid, dcid, local, peer, config)
}

/// Creates a server connection, as [`quiche::accept`].
///
/// Errors are quiche's.
pub fn accept(
    scid: &ConnectionId<'_>,
    odcid: Option<&ConnectionId<'_>>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> Result<Connection> {
    tacklib::accept(scid, odcid, local, peer, config)
}

/// Creates a server connection with a buffer factory, as [`quiche::accept_with_buf_factory`].
///
/// Errors are quiche's.
pub fn accept_with_buf_factory<F: BufFactory>(
    scid: &ConnectionId<'_>,
    odcid: Option<&ConnectionId<'_>>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> Result<Connection<F>> {
    tacklib::accept_with_buf_factory(scid, odcid, local, peer, config)
}

/// Creates a server connection after a Retry whose source id differs from the connection's, as
/// [`quiche::accept_with_retry`].
///
/// Errors are quiche's.
pub fn accept_with_retry<F: BufFactory>(
    scid: &ConnectionId<'_>,
    retry_cids: RetryConnectionIds<'_>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> Result<Connection<F>> {
    tacklib::accept_with_retry(scid, retry_cids, local, peer, config)
}
