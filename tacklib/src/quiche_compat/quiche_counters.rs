//! What quiche made of the datagrams that it was given.
//!
//! What: whether quiche has accepted a packet, found losses, or repeated stream data. Why: `recv` of
//! quiche (0.30) returns the same for a packet that it accepted and one that it dropped; only its
//! counters tell. The counters of the paths are read and not `Connection::stats`, which walks all
//! streams. Upstream: no hook. To delete: when `recv` reports the packets that it has accepted.

use quiche::BufFactory;

/// quiche's counters when last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuicheCounters {
    received: usize,
    /// Packets accepted since then that need not be looked for.
    known: usize,
    lost: usize,
    probe_timeouts: usize,
}

/// What has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicheDelta {
    /// Packets that were accepted.
    pub accepted: usize,
    /// Packets were taken for lost.
    pub losses: bool,
    /// The probe timer (RFC 9002 section 6.2) has expired.
    pub probe_timeout: bool,
}

impl QuicheCounters {
    fn of<F: BufFactory>(connection: &quiche::Connection<F>) -> Self {
        connection.path_stats().fold(Self::default(), |sum, path| Self {
            received: sum.received + path.recv,
            known: 0,
            lost: sum.lost + path.lost,
            probe_timeouts: sum.probe_timeouts + path.total_pto_count,
        })
    }

    /// A packet has been accepted, as is known without a look.
    #[inline]
    pub fn on_accepted(&mut self) {
        self.known += 1;
    }

    /// Looks again and tells what is new since the last look.
    pub fn follow<F: BufFactory>(&mut self, connection: &quiche::Connection<F>) -> QuicheDelta {
        let now = Self::of(connection);
        let before = std::mem::replace(self, now);
        QuicheDelta {
            // A path that quiche gives up takes its counts along, and only a packet that it has accepted
            // makes it do so.
            accepted: now.received.checked_sub(before.received + before.known).unwrap_or(1),
            losses: now.lost > before.lost,
            probe_timeout: now.probe_timeouts != before.probe_timeouts,
        }
    }

    /// Stream bytes that quiche has sent again, over all paths.
    pub fn repeated_stream_bytes<F: BufFactory>(connection: &quiche::Connection<F>) -> u64 {
        connection.path_stats().map(|path| path.stream_retrans_bytes).sum()
    }
}
