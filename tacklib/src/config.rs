//! Configuration of a connection: quiche's own, and the layer's beside it.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use quiche::CongestionControlAlgorithm;
use serde::{Deserialize, Serialize};

use tack_proto::sender::{DEFAULT_LIFETIME, DEFAULT_MAX_JUMP};

use crate::boringssl::{self, KeyLogCallback};
use crate::lab::LabSwitches;
use crate::negotiation::id;
use crate::quiche_compat::{ControllerLook, Template, make_inert, restore_controller};

/// Default limit of data written and not yet sent, bytes.
const SEND_BUFFER: usize = 4 * 1024 * 1024;

/// The same in time, for live video: three frames of thirty a second.
const VIDEO_SEND_BUFFER_TIME: Duration = Duration::from_millis(100);

/// Longest time between acknowledgements of a live source that needs little of its path: a few frames.
const VIDEO_LIGHT_LOAD_ACK_INTERVAL: Duration = Duration::from_millis(400);

/// A set of defaults for a kind of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Profile {
    /// TACK with L = 10 and beta = 2, and a hundred acknowledgements a second at most.
    #[default]
    Default,
    /// For live video (section VII-D of the paper).
    ///
    /// L = 2 and beta = 4, a ProbeBW cycle of 16 probe units and a bandwidth filter of 20, half of
    /// the default, so that a change of the path is followed in half the time; ProbeRTT after 2.5 s,
    /// at three quarters of the rate; an initial window of 32 packets, packet trains, a send buffer
    /// of 100 ms, and 400 ms between acknowledgements of a source that needs little of the path.
    Video,
    /// L = 1: small flows are acknowledged packet by packet; large ones are
    /// bound by beta all the same.
    Quick,
    /// Plain quiche: its own congestion control, its own acknowledgements, no
    /// extension announced. For comparison.
    Off,
}

/// What the layer does; every field has a default in each [`Profile`].
///
/// ```
/// use tacklib::{Profile, TackConfig};
///
/// let mut config = TackConfig::new(Profile::Video);
/// config.send_buffer = 50_000;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TackConfig {
    /// Where the other fields' defaults come from.
    pub profile: Profile,
    /// L of equation (4): full-sized packets for an acknowledgement. 10, video 2 as in the paper.
    pub packets_per_ack: u64,
    /// beta of equation (4): acknowledgements for a round trip. 2, video 4 as in the paper.
    pub acks_per_round_trip: f64,
    /// Shortest time between acknowledgements, however short the path: 10 ms. Not below 1 ms.
    pub shortest_ack_interval: Duration,
    /// Shortest time between acknowledgements, but no longer than a round trip.
    ///
    /// A path with a shorter round trip than this is acknowledged once for each, and a longer one no
    /// more often than this: 20 ms, quick and video 0.
    pub short_path_ack_interval: Duration,
    /// Longest time between acknowledgements, however long the path.
    ///
    /// 100 ms, or the peer's `max_ack_delay` if that is more. A stock peer is asked for no more than
    /// the latter.
    pub longest_ack_interval: Duration,
    /// The same for a source that needs less than a quarter of the path.
    ///
    /// Packet trains show what the path carries. 0, which as all up to 100 ms makes no difference, video 400 ms.
    /// Losses are reported at once in any case, and so is a queue; that a stream has arrived is known up to
    /// that much later.
    pub light_load_ack_interval: Duration,
    /// Data that may be written and not yet sent, in bytes; `stream_send` takes
    /// no more. 4 MiB. Writes through `&mut quiche::Connection` are not seen
    /// and only bound by the peer's flow control.
    pub send_buffer: usize,
    /// The same in time. None, video 100 ms.
    ///
    /// No more data may wait than leaves in this time at the bandwidth estimate or the pacing rate,
    /// whichever is higher, and never less than 16 packets.
    pub send_buffer_time: Option<Duration>,
    /// How long a DATAGRAM may wait in the queue before it is dropped: no limit.
    pub datagram_max_age: Option<Duration>,
    /// Error code of the RESET_STREAM for a stream whose deadline has passed: 0.
    ///
    /// An application error code, at most 2^62 - 1. See
    /// [`Connection::set_stream_deadline`](crate::Connection::set_stream_deadline).
    pub deadline_error: u64,
    /// What may be in flight in the first round trip, in full packets; those behind the tenth are paced. 10
    /// as RFC 9002 section 7.2 recommends, video 32. Never fewer than two.
    /// [`Config::set_initial_congestion_window_packets`] sets it too.
    pub initial_window_packets: u64,
    /// ProbeBW's cycle, in the controller's units (docs/protocol.md). 32, video 16.
    pub probe_bw_units: u32,
    /// Span of the bandwidth filter, in the same units. 40, video 20.
    pub bandwidth_filter_units: u64,
    /// Whether packet trains measure the path: no, video yes.
    ///
    /// They do so while the application sends less than it may: the packets of a frame leave a little faster
    /// than the path is known to carry them, and the peer is asked to report when they arrived. See
    /// [`MediaStats::estimated_send_rate`](crate::MediaStats::estimated_send_rate).
    pub packet_trains: bool,
    /// How old CC parameters of an earlier connection may be: an hour.
    ///
    /// See RFC 9959 section 4.3.1 and
    /// [`Connection::set_cc_parameters`](crate::Connection::set_cc_parameters). Minutes are enough where paths
    /// change, or many share them.
    pub cc_parameters_lifetime: Duration,
    /// How much may be in flight at most because of such parameters, bytes (max_jump of RFC 9959):
    /// 4 MiB.
    pub max_jump: u64,
}

