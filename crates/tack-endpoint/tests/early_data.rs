//! Requests in 0-RTT (RFC 9001 section 4.6).

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::{Certificate, LOCALHOST, PATIENCE, client_config, endpoint_config, server_config};
use tack_endpoint::{Endpoint, EndpointConfig, Event, Handle};

const STEP: Duration = Duration::from_millis(1);
const REQUEST: &[u8] = b"a request of a few words";
const ANSWER: &[u8] = b"an answer";

/// What a server has read of a connection's request, and how it came.
#[derive(Default)]
struct Request {
    data: Vec<u8>,
    /// All of it was there before the client had proved that it takes part in the handshake.
    is_early: bool,
}

/// Answers on stream 0 when it has all of the request.
struct Server {
    endpoints: Vec<Endpoint>,
    requests: HashMap<(usize, Handle), Request>,
    /// How connections have ended.
    ends: Vec<String>,
}

impl Server {
    /// As many workers as there are ticket keys.
    fn new(certificate: &Certificate, ticket_keys: &[u8], retry: bool) -> Self {
        let config = endpoint_config(|config| config.retry = retry);
        Self::with_config(certificate, ticket_keys, &config)
    }

    fn with_config(
        certificate: &Certificate,
        ticket_keys: &[u8],
        config: &EndpointConfig,
    ) -> Self {
        let configs = ticket_keys.iter().map(|key| {
            let mut config = server_config(certificate);
            config.enable_early_data();
            config.set_ticket_key(&[*key; 48]).unwrap();
            config
        });
        let endpoints = Endpoint::workers(LOCALHOST.into(), configs.collect(), config).unwrap();
        Self { endpoints, requests: HashMap::new(), ends: Vec::new() }
    }

    fn address(&self) -> SocketAddr {
        self.endpoints[0].local_addr()
    }

    fn turn(&mut self) {
        for (worker, endpoint) in self.endpoints.iter_mut().enumerate() {
            endpoint.poll(Some(STEP)).unwrap();
            while let Some(event) = endpoint.next_event() {
                let handle = match event {
                    Event::Activity(handle) | Event::Connected(handle) => handle,
                    Event::Closed(_, reason) => {
                        self.ends.push(reason.to_string());
                        continue;
                    }
                    _ => continue,
                };
                let Some(connection) = endpoint.connection_mut(handle) else { continue };
                let mut buffer = [0; 1024];
                while let Ok((len, fin)) = connection.stream_recv(0, &mut buffer) {
                    let request = self.requests.entry((worker, handle)).or_default();
                    request.data.extend_from_slice(&buffer[..len]);
                    if fin {
                        request.is_early = !connection.is_established();
                        connection.stream_send(0, ANSWER, true).unwrap();
                    }
                }
            }
        }
    }
}

/// Sends a request, early if there is a session; returns the session that the connection leaves.
fn ask(server: &mut Server, session: Option<&[u8]>) -> Vec<u8> {
    ask_from(LOCALHOST.into(), server, session)
}

fn ask_from(local: SocketAddr, server: &mut Server, session: Option<&[u8]>) -> Vec<u8> {
    let mut client = Endpoint::client(local, EndpointConfig::default()).unwrap();
    let mut config = client_config();
    config.enable_early_data();
    let handle = client.connect(server.address(), Some("localhost"), &mut config).unwrap();
    if let Some(session) = session {
        client.connection_mut(handle).unwrap().set_session(session).unwrap();
    }
    let (start, mut is_sent, mut answer, mut is_answered) =
        (Instant::now(), false, Vec::new(), false);
    loop {
        assert!(start.elapsed() < PATIENCE, "the test hangs");
        client.poll(Some(STEP)).unwrap();
        while let Some(event) = client.next_event() {
            assert!(!matches!(event, Event::Closed(..)), "{event:?}");
        }
        let connection = client.connection_mut(handle).unwrap();
        if !is_sent && (connection.is_established() || connection.is_in_early_data()) {
            assert_eq!(connection.is_in_early_data(), session.is_some());
            is_sent = connection.stream_send(0, REQUEST, true).is_ok();
        }
        let mut buffer = [0; 1024];
        while let Ok((len, fin)) = connection.stream_recv(0, &mut buffer) {
            answer.extend_from_slice(&buffer[..len]);
            is_answered |= fin;
        }
        let session = connection.session().map(<[u8]>::to_vec);
        if let (true, Some(session)) = (is_answered, session) {
            assert_eq!(answer, ANSWER);
            return session;
        }
        server.turn();
    }
}

