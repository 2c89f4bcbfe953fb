//! Switches that change what is measured and not what a user would want: for comparison.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tack_proto::receiver::Schedule;
use tack_proto::sender::Deviations;

/// When this end acknowledges what a TACK peer sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AckSchedule {
    /// As the sender asks: equation (4) of the paper.
    #[default]
    Tack,
    /// RFC 9000's delayed ACK.
    ///
    /// Every second packet, at once when one is out of order, and within `max_ack_delay`.
    Delayed,
    /// The same after another number of packets.
    EveryPackets(u64),
    /// At this interval while packets arrive.
    Periodic(Duration),
}

impl From<AckSchedule> for Schedule {
    fn from(schedule: AckSchedule) -> Self {
        match schedule {
            AckSchedule::Tack => Self::Tack,
            AckSchedule::Delayed => Self::EveryPackets(2),
            AckSchedule::EveryPackets(packets) => Self::EveryPackets(packets),
            AckSchedule::Periodic(interval) => Self::Periodic(interval),
        }
    }
}

/// What the lab compares the layer with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabSwitches {
    /// When this end acknowledges. As the sender asks.
    pub schedule: AckSchedule,
    /// Q of equation (5): the most gaps that one acknowledgement of this end reports.
    ///
    /// Bubbles in a TACK, gaps in packet numbers in an IACK. No limit; `Some(1)`, the least,
    /// is the paper's "poor" TACK: it acknowledges what arrived
    /// before the oldest bubble, and the packet right behind that.
    pub reported_gaps: Option<usize>,
    /// Whether round trips are sampled as by TCP's timestamps, not by one-way delays.
    ///
    /// The samples then include the wait for the acknowledgement.
    pub plain_sampling: bool,
    /// Whether a stock peer that takes ACK_FREQUENCY is asked to acknowledge less.
    ///
    /// If not, it is sent neither that nor IMMEDIATE_ACK.
    pub asks_stock_peers: bool,
    /// Where the controller differs from the BBR draft. Everywhere.
    #[serde(skip)]
    pub deviations: Deviations,
}

impl Default for LabSwitches {
    fn default() -> Self {
        Self {
            schedule: AckSchedule::Tack,
            reported_gaps: None,
            plain_sampling: false,
            asks_stock_peers: true,
            deviations: Deviations::ALL,
        }
    }
}
