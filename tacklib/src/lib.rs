//! TACK for quiche: a QUIC connection whose acknowledgements are tamed.
//!
//! [`Connection`] wraps an unmodified [`quiche::Connection`] and dereferences to it.

#![deny(missing_docs)]

mod config;
mod connection;

pub use config::{Config, Profile};
pub use connection::{Connection, accept, connect};
pub use quiche;
