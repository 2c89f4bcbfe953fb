//! quiche tells the size of a probe for the path MTU as the one that may be sent, and goes on to send packets of a
//! size that the path does not take any more.

use std::time::{Duration, Instant};

use crate::common::advance_to;
use crate::harness::*;

/// The largest packet that is tried, and what every path takes, bytes.
const TRIED: usize = 1472;
const SMALLEST: usize = 1200;

/// A client that has probed, on a path that takes datagrams of up to `takes` bytes.
fn probing(takes: usize) -> Ends {
    let mut client = config();
    client.set_max_send_udp_payload_size(TRIED);
    client.discover_pmtu(true);
    let mut ends = Ends::new(&mut client, &mut config());
    loop {
        let (up, down) = (sent(&mut ends.client), sent(&mut ends.server));
        if up.is_empty() && down.is_empty() {
            return ends;
        }
        for (datagram, _) in up.into_iter().filter(|(datagram, _)| datagram.len() <= takes) {
            ends.deliver_to_server(datagram).unwrap();
        }
        for (datagram, _) in down {
            ends.deliver_to_client(datagram).unwrap();
        }
    }
}

fn validated(ends: &Ends) -> usize {
    ends.client.path_stats().find(|path| path.active).unwrap().pmtu
}

#[test]
fn the_size_of_a_probe_is_told_for_what_may_be_sent() {
    let ends = probing(SMALLEST);
    assert_eq!(validated(&ends), SMALLEST);
    assert_needed(ends.client.max_send_udp_payload_size() > SMALLEST, "path_mtu.rs");
}

#[test]
fn packets_that_are_too_long_all_of_a_sudden_are_repeated_as_they_were() {
    let mut ends = probing(TRIED);
    assert_eq!(validated(&ends), TRIED);
    ends.client.stream_send(2, &vec![1; 100_000], true).unwrap();
    let mut fit_after_timeouts = 0;
    for timeouts in 0..8 {
        for (datagram, _) in sent(&mut ends.client) {
            fit_after_timeouts += usize::from(timeouts > 3 && datagram.len() <= SMALLEST);
        }
        let at = ends.client.timeout_instant().unwrap();
        advance_to(at.min(Instant::now() + Duration::from_secs(1)));
        ends.client.on_timeout();
    }
    assert_eq!(validated(&ends), TRIED);
    // The last packet of the data may be short.
    assert_needed(fit_after_timeouts <= 8, "path_mtu.rs");
}