/// A client that sends an early request and does not go on with its handshake.
fn ask_and_stop(server: &mut Server, session: &[u8]) -> Endpoint {
    let mut client = Endpoint::client(LOCALHOST.into(), EndpointConfig::default()).unwrap();
    let mut config = client_config();
    config.enable_early_data();
    let handle = client.connect(server.address(), Some("localhost"), &mut config).unwrap();
    client.connection_mut(handle).unwrap().set_session(session).unwrap();
    let before = server.requests.len();
    // The first packet, then the request.
    client.poll(Some(Duration::ZERO)).unwrap();
    client.connection_mut(handle).unwrap().stream_send(0, REQUEST, true).unwrap();
    client.poll(Some(Duration::ZERO)).unwrap();
    let start = Instant::now();
    while server.requests.len() == before {
        assert!(start.elapsed() < PATIENCE, "the test hangs");
        server.turn();
    }
    client
}

/// The requests that came, in no order.
fn early(server: &Server) -> Vec<bool> {
    server
        .requests
        .values()
        .inspect(|request| assert_eq!(request.data, REQUEST))
        .map(|r| r.is_early)
        .collect()
}

#[test]
fn a_request_in_0rtt_is_answered_before_the_handshake_is_done() {
    let mut server = Server::new(&Certificate::new(), &[1], false);
    let session = ask(&mut server, None);
    assert_eq!(early(&server), [false]);
    server.requests.clear();
    ask(&mut server, Some(&session));
    assert_eq!(early(&server), [true]);
}

/// quiche (0.30) does not repeat the packets after a Retry, as RFC 9000 section 17.2.5.3 wants, but when it
/// takes them for lost.
#[test]
fn a_request_in_0rtt_that_a_retry_answers_arrives_once_the_handshake_is_done() {
    let mut server = Server::new(&Certificate::new(), &[1], true);
    let session = ask(&mut server, None);
    server.requests.clear();
    ask(&mut server, Some(&session));
    assert_eq!(early(&server), [false]);
    let stats = server.endpoints[0].stats();
    assert!(stats.retries_sent >= 2 && stats.accepted == 2, "{stats:?}");
}

#[test]
fn a_request_in_0rtt_that_is_refused_arrives_all_the_same() {
    let certificate = Certificate::new();
    let session = ask(&mut Server::new(&certificate, &[1], false), None);
    let mut other = Server::new(&certificate, &[2], false);
    ask(&mut other, Some(&session));
    assert_eq!(early(&other), [false]);
}

#[test]
#[cfg(target_os = "linux")]
fn workers_with_one_ticket_key_take_each_others_sessions() {
    let mut server = Server::new(&Certificate::new(), &[1, 1], false);
    let session = ask(&mut server, None);
    server.requests.clear();
    for _ in 0..12 {
        ask(&mut server, Some(&session));
    }
    assert_eq!(early(&server), [true; 12]);
    let workers = |worker| server.requests.keys().filter(|key| key.0 == worker).count();
    assert!(workers(0) > 0 && workers(1) > 0, "twelve ports of one worker");
}

#[test]
#[cfg(target_os = "linux")]
fn clients_that_stop_after_early_data_give_way_to_one_of_another_network() {
    let certificate = Certificate::new();
    let session = ask(&mut Server::new(&certificate, &[1], false), None);
    let config = endpoint_config(|config| {
        config.half_open_without_retry = 3;
        config.max_connections = 3;
        config.handshake_timeout = Duration::from_secs(3600);
    });
    let mut server = Server::with_config(&certificate, &[1], &config);
    let _silent: Vec<Endpoint> = (0..3).map(|_| ask_and_stop(&mut server, &session)).collect();
    assert_eq!(early(&server), [true; 3]);
    server.requests.clear();
    ask_from(SocketAddr::from(([127, 0, 0, 2], 0)), &mut server, None);
    assert_eq!(early(&server), [false]);
    assert_eq!(server.ends.len(), 1, "the application hears of it");
    assert!(server.ends[0].contains("could not connect"), "{:?}", server.ends);
}
