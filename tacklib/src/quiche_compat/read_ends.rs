//! Ends of streams that come with data that has been read.
//!
//! What: in place of a STREAM frame with an end whose data the application has read, quiche gets the end alone; where it may
//! have read the data, the end goes in front of the frame, which quiche then takes as if it came alone. Why: quiche (0.30,
//! `RecvBuf::write`) notes the end of such a frame and drops the frame with its data: the stream is not readable, and the
//! application is never told that it is complete. A sender that writes the end behind the data repeats the data with it
//! if the acknowledgement is lost. Upstream: not reported. To delete: when quiche makes a stream readable that has been
//! read to an end which comes later.

use tack_proto::frame::Stream;
use tack_proto::varint;

/// STREAM with offset, length and the end of the stream (RFC 9000 section 19.8).
const STREAM_OFF_LEN_FIN: u8 = 0x0f;

/// Appends the end of a stream, alone.
pub fn put_end(stream: &Stream, frames: &mut Vec<u8>) {
    frames.push(STREAM_OFF_LEN_FIN);
    for value in [stream.stream_id, stream.data().end, 0] {
        varint::put(frames, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_where_the_data_ends() {
        let mut frames = Vec::new();
        put_end(&Stream { stream_id: 7, offset: 10, len: 20, fin: true }, &mut frames);
        assert_eq!(frames, [0x0f, 7, 30, 0]);
    }
}
