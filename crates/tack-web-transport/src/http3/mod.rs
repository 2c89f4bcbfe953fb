//! WebTransport over HTTP/3 (draft-ietf-webtrans-http3), as browsers speak it.
//!
//! A client makes a connection with the application protocol [`ALPN`] and calls [`connect`]; a server takes
//! [`Request`]s from a [`Server`], or from connections of its own with [`Request::receive`]. Both get a
//! [`Session`], which implements the same traits as the [session without HTTP/3](crate::Session). There is one
//! session on a connection; requests for more are refused.
//!
//! The configuration of either end has to name [`ALPN`], to enable DATAGRAMs (`Config::enable_dgram`), and to
//! let the peer open streams: up to three unidirectional ones belong to HTTP/3 itself, and one of both
//! directions is the session's request.
//!
//! # Modules
//!
//! | Module | Concept |
//! |---|---|
//! | `handshake` | SETTINGS and CONNECT, of both ends |
//! | `server` | sessions of an endpoint |
//! | `incoming` | the peer's streams, sorted by what they belong to |
//! | `queue` | those of them that wait to be accepted |
//! | `connect_stream` | the stream of the request, which carries the end of the session |
//! | `capsules` | what that end is carried in |
//! | `state` | how the session has ended |
//! | `session`, `streams` | the handles of the application |
//! | `codes` | error codes |

use std::time::Duration;

mod capsules;
mod codes;
mod connect_stream;
mod handshake;
mod incoming;
mod queue;
mod server;
mod session;
mod state;
mod streams;

pub use handshake::{Request, connect};
pub use server::Server;
pub use session::Session;
pub use streams::{RecvStream, SendStream};
pub use url::Url;
pub use web_transport_proto::{ConnectRequest, ConnectResponse, http};

/// The application protocol of TLS, for `Config::set_application_protos`.
pub const ALPN: &[u8] = b"h3";

/// How long the peer may take for SETTINGS and CONNECT before the connection is closed.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The most that is read of SETTINGS, and of a request or its answer, with all that may be between, bytes.
const MAX_HANDSHAKE_BYTES: u64 = 128 << 10;

/// How long an end waits for the other one to say that it has understood the end of the session, or to close
/// the connection, before it closes that itself.
const LINGER: Duration = Duration::from_secs(2);
