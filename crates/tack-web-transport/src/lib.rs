//! The traits of `web-transport-trait` over tacklib.
//!
//! A [`Session`] is a QUIC connection of [`tack_tokio`] without HTTP/3; [`http3::Session`] is a session of
//! WebTransport over HTTP/3, as browsers open them. The README says where the traits leave a choice, and which
//! one is taken.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod error;
pub mod http3;
mod poll;
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
