//! quiche's constructors, with the layer inside.

use std::net::SocketAddr;

use quiche::{BufFactory, ConnectionId, RetryConnectionIds};

use super::{Connection, DefaultBufFactory};
use crate::config::Config;

/// Creates a client connection, as [`quiche::connect`].
///
/// Errors are quiche's.
pub fn connect(
    server_name: Option<&str>,
    scid: &ConnectionId<'_>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> quiche::Result<Connection> {
    connect_with_buffer_factory::<DefaultBufFactory>(server_name, scid, local, peer, config)
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
) -> quiche::Result<Connection<F>> {
    let inner =
        quiche::connect_with_buffer_factory(server_name, scid, local, peer, config.prepared())?;
    Ok(client(inner, scid, config))
}

/// Creates a client connection with a destination connection id of the caller's.
///
/// As `quiche::connect_with_dcid`.
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
) -> quiche::Result<Connection> {
    connect_with_dcid_and_buffer_factory::<DefaultBufFactory>(
        server_name,
        scid,
        dcid,
        local,
        peer,
        config,
    )
}

/// Both of the above, as `quiche::connect_with_dcid_and_buffer_factory`.
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
) -> quiche::Result<Connection<F>> {
    let inner = quiche::connect_with_dcid_and_buffer_factory(
        server_name,
        scid,
        dcid,
        local,
        peer,
        config.prepared(),
    )?;
    Ok(client(inner, scid, config))
}

/// Creates a server connection, as [`quiche::accept`].
///
/// After a Retry, `odcid` is the destination of the client's first Initial and
/// `scid` the source of the Retry.
///
/// Errors are quiche's.
pub fn accept(
    scid: &ConnectionId<'_>,
    odcid: Option<&ConnectionId<'_>>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> quiche::Result<Connection> {
    accept_with_buf_factory::<DefaultBufFactory>(scid, odcid, local, peer, config)
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
) -> quiche::Result<Connection<F>> {
    let inner = quiche::accept_with_buf_factory(scid, odcid, local, peer, config.prepared())?;
    let mut connection = Connection::new(inner, config);
    connection.expect_client(config, scid, odcid.map(|odcid| (odcid, scid)));
    Ok(connection)
}

/// Creates a server connection after a Retry, as [`quiche::accept_with_retry`].
///
/// The source id of the Retry may differ from the connection's.
///
/// Errors are quiche's.
pub fn accept_with_retry<F: BufFactory>(
    scid: &ConnectionId<'_>,
    retry_cids: RetryConnectionIds<'_>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> quiche::Result<Connection<F>> {
    let original = retry_cids.original_destination_cid.clone();
    let source = retry_cids.retry_source_cid.clone();
    let inner = quiche::accept_with_retry(scid, retry_cids, local, peer, config.prepared())?;
    let mut connection = Connection::new(inner, config);
    connection.expect_client(config, scid, Some((&original, &source)));
    Ok(connection)
}

fn client<F: BufFactory>(
    inner: quiche::Connection<F>,
    scid: &ConnectionId<'_>,
    config: &mut Config,
) -> Connection<F> {
    let mut connection = Connection::new(inner, config);
    connection.announce_to_server(config, scid);
    connection
}
