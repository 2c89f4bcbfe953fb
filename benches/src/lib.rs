//! What the benchmarks share: two connections in one process with no socket between them, in
//! real time ([`Pair`]) and in virtual time ([`Course`]), and the clock that the former are
//! measured with.
//!
//! Ratios are what to look at. Two kinds of connection that take turns in one process see the
//! same machine; a time from another hour or another machine says nothing about this one.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod course;
mod pair;
mod versions;

pub use course::{Course, Finish, Runner, Side, Transport};
pub use pair::{Outcome, Pair, Setup};
pub use tack_perf::process_cpu_time;
pub use versions::quiche_version;
