//! quiche takes a stream for delivered once its data is acknowledged, whether or not its end is
//! (cloudflare/quiche#2525).

use tack_proto::frame::Frame;

use crate::harness::*;

const STREAM: u64 = 2;

#[test]
fn an_end_that_is_written_before_its_data_is_acknowledged_never_leaves() {
    let mut ends = Ends::established();
    for datagram in ends.client_writes(STREAM, &[7; 1000]) {
        ends.deliver_to_server(datagram).unwrap();
    }
    let acknowledgements = sent(&mut ends.server);
    ends.client.stream_send(STREAM, &[], true).unwrap();
    for (datagram, _) in acknowledgements {
        ends.deliver_to_client(datagram).unwrap();
    }
    ends.exchange();
    assert_eq!(ends.server.stream_recv(STREAM, &mut [0; 2000]), Ok((1000, false)));
    assert_needed(!ends.server.stream_finished(STREAM), "stream_ends.rs");
}

/// A stream of several packets, the first of which is lost.
fn with_its_first_packet_lost() -> Ends {
    let mut ends = Ends::established();
    for datagram in ends.client_writes(STREAM, &[7; 5000]).into_iter().skip(1) {
        ends.deliver_to_server(datagram).unwrap();
    }
    ends
}

fn assert_has_no_end(mut ends: Ends) {
    ends.exchange();
    assert_eq!(ends.server.stream_recv(STREAM, &mut [0; 6000]), Ok((5000, false)));
    assert_needed(!ends.server.stream_finished(STREAM), "stream_ends.rs");
}

#[test]
fn an_end_that_is_lost_with_data_before_the_last_is_not_repeated() {
    let mut ends = with_its_first_packet_lost();
    ends.client.stream_send(STREAM, &[], true).unwrap();
    assert!(!sent(&mut ends.client).is_empty(), "the end leaves, and is lost");
    for datagram in ends.client_writes(STREAM + 4, &[8; 5000]) {
        ends.deliver_to_server(datagram).unwrap();
    }
    assert_has_no_end(ends);
}

#[test]
fn an_end_that_is_written_while_data_before_the_last_waits_to_be_repeated_never_leaves() {
    let mut ends = with_its_first_packet_lost();
    for (datagram, _) in sent(&mut ends.server) {
        ends.deliver_to_client(datagram).unwrap();
    }
    ends.client.stream_send(STREAM, &[], true).unwrap();
    assert_has_no_end(ends);
}

#[test]
fn a_stream_that_is_given_up_while_it_waits_to_send_gets_an_end() {
    let mut ends = Ends::established();
    let (mut keys, _) = ends.keys();
    ends.client.stream_send(STREAM, &[7; 5000], false).unwrap();
    ends.client.send(&mut [0; 1200]).unwrap();
    ends.client.stream_shutdown(STREAM, quiche::Shutdown::Write, 9).unwrap();
    let is_end = |frame: &Frame<'_>| matches!(frame, Frame::Stream(stream) if stream.fin);
    let mut has_end =
        sent(&mut ends.client).into_iter().map(|(packet, _)| keys.finds(&packet, is_end));
    assert_needed(
        has_end.any(|has_end| has_end),
        "stream_ends.rs (of streams that were given up)",
    );
}
