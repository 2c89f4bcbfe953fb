//! Error codes of HTTP/3.

use std::ffi::c_int;

use tack_quiche::h3::Error;

use crate::error::Failure;

/// Errors of HTTP/3. Those of QUIC behind them are TACK_H3_TRANSPORT_ERR_...: the number of enum tack_error less
/// 1000. TACK_ERR_INVALID_ARGUMENT is itself.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum tack_h3_error {
    /// There is nothing (more) to do.
    TACK_H3_ERR_DONE = -1,
    /// The buffer is too short.
    TACK_H3_ERR_BUFFER_TOO_SHORT = -2,
    /// HTTP/3 has failed by itself.
    TACK_H3_ERR_INTERNAL_ERROR = -3,
    /// The peer causes too much work.
    TACK_H3_ERR_EXCESSIVE_LOAD = -4,
    /// A stream id or push id is beyond its limit, or used again.
    TACK_H3_ERR_ID_ERROR = -5,
    /// The peer has opened a stream that it may not open.
    TACK_H3_ERR_STREAM_CREATION_ERROR = -6,
    /// A stream was closed that has to stay.
    TACK_H3_ERR_CLOSED_CRITICAL_STREAM = -7,
    /// The control stream does not begin with SETTINGS.
    TACK_H3_ERR_MISSING_SETTINGS = -8,
    /// A frame has come that may not come now.
    TACK_H3_ERR_FRAME_UNEXPECTED = -9,
    /// A frame is not valid.
    TACK_H3_ERR_FRAME_ERROR = -10,
    /// Header fields cannot be decoded.
    TACK_H3_ERR_QPACK_DECOMPRESSION_FAILED = -11,
    /// There is no room: to be tried again when the stream can be written.
    TACK_H3_ERR_STREAM_BLOCKED = -13,
    /// A SETTINGS frame is not valid.
    TACK_H3_ERR_SETTINGS_ERROR = -14,
    /// The server has rejected the request.
    TACK_H3_ERR_REQUEST_REJECTED = -15,
    /// The request or its response was cancelled.
    TACK_H3_ERR_REQUEST_CANCELLED = -16,
    /// The request has ended before it was whole.
    TACK_H3_ERR_REQUEST_INCOMPLETE = -17,
    /// A message is malformed.
    TACK_H3_ERR_MESSAGE_ERROR = -18,
    /// The connection behind CONNECT was reset.
    TACK_H3_ERR_CONNECT_ERROR = -19,
    /// The request is to be repeated over HTTP/1.1.
    TACK_H3_ERR_VERSION_FALLBACK = -20,
    /// See TACK_ERR_DONE.
    TACK_H3_TRANSPORT_ERR_DONE = -1001,
    /// See TACK_ERR_BUFFER_TOO_SHORT.
    TACK_H3_TRANSPORT_ERR_BUFFER_TOO_SHORT = -1002,
    /// See TACK_ERR_UNKNOWN_VERSION.
    TACK_H3_TRANSPORT_ERR_UNKNOWN_VERSION = -1003,
    /// See TACK_ERR_INVALID_FRAME.
    TACK_H3_TRANSPORT_ERR_INVALID_FRAME = -1004,
    /// See TACK_ERR_INVALID_PACKET.
    TACK_H3_TRANSPORT_ERR_INVALID_PACKET = -1005,
    /// See TACK_ERR_INVALID_STATE.
    TACK_H3_TRANSPORT_ERR_INVALID_STATE = -1006,
    /// See TACK_ERR_INVALID_STREAM_STATE.
    TACK_H3_TRANSPORT_ERR_INVALID_STREAM_STATE = -1007,
    /// See TACK_ERR_INVALID_TRANSPORT_PARAM.
    TACK_H3_TRANSPORT_ERR_INVALID_TRANSPORT_PARAM = -1008,
    /// See TACK_ERR_CRYPTO_FAIL.
    TACK_H3_TRANSPORT_ERR_CRYPTO_FAIL = -1009,
    /// See TACK_ERR_TLS_FAIL.
    TACK_H3_TRANSPORT_ERR_TLS_FAIL = -1010,
    /// See TACK_ERR_FLOW_CONTROL.
    TACK_H3_TRANSPORT_ERR_FLOW_CONTROL = -1011,
    /// See TACK_ERR_STREAM_LIMIT.
    TACK_H3_TRANSPORT_ERR_STREAM_LIMIT = -1012,
    /// See TACK_ERR_FINAL_SIZE.
    TACK_H3_TRANSPORT_ERR_FINAL_SIZE = -1013,
    /// See TACK_ERR_CONGESTION_CONTROL.
    TACK_H3_TRANSPORT_ERR_CONGESTION_CONTROL = -1014,
    /// See TACK_ERR_STREAM_STOPPED.
    TACK_H3_TRANSPORT_ERR_STREAM_STOPPED = -1015,
    /// See TACK_ERR_STREAM_RESET.
    TACK_H3_TRANSPORT_ERR_STREAM_RESET = -1016,
    /// See TACK_ERR_ID_LIMIT.
    TACK_H3_TRANSPORT_ERR_ID_LIMIT = -1017,
    /// See TACK_ERR_OUT_OF_IDENTIFIERS.
    TACK_H3_TRANSPORT_ERR_OUT_OF_IDENTIFIERS = -1018,
    /// See TACK_ERR_KEY_UPDATE.
    TACK_H3_TRANSPORT_ERR_KEY_UPDATE = -1019,
    /// See TACK_ERR_CRYPTO_BUFFER_EXCEEDED.
    TACK_H3_TRANSPORT_ERR_CRYPTO_BUFFER_EXCEEDED = -1020,
    /// See TACK_ERR_INVALID_ACK_RANGE.
    TACK_H3_TRANSPORT_ERR_INVALID_ACK_RANGE = -1021,
    /// See TACK_ERR_OPTIMISTIC_ACK_DETECTED.
    TACK_H3_TRANSPORT_ERR_OPTIMISTIC_ACK_DETECTED = -1022,
    /// See TACK_ERR_INVALID_DCID_INITIALIZATION.
    TACK_H3_TRANSPORT_ERR_INVALID_DCID_INITIALIZATION = -1023,
}

