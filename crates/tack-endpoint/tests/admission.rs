//! What a server answers before, instead of and after a connection.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::net::{SocketAddr, UdpSocket};

use common::{
    App, Certificate, Direction, PATIENCE, Relay, pattern, run_alone, run_until, run_with,
};
use tack_endpoint::{CloseReason, Endpoint, EndpointConfig, QuicLbConfig};

/// Sends a datagram to the server and returns its answer, if there is any once the server has
/// handled the datagram.
fn ask(server: &mut App, socket: &UdpSocket, datagram: &[u8]) -> Option<Vec<u8>> {
    let before = server.endpoint.stats();
    socket.send_to(datagram, server.local_addr()).unwrap();
    run_alone(server, |server| server.endpoint.stats().datagrams_in > before.datagrams_in);
    if server.endpoint.stats().datagrams_out == before.datagrams_out {
        return None;
    }
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 2048];
    let len = socket.recv(&mut answer).unwrap();
    Some(answer[..len].to_vec())
}

fn stranger() -> UdpSocket {
    UdpSocket::bind(SocketAddr::from(common::LOCALHOST)).unwrap()
}

fn server(config: EndpointConfig) -> App {
    App::server(&Certificate::new(), config, vec![])
}

/// A real client's first Initial.
fn first_initial(server: SocketAddr) -> Vec<u8> {
    let mut config = common::client_config();
    let local = SocketAddr::from(([127, 0, 0, 1], 9));
    let scid = quiche::ConnectionId::from_ref(&[5; 16]);
    let mut client = quiche::connect(None, &scid, local, server, &mut config).unwrap();
    let mut out = [0; 1500];
    let (len, _) = client.send(&mut out).unwrap();
    out[..len].to_vec()
}

#[test]
fn a_client_proves_its_address_before_anything_is_allocated() {
    let mut server = server(EndpointConfig::default());
    let initial = first_initial(server.local_addr());
    let mut answer = ask(&mut server, &stranger(), &initial).expect("a Retry");
    let header = quiche::Header::from_slice(&mut answer, 16).unwrap();
    assert_eq!(header.ty, quiche::Type::Retry);
    assert_eq!(server.endpoint.stats().retries_sent, 1);
    assert_eq!(server.endpoint.stats().accepted, 0);
    assert!(server.endpoint.is_idle());
}

#[test]
fn what_comes_beyond_the_limit_is_dropped_until_it_is_lifted() {
    const LIMIT: u64 = 20_000;
    let config = common::endpoint_config(|config| config.receive_limit = Some(LIMIT));
    let mut server = App::server(&Certificate::new(), config, pattern(10, 2));
    let address = server.local_addr();
    let mut client = App::client();
    let upload = pattern(100_000, 1);
    let handle = client.connect(address, upload.clone());
    run_until(&mut server, &mut client, |server, _| {
        server.endpoint.stats().dropped.receive_limit > 20
    });
    let accepted = server.only();
    let received = server.endpoint.connection(accepted).unwrap().stats().recv_bytes;
    assert!((LIMIT..LIMIT + 1500).contains(&received), "{received}");
    server.endpoint.lift_receive_limit(accepted);
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    server.exchanges[&accepted].assert_received(&upload);
}

#[test]
fn a_handshake_is_completed_whatever_the_limit() {
    // The first packet alone is beyond it.
    let config = common::endpoint_config(|config| config.receive_limit = Some(1000));
    let mut server = App::server(&Certificate::new(), config, pattern(10, 2));
    let address = server.local_addr();
    let mut client = App::client();
    let handle = client.connect(address, pattern(10_000, 1));
    run_until(&mut server, &mut client, |server, _| !server.connected.is_empty());
    let accepted = server.only();
    server.endpoint.lift_receive_limit(accepted);
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
}

/// What a load balancer without a key reads from IDs of six octets.
fn short_ids() -> QuicLbConfig {
    QuicLbConfig {
        config_id: 0,
        server_id: vec![1],
        nonce_len: 4,
        key: None,
        first_octet_encodes_cid_length: false,
    }
}

// RFC 9000 section 7.2
#[test]
fn a_client_connects_by_a_retry_that_names_an_id_of_six_octets() {
    let config = common::endpoint_config(|config| config.quic_lb = Some(short_ids()));
    let mut server = App::server(&Certificate::new(), config, vec![]);
    let mut client = App::client();
    let handle = client.connect(server.local_addr(), pattern(1000, 1));
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    assert!(server.endpoint.stats().retries_sent > 0);
}

