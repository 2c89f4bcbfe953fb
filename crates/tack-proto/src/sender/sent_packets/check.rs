//! What an acknowledgement must not claim.

use std::ops::RangeInclusive;

use super::SentPackets;

/// The receiver acknowledged what was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the peer acknowledged packet {0}, which was never sent; it is faulty or lies, \
     and the connection cannot go on"
)]
pub struct OptimisticAck(pub u64);

impl SentPackets {
    /// Refuses acknowledgements of what was not sent (RFC 9000 section 13.1, TACK-7-6). Numbers
    /// below the first one recorded pass where the record does not see all (TACK-7-15).
    pub fn check(
        &self,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
    ) -> Result<(), OptimisticAck> {
        if !self.sees_all && !self.has_begun {
            return Ok(());
        }
        for range in ranges {
            if *range.end() >= self.next_packet_number() {
                return Err(OptimisticAck(*range.end()));
            }
            if let Some(skipped) = self.skipped.overlap(range).next() {
                return Err(OptimisticAck(*skipped.start()));
            }
        }
        Ok(())
    }
}
