//! What an acknowledgement must not say.

use super::{BadBubble, OptimisticAck};

/// Why an acknowledgement was refused. The connection must be closed with
/// PROTOCOL_VIOLATION.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A number that was never sent.
    #[error(transparent)]
    OptimisticAck(#[from] OptimisticAck),
    /// Bubbles in what was never sent.
    #[error(transparent)]
    BadBubble(#[from] BadBubble),
    /// A departure timestamp later than now.
    #[error(
        "the peer echoed a departure timestamp that lies in the future; it is faulty or lies"
    )]
    FutureTimestamp,
    /// More bytes received than were sent.
    #[error(
        "the peer reports {reported} bytes received where {sent} were sent; it is faulty or lies"
    )]
    ReceivedMoreThanSent {
        /// Its claim.
        reported: u64,
        /// Our record.
        sent: u64,
    },
    /// Too many packets since the newest that it has acknowledged (TACK-7-16).
    #[error(
        "the peer has acknowledged none of the last {packets} packets, and goes on sending"
    )]
    AcknowledgesNothing {
        /// How many.
        packets: u64,
    },
}
