//! What an acknowledgement changed.

use std::ops::RangeInclusive;

use super::PathOutcome;
use crate::sender::ecn_validation::MarkedPackets;

/// Packets that an acknowledgement took out of flight.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AckOutcome {
    /// Newly acknowledged numbers, ascending ranges. Numbers that were skipped
    /// on purpose below the largest of them are among them, once.
    pub acked: Vec<RangeInclusive<u64>>,
    /// Bytes of them that were in flight.
    pub acked_bytes: u64,
    /// Bytes that are lost now.
    pub lost_bytes: u64,
    /// Packets that are lost now.
    pub lost_packets: u64,
    /// Packets that no number named, and whose data has arrived according to bubbles.
    pub by_bubbles: u64,
    /// Packets that were taken for lost and have arrived after all.
    pub spurious: u64,
    /// Packets among them that left with an ECT codepoint.
    pub(in crate::sender) marked: MarkedPackets,
    /// What it says of the path that data goes over now.
    pub(in crate::sender) current: PathOutcome,
}

impl AckOutcome {
    /// A marked packet was acknowledged, or taken out of flight.
    pub(super) fn on_marked_landed(
        &mut self,
        is_current: bool,
        is_acked: bool,
        was_in_flight: bool,
    ) {
        let PathOutcome { marked: of_path, .. } = &mut self.current;
        for marked in
            [Some(&mut self.marked), is_current.then_some(of_path)].into_iter().flatten()
        {
            marked.acked += u64::from(is_acked);
            marked.landed += u64::from(was_in_flight);
        }
    }
}
