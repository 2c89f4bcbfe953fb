//! CONNECTION_CLOSE frames, and the first frame of HTTP/3 requests.

use serde::Serialize;
use tack_proto::frame::{Frame, Located};
use tack_proto::varint::Reader;
use tack_tap::Direction;

/// A CONNECTION_CLOSE frame in a 1-RTT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Close {
    /// The server sent it.
    pub by_server: bool,
    /// Whether `code` is the application's own.
    pub application: bool,
    /// The error code.
    pub code: u64,
}

impl Close {
    /// Reads a CONNECTION_CLOSE frame; `None` for any other frame.
    pub const fn from_frame(direction: Direction, frame: &Frame<'_>) -> Option<Self> {
        let Frame::ConnectionClose { application, error_code } = *frame else { return None };
        let by_server = matches!(direction, Direction::ToClient);
        Some(Self { by_server, application, code: error_code })
    }
}

/// Whether the STREAM frame begins a request with an HTTP/3 frame of a reserved type, which the
/// receiver has to ignore (RFC 9114 section 7.2.8).
pub fn begins_with_reserved_frame(
    direction: Direction,
    located: &Located<'_>,
    payload: &[u8],
) -> bool {
    let Frame::Stream(stream) = &located.frame else { return false };
    // Bidirectional, the client's: RFC 9000 section 2.1.
    let is_request = stream.stream_id % 4 == 0 && direction == Direction::ToServer;
    if !is_request || stream.offset > 0 {
        return false;
    }
    let start = located.range.end.saturating_sub(stream.len as usize);
    let data = payload.get(start..located.range.end).unwrap_or_default();
    Reader::new(data).read_varint().is_ok_and(|kind| kind >= 0x21 && (kind - 0x21) % 0x1f == 0)
}

#[cfg(test)]
mod tests {
    use tack_proto::frame::Frames;

    use super::*;

    fn begins(direction: Direction, payload: &[u8]) -> bool {
        let mut frames = Frames::new(payload).map_while(Result::ok);
        frames.any(|located| begins_with_reserved_frame(direction, &located, payload))
    }

    #[test]
    fn only_a_request_that_starts_with_a_reserved_type_counts() {
        const RESERVED: u8 = 0x21;
        let to_server = Direction::ToServer;
        assert!(begins(to_server, &[0x0a, 0, 2, RESERVED, 0]));
        assert!(begins(to_server, &[0x0a, 4, 2, 0x40, RESERVED + 0x1f]), "of two bytes");
        assert!(!begins(to_server, &[0x0a, 0, 2, 1, 0]), "HEADERS");
        assert!(!begins(to_server, &[0x0a, 2, 2, RESERVED, 0]), "unidirectional");
        assert!(!begins(to_server, &[0x0e, 0, 1, 2, RESERVED, 0]), "not the start");
        assert!(!begins(Direction::ToClient, &[0x0a, 0, 2, RESERVED, 0]), "an answer");
    }

    #[test]
    fn a_close_is_told_with_who_sent_it() {
        let located = Frames::new(&[0x1d, 0x41, 0x05, 0]).next().unwrap().unwrap();
        let close = Close::from_frame(Direction::ToClient, &located.frame).unwrap();
        assert_eq!(close, Close { by_server: true, application: true, code: 0x105 });
        assert_eq!(Close::from_frame(Direction::ToClient, &Frame::Ping), None);
    }
}
