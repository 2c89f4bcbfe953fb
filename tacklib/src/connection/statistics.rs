//! What quiche's getters tell, where quiche's own controller would answer for the layer's.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::{BufFactory, PathStats};

use super::Connection;
use crate::error::ExtensionError;
use crate::layer::Layer;
use crate::media_stats::MediaStats;
use crate::stats::TackStats;

/// The send quantum lasts this long at the pacing rate (draft-ietf-ccwg-bbr-06 section 5.6.3).
const QUANTUM: Duration = Duration::from_millis(1);

/// And is no longer than this, bytes (the same section).
const LARGEST_QUANTUM: usize = 64 * 1024;

/// Release times this close count as one, as in quiche.
const EQUAL_RELEASE: Duration = Duration::from_micros(50);

/// When the next packet should leave, as quiche's `ReleaseDecision`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseDecision {
    at: Option<Instant>,
    can_burst: bool,
}

impl ReleaseDecision {
    /// The time to release the packet at; `None` means now.
    pub fn time(&self, now: Instant) -> Option<Instant> {
        self.at.filter(|at| *at > now)
    }

    /// Whether the packet may join the burst before it.
    pub fn can_burst(&self) -> bool {
        self.can_burst
    }

    /// Whether two packets can be released at the same time.
    pub fn time_eq(&self, other: &Self, now: Instant) -> bool {
        let (a, b) = (self.time(now).unwrap_or(now), other.time(now).unwrap_or(now));
        a.max(b) - a.min(b) <= EQUAL_RELEASE
    }
}

impl<F: BufFactory> Connection<F> {
    /// Connection statistics, as [`quiche::Connection::stats`].
    ///
    /// Each call adds up the buffers of all streams. `stopped_stream_count_local` also counts the streams that
    /// the application has stopped reading through the layer.
    pub fn stats(&self) -> quiche::Stats {
        let mut stats = self.inner.stats();
        let early = self.handshake.stopped_reads.counted();
        let stops = self.layer.as_ref().map_or(early, |layer| layer.counted_stops());
        stats.stopped_stream_count_local += stops;
        stats
    }

    /// Whether both ends speak TACK. False until the handshake is done.
    pub fn is_tack(&self) -> bool {
        self.layer.as_ref().is_some_and(|layer| layer.agreement().tack)
    }

    /// Statistics of the layer.
    ///
    /// All zero before the handshake is done and with [`Profile::Off`](crate::Profile::Off).
    pub fn tack_stats(&self) -> TackStats {
        self.layer.as_ref().map(|layer| TackStats::of(layer)).unwrap_or_default()
    }

    /// Statistics for live media.
    ///
    /// Before the handshake is done and with [`Profile::Off`](crate::Profile::Off) they hold only counts.
    pub fn media_stats(&self) -> MediaStats {
        let backlog = self.seam.send_buffer.buffered();
        let counts = self.deadlines.counts();
        self.media.stats(Instant::now(), self.layer.as_deref(), backlog, counts)
    }

    /// A changed [`MediaStats::estimated_send_rate`], bytes per second.
    ///
    /// `None` unless the rate differs by more than a twentieth from what this method last returned. Call it
    /// after `recv`, as for other events.
    pub fn send_rate_change(&mut self) -> Option<u64> {
        let sender = self.layer.as_ref()?.sender();
        let rate = sender.estimated_send_rate(Instant::now()).bytes_per_second();
        self.media.take_rate_change(rate)
    }

    /// Switches packet trains on or off.
    ///
    /// They measure the path while the application sends less than it may
    /// ([`TackConfig::packet_trains`](crate::TackConfig::packet_trains)). Has no effect before the handshake is
    /// done, nor where the configuration that the connection began with did not ask for them: the peer reports
    /// nothing then.
    pub fn set_packet_trains(&mut self, enabled: bool) {
        let enabled = enabled && self.config.packet_trains;
        if let Some(layer) = &mut self.layer {
            layer.set_packet_trains(enabled);
        }
    }

    /// Which rule of the extension the peer has broken, if the connection was closed for it.
    pub fn extension_error(&self) -> Option<&ExtensionError> {
        self.extension_error.as_ref()
    }