impl TackConfig {
    /// The defaults of a profile.
    pub fn new(profile: Profile) -> Self {
        let tack_proto::profiles::Profile { frequency, bbr, .. } = profile.constants();
        Self {
            profile,
            packets_per_ack: frequency.packets,
            acks_per_round_trip: frequency.per_round_trip,
            shortest_ack_interval: frequency.shortest_interval,
            short_path_ack_interval: frequency.short_path_interval,
            longest_ack_interval: frequency.longest_interval,
            light_load_ack_interval: if profile == Profile::Video {
                VIDEO_LIGHT_LOAD_ACK_INTERVAL
            } else {
                Duration::ZERO
            },
            send_buffer: SEND_BUFFER,
            send_buffer_time: (profile == Profile::Video).then_some(VIDEO_SEND_BUFFER_TIME),
            datagram_max_age: None,
            deadline_error: 0,
            initial_window_packets: bbr.initial_window_packets,
            probe_bw_units: bbr.cycle_units,
            bandwidth_filter_units: bbr.filter_units,
            packet_trains: profile == Profile::Video,
            cc_parameters_lifetime: DEFAULT_LIFETIME,
            max_jump: DEFAULT_MAX_JUMP,
        }
    }
}

impl Profile {
    /// What the profile sets of the protocol.
    pub(crate) const fn constants(self) -> tack_proto::profiles::Profile {
        use tack_proto::profiles::Profile as Constants;
        match self {
            Self::Default | Self::Off => Constants::DEFAULT,
            Self::Video => Constants::VIDEO,
            Self::Quick => Constants::QUICK,
        }
    }
}

impl Default for TackConfig {
    fn default() -> Self {
        Self::new(Profile::Default)
    }
}

