use std::sync::mpsc::{self, Receiver, Sender};

use super::*;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
const FAST: u64 = 10_000_000_000;

#[test]
fn a_round_trip_takes_both_delays_and_changes_nothing() {
    let server = endpoint();
    let delay = Duration::from_millis(15);
    let relay = start(RelayConfig::new(address(&server), FAST, delay));
    let client = endpoint();

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
    for (direction, len) in [(Direction::ToServer, 8), (Direction::ToClient, 9)] {
        let expected = LinkCounters {
            packets: 1,
            bytes: len,
            delivered_packets: 1,
            delivered_bytes: len,
            ..LinkCounters::default()
        };
        assert_eq!(*report.counters(direction), expected);
    }
}

#[test]
fn nothing_arrives_before_the_rate_of_the_link_allows() {
    let server = endpoint();
    let config = RelayConfig::new(address(&server), 8_000_000, Duration::from_millis(10));
    let relay = start(config);
    let client = endpoint();

    let sent = Instant::now();
    for n in 0..60_u8 {
        client.send_to(&[n; 1000], relay.address()).unwrap();
    }
    for n in 0..60_u8 {
        let (bytes, _) = receive(&server);
        assert_eq!(bytes, [n; 1000], "in order");
        let soonest = Duration::from_millis(10 + u64::from(n) + 1);
        assert!(sent.elapsed() >= soonest, "{n} after {:?}", sent.elapsed());
    }
    assert_eq!(relay.stop().unwrap().to_server.delivered_bytes, 60_000);
}

#[test]
fn every_client_gets_its_own_answers() {
    let server = endpoint();
    let relay = start(RelayConfig::new(address(&server), FAST, Duration::ZERO));
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
fn the_observer_sees_also_what_is_lost() {
    let server = endpoint();
    let config =
        RelayConfig { loss: 1.0, ..RelayConfig::new(address(&server), FAST, Duration::ZERO) };
    let (relay, seen) = start_observed(config);
    let client = endpoint();
    for n in 0..20 {
        client.send_to(&[n], relay.address()).unwrap();
    }
    for n in 0..20 {
        let datagram = seen.recv_timeout(PATIENCE).unwrap();
        assert_eq!(datagram, (Direction::ToServer, vec![n]));
    }
    let counters = relay.stop().unwrap().to_server;
    assert_eq!((counters.drops_loss, counters.delivered_packets), (20, 0));
}

#[test]
fn the_same_seed_loses_the_same_datagrams() {
    let run = |seed| {
        let server = endpoint();
        let config = RelayConfig {
            loss: 0.4,
            seed,
            ..RelayConfig::new(address(&server), FAST, Duration::ZERO)
        };
        let mut model = Link::new(&config, Direction::ToServer);
        let now = Instant::now();
        let expected: Vec<u8> = (0..100).filter(|_| model.admit(now, 1).is_some()).collect();

        let relay = start(config);
        let client = endpoint();
        for n in 0..100_u8 {
            client.send_to(&[n], relay.address()).unwrap();
        }
        let arrived: Vec<u8> = expected.iter().map(|_| receive(&server).0[0]).collect();
        assert_eq!(arrived, expected);
        assert_eq!(relay.stop().unwrap().to_server.drops_loss, 100 - arrived.len() as u64);
        arrived
    };
    assert_ne!(run(1), run(2));
}

#[test]
fn what_is_on_its_way_when_the_relay_stops_is_accounted_for() {
    let server = endpoint();
    let config = RelayConfig {
        buffer_bytes: 10_000,
        ..RelayConfig::new(address(&server), 8_000_000, Duration::from_secs(50))
    };
    let (relay, seen) = start_observed(config);
    let client = endpoint();
    for _ in 0..40 {
        client.send_to(&[0; 1000], relay.address()).unwrap();
    }
    for _ in 0..40 {
        seen.recv_timeout(PATIENCE).unwrap();
    }
    // Ten fit the queue; the slower the machine sends, the more get through.
    let counters = relay.stop().unwrap().to_server;
    assert_eq!(counters.packets, 40);
    assert_eq!(counters.delivered_packets, 0);
    assert!(counters.in_transit() >= 10);
    assert_eq!(counters.in_transit() + counters.drops_queue, 40);
}

#[test]
fn a_server_that_is_not_there_does_not_end_the_relay() {
    let server = endpoint();
    let config = RelayConfig::new(address(&server), FAST, Duration::ZERO);
    drop(server);
    let (relay, seen) = start_observed(config);
    let client = endpoint();
    for _ in 0..5 {
        client.send_to(b"anyone?", relay.address()).unwrap();
        seen.recv_timeout(PATIENCE).unwrap();
    }
    let counters = relay.stop().unwrap().to_server;
    assert_eq!(counters.packets, 5);
    assert_eq!(counters.delivered_packets + counters.drops_host + counters.in_transit(), 5);
}

#[test]
fn a_link_that_cannot_be_is_refused() {
    let config = RelayConfig::new((Ipv4Addr::LOCALHOST, 9).into(), FAST, Duration::ZERO);
    for wrong in [
        RelayConfig { rate_bps: 0, ..config },
        RelayConfig { loss: 1.1, ..config },
        RelayConfig { loss: -0.1, ..config },
        RelayConfig { loss: f64::NAN, ..config },
        RelayConfig { one_way_delay: Duration::from_secs(61), ..config },
    ] {
        let error = Relay::start(wrong).err().expect("an error");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

fn start(config: RelayConfig) -> Relay {
    Relay::start(config).unwrap()
}

/// Hands every datagram to the test.
struct Tell(Sender<(Direction, Vec<u8>)>);

impl Observer for Tell {
    fn datagram(&mut self, direction: Direction, bytes: &[u8]) {
        self.0.send((direction, bytes.to_vec())).unwrap();
    }
}

fn start_observed(config: RelayConfig) -> (Relay<Tell>, Receiver<(Direction, Vec<u8>)>) {
    let (sender, receiver) = mpsc::channel();
    (Relay::start_observed(config, Tell(sender)).unwrap(), receiver)
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
