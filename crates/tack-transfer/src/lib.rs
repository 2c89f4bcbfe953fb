//! File transfer over QUIC with TACK, as a library: a server that serves a directory, and a client that fetches and
//! sends files and directories.
//!
//! What arrives takes its name only once its size and BLAKE3 digest are those of the sender's file. What an
//! interrupted transfer has left is resumed by the same operation, and of a large file of which the receiver has
//! another version only what that lacks crosses the network. `tack` (the crate tack-cli) is this library with a
//! command line.
//!
//! ```
//! use tack_transfer::{
//!     Client, ConnectOptions, Get, Identity, Place, Root, Server, ServerOptions, Source,
//!     TransferOptions, Trust, WirePath, token,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let (shared, here) = (scratch.path().join("shared"), scratch.path().join("here"));
//! # std::fs::create_dir_all(&shared)?;
//! # std::fs::create_dir_all(&here)?;
//! # std::fs::write(shared.join("report.txt"), "content")?;
//! // Serves a directory, for reading and writing, to clients with the token.
//! let identity = Identity::in_directory(&scratch.path().join("identity"))?;
//! let (fingerprint, token) = (identity.fingerprint, token::generate()?);
//! let root = Root::open(&shared)?;
//! let mut options =
//!     ServerOptions::new("127.0.0.1:0".parse()?, root, identity, Some(token.clone()));
//! options.read_only = false;
//! let server = Server::new(options)?.start();
//!
//! // Connects to that server and no other, fetches a file, and sends it back under another name.
//! let options = ConnectOptions::new(Trust::Pinned(fingerprint)).with_token(token);
//! let mut client = Client::connect(&server.local_addr().into(), options)?;
//! let options = TransferOptions::default();
//! let report = Get::new(WirePath::new("report.txt")?, &here);
//! client.get(vec![report], &options, &mut |event| println!("{event:?}"))?;
//! let copy = Place::As(WirePath::new("copies/report.txt")?);
//! let source = Source::open(&here.join("report.txt"))?;
//! let summary = client.send(vec![source], &copy, &options, &mut |_| {})?;
//! client.close();
//! server.stop()?;
//!
//! assert_eq!((summary.files, summary.failed), (1, 0));
//! assert_eq!(std::fs::read(shared.join("copies/report.txt"))?, b"content");
//! # Ok(())
//! # }
//! ```
//!
//! # Who does what
//!
//! - A [`Server`] is driven by one thread, [`Workers`] by several on one port; each request has a worker thread for the disk. It tells each finished
//!   request to [`ServerOptions::report`]. It never leads outside its [`Root`], and follows no link below it.
//! - A [`Client`] runs one operation at a time, on the thread that calls it, with worker threads for the disk. It
//!   tells what happens as [`Event`]s, and sums it up as a [`Summary`]. It writes nothing but what was asked for.
//! - A client knows its server by [`Trust`], a server its clients by a [`token`].
//! - Paths on the server are [`WirePath`]s: relative, UTF-8, without `..`, wherever they come from.
//!
//! Nothing here prints, reads the environment or ends the process. Failures of single files are [`TransferError`]s;
//! an [`Error`] ends an operation.
//!
//! # Losing a connection
//!
//! An operation that loses its connection ends with an error of which [`Error::may_pass`] is true. To go on,
//! connect again and run the same operation: what is in place is found equal, and what was on its way is resumed.
//! With the same [`TransferOptions::attempts`] it is noticed if something of the source is gone meanwhile, as where
//! a disk is not mounted yet: this is a failure, and nothing is deleted.
//!
//! # For programs that speak the protocol themselves
//!
//! [`quic`] has the configuration of both ends, the names of the protocol and its error codes;
//! [`Server::any_connection`] lends the connection beneath, for measurements. Few need these.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod cc_parameters;
mod client;
mod error;
mod identity;
mod pin;
mod protocol;
pub mod quic;
mod secret_file;
mod server_address;
mod session;
mod state_file;
mod tls_sessions;
pub mod token;

pub use cc_parameters::Store as CcParametersStore;
pub use client::{
    Attempts, Client, End, Event, Failure, Get, Listed, ListedKind, MAX_FAILURES, Place,
    Source, Summary, TransferOptions,
};
pub use error::{Error, Feature};
pub use identity::Identity;
pub use protocol::{
    Change, Comparing, Destination, Digest, EditKind, Edited, Fail, FailCode, Filter, Hasher,
    Mtime, NameError, PassThrough, Policy, Root, RootError, Suffix, TransferError, WireError,
    WirePath, is_closed, leave_directories_closed, printable,
};
pub use server_address::{DEFAULT_PORT, ServerAddress};
pub use session::{
    Action, ConnectOptions, EarlyData, Notify, Outcome, Progress, RunningServer, Server,
    ServerEvent, ServerOptions, Transport, Trust, Workers,
};
pub use tack_endpoint::certificate::Fingerprint;
pub use tack_endpoint::{QuicLbConfig, Waker};
pub use tacklib::Profile;
pub use tls_sessions::{SessionStore, TlsSession};
