//! From the first flight to the moment at which the layer takes over.

use std::net::SocketAddr;
use std::time::Instant;

use quiche::{ConnectionId, RetryConnectionIds, SendInfo};
use tack_packet::CipherSuite;

use super::allowance::Allowance;
use super::progress::Progress;
use super::{Connection, PROBES};
use crate::boringssl;
use crate::config::Config;
use crate::layer::{Layer, Parts, Plan};
use crate::negotiation::{Agreement, ServerIds, Template};

/// Early data that may leave before the first acknowledgement, bytes: the
/// initial window of RFC 9002 section 7.2, which quiche's inert controller no
/// longer enforces.
const EARLY_DATA_WINDOW: usize = 14_720;

/// Transport error code of RFC 9000 section 20.1.
const INTERNAL_ERROR: u64 = 0x01;

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
    let inner = quiche::connect(server_name, scid, local, peer, config.prepared())?;
    let mut connection = Connection::new(inner, config);
    if let Some(template) = connection.template(config) {
        connection.parameters = template.for_client(scid).unwrap_or_default();
        connection.apply_parameters();
    }
    Ok(connection)
}

/// Creates a server connection, as [`quiche::accept`]: after a Retry, `odcid` is
/// the destination of the client's first Initial and `scid` the source of the
/// Retry.
///
/// Errors are quiche's.
pub fn accept(
    scid: &ConnectionId<'_>,
    odcid: Option<&ConnectionId<'_>>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> quiche::Result<Connection> {
    let inner = quiche::accept(scid, odcid, local, peer, config.prepared())?;
    let mut connection = Connection::new(inner, config);
    if odcid.is_none() {
        connection.allowance = Allowance::of_stranger();
    }
    let retry = odcid.map(|odcid| (odcid, scid));
    connection.expect_client(config, scid, retry);
    Ok(connection)
}

/// Creates a server connection after a Retry whose source id differs from the
/// connection's, as [`quiche::accept_with_retry`].
///
/// Errors are quiche's.
pub fn accept_with_retry(
    scid: &ConnectionId<'_>,
    retry_cids: RetryConnectionIds<'_>,
    local: SocketAddr,
    peer: SocketAddr,
    config: &mut Config,
) -> quiche::Result<Connection> {
    let original = retry_cids.original_destination_cid.clone();
    let source = retry_cids.retry_source_cid.clone();
    let inner = quiche::accept_with_retry(scid, retry_cids, local, peer, config.prepared())?;
    let mut connection = Connection::new(inner, config);
    connection.expect_client(config, scid, Some((&original, &source)));
    Ok(connection)
}

/// A server's parameters wait for the first Initial: it names the connection id
/// that they must repeat.
pub(super) struct Awaited {
    template: Template,
    scid: ConnectionId<'static>,
    retry: Option<(Vec<u8>, Vec<u8>)>,
    reset_token: Option<u128>,
}

impl Connection {
    pub(super) fn template(&mut self, config: &mut Config) -> Option<Template> {
        if !config.is_enabled() {
            return None;
        }
        let template = config.template().cloned();
        if template.is_none() {
            log::warn!(
                "{}: the TLS context lets no handshake begin; the connection goes on without TACK",
                self.inner.trace_id()
            );
        }
        template
    }

    pub(super) fn expect_client(
        &mut self,
        config: &mut Config,
        scid: &ConnectionId<'_>,
        retry: Option<(&ConnectionId<'_>, &ConnectionId<'_>)>,
    ) {
        let Some(template) = self.template(config) else { return };
        self.awaited = Some(Awaited {
            template,
            scid: ConnectionId::from_vec(scid.to_vec()),
            retry: retry.map(|(original, source)| (original.to_vec(), source.to_vec())),
            reset_token: config.stateless_reset_token(),
        });
    }

    /// Client: replaces the parameters that quiche encoded.
    pub(super) fn apply_parameters(&mut self) {
        if !self.inner.is_server() && !self.parameters.is_empty() {
            boringssl::set_transport_parameters(self.inner.as_mut(), &self.parameters);
        }
    }

