//! Links to test transports on, as models without sockets, threads or clocks.
//!
//! A [`Link`] takes packets, and gives them back when they arrive at the other end: late,
//! out of order, twice, damaged or never, as the link that it stands for would. Whoever drives
//! it says what time it is, so the same model runs in virtual time and in real time. Every
//! random draw comes from a seed: the same packets at the same times meet the same fate.

#![forbid(unsafe_code)]

pub mod compose;
pub mod emulation;
mod link;
mod parameter;
pub mod pipe;
mod random;
pub mod spec;
mod time;
pub mod wlan;

pub use link::{Arrival, Direction, Ecn, Link, Losses, Packet};
pub use parameter::ParameterError;
pub use random::child_seed;
pub use spec::{LinkSpec, PathSpec, SpecError};
pub use time::Time;
