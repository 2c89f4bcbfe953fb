//! The connection that applications embed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use quiche::{ConnectionId, RecvInfo, RetryConnectionIds, SendInfo};
use tack_packet::CipherSuite;

use crate::boringssl;
use crate::config::{Config, TackConfig};
use crate::datagram::{self, Layout};
use crate::keylog::KeyLog;
use crate::layer::{Delivery, Layer, Parts, Plan, ProtocolError};
use crate::negotiation::{self, Agreement, ServerIds, Template};
use crate::stats::TackStats;
use crate::touch::Footprint;

/// Early data that may leave before the first acknowledgement, bytes: the
/// initial window of RFC 9002 section 7.2, which quiche's inert controller no
/// longer enforces.
const EARLY_DATA_WINDOW: usize = 14_720;

/// Packets that an expired timer of quiche's may send at once: it probes with
/// up to two (RFC 9002 section 6.2.4).
const PROBES: u8 = 2;

/// Transport error code of RFC 9000 section 20.1.
const INTERNAL_ERROR: u64 = 0x01;

/// Room for a packet with a PING and no other frame that it would matter to
/// lose: the header, the tag and less than a NEW_CONNECTION_ID needs.
const PING_PACKET: usize = 1 + quiche::MAX_CONN_ID_LEN + 4 + 16 + 8;

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
struct Awaited {
    template: Template,
    scid: ConnectionId<'static>,
    retry: Option<(Vec<u8>, Vec<u8>)>,
    reset_token: Option<u128>,
}

/// A QUIC connection with TACK inside.
///
/// It dereferences to [`quiche::Connection`] and takes its place: the methods
/// defined here shadow quiche's of the same name and signature, all others are
/// quiche's own. `quiche::h3::Connection` works over it by deref coercion.
///
/// Sending is paced: [`send`](Self::send) returns [`quiche::Error::Done`] while
/// the pacer, the inflight cap or the acknowledgement rule says so, and
/// [`timeout`](Self::timeout) tells when to try again. As with quiche, call
/// `send` until `Done` after each `recv`, `on_timeout`, and after reading or
/// writing streams.
pub struct Connection {
    inner: quiche::Connection,
    config: TackConfig,
    key_log: KeyLog,
    /// Our encoded transport parameters; empty while the layer is off.
    parameters: Vec<u8>,
    awaited: Option<Awaited>,
    layer: Option<Box<Layer>>,
    zero_rtt: bool,
    early_bytes: usize,
    /// Packets that may leave whatever the pacer says: answers, probes.
    passes: u8,
    /// quiche may have stream data, or something else, that wants to leave.
    data_pending: bool,
    footprint: Footprint,
    written: u64,
    /// `written` when last all of it had been sent.
    flushed: u64,
    /// Stream bytes sent since then, and quiche's count of repeated ones then.
    sent_since: u64,
    repeated_then: u64,
    /// Streams refused for lack of room, to be reported when there is some.
    blocked: BTreeSet<u64>,
    /// Where the last datagram came from: local and remote address.
    path: Option<Path>,
    /// Where data goes to.
    route: Option<Path>,
    /// Where data went before, while that path has not been told good-bye.
    left: Option<Path>,
    /// The peer may not have proven yet that it is where data goes to.
    validating: bool,
}

/// Local and remote address.
type Path = (SocketAddr, SocketAddr);

impl Connection {
    fn new(mut inner: quiche::Connection, config: &Config) -> Self {
        let key_log = KeyLog::default();
        if config.is_enabled() {
            inner.set_keylog(Box::new(key_log.clone()));
        }
        Self {
            inner,
            config: *config.tack(),
            key_log,
            parameters: Vec::new(),
            awaited: None,
            layer: None,
            zero_rtt: false,
            early_bytes: 0,
            passes: 0,
            data_pending: true,
            footprint: Footprint::default(),
            written: 0,
            flushed: 0,
            sent_since: 0,
            repeated_then: 0,
            blocked: BTreeSet::new(),
            path: None,
            route: None,
            left: None,
            validating: false,
        }
    }