/// The announcement has a version that is drawn anew whenever the parameters are read from the configuration, which
/// costs a handshake with itself.
#[test]
fn the_parameters_of_a_server_without_spare_ids_are_read_once_for_all_its_clients() {
    let config = common::endpoint_config(|config| config.quic_lb = Some(short_ids()));
    let mut server = App::server(&Certificate::new(), config, vec![]);
    let address = server.local_addr();
    let announced: Vec<_> = (0..6)
        .map(|n| {
            let mut client = App::client();
            let mut config = common::client_config();
            config.enable_track_unknown_transport_parameters(1000);
            let handle = client.connect_with(address, pattern(1000, n), &mut config);
            run_until(&mut server, &mut client, |_, client| client.is_done(handle));
            let connection = client.endpoint.connection(handle).unwrap();
            let parameters = connection.peer_transport_params().unwrap();
            assert!(parameters.disable_active_migration);
            parameters.unknown_params.clone().unwrap()
        })
        .collect();
    assert!(announced.windows(2).all(|both| both[0] == both[1]), "{announced:?}");
}

// RFC 9000 section 8.1
#[test]
fn clients_prove_their_addresses_first_only_while_many_are_in_their_handshake() {
    let config = common::endpoint_config(|config| config.half_open_without_retry = 2);
    let mut server = App::server(&Certificate::new(), config, vec![]);
    let address = server.local_addr();
    // They are through their handshake when the next one comes.
    for n in 0..3 {
        let mut client = App::client();
        let handle = client.connect(address, pattern(1000, n));
        run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    }
    assert_eq!(server.endpoint.stats().retries_sent, 0);
    // These never go on with theirs.
    for (accepted, retries) in [(4, 0), (5, 0), (5, 1), (5, 2)] {
        let before = server.endpoint.stats().datagrams_in;
        stranger().send_to(&first_initial(address), address).unwrap();
        run_alone(&mut server, |server| server.endpoint.stats().datagrams_in > before);
        let stats = server.endpoint.stats();
        assert_eq!((stats.accepted, stats.retries_sent), (accepted, retries));
    }
    let mut client = App::client();
    let handle = client.connect(address, pattern(1000, 3));
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    assert!(server.endpoint.stats().retries_sent > 2);
}

#[test]
fn handshakes_that_fail_at_once_take_the_places_without_retry_as_those_that_go_on_do() {
    let config = common::endpoint_config(|config| {
        config.half_open_without_retry = 2;
        config.handshake_timeout = std::time::Duration::from_secs(3600);
    });
    let mut server = server(config);
    let mut initial = first_initial(server.local_addr());
    let len = initial.len();
    initial[len - 1] ^= 1;
    for _ in 0..100 {
        ask(&mut server, &stranger(), &initial);
        server.turn(std::time::Duration::ZERO);
    }
    let stats = server.endpoint.stats();
    assert_eq!((stats.accepted, stats.handshakes_failed), (2, 2), "{stats:?}");
    assert_eq!(stats.retries_sent, 98);
    assert!(server.endpoint.is_idle());
}

#[test]
fn a_handshake_that_failed_makes_room_for_another_without_retry_after_its_timeout() {
    let timeout = std::time::Duration::from_millis(200);
    let mut server = server(common::endpoint_config(|config| {
        config.half_open_without_retry = 1;
        config.handshake_timeout = timeout;
    }));
    let mut initial = first_initial(server.local_addr());
    let len = initial.len();
    initial[len - 1] ^= 1;
    for accepted in 1..=2 {
        ask(&mut server, &stranger(), &initial);
        assert_eq!(server.endpoint.stats().accepted, accepted);
        std::thread::sleep(timeout);
    }
    assert_eq!(server.endpoint.stats().retries_sent, 0);
}

/// A packet with a short header to this id, as a stranger can make one.
fn short_packet(id: &[u8]) -> Vec<u8> {
    [&[0x41], id, &[0; 30]].concat()
}

