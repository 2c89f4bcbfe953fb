//! quiche tells once that the peer has stopped a stream, whoever asks, and may leave the stream out of its lists.

use quiche::{Error, Shutdown};

use crate::harness::*;

/// A client whose first unidirectional stream the server stops.
fn stopping(prepare: impl Fn(&mut Ends)) -> Ends {
    let mut ends = Ends::established();
    ends.client.stream_send(2, &[1; 1000], false).unwrap();
    ends.exchange();
    prepare(&mut ends);
    ends.server.stream_shutdown(2, Shutdown::Read, 7).unwrap();
    ends.exchange();
    ends
}

#[test]
fn a_question_for_the_capacity_of_a_stopped_stream_takes_the_news() {
    let mut ends = stopping(|_| {});
    assert_eq!(ends.client.stream_capacity(2), Err(Error::StreamStopped(7)));
    let second = ends.client.stream_send(2, b"x", false);
    assert_needed(second != Err(Error::StreamStopped(7)), "stopped_streams.rs");
}

#[test]
fn a_stream_that_was_taken_from_the_writable_ones_is_not_among_them_when_it_is_stopped() {
    let mut ends =
        stopping(|ends| assert_eq!(ends.client.stream_writable_next(), Some(2), "taken"));
    assert_needed(ends.client.stream_writable_next() != Some(2), "stopped_streams.rs");
}
