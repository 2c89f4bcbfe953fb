//! quiche does not tell an application of a reset behind the end of a stream that lacks something, and never forgets
//! the stream.

use crate::harness::*;

const STREAM: u8 = 6;

#[test]
fn a_stream_that_is_reset_behind_its_end_is_never_readable() {
    let mut ends = Ends::established();
    let before = ends.client.peer_streams_left_uni();
    // The last of ten bytes with FIN, and RESET_STREAM with error 7 and the same final size.
    ends.inject(&[0x0f, STREAM, 9, 1, b'x', 0x04, STREAM, 7, 10]).unwrap();
    let stream_id = STREAM.into();
    let is_told = ends.server.stream_readable(stream_id);
    assert_eq!(ends.server.stream_recv(stream_id, &mut [0; 10]), Err(quiche::Error::Done));
    assert_needed(!is_told, "late_resets.rs");
    ends.exchange();
    assert!(
        ends.client.peer_streams_left_uni() <= before,
        "the peer may open no other instead"
    );
}

#[test]
fn a_stream_that_is_reset_before_its_end_comes_is() {
    let mut ends = Ends::established();
    ends.inject(&[0x0e, STREAM, 8, 1, b'x', 0x04, STREAM, 7, 10]).unwrap();
    let read = ends.server.stream_recv(STREAM.into(), &mut [0; 10]);
    assert_eq!(read, Err(quiche::Error::StreamReset(7)));
}