/// A [`quiche::Config`] with the layer's settings beside it.
///
/// Everything of quiche's is reached through `Deref`. Its congestion control settings, but for the
/// initial window, have no effect unless the profile is [`Profile::Off`]: the layer has its own
/// controller. A connection that is made with such a setting logs a warning. Of settings that a function makes through
/// `&mut quiche::Config` not all can be told (docs/quiche-api.md); a stateless reset token that is set so is not
/// announced.
pub struct Config {
    inner: quiche::Config,
    tack: TackConfig,
    lab: LabSwitches,
    stateless_reset_token: Option<u128>,
    template: Option<Template>,
    /// The template was looked for since the configuration last changed, and may not be there.
    is_captured: bool,
    /// The application has set no limit of connection ids, as far as is known: with TACK it is raised.
    raises_id_limit: bool,
    /// It was.
    has_raised_id_limit: bool,
    /// The application's key log callback.
    key_log: Option<KeyLogCallback>,
    /// quiche's has taken its place for the layer.
    is_key_log_displaced: bool,
    /// quiche's controller is out of the way.
    is_inert: bool,
    /// quiche's configuration has changed since, which may have brought it back.
    is_changed: bool,
    controller: Controller,
    logs_keys: bool,
}

/// What was asked of quiche's controller: it is put off while the layer has its own.
#[derive(Clone, Copy, Debug, Default)]
struct Controller {
    algorithm: Option<CongestionControlAlgorithm>,
    initial_window_packets: Option<usize>,
    pacing: Option<bool>,
    max_pacing_rate: Option<u64>,
    hystart: Option<bool>,
    relaxed_loss_threshold: Option<bool>,
    send_capacity_factor: Option<f64>,
    #[cfg(feature = "internal")]
    bbr: Option<quiche::BbrParams>,
}

impl Controller {
    /// Whether something is set that the layer's controller does without.
    fn is_ignored(&self) -> bool {
        #[cfg(feature = "internal")]
        let sets_bbr = self.bbr.is_some();
        #[cfg(not(feature = "internal"))]
        let sets_bbr = false;
        sets_bbr
            || self.algorithm.is_some()
            || self.pacing.is_some()
            || self.max_pacing_rate.is_some()
            || self.hystart.is_some()
            || self.relaxed_loss_threshold.is_some()
            || self.send_capacity_factor.is_some()
    }

    /// What quiche's controller looks like with it.
    fn look(&self) -> ControllerLook {
        ControllerLook::of_settings(self.algorithm, self.initial_window_packets, self.pacing)
    }

    fn apply(&self, config: &mut quiche::Config) {
        if let Some(algorithm) = self.algorithm {
            config.set_cc_algorithm(algorithm);
        }
        if let Some(packets) = self.initial_window_packets {
            config.set_initial_congestion_window_packets(packets);
        }
        if let Some(pacing) = self.pacing {
            config.enable_pacing(pacing);
        }
        if let Some(rate) = self.max_pacing_rate {
            config.set_max_pacing_rate(rate);
        }
        if let Some(hystart) = self.hystart {
            config.enable_hystart(hystart);
        }
        if let Some(relaxed) = self.relaxed_loss_threshold {
            config.set_enable_relaxed_loss_threshold(relaxed);
        }
        if let Some(factor) = self.send_capacity_factor {
            config.set_send_capacity_factor(factor);
        }
        #[cfg(feature = "internal")]
        if let Some(parameters) = self.bbr {
            config.set_custom_bbr_params(parameters);
        }
    }
}

/// Addresses and ports that a client may have one after the other.
const ADDRESSES: u64 = 8;

/// quiche's own limit, and the default of RFC 9000 section 18.2.
const QUICHES_ADDRESSES: u64 = 2;

impl Config {
    /// Creates a configuration for a QUIC version, as [`quiche::Config::new`].
    ///
    /// [`set_active_connection_id_limit`](Self::set_active_connection_id_limit) differs: it is 8 where the application
    /// sets none, unless the profile is [`Profile::Off`]. quiche keeps a path for each address of a client, and no
    /// more paths than that: a connection survives seven changes of the address; with quiche's own limit of 2 it
    /// survives one.
    pub fn new(version: u32) -> quiche::Result<Self> {
        Ok(Self::of_own(quiche::Config::new(version)?))
    }

