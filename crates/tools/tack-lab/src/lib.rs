//! The laboratory: experiments with acknowledgements on emulated links.
//!
//! `docs/lab.md` of the repository is about its use and its methods.

#![forbid(unsafe_code)]

pub mod application;
pub mod cli;
mod commands;
pub mod experiments;
mod output;
mod pool;
pub mod report;
pub mod sim;
pub mod soak;
mod versions;

pub use versions::Versions;
