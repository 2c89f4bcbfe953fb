//! quiche keeps streams that it was told to stop reading, and the peer may not open others in their place.

use crate::harness::*;

#[test]
fn a_stream_that_was_stopped_before_its_end_is_never_given_back() {
    let mut limited = config();
    limited.set_initial_max_streams_uni(2);
    let mut ends = Ends::established_with(&mut config(), &mut limited);
    for stream_id in [2, 6] {
        for datagram in ends.client_writes(stream_id, b"frame") {
            ends.deliver_to_server(datagram).unwrap();
        }
        ends.server.stream_shutdown(stream_id, quiche::Shutdown::Read, 7).unwrap();
        ends.exchange();
        let stopped = ends.client.stream_send(stream_id, b"more", false);
        assert!(stopped.is_err(), "{stopped:?}");
        ends.exchange();
    }
    assert_needed(ends.client.peer_streams_left_uni() == 0, "stopped_reads.rs");
}