    /// Processes a datagram from the peer, as [`quiche::Connection::recv`].
    ///
    /// Beside quiche's errors: a peer that acknowledges what was never sent, or
    /// breaks the rules of the extension frames, closes the connection and
    /// gives [`quiche::Error::InvalidFrame`].
    pub fn recv(&mut self, buf: &mut [u8], info: RecvInfo) -> quiche::Result<usize> {
        if !self.is_enabled() {
            return self.inner.recv(buf, info);
        }
        let layout = datagram::layout(buf);
        self.zero_rtt |= layout.has_zero_rtt;
        self.announce_to_client(buf);
        if self.path.replace((info.to, info.from)) != Some((info.to, info.from)) {
            // A new path is challenged at once.
            self.passes = self.passes.max(1);
        }
        let result = self.recv_parts(buf, info, &layout);
        if layout.is_version_negotiation {
            // quiche encodes its parameters again for the new version.
            self.apply_parameters();
        }
        if layout.has_long {
            self.passes = self.passes.max(PROBES);
        }
        self.activate();
        result
    }

    /// Writes one datagram, as [`quiche::Connection::send`]. [`SendInfo::at`] is
    /// the time to release it.
    pub fn send(&mut self, out: &mut [u8]) -> quiche::Result<(usize, SendInfo)> {
        self.send_on_path(out, None, None)
    }

