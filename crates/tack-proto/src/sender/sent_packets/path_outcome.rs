//! What an acknowledgement says of the path that data goes over.

use std::time::Duration;

use super::{Pace, RateSample, Sent, TxInFlight};
use crate::sender::black_hole::BASE_PLPMTU;
use crate::sender::ecn_validation::MarkedPackets;

/// What an acknowledgement says of the current path. Packets of other paths
/// have no part in it (RFC 9000 section 9.4).
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sender) struct PathOutcome {
    pub acked_bytes: u64,
    pub lost_bytes: u64,
    pub lost_packets: u64,
    /// Lost packets that not every path takes, and whether one of these has arrived.
    pub long_lost: u64,
    pub has_long_acked: bool,
    /// Packets that were taken for lost and have arrived after all.
    pub spurious: u64,
    /// Those bytes that were sent to probe for bandwidth.
    pub probe_acked_bytes: u64,
    pub probe_lost_bytes: u64,
    /// Those that Down has sent.
    pub slow_acked_bytes: u64,
    pub slow_lost_bytes: u64,
    /// What was in flight when the last of the lost ones left.
    pub probe_lost_at: Option<TxInFlight>,
    pub marked: MarkedPackets,
    /// Packets newly reported as CE, on a path where reports can be relied on.
    pub ce: u64,
    /// Round trip of the largest newly acknowledged packet, its hold included.
    pub largest_rtt: Option<Duration>,
    /// Time since the smallest newly acknowledged packet left, the wait for its
    /// acknowledgement included.
    pub earliest_rtt: Option<Duration>,
    /// Delivery rate.
    pub sample: Option<RateSample>,
    /// Persistent congestion is established (TACK-6.6-1).
    pub is_persistent_congestion: bool,
    /// A packet has arrived for whose loss it was (TACK-6.6-4).
    pub was_no_persistent_congestion: bool,
}

impl PathOutcome {
    pub(super) fn on_acked(&mut self, sent: &Sent) {
        let bytes = u64::from(sent.bytes);
        self.acked_bytes += bytes;
        self.has_long_acked |= sent.bytes > BASE_PLPMTU;
        match sent.pace {
            Pace::Level => {}
            Pace::Above => self.probe_acked_bytes += bytes,
            Pace::Below => self.slow_acked_bytes += bytes,
        }
    }

    pub(super) fn on_lost(&mut self, sent: &Sent) {
        self.lost_bytes += u64::from(sent.bytes);
        self.lost_packets += 1;
        self.long_lost += u64::from(sent.bytes > BASE_PLPMTU);
        match sent.pace {
            Pace::Level => {}
            Pace::Above => {
                self.probe_lost_bytes += u64::from(sent.bytes);
                self.probe_lost_at = Some(sent.tx_in_flight());
            }
            Pace::Below => self.slow_lost_bytes += u64::from(sent.bytes),
        }
    }
}
