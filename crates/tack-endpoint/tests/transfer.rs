//! Data between our client and our server, over sockets of every kind.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{App, Certificate, pattern, run_until};
use tack_endpoint::{CloseReason, Endpoint, EndpointConfig};

const MEBIBYTE: usize = 1 << 20;

/// Exchanges a mebibyte in each direction, then closes.
fn exchange(server: &mut App, client: &mut App, to: SocketAddr) {
    let (upload, download) = (pattern(MEBIBYTE, 1), pattern(MEBIBYTE, 2));
    let handle = client.connect(to, upload.clone());
    run_until(server, client, |_, client| client.is_done(handle));
    client.exchanges[&handle].assert_received(&download);
    let accepted = server.only();
    server.exchanges[&accepted].assert_received(&upload);

    client.close(handle);
    run_until(server, client, |server, client| {
        server.endpoint.is_idle() && client.endpoint.is_idle()
    });
    let (application, code, reason) = (true, 0, b"done".to_vec());
    let local = CloseReason::Local { application, code, reason: reason.clone() };
    assert_eq!(client.closed[&handle], local);
    assert_eq!(server.closed[&accepted], CloseReason::Peer { application, code, reason });
}

fn server(config: EndpointConfig) -> App {
    App::server(&Certificate::new(), config, pattern(MEBIBYTE, 2))
}

#[test]
fn a_mebibyte_arrives_in_both_directions() {
    let mut server = server(EndpointConfig::default());
    let to = server.local_addr();
    exchange(&mut server, &mut App::client(), to);
    assert_eq!(server.endpoint.stats().accepted, 1);
    assert_eq!(server.endpoint.stats().connection_errors, 0);
}

#[test]
fn a_mebibyte_arrives_without_retry_and_offloads() {
    let plain = common::endpoint_config(|config| {
        config.retry = false;
        config.gso = false;
        config.gro = false;
    });
    let mut server = server(plain.clone());
    let to = server.local_addr();
    let local = SocketAddr::from(common::LOCALHOST);
    let mut client = App::new(Endpoint::client(local, plain).unwrap(), None);
    exchange(&mut server, &mut client, to);
    assert_eq!(server.endpoint.stats().retries_sent, 0);
    assert_eq!(server.endpoint.stats().gso_segments_max, 1);
}

#[test]
fn a_mebibyte_arrives_between_wildcard_sockets() {
    let config = EndpointConfig::default;
    let tack = common::server_config(&Certificate::new());
    let wildcard = SocketAddr::from(([0, 0, 0, 0], 0));
    let endpoint = Endpoint::server(wildcard, tack, config()).unwrap();
    let to = SocketAddr::from(([127, 0, 0, 1], endpoint.local_addr().port()));
    let mut server = App::new(endpoint, Some(pattern(MEBIBYTE, 2)));
    let mut client = App::new(Endpoint::client(wildcard, config()).unwrap(), None);
    exchange(&mut server, &mut client, to);
}

#[test]
fn a_mebibyte_arrives_at_a_dual_stack_client_over_ipv4() {
    let wildcard: SocketAddr = "[::]:0".parse().unwrap();
    let Ok(endpoint) = Endpoint::client(wildcard, EndpointConfig::default()) else {
        return; // No IPv6 here.
    };
    let mut server = server(EndpointConfig::default());
    let to = server.local_addr();
    exchange(&mut server, &mut App::new(endpoint, None), to);
}

#[test]
fn a_mebibyte_arrives_over_ipv6() {
    let localhost: SocketAddr = "[::1]:0".parse().unwrap();
    let Ok(endpoint) = Endpoint::client(localhost, EndpointConfig::default()) else {
        return; // No IPv6 here.
    };
    let mut client = App::new(endpoint, None);
    let tack = common::server_config(&Certificate::new());
    let endpoint = Endpoint::server(localhost, tack, EndpointConfig::default()).unwrap();
    let mut server = App::new(endpoint, Some(pattern(MEBIBYTE, 2)));
    let to = server.local_addr();
    exchange(&mut server, &mut client, to);
}

#[test]
fn plain_quiche_with_paced_bbr_exchanges_a_mebibyte() {
    let off = |mut config: tacklib::Config| {
        config.set_profile(tacklib::Profile::Off);
        config.set_cc_algorithm(quiche::CongestionControlAlgorithm::Bbr2Gcongestion);
        config.enable_pacing(true);
        config.set_max_pacing_rate(4_000_000);
        config
    };
    let tack = off(common::server_config(&Certificate::new()));
    let (upload, download) = (pattern(MEBIBYTE, 1), pattern(MEBIBYTE, 2));
    let mut server = App::server_with(tack, EndpointConfig::default(), download.clone());
    let mut client = App::client();
    let to = server.local_addr();
    let handle = client.connect_with(to, upload.clone(), &mut off(common::client_config()));
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    client.exchanges[&handle].assert_received(&download);
    server.exchanges[&server.only()].assert_received(&upload);
}

