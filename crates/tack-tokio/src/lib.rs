//! [`tacklib`] for programs on tokio: endpoints, connections and streams that tasks wait for.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod connection;
mod connection_state;
mod datagrams;
mod driver;
mod effects;
mod endpoint;
mod error;
mod recv_stream;
mod send_stream;
mod shared;
mod socket;
mod stream_id;
mod timer;

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
