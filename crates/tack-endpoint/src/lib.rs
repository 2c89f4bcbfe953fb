//! UDP sockets for [`tacklib`]: clients and servers with many connections on one socket.
//!
//! An [`Endpoint`] owns a socket and the connections on it. It sends and receives in batches with
//! the offloads that the system has, holds packets until their release time, and does for a server
//! what RFC 9000 asks for outside of connections: Retry, Version Negotiation, stateless resets.
//!
//! It has no threads and no async runtime. The application calls [`Endpoint::poll`] in a loop,
//! takes the [`Event`]s, and reads and writes the connections that they name.
//!
//! # Example
//!
//! A server that returns what it receives, and a client that sends it a line and prints the answer.
//! The server needs a certificate and its key; the client trusts the authorities of the system.
//!
//! ```no_run
//! use std::collections::HashMap;
//! use std::error::Error;
//! use std::net::SocketAddr;
//! use std::time::Duration;
//!
//! use tack_endpoint::{Endpoint, EndpointConfig, Event, Handle};
//!
//! fn config() -> Result<tacklib::Config, Box<dyn Error>> {
//!     let mut config = tacklib::Config::new(tacklib::quiche::PROTOCOL_VERSION)?;
//!     config.set_application_protos(&[b"echo"])?;
//!     config.set_max_idle_timeout(10_000); // milliseconds
//!     config.set_initial_max_data(1 << 20);
//!     config.set_initial_max_stream_data_bidi_local(1 << 20);
//!     config.set_initial_max_stream_data_bidi_remote(1 << 20);
//!     config.set_initial_max_streams_bidi(100);
//!     Ok(config)
//! }
//!
//! fn serve(address: SocketAddr) -> Result<(), Box<dyn Error>> {
//!     let mut config = config()?;
//!     config.load_cert_chain_from_pem_file("certificate.pem")?;
//!     config.load_priv_key_from_pem_file("key.pem")?;
//!     let mut endpoint = Endpoint::server(address, config, EndpointConfig::default())?;
//!
//!     // What each connection still has to send, by stream: the data, and whether it is complete.
//!     let mut echoes: HashMap<Handle, HashMap<u64, (Vec<u8>, bool)>> = HashMap::new();
//!     loop {
//!         endpoint.poll(None)?;
//!         while let Some(event) = endpoint.next_event() {
//!             match event {
//!                 Event::Activity(handle) => {
//!                     let Some(connection) = endpoint.connection_mut(handle) else { continue };
//!                     let streams = echoes.entry(handle).or_default();
//!                     if echo(connection, streams).is_err() {
//!                         // `Done` says that it is closed already.
//!                         let _ = connection.close(true, 1, b"stream failed");
//!                     }
//!                 }
//!                 Event::Closed(handle, reason) => {
//!                     println!("{handle}: {reason}");
//!                     echoes.remove(&handle);
//!                 }
//!                 _ => {}
//!             }
//!         }
//!     }
//! }
//!
//! fn echo(
//!     connection: &mut tacklib::Connection,
//!     streams: &mut HashMap<u64, (Vec<u8>, bool)>,
//! ) -> tacklib::quiche::Result<()> {
//!     let mut buffer = [0; 4096];
//!     while let Some(stream) = connection.stream_readable_next() {
//!         let (data, is_complete) = streams.entry(stream).or_default();
//!         // Ends with `Done` when everything is read.
//!         while let Ok((len, fin)) = connection.stream_recv(stream, &mut buffer) {
//!             data.extend_from_slice(&buffer[..len]);
//!             *is_complete |= fin;
//!         }
//!     }
//!     for (stream, (data, is_complete)) in streams.iter_mut() {
//!         // Takes what the peer's flow control and the send buffer allow.
//!         match connection.stream_send(*stream, data, *is_complete) {
//!             Ok(written) => drop(data.drain(..written)),
//!             Err(tacklib::quiche::Error::Done) => {}
//!             Err(error) => return Err(error),
//!         }
//!     }
//!     streams.retain(|_, (data, is_complete)| !data.is_empty() || !*is_complete);
//!     Ok(())
//! }
//!
//! fn ask(server: SocketAddr, name: &str) -> Result<(), Box<dyn Error>> {
//!     let mut endpoint = Endpoint::client("[::]:0".parse()?, EndpointConfig::default())?;
//!     let connection = endpoint.connect(server, Some(name), &mut config()?)?;
//!     loop {
//!         endpoint.poll(Some(Duration::from_secs(1)))?;
//!         while let Some(event) = endpoint.next_event() {
//!             match event {
//!                 Event::Connected(_) => {
//!                     if let Some(connection) = endpoint.connection_mut(connection) {
//!                         connection.stream_send(0, b"hello\n", true)?;
//!                     }
//!                 }
//!                 Event::Activity(_) => {
//!                     let Some(connection) = endpoint.connection_mut(connection) else { continue };
//!                     let mut buffer = [0; 4096];
//!                     while let Ok((len, fin)) = connection.stream_recv(0, &mut buffer) {
//!                         print!("{}", String::from_utf8_lossy(&buffer[..len]));
//!                         if fin {
//!                             connection.close(true, 0, b"done")?;
//!                         }
//!                     }
//!                 }
//!                 Event::Closed(_, reason) => {
//!                     // The server has been told: the program may end.
//!                     println!("{reason}");
//!                     return Ok(());
//!                 }
//!                 _ => {}
//!             }
//!         }
//!     }
//! }
//! # serve("[::]:4433".parse().unwrap()).unwrap();
//! # ask("192.0.2.1:4433".parse().unwrap(), "example.org").unwrap();
//! ```
//!
//! # Errors
//!
//! A connection that fails is an [`Event::Closed`] with a [`CloseReason`] and leaves the others
//! alone. A system call that fails is tried again after a pause, and [`EndpointStats`] counts it;
//! [`Endpoint::poll`] returns an [`Error`] only if the failure lasts.
//!
//! # Modules
//!
//! | Module | Concept |
//! |---|---|
//! | `endpoint` | the loop: wait, with mio, and turn |
//! | `endpoint_core` | a turn: receive, run timers, transmit |
//! | `connection_state` | one connection, with what the endpoint keeps beside it |
//! | `router` | which connection gets a datagram, or what answers it |
//! | `connection_ids`, `retry_token`, `stateless_reset` | what the router decides by |
//! | `cid_generator` | new connection IDs, and which worker one belongs to |
//! | `workers`, `inbox` | several endpoints on one port, and what they hand to each other |
//! | `initial_close` | the refusal of a Retry token that has expired |
//! | `send_queue` | packets that wait for their release time, and bursts of them |
//! | `close_packet` | the CONNECTION_CLOSE, repeated to a peer that goes on sending |
//! | `half_open` | clients in their handshake: how many begin without a Retry, which gives way |
//! | `network`, `by_network` | what one party has of addresses; which network has most clients |
//! | `keep_alive` | when to send a PING while no packets arrive |
//! | `timers`, `timer_guard` | deadlines; timers that expire to no effect |
//! | `timer_fd` | a timer of nanoseconds |
//! | `receive_buffers` | where received datagrams land, and what the system tells of each |
//! | `receive_schedule` | when to call the receive function, after errors too |
//! | [`certificate`] | fingerprints, and addresses that a certificate names |
//! | `socket`, `wait` | system calls |
//!
//! Only `socket`, `receive_linux`, `refusals`, `path_mtu`, `wait`, `arrival_clock` and `timer_fd` make system calls on
//! sockets and clocks, and one function reads the clock that everything else goes by.
//!
//! [`runtime`] has what another runtime than mio needs to drive the same code, as `tack-tokio` does.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// The tests of the endpoint share code with those outside of the crate.
#[cfg(test)]
extern crate self as tack_endpoint;

