//! quiche does not tell of the end of a stream that comes with data which has been read.

use crate::harness::*;

const STREAM: u8 = 6;

#[test]
fn an_end_with_data_that_was_read_is_not_told() {
    let mut ends = Ends::established();
    ends.inject(&[0x0e, STREAM, 0, 1, b'x']).unwrap();
    let stream_id = STREAM.into();
    assert_eq!(ends.server.stream_recv(stream_id, &mut [0; 10]), Ok((1, false)));
    ends.inject(&[0x0f, STREAM, 0, 1, b'x']).unwrap();
    assert_needed(!ends.server.stream_readable(stream_id), "read_ends.rs");
}

#[test]
fn an_end_alone_is() {
    let mut ends = Ends::established();
    ends.inject(&[0x0e, STREAM, 0, 1, b'x']).unwrap();
    let stream_id = STREAM.into();
    assert_eq!(ends.server.stream_recv(stream_id, &mut [0; 10]), Ok((1, false)));
    ends.inject(&[0x0f, STREAM, 1, 0]).unwrap();
    assert_eq!(ends.server.stream_recv(stream_id, &mut [0; 10]), Ok((0, true)));
}
