//! What a sender is set to.

use super::{BbrConfig, Frequency, Peer};

/// Settings of a sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// Equation (4).
    pub frequency: Frequency,
    /// The controller.
    pub bbr: BbrConfig,
    /// What the peer does with ACK_FREQUENCY; `None` where it did not announce
    /// to accept any.
    pub peer: Option<Peer>,
    /// log2 of the microseconds in one unit of our timestamps
    /// (`ack_delay_exponent`).
    pub timestamp_exponent: u32,
    /// Largest packet, bytes.
    pub mss: u64,
    /// Never more in flight, bytes: what the stack below takes.
    pub max_in_flight: u64,
    /// Whether a round trip ends with the acknowledgement and begins with the earliest packet in
    /// it, as TCP's timestamps have it (RFC 7323 section 4.3), so that the wait for the
    /// acknowledgement is part of it. For comparison (section V-B).
    pub plain_sampling: bool,
    /// Whether every packet is recorded here. After 0-RTT some were not, and what
    /// the peer received in all cannot be held against the record.
    pub sees_all: bool,
    /// Whether this end is the server: which streams it sends on.
    pub is_server: bool,
}
