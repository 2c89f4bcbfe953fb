//! What can go wrong with the network, and which of GStreamer's errors that is.

use gst::prelude::*;
use gst::subclass::prelude::*;

use crate::transport::Direction;

/// Why an element cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The properties cannot be used as they are.
    #[error("{0}")]
    Settings(String),
    /// The host has no address.
    #[error("cannot find the address of `{host}`: {why}; check the property `host`")]
    Resolve {
        /// The host.
        host: String,
        /// What the system said.
        why: String,
    },
    /// The socket cannot be used.
    #[error("{0}")]
    Endpoint(String),
    /// No connection came about.
    #[error("{peer}: {why}")]
    Unreachable {
        /// The address.
        peer: String,
        /// Why.
        why: String,
    },
    /// There was a connection, and its certificate is not good.
    #[error("the certificate of {peer} is not trusted: {why}")]
    Untrusted {
        /// The address.
        peer: String,
        /// Why.
        why: String,
    },
    /// The connection was lost.
    #[error("the connection with {peer} is lost: {why}")]
    Lost {
        /// The address.
        peer: String,
        /// Why.
        why: String,
    },
}

impl From<tack_endpoint::Error> for Error {
    fn from(error: tack_endpoint::Error) -> Self {
        Self::Endpoint(error.to_string())
    }
}

impl From<quiche::Error> for Error {
    fn from(error: quiche::Error) -> Self {
        Self::Endpoint(format!("quiche refuses its configuration: {error}"))
    }
}

impl Error {
    /// The message that an element posts which sends or receives.
    pub fn message(&self, direction: Direction) -> gst::ErrorMessage {
        let kind = match self {
            Self::Settings(_) => gst::ResourceError::Settings,
            Self::Resolve { .. } => gst::ResourceError::NotFound,
            Self::Endpoint(_) | Self::Unreachable { .. } => match direction {
                Direction::Send => gst::ResourceError::OpenWrite,
                Direction::Receive => gst::ResourceError::OpenRead,
            },
            Self::Untrusted { .. } => gst::ResourceError::NotAuthorized,
            Self::Lost { .. } => match direction {
                Direction::Send => gst::ResourceError::Write,
                Direction::Receive => gst::ResourceError::Read,
            },
        };
        gst::error_msg!(kind, ["{self}"])
    }
}

/// Posts an error on the bus.
pub(crate) fn post<T: ElementImpl>(element: &T, error: &Error, direction: Direction)
where
    T::Type: IsA<gst::Element>,
{
    element.post_error_message(error.message(direction));
}
