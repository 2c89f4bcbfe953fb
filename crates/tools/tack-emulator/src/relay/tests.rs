use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use tack_link::{Arrival, Link, LinkSpec, Losses, Packet, PathSpec, Time};

use super::*;
use crate::MTU;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
const SEED: u64 = 1;

/// A pipe of the given fields with that delay each way.
fn pipe(fields: &str, delay: Duration) -> BoxedLink {
    pipe_with_seed(fields, delay, SEED)
}

fn pipe_with_seed(fields: &str, delay: Duration, seed: u64) -> BoxedLink {
    let toml = format!("[[hop]]\nkind = \"pipe\"\n{fields}");
    let path = PathSpec::with_rtt(2 * delay);
    LinkSpec::from_toml(&toml, "test").unwrap().build(&path, seed).unwrap()
}

fn wire() -> BoxedLink {
    pipe("", Duration::ZERO)
}

fn endpoint() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().unwrap()
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buf = [0; 2000];
    let (len, from) = socket.recv_from(&mut buf).unwrap();
    (buf[..len].to_vec(), from)
}

fn start(server: &UdpSocket, link: BoxedLink) -> Relay {
    Relay::start(address(server), link).unwrap()
}

/// Hands every datagram to the test.
struct Tell(Sender<(Direction, Vec<u8>)>);

impl Observer for Tell {
    fn datagram(&mut self, datagram: &Datagram<'_>) {
        self.0.send((datagram.direction, datagram.bytes.to_vec())).unwrap();
    }
}

fn start_observed(
    server: SocketAddr,
    link: BoxedLink,
) -> (Relay<Tell>, Receiver<(Direction, Vec<u8>)>) {
    let (sender, receiver) = mpsc::channel();
    (Relay::start_observed(server, link, Tell(sender)).unwrap(), receiver)
}

#[test]
fn a_round_trip_takes_both_delays_and_changes_nothing() {
    let (server, client) = (endpoint(), endpoint());
    let delay = Duration::from_millis(15);
    let relay = start(&server, pipe("", delay));

    let sent = Instant::now();
    client.send_to(b"question", relay.address()).unwrap();
    let (question, from) = receive(&server);
    assert!(sent.elapsed() >= delay);
    server.send_to(b"an answer", from).unwrap();
    let (answer, from) = receive(&client);
    assert!(sent.elapsed() >= 2 * delay);
    assert_eq!((&question[..], &answer[..]), (&b"question"[..], &b"an answer"[..]));
    assert_eq!(from, relay.address());

    let report = relay.stop().unwrap();
    for (direction, len) in [(Direction::Reverse, 8), (Direction::Forward, 9)] {
        let expected = LaneCounters {
            packets: 1,
            bytes: len,
            delivered_packets: 1,
            delivered_bytes: len,
            ..LaneCounters::default()
        };
        assert_eq!(*report.counters(direction), expected);
    }
}

#[test]
fn nothing_arrives_before_the_rate_of_the_link_allows() {
    let (server, client) = (endpoint(), endpoint());
    // A byte of an IP packet takes a microsecond.
    let relay = start(&server, pipe("rate_mbps = 8", Duration::from_millis(10)));

    let sent = Instant::now();
    for n in 0..60_u8 {
        client.send_to(&[n; 1000], relay.address()).unwrap();
    }
    for n in 0..60_u8 {
        let (bytes, _) = receive(&server);
        assert_eq!(bytes, [n; 1000], "in order");
        let soonest = Duration::from_micros(10_000 + 1028 * (u64::from(n) + 1));
        assert!(sent.elapsed() >= soonest, "{n} after {:?}", sent.elapsed());
    }
    let report = relay.stop().unwrap();
    assert_eq!(report.reverse.delivered_bytes, 60_000);
}

#[test]
fn what_the_server_sends_goes_forward() {
    let (server, client) = (endpoint(), endpoint());
    let relay = start(&server, pipe("[hop.reverse]\nloss = 1.0", Duration::ZERO));
    client.send_to(b"lost", relay.address()).unwrap();
    server.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(server.recv_from(&mut [0; 10]).is_err());
    assert_eq!(relay.stop().unwrap().reverse.losses.random, 1);

    let server = endpoint();
    let relay = start(&server, pipe("[hop.forward]\nloss = 1.0", Duration::ZERO));
    client.send_to(b"arrives", relay.address()).unwrap();
    let (_, from) = receive(&server);
    server.send_to(b"lost", from).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(client.recv_from(&mut [0; 10]).is_err());
    let report = relay.stop().unwrap();
    assert_eq!((report.forward.losses.random, report.reverse.losses.random), (1, 0));
}

