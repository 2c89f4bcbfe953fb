//! Error codes.

use libc::{c_int, ssize_t};
use tack_quiche::{Error, h3};

/// Errors of QUIC. A function that fails returns one of them, or NULL, or false.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tack_error {
    /// There is nothing (more) to do.
    TACK_ERR_DONE = -1,
    /// The buffer is too short.
    TACK_ERR_BUFFER_TOO_SHORT = -2,
    /// The packet cannot be read: its version is not known.
    TACK_ERR_UNKNOWN_VERSION = -3,
    /// The packet cannot be read: a frame in it is not valid, or the peer has broken a rule of the
    /// extension frames.
    TACK_ERR_INVALID_FRAME = -4,
    /// The packet cannot be read.
    TACK_ERR_INVALID_PACKET = -5,
    /// The connection is in a state in which this cannot be done.
    TACK_ERR_INVALID_STATE = -6,
    /// The stream is in a state in which this cannot be done.
    TACK_ERR_INVALID_STREAM_STATE = -7,
    /// The peer's transport parameters cannot be read.
    TACK_ERR_INVALID_TRANSPORT_PARAM = -8,
    /// A cryptographic operation has failed.
    TACK_ERR_CRYPTO_FAIL = -9,
    /// The TLS handshake has failed.
    TACK_ERR_TLS_FAIL = -10,
    /// The peer has sent more than flow control lets it.
    TACK_ERR_FLOW_CONTROL = -11,
    /// The peer has opened more streams than it may.
    TACK_ERR_STREAM_LIMIT = -12,
    /// The peer has sent data behind the end of a stream.
    TACK_ERR_FINAL_SIZE = -13,
    /// Congestion control has failed.
    TACK_ERR_CONGESTION_CONTROL = -14,
    /// The peer reads no more of the stream (STOP_SENDING).
    TACK_ERR_STREAM_STOPPED = -15,
    /// The peer has reset the stream (RESET_STREAM).
    TACK_ERR_STREAM_RESET = -16,
    /// More connection ids than the peer lets be.
    TACK_ERR_ID_LIMIT = -17,
    /// No connection id is left.
    TACK_ERR_OUT_OF_IDENTIFIERS = -18,
    /// A key update has failed.
    TACK_ERR_KEY_UPDATE = -19,
    /// The peer has sent more in CRYPTO frames than can be kept.
    TACK_ERR_CRYPTO_BUFFER_EXCEEDED = -20,
    /// The peer has acknowledged packets that were not sent.
    TACK_ERR_INVALID_ACK_RANGE = -21,
    /// The peer has acknowledged a packet number that was skipped as a trap.
    TACK_ERR_OPTIMISTIC_ACK_DETECTED = -22,
    /// The destination connection id of a new client connection is not valid.
    TACK_ERR_INVALID_DCID_INITIALIZATION = -23,
    /// An argument is not valid: a NULL pointer, an address that is not one of IPv4 or IPv6, a connection id
    /// of more than TACK_MAX_CONN_ID_LEN bytes, text that is not UTF-8, a number that has no meaning.
    TACK_ERR_INVALID_ARGUMENT = -100,
}

/// Why a function has failed: the number that it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(c_int);

/// What C has passed cannot be.
pub(crate) const INVALID_ARGUMENT: Failure =
    Failure(tack_error::TACK_ERR_INVALID_ARGUMENT as c_int);

impl From<tack_error> for Failure {
    fn from(error: tack_error) -> Self {
        Self(error as c_int)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        use tack_error as c;
        Self::from(match error {
            Error::Done => c::TACK_ERR_DONE,
            Error::BufferTooShort => c::TACK_ERR_BUFFER_TOO_SHORT,
            Error::UnknownVersion => c::TACK_ERR_UNKNOWN_VERSION,
            Error::InvalidFrame => c::TACK_ERR_INVALID_FRAME,
            Error::InvalidPacket => c::TACK_ERR_INVALID_PACKET,
            Error::InvalidState => c::TACK_ERR_INVALID_STATE,
            Error::InvalidStreamState(_) => c::TACK_ERR_INVALID_STREAM_STATE,
            Error::InvalidTransportParam => c::TACK_ERR_INVALID_TRANSPORT_PARAM,
            Error::CryptoFail => c::TACK_ERR_CRYPTO_FAIL,
            Error::TlsFail => c::TACK_ERR_TLS_FAIL,
            Error::FlowControl => c::TACK_ERR_FLOW_CONTROL,
            Error::StreamLimit => c::TACK_ERR_STREAM_LIMIT,
            Error::FinalSize => c::TACK_ERR_FINAL_SIZE,
            Error::CongestionControl => c::TACK_ERR_CONGESTION_CONTROL,
            Error::StreamStopped(_) => c::TACK_ERR_STREAM_STOPPED,
            Error::StreamReset(_) => c::TACK_ERR_STREAM_RESET,
            Error::IdLimit => c::TACK_ERR_ID_LIMIT,
            Error::OutOfIdentifiers => c::TACK_ERR_OUT_OF_IDENTIFIERS,
            Error::KeyUpdate => c::TACK_ERR_KEY_UPDATE,
            Error::CryptoBufferExceeded => c::TACK_ERR_CRYPTO_BUFFER_EXCEEDED,
            Error::InvalidAckRange => c::TACK_ERR_INVALID_ACK_RANGE,
            Error::OptimisticAckDetected => c::TACK_ERR_OPTIMISTIC_ACK_DETECTED,
            Error::InvalidDcidInitialization => c::TACK_ERR_INVALID_DCID_INITIALIZATION,
        })
    }
}

impl From<h3::Error> for Failure {
    fn from(error: h3::Error) -> Self {
        Self(crate::h3::error::code(error))
    }
}

impl Failure {
    pub(crate) const fn code(self) -> c_int {
        self.0
    }
}

/// Runs what a function does, and returns 0 or why it has failed.
pub(crate) fn status(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    call().map_or_else(Failure::code, |()| 0)
}

/// Runs what a function does, and returns how much that was or why it has failed.
pub(crate) fn length(call: impl FnOnce() -> Result<usize, Failure>) -> ssize_t {
    call().map_or_else(|failure| failure.0 as ssize_t, to_length)
}

/// A length as C has it.
pub(crate) fn to_length(len: usize) -> ssize_t {
    ssize_t::try_from(len).unwrap_or(ssize_t::MAX)
}

/// Runs what a function does that returns an object; the log tells why there is none.
pub(crate) fn object<T>(
    what: &str,
    call: impl FnOnce() -> Result<T, Failure>,
) -> Option<Box<T>> {
    match call() {
        Ok(object) => Some(Box::new(object)),
        Err(Failure(code)) => {
            log::error!("cannot {what}: error {code} (enum tack_error)");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_quiches_numbers() {
        // quiche.h
        for (error, code) in [
            (Error::Done, -1),
            (Error::InvalidStreamState(4), -7),
            (Error::FinalSize, -13),
            (Error::StreamReset(7), -16),
            (Error::InvalidDcidInitialization, -23),
        ] {
            assert_eq!(length(|| Err(error.into())), code, "{error:?}");
        }
        assert_eq!(status(|| Err(INVALID_ARGUMENT)), -100);
        assert_eq!(length(|| Ok(usize::MAX)), ssize_t::MAX);
    }
}
