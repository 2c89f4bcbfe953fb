//! [`tacklib`] for programs on tokio: endpoints, connections and streams that tasks wait for.
//!
//! An [`Endpoint`] owns a UDP socket and a task that drives it; it makes and accepts [`Connection`]s. A
//! connection opens and accepts streams, whose halves are a [`SendStream`] and a [`RecvStream`], which are
//! tokio's `AsyncWrite` and `AsyncRead`, too. All of them are handles, and `Send`.
//!
//! The crate's README has a server and a client, and says what holds of back-pressure, of futures that are
//! dropped, and of closing.
//!
//! # Modules
//!
//! | Module | Concept |
//! |---|---|
//! | `endpoint`, `connection`, `send_stream`, `recv_stream`, `datagrams` | the handles of the application |
//! | `shared` | what they share with the driver, under one lock |
//! | `connection_state`, `stream_state` | one connection in it: which streams there are, and who waits for what |
//! | `driver` | the task: sends, waits, and turns the core |
//! | `effects` | wake-ups and what else waits until the lock is free |
//! | `socket`, `timer`, `stream_deadlines` | what the driver waits for |
//! | `readiness` | a socket that cannot be waited for |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod connection;
mod connection_state;
mod datagrams;
mod driver;
mod effects;
mod endpoint;
mod error;
mod readiness;
mod recv_stream;
mod send_stream;
mod shared;
mod socket;
mod stream_deadlines;
mod stream_id;
mod stream_state;
mod timer;
mod write_turns;

pub use connection::Connection;
pub use endpoint::{Connecting, Endpoint};
pub use error::{
    ConnectionError, Error, ReadError, ReadToEndError, SendDatagramError, WriteError,
};
pub use recv_stream::RecvStream;
pub use send_stream::SendStream;
pub use socket::AsyncUdpSocket;
pub use stream_id::StreamId;
pub use tack_endpoint::runtime::{Burst, DatagramSocket, ReceiveBuffers};
pub use tack_endpoint::{CloseReason, EndpointConfig, EndpointStats};
pub use tacklib;