#[test]
fn every_client_gets_its_own_answers() {
    let server = endpoint();
    let relay = start(&server, wire());
    let clients: Vec<_> = (0..5).map(|_| endpoint()).collect();
    for (client, name) in clients.iter().zip(b'a'..) {
        client.send_to(&[name], relay.address()).unwrap();
    }
    let mut sources = Vec::new();
    for _ in &clients {
        let (name, from) = receive(&server);
        server.send_to(&[name[0].to_ascii_uppercase()], from).unwrap();
        sources.push(from);
    }
    for (client, name) in clients.iter().zip(b'A'..) {
        assert_eq!(receive(client).0, [name]);
    }
    sources.sort_unstable();
    sources.dedup();
    assert_eq!(sources.len(), clients.len(), "the server tells clients apart");
}

#[test]
fn every_client_is_a_flow_with_a_path_of_its_own() {
    let server = endpoint();
    let paths = [0, 400].map(|rtt| PathSpec::with_rtt(Duration::from_millis(rtt)));
    let spec = LinkSpec::from_toml("[[hop]]\nkind = \"pipe\"", "test").unwrap();
    let relay = start(&server, spec.build_shared(&paths, SEED).unwrap());
    let (near, far) = (endpoint(), endpoint());

    near.send_to(b"first", relay.address()).unwrap();
    receive(&server);
    let sent = Instant::now();
    far.send_to(b"far", relay.address()).unwrap();
    thread::sleep(Duration::from_millis(5));
    near.send_to(b"near", relay.address()).unwrap();
    assert_eq!(receive(&server).0, b"near");
    assert_eq!(receive(&server).0, b"far");
    assert!(sent.elapsed() >= Duration::from_millis(200));
}

#[test]
fn the_observer_sees_also_what_is_lost() {
    let (server, client) = (endpoint(), endpoint());
    let (relay, seen) = start_observed(address(&server), pipe("loss = 1.0", Duration::ZERO));
    for n in 0..20 {
        client.send_to(&[n], relay.address()).unwrap();
    }
    for n in 0..20 {
        let datagram = seen.recv_timeout(PATIENCE).unwrap();
        assert_eq!(datagram, (Direction::Reverse, vec![n]));
    }
    let counters = relay.stop().unwrap().reverse;
    assert_eq!((counters.losses.random, counters.delivered_packets), (20, 0));
}

#[test]
fn the_same_seed_loses_the_same_datagrams() {
    let run = |seed| {
        let lossy = || pipe_with_seed("loss = 0.4", Duration::ZERO, seed);
        let mut model = lossy();
        let mut survives = |n: &u8| {
            let now = Time::from(Duration::from_millis(u64::from(*n)));
            let packet = Packet::new(29, 0, now, vec![*n]);
            model.send(Direction::Reverse, packet, now);
            std::iter::from_fn(|| model.arrival(now)).count() == 1
        };
        let expected: Vec<u8> = (0..100).filter(|n| survives(n)).collect();

        let (server, client) = (endpoint(), endpoint());
        let relay = start(&server, lossy());
        for n in 0..100_u8 {
            client.send_to(&[n], relay.address()).unwrap();
        }
        let arrived: Vec<u8> = expected.iter().map(|_| receive(&server).0[0]).collect();
        assert_eq!(arrived, expected);
        let lost = relay.stop().unwrap().reverse.losses.random;
        assert_eq!(lost, 100 - arrived.len() as u64);
        arrived
    };
    assert_ne!(run(1), run(2));
}

#[test]
fn a_wlan_carries_datagrams_both_ways() {
    let (server, client) = (endpoint(), endpoint());
    let path = PathSpec::with_rtt(Duration::from_millis(10));
    let link = LinkSpec::resolve("n").unwrap().build(&path, SEED).unwrap();
    let relay = start(&server, link);
    let sent = Instant::now();
    client.send_to(b"data, please", relay.address()).unwrap();
    let (_, from) = receive(&server);
    // The default buffer of the client's socket holds them all, however late this thread reads.
    for n in 0..60_u8 {
        server.send_to(&[n; 1400], from).unwrap();
    }
    for n in 0..60_u8 {
        assert_eq!(receive(&client).0, [n; 1400], "in order");
    }
    // 60 packets of 1428 bytes at 216 Mbit/s at most, after the round trip.
    assert!(sent.elapsed() >= Duration::from_micros(10_000 + 3_100), "{:?}", sent.elapsed());
    let report = relay.stop().unwrap();
    assert_eq!(report.forward.losses, Losses::default());
}

#[test]
fn what_is_on_its_way_when_the_relay_stops_is_accounted_for() {
    let (server, client) = (endpoint(), endpoint());
    let link = pipe("", Duration::from_secs(50));
    let (relay, seen) = start_observed(address(&server), link);
    for _ in 0..40 {
        client.send_to(&[0; 1000], relay.address()).unwrap();
    }
    for _ in 0..40 {
        seen.recv_timeout(PATIENCE).unwrap();
    }
    let counters = relay.stop().unwrap().reverse;
    assert_eq!(counters.packets, 40);
    assert_eq!(counters.delivered_packets, 0);
    assert_eq!(counters.in_transit(), 40);
}

