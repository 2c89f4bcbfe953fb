//! The error of the traits.

use tack_tokio::{CloseReason, ConnectionError, ReadError, SendDatagramError, WriteError};

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
}

impl web_transport_trait::Error for Error {
    fn session_error(&self) -> Option<(u32, String)> {
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
