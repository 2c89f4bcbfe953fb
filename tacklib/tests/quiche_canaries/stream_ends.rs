//! quiche takes a stream for delivered once its data is acknowledged, whether or not its end is
//! (cloudflare/quiche#2525).

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
