//! What an application may put into CONNECTION_CLOSE, RESET_STREAM and STOP_SENDING.
//!
//! What: keeps error codes within what a varint holds, and the reason of a close within a packet. Why: quiche (0.30)
//! takes any code, and panics when it writes the frame (`octets::varint_len`); and it writes no CONNECTION_CLOSE
//! (`lib.rs`) that does not fit a packet, so that the peer never hears of the close, and this end waits for its idle
//! timeout. Upstream: not reported. To delete: when quiche refuses such codes, and shortens such reasons.

/// The largest varint (RFC 9000 section 16).
const MAX_ERROR_CODE: u64 = (1 << 62) - 1;

/// Of a reason so many bytes are told: with them the frame fits the smallest packet that any path takes.
const MOST_OF_REASON: usize = 1000;

/// The code that is told.
pub fn error_code(code: u64) -> u64 {
    code.min(MAX_ERROR_CODE)
}

/// What is told of a reason: whole characters, if it is text.
pub fn shortened(reason: &[u8]) -> &[u8] {
    if reason.len() <= MOST_OF_REASON {
        return reason;
    }
    let is_start = |at: &usize| reason[*at] & 0xc0 != 0x80;
    // A character of UTF-8 has four bytes at most.
    let end = (MOST_OF_REASON - 3..=MOST_OF_REASON).rev().find(is_start);
    &reason[..end.unwrap_or(MOST_OF_REASON)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(shortened(b"short"), b"short");
        let text = "ä".repeat(600);
        assert_eq!(shortened(text.as_bytes()), "ä".repeat(500).as_bytes());
        let text = format!("x{text}");
        assert_eq!(shortened(text.as_bytes()).len(), 999);
        assert_eq!(shortened(&[0x80; 2000]).len(), MOST_OF_REASON, "no text");
    }

    #[test]
    fn codes_beyond_a_varint_are_told_as_the_largest() {
        assert_eq!(error_code(7), 7);
        assert_eq!(error_code(u64::MAX), MAX_ERROR_CODE);
    }
}
