//! quiche does not expand a datagram with PATH_RESPONSE to 1,200 bytes (RFC 9000 section 8.2.2).

use tack_proto::frame::Frame;

use crate::harness::*;

#[test]
fn the_answer_to_a_challenge_is_short() {
    let mut ends = Ends::established();
    let (mut keys, _) = ends.keys();
    let id = quiche::ConnectionId::from_vec(vec![0xc2; CID_LEN]);
    ends.client.new_scid(&id, 1, false).unwrap();
    ends.exchange();
    ends.rebind();
    let mut longest = None;
    for round in 0..4 {
        if round == 0 {
            ends.client.stream_send(2, b"from where I am now", false).unwrap();
        }
        for (datagram, _) in sent(&mut ends.client) {
            if keys.finds(&datagram, |frame| matches!(frame, Frame::PathResponse(_))) {
                longest = longest.max(Some(datagram.len()));
            }
            ends.deliver_to_server(datagram).unwrap();
        }
        for (datagram, _) in sent(&mut ends.server) {
            ends.deliver_to_client(datagram).unwrap();
        }
    }
    assert_needed(longest.unwrap() < 1200, "path_response_padding.rs");
}
