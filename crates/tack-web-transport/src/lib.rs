//! The traits of `web-transport-trait` over tacklib.
//!
//! A [`Session`] is a QUIC connection of [`tack_tokio`]; there is no HTTP/3 below. The README says where the
//! traits leave a choice, and which one is taken.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod error;
mod priority;
mod session;
mod stats;
mod streams;

pub use error::Error;
pub use session::Session;
pub use stats::Stats;
pub use streams::{RecvStream, SendStream};
pub use tack_tokio;
pub use web_transport_trait;

// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