/// The number of an error.
pub(crate) fn code(error: Error) -> c_int {
    use tack_h3_error as c;
    let error = match error {
        Error::Done => c::TACK_H3_ERR_DONE,
        Error::BufferTooShort => c::TACK_H3_ERR_BUFFER_TOO_SHORT,
        Error::InternalError => c::TACK_H3_ERR_INTERNAL_ERROR,
        Error::ExcessiveLoad => c::TACK_H3_ERR_EXCESSIVE_LOAD,
        Error::IdError => c::TACK_H3_ERR_ID_ERROR,
        Error::StreamCreationError => c::TACK_H3_ERR_STREAM_CREATION_ERROR,
        Error::ClosedCriticalStream => c::TACK_H3_ERR_CLOSED_CRITICAL_STREAM,
        Error::MissingSettings => c::TACK_H3_ERR_MISSING_SETTINGS,
        Error::FrameUnexpected => c::TACK_H3_ERR_FRAME_UNEXPECTED,
        Error::FrameError => c::TACK_H3_ERR_FRAME_ERROR,
        Error::QpackDecompressionFailed => c::TACK_H3_ERR_QPACK_DECOMPRESSION_FAILED,
        Error::StreamBlocked => c::TACK_H3_ERR_STREAM_BLOCKED,
        Error::SettingsError => c::TACK_H3_ERR_SETTINGS_ERROR,
        Error::RequestRejected => c::TACK_H3_ERR_REQUEST_REJECTED,
        Error::RequestCancelled => c::TACK_H3_ERR_REQUEST_CANCELLED,
        Error::RequestIncomplete => c::TACK_H3_ERR_REQUEST_INCOMPLETE,
        Error::MessageError => c::TACK_H3_ERR_MESSAGE_ERROR,
        Error::ConnectError => c::TACK_H3_ERR_CONNECT_ERROR,
        Error::VersionFallback => c::TACK_H3_ERR_VERSION_FALLBACK,
        Error::TransportError(error) => return Failure::from(error).code() - 1000,
    };
    error as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_quiches_numbers() {
        // quiche.h
        assert_eq!(code(Error::Done), -1);
        assert_eq!(code(Error::StreamBlocked), -13);
        assert_eq!(code(Error::VersionFallback), -20);
        let stopped = Error::TransportError(tack_quiche::Error::StreamStopped(7));
        assert_eq!(code(stopped), tack_h3_error::TACK_H3_TRANSPORT_ERR_STREAM_STOPPED as c_int);
    }
}
