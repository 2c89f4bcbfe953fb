//! What quiche made of the datagrams that it was given.
//!
//! `recv` of quiche (0.30) returns the same for a packet that it accepted and one that it
//! dropped; only its counters tell.

/// quiche's counters when last looked at. Looking is not free: quiche sums over its streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    received: usize,
    lost: usize,
}

/// What has changed.
#[derive(Clone, Copy, Debug)]
pub struct News {
    /// A packet was accepted.
    pub packet: bool,
    /// Packets were taken for lost.
    pub losses: bool,
}

impl Progress {
    /// The counters as they are.
    pub fn of(connection: &quiche::Connection) -> Self {
        let stats = connection.stats();
        Self { received: stats.recv, lost: stats.lost }
    }

    /// Looks again.
    pub fn follow(&mut self, connection: &quiche::Connection) -> News {
        let now = Self::of(connection);
        let before = std::mem::replace(self, now);
        News { packet: now.received > before.received, losses: now.lost > before.lost }
    }
}
