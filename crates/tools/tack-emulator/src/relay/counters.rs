//! What a relay did.

use std::time::Duration;

use serde::Serialize;
use tack_link::{Direction, Losses};

/// Sent on later than this after its time, a datagram has missed its deadline.
pub const LATE: Duration = Duration::from_millis(5);

/// What became of the datagrams of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LaneCounters {
    /// Datagrams that the endpoint sent.
    pub packets: u64,
    /// Bytes of UDP payload in them.
    pub bytes: u64,
    /// Datagrams handed to the other endpoint; those that the link doubled count twice.
    pub delivered_packets: u64,
    /// Bytes of UDP payload in them.
    pub delivered_bytes: u64,
    /// Datagrams that the link lost.
    pub losses: Losses,
    /// Datagrams that the host did not take for delivery, as when its port is closed.
    pub refused: u64,
    /// Datagrams to an address that the client no longer had.
    pub expired: u64,
    /// Datagrams larger than the MTU of an emulated link, 1,500 bytes: a link drops them, whatever the loopback
    /// interface carries.
    pub too_large: u64,
    /// Datagrams that the link delivered, or was about to, with a bit flipped.
    pub corrupted: u64,
}

impl LaneCounters {
    /// Datagrams neither delivered nor lost: on their way when the relay stopped. Of no meaning
    /// with a link that doubles packets.
    pub const fn in_transit(&self) -> u64 {
        let dropped = self.losses.total() + self.expired + self.too_large;
        let ended = self.delivered_packets + self.refused + dropped;
        self.packets.saturating_sub(ended)
    }

    pub(super) const fn sent(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
    }

    pub(super) const fn expired(&mut self) {
        self.expired += 1;
    }

    pub(super) const fn too_large(&mut self) {
        self.too_large += 1;
    }

    pub(super) const fn delivered(&mut self, len: usize, accepted: bool) {
        if accepted {
            self.delivered_packets += 1;
            self.delivered_bytes += len as u64;
        } else {
            self.refused += 1;
        }
    }
}

/// What a relay did.
#[derive(Clone, Debug)]
pub struct RelayReport<O = ()> {
    /// The direction from the server to clients.
    pub forward: LaneCounters,
    /// The direction from clients to the server.
    pub reverse: LaneCounters,
    /// Datagrams sent on later than [`LATE`] because the relay's thread did not get the
    /// processor. Measurements over such a link describe the machine rather than the link.
    pub deadline_misses: u64,
    /// How often clients got another address.
    pub rebindings: u64,
    /// By how much the latest of all was late.
    pub worst_lateness: Duration,
    /// What was given to [`Relay::start_observed`](super::Relay::start_observed).
    pub observer: O,
}

impl<O> RelayReport<O> {
    /// The counters of one direction.
    pub const fn counters(&self, direction: Direction) -> &LaneCounters {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Reverse => &self.reverse,
        }
    }
}
