//! Why the layer has closed a connection.

use tack_proto::frame::DecodeError;
use tack_proto::sender::Violation;

/// A violation of the extension's rules by the peer, in an authentic packet.
///
/// [`Connection::recv`](crate::Connection::recv) gives [`quiche::Error::InvalidFrame`] for it, closes
/// the connection, and [`Connection::extension_error`](crate::Connection::extension_error) tells which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtensionError {
    /// A claim that our own record contradicts.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// A frame that cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A TACK or IACK although one end has not announced TACK.
    #[error("the peer sent a TACK or IACK frame, and TACK was not negotiated")]
    NotNegotiated,
    /// Reserved bits although the mark was not negotiated (RFC 9000 section 17.3.1).
    #[error("the peer set reserved bits of the short header, and the mark was not negotiated")]
    ReservedBits,
    /// ACK_FREQUENCY with a delay out of bounds.
    #[error(
        "the peer's ACK_FREQUENCY asks for a delay below our min_ack_delay, or of 2^14 ms and above"
    )]
    RequestedDelay,
    /// A key update that breaks RFC 9001 section 6.2 or 6.4.
    ///
    /// One before the last was confirmed, or an acknowledgement that does not follow ours.
    #[error("the peer broke the rules of key updates")]
    KeyUpdate,
    /// The packet for quiche could not be sealed.
    #[error("a packet could not be sealed for quiche; please report this as a bug")]
    Unsealable,
}

impl ExtensionError {
    /// The transport error code of RFC 9000 section 20.1 that the connection is closed with.
    pub fn to_wire(&self) -> u64 {
        const INTERNAL_ERROR: u64 = 0x01;
        const PROTOCOL_VIOLATION: u64 = 0x0a;
        const KEY_UPDATE_ERROR: u64 = 0x0e;
        match self {
            Self::Decode(error) => error.to_wire(),
            Self::Unsealable => INTERNAL_ERROR,
            Self::KeyUpdate => KEY_UPDATE_ERROR,
            Self::Violation(_)
            | Self::NotNegotiated
            | Self::ReservedBits
            | Self::RequestedDelay => PROTOCOL_VIOLATION,
        }
    }
}
