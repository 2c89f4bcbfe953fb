//! A stream whose lost data was acknowledged after all holds up the others.

use crate::harness::*;

const LEN: usize = 3000;

#[test]
fn an_acknowledged_stream_that_was_to_be_sent_again_holds_up_the_others() {
    let mut ends = Ends::established();
    ends.client.stream_priority(0, 0, false).unwrap();
    let late = ends.client_writes(0, &[1; LEN]);
    expire(&mut ends.client);
    // Not all that is to be sent again leaves before the acknowledgement comes.
    ends.client.send(&mut [0; 1100]).unwrap();
    for datagram in late {
        ends.deliver_to_server(datagram).unwrap();
    }
    for (datagram, _) in sent(&mut ends.server) {
        ends.deliver_to_client(datagram).unwrap();
    }
    let others = ends.client_writes(4, &[2; LEN]);
    assert_needed(others.iter().map(Vec::len).sum::<usize>() < LEN, "stale_streams.rs");
}
