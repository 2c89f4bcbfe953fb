//! What a host answers whose port is closed.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use common::{Certificate, PATIENCE, client_config, endpoint_config, server_config};
use tack_endpoint::{Endpoint, EndpointStats, Event};

const STEP: Duration = Duration::from_millis(5);

/// A closed port of this host: others get ports that the system chooses.
fn free_port(ip: IpAddr) -> SocketAddr {
    UdpSocket::bind((ip, 0)).unwrap().local_addr().unwrap()
}

/// The counters of a client that connects to a closed port, once something is counted or after a second
/// attempt to send.
fn connect_to_closed_port(local: IpAddr, server: IpAddr, counts: bool) -> EndpointStats {
    let config = endpoint_config(|config| config.count_refusals = counts);
    let mut client = Endpoint::client(SocketAddr::new(local, 0), config).unwrap();
    client.connect(free_port(server), None, &mut client_config()).unwrap();
    let start = Instant::now();
    loop {
        client.poll(Some(STEP)).unwrap();
        let stats = client.stats();
        if stats.refusals >= 2 || (!counts && stats.datagrams_out >= 2) {
            return stats;
        }
        assert!(start.elapsed() < PATIENCE, "{stats:?}");
    }
}

#[test]
fn refusals_are_counted_if_they_are_asked_for_and_are_no_failures() {
    let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
    let any = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let mapped = IpAddr::from(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    for (local, server) in [(v4, v4), (v6, v6), (any, v6), (any, mapped)] {
        let stats = connect_to_closed_port(local, server, true);
        assert_eq!((stats.recv_calls_failed, stats.dropped.send_failed), (0, 0), "{stats:?}");
        assert_eq!(connect_to_closed_port(local, server, false).refusals, 0);
    }
}

#[test]
fn what_comes_once_there_was_an_answer_is_not_counted() {
    let certificate = Certificate::new();
    let mut server = Endpoint::server(
        SocketAddr::from(([127, 0, 0, 1], 0)),
        server_config(&certificate),
        endpoint_config(|config| config.retry = false),
    )
    .unwrap();
    let config = endpoint_config(|config| config.count_refusals = true);
    let mut client = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)), config).unwrap();
    let address = server.local_addr();
    let handle = client.connect(address, Some("localhost"), &mut client_config()).unwrap();
    let start = Instant::now();
    let mut is_connected = false;
    while !is_connected {
        assert!(start.elapsed() < PATIENCE);
        client.poll(Some(STEP)).unwrap();
        server.poll(Some(STEP)).unwrap();
        while server.next_event().is_some() {}
        while let Some(event) = client.next_event() {
            is_connected |= matches!(event, Event::Connected(_));
        }
    }
    drop(server);
    for _ in 0..20 {
        client.connection_mut(handle).unwrap().send_ack_eliciting().unwrap();
        client.poll(Some(STEP)).unwrap();
    }
    assert_eq!(client.stats().refusals, 0);
    // Nor does a socket that has heard of one fail for it: it has not asked.
    assert_eq!(client.stats().recv_calls_failed, 0);
}
