//! Error codes of HTTP/3 (RFC 9114 section 8.1) and of WebTransport over it.

use web_transport_proto::{error_from_http3, error_to_http3};

pub(super) const DATAGRAM_ERROR: u64 = 0x33; // RFC 9297 section 5.2
pub(super) const NO_ERROR: u64 = 0x100;
pub(super) const STREAM_CREATION_ERROR: u64 = 0x103;
pub(super) const CLOSED_CRITICAL_STREAM: u64 = 0x104;
pub(super) const FRAME_UNEXPECTED: u64 = 0x105;
pub(super) const ID_ERROR: u64 = 0x108;
pub(super) const SETTINGS_ERROR: u64 = 0x109;
pub(super) const MISSING_SETTINGS: u64 = 0x10a;
pub(super) const REQUEST_REJECTED: u64 = 0x10b;
pub(super) const REQUEST_INCOMPLETE: u64 = 0x10d;
pub(super) const MESSAGE_ERROR: u64 = 0x10e;

// draft-ietf-webtrans-http3 section 9.5.
pub(super) const BUFFERED_STREAM_REJECTED: u64 = 0x3994_bd84;
pub(super) const SESSION_GONE: u64 = 0x170d_7b68;

/// The code on the wire of an application's (draft-ietf-webtrans-http3 section 4.4).
pub(super) const fn to_wire(code: u32) -> u64 {
    error_to_http3(code)
}

/// The application's code of one on the wire; `None` where that is none.
pub(super) const fn from_wire(code: u64) -> Option<u32> {
    /// Reserved codes of HTTP/3 (RFC 9114 section 8.1) lie between those of the applications.
    const fn is_reserved(code: u64) -> bool {
        code >= 0x21 && (code - 0x21).is_multiple_of(0x1f)
    }
    if is_reserved(code) { None } else { error_from_http3(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_application_come_back_and_others_are_none() {
        for code in [0, 1, 29, 30, 31, 59, 60, 1 << 20, u32::MAX - 1, u32::MAX] {
            assert_eq!(from_wire(to_wire(code)), Some(code));
        }
        // The bounds are those of the draft.
        assert_eq!(to_wire(0), 0x52e4_a40f_a8db);
        assert_eq!(to_wire(u32::MAX), 0x52e5_ac98_3162);
        for code in [0, NO_ERROR, SESSION_GONE, to_wire(0) - 1, to_wire(u32::MAX) + 1] {
            assert_eq!(from_wire(code), None, "{code:#x}");
        }
        // Between the codes 29 and 30 lies a reserved one.
        assert_eq!(to_wire(30) - to_wire(29), 2);
        assert_eq!(from_wire(to_wire(29) + 1), None);
    }
}