#[test]
fn fifty_connections_share_a_socket() {
    let download = pattern(100_000, 2);
    let config = EndpointConfig::default();
    let mut server = App::server(&Certificate::new(), config, download.clone());
    let mut client = App::client();
    let to = server.local_addr();
    let uploads: Vec<_> = (0..50u64)
        .map(|n| {
            let data = pattern(50_000 + 1000 * n as usize, 100 + n);
            (client.connect(to, data.clone()), data)
        })
        .collect();
    run_until(&mut server, &mut client, |_, client| {
        uploads.iter().all(|(handle, _)| client.is_done(*handle))
    });
    for (handle, _) in &uploads {
        client.exchanges[handle].assert_received(&download);
    }
    // Which of the server's connections belongs to which client shows in the length.
    assert_eq!(server.exchanges.len(), 50);
    for (_, data) in &uploads {
        let mut same = server.exchanges.values().filter(|one| one.received() == data.len());
        same.next().unwrap().assert_received(data);
    }

    client.endpoint.shutdown(0, b"enough");
    run_until(&mut server, &mut client, |server, client| {
        server.endpoint.is_idle() && client.endpoint.is_idle()
    });
    assert_eq!((server.closed.len(), client.closed.len()), (50, 50));
}

#[test]
fn a_client_that_speaks_another_protocol_is_told() {
    let mut server = server(EndpointConfig::default());
    let mut client = App::client();
    let mut config = common::client_config();
    config.set_application_protos(&[b"something else"]).unwrap();
    let to = server.local_addr();
    let handle = client.connect_with(to, vec![], &mut config);
    run_until(&mut server, &mut client, |server, client| {
        server.endpoint.is_idle() && client.closed.contains_key(&handle)
    });
    let reason = client.closed[&handle].to_string();
    assert!(reason.contains("ALPN"), "{reason}");
    // The server's application never heard of it.
    assert!(server.connected.is_empty() && server.closed.is_empty());
    assert_eq!(server.endpoint.stats().handshakes_failed, 1);
}

#[test]
fn a_server_that_is_not_there_fails_the_handshake_in_time() {
    let silent = std::net::UdpSocket::bind(SocketAddr::from(common::LOCALHOST)).unwrap();
    let timeout = Duration::from_millis(50);
    let config = common::endpoint_config(|config| config.handshake_timeout = timeout);
    let local = SocketAddr::from(common::LOCALHOST);
    let mut client = App::new(Endpoint::client(local, config).unwrap(), None);
    let handle = client.connect(silent.local_addr().unwrap(), vec![]);
    for _ in 0..1000 {
        if client.endpoint.is_idle() {
            break;
        }
        client.turn(Duration::from_millis(100));
    }
    assert!(matches!(client.closed[&handle], CloseReason::HandshakeFailed(_)));
    // Gone with the next poll.
    client.turn(Duration::ZERO);
    assert!(client.endpoint.connection(handle).is_none());
}

#[test]
fn an_idle_connection_times_out_on_both_sides() {
    let mut tack = common::server_config(&Certificate::new());
    tack.set_max_idle_timeout(200);
    let mut server = App::server_with(tack, EndpointConfig::default(), vec![]);
    let mut client = App::client();
    let to = server.local_addr();
    let handle = client.connect(to, b"hello".to_vec());
    run_until(&mut server, &mut client, |server, client| {
        server.endpoint.is_idle() && client.endpoint.is_idle()
    });
    assert_eq!(client.closed[&handle], CloseReason::IdleTimeout);
    assert_eq!(server.closed[&server.only()], CloseReason::IdleTimeout);
}

/// Lets an endpoint run alone until it is idle; fails if its polls return without need.
fn sleeps_until_idle(app: &mut App) {
    let mut turns = 0;
    while !app.endpoint.is_idle() {
        app.turn(common::PATIENCE);
        turns += 1;
        assert!(turns < 100, "the endpoint spins: {:?}", app.endpoint.stats());
    }
}

#[test]
fn a_closed_connection_with_plain_quic_drains_without_spinning() {
    let mut server = server(EndpointConfig::default());
    let mut client = App::client();
    let to = server.local_addr();
    let mut plain = common::client_config();
    plain.set_profile(tacklib::Profile::Off);
    let handle = client.connect_with(to, b"hello".to_vec(), &mut plain);
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    client.close(handle);
    sleeps_until_idle(&mut client);
    sleeps_until_idle(&mut server);
}

#[test]
fn a_server_that_may_send_no_more_to_an_unvalidated_address_does_not_spin() {
    let timeout = Duration::from_millis(500);
    let mut server = server(common::endpoint_config(|config| {
        config.retry = false;
        config.handshake_timeout = timeout;
    }));
    let mut client = App::client();
    client.connect(server.local_addr(), vec![]);
    run_until(&mut server, &mut client, |server, _| server.endpoint.stats().accepted > 0);
    // The client says nothing more.
    sleeps_until_idle(&mut server);
    assert_eq!(server.endpoint.stats().handshakes_failed, 1);
}

#[test]
fn an_endpoint_with_nothing_to_do_sleeps() {
    let mut tack = common::server_config(&Certificate::new());
    tack.set_max_idle_timeout(500);
    let mut server = App::server_with(tack, EndpointConfig::default(), vec![]);
    let mut client = App::client();
    let to = server.local_addr();
    let handle = client.connect(to, b"hello".to_vec());
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));

    // The server is silent from here: what wakes the client is its own timers.
    sleeps_until_idle(&mut client);
}
