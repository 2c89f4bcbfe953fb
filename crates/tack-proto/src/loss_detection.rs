//! Constants of loss detection, RFC 9002 section 6.1, that both ends go by.

use std::time::Duration;

/// kPacketThreshold, RFC 9002 section 6.1.1: a packet this far below an
/// acknowledged one is lost.
pub const PACKET_THRESHOLD: u64 = 3;

/// The highest packet threshold, whatever has been reordered: quiche's limit
/// (0.30), which decides what is sent again.
pub const MAX_PACKET_THRESHOLD: u64 = 20;

/// kTimeThreshold, RFC 9002 section 6.1.2, as a fraction: 9/8.
pub(crate) const TIME_THRESHOLD: (u32, u32) = (9, 8);

/// The time threshold once a loss was spurious: quiche's value.
pub(crate) const REORDERING_TIME_THRESHOLD: (u32, u32) = (5, 4);

/// kGranularity, RFC 9002 section 6.1.2: no time threshold is shorter.
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);
