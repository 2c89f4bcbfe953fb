//! The connection that applications embed.

mod arrival;
mod buf_factory;
mod careful_resume;
mod constructors;
mod datagrams;
mod deadlines;
mod ecn;
mod external;
mod forwarded;
mod getters;
mod handshake;
mod in_handshake;
mod migration;
mod overdue;
mod pending;
mod receive;
mod send;
mod send_credits;
mod statistics;
mod streams;

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use quiche::{BufFactory, RecvInfo, SendInfo};
use tack_proto::ecn::EcnCodepoint;

pub use buf_factory::DefaultBufFactory;
pub use constructors::{
    accept, accept_with_buf_factory, accept_with_retry, connect, connect_with_buffer_factory,
};
#[cfg(feature = "custom-client-dcid")]
pub use constructors::{connect_with_dcid, connect_with_dcid_and_buffer_factory};
pub use statistics::ReleaseDecision;

use crate::boringssl;
use crate::config::{Config, TackConfig};
use crate::error::ExtensionError;
use crate::layer::Layer;
use crate::media_stats::MediaRecord;
use crate::negotiation::id;
use crate::quiche_compat::{Seam, StoppedReads, drop_readable};
use arrival::Arrivals;
use deadlines::Deadlines;
use handshake::Handshake;
use migration::Paths;
use pending::Pending;
use send_credits::SendCredits;

/// A QUIC connection with TACK inside.
///
/// It dereferences to [`quiche::Connection`] and takes its place: the methods
/// defined here shadow quiche's of the same name and signature, all others are
/// quiche's own. [`h3::Connection`](crate::h3::Connection) takes the place of quiche's.
///
/// Sending is paced: [`send`](Self::send) returns [`quiche::Error::Done`] while
/// the pacer, the inflight cap or the acknowledgement rule says so, and
/// [`timeout`](Self::timeout) tells when to try again. As with quiche, call
/// `send` until `Done` after each `recv`, `on_timeout`, and after reading or
/// writing streams.
pub struct Connection<F: BufFactory = DefaultBufFactory> {
    inner: quiche::Connection<F>,
    config: TackConfig,
    handshake: Handshake,
    /// From the end of the handshake on.
    layer: Option<Box<Layer>>,
    /// What has to be kept because quiche does not tell.
    seam: Seam,
    credits: SendCredits,
    paths: Paths,
    pending: Pending,
    extension_error: Option<ExtensionError>,
    /// What the application is to mark the last datagram with that was written.
    sent_ecn: EcnCodepoint,
    /// When streams and DATAGRAMs are worth nothing any more.
    deadlines: Deadlines,
    media: MediaRecord,
    arrivals: Arrivals,
}

impl<F: BufFactory> Connection<F> {
    fn new(mut inner: quiche::Connection<F>, config: &Config) -> Self {
        let handshake = Handshake::new(config);
        if config.is_enabled() {
            inner.set_keylog(Box::new(handshake.secrets.clone()));
        }
        if let Some(callback) = config.displaced_key_log() {
            boringssl::forward_key_log(inner.as_mut(), callback);
        }
        Self {
            inner,
            config: *config.tack(),
            handshake,
            layer: None,
            seam: Seam::new(config.tack().send_buffer),
            credits: SendCredits::default(),
            paths: Paths::default(),
            pending: Pending::new(),
            extension_error: None,
            sent_ecn: EcnCodepoint::NotEct,
            deadlines: Deadlines::default(),
            media: MediaRecord::default(),
            arrivals: Arrivals::default(),
        }
    }

