//! How often TACKs repeat what they report (TACK-4.1-1, TACK-4.1-5): what the receiver writes, and the sender relies on.

/// TACKs in which a range is repeated (TACK-4.1-1). With 30 % loss on the ACK path all of
/// them get lost once in 15,000 times.
pub const REPETITIONS: usize = 8;

/// Ranges that a long TACK repeats at least, however old they are (TACK-4.1-2).
pub const LEAST_RANGES: usize = 32;

/// One TACK in so many is a long one in any case. Senders ask for two to four TACKs in a round trip (beta, section IV-B
/// of the paper), so that they wait for a long one no longer than two round trips.
const LONG_ONE_IN: u64 = 4;

/// Whether the TACK of this sequence is a long one in any case: one that repeats older ranges too (TACK-4.1-5).
pub const fn is_long(sequence: u64) -> bool {
    sequence.is_multiple_of(LONG_ONE_IN)
}
