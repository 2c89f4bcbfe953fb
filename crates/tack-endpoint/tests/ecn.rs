//! Packets are marked on the wire, and what the system tells of marks reaches the peer.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::net::SocketAddr;

use common::{App, Certificate, pattern, run_until};
use tack_endpoint::{Ecn, Endpoint};
use tacklib::{EcnState, TackStats};

const LEN: usize = 4 << 20;

/// Both ends' statistics after four mebibytes each way.
fn exchanged(host: &str, ecn: Ecn, offloads: bool) -> Option<[TackStats; 2]> {
    let config = common::endpoint_config(|config| {
        config.ecn = ecn;
        config.gso = offloads;
        config.gro = offloads;
    });
    let local: SocketAddr = host.parse().unwrap();
    let endpoint = Endpoint::client(local, config.clone()).ok()?;
    let mut client = App::new(endpoint, None);
    let tack = common::server_config(&Certificate::new());
    let endpoint = Endpoint::server(local, tack, config).unwrap();
    let mut server = App::new(endpoint, Some(pattern(LEN, 2)));
    let handle = client.connect(server.local_addr(), pattern(LEN, 1));
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    let accepted = server.only();
    let stats = |app: &mut App, handle| app.endpoint.connection(handle).unwrap().tack_stats();
    Some([stats(&mut client, handle), stats(&mut server, accepted)])
}

#[test]
fn the_loopback_carries_marks_both_ways_over_both_ip_versions() {
    for host in ["127.0.0.1:0", "[::1]:0"] {
        for (ecn, offloads) in [(Ecn::Classic, true), (Ecn::L4s, false)] {
            let Some([client, server]) = exchanged(host, ecn, offloads) else { continue };
            for (from, to) in [(client, server), (server, client)] {
                assert_eq!(from.ecn, EcnState::Capable, "{host} {ecn:?} {offloads}: {from:?}");
                let received = to.ecn_ect0_received + to.ecn_ect1_received;
                // The last packets may still be on their way.
                assert!(received > 2000 && received <= from.ecn_marked, "{from:?} {to:?}");
                assert_eq!((to.ecn_ect0_received > 0, to.ecn_ce_received), (offloads, 0));
            }
        }
    }
}

#[test]
fn an_endpoint_marks_nothing_by_default() {
    let [client, server] = exchanged("127.0.0.1:0", Ecn::default(), true).unwrap();
    for stats in [client, server] {
        assert_eq!((stats.ecn, stats.ecn_marked), (EcnState::Off, 0));
        assert_eq!((stats.ecn_ect0_received, stats.ecn_ect1_received), (0, 0));
    }
}
