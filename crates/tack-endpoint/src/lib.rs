//! UDP sockets for [`tacklib`]: clients and servers with many connections on one socket.
//!
//! The endpoint sends and receives in batches with whatever offloads the system has, keeps
//! packets until their release time to a fraction of a millisecond, and does for a server what
//! RFC 9000 asks for before and after a connection exists: Retry, version negotiation and
//! stateless resets.
//!
//! # Example
//!
//! A client that sends a line on a stream and prints what comes back:
//!
//! ```no_run
//! use std::time::Duration;
//! use tack_endpoint::{Endpoint, EndpointConfig, Event};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = tacklib::Config::new(tacklib::quiche::PROTOCOL_VERSION)?;
//! config.set_application_protos(&[b"echo"])?;
//! config.set_initial_max_data(1 << 20);
//! config.set_initial_max_stream_data_bidi_local(1 << 20);
//! config.set_max_idle_timeout(10_000); // milliseconds
//!
//! let mut endpoint = Endpoint::client("0.0.0.0:0".parse()?, EndpointConfig::default())?;
//! endpoint.connect("192.0.2.1:4433".parse()?, Some("example.org"), &mut config)?;
//!
//! loop {
//!     endpoint.poll(Some(Duration::from_secs(1)))?;
//!     while let Some(event) = endpoint.next_event() {
//!         match event {
//!             Event::Connected(connection) => {
//!                 if let Some(connection) = endpoint.connection_mut(connection) {
//!                     connection.stream_send(0, b"hello\n", true)?;
//!                 }
//!             }
//!             Event::Activity(handle) => {
//!                 let Some(connection) = endpoint.connection_mut(handle) else { continue };
//!                 let mut buffer = [0; 4096];
//!                 while let Ok((len, fin)) = connection.stream_recv(0, &mut buffer) {
//!                     print!("{}", String::from_utf8_lossy(&buffer[..len]));
//!                     if fin {
//!                         let _ = connection.close(true, 0, b"done");
//!                     }
//!                 }
//!             }
//!             Event::Closed(_, reason) => {
//!                 println!("{reason}");
//!                 return Ok(());
//!             }
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! # How it is built
//!
//! `router` decides what becomes of a datagram, from `connection_ids`, `retry_token` and
//! `stateless_reset`; `send_queue` holds packets and forms bursts; `timers` keeps deadlines.
//! None of these touches a socket or reads the clock. `socket` and `wait` do the system calls,
//! `peer` is one connection, and `endpoint` joins them.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

// The tests of the endpoint share code with those outside of the crate.
#[cfg(test)]
extern crate self as tack_endpoint;

mod close_packet;
mod config;
mod connection_ids;
mod connection_state;
mod endpoint;
mod error;
mod event;
mod handle;
mod header;
mod key_log;
#[cfg(feature = "qlog")]
mod qlog;
mod receive_schedule;
mod retry_token;
mod router;
mod send_queue;
mod slab;
mod socket;
mod stateless_reset;
mod stats;
mod timer_guard;
mod timers;
mod wait;

pub use config::{EndpointConfig, INITIAL_RTT};
pub use endpoint::Endpoint;
pub use error::Error;
pub use event::{CloseReason, Event};
pub use handle::Handle;
pub use stats::{DropStats, EndpointStats};
pub use wait::Waker;