// RFC 9000 section 21.11
#[test]
fn the_reset_that_a_stranger_gets_for_the_id_of_a_retry_ends_no_connection() {
    const TOKEN_LEN: usize = 16;
    let mut server = server(EndpointConfig::default());
    let mut client = App::client();
    let mut relay = Relay::new(server.local_addr());
    let handle = client.connect(relay.address(), pattern(1000, 1));
    let (prober, address) = (stranger(), server.local_addr());
    let mut is_probed = false;
    let mut probe_if_retry = |datagram: &[u8]| {
        let header = quiche::Header::from_slice(&mut datagram.to_vec(), 8).unwrap();
        // The client heeds the first one (RFC 9000 section 17.2.5.2).
        if header.ty == quiche::Type::Retry && !std::mem::replace(&mut is_probed, true) {
            // The server reads it before the client's next Initial.
            prober.send_to(&short_packet(&header.scid), address).unwrap();
        }
    };
    run_with(
        &mut server,
        &mut client,
        || {
            relay.turn(|_, datagram, _| {
                probe_if_retry(datagram);
                true
            });
        },
        |_, client| client.is_done(handle),
    );
    assert_eq!(server.endpoint.stats().resets_sent, 1);
    let mut reset = [0; 100];
    prober.set_read_timeout(Some(PATIENCE)).unwrap();
    let len = prober.recv(&mut reset).unwrap();
    let forged = [&[0x40; 26], &reset[len - TOKEN_LEN..len]].concat();

    // The client gets it from the address of its server, behind a packet of that.
    let accepted = server.only();
    server.endpoint.connection_mut(accepted).unwrap().send_ack_eliciting().unwrap();
    run_with(
        &mut server,
        &mut client,
        || {
            relay.turn(|direction, _, more| {
                if direction == Direction::ToClient {
                    more.push(forged.clone());
                }
                true
            });
        },
        |_, client| {
            let is_dropped = client.endpoint.stats().dropped.unknown_connection > 0;
            is_dropped || client.closed.contains_key(&handle)
        },
    );
    assert_eq!(client.closed.get(&handle), None);
}

#[test]
fn a_client_that_answers_a_retry_too_late_is_told_at_once() {
    let mut server = server(common::endpoint_config(|config| {
        config.retry_token_lifetime = std::time::Duration::ZERO;
    }));
    let mut client = App::client();
    let handle = client.connect(server.local_addr(), vec![]);
    run_until(&mut server, &mut client, |_, client| client.closed.contains_key(&handle));
    let reason = client.closed[&handle].to_string();
    assert!(reason.contains("code 0xb"), "{reason}");
    assert!(server.endpoint.stats().invalid_tokens > 0);
    assert_eq!(server.endpoint.stats().accepted, 0);
}

#[test]
fn a_version_we_do_not_speak_is_answered_with_those_we_do() {
    let mut server = server(EndpointConfig::default());
    let mut initial = first_initial(server.local_addr());
    initial[1..5].copy_from_slice(&0x1a2a_3a4a_u32.to_be_bytes());
    let mut answer = ask(&mut server, &stranger(), &initial).expect("a Version Negotiation");
    let header = quiche::Header::from_slice(&mut answer, 16).unwrap();
    assert_eq!(header.ty, quiche::Type::VersionNegotiation);
    assert!(header.versions.unwrap().contains(&quiche::PROTOCOL_VERSION));
    assert_eq!(server.endpoint.stats().version_negotiations_sent, 1);
}

#[test]
fn a_client_that_starts_with_another_version_connects_after_negotiation() {
    let mut server = server(EndpointConfig::default());
    let mut client = App::client();
    let mut config = tacklib::Config::new(0xbaba_baba).unwrap();
    common::set_parameters(&mut config);
    let to = server.local_addr();
    let handle = client.connect_with(to, pattern(1000, 1), &mut config);
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    assert!(server.endpoint.stats().version_negotiations_sent > 0);
}

#[test]
fn a_full_server_ignores_newcomers_and_takes_them_when_it_has_room() {
    let mut server = server(common::endpoint_config(|config| config.max_connections = 1));
    let mut client = App::client();
    let to = server.local_addr();
    let first = client.connect(to, pattern(1000, 1));
    run_until(&mut server, &mut client, |_, client| client.is_done(first));

    let second = client.connect(to, pattern(1000, 1));
    run_until(&mut server, &mut client, |server, _| {
        server.endpoint.stats().dropped.not_accepting > 0
    });
    assert!(!client.is_done(second));

    client.close(first);
    run_until(&mut server, &mut client, |_, client| client.is_done(second));
}

