//! The error of the traits.

use tack_tokio::{CloseReason, ConnectionError, ReadError, SendDatagramError, WriteError};
use web_transport_proto::http::StatusCode;

/// What went wrong with a session or one of its streams.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session is over.
    #[error(transparent)]
    Session(#[from] ConnectionError),
    /// A stream cannot be written to.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A stream cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A DATAGRAM cannot be sent.
    #[error(transparent)]
    Datagram(#[from] SendDatagramError),
    /// One of the ends has closed the session over HTTP/3.
    #[error("the session was closed with code {code}: {reason:?}")]
    SessionClosed {
        /// The application's code.
        code: u32,
        /// The reason, up to 1024 bytes.
        reason: String,
    },
    /// The HTTP/3 connection of a session is over, and nobody has closed the session.
    #[error("the HTTP/3 connection is over: {0}")]
    Connection(ConnectionError),
    /// The peer has given up a stream, or the CONNECT stream of the session, with a code of HTTP/3 that is
    /// no code of an application.
    #[error("the peer has given the stream up with HTTP/3 code {0:#x}")]
    Http3Stream(u64),
    /// The connection was made for another protocol.
    #[error("the application protocol of the connection is {0:?}, which is not HTTP/3")]
    NotHttp3(String),
    /// The server has refused the session.
    #[error("the server has answered the CONNECT with status {0}")]
    Rejected(StatusCode),
    /// The peer's SETTINGS offer no WebTransport.
    #[error("the peer's HTTP/3 settings offer no WebTransport")]
    Unsupported,
    /// The server has chosen a protocol that the client has not offered, or was about to.
    #[error("the protocol {0:?} was not offered by the client")]
    ProtocolNotOffered(String),
    /// The CONNECT request or its answer is not one of WebTransport.
    #[error("not a CONNECT of WebTransport: {0}")]
    Connect(#[from] web_transport_proto::ConnectError),
    /// SETTINGS and CONNECT have taken longer than [`HANDSHAKE_TIMEOUT`](crate::http3::HANDSHAKE_TIMEOUT).
    #[error("the peer has not completed SETTINGS and CONNECT in time")]
    HandshakeTimeout,
}

impl web_transport_trait::Error for Error {
    fn session_error(&self) -> Option<(u32, String)> {
        if let Self::SessionClosed { code, reason } = self {
            return Some((*code, reason.clone()));
        }
        let (Self::Session(lost)
        | Self::Write(WriteError::ConnectionLost(lost))
        | Self::Read(ReadError::ConnectionLost(lost))
        | Self::Datagram(SendDatagramError::ConnectionLost(lost))) = self
        else {
            return None;
        };
        let ConnectionError::Closed(
            CloseReason::Peer { application: true, code, reason }
            | CloseReason::Local { application: true, code, reason },
        ) = lost
        else {
            return None;
        };
        Some((u32::try_from(*code).ok()?, String::from_utf8_lossy(reason).into_owned()))
    }

    fn stream_error(&self) -> Option<u32> {
        match self {
            Self::Write(WriteError::Stopped(code)) | Self::Read(ReadError::Reset(code)) => {
                u32::try_from(*code).ok()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use web_transport_trait::Error as _;

    use super::*;

    #[test]
    fn codes_of_the_application_are_told_and_those_of_quic_are_not() {
        let closed = |application, code| {
            let reason = b"why".to_vec();
            let closed = CloseReason::Peer { application, code, reason };
            Error::Read(ReadError::ConnectionLost(ConnectionError::Closed(closed)))
        };
        assert_eq!(closed(true, 7).session_error(), Some((7, "why".to_owned())));
        assert_eq!(closed(false, 7).session_error(), None);
        assert_eq!(closed(true, 1 << 40).session_error(), None, "no such code in the trait");
        assert_eq!(closed(true, 7).stream_error(), None);
        assert_eq!(Error::Write(WriteError::Stopped(3)).stream_error(), Some(3));
        assert_eq!(Error::Read(ReadError::Reset(4)).stream_error(), Some(4));
    }
}
