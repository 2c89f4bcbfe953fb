//! When quiche gives up a path whose validation failed, and the peer goes on there, it has no path that it
//! thinks works: the next datagram but one closes the connection.

use std::time::Duration;

use crate::common::*;
use crate::harness::*;

#[test]
fn a_second_datagram_from_a_path_that_was_given_up_is_refused() {
    let fast = || {
        let mut config = config();
        config.set_initial_rtt(Duration::from_millis(1));
        config.set_max_ack_delay(0);
        config
    };
    let mut ends = Ends::established_with(&mut fast(), &mut fast());
    let id = quiche::ConnectionId::from_vec(vec![0xc2; CID_LEN]);
    ends.client.new_scid(&id, 1, false).unwrap();
    ends.exchange();
    ends.rebind();
    for datagram in ends.client_writes(2, b"x") {
        ends.deliver_to_server(datagram).unwrap();
    }
    let active = |ends: &Ends| {
        ends.server.path_stats().find(|path| path.active).map(|path| path.peer_addr)
    };
    assert_eq!(active(&ends), Some(ends.client_at));
    for _ in 0..20 {
        // The challenge is lost.
        sent(&mut ends.server);
        if active(&ends) == Some(client_address()) {
            break;
        }
        expire(&mut ends.server);
    }
    assert_eq!(active(&ends), Some(client_address()), "the path was given up");
    let datagrams: Vec<_> = (0..3).flat_map(|_| ends.client_writes(2, b"x")).collect();
    let results: Vec<_> = datagrams
        .into_iter()
        .map(|datagram| ends.deliver_to_server(datagram).is_ok())
        .collect();
    assert_needed(results.contains(&false), "no_usable_path.rs");
}
