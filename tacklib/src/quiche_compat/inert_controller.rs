//! quiche's congestion controller out of the way.
//!
//! What: settings that keep quiche's own window open whatever happens, and pacing off. Why: quiche takes
//! no controller from outside, and its own counts on frequent acknowledgements. The algorithm
//! `Bbr2Gcongestion` accepts an initial window of 20,000 packets and does not shrink it. Upstream: no
//! hook. To delete: when quiche takes a controller as a trait object, or lets one be switched off.

use quiche::CongestionControlAlgorithm;

/// Packets in quiche's initial window: the most that it accepts. With it 27 MB may be in flight.
const INERT_WINDOW_PACKETS: usize = 20_000;

/// Packets in flight at most: what quiche's window of 20,000 leaves room for. Where that window closed
/// first, nothing would say when it opens again.
pub const MAX_IN_FLIGHT_PACKETS: u64 = 19_500;

/// Opens quiche's window for good.
pub fn make_inert(config: &mut quiche::Config) {
    config.set_cc_algorithm(CongestionControlAlgorithm::Bbr2Gcongestion);
    config.set_initial_congestion_window_packets(INERT_WINDOW_PACKETS);
    config.enable_pacing(false);
    config.log_keys();
}

/// Gives quiche its own defaults back.
pub fn restore_controller(config: &mut quiche::Config) {
    const INITIAL_WINDOW_PACKETS: usize = 10;
    config.set_cc_algorithm(CongestionControlAlgorithm::CUBIC);
    config.set_initial_congestion_window_packets(INITIAL_WINDOW_PACKETS);
    config.enable_pacing(true);
}