    /// Creates a configuration with a TLS context of the application's.
    ///
    /// As [`quiche::Config::with_boring_ssl_ctx_builder`] and [`Config::new`]. A key log callback of the context is
    /// called as with quiche.
    pub fn with_boring_ssl_ctx_builder(
        version: u32,
        builder: boring::ssl::SslContextBuilder,
    ) -> quiche::Result<Self> {
        let key_log = boringssl::key_log_callback(&builder);
        let config = quiche::Config::with_boring_ssl_ctx_builder(version, builder)?;
        Ok(Self { key_log, ..Self::of_own(config) })
    }

    /// One that the application has not had in its hands yet.
    fn of_own(inner: quiche::Config) -> Self {
        Self { logs_keys: false, raises_id_limit: true, ..Self::from_quiche(inner) }
    }

    /// Takes over a configuration.
    ///
    /// Whether [`log_keys`](Self::log_keys) was called on it can't be told, and is assumed: a
    /// key log callback of its TLS context is lost.
    pub fn from_quiche(inner: quiche::Config) -> Self {
        Self {
            inner,
            tack: TackConfig::default(),
            lab: LabSwitches::default(),
            stateless_reset_token: None,
            template: None,
            is_captured: false,
            raises_id_limit: false,
            has_raised_id_limit: false,
            key_log: None,
            is_key_log_displaced: false,
            is_inert: false,
            is_changed: false,
            controller: Controller::default(),
            logs_keys: true,
        }
    }

    /// Sets every field of the layer to a profile's default.
    ///
    /// An initial window that [`Self::set_initial_congestion_window_packets`] has set stays.
    pub fn set_profile(&mut self, profile: Profile) {
        let mut tack = TackConfig::new(profile);
        if let Some(packets) = self.controller.initial_window_packets {
            tack.initial_window_packets = packets as u64;
        }
        self.set_tack(tack);
    }

    /// The layer's settings.
    pub fn tack(&self) -> &TackConfig {
        &self.tack
    }

    /// Sets the layer's settings.
    pub fn set_tack(&mut self, tack: TackConfig) {
        // What is announced depends on it.
        self.is_captured = false;
        self.tack = tack;
        if tack.profile == Profile::Off {
            self.restore_quiche();
        }
    }

    /// Has the secrets of connections logged, as [`quiche::Config::log_keys`].
    ///
    /// They are written where [`Connection::set_keylog`](crate::Connection::set_keylog) says, and no longer to a key log
    /// callback of the TLS context.
    pub fn log_keys(&mut self) {
        self.logs_keys = true;
        self.key_log = None;
        self.inner.log_keys();
    }

    /// Sets the longest datagram to send, UDP payload in bytes.
    ///
    /// As [`quiche::Config::set_max_send_udp_payload_size`]. It changes nothing that is announced, so a server can
    /// set it for each connection.
    pub fn set_max_send_udp_payload_size(&mut self, bytes: usize) {
        self.inner.set_max_send_udp_payload_size(bytes);
    }

    /// Switches path MTU discovery on or off, as [`quiche::Config::discover_pmtu`]. A probe that is lost is no
    /// sign of congestion. When a path may have become narrower, the layer has the size validated anew: after 20
    /// long packets that were lost in a row, or three probe timeouts without an acknowledgement.
    pub fn discover_pmtu(&mut self, discover: bool) {
        self.inner.discover_pmtu(discover);
    }

    /// Sets how many connection ids the peer may issue.
    ///
    /// As [`quiche::Config::set_active_connection_id_limit`].
    pub fn set_active_connection_id_limit(&mut self, limit: u64) {
        self.raises_id_limit = false;
        self.has_raised_id_limit = false;
        self.is_captured = false;
        self.inner.set_active_connection_id_limit(limit);
    }

    /// Sets what the lab compares.
    #[cfg(feature = "lab")]
    pub fn set_lab(&mut self, lab: LabSwitches) {
        self.lab = lab;
    }

