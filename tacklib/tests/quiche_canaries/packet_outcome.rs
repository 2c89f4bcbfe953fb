//! quiche's `recv` returns the same for a packet that it accepts and one that it drops; only its counters
//! tell.

use std::time::Duration;

use crate::common::advance;
use crate::harness::*;

#[test]
fn a_damaged_packet_looks_accepted() {
    let mut ends = Ends::established();
    let mut packet = ends.client_writes(2, b"x").remove(0);
    *packet.last_mut().unwrap() ^= 1;
    let (len, before) = (packet.len(), ends.server.stats().recv);
    let result = ends.deliver_to_server(packet);
    assert_eq!(ends.server.stats().recv, before, "it was dropped");
    assert_needed(result == Ok(len), "quiche_counters.rs");
}

#[test]
fn a_timer_that_finds_packets_lost_counts_as_a_probe_timeout() {
    let mut ends = Ends::established();
    // The second of two packets is acknowledged, and the time threshold has not passed.
    for datagram in ends.client_writes(2, &[7; 2000]).into_iter().skip(1) {
        ends.deliver_to_server(datagram).unwrap();
    }
    advance(Duration::from_millis(1));
    for (datagram, _) in sent(&mut ends.server) {
        ends.deliver_to_client(datagram).unwrap();
    }
    let counts = |ends: &Ends| {
        let path = ends.client.path_stats().next().unwrap();
        (path.lost, path.total_pto_count)
    };
    let before = counts(&ends);
    expire(&mut ends.client);
    let (lost, probe_timeouts) = counts(&ends);
    assert_eq!(lost, before.0 + 1);
    assert_needed(
        probe_timeouts > before.1,
        "quiche_counters.rs (`QuicheDelta::probe_timeout`)",
    );
}
