//! What was in flight when a packet left.

use std::time::Duration;

use super::Sent;

/// What was in flight on its path when a packet had left, itself included (P.tx_in_flight of the BBR
/// draft).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxInFlight {
    /// Bytes.
    pub bytes: u64,
    /// The time since the acknowledgement before: what has been delivered in it counts among them.
    pub since_ack: Duration,
}

impl Sent {
    pub(super) fn tx_in_flight(&self) -> TxInFlight {
        TxInFlight {
            bytes: u64::from(self.tx_in_flight),
            since_ack: self.time.since(self.delivered_time),
        }
    }
}
