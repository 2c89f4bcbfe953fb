//! The connection that applications embed.

mod allowance;
mod event_log;
mod external;
mod handshake;
mod packets;
mod progress;
mod route;
mod send_buffer;
mod validation;

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use quiche::{RecvInfo, SendInfo};

pub use handshake::{accept, accept_with_retry, connect};

use crate::config::{Config, TackConfig};
use crate::datagram;
use crate::keylog::KeyLog;
use crate::layer::Layer;
use crate::negotiation;
use crate::stats::TackStats;
use crate::stream_ends::StreamEnds;
use crate::touch::Footprint;
use allowance::Allowance;
use handshake::Awaited;
use progress::Progress;
use send_buffer::SendBuffer;
use validation::Validation;

/// Packets that an expired timer of quiche's may send at once: it probes with
/// up to two (RFC 9002 section 6.2.4).
const PROBES: u8 = 2;

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
    progress: Progress,
    allowance: Allowance,
    send_buffer: SendBuffer,
    ends: StreamEnds,
    /// Where the last datagram came from: local and remote address.
    path: Option<Path>,
    /// Where data goes to.
    route: Option<Path>,
    /// Where data went before, while that path has not been told good-bye.
    left: Option<Path>,
    validation: Validation,
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
            progress: Progress::default(),
            allowance: Allowance::unlimited(),
            send_buffer: SendBuffer::new(config.tack().send_buffer),
            ends: StreamEnds::default(),
            path: None,
            route: None,
            left: None,
            validation: Validation::default(),
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
        if self.validation.is_stranded() {
            // As good as lost.
            return Ok(buf.len());
        }
        let layout = datagram::layout(buf);
        self.zero_rtt |= layout.has_zero_rtt;
        self.allowance.received(buf.len(), &layout);
        self.announce_to_client(buf);
        let path = Some((info.to, info.from));
        if self.path != path {
            self.path = path;
            self.validation.on_path_change();
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
        self.write_journal();
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
        let due = layer.receiver.due(now);
        if layer.take_window_update(&self.inner) {
            self.passes = self.passes.max(1);
        }
        let owes = self.ends.owes();
        if !(closing || data || due.is_some() || self.passes > 0 || owes) {
            return Err(quiche::Error::Done);
        }
        let plan = layer.plan(now, data, due, &self.ends);
        match self.send_packet(now, out, from, to, &plan) {
            Err(quiche::Error::Done) if owes || due.is_some() && self.is_tack() => {
                // quiche owes no acknowledgement (it went in a packet that had
                // no room for ours), and nothing that it has forgotten: have it
                // write a packet to carry it.
                self.inner.send_ack_eliciting()?;
                let sent = self.send_packet(now, out, from, to, &plan);
                if sent.is_err()
                    && due.is_some()
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
        let probes = if expired { self.probe_timeouts() } else { 0 };
        self.inner.on_timeout();
        if expired {
            let is_probe = self.probe_timeouts() > probes;
            if let Some(layer) = self.layer.as_mut().filter(|_| is_probe) {
                layer.sender.on_probe_timeout();
                self.ends.on_probe_timeout(|id| packets::is_forgotten(&mut self.inner, id));
            }
            self.passes = self.passes.max(PROBES);
            self.data_pending = true;
            self.validation.on_timeout();
            if let Some(layer) = &mut self.layer {
                layer.sender.set_mss(self.inner.max_send_udp_payload_size() as u64);
            }
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
        if !self.is_enabled() {
            return self.inner.stream_send(stream_id, buf, fin);
        }
        if buf.is_empty() {
            self.data_pending = true;
            let sent = self.inner.stream_send(stream_id, buf, fin)?;
            self.ends.on_written(stream_id, 0, fin);
            return Ok(sent);
        }
        let room = self.send_buffer.room(&self.inner);
        let capacity = match self.inner.stream_capacity(stream_id) {
            // Not opened yet: quiche opens it.
            Err(quiche::Error::InvalidStreamState(_)) => room,
            result => result?.min(room),
        };
        if capacity == 0 {
            // quiche is not asked: it would queue a DATA_BLOCKED for each time.
            self.send_buffer.block(stream_id);
            return Err(quiche::Error::Done);
        }
        let len = buf.len().min(capacity);
        let sent = self.inner.stream_send(stream_id, &buf[..len], fin && len == buf.len())?;
        self.send_buffer.on_written(sent);
        self.ends.on_written(stream_id, sent, fin && sent == buf.len());
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
        if fin {
            self.settle_ends();
        }
        Ok((read, fin))
    }

    /// What [`stream_send`](Self::stream_send) would take now, bytes, as
    /// [`quiche::Connection::stream_capacity`] and within the send buffer.
    pub fn stream_capacity(&mut self, stream_id: u64) -> quiche::Result<usize> {
        let capacity = self.inner.stream_capacity(stream_id)?;
        if self.is_enabled() {
            Ok(capacity.min(self.send_buffer.room(&self.inner)))
        } else {
            Ok(capacity)
        }
    }

    /// Whether `len` bytes can be written, as [`quiche::Connection::stream_writable`].
    pub fn stream_writable(&mut self, stream_id: u64, len: usize) -> quiche::Result<bool> {
        let writable = self.inner.stream_writable(stream_id, len)?;
        if writable && self.is_enabled() && self.send_buffer.room(&self.inner) < len {
            self.send_buffer.block(stream_id);
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
        if self.send_buffer.room(&self.inner) == 0 {
            return None;
        }
        let blocked = self.send_buffer.take_unblocked(&mut self.inner);
        blocked.or_else(|| self.inner.stream_writable_next())
    }

    /// Validates a path, as [`quiche::Connection::probe_path`].
    pub fn probe_path(&mut self, local: SocketAddr, peer: SocketAddr) -> quiche::Result<u64> {
        let sequence = self.inner.probe_path(local, peer)?;
        self.expect_challenge();
        Ok(sequence)
    }

    /// Goes on from another address, as [`quiche::Connection::migrate_source`].
    pub fn migrate_source(&mut self, local: SocketAddr) -> quiche::Result<u64> {
        let sequence = self.inner.migrate_source(local)?;
        self.expect_challenge();
        Ok(sequence)
    }

    /// Goes on over another path, as [`quiche::Connection::migrate`].
    pub fn migrate(&mut self, local: SocketAddr, peer: SocketAddr) -> quiche::Result<u64> {
        let sequence = self.inner.migrate(local, peer)?;
        self.expect_challenge();
        Ok(sequence)
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

    /// How often quiche's probe timer has expired.
    fn probe_timeouts(&self) -> usize {
        self.inner.path_stats().map(|path| path.total_pto_count).sum()
    }

    fn is_enabled(&self) -> bool {
        self.layer.is_some() || self.awaited.is_some() || !self.parameters.is_empty()
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
