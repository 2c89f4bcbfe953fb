//! quiche's configuration, which begins with the profile that the user has chosen.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use quiche::{CongestionControlAlgorithm, Result};

use crate::profile;

/// A configuration, as [`quiche::Config`].
///
/// It dereferences to [`tacklib::Config`], and that to quiche's.
pub struct Config(tacklib::Config);

impl Config {
    /// Creates a configuration for a QUIC version, as [`quiche::Config::new`].
    ///
    /// Errors are quiche's.
    pub fn new(version: u32) -> Result<Self> {
        tacklib::Config::new(version).map(Self::with_profile)
    }

    /// Creates a configuration with a TLS context of the application's, as
    /// [`quiche::Config::with_boring_ssl_ctx_builder`].
    ///
    /// Errors are quiche's.
    pub fn with_boring_ssl_ctx_builder(
        version: u32,
        builder: boring::ssl::SslContextBuilder,
    ) -> Result<Self> {
        tacklib::Config::with_boring_ssl_ctx_builder(version, builder).map(Self::with_profile)
    }

    fn with_profile(mut config: tacklib::Config) -> Self {
        config.set_profile(profile::from_environment());
        Self(config)
    }
}

/// Defines setters that call tacklib's, or quiche's behind it: a program that names one by its path finds no
/// other than those of this type.
macro_rules! setters {
    ($($(#[$attribute:meta])* fn $name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl Config {
            $(
                #[doc = concat!("As [`quiche::Config::", stringify!($name), "`].")]
                $(#[$attribute])*
                pub fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
                    self.0.$name($($argument),*)
                }
            )*
        }
    };
}

setters! {
    fn discover_pmtu(&mut self, discover: bool);
    fn enable_dgram(&mut self, enabled: bool, recv_queue_len: usize, send_queue_len: usize);
    fn enable_early_data(&mut self);
    fn enable_hystart(&mut self, hystart: bool);
    fn enable_pacing(&mut self, pacing: bool);
    fn enable_track_unknown_transport_parameters(&mut self, size: usize);
    fn grease(&mut self, grease: bool);
    fn load_cert_chain_from_pem_file(&mut self, file: &str) -> Result<()>;
    fn load_priv_key_from_pem_file(&mut self, file: &str) -> Result<()>;
    fn load_verify_locations_from_directory(&mut self, directory: &str) -> Result<()>;
    fn load_verify_locations_from_file(&mut self, file: &str) -> Result<()>;
    fn log_keys(&mut self);
    fn set_ack_delay_exponent(&mut self, exponent: u64);
    fn set_active_connection_id_limit(&mut self, limit: u64);
    fn set_application_protos(&mut self, protos: &[&[u8]]) -> Result<()>;
    fn set_application_protos_wire_format(&mut self, protos: &[u8]) -> Result<()>;
    fn set_cc_algorithm(&mut self, algorithm: CongestionControlAlgorithm);
    fn set_cc_algorithm_name(&mut self, name: &str) -> Result<()>;
    fn set_curves_list(&mut self, curves: &str) -> Result<()>;
    #[cfg(feature = "internal")]
    #[doc(hidden)]
    fn set_custom_bbr_params(&mut self, parameters: quiche::BbrParams);
    fn set_disable_active_migration(&mut self, disable: bool);
    fn set_disable_dcid_reuse(&mut self, disable: bool);
    fn set_enable_cubic_idle_restart_fix(&mut self, enable: bool);
    fn set_enable_relaxed_loss_threshold(&mut self, enable: bool);
    fn set_enable_send_streams_blocked(&mut self, enable: bool);
    fn set_initial_congestion_window_packets(&mut self, packets: usize);
    fn set_initial_max_data(&mut self, bytes: u64);
    fn set_initial_max_stream_data_bidi_local(&mut self, bytes: u64);
    fn set_initial_max_stream_data_bidi_remote(&mut self, bytes: u64);
    fn set_initial_max_stream_data_uni(&mut self, bytes: u64);
    fn set_initial_max_streams_bidi(&mut self, streams: u64);
    fn set_initial_max_streams_uni(&mut self, streams: u64);
    fn set_initial_rtt(&mut self, rtt: Duration);
    fn set_max_ack_delay(&mut self, milliseconds: u64);
    fn set_max_amplification_factor(&mut self, factor: usize);
    fn set_max_connection_window(&mut self, bytes: u64);
    fn set_max_idle_timeout(&mut self, milliseconds: u64);
    fn set_max_pacing_rate(&mut self, bytes_per_second: u64);
    fn set_max_recv_udp_payload_size(&mut self, bytes: usize);
    fn set_max_send_udp_payload_size(&mut self, bytes: usize);
    fn set_max_stream_window(&mut self, bytes: u64);
    fn set_path_challenge_recv_max_queue_len(&mut self, queue_len: usize);
    fn set_pmtud_max_probes(&mut self, max_probes: u8);
    fn set_send_capacity_factor(&mut self, factor: f64);
    fn set_stateless_reset_token(&mut self, token: Option<u128>);
    fn set_ticket_key(&mut self, key: &[u8]) -> Result<()>;
    #[deprecated(note = "This is now always enabled. This method is a no-op.")]
    #[allow(deprecated)]
    fn set_use_initial_max_data_as_flow_control_win(&mut self, enable: bool);
    fn verify_peer(&mut self, verify: bool);
}

impl Deref for Config {
    type Target = tacklib::Config;

    fn deref(&self) -> &tacklib::Config {
        &self.0
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut tacklib::Config {
        &mut self.0
    }
}
