//! quiche's congestion controller out of the way.
//!
//! What: settings that keep quiche's own window open whatever happens, and pacing off. Why: quiche takes
//! no controller from outside, and its own counts on frequent acknowledgements. The algorithm
//! `Bbr2Gcongestion` accepts an initial window of 20,000 packets and does not shrink it. The secrets that the layer
//! needs come by quiche's key log, which takes the place of the callback of an application's TLS context:
//! `boringssl::forward_key_log` has that called, too. Upstream: no hook. To delete: when quiche takes a controller as a
//! trait object, or lets one be switched off, and adds its key log to the one that is there.

use quiche::{BufFactory, CongestionControlAlgorithm};

/// Packets in quiche's initial window: the most that it accepts. With it 27 MB may be in flight.
const INERT_WINDOW_PACKETS: usize = 20_000;

/// Packets in flight at most: what quiche's window of 20,000 leaves room for. Where that window closed
/// first, nothing would say when it opens again.
pub const MAX_IN_FLIGHT_PACKETS: u64 = 19_500;

/// quiche's initial window.
const INITIAL_WINDOW_PACKETS: usize = 10;

/// Opens quiche's window for good, and has quiche judge losses and take data as the layer expects.
pub fn make_inert(config: &mut quiche::Config) {
    config.set_cc_algorithm(CongestionControlAlgorithm::Bbr2Gcongestion);
    config.set_initial_congestion_window_packets(INERT_WINDOW_PACKETS);
    config.enable_pacing(false);
    restore_rest(config);
    config.log_keys();
}

/// Gives quiche its own defaults back.
pub fn restore_controller(config: &mut quiche::Config) {
    config.set_cc_algorithm(CongestionControlAlgorithm::CUBIC);
    config.set_initial_congestion_window_packets(INITIAL_WINDOW_PACKETS);
    config.enable_pacing(true);
    restore_rest(config);
}

/// Gives the settings their defaults that the layer leaves as they come.
fn restore_rest(config: &mut quiche::Config) {
    config.set_enable_relaxed_loss_threshold(false);
    config.set_send_capacity_factor(1.0);
    #[cfg(feature = "internal")]
    config.set_custom_bbr_params(quiche::BbrParams::default());
}

/// What a connection shows of the settings of quiche's controller that it was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerLook {
    is_gcongestion: bool,
    has_open_window: bool,
    paces: bool,
}

impl ControllerLook {
    /// Behind [`make_inert`].
    pub const INERT: Self = Self { is_gcongestion: true, has_open_window: true, paces: false };

    /// Of a new connection.
    pub fn of<F: BufFactory>(connection: &quiche::Connection<F>) -> Self {
        let path = connection.path_stats().next();
        Self {
            is_gcongestion: connection.gcongestion_enabled() == Some(true),
            has_open_window: path
                .is_some_and(|path| path.cwnd >= INERT_WINDOW_PACKETS * path.pmtu),
            paces: connection.pacing_enabled(),
        }
    }

    /// Of settings, and of quiche's defaults where there is none.
    pub fn of_settings(
        algorithm: Option<CongestionControlAlgorithm>,
        initial_window_packets: Option<usize>,
        pacing: Option<bool>,
    ) -> Self {
        let window = initial_window_packets.unwrap_or(INITIAL_WINDOW_PACKETS);
        Self {
            is_gcongestion: algorithm == Some(CongestionControlAlgorithm::Bbr2Gcongestion),
            has_open_window: window >= INERT_WINDOW_PACKETS,
            paces: pacing.unwrap_or(true),
        }
    }
}
