//! A server does not send more than three times what came from a client that has not proven that it
//! is where it says (RFC 9000 section 8.1).

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use quiche::RecvInfo;

#[test]
fn a_server_that_hears_nothing_more_probes_within_three_times_what_it_got() {
    let mut config = tack_config();
    // Probes follow each other as fast as they may.
    config.set_initial_rtt(Duration::from_millis(1));
    let mut server = tack_server(&mut config);
    let mut client = tack_client(&mut config);
    let mut datagram = [0; 1500];
    let mut received = 0;
    while let Ok((len, _)) = client.send(&mut datagram) {
        let info = RecvInfo { from: client_address(), to: server_address() };
        server.recv(&mut datagram[..len], info).unwrap();
        received += len;
    }
    let mut sent = 0;
    for _ in 0..10 {
        while let Ok((len, _)) = server.send(&mut datagram) {
            sent += len;
        }
        let Some(timeout) = server.timeout() else { break };
        advance(timeout.min(Duration::from_millis(200)));
        server.on_timeout();
    }
    assert!(sent > received, "{sent} bytes of probes after {received}");
    assert!(sent <= 3 * received, "{sent} bytes after {received}");
}
