//! Configuration of a connection: quiche's own, and the layer's beside it.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use quiche::CongestionControlAlgorithm;
use serde::{Deserialize, Serialize};
use tack_proto::receiver::Schedule;

use crate::negotiation::Template;

/// Packets in quiche's initial window that keep its own controller out of the
/// way: the most it accepts. With it 27 MB may be in flight.
const INERT_WINDOW_PACKETS: usize = 20_000;

/// What quiche starts with by itself.
const QUICHE_WINDOW_PACKETS: usize = 10;

/// Default of the shortest interval between TACKs.
const SHORTEST_ACK_INTERVAL: Duration = Duration::from_millis(10);

/// Default of the round trip up to which there is one TACK for each.
const SHORT_PATH_ACK_INTERVAL: Duration = Duration::from_millis(20);

/// Default of the longest: RTTmin/4 of a 200 ms path.
const LONGEST_ACK_INTERVAL: Duration = Duration::from_millis(100);

/// Default limit of data written and not yet sent, bytes.
const SEND_BUFFER: usize = 4 * 1024 * 1024;

/// A set of defaults for a kind of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// TACK with L = 10 and beta = 2, and a hundred acknowledgements a second at most.
    #[default]
    Default,
    /// For live video (section VII-D of the paper): L = 2 and beta = 4, ProbeBW in 16
    /// intervals and a bandwidth filter of 20, half of the default, so that a change of the
    /// path is followed in half the time; ProbeRTT every 2.5 s, at three quarters of the rate.
    Video,
    /// L = 1: small flows are acknowledged packet by packet; large ones are
    /// bound by beta all the same.
    Quick,
    /// Plain quiche: its own congestion control, its own acknowledgements, no
    /// extension announced. For comparison.
    Off,
}

/// When this end acknowledges what a TACK peer sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckSchedule {
    /// As the sender asks: equation (4) of the paper.
    #[default]
    Tack,
    /// RFC 9000's delayed ACK: every second packet, at once when one is out of order, and
    /// within `max_ack_delay`. For comparison.
    Delayed,
    /// The same after another number of packets. For comparison.
    EveryPackets(u64),
    /// At this interval while packets arrive. For comparison.
    Periodic(Duration),
}

impl From<AckSchedule> for Schedule {
    fn from(schedule: AckSchedule) -> Self {
        match schedule {
            AckSchedule::Tack => Self::Tack,
            AckSchedule::Delayed => Self::EveryPackets(2),
            AckSchedule::EveryPackets(packets) => Self::EveryPackets(packets),
            AckSchedule::Periodic(interval) => Self::Periodic(interval),
        }
    }
}

/// What the layer does; every field has a default in each [`Profile`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TackConfig {
    /// Where the other fields' defaults come from.
    pub profile: Profile,
    /// L of equation (4): full-sized packets for an acknowledgement. 10, video 2 as in the paper.
    pub packets_per_ack: u64,
    /// beta of equation (4): acknowledgements for a round trip. 2, video 4 as in the paper.
    pub acks_per_round_trip: f64,
    /// Shortest time between acknowledgements, however short the path: 10 ms. Not below 1 ms.
    pub shortest_ack_interval: Duration,
    /// Paths with a shorter round trip than this are acknowledged once for each, and longer ones
    /// no more often than this: 20 ms, quick and video 0.
    pub short_path_ack_interval: Duration,
    /// Longest time between acknowledgements, however long the path: 100 ms, or the peer's
    /// `max_ack_delay` if that is more. A stock peer is asked for no more than the latter.
    pub longest_ack_interval: Duration,
    /// When this end acknowledges. As the sender asks.
    pub schedule: AckSchedule,
    /// Q of equation (5): bubbles that one TACK of this end reports at most, and
    /// gaps in packet numbers that one IACK does. No limit; `Some(1)`, the least,
    /// is the paper's "poor" TACK, for comparison: it acknowledges what arrived
    /// before the oldest bubble, and the packet right behind that.
    pub reported_gaps: Option<usize>,
    /// Whether round trips are sampled as by TCP's timestamps, the wait for the acknowledgement
    /// included, and not by one-way delays. For comparison.
    pub plain_sampling: bool,
    /// Whether a stock peer that takes ACK_FREQUENCY is asked to acknowledge less; without, for
    /// comparison, it is sent neither that nor IMMEDIATE_ACK.
    pub asks_stock_peers: bool,
    /// Data that may be written and not yet sent, in bytes; `stream_send` takes
    /// no more. 4 MiB. Writes through `&mut quiche::Connection` are not seen
    /// and only bound by the peer's flow control.
    pub send_buffer: usize,
    /// ProbeBW's cycle, in TACK intervals. 32, video 16.
    pub probe_bw_intervals: u32,
    /// Span of the bandwidth filter, in TACK intervals. 40, video 20.
    pub bandwidth_filter_intervals: u64,
}

