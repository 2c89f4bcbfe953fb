//! Drain: give back the queue that Startup built.

use super::startup;

/// Inverse of Startup's gain: the queue is gone in about a round.
pub const GAIN: f64 = 1.0 / startup::GAIN;

/// Drained once no more is in flight than the path itself holds.
pub fn is_done(in_flight: u64, bdp: u64) -> bool {
    in_flight <= bdp
}
