//! What decides when a receiver acknowledges.

use std::time::Duration;

use super::Rule;

/// TACK, or a fixed way to acknowledge that is compared with it.
///
/// A fixed schedule changes when the receiver acknowledges and nothing else: the sender still
/// says how long a TACK interval would be, which the delivery rate is measured over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// The sender, by ACK_FREQUENCY: equation (4) of the paper.
    #[default]
    Tack,
    /// Byte counting: after so many packets, at once when one comes out of order, and before
    /// `max_ack_delay` has passed. 2 is RFC 9000's delayed ACK (sections 13.2.1 and 13.2.2).
    EveryPackets(u64),
    /// Periodically while packets arrive, and at once for a loss.
    Periodic(Duration),
}

impl Schedule {
    /// The rule in force where the sender has asked for `asked`; `max_ack_delay` is the receiver's
    /// own.
    pub(super) fn rule(self, asked: Rule, max_ack_delay: Duration) -> Rule {
        match self {
            Self::Tack => asked,
            Self::EveryPackets(packets) => {
                Rule::Delayed { threshold: packets.saturating_sub(1), max_delay: max_ack_delay }
            }
            Self::Periodic(interval) => Rule::Tack { packets: 1, interval },
        }
    }
}
