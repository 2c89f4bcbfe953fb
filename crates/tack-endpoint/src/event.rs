//! Events for the application.

use std::fmt;

use crate::Handle;

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete. This is a server's first event of a connection, unless the client
    /// sent early data.
    Connected(Handle),
    /// Streams may have become readable or writable. At most one per connection is pending.
    Activity(Handle),
    /// The connection is over.
    ///
    /// Its CONNECTION_CLOSE, if this side closed it, has been handed to the socket: a program may end here. The
    /// connection can still be read, for data that came before the end and for statistics, until the next call of
    /// [`poll`](crate::Endpoint::poll).
    Closed(Handle, CloseReason),
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// Nothing was received for the idle timeout.
    IdleTimeout,
    /// This side closed it: the application, or quiche because the peer broke the protocol.
    Local {
        /// Whether `code` is the application's own, not one of RFC 9000 section 20.1.
        application: bool,
        /// The error code.
        code: u64,
        /// The reason given.
        reason: Vec<u8>,
    },
    /// The peer closed it.
    Peer {
        /// Whether `code` is the application's own, not one of RFC 9000 section 20.1.
        application: bool,
        /// The error code.
        code: u64,
        /// The reason given. It comes from the network: escape it before display.
        reason: Vec<u8>,
    },
    /// The peer no longer has the connection and sent a stateless reset.
    Reset,
    /// No usable network path is left.
    PathLost,
    /// The handshake did not complete, and why.
    HandshakeFailed(String),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdleTimeout => f.write_str(
                "nothing was received for the idle timeout; check the network and whether the peer still runs",
            ),
            Self::Local { application, code, reason } => {
                write!(f, "closed by this side with ")?;
                code_and_reason(f, *application, *code, reason)
            }
            Self::Peer { application, code, reason } => {
                write!(f, "closed by the peer with ")?;
                code_and_reason(f, *application, *code, reason)
            }
            Self::Reset => f.write_str(
                "the peer no longer knows this connection: it was restarted, or received nothing \
                 for too long; connect again",
            ),
            Self::PathLost => f.write_str(
                "no network path to the peer works any more; check the network and connect again",
            ),
            Self::HandshakeFailed(why) => write!(f, "could not connect: {why}"),
        }
    }
}

fn code_and_reason(
    f: &mut fmt::Formatter<'_>,
    application: bool,
    code: u64,
    reason: &[u8],
) -> fmt::Result {
    let kind = if application { "application" } else { "transport" };
    write!(f, "{kind} code {code:#x}")?;
    if let Some(name) = transport_error_name(code).filter(|_| !application) {
        write!(f, " ({name})")?;
    }
    if !reason.is_empty() {
        // The reason comes from the network: no control characters for the terminal.
        write!(f, ": {}", String::from_utf8_lossy(reason).escape_debug())?;
    }
    Ok(())
}

/// The names of RFC 9000 section 20.1.
fn transport_error_name(code: u64) -> Option<&'static str> {
    Some(match code {
        0x0 => "no error",
        0x1 => "internal error",
        0x2 => "connection refused",
        0x3 => "flow control error",
        0x4 => "stream limit error",
        0x5 => "stream state error",
        0x6 => "final size error",
        0x7 => "frame encoding error",
        0x8 => "transport parameter error",
        0x9 => "connection ID limit error",
        0xa => "protocol violation",
        0xb => "invalid token",
        0xc => "application error",
        0xd => "crypto buffer exceeded",
        0xe => "key update error",
        0xf => "AEAD limit reached",
        0x10 => "no viable path",
        0x100..=0x1ff => "TLS alert",
        _ => return None,
    })
}

/// Describes why a handshake ended with a transport error code, and what to check.
pub(crate) fn handshake_error(by_peer: bool, code: u64, reason: &[u8]) -> String {
    let side = if by_peer { "the peer" } else { "this side" };
    // RFC 9001 section 4.8: TLS alerts are carried as 0x100 plus the alert (RFC 8446 section 6).
    let advice = match code {
        0x128 => "no common TLS parameters",
        0x12a | 0x12b | 0x12e => {
            "the certificate was not accepted; check which one the server uses"
        }
        0x12d => "the certificate has expired",
        0x130 => "the certificate's issuer is not trusted; add its CA certificate",
        0x133 | 0x150 => "a cryptographic check failed; check that key and certificate match",
        0x170 => "the server name is not known there",
        0x178 => "no common application protocol (ALPN)",
        0x2 => "the connection was refused",
        0x8 => "the transport parameters were not accepted",
        0xb => "the proof of the client's address came too late; connect again",
        _ => "the handshake failed",
    };
    let reason = match String::from_utf8_lossy(reason) {
        reason if reason.is_empty() => String::new(),
        reason => format!(": {}", reason.escape_debug()),
    };
    format!("{advice} ({side} closed with code {code:#x}{reason})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_from_the_network_is_escaped() {
        let reason = b"\x1b[2Jgone".to_vec();
        let close = CloseReason::Peer { application: true, code: 7, reason };
        let text = close.to_string();
        assert_eq!(text, "closed by the peer with application code 0x7: \\u{1b}[2Jgone");
        assert!(!handshake_error(true, 0x128, b"\x07").contains('\x07'));
    }

    #[test]
    fn transport_codes_are_named_and_application_codes_are_not() {
        let close = |application| CloseReason::Local { application, code: 2, reason: vec![] };
        assert!(close(false).to_string().ends_with("0x2 (connection refused)"));
        assert!(close(true).to_string().ends_with("0x2"));
    }

    #[test]
    fn a_failed_handshake_says_what_to_look_at() {
        assert!(handshake_error(true, 0x178, b"").contains("ALPN"));
        assert!(handshake_error(false, 0x130, b"").contains("CA certificate"));
    }
}
