//! What quiche made of the datagrams that it was given.
//!
//! What: whether quiche has accepted a packet, found losses, or repeated stream data. Why: `recv` of
//! quiche (0.30) returns the same for a packet that it accepted and one that it dropped; only its
//! counters tell. The counters of the paths are read and not `Connection::stats`, which walks all
//! streams. Upstream: no hook. To delete: when `recv` reports the packets that it has accepted.

use std::net::{IpAddr, SocketAddr};

use quiche::BufFactory;

/// quiche's counters when last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuicheCounters {
    received: usize,
    /// Which paths these are the counters of, in short, if there are several.
    paths: u64,
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
    /// Packets were taken for lost, by packets that were accepted or by a timer.
    pub losses: bool,
    /// The loss detection timer has expired (RFC 9002 appendix A.9).
    pub loss_timer: bool,
    /// It was the probe timer (RFC 9002 section 6.2).
    pub probe_timeout: bool,
}

impl QuicheCounters {
    fn of<F: BufFactory>(connection: &quiche::Connection<F>) -> Self {
        let mut sum = Self::default();
        let mut only = None;
        for path in connection.path_stats() {
            sum.received += path.recv;
            sum.lost += path.lost;
            sum.probe_timeouts += path.total_pto_count;
            let addresses = (path.local_addr, path.peer_addr);
            if sum.paths == 0 && only.is_none() {
                only = Some(addresses);
                continue;
            }
            // There is always room for a second path: one alone has not taken the place of another.
            sum.paths = sum.paths.wrapping_add(only.take().map_or(0, in_short));
            sum.paths = sum.paths.wrapping_add(in_short(addresses));
        }
        sum
    }

    /// A packet has been accepted, as is known without a look.
    #[inline]
    pub fn on_accepted(&mut self) {
        self.known += 1;
    }

    /// The application has opened a path.
    pub fn on_path_opened<F: BufFactory>(&mut self, connection: &quiche::Connection<F>) {
        self.paths = Self::of(connection).paths;
    }

    /// Looks again and tells what is new since the last look. Only packets that were accepted and expired timers have
    /// quiche find losses: those found since by a packet that was not looked for are told with the next of these, and
    /// not with a packet that quiche has refused.
    pub fn follow<F: BufFactory>(&mut self, connection: &quiche::Connection<F>) -> QuicheDelta {
        let now = Self::of(connection);
        let before = std::mem::replace(self, now);
        let accepted = now.received.saturating_sub(before.received + before.known);
        // A path that quiche gives up takes its counts along, and only a packet that it has accepted makes it do so.
        let loss_timer = now.probe_timeouts != before.probe_timeouts;
        let has_accepted = now.paths != before.paths;
        let accepted = accepted.max(usize::from(has_accepted));
        let has_happened = accepted > 0 || loss_timer;
        if !has_happened {
            self.lost = before.lost;
        }
        QuicheDelta {
            accepted,
            losses: has_happened && now.lost > before.lost,
            loss_timer,
            // quiche (0.30) counts each expiry of the timer, that of the time threshold, too, which is what it expires
            // for where packets have become lost (RFC 9002 section 6.1.2).
            probe_timeout: loss_timer && now.lost == before.lost,
        }
    }
}

/// A number that tells a path from others. A peer that finds two paths of one number has its own packets ignored.
fn in_short((local, peer): (SocketAddr, SocketAddr)) -> u64 {
    let half = |address: SocketAddr| {
        let ip = match address.ip() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => {
                (ip.to_bits() >> 64) as u64 ^ (ip.to_bits() as u64).rotate_left(31)
            }
        };
        (ip ^ u64::from(address.port()) << 48).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    };
    half(local).rotate_left(17).wrapping_add(half(peer))
}
