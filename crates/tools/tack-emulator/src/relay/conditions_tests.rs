//! What the relay does besides carrying datagrams.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use tack_link::compose::{BoxedLink, Duplex};
use tack_link::pipe::{PipeConfig, Schedule};

use super::*;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

fn link(config: &PipeConfig) -> BoxedLink {
    Box::new(Duplex::new(config, config, 1).unwrap())
}

fn endpoint(host: impl Into<IpAddr>) -> UdpSocket {
    let socket = UdpSocket::bind((host.into(), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buf = [0; 2000];
    let (len, from) = socket.recv_from(&mut buf).unwrap();
    (buf[..len].to_vec(), from)
}

/// Sent (false) or delivered (true), direction, server and path.
type Passed = (bool, Direction, u32, u32);

struct Tell(Sender<Passed>);

impl Observer for Tell {
    fn datagram(&mut self, seen: &Datagram<'_>) {
        self.0.send((false, seen.direction, seen.server, seen.path)).unwrap();
    }

    fn delivered(&mut self, seen: &Datagram<'_>) {
        self.0.send((true, seen.direction, seen.server, seen.path)).unwrap();
    }
}

fn start(
    servers: &[&UdpSocket],
    rebindings: &[Rebinding],
    config: &PipeConfig,
) -> (Relay<Tell>, Receiver<Passed>) {
    let (sender, receiver) = mpsc::channel();
    let setup = Setup {
        servers: servers.iter().map(|server| server.local_addr().unwrap()).collect(),
        rebindings: rebindings.to_vec(),
    };
    (Relay::start_with(setup, link(config), Tell(sender)).unwrap(), receiver)
}

#[test]
fn a_rebound_client_comes_from_elsewhere_and_its_old_address_is_deaf() {
    for change in [Change::Port, Change::Address] {
        let server = endpoint(Ipv4Addr::LOCALHOST);
        let client = endpoint(Ipv4Addr::LOCALHOST);
        let at = Duration::from_millis(100);
        let (relay, seen) =
            start(&[&server], &[Rebinding { at, change }], &PipeConfig::default());

        client.send_to(b"before", relay.address()).unwrap();
        let (_, before) = receive(&server);
        assert_eq!(before.ip(), Ipv4Addr::LOCALHOST);
        thread::sleep(2 * at);
        client.send_to(b"after", relay.address()).unwrap();
        let (text, after) = receive(&server);
        assert_eq!(text, b"after");
        assert_ne!(after.port(), before.port());
        let second = Ipv4Addr::new(127, 0, 0, 2);
        let host = if change == Change::Address { second } else { Ipv4Addr::LOCALHOST };
        assert_eq!(after.ip(), host);

        server.send_to(b"to the old address", before).unwrap();
        server.send_to(b"to the new one", after).unwrap();
        assert_eq!(receive(&client).0, b"to the new one");

        let report = relay.stop().unwrap();
        assert_eq!((report.rebindings, report.forward.expired), (1, 1));
        let mut seen: Vec<_> = seen.try_iter().collect();
        // The system hands over the two answers in any order.
        seen[4..].sort_unstable_by_key(|(delivered, _, _, path)| (*delivered, *path));
        let (to_server, to_client) = (Direction::Reverse, Direction::Forward);
        assert_eq!(
            seen,
            [
                (false, to_server, 0, 0),
                (true, to_server, 0, 0),
                (false, to_server, 0, 1),
                (true, to_server, 0, 1),
                (false, to_client, 0, 0),
                (false, to_client, 0, 1),
                (true, to_client, 0, 1),
            ]
        );
    }
}

#[test]
fn the_time_of_a_rebinding_counts_from_the_first_datagram() {
    let server = endpoint(Ipv4Addr::LOCALHOST);
    let client = endpoint(Ipv4Addr::LOCALHOST);
    let at = Duration::from_millis(300);
    let rebinding = Rebinding { at, change: Change::Port };
    let (relay, _seen) = start(&[&server], &[rebinding], &PipeConfig::default());
    thread::sleep(2 * at);
    client.send_to(b"one", relay.address()).unwrap();
    let (_, first) = receive(&server);
    client.send_to(b"two", relay.address()).unwrap();
    assert_eq!(receive(&server).1, first);
}

#[test]
fn ipv6_is_carried_and_its_longer_header_counts() {
    let server = endpoint(Ipv6Addr::LOCALHOST);
    let client = endpoint(Ipv6Addr::LOCALHOST);
    // A packet of 1048 bytes takes more than a second at 8 kbit/s, one of 1000 would not.
    let config =
        PipeConfig { rate_bps: Some(Schedule::constant(8_000)), ..PipeConfig::default() };
    let (relay, _seen) = start(&[&server], &[], &config);
    assert!(relay.address().is_ipv6());
    let sent = std::time::Instant::now();
    client.send_to(&[7; 1000], relay.address()).unwrap();
    let (bytes, from) = receive(&server);
    assert_eq!(bytes, [7; 1000]);
    assert!(sent.elapsed() >= Duration::from_millis(1048));
    server.send_to(b"answer", from).unwrap();
    assert_eq!(receive(&client).0, b"answer");
}

#[test]
fn several_servers_share_one_link_and_get_their_own_clients() {
    let servers = [endpoint(Ipv4Addr::LOCALHOST), endpoint(Ipv4Addr::LOCALHOST)];
    let client = endpoint(Ipv4Addr::LOCALHOST);
    let config = PipeConfig::new(1_000_000, Duration::ZERO, 1_000_000);
    let (relay, seen) = start(&[&servers[0], &servers[1]], &[], &config);
    let sent = std::time::Instant::now();
    for (address, name) in relay.addresses().iter().zip(["first", "second"]) {
        client.send_to(&[name.as_bytes(), &[b' '; 1000]].concat(), address).unwrap();
    }
    for (server, name) in servers.iter().zip(["first", "second"]) {
        let (text, from) = receive(server);
        assert!(text.starts_with(name.as_bytes()));
        server.send_to(name.as_bytes(), from).unwrap();
    }
    // One after the other: 2 x 1033 bytes at a byte in 8 us.
    assert!(sent.elapsed() >= Duration::from_micros(2 * 1033 * 8));
    receive(&client);
    receive(&client);
    relay.stop().unwrap();
    let mut servers_seen: Vec<_> = seen.try_iter().map(|(_, _, server, _)| server).collect();
    servers_seen.sort_unstable();
    assert_eq!(servers_seen, [0, 0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn corrupted_datagrams_are_delivered_and_counted() {
    let server = endpoint(Ipv4Addr::LOCALHOST);
    let client = endpoint(Ipv4Addr::LOCALHOST);
    let config = PipeConfig { corrupt: 1.0, ..PipeConfig::default() };
    let (relay, _seen) = start(&[&server], &[], &config);
    for _ in 0..3 {
        client.send_to(&[0; 100], relay.address()).unwrap();
        let ones: u32 = receive(&server).0.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(ones, 1);
    }
    let report = relay.stop().unwrap();
    assert_eq!((report.reverse.corrupted, report.forward.corrupted), (3, 0));
    assert_eq!(report.reverse.in_transit(), 0);
}

#[test]
fn a_setup_without_servers_or_in_disorder_is_refused() {
    let at = |millis| Rebinding { at: Duration::from_millis(millis), change: Change::Port };
    let server = endpoint(Ipv4Addr::LOCALHOST).local_addr().unwrap();
    for (servers, rebindings) in [(vec![], vec![]), (vec![server], vec![at(2), at(1)])] {
        let setup = Setup { servers, rebindings };
        let refused = Relay::start_with(setup, link(&PipeConfig::default()), ());
        assert!(refused.is_err());
    }
}
