//! TACK for quiche: a QUIC connection whose acknowledgements are tamed.
//!
//! [`Connection`] wraps an unmodified [`quiche::Connection`], dereferences to it
//! and takes its place. Where both ends use it, data is acknowledged by TACKs
//! (a few for each round trip, whatever the bandwidth) and IACKs (at once, when
//! something happens), and sent by a paced controller that the receiver's
//! measurements drive. Where the peer is a stock QUIC stack, the connection is
//! plain QUIC; if that peer understands ACK_FREQUENCY it is asked to acknowledge
//! less.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (local, peer) = ("127.0.0.1:1".parse()?, "127.0.0.1:2".parse()?);
//! // Before: quiche::Config and quiche::connect.
//! let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION)?;
//! config.set_application_protos(&[b"h3"])?;
//! let scid = quiche::ConnectionId::from_ref(&[0xba; 16]);
//! let mut connection = tacklib::connect(Some("example.org"), &scid, local, peer, &mut config)?;
//!
//! let mut datagram = [0; 1350];
//! while let Ok((len, info)) = connection.send(&mut datagram) {
//!     // Send datagram[..len] to info.to at info.at.
//! }
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code, missing_docs)]

#[cfg(test)] // what the tests share names the crate
extern crate self as tacklib;

#[allow(unsafe_code)] // the only module that needs any
mod boringssl;
mod config;
mod connection;
mod error;
pub mod h3;
mod lab;
mod layer;
mod negotiation;
#[cfg_attr(not(feature = "qlog"), allow(dead_code, reason = "nothing is ever logged"))]
mod qlog;
mod quiche_compat;
mod stats;

pub use config::{Config, Profile, TackConfig};
pub use connection::{
    Connection, DefaultBufFactory, ReleaseDecision, accept, accept_with_buf_factory,
    accept_with_retry, connect, connect_with_buffer_factory,
};
#[cfg(feature = "custom-client-dcid")]
pub use connection::{connect_with_dcid, connect_with_dcid_and_buffer_factory};
pub use error::ExtensionError;
#[cfg(feature = "lab")]
pub use lab::{AckSchedule, LabSwitches};
pub use quiche;
pub use stats::TackStats;

/// Random bits that a peer cannot foresee, from where quiche takes its own.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness TLS cannot begin either.
    let _ = boring::rand::rand_bytes(&mut bytes);
    u64::from_ne_bytes(bytes)
}