#[test]
fn datagrams_larger_than_a_link_takes_are_dropped_and_counted() {
    let (server, client) = (endpoint(), endpoint());
    let relay = start(&server, wire());
    let headers = 20 + 8;
    for payload in [usize::from(MTU) - headers + 1, usize::from(MTU) - headers] {
        client.send_to(&vec![7; payload], relay.address()).unwrap();
    }
    assert_eq!(receive(&server).0.len(), usize::from(MTU) - headers);
    let counters = relay.stop().unwrap().reverse;
    assert_eq!((counters.packets, counters.too_large, counters.delivered_packets), (2, 1, 1));
    assert_eq!(counters.in_transit(), 0);
}

#[test]
fn a_server_that_is_not_there_does_not_end_the_relay() {
    let (server, client) = (endpoint(), endpoint());
    let gone = address(&server);
    drop(server);
    let (relay, seen) = start_observed(gone, wire());
    for _ in 0..5 {
        client.send_to(b"anyone?", relay.address()).unwrap();
        seen.recv_timeout(PATIENCE).unwrap();
    }
    let counters = relay.stop().unwrap().reverse;
    assert_eq!(counters.packets, 5);
    assert_eq!(counters.delivered_packets + counters.refused + counters.in_transit(), 5);
}

/// A link that is late: what it delivers was due long ago.
struct Late(Option<Arrival>);

impl Link for Late {
    fn send(&mut self, direction: Direction, packet: Packet, now: Time) {
        let at = now - Duration::from_millis(6);
        self.0 = Some(Arrival { at, direction, packet });
    }

    fn next_event(&self) -> Option<Time> {
        self.0.as_ref().map(|arrival| arrival.at)
    }

    fn arrival(&mut self, _: Time) -> Option<Arrival> {
        self.0.take()
    }

    fn losses(&self, _: Direction) -> Losses {
        Losses::default()
    }

    fn corrupted(&self, _: Direction) -> u64 {
        0
    }
}

#[test]
fn a_datagram_that_is_sent_on_too_late_misses_its_deadline() {
    let (server, client) = (endpoint(), endpoint());
    let relay = start(&server, Box::new(Late(None)));
    client.send_to(b"the clock starts", relay.address()).unwrap();
    receive(&server);
    thread::sleep(Duration::from_millis(10));
    client.send_to(b"late", relay.address()).unwrap();
    receive(&server);
    let report = relay.stop().unwrap();
    assert_eq!(report.deadline_misses, 1);
    assert!(report.worst_lateness >= Duration::from_millis(6));
}

/// Waits for a datagram: its bytes, sender and ECN field.
fn receive_marked(socket: &socket::Socket) -> (Vec<u8>, SocketAddr, Ecn) {
    let (mut buf, until) = ([0; 2000], Instant::now() + PATIENCE);
    loop {
        match socket.receive(&mut buf) {
            Ok(received) => {
                return (buf[..received.len].to_vec(), received.from, received.ecn);
            }
            Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("nothing came: {error}"),
        }
    }
}

#[test]
fn the_ecn_field_is_carried_over_both_ways_and_marks_of_the_link_arrive() {
    for host in ["127.0.0.1", "::1"] {
        let host = host.parse().unwrap();
        let Ok(server) = socket::Socket::bind(host) else { continue }; // no IPv6 here
        let client = socket::Socket::bind(host).unwrap();
        let relay = Relay::start(server.local_addr().unwrap(), wire()).unwrap();
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            client.send(&[1, 2], relay.address(), ecn).unwrap();
            let (bytes, from, up) = receive_marked(&server);
            server.send(&[3], from, ecn).unwrap();
            let (_, _, down) = receive_marked(&client);
            assert_eq!((bytes, up, down), (vec![1, 2], ecn, ecn), "{host}");
        }
    }
    let server = socket::Socket::bind(Ipv4Addr::LOCALHOST.into()).unwrap();
    let client = socket::Socket::bind(Ipv4Addr::LOCALHOST.into()).unwrap();
    // A packet behind two others has waited for longer than the millisecond from which it marks; the last
    // two leave a queue too short to be marked (RFC 9332 appendix A.1, Th_len).
    let slow =
        pipe("rate_mbps = 1\nbuffer_bytes = 100000\nqueue = \"dualpi2\"", Duration::ZERO);
    let relay = Relay::start(server.local_addr().unwrap(), slow).unwrap();
    for _ in 0..10 {
        client.send(&[0; 1200], relay.address(), Ecn::Ect1).unwrap();
    }
    let fields: Vec<_> = (0..10).map(|_| receive_marked(&server).2).collect();
    assert_eq!((fields[0], fields[5]), (Ecn::Ect1, Ecn::Ce), "{fields:?}");
}
