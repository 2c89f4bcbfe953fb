//! Runs TACK endpoints against stock QUIC implementations and judges what happens.
//!
//! Each cell of the matrix is a transfer between two programs, our end and a peer, over
//! tack-emulator's relay. `contract` is what the programs agree on, `cell` runs one, `wire` opens
//! what passed the relay, and `verdict` says what counts as passed.

#![forbid(unsafe_code)]

pub mod cases;
pub mod cell;
pub mod cli;
pub mod contract;
pub mod error;
pub mod fetch;
pub mod interrupt;
pub mod own;
pub mod own_kind;
pub mod peers;
mod process;
pub mod report;
pub mod run;
pub mod verdict;
pub mod wire;
