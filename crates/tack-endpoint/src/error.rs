//! Errors of an endpoint, as opposed to one of its connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tack_packet::QuicLbError;

use crate::workers::MAX_WORKERS;

/// An error of an [`Endpoint`](crate::Endpoint).
///
/// An error of a single connection is a [`CloseReason`](crate::CloseReason) instead and leaves the
/// others alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The socket could not be opened.
    #[error(
        "cannot use UDP address {address}: {source}; is another process using it, and is it one of this host's?"
    )]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The socket is for one IP version, the server's address of the other.
    #[error(
        "cannot reach {server} from {local}: bind the endpoint to an address of the same IP version"
    )]
    AddressFamily {
        /// The server's address.
        server: SocketAddr,
        /// The address the endpoint is bound to.
        local: SocketAddr,
    },
    /// quiche refused to create a connection.
    #[error(
        "cannot create a connection: {0}; check the certificate, key and parameters in its configuration"
    )]
    Connect(#[source] quiche::Error),
    /// The endpoint was shut down.
    #[error("the endpoint was shut down; create a new one to connect again")]
    ShutDown,
    /// The system's random number generator failed.
    #[error("the system's random number generator failed; connection IDs and keys need it")]
    Random,
    /// Connection IDs for a load balancer cannot be made as configured.
    #[error("cannot make connection IDs for a load balancer: {0}")]
    QuicLb(#[source] QuicLbError),
    /// The nonce of connection IDs for a load balancer has no room for a worker's index.
    #[error(
        "a nonce of {0} octets is too short for several workers, which keep their index in it: it \
         takes at least 5"
    )]
    WorkerNonce(usize),
    /// As many workers cannot share a port.
    #[error(
        "{0} workers cannot share a UDP port: there can be {MAX_WORKERS} on Linux, and one elsewhere"
    )]
    Workers(usize),
    /// Waiting for the socket, a timer or the waker failed.
    #[error("waiting for network events failed: {0}; the endpoint cannot go on")]
    Wait(#[source] io::Error),
    /// Receiving has failed for so long that it is not expected to recover.
    #[error(
        "receiving from the UDP socket failed {calls} times in a row for {duration:.1?}: {source}; \
         check the network interface and the memory of the system, then open a new endpoint"
    )]
    Receive {
        /// What the last call said.
        source: io::Error,
        /// How many calls failed in a row.
        calls: u32,
        /// Since the first of them.
        duration: Duration,
    },
}