    /// Server: the first Initial says what the parameters must repeat.
    pub(super) fn announce_to_client(&mut self, datagram: &[u8]) {
        let Some(awaited) = &self.awaited else { return };
        let Some(destination) = initial_destination(datagram) else { return };
        let ids = ServerIds {
            original_destination: awaited.retry.as_ref().map_or(destination, |(o, _)| o),
            retry_source: awaited.retry.as_ref().map(|(_, source)| &source[..]),
            reset_token: awaited.reset_token,
        };
        if let Some(parameters) = awaited.template.for_server(&awaited.scid, &ids) {
            self.parameters.clone_from(&parameters);
            boringssl::set_transport_parameters_later(self.inner.as_mut(), parameters);
        }
        self.awaited = None;
    }

    /// The handshake is done: the layer takes over.
    pub(super) fn activate(&mut self) {
        if self.layer.is_some() || !self.inner.is_established() || self.inner.is_closed() {
            return;
        }
        let Some((client, server)) = self.key_log.take_secrets() else {
            // Without the keys nothing controls the rate, and the peer has been
            // told of frames that quiche would choke on.
            let reason = b"the key log of the connection inside was replaced";
            let _ = self.inner.close(false, INTERNAL_ERROR, reason);
            return;
        };
        let result = self.build_layer(&client, &server);
        match result {
            Ok(layer) => {
                self.layer = Some(Box::new(layer));
                self.progress = Progress::of(&self.inner);
            }
            Err((code, reason)) => {
                let _ = self.inner.close(false, code, reason.as_bytes());
                self.parameters.clear();
            }
        }
        self.passes = self.passes.max(PROBES);
        self.data_pending = true;
    }

    pub(super) fn build_layer(
        &mut self,
        client: &[u8],
        server: &[u8],
    ) -> Result<Layer, (u64, String)> {
        const TRANSPORT_PARAMETER_ERROR: u64 = 0x08;
        let is_server = self.inner.is_server();
        let peer = boringssl::peer_transport_parameters(self.inner.as_mut());
        let agreement = Agreement::from_peer(&peer)
            .map_err(|error| (TRANSPORT_PARAMETER_ERROR, error.to_string()))?;
        let name = self.inner.as_mut().current_cipher().map_or("none", |cipher| cipher.name());
        let suite = CipherSuite::from_name(name)
            .ok_or_else(|| (INTERNAL_ERROR, format!("unknown cipher suite {name}")))?;
        let (incoming, outgoing) = if is_server { (client, server) } else { (server, client) };
        let rtt =
            self.inner.path_stats().find(|path| path.active).and_then(|path| path.min_rtt);
        Layer::new(&Parts {
            now: Instant::now(),
            agreement,
            suite,
            incoming,
            outgoing,
            config: &self.config,
            parameters: &self.parameters,
            is_server,
            mss: self.inner.max_send_udp_payload_size(),
            rtt,
            zero_rtt: self.zero_rtt,
        })
        .map_err(|error| (INTERNAL_ERROR, error.to_string()))
    }

    pub(super) fn send_in_handshake(
        &mut self,
        now: Instant,
        out: &mut [u8],
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
    ) -> quiche::Result<(usize, SendInfo)> {
        let early = self.inner.is_in_early_data() && !self.inner.is_server();
        if early && self.early_bytes >= EARLY_DATA_WINDOW && self.passes == 0 {
            return Err(quiche::Error::Done);
        }
        self.passes = self.passes.saturating_sub(1);
        let room = self.allowance.room(out.len());
        if room == 0 {
            return Err(quiche::Error::Done);
        }
        let (len, info) = self.inner.send_on_path(&mut out[..room], from, to)?;
        self.allowance.sent(len);
        if early {
            self.early_bytes += len;
            self.zero_rtt = true;
        }
        // The call may have completed the handshake and written a 1-RTT packet.
        self.activate();
        let path = (info.from, info.to);
        let len = self.finish_packet(now, out, len, &Plan::default(), path);
        Ok((len, info))
    }
}

/// Destination connection id of an Initial packet.
fn initial_destination(datagram: &[u8]) -> Option<&[u8]> {
    // Long header of type Initial, version not zero (RFC 8999 section 5.1).
    let (&first, rest) = datagram.split_first()?;
    if first & 0xb0 != 0x80 || rest.get(..4)? == [0; 4] {
        return None;
    }
    let len = usize::from(*rest.get(4)?);
    rest.get(5..5 + len)
}