    /// Processes a datagram from the peer, as [`quiche::Connection::recv`].
    ///
    /// Beside quiche's errors: a peer that acknowledges what was never sent, or
    /// breaks the rules of the extension frames, closes the connection and
    /// gives [`quiche::Error::InvalidFrame`];
    /// [`extension_error`](Self::extension_error) tells which rule.
    pub fn recv(&mut self, buf: &mut [u8], info: RecvInfo) -> quiche::Result<usize> {
        self.recv_with_ecn(buf, info, EcnCodepoint::NotEct)
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
        from: Option<std::net::SocketAddr>,
        to: Option<std::net::SocketAddr>,
    ) -> quiche::Result<(usize, SendInfo)> {
        let now = Instant::now();
        self.expire(now);
        // quiche refuses an empty buffer.
        if !self.is_enabled() || out.is_empty() {
            return self.inner.send_on_path(out, from, to);
        }
        self.sent_ecn = EcnCodepoint::NotEct;
        if self.layer.is_some() {
            self.send_one_rtt(now, out, (from, to))
        } else {
            self.send_in_handshake(now, out, (from, to))
        }
    }

    /// When [`on_timeout`](Self::on_timeout) has to be called.
    ///
    /// The earliest of quiche's own timers, the next acknowledgement, the release of the next packet, and a
    /// deadline ([`set_stream_deadline`](Self::set_stream_deadline)).
    pub fn timeout_instant(&self) -> Option<Instant> {
        let ended = self.inner.is_closed() || self.inner.is_draining();
        let own = self
            .layer
            .as_ref()
            .filter(|_| !ended)
            .and_then(|layer| layer.deadline(self.pending.any()));
        let deadline = self.deadlines.next().filter(|_| !ended);
        [self.inner.timeout_instant(), own, deadline].into_iter().flatten().min()
    }

    /// Time until [`on_timeout`](Self::on_timeout) has to be called.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_instant().map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Handles expired timers; call [`send`](Self::send) afterwards.
    pub fn on_timeout(&mut self) {
        let now = Instant::now();
        self.expire(now);
        if self.layer.is_some() && self.seam.validation.has_no_path {
            self.seam.validation.defer_timeout();
            self.credits.grant_path_probe();
            return;
        }
        let expired = self.inner.timeout_instant().is_some_and(|at| at <= now);
        if expired {
            self.expire_overdue();
        }
        self.inner.on_timeout();
        if !expired || !self.is_enabled() {
            return;
        }
        self.pending.on_losses();
        let delta = self.seam.counters.follow(&self.inner);
        self.seam.validation.on_timeout();
        self.seam.stale_streams.on_lost();
        if delta.probe_timeout || self.layer.is_none() || self.seam.validation.expects_challenge
        {
            self.credits.grant_probes();
        }
        let mtu = self.seam.path_mtu.get();
        if delta.probe_timeout {
            self.seam.path_mtu.on_probe_timeout(&mut self.inner);
            self.on_path_probe_timeout();
        } else {
            self.seam.path_mtu.follow(&self.inner);
        }
        self.on_path_mtu(mtu);
        let Some(layer) = &mut self.layer else { return };
        layer.set_mss(self.seam.path_mtu.get());
        if delta.probe_timeout {
            layer.on_probe_timeout();
        }
        if delta.loss_timer {
            layer.stopped_reads().on_loss_timer();
            let largest_acked = layer.sender().largest_acked();
            let has_overtaken = |pn| largest_acked.is_some_and(|largest| pn < largest);
            let Seam { stream_ends, stopped_streams, .. } = &mut self.seam;
            let is_forgotten = |id| stopped_streams.is_forgotten(&mut self.inner, id);
            stream_ends.on_loss_timer(has_overtaken, is_forgotten);
        }
    }

    /// Initiates a key update (RFC 9001 section 6). The layer does so by itself before a key has
    /// sealed as many packets as RFC 9001 section 6.6 allows.
    ///
    /// Fails with [`quiche::Error::InvalidState`] before the handshake is confirmed, and until the peer
    /// has followed the last update.
    pub fn initiate_key_update(&mut self) -> quiche::Result<()> {
        let Some(layer) = &mut self.layer else { return Err(quiche::Error::InvalidState) };
        layer.initiate_key_update(Instant::now()).map_err(|_| quiche::Error::InvalidState)?;
        self.pending.add();
        Ok(())
    }

