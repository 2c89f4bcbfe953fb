//! Media over QUIC ([`moq_net`]) over TACK, and over quinn to compare with.
//!
//! The program speaks WebTransport over HTTP/3 on either transport: [`backend`] opens sessions, and nothing else
//! knows which one it is. It is for experiments on one machine: no certificate is verified.

#![forbid(unsafe_code)]

pub mod backend;
pub mod compare;
pub mod publisher;
pub mod relay;
pub mod subscriber;
pub mod wire;

/// The broadcast of the example.
pub const BROADCAST: &str = "example";
/// Its track.
pub const TRACK: &str = "frames";