    /// Sets the stateless reset token of the next server connection.
    ///
    /// As [`quiche::Config::set_stateless_reset_token`].
    pub fn set_stateless_reset_token(&mut self, token: Option<u128>) {
        self.stateless_reset_token = token;
        self.inner.set_stateless_reset_token(token);
    }

    /// Sets the congestion control algorithm, as [`quiche::Config::set_cc_algorithm`]. It has an effect
    /// in [`Profile::Off`] alone.
    pub fn set_cc_algorithm(&mut self, algorithm: CongestionControlAlgorithm) {
        self.controller.algorithm = Some(algorithm);
        self.set_controller();
    }

    /// Sets the congestion control algorithm by its name, as
    /// [`quiche::Config::set_cc_algorithm_name`]. It has an effect in [`Profile::Off`] alone.
    pub fn set_cc_algorithm_name(&mut self, name: &str) -> quiche::Result<()> {
        self.set_cc_algorithm(name.parse()?);
        Ok(())
    }

    /// Sets the initial congestion window.
    ///
    /// As [`quiche::Config::set_initial_congestion_window_packets`]; for the layer's controller it is
    /// [`TackConfig::initial_window_packets`].
    pub fn set_initial_congestion_window_packets(&mut self, packets: usize) {
        self.controller.initial_window_packets = Some(packets);
        self.tack.initial_window_packets = packets as u64;
        self.set_controller();
    }

    /// Enables or disables quiche's pacing, as [`quiche::Config::enable_pacing`]. It has an effect in
    /// [`Profile::Off`] alone; the layer always paces.
    pub fn enable_pacing(&mut self, pacing: bool) {
        self.controller.pacing = Some(pacing);
        self.set_controller();
    }

    /// Limits quiche's pacing rate, as [`quiche::Config::set_max_pacing_rate`]. It has an effect in
    /// [`Profile::Off`] alone.
    pub fn set_max_pacing_rate(&mut self, bytes_per_second: u64) {
        self.controller.max_pacing_rate = Some(bytes_per_second);
        self.set_controller();
    }

    /// Enables or disables HyStart++, as [`quiche::Config::enable_hystart`]. It has an effect in
    /// [`Profile::Off`] alone.
    pub fn enable_hystart(&mut self, hystart: bool) {
        self.controller.hystart = Some(hystart);
        self.set_controller();
    }

    /// Relaxes the loss threshold behind spurious losses.
    ///
    /// As [`quiche::Config::set_enable_relaxed_loss_threshold`]. It has an effect in [`Profile::Off`] alone: quiche would
    /// judge losses by other thresholds than the layer.
    pub fn set_enable_relaxed_loss_threshold(&mut self, enable: bool) {
        self.controller.relaxed_loss_threshold = Some(enable);
        self.set_controller();
    }

    /// Sets the send capacity factor, as [`quiche::Config::set_send_capacity_factor`]. It has an effect in
    /// [`Profile::Off`] alone: beyond 1 it lets an application write more than the peer's flow control lets leave, which
    /// the layer takes for data that waits.
    pub fn set_send_capacity_factor(&mut self, factor: f64) {
        self.controller.send_capacity_factor = Some(factor);
        self.set_controller();
    }

    /// Sets parameters of quiche's BBR, as `quiche::Config::set_custom_bbr_params`. It has an effect in
    /// [`Profile::Off`] alone.
    #[cfg(feature = "internal")]
    #[doc(hidden)]
    pub fn set_custom_bbr_params(&mut self, parameters: quiche::BbrParams) {
        self.controller.bbr = Some(parameters);
        self.set_controller();
    }