impl TackConfig {
    /// The defaults of a profile.
    pub fn new(profile: Profile) -> Self {
        let video = profile == Profile::Video;
        Self {
            profile,
            packets_per_ack: match profile {
                Profile::Quick => 1,
                Profile::Video => 2,
                Profile::Default | Profile::Off => 10,
            },
            acks_per_round_trip: if video { 4.0 } else { 2.0 },
            shortest_ack_interval: SHORTEST_ACK_INTERVAL,
            short_path_ack_interval: match profile {
                Profile::Quick | Profile::Video => Duration::ZERO,
                Profile::Default | Profile::Off => SHORT_PATH_ACK_INTERVAL,
            },
            longest_ack_interval: LONGEST_ACK_INTERVAL,
            schedule: AckSchedule::Tack,
            reported_gaps: None,
            plain_sampling: false,
            asks_stock_peers: true,
            send_buffer: SEND_BUFFER,
            probe_bw_intervals: if video { 16 } else { 32 },
            bandwidth_filter_intervals: if video { 20 } else { 40 },
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
/// Everything of quiche's is reached through `Deref`. Its congestion control
/// settings have no effect unless the profile is [`Profile::Off`]: the layer has
/// its own controller.
pub struct Config {
    inner: quiche::Config,
    tack: TackConfig,
    stateless_reset_token: Option<u128>,
    template: Option<Template>,
    inert: bool,
}

impl Config {
    /// Creates a configuration for a QUIC version, as [`quiche::Config::new`].
    pub fn new(version: u32) -> quiche::Result<Self> {
        Ok(Self::from_quiche(quiche::Config::new(version)?))
    }

    /// Creates a configuration with a TLS context of the application's, as
    /// [`quiche::Config::with_boring_ssl_ctx_builder`].
    pub fn with_boring_ssl_ctx_builder(
        version: u32,
        builder: boring::ssl::SslContextBuilder,
    ) -> quiche::Result<Self> {
        quiche::Config::with_boring_ssl_ctx_builder(version, builder).map(Self::from_quiche)
    }

    /// Takes over a configuration.
    pub fn from_quiche(inner: quiche::Config) -> Self {
        Self {
            inner,
            tack: TackConfig::default(),
            stateless_reset_token: None,
            template: None,
            inert: false,
        }
    }

    /// Sets every field of the layer to a profile's default.
    pub fn set_profile(&mut self, profile: Profile) {
        self.set_tack(TackConfig::new(profile));
    }

    /// The layer's settings.
    pub fn tack(&self) -> &TackConfig {
        &self.tack
    }

    /// Sets the layer's settings.
    pub fn set_tack(&mut self, tack: TackConfig) {
        self.tack = tack;
        if tack.profile == Profile::Off && self.inert {
            self.inert = false;
            self.inner.set_cc_algorithm(CongestionControlAlgorithm::CUBIC);
            self.inner.set_initial_congestion_window_packets(QUICHE_WINDOW_PACKETS);
            self.inner.enable_pacing(true);
        }
    }

    /// Sets the stateless reset token of the next server connection, as
    /// [`quiche::Config::set_stateless_reset_token`].
    pub fn set_stateless_reset_token(&mut self, token: Option<u128>) {
        self.stateless_reset_token = token;
        self.inner.set_stateless_reset_token(token);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.tack.profile != Profile::Off
    }

    pub(crate) fn stateless_reset_token(&self) -> Option<u128> {
        self.stateless_reset_token
    }

    /// quiche's configuration, ready for a connection: with its controller out of
    /// the way if the layer is going to take its place.
    pub(crate) fn prepared(&mut self) -> &mut quiche::Config {
        if self.is_enabled() && !self.inert && self.template().is_some() {
            self.inert = true;
            self.inner.set_cc_algorithm(CongestionControlAlgorithm::Bbr2Gcongestion);
            self.inner.set_initial_congestion_window_packets(INERT_WINDOW_PACKETS);
            self.inner.enable_pacing(false);
            self.inner.log_keys();
        }
        &mut self.inner
    }

    /// The transport parameters that quiche would send with this configuration,
    /// and our announcement; `None` if they cannot be had, which leaves plain quiche.
    pub(crate) fn template(&mut self) -> Option<&Template> {
        if self.template.is_none() {
            self.template = Template::capture(&mut self.inner);
        }
        self.template.as_ref()
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
        self.template = None;
        self.inert = false;
        &mut self.inner
    }
}