    /// Writes one datagram for a path, as [`quiche::Connection::send_on_path`].
    pub fn send_on_path(
        &mut self,
        out: &mut [u8],
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
    ) -> quiche::Result<(usize, SendInfo)> {
        if !self.is_enabled() {
            return self.inner.send_on_path(out, from, to);
        }
        let now = Instant::now();
        if self.layer.is_none() {
            return self.send_in_handshake(now, out, from, to);
        }
        self.heed_application();
        if let Some(sent) = self.leave_path(now, out, from, to) {
            return Ok(sent);
        }
        let Some(layer) = &mut self.layer else { return Err(quiche::Error::Done) };
        let closing = self.inner.local_error().is_some() || self.inner.is_draining();
        let data = self.data_pending && layer.sender.may_send(now);
        let acknowledges = layer.receiver.due(now).is_some();
        if layer.take_window_update(&self.inner) {
            self.passes = self.passes.max(1);
        }
        if !(closing || data || acknowledges || self.passes > 0) {
            return Err(quiche::Error::Done);
        }
        layer.sender.set_mss(self.inner.max_send_udp_payload_size() as u64);
        let plan = layer.plan(now, data);
        match self.send_packet(now, out, from, to, &plan) {
            Err(quiche::Error::Done) if acknowledges && self.is_tack() => {
                // quiche owes no acknowledgement (it went in a packet that had
                // no room for ours): have it write a packet to carry it.
                self.inner.send_ack_eliciting()?;
                let sent = self.send_packet(now, out, from, to, &plan);
                if sent.is_err()
                    && let Some(layer) = &mut self.layer
                {
                    // Nothing can leave (closing, amplification limit): the
                    // acknowledgement is given up, or its timer would spin.
                    layer.receiver.on_ack_sent(now);
                }
                sent
            }
            result => result,
        }
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called: quiche's own
    /// timers, the next acknowledgement, or the release of the next packet.
    pub fn timeout_instant(&self) -> Option<Instant> {
        let own = self.layer.as_ref().filter(|_| !self.inner.is_closed()).and_then(|layer| {
            let waits = self.data_pending && !layer.sender.is_inflight_limited();
            let release = waits.then(|| layer.sender.release_time());
            [release, layer.receiver.deadline()].into_iter().flatten().min()
        });
        [self.inner.timeout_instant(), own].into_iter().flatten().min()
    }

    /// Time until [`on_timeout`](Self::on_timeout) wants to be called.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_instant().map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Handles expired timers; call [`send`](Self::send) afterwards.
    pub fn on_timeout(&mut self) {
        let expired = self.inner.timeout_instant().is_some_and(|at| at <= Instant::now());
        self.inner.on_timeout();
        if expired {
            self.passes = self.passes.max(PROBES);
            self.data_pending = true;
        }
    }

    /// Writes stream data, as [`quiche::Connection::stream_send`]; takes no more
    /// than [`stream_capacity`](Self::stream_capacity), and
    /// [`quiche::Error::Done`] asks to wait.
    pub fn stream_send(
        &mut self,
        stream_id: u64,
        buf: &[u8],
        fin: bool,
    ) -> quiche::Result<usize> {
        if !self.is_enabled() || buf.is_empty() {
            self.data_pending = true;
            return self.inner.stream_send(stream_id, buf, fin);
        }
        let room = self.send_room();
        let capacity = match self.inner.stream_capacity(stream_id) {
            // Not opened yet: quiche opens it.
            Err(quiche::Error::InvalidStreamState(_)) => room,
            result => result?.min(room),
        };
        if capacity == 0 {
            // quiche is not asked: it would queue a DATA_BLOCKED for each time.
            self.blocked.insert(stream_id);
            return Err(quiche::Error::Done);
        }
        let len = buf.len().min(capacity);
        let sent = self.inner.stream_send(stream_id, &buf[..len], fin && len == buf.len())?;
        self.written += sent as u64;
        self.data_pending = true;
        Ok(sent)
    }

    /// Reads stream data, as [`quiche::Connection::stream_recv`].
    pub fn stream_recv(
        &mut self,
        stream_id: u64,
        out: &mut [u8],
    ) -> quiche::Result<(usize, bool)> {
        let (read, fin) = self.inner.stream_recv(stream_id, out)?;
        if let Some(layer) = &mut self.layer {
            layer.windows.on_read(stream_id, read);
        }
        Ok((read, fin))
    }

    /// What [`stream_send`](Self::stream_send) would take now, bytes, as
    /// [`quiche::Connection::stream_capacity`] and within the send buffer.
    pub fn stream_capacity(&mut self, stream_id: u64) -> quiche::Result<usize> {
        let capacity = self.inner.stream_capacity(stream_id)?;
        if self.is_enabled() { Ok(capacity.min(self.send_room())) } else { Ok(capacity) }
    }

    /// Whether `len` bytes can be written, as [`quiche::Connection::stream_writable`].
    pub fn stream_writable(&mut self, stream_id: u64, len: usize) -> quiche::Result<bool> {
        let writable = self.inner.stream_writable(stream_id, len)?;
        if writable && self.is_enabled() && self.send_room() < len {
            self.blocked.insert(stream_id);
            return Ok(false);
        }
        Ok(writable)
    }

    /// The next stream that can be written to, as
    /// [`quiche::Connection::stream_writable_next`].
    pub fn stream_writable_next(&mut self) -> Option<u64> {
        if !self.is_enabled() {
            return self.inner.stream_writable_next();
        }
        if self.send_room() == 0 {
            return None;
        }
        let Self { inner, blocked, .. } = self;
        // An error counts as writable: writing is how the application learns it.
        let ready = blocked.iter().find(|id| inner.stream_capacity(**id) != Ok(0)).copied();
        if let Some(stream_id) = ready {
            blocked.remove(&stream_id);
            return ready;
        }
        inner.stream_writable_next()
    }

    /// Sets the key log, as [`quiche::Connection::set_keylog`].
    pub fn set_keylog(&mut self, writer: Box<dyn std::io::Write + Send + Sync>) {
        if self.is_enabled() {
            self.key_log.set_sink(writer);
        } else {
            self.inner.set_keylog(writer);
        }
    }

    /// Sets the idle timeout in milliseconds, as
    /// [`quiche::Connection::set_max_idle_timeout`].
    pub fn set_max_idle_timeout(&mut self, milliseconds: u64) -> quiche::Result<()> {
        self.inner.set_max_idle_timeout(milliseconds)?;
        if !self.parameters.is_empty() {
            negotiation::set_max_idle_timeout(&mut self.parameters, milliseconds)
                .map_err(|_| quiche::Error::InvalidTransportParam)?;
            self.apply_parameters();
        }
        Ok(())
    }

    /// Whether both ends speak TACK. False until the handshake is done.
    pub fn is_tack(&self) -> bool {
        self.layer.as_ref().is_some_and(|layer| layer.agreement().tack)
    }

    /// What the layer measured and did; all zero before the handshake is done
    /// and with [`Profile::Off`](crate::Profile::Off).
    pub fn tack_stats(&self) -> TackStats {
        self.layer.as_ref().map(|layer| TackStats::of(layer)).unwrap_or_default()
    }

    fn is_enabled(&self) -> bool {
        self.layer.is_some() || self.awaited.is_some() || !self.parameters.is_empty()
    }

    fn template(&mut self, config: &mut Config) -> Option<Template> {
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

    fn expect_client(
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
    fn apply_parameters(&mut self) {
        if !self.inner.is_server() && !self.parameters.is_empty() {
            boringssl::set_transport_parameters(self.inner.as_mut(), &self.parameters);
        }
    }

    /// Server: the first Initial says what the parameters must repeat.
    fn announce_to_client(&mut self, datagram: &[u8]) {
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
    fn activate(&mut self) {
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
            Ok(layer) => self.layer = Some(Box::new(layer)),
            Err((code, reason)) => {
                let _ = self.inner.close(false, code, reason.as_bytes());
                self.parameters.clear();
            }
        }
        self.passes = self.passes.max(PROBES);
        self.data_pending = true;
    }

    fn build_layer(&mut self, client: &[u8], server: &[u8]) -> Result<Layer, (u64, String)> {
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

    /// Long headers go to quiche as they are; what the layer looks at begins
    /// behind them, once the handshake that they may complete is done.
    fn recv_parts(
        &mut self,
        buf: &mut [u8],
        info: RecvInfo,
        layout: &Layout,
    ) -> quiche::Result<usize> {
        let Some(at) = layout.one_rtt else { return self.inner.recv(buf, info) };
        let (long, short) = buf.split_at_mut(at);
        if !long.is_empty() {
            self.inner.recv(long, info)?;
            self.activate();
        }
        if self.layer.is_none() {
            return self.inner.recv(short, info).map(|read| at + read);
        }
        self.recv_one_rtt(short, info).map(|read| at + read)
    }

    fn recv_one_rtt(&mut self, packet: &mut [u8], info: RecvInfo) -> quiche::Result<usize> {
        let now = Instant::now();
        let len = packet.len();
        let dcid_len = self.inner.source_id().len();
        let Some(layer) = &mut self.layer else { return self.inner.recv(packet, info) };
        let (delivery, seen) = match layer.on_incoming(now, packet, dcid_len) {
            Ok(incoming) => incoming,
            Err(error) => return self.refuse(&error),
        };
        if layer.integrity_limit_reached() {
            // RFC 9001 section 6.6.
            const AEAD_LIMIT_REACHED: u64 = 0x0f;
            let _ = self.inner.close(false, AEAD_LIMIT_REACHED, b"");
        }
        let before = self.inner.stats();
        let result = match delivery {
            Delivery::AsIs => self.inner.recv(packet, info),
            Delivery::Rewritten => self.inner.recv(layer.rewritten(), info),
        };
        let after = self.inner.stats();
        if after.recv > before.recv {
            self.footprint.on_stopped(&seen.stopped);
            if layer.on_accepted(now, &seen) {
                self.passes = self.passes.max(1);
                self.data_pending = true;
            }
        }
        if after.lost > before.lost {
            // quiche has something to send again.
            self.data_pending = true;
        }
        if self.validating && after.recv > before.recv {
            // Each datagram lets more leave, the answer to the challenge all
            // (RFC 9000 section 8.1).
            self.data_pending = true;
            self.validating = self.route.is_some_and(|(local, peer)| {
                self.inner.is_path_validated(local, peer) == Ok(false)
            });
        }
        result.map(|_| len)
    }

    /// Closes the connection over what the peer sent.
    fn refuse(&mut self, error: &ProtocolError) -> quiche::Result<usize> {
        log::warn!("{}: {error}", self.inner.trace_id());
        let _ = self.inner.close(false, error.to_wire(), error.to_string().as_bytes());
        Err(quiche::Error::InvalidFrame)
    }

    fn send_in_handshake(
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
        let (len, info) = self.inner.send_on_path(out, from, to)?;
        if early {
            self.early_bytes += len;
            self.zero_rtt = true;
        }
        // The call may have completed the handshake and written a 1-RTT packet.
        self.activate();
        let len = self.finish_packet(now, out, len, &Plan::default());
        Ok((len, info))
    }

    /// Has quiche write a packet, within what the plan needs, and finishes it.
    fn send_packet(
        &mut self,
        now: Instant,
        out: &mut [u8],
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
        plan: &Plan,
    ) -> quiche::Result<(usize, SendInfo)> {
        let largest = out.len().min(self.inner.max_send_udp_payload_size());
        let room = plan.room();
        let limit = if room == 0 { out.len() } else { largest.saturating_sub(room) };
        match self.inner.send_on_path(&mut out[..limit], from, to) {
            Ok((len, mut info)) => {
                info.at = now;
                let len = self.finish_packet(now, out, len, plan);
                self.follow_route(now, (info.from, info.to));
                Ok((len, info))
            }
            Err(quiche::Error::Done) => {
                self.on_nothing_to_send(now);
                Err(quiche::Error::Done)
            }
            Err(error) => Err(error),
        }
    }

    /// Notices when data goes another way: the peer's address has changed, or
    /// the application has migrated.
    fn follow_route(&mut self, now: Instant, used: Path) {
        if self.route == Some(used) {
            return;
        }
        let Some(active) = self.inner.path_stats().find(|path| path.active) else { return };
        let active = (active.local_addr, active.peer_addr);
        let Some(left) = self.route.replace(active).filter(|left| *left != active) else {
            return;
        };
        self.left = Some(left);
        self.validating = true;
        self.passes = self.passes.max(1);
        // RFC 9000 section 9.4; a change of the port alone is most likely a
        // NAT's, and the path the same.
        let hosts = |path: Path| (path.0.ip(), path.1.ip());
        if let Some(layer) = self.layer.as_mut().filter(|_| hosts(left) != hosts(active)) {
            layer.sender.on_path_change(now);
        }
    }

    /// Sends a PING over the path that was left, by which quiche will find out
    /// what was lost there: see `Layer::settle_farewells`.
    fn leave_path(
        &mut self,
        now: Instant,
        out: &mut [u8],
        from: Option<SocketAddr>,
        to: Option<SocketAddr>,
    ) -> Option<(usize, SendInfo)> {
        let wanted = |path: &mut Path| {
            from.is_none_or(|from| from == path.0) && to.is_none_or(|to| to == path.1)
        };
        let (local, peer) = self.left.take_if(wanted)?;
        self.inner.send_ack_eliciting_on_path(local, peer).ok()?;
        let room = out.len().min(PING_PACKET);
        let (len, mut info) =
            self.inner.send_on_path(&mut out[..room], Some(local), Some(peer)).ok()?;
        info.at = now;
        Some((self.finish_packet(now, out, len, &Plan::farewell()), info))
    }

    /// Passes what quiche has written through the layer; the final length.
    fn finish_packet(
        &mut self,
        now: Instant,
        out: &mut [u8],
        len: usize,
        plan: &Plan,
    ) -> usize {
        let dcid_len = self.inner.destination_id().len();
        let largest = self.inner.max_send_udp_payload_size().max(len).min(out.len());
        let Some(layer) = &mut self.layer else { return len };
        let Some(at) = datagram::layout(&out[..len]).one_rtt else { return len };
        let packet = &mut out[at..largest];
        let Some(sent) = layer.on_outgoing(now, packet, len - at, dcid_len, plan) else {
            return len;
        };
        self.passes = self.passes.saturating_sub(1);
        self.sent_since += sent.stream_bytes as u64;
        at + sent.len
    }

    fn on_nothing_to_send(&mut self, now: Instant) {
        self.passes = 0;
        self.flushed = self.written;
        self.sent_since = 0;
        self.repeated_then = self.inner.stats().stream_retrans_bytes;
        let Some(layer) = &mut self.layer else { return };
        layer.on_nothing_to_send();
        if self.data_pending && layer.sender.may_send(now) {
            layer.sender.on_app_limited();
        }
        self.data_pending = false;
    }

    /// What happened behind the layer's back while the application had the
    /// quiche connection in its hands.
    fn heed_application(&mut self) {
        if !self.footprint.is_touched() {
            return;
        }
        let Some(layer) = &mut self.layer else { return };
        layer.windows.on_unseen();
        // If quiche has an acknowledgement to send, asking it for data gets
        // that, and one ACK for each look at the connection is what the layer
        // is there to prevent: so only a change that shows counts.
        let changed = self.footprint.take(&mut self.inner);
        self.data_pending |= changed || !layer.holds_ack();
    }

    /// Room in the send buffer, bytes.
    fn send_room(&self) -> usize {
        let repeated = self.inner.stats().stream_retrans_bytes - self.repeated_then;
        let sent = self.sent_since.saturating_sub(repeated);
        let buffered = (self.written - self.flushed).saturating_sub(sent);
        self.config.send_buffer.saturating_sub(usize::try_from(buffered).unwrap_or(usize::MAX))
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
        self.footprint.touch();
        &mut self.inner
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
