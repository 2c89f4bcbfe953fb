//! What a sender has counted.

/// Counters of the sending side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SenderStats {
    /// TACKs received.
    pub tacks: u64,
    /// IACKs received.
    pub iacks: u64,
    /// Standard ACK frames received.
    pub acks: u64,
    /// TACKs that did not arrive, by the gaps in their sequence.
    pub tacks_lost: u64,
    /// Packets that every acknowledgement of which got lost, or was forgotten, and whose data
    /// had arrived according to bubbles.
    pub by_bubbles: u64,
    /// Packets taken for lost.
    pub lost_packets: u64,
    /// Of these, packets that had arrived.
    pub spurious_losses: u64,
    /// How often persistent congestion was established (RFC 9002 section 7.6).
    pub persistent_congestions: u64,
    /// Bytes taken for lost.
    pub lost_bytes: u64,
    /// ACK_FREQUENCY frames sent.
    pub frequency_updates: u64,
    /// IMMEDIATE_ACK frames sent.
    pub immediate_acks: u64,
    /// Packets that were sent with an ECT codepoint.
    pub marked_packets: u64,
    /// Packets newly reported as CE, on paths where reports can be relied on.
    pub ce: u64,
    /// Bytes sent for packet trains alone, headers of the packets included (TACK-6.8-6).
    pub train_bytes: u64,
    /// Packet numbers skipped on purpose.
    pub skipped_packets: u64,
}
