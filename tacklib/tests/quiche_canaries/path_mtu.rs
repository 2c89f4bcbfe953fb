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
    probing_with(takes, |_| {})
}

/// The same, with settings of both ends.
fn probing_with(takes: usize, set: impl Fn(&mut quiche::Config)) -> Ends {
    let (mut client, mut server) = (config(), config());
    set(&mut client);
    set(&mut server);
    client.set_max_send_udp_payload_size(TRIED);
    client.discover_pmtu(true);
    let mut ends = Ends::new(&mut client, &mut server);
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

#[test]
fn a_datagram_that_fits_a_probe_only_holds_up_those_behind_it() {
    let mut ends = probing_with(SMALLEST, |config| config.enable_dgram(true, 10, 10));
    assert_eq!(validated(&ends), SMALLEST);
    let longest = ends.client.dgram_max_writable_len().unwrap();
    let is_taken = longest > SMALLEST && ends.client.dgram_send(&vec![7; longest]).is_ok();
    ends.client.dgram_send(b"behind it").unwrap();
    let _ = sent(&mut ends.client);
    let is_stuck = ends.client.dgram_send_queue_len() == 2;
    assert_needed(is_taken && is_stuck, "datagram_room.rs");
}
