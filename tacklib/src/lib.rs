//! TACK for quiche: a QUIC connection that acknowledges a few times for each round trip.
//!
//! [`Connection`] wraps an unmodified [`quiche::Connection`], dereferences to it
//! and takes its place. Where both ends use it, data is acknowledged by TACKs
//! (a few for each round trip, whatever the bandwidth) and IACKs (at once, when
//! something happens), and sent by a paced controller that the receiver's
//! measurements drive. Where the peer is a stock QUIC stack, the connection is
//! plain QUIC; if that peer understands ACK_FREQUENCY it is asked to acknowledge
//! less.
//!
//! # A client and a server
//!
//! A program that uses quiche changes `quiche::Config`, `quiche::connect`, `quiche::accept` and
//! `quiche::h3` to tacklib's. This one has a client that asks and a server that answers, each with
//! one connection and one UDP socket.
//!
//! ```no_run
//! use std::io::ErrorKind;
//! use std::net::UdpSocket;
//! use std::time::Duration;
//!
//! use tacklib::{Connection, quiche};
//!
//! type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
//!
//! /// What both ends must agree on, and how much each lets the other send.
//! fn config() -> quiche::Result<tacklib::Config> {
//!     let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION)?;
//!     config.set_application_protos(&[b"question"])?;
//!     config.set_max_idle_timeout(30_000);
//!     config.set_initial_max_data(16 << 20);
//!     config.set_initial_max_stream_data_bidi_local(4 << 20);
//!     config.set_initial_max_stream_data_bidi_remote(4 << 20);
//!     config.set_initial_max_streams_bidi(100);
//!     Ok(config)
//! }
//!
//! /// Sends what may leave now, then waits for a datagram or for the connection's timer.
//! fn turn(connection: &mut Connection, socket: &UdpSocket) -> Outcome<()> {
//!     let mut datagram = [0; 65_535];
//!     loop {
//!         match connection.send(&mut datagram) {
//!             Ok((len, info)) => socket.send_to(&datagram[..len], info.to)?,
//!             // Nothing to send, or the pacer holds it back until `timeout`.
//!             Err(quiche::Error::Done) => break,
//!             Err(error) => return Err(error.into()),
//!         };
//!     }
//!     let timeout = connection.timeout();
//!     // A socket takes a timeout of zero for none.
//!     socket.set_read_timeout(timeout.map(|time| time.max(Duration::from_micros(1))))?;
//!     match socket.recv_from(&mut datagram) {
//!         Ok((len, from)) => {
//!             let info = quiche::RecvInfo { from, to: socket.local_addr()? };
//!             // A datagram that cannot be read is not the connection's end.
//!             let _ = connection.recv(&mut datagram[..len], info);
//!         }
//!         Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
//!         Err(error) => return Err(error.into()),
//!     }
//!     if connection.timeout() == Some(Duration::ZERO) {
//!         connection.on_timeout();
//!     }
//!     Ok(())
//! }
//!
//! /// Writes as much as is taken, and returns how much that is.
//! fn write(connection: &mut Connection, stream: u64, data: &[u8]) -> quiche::Result<usize> {
//!     match connection.stream_send(stream, data, true) {
//!         // No room: the rest goes when some has left.
//!         Err(quiche::Error::Done) => Ok(0),
//!         result => result,
//!     }
//! }
//!
//! /// Asks, and returns the answer.
//! fn client(server: &str) -> Outcome<Vec<u8>> {
//!     let socket = UdpSocket::bind("127.0.0.1:0")?;
//!     let mut config = config()?;
//!     config.load_verify_locations_from_file("ca.pem")?;
//!     // In earnest, 16 random bytes.
//!     let id = quiche::ConnectionId::from_ref(&[0xc1; 16]);
//!     let (local, peer) = (socket.local_addr()?, server.parse()?);
//!     let mut connection = tacklib::connect(Some("localhost"), &id, local, peer, &mut config)?;
//!
//!     let (question, mut asked) = (b"What is the time?", 0);
//!     let (mut answer, mut buffer) = (Vec::new(), [0; 65_535]);
//!     while !connection.is_closed() {
//!         if connection.is_established() && asked < question.len() {
//!             asked += write(&mut connection, 0, &question[asked..])?;
//!         }
//!         while let Ok((len, is_all)) = connection.stream_recv(0, &mut buffer) {
//!             answer.extend_from_slice(&buffer[..len]);
//!             if is_all {
//!                 // The end is told to the server, which the next turns do.
//!                 connection.close(true, 0, b"")?;
//!             }
//!         }
//!         turn(&mut connection, &socket)?;
//!     }
//!     Ok(answer)
//! }
//!
//! /// Answers one client.
//! fn server() -> Outcome<()> {
//!     let socket = UdpSocket::bind("127.0.0.1:4433")?;
//!     let mut config = config()?;
//!     config.load_cert_chain_from_pem_file("cert.pem")?;
//!     config.load_priv_key_from_pem_file("key.pem")?;
//!
//!     // A server of many connections finds the one that a datagram is for by its destination.
//!     let mut datagram = [0; 65_535];
//!     let (len, peer) = socket.recv_from(&mut datagram)?;
//!     let local = socket.local_addr()?;
//!     let id = quiche::ConnectionId::from_ref(&[0x5e; 16]);
//!     let mut connection = tacklib::accept(&id, None, local, peer, &mut config)?;
//!     connection.recv(&mut datagram[..len], quiche::RecvInfo { from: peer, to: local })?;
//!
//!     let (answer, mut sent) = (vec![b'!'; 1 << 20], None);
//!     while !connection.is_closed() {
//!         while let Ok((_, is_all)) = connection.stream_recv(0, &mut datagram) {
//!             if is_all {
//!                 sent = Some(0);
//!             }
//!         }
//!         if let Some(sent) = sent.as_mut().filter(|sent| **sent < answer.len()) {
//!             *sent += write(&mut connection, 0, &answer[*sent..])?;
//!         }
//!         turn(&mut connection, &socket)?;
//!     }
//!     let stats = connection.tack_stats();
//!     println!("TACK: {}, {} bytes/s", stats.tack, stats.bandwidth);
//!     Ok(())
//! }
//! # fn main() -> Outcome<()> { server()?; client("127.0.0.1:4433").map(drop) }
//! ```
//!
//! Call [`send`](Connection::send) until `Done` after each `recv` and `on_timeout`, and after reading or
//! writing streams, and [`on_timeout`](Connection::on_timeout) when
//! [`timeout`](Connection::timeout) says so. The socket above is as exact as the system's
//! timers; `tack-endpoint` sends in batches and holds packets until their time.
//!
//! # ECN
//!
//! A program whose socket reads and sets the ECN field of the IP header calls
//! [`recv_with_ecn`](Connection::recv_with_ecn) instead of `recv`, [`set_ecn`](Connection::set_ecn) once, and
//! [`send_ecn`](Connection::send_ecn) after each `send`. `docs/quiche-api.md` shows how.
//!
//! # Arrival times
//!
//! A program whose socket tells when a datagram came calls [`recv_at`](Connection::recv_at): what the datagram has
//! waited for the program to run is no delay of the path then.
//!
//! # Careful Resume
//!
//! A connection can go on where an earlier one over the same path has left off (RFC 9959):
//! [`cc_parameters`](Connection::cc_parameters) tells at its end what to store for the peer's address, and
//! [`set_cc_parameters`](Connection::set_cc_parameters) offers it to the next one.
//!
//! # HTTP/3
//!
//! Change `quiche::h3` to [`tacklib::h3`](h3): it has the same types, and its methods take
//! `&mut tacklib::Connection`.

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
mod media_stats;
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
pub use media_stats::MediaStats;
pub use quiche;
pub use stats::TackStats;
pub use tack_proto::ecn::{Ecn, EcnCodepoint, EcnState};
pub use tack_proto::sender::{CarefulResumePhase, CarefulResumeTrigger, CcParameters};
#[cfg(feature = "lab")]
pub use tack_proto::sender::{Deviation, Deviations};

/// Random bits that a peer cannot foresee, from where quiche takes its own.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness TLS cannot begin either.
    let _ = boring::rand::rand_bytes(&mut bytes);
    u64::from_ne_bytes(bytes)
}