    /// Statistics of each path, as [`quiche::Connection::path_stats`].
    ///
    /// On the path that data goes over, `cwnd` is the bytes that may be in flight, `delivery_rate` and
    /// `max_bandwidth` the bandwidth estimate in bytes per second, and the round trips are the layer's; on others
    /// `cwnd` and the rates are zero.
    pub fn path_stats(&self) -> impl Iterator<Item = PathStats> + '_ {
        let layer = self.layer.as_deref();
        self.inner.path_stats().map(move |stats| match layer {
            Some(layer) => of_layer(stats, layer),
            None => stats,
        })
    }

    /// Bytes that may leave in one burst, as [`quiche::Connection::send_quantum`].
    ///
    /// A millisecond at the pacing rate, two packets at least.
    pub fn send_quantum(&self) -> usize {
        match &self.layer {
            Some(layer) if self.inner.send_quantum() > 0 => self.quantum(layer),
            _ => self.inner.send_quantum(),
        }
    }

    /// The same for one path, as [`quiche::Connection::send_quantum_on_path`].
    pub fn send_quantum_on_path(&self, local: SocketAddr, peer: SocketAddr) -> usize {
        let quiches = self.inner.send_quantum_on_path(local, peer);
        match &self.layer {
            Some(layer) if quiches > 0 => self.quantum(layer),
            _ => quiches,
        }
    }

    /// When the pacer releases the next packet, as [`quiche::Connection::get_next_release_time`].
    ///
    /// Before the handshake is done and with [`Profile::Off`](crate::Profile::Off) quiche answers.
    pub fn get_next_release_time(&self) -> Option<ReleaseDecision> {
        let Some(layer) = self.layer.as_ref() else {
            let quiches = self.inner.get_next_release_time()?;
            let at = quiches.time(Instant::now());
            return Some(ReleaseDecision { at, can_burst: quiches.can_burst() });
        };
        let at = Some(layer.sender().release_time());
        Some(ReleaseDecision { at, can_burst: false })
    }

    /// Whether packets are paced, as [`quiche::Connection::pacing_enabled`].
    pub fn pacing_enabled(&self) -> bool {
        self.layer.is_some() || self.inner.pacing_enabled()
    }

    /// Whether quiche's own pacing release times count.
    ///
    /// As [`quiche::Connection::gcongestion_enabled`]: never where the layer paces.
    pub fn gcongestion_enabled(&self) -> Option<bool> {
        let enabled = self.inner.gcongestion_enabled();
        if self.layer.is_some() { enabled.map(|_| false) } else { enabled }
    }

    fn quantum(&self, layer: &Layer) -> usize {
        let least = 2 * self.seam.path_mtu.get();
        let bytes = layer.sender().pacing_rate().bytes_in(QUANTUM);
        usize::try_from(bytes).unwrap_or(LARGEST_QUANTUM).clamp(least, LARGEST_QUANTUM)
    }
}

fn of_layer(mut stats: PathStats, layer: &Layer) -> PathStats {
    if !stats.active {
        stats.cwnd = 0;
        stats.delivery_rate = 0;
        stats.max_bandwidth = None;
        return stats;
    }
    stats.startup_exit = None;
    let sender = layer.sender();
    let bandwidth = sender.bandwidth().bytes_per_second();
    stats.cwnd = usize::try_from(sender.inflight_cap()).unwrap_or(usize::MAX);
    stats.delivery_rate = bandwidth;
    stats.max_bandwidth = Some(bandwidth);
    stats.rtt = sender.smoothed_rtt().unwrap_or(stats.rtt);
    stats.min_rtt = sender.min_rtt().or(stats.min_rtt);
    stats
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // the decision is compared with a clock's reading
mod tests {
    use super::*;

    #[test]
    fn a_release_in_the_past_is_now() {
        let now = Instant::now();
        let past = ReleaseDecision { at: Some(now), can_burst: false };
        assert_eq!(past.time(now), None);
        let later = ReleaseDecision { at: Some(now + QUANTUM), can_burst: false };
        assert_eq!(later.time(now), Some(now + QUANTUM));
        assert!(!past.time_eq(&later, now));
        assert!(past.time_eq(&ReleaseDecision { at: None, can_burst: true }, now));
    }
}
