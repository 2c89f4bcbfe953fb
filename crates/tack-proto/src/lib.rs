//! The TACK protocol without any I/O: frames, and what a data receiver and a
//! data sender do with them.
//!
//! Nothing here reads a clock, owns a socket or starts a thread; time comes in
//! as an argument. Nothing here knows of quiche or of encryption either: the
//! crate `tacklib` joins this one with both.
//!
//! - [`frame`]: every frame of RFC 9000 as far as an observer needs it, and the
//!   extension frames in full.
//! - [`transport_parameters`]: what the two ends announce.
//! - [`receiver`]: which packets arrived, when to acknowledge, what to report.
//! - [`ecn`]: the ECN field of the IP header, and what a sender marks.
//! - [`sender`]: what is in flight, pacing, receiver-driven BBR.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bandwidth;
pub mod ecn;
pub mod frame;
pub mod loss_detection;
pub mod profiles;
pub mod range_set;
pub mod receiver;
mod repetition;
pub mod sender;
pub mod transport_parameters;
pub mod varint;
mod windowed_filter;

/// An arbitrary instant for tests to count from.
#[cfg(test)]
#[allow(clippy::disallowed_methods)] // the only place where a test needs a clock
fn test_clock() -> std::time::Instant {
    std::time::Instant::now()
}