    fn set_controller(&mut self) {
        if !self.is_inert {
            self.controller.apply(&mut self.inner);
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.tack.profile != Profile::Off
    }

    /// Whether the application wants to have secrets logged: the layer has quiche log them in any case.
    pub(crate) fn logs_keys(&self) -> bool {
        self.logs_keys
    }

    pub(crate) fn lab(&self) -> LabSwitches {
        self.lab
    }

    pub(crate) fn stateless_reset_token(&self) -> Option<u128> {
        self.stateless_reset_token
    }

    /// The application's key log callback, which quiche's has taken the place of because the layer needs the secrets.
    pub(crate) fn displaced_key_log(&self) -> Option<KeyLogCallback> {
        self.key_log.filter(|_| self.is_key_log_displaced)
    }

    /// quiche's configuration, ready for a connection: with its controller out of
    /// the way if the layer is going to take its place.
    pub(crate) fn prepared(&mut self) -> &mut quiche::Config {
        let controller = if self.is_enabled() { self.template() } else { None };
        match controller.map(Template::controller) {
            None => self.restore_quiche(),
            Some(controller) if !self.is_inert || self.is_changed => {
                self.displace_controller(controller);
            }
            Some(_) => {}
        }
        &mut self.inner
    }

    /// Puts quiche's controller out of the way, which is `found` as it is.
    fn displace_controller(&mut self, found: ControllerLook) {
        let left = if self.is_inert { ControllerLook::INERT } else { self.controller.look() };
        if self.controller.is_ignored() || found != left {
            log::warn!(
                "quiche's congestion control settings have no effect: the layer has its own \
                 controller (use Profile::Off to compare with quiche's)"
            );
        }
        make_inert(&mut self.inner);
        self.is_inert = true;
        self.is_changed = false;
        self.is_key_log_displaced = true;
    }

    /// Gives quiche its controller back, with what was asked of it, and its own limit of connection ids.
    fn restore_quiche(&mut self) {
        if std::mem::take(&mut self.is_inert) {
            restore_controller(&mut self.inner);
            self.controller.apply(&mut self.inner);
        }
        if std::mem::take(&mut self.has_raised_id_limit) {
            self.inner.set_active_connection_id_limit(QUICHES_ADDRESSES);
        }
    }

    /// The transport parameters that quiche would send with this configuration,
    /// and our announcement; `None` if they cannot be had, which leaves plain quiche.
    pub(crate) fn template(&mut self) -> Option<&Template> {
        if !std::mem::replace(&mut self.is_captured, true) {
            self.template = Template::capture(&mut self.inner, self.tack.packet_trains);
            self.raise_id_limit();
        }
        self.template.as_ref()
    }

    /// Lets the peer issue more connection ids, unless the application has set another limit than quiche's.
    fn raise_id_limit(&mut self) {
        let Some(template) = &mut self.template else { return };
        let limit = template.active_connection_id_limit();
        self.has_raised_id_limit &= limit == ADDRESSES;
        if self.raises_id_limit
            && limit == QUICHES_ADDRESSES
            && template.set_integer(id::ACTIVE_CONNECTION_ID_LIMIT, ADDRESSES).is_ok()
        {
            self.inner.set_active_connection_id_limit(ADDRESSES);
            self.has_raised_id_limit = true;
        }
    }
}

impl Deref for Config {
    type Target = quiche::Config;

    fn deref(&self) -> &quiche::Config {
        &self.inner
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut quiche::Config {
        // What is changed may be a transport parameter, or what made quiche's
        // controller inert.
        self.is_captured = false;
        self.is_changed = true;
        &mut self.inner
    }
}

#[cfg(test)]
mod tests {
    use boring::ssl::{SslContextBuilder, SslMethod, SslVersion};

    use super::*;

    #[test]
    fn a_tls_context_that_cannot_start_a_handshake_is_tried_once() {
        let mut builder = SslContextBuilder::new(SslMethod::tls()).unwrap();
        builder.set_cipher_list("ECDHE-RSA-AES128-GCM-SHA256").unwrap();
        builder.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
        let version = quiche::PROTOCOL_VERSION;
        let mut config = Config::with_boring_ssl_ctx_builder(version, builder).unwrap();
        assert!(config.template().is_none());
        assert!(config.is_captured);
        config.set_max_idle_timeout(1000);
        assert!(!config.is_captured, "it may have changed");
    }
}
