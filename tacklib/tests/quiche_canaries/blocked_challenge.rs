//! While a server has a challenge for an address that it may send nothing more, quiche sends nothing anywhere.

use crate::common::*;
use crate::harness::*;

const STREAM: u64 = 3;

#[test]
fn a_challenge_that_there_is_no_room_for_holds_up_the_path_in_use() {
    let mut ends = Ends::established();
    let id = quiche::ConnectionId::from_vec(vec![0xc2; CID_LEN]);
    ends.client.new_scid(&id, 1, false).unwrap();
    ends.exchange();
    let before = ends.client_at;
    ends.rebind();
    let away = ends.client_at;
    for datagram in ends.client_writes(2, b"x") {
        ends.deliver_to_server(datagram).unwrap();
    }
    // All that may be sent there.
    ends.server.stream_send(STREAM, &[7; 3000], false).unwrap();
    assert!(!sent(&mut ends.server).is_empty());
    ends.client_at = before;
    for datagram in ends.client_writes(2, b"back again") {
        ends.deliver_to_server(datagram).unwrap();
    }
    sent(&mut ends.server);
    ends.server.stream_send(STREAM, &[8; 3000], false).unwrap();
    ends.server.probe_path(server_address(), away).unwrap();
    let blocked = sent(&mut ends.server).is_empty();
    let mut out = [0; 1500];
    let path = (Some(server_address()), Some(before));
    assert!(ends.server.send_on_path(&mut out, path.0, path.1).is_ok(), "it has data to send");
    assert_needed(blocked, "blocked_challenge.rs");
}
