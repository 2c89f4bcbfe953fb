//! Errors: of an endpoint, of a connection, and of the halves of a stream.

use std::io;
use std::sync::Arc;

use tack_endpoint::CloseReason;

/// An error of an [`Endpoint`](crate::Endpoint), as opposed to one of its connections.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The socket, or the new connection, could not be made.
    #[error(transparent)]
    Endpoint(#[from] tack_endpoint::Error),
    /// The session of an earlier connection cannot be resumed: it is not one that
    /// [`Connection::session`](crate::Connection::session) has returned.
    #[error("cannot resume the session: {0}; connect without it")]
    Session(tacklib::quiche::Error),
    /// There is no tokio runtime to run the endpoint's task.
    #[error(
        "no tokio runtime here: open the endpoint inside of one that has I/O and time enabled"
    )]
    NoRuntime,
    /// The endpoint failed earlier, or its runtime has ended.
    #[error("the endpoint does not work any more: {0}")]
    Stopped(ConnectionError),
}

/// Why a connection is over.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// It was closed by either side, or timed out, or was never made.
    #[error("{0}")]
    Closed(CloseReason),
    /// The endpoint's socket failed for good.
    #[error("the endpoint failed: {0}")]
    EndpointFailed(Arc<tack_endpoint::Error>),
    /// The task of the endpoint has ended before the connection.
    #[error("the endpoint's task has ended, probably with its tokio runtime")]
    EndpointStopped,
}

/// Why a stream cannot be written to.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer does not want any more of the stream (STOP_SENDING), with its error code.
    #[error("the peer has stopped the stream with code {0:#x}")]
    Stopped(u64),
    /// The stream's deadline has passed, and it was reset.
    #[error("the deadline of the stream has passed")]
    Expired,
    /// This end has finished or reset the stream already.
    #[error("the stream has been finished or reset")]
    ClosedStream,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// quiche refuses the call.
    #[error("cannot write to the stream: {0}")]
    Quic(tacklib::quiche::Error),
}

/// Why a stream cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer has given the stream up (RESET_STREAM), with its error code.
    #[error("the peer has reset the stream with code {0:#x}")]
    Reset(u64),
    /// This end has stopped the stream already.
    #[error("the stream has been stopped")]
    ClosedStream,
    /// The connection is over, and everything that came before is read.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// quiche refuses the call.
    #[error("cannot read from the stream: {0}")]
    Quic(tacklib::quiche::Error),
}

/// Why [`RecvStream::read_to_end`](crate::RecvStream::read_to_end) failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// The stream is longer than the limit.
    #[error("the stream is longer than {0} bytes")]
    TooLong(usize),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a DATAGRAM cannot be sent.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// One of the ends has not enabled DATAGRAMs (`Config::enable_dgram`).
    #[error("DATAGRAMs are not enabled at both ends")]
    Unsupported,
    /// It does not fit a packet.
    #[error("a DATAGRAM of {len} bytes is larger than the {max} that fit a packet now")]
    TooLarge {
        /// Length of the DATAGRAM in bytes.
        len: usize,
        /// What fits a packet at present, bytes.
        max: usize,
    },
    /// The queue is full.
    #[error("the queue of DATAGRAMs is full; wait with send_datagram_wait, or drop this one")]
    Blocked,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// quiche refuses the call.
    #[error("cannot send a DATAGRAM: {0}")]
    Quic(tacklib::quiche::Error),
}

impl From<ConnectionError> for io::Error {
    fn from(error: ConnectionError) -> Self {
        let kind = match &error {
            ConnectionError::Closed(CloseReason::IdleTimeout) => io::ErrorKind::TimedOut,
            ConnectionError::Closed(CloseReason::Peer { .. }) => {
                io::ErrorKind::ConnectionAborted
            }
            ConnectionError::Closed(CloseReason::Reset) => io::ErrorKind::ConnectionReset,
            _ => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match error {
            WriteError::ConnectionLost(lost) => return lost.into(),
            WriteError::Stopped(_) => io::ErrorKind::ConnectionReset,
            WriteError::Expired => io::ErrorKind::TimedOut,
            WriteError::ClosedStream => io::ErrorKind::BrokenPipe,
            WriteError::Quic(_) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match error {
            ReadError::ConnectionLost(lost) => return lost.into(),
            ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
            ReadError::ClosedStream => io::ErrorKind::NotConnected,
            ReadError::Quic(_) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
