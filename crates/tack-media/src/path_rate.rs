//! What a sender knows of the path's rate, with TACK and without.

use std::time::Duration;

use quiche::BufFactory;
use tacklib::{Connection, MediaStats};

/// What an [`EncoderRateControl`](crate::EncoderRateControl) goes by. Plain QUIC tells no estimate of the path: its
/// window over the round trip, as programs take it.
pub fn path_stats<F: BufFactory>(connection: &Connection<F>) -> MediaStats {
    let mut stats = connection.media_stats();
    if connection.is_tack() {
        return stats;
    }
    if let Some(path) = connection.path_stats().find(|path| path.active) {
        let rtt = path.rtt.as_secs_f64().max(1e-6);
        stats.estimated_send_rate = (path.cwnd as f64 / rtt) as u64;
        stats.rate_age = Some(Duration::ZERO);
    }
    stats
}
