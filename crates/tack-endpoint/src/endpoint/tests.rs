//! The endpoint on sockets whose system calls fail, or that deliver what was forged.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tacklib::EcnCodepoint;

use super::{Endpoint, PolledSocket};
use crate::receive_buffers::ReceiveBuffers;
use crate::send_queue::Burst;
use crate::socket::{DatagramSocket, UdpSocket};
use crate::{EndpointConfig, EndpointStats, Error};

#[path = "../../tests/common/mod.rs"]
mod common;

use common::{App, Certificate, XorShift, pattern, run_until, server_config};

/// The largest error number of Linux.
const MAX_ERRNO: u64 = 133;

/// A socket of the system, some of whose calls fail or are answered before they reach it.
struct FailingSocket {
    socket: UdpSocket<mio::net::UdpSocket>,
    /// Received before anything that has really come.
    forged: Forged,
    random: XorShift,
    receive_calls: u64,
    on_receive: Fault,
    send_calls: u64,
    on_send: Fault,
}

/// Datagrams with the addresses that they came from and to.
type Forged = Arc<Mutex<VecDeque<(Vec<u8>, SocketAddr, SocketAddr)>>>;

/// The error number of each call that is to fail, by how many calls of its kind came before it.
type Fault = fn(u64, &mut XorShift) -> Option<i32>;

fn never(_: u64, _: &mut XorShift) -> Option<i32> {
    None
}

impl DatagramSocket for FailingSocket {
    fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    fn max_segments(&self) -> usize {
        self.socket.max_segments()
    }

    fn send(&mut self, burst: &Burst<'_>) -> io::Result<()> {
        let call = self.send_calls;
        self.send_calls += 1;
        match (self.on_send)(call, &mut self.random) {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => self.socket.send(burst),
        }
    }

    fn receive(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        let mut forged = 0;
        while forged < buffers.len()
            && let Some((datagram, from, to)) = self.forged.lock().unwrap().pop_front()
        {
            assert!(buffers.put(forged, &datagram, (from, to), EcnCodepoint::NotEct));
            forged += 1;
        }
        if forged > 0 {
            return Ok(forged);
        }
        let call = self.receive_calls;
        self.receive_calls += 1;
        match (self.on_receive)(call, &mut self.random) {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => self.socket.receive(buffers),
        }
    }
}

impl PolledSocket for FailingSocket {
    fn source(&mut self) -> &mut mio::net::UdpSocket {
        self.socket.source()
    }
}

fn endpoint(
    seed: u64,
    on_receive: Fault,
    on_send: Fault,
    tack: Option<tacklib::Config>,
) -> Endpoint {
    let socket = failing_socket(common::LOCALHOST.into(), seed, on_receive, on_send);
    Endpoint::with_socket(Box::new(socket), tack, EndpointConfig::default()).unwrap()
}

fn failing_socket(
    address: SocketAddr,
    seed: u64,
    on_receive: Fault,
    on_send: Fault,
) -> FailingSocket {
    let socket = UdpSocket::bind(address, &EndpointConfig::default(), |socket| {
        Ok(mio::net::UdpSocket::from_std(socket))
    })
    .unwrap();
    FailingSocket {
        socket,
        forged: Forged::default(),
        random: XorShift(seed),
        receive_calls: 0,
        on_receive,
        send_calls: 0,
        on_send,
    }
}

/// Exchanges `len` bytes in each direction between endpoints whose calls fail.
fn exchange(seed: u64, len: usize, on_receive: Fault, on_send: Fault) -> [App; 2] {
    let (upload, download) = (pattern(len, 1), pattern(len, 2));
    let tack = server_config(&Certificate::new());
    let server = endpoint(seed, on_receive, on_send, Some(tack));
    let mut server = App::new(server, Some(download.clone()));
    let mut client = App::new(endpoint(!seed, on_receive, on_send, None), None);
    let to = server.local_addr();
    let handle = client.connect(to, upload.clone());
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    client.exchanges[&handle].assert_received(&download);
    server.exchanges[&server.only()].assert_received(&upload);
    client.close(handle);
    run_until(&mut server, &mut client, |server, client| {
        server.endpoint.is_idle() && client.endpoint.is_idle()
    });
    [server, client]
}

#[test]
fn no_error_of_one_receive_call_in_eleven_ends_an_exchange() {
    for seed in 1..=4 {
        // The first call fails, too: how many there are depends on how much arrives between two.
        let any = |call, random: &mut XorShift| {
            (call == 0 || random.below(11) == 0).then(|| 1 + (random.next() % MAX_ERRNO) as i32)
        };
        for app in exchange(seed, 1 << 18, any, never) {
            assert!(app.endpoint.stats().recv_calls_failed > 0);
        }
    }
}

