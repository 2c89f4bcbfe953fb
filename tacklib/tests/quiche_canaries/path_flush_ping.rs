//! quiche looks for losses on each path below the largest number that was acknowledged there, although
//! there is one number space (RFC 9000 section 12.3): what is lost on a path that was left is never
//! repaired by acknowledgements.

use crate::harness::*;

const STREAM: u64 = 3;

#[test]
fn acknowledgements_on_a_new_path_do_not_show_losses_on_the_old_one() {
    let lost = |moves: bool| {
        let mut ends = Ends::established();
        for number in 1..3 {
            let id = quiche::ConnectionId::from_vec(vec![0xc1 + number; CID_LEN]);
            ends.client.new_scid(&id, 1, false).unwrap();
        }
        ends.exchange();
        ends.server.stream_send(STREAM, &[7; 3000], false).unwrap();
        assert!(!sent(&mut ends.server).is_empty(), "sent, and lost");
        if moves {
            ends.rebind();
        }
        for datagram in ends.client_writes(2, b"from where I am now") {
            ends.deliver_to_server(datagram).unwrap();
        }
        ends.exchange();
        for _ in 0..10 {
            ends.server.stream_send(STREAM, &[8; 100], false).unwrap();
            ends.exchange();
        }
        ends.server.stats().lost
    };
    assert!(lost(false) > 0, "where nothing moves they do");
    assert_needed(lost(true) == 0, "path_flush_ping.rs");
}
