//! When quiche gives up a path whose validation failed, and the peer goes on there, it has no path that it
//! thinks works until it has sent a challenge: the next datagram but one before that closes the
//! connection. `on_timeout` before that makes two paths active. quiche adds up what their windows have room
//! for, which is `usize::MAX` where one of them probes: a panic where overflows are checked.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::*;
use crate::harness::*;

/// A server that went after its client, could not reach it there, and went back.
fn given_up() -> Ends {
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
    ends
}

fn active(ends: &Ends) -> Option<SocketAddr> {
    ends.server.path_stats().find(|path| path.active).map(|path| path.peer_addr)
}

#[test]
fn a_second_datagram_from_a_path_that_was_given_up_is_refused() {
    let mut ends = given_up();
    let datagrams: Vec<_> = (0..3).flat_map(|_| ends.client_writes(2, b"x")).collect();
    let results: Vec<_> = datagrams
        .into_iter()
        .map(|datagram| ends.deliver_to_server(datagram).is_ok())
        .collect();
    assert_needed(results.contains(&false), "no_usable_path.rs");
}

#[test]
fn a_timer_that_is_handled_before_the_new_challenge_leaves_makes_two_active_paths() {
    let mut ends = given_up();
    for datagram in ends.client_writes(2, b"x") {
        ends.deliver_to_server(datagram).unwrap();
    }
    assert_eq!(ends.server.send_quantum(), 0, "no path is usable");
    ends.server.on_timeout();
    sent(&mut ends.server);
    let count = ends.server.path_stats().filter(|path| path.active).count();
    assert_needed(count > 1, "no_usable_path.rs");
}