#[test]
fn receive_calls_that_find_nothing_though_datagrams_wait_do_not_stop_an_exchange() {
    let mostly_empty =
        |_, random: &mut XorShift| (random.below(2) == 0).then_some(libc::EAGAIN);
    exchange(5, 1 << 18, mostly_empty, never);
}

#[test]
fn errors_of_send_calls_do_not_end_an_exchange() {
    for seed in 1..=4 {
        let failing = |_, random: &mut XorShift| {
            let codes = [
                libc::EAGAIN,
                libc::ENOBUFS,
                libc::ENOMEM,
                libc::EPERM,
                libc::EIO,
                libc::EMSGSIZE,
                libc::ENETDOWN,
                libc::EHOSTUNREACH,
            ];
            (random.below(30) == 0).then(|| codes[random.below(codes.len())])
        };
        exchange(seed, 1 << 18, never, failing);
    }
}

#[test]
fn a_socket_that_seems_full_is_tried_again_without_an_event() {
    let mostly_full = |_, random: &mut XorShift| (random.below(2) == 0).then_some(libc::EAGAIN);
    let apps = exchange(6, 1 << 18, never, mostly_full);
    assert!(apps.iter().all(|app| app.endpoint.stats().send_blocked > 0));
}

#[test]
fn receiving_that_fails_for_ten_seconds_is_an_error_that_says_so() {
    let mut endpoint = endpoint(1, |_, _| Some(libc::ENETDOWN), never, None);
    let start = Instant::now();
    let mut now = start;
    let error = loop {
        assert!(now - start < Duration::from_secs(60), "the failure is not reported");
        match endpoint.core.receive(now) {
            Ok(()) => now += Duration::from_millis(10),
            Err(error) => break error,
        }
    };
    let Error::Receive { source, calls, duration } = &error else { panic!("{error}") };
    assert_eq!(source.raw_os_error(), Some(libc::ENETDOWN));
    assert!(*calls >= 20, "{calls} calls");
    assert!((10..12).contains(&duration.as_secs()), "{duration:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("failed {calls} times in a row for 10")), "{text}");
}

/// Without a limit the endpoint would call as fast as it can.
#[test]
fn receiving_that_fails_is_not_tried_more_than_a_hundred_times_in_a_second() {
    let mut endpoint = endpoint(1, |_, _| Some(libc::ENOMEM), never, None);
    let start = Instant::now();
    for turn in 0..100_000 {
        endpoint.core.receive(start + turn * Duration::from_micros(10)).unwrap();
    }
    let calls = endpoint.stats().recv_calls;
    assert!((10..100).contains(&calls), "{calls} calls");
}

/// What a server on all addresses has counted that has got these datagrams.
fn stats_after(
    forged: impl Iterator<Item = (Vec<u8>, SocketAddr, SocketAddr)>,
    config: EndpointConfig,
) -> EndpointStats {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let socket = failing_socket(any, 1, never, never);
    socket.forged.lock().unwrap().extend(forged);
    let tack = server_config(&Certificate::new());
    let mut endpoint = Endpoint::with_socket(Box::new(socket), Some(tack), config).unwrap();
    let now = Instant::now();
    endpoint.core.receive(now).unwrap();
    endpoint.core.transmit(now);
    endpoint.stats()
}

/// What begins like a client's first Initial, in a datagram of 1,200 bytes, and what begins like a packet of a
/// connection, in one of 40.
fn answered_packets() -> [Vec<u8>; 2] {
    const LEN_OF_IDS: u8 = 8;
    let mut initial = vec![0xc0, 0, 0, 0, 1, LEN_OF_IDS];
    initial.extend([0xd1; LEN_OF_IDS as usize]);
    initial.push(LEN_OF_IDS);
    initial.extend([0xc1; LEN_OF_IDS as usize]);
    initial.resize(1200, 0);
    [initial, vec![0x41; 40]]
}

#[test]
fn what_comes_from_port_0_or_from_or_to_several_hosts_is_dropped_and_never_answered() {
    let parse = |address: &str| address.parse::<SocketAddr>().unwrap();
    let (client, server) = ("127.0.0.1:50000", "127.0.0.1:4433");
    for (from, to) in [
        ("127.0.0.1:0", server),
        ("[::1]:0", "[::1]:4433"),
        ("224.0.0.251:5353", server),
        ("255.255.255.255:50000", server),
        ("[ff02::1]:50000", "[::1]:4433"),
        ("[::ffff:224.0.0.1]:50000", "[::1]:4433"),
        (client, "224.0.0.251:4433"),
        (client, "255.255.255.255:4433"),
        ("[::1]:50000", "[ff02::1]:4433"),
    ] {
        for retry in [true, false] {
            let config = common::endpoint_config(|config| config.retry = retry);
            let packets = answered_packets().into_iter();
            let forged = packets.map(|packet| (packet, parse(from), parse(to)));
            let stats = stats_after(forged, config);
            assert_eq!(stats.send_calls, 0, "from {from} to {to}: {stats:?}");
            assert_eq!((stats.datagrams_in, stats.dropped.unanswerable), (2, 2), "{stats:?}");
            assert_eq!(stats.accepted, 0, "from {from} to {to}");
        }
    }
    // The same from where an answer can go.
    let packets = answered_packets().into_iter();
    let forged = packets.map(|packet| (packet, parse(client), parse(server)));
    let stats = stats_after(forged, EndpointConfig::default());
    assert_eq!((stats.retries_sent, stats.resets_sent, stats.dropped.unanswerable), (1, 1, 0));
}

#[test]
fn a_packet_of_an_established_connection_from_port_0_does_not_move_it_there() {
    let socket = failing_socket(common::LOCALHOST.into(), 1, never, never);
    let forged = Arc::clone(&socket.forged);
    let tack = server_config(&Certificate::new());
    let config = EndpointConfig::default();
    let server = Endpoint::with_socket(Box::new(socket), Some(tack), config).unwrap();
    let mut server = App::new(server, Some(pattern(1000, 2)));
    let mut client = App::client();
    let handle = client.connect(server.local_addr(), pattern(1000, 1));
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
    // The client's next packet comes to the server from port 0 and not from its own.
    let mut buffer = [0; 2048];
    let connection = client.endpoint.connection_mut(handle).unwrap();
    connection.send_ack_eliciting().unwrap();
    let (len, info) = connection.send(&mut buffer).unwrap();
    let from = SocketAddr::new(info.from.ip(), 0);
    forged.lock().unwrap().push_back((buffer[..len].to_vec(), from, info.to));
    let now = Instant::now();
    let before = server.endpoint.stats();
    server.endpoint.core.on_readable();
    server.endpoint.core.receive(now).unwrap();
    server.endpoint.core.transmit(now);
    let stats = server.endpoint.stats();
    assert_eq!(stats.dropped.unanswerable, before.dropped.unanswerable + 1);
    assert_eq!(stats.send_calls, before.send_calls);
}

// RFC 9000 section 10.2
#[test]
fn the_close_of_a_handshake_that_failed_waits_for_room_in_the_socket() {
    let certificate = Certificate::new();
    let full_at_first: Fault = |call, _| (call == 0).then_some(libc::EAGAIN);
    let socket = failing_socket(common::LOCALHOST.into(), 1, never, full_at_first);
    let config = common::endpoint_config(|config| config.retry = false);
    let server =
        Endpoint::with_socket(Box::new(socket), Some(server_config(&certificate)), config);
    let mut server = App::new(server.unwrap(), None);
    let mut client = App::client();
    let mut other = common::client_config();
    other.set_application_protos(&[b"something else"]).unwrap();
    let handle = client.connect_with(server.local_addr(), vec![], &mut other);
    run_until(&mut server, &mut client, |_, client| client.closed.contains_key(&handle));
    let reason = client.closed[&handle].to_string();
    assert!(reason.contains("ALPN"), "{reason}");
    let stats = server.endpoint.stats();
    assert_eq!((stats.send_blocked, stats.handshakes_failed), (1, 1), "{stats:?}");
    // The client has not had to ask for it by beginning anew.
    assert_eq!(stats.accepted, 1, "{stats:?}");
}

#[test]
fn a_handshake_that_may_last_for_ever_and_pings_that_are_never_due_are_no_limit() {
    let endless = common::endpoint_config(|config| {
        config.handshake_timeout = Duration::MAX;
        config.keep_alive = Some(Duration::MAX);
    });
    let tack = server_config(&Certificate::new());
    let localhost = SocketAddr::from(common::LOCALHOST);
    let server = Endpoint::server(localhost, tack, endless.clone()).unwrap();
    let client = Endpoint::client(localhost, endless).unwrap();
    let (mut server, mut client) = (App::new(server, Some(vec![1])), App::new(client, None));
    let handle = client.connect(server.local_addr(), vec![2]);
    run_until(&mut server, &mut client, |_, client| client.is_done(handle));
}