    /// Sets the key log, as [`quiche::Connection::set_keylog`]. Nothing is written to it unless
    /// [`Config::log_keys`] was called.
    pub fn set_keylog(&mut self, writer: Box<dyn std::io::Write + Send + Sync>) {
        if !self.handshake.logs_keys {
            return;
        }
        if self.is_enabled() {
            self.handshake.secrets.set_sink(writer);
        } else {
            self.inner.set_keylog(writer);
        }
    }

    /// Sets the idle timeout in milliseconds, as
    /// [`quiche::Connection::set_max_idle_timeout`].
    pub fn set_max_idle_timeout(&mut self, milliseconds: u64) -> quiche::Result<()> {
        self.inner.set_max_idle_timeout(milliseconds)?;
        self.handshake
            .set_parameter(id::MAX_IDLE_TIMEOUT, milliseconds)
            .map_err(|_| quiche::Error::InvalidTransportParam)?;
        self.apply_parameters();
        Ok(())
    }

    fn is_enabled(&self) -> bool {
        self.layer.is_some() || self.handshake.is_enabled()
    }

    /// Finds ends of streams that quiche has forgotten: an acknowledgement may just have made it do so.
    fn settle_stream_ends(&mut self, layer: &Layer) {
        let largest_acked = layer.sender().largest_acked();
        let was_delivered = |pn| layer.was_delivered(pn);
        let Seam { stream_ends, stopped_streams, .. } = &mut self.seam;
        let is_forgotten = |id| stopped_streams.is_forgotten(&mut self.inner, id);
        stream_ends.settle(largest_acked, was_delivered, is_forgotten);
    }

    /// Drops what has come of streams that this end reads no more.
    #[inline]
    fn drop_unwanted(&mut self) {
        if self.layer.as_ref().is_some_and(|layer| layer.has_unwanted()) {
            self.drop_touched();
        }
    }

    /// Drops what may have come of them in packets that the layer has not seen.
    fn drop_all_unwanted(&mut self) {
        self.stopped_reads().touch_all();
        self.drop_touched();
    }

    #[cold]
    fn drop_touched(&mut self) {
        while let Some(stream_id) = self.stopped_reads().take_touched() {
            let dropped = drop_readable(&mut self.inner, stream_id);
            self.on_dropped(stream_id, dropped);
        }
    }

    /// The streams that this end has stopped reading.
    fn stopped_reads(&mut self) -> &mut StoppedReads {
        match &mut self.layer {
            Some(layer) => layer.stopped_reads(),
            None => &mut self.handshake.stopped_reads,
        }
    }

    /// Writes what the layer noted through quiche's own qlog streamer, so that one
    /// file has one clock, one level and all events in order of time. To be
    /// called when quiche has written its own events on a packet: it takes the
    /// time before it reads or writes one.
    #[cfg(feature = "qlog")]
    fn write_notes(&mut self) {
        let Some(layer) = &mut self.layer else { return };
        let streamer = self.inner.qlog_streamer();
        layer.notes().set_enabled(streamer.is_some());
        let Some(streamer) = streamer else { return };
        layer.note_state();
        let mut now = None;
        for event in layer.notes().take() {
            let now = *now.get_or_insert_with(Instant::now);
            // A log that cannot be written must not stop the connection.
            let _ = streamer.add_event_with_instant(event, now);
        }
    }

    #[cfg(not(feature = "qlog"))]
    #[allow(clippy::unused_self)] // the same calls with and without
    fn write_notes(&mut self) {}
}

impl<F: BufFactory> Deref for Connection<F> {
    type Target = quiche::Connection<F>;

    fn deref(&self) -> &quiche::Connection<F> {
        &self.inner
    }
}

impl<F: BufFactory> DerefMut for Connection<F> {
    fn deref_mut(&mut self) -> &mut quiche::Connection<F> {
        self.seam.external_access.on_access();
        &mut self.inner
    }
}
