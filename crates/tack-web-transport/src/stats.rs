//! Statistics of a session.

use std::time::Duration;

use tack_tokio::Connection;

/// What the trait asks for, of one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    bytes_sent: Option<u64>,
    bytes_received: Option<u64>,
    bytes_lost: Option<u64>,
    packets_sent: Option<u64>,
    packets_received: Option<u64>,
    packets_lost: Option<u64>,
    rtt: Option<Duration>,
    estimated_send_rate: Option<u64>,
}

impl Stats {
    pub(crate) fn of(connection: &Connection) -> Self {
        let media = connection.media_stats();
        let stats = connection.stats();
        let stats = stats.as_ref();
        Self {
            bytes_sent: stats.map(|stats| stats.sent_bytes),
            bytes_received: stats.map(|stats| stats.recv_bytes),
            bytes_lost: stats.map(|stats| stats.lost_bytes),
            packets_sent: stats.map(|stats| stats.sent as u64),
            packets_received: stats.map(|stats| stats.recv as u64),
            packets_lost: stats.map(|stats| stats.lost as u64),
            rtt: media.smoothed_rtt.or_else(|| {
                connection.path_stats().iter().find(|path| path.active).map(|path| path.rtt)
            }),
            // Bytes; zero before anything is measured.
            estimated_send_rate: Some(media.estimated_send_rate.saturating_mul(8))
                .filter(|rate| *rate > 0),
        }
    }
}

impl web_transport_trait::Stats for Stats {
    fn bytes_sent(&self) -> Option<u64> {
        self.bytes_sent
    }

    fn bytes_received(&self) -> Option<u64> {
        self.bytes_received
    }

    fn bytes_lost(&self) -> Option<u64> {
        self.bytes_lost
    }

    fn packets_sent(&self) -> Option<u64> {
        self.packets_sent
    }

    fn packets_received(&self) -> Option<u64> {
        self.packets_received
    }

    fn packets_lost(&self) -> Option<u64> {
        self.packets_lost
    }

    fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    fn estimated_send_rate(&self) -> Option<u64> {
        self.estimated_send_rate
    }
}