/// Begins a handshake from that address, after the server's Retry, and leaves it at that.
fn begin_handshake(server: &mut App, from: [u8; 4]) {
    let socket = UdpSocket::bind(SocketAddr::from((from, 0))).unwrap();
    let (local, to) = (socket.local_addr().unwrap(), server.local_addr());
    let mut config = common::client_config();
    let scid = quiche::ConnectionId::from_ref(&[5; 16]);
    let mut client = quiche::connect(None, &scid, local, to, &mut config).unwrap();
    let mut out = [0; 1500];
    let (len, _) = client.send(&mut out).unwrap();
    let mut retry = ask(server, &socket, &out[..len]).unwrap();
    client.recv(&mut retry, quiche::RecvInfo { from: to, to: local }).unwrap();
    let (len, _) = client.send(&mut out).unwrap();
    ask(server, &socket, &out[..len]);
}

#[test]
fn handshakes_that_one_network_begins_and_never_completes_keep_no_other_out() {
    let mut server = server(common::endpoint_config(|config| config.max_connections = 3));
    for _ in 0..5 {
        begin_handshake(&mut server, [127, 0, 0, 2]);
    }
    assert_eq!(server.endpoint.stats().accepted, 3);
    assert_eq!(server.endpoint.stats().dropped.not_accepting, 2);
    let mut client = App::client();
    let handle = client.connect(server.local_addr(), pattern(1000, 1));
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    assert_eq!(server.endpoint.stats().handshakes_failed, 1, "the oldest has given way");
}

#[test]
fn handshakes_begun_without_a_retry_keep_no_client_out_that_proves_another_address() {
    let mut server = server(common::endpoint_config(|config| {
        config.retry = false;
        config.max_connections = 2;
    }));
    let to = server.local_addr();
    for _ in 0..2 {
        stranger().send_to(&first_initial(to), to).unwrap();
    }
    run_alone(&mut server, |server| server.endpoint.stats().accepted == 2);
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], 0));
    let endpoint = Endpoint::client(elsewhere, EndpointConfig::default()).unwrap();
    let mut client = App::new(endpoint, None);
    let handle = client.connect(to, pattern(1000, 1));
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    let stats = server.endpoint.stats();
    assert!(stats.retries_sent > 0, "{stats:?}");
    assert_eq!(stats.handshakes_failed, 1, "the oldest has given way");
}

#[test]
fn short_garbage_gets_no_answer() {
    let mut server = server(EndpointConfig::default());
    let stranger = stranger();
    for datagram in [&[][..], &[0x40], &[0x40; 21], &[0xc0; 40], &[0xff; 1199]] {
        assert_eq!(ask(&mut server, &stranger, datagram), None, "{} bytes", datagram.len());
    }
    assert!(server.endpoint.is_idle());
}

#[test]
fn an_initial_that_does_not_decrypt_leaves_nothing_behind() {
    let mut server = server(common::endpoint_config(|config| config.retry = false));
    let mut initial = first_initial(server.local_addr());
    let len = initial.len();
    initial[len - 1] ^= 1;
    ask(&mut server, &stranger(), &initial);
    assert_eq!(server.endpoint.stats().accepted, 1);
    assert_eq!(server.endpoint.stats().handshakes_failed, 1);
    assert!(server.endpoint.is_idle());
    assert!(server.connected.is_empty() && server.closed.is_empty());
}

#[test]
fn a_client_whose_server_restarted_is_reset() {
    let certificate = Certificate::new();
    let config = common::endpoint_config(|config| config.reset_key = Some([7; 32]));
    let mut server = App::server(&certificate, config.clone(), vec![]);
    let mut client = App::client();
    let address = server.local_addr();
    let handle = client.connect(address, pattern(1000, 1));
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    // Nothing may be on its way that the client would still take as a sign of life.
    run_until(&mut server, &mut client, |server, client| {
        client.endpoint.stats().datagrams_in == server.endpoint.stats().datagrams_out
    });
    drop(server);

    let tack = common::server_config(&certificate);
    let endpoint = Endpoint::server(address, tack, config).unwrap();
    let mut server = App::new(endpoint, Some(vec![]));
    client.endpoint.connection_mut(handle).unwrap().send_ack_eliciting().unwrap();
    run_until(&mut server, &mut client, |_, client| client.closed.contains_key(&handle));
    assert_eq!(client.closed[&handle], CloseReason::Reset);
    assert!(server.endpoint.stats().resets_sent > 0);
}