mod arrival_clock;
mod by_network;
pub mod certificate;
mod cid_generator;
mod close_packet;
mod config;
mod connection_ids;
mod connection_state;
mod endpoint;
mod endpoint_core;
mod error;
mod event;
mod half_open;
mod handle;
mod inbox;
mod initial_close;
mod keep_alive;
mod key_log;
mod network;
mod path_mtu;
#[cfg(feature = "qlog")]
mod qlog;
mod receive_buffers;
#[cfg(target_os = "linux")]
mod receive_linux;
mod receive_schedule;
mod refusals;
mod retry_token;
mod router;
mod send_queue;
mod slab;
mod socket;
mod stateless_reset;
mod stats;
#[cfg(target_os = "linux")]
mod timer_fd;
mod timer_guard;
mod timers;
mod wait;
mod workers;

/// What drives an endpoint by means of another runtime: the core, and the sockets and timers for it.
pub mod runtime {
    pub use crate::endpoint_core::EndpointCore;
    pub use crate::receive_buffers::ReceiveBuffers;
    pub use crate::send_queue::Burst;
    pub use crate::socket::{DatagramSocket, SystemSocket, UdpSocket};
    #[cfg(target_os = "linux")]
    pub use crate::timer_fd::TimerFd;
}

pub use by_network::ByNetwork;
pub use config::{EndpointConfig, INITIAL_RTT};
pub use endpoint::Endpoint;
pub use error::Error;
pub use event::{CloseReason, Event};
pub use handle::Handle;
pub use network::Network;
pub use stats::{DropStats, EndpointStats};
pub use tack_packet::{QuicLbConfig, QuicLbError};
pub use tacklib::Ecn;
pub use wait::Waker;
pub use workers::MAX_WORKERS;
