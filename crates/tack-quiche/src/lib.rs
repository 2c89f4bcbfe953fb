//! quiche's interface with TACK inside.
//!
//! Everything public of [`quiche`] is here under quiche's names and with quiche's signatures. The
//! configuration, the connection, the constructors and HTTP/3 are tacklib's, so a program that was written
//! for quiche uses TACK without a changed line. In its `Cargo.toml`:
//!
//! ```toml
//! [dependencies]
//! quiche = { package = "tack-quiche", path = "../tacklib/crates/tack-quiche" }
//! ```
//!
//! That is for the program's own calls. Where dependencies call quiche too, `cargo tack-patch` puts this
//! crate in quiche's place in the whole tree.
//!
//! The environment variable `TACK_PROFILE` chooses what each [`Config`] begins with: `default`, `video`, or
//! `off`, which is quiche as it comes.
//!
//! ```no_run
//! // The program's Cargo.toml does this by the renamed dependency.
//! use tack_quiche as quiche;
//!
//! # fn main() -> quiche::Result<()> {
//! let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
//! config.set_application_protos(&[b"hq-interop"])?;
//! let scid = quiche::ConnectionId::from_ref(&[0xba; 16]);
//! # let (local, peer) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
//! let mut connection =
//!     quiche::connect(Some("example.org"), &scid, local, peer, &mut config)?;
//! let mut datagram = [0; 1350];
//! let (len, info) = connection.send(&mut datagram)?;
//! # let _ = (len, info);
//! # Ok(())
//! # }
//! ```
//!
//! A program that wants more than quiche offers finds it here too: [`Config`] has tacklib's `set_profile` and
//! `set_tack`, [`Connection`] has `tack_stats`, and [`tacklib`] has the types.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod config;
mod constructors;
mod profile;

// All that is not named below.
pub use quiche::*;

pub use config::Config;
pub use constructors::{
    accept, accept_with_buf_factory, accept_with_retry, connect, connect_with_buffer_factory,
};
#[cfg(feature = "custom-client-dcid")]
pub use constructors::{connect_with_dcid, connect_with_dcid_and_buffer_factory};
pub use profile::PROFILE_VARIABLE;
pub use tacklib;
pub use tacklib::{Connection, h3};
