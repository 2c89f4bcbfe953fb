//! A link between two namespaces, seen from the ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod common;

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{PATIENCE, can_emulate, delay, devices, duplex, is_in_use, namespace_of};
use tack_emulator::tun::{Emulator, End, Observer};
use tack_link::pipe::PipeConfig;
use tack_link::{Arrival, Direction, Packet};

/// A socket at each end, connected to each other.
fn sockets<O: Observer>(emulator: &Emulator<O>) -> [UdpSocket; 2] {
    End::ALL.map(|end| {
        let bind = || Ok(UdpSocket::bind((end.address(), 7000)).unwrap());
        let socket = emulator.run_at(end, bind).unwrap();
        socket.connect((end.peer().address(), 7000)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    })
}

/// A file of /proc as one end sees it.
fn read_at<O: Observer>(emulator: &Emulator<O>, end: End, path: &str) -> String {
    emulator.run_at(end, || Ok(fs::read_to_string(path).unwrap())).unwrap()
}

#[test]
fn a_datagram_comes_through_intact_in_both_directions() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::from_millis(1)), ()).unwrap();
    let [a, b] = sockets(&emulator);
    let payload: Vec<u8> = (0..1472_u32).map(|at| (at * 31 % 251) as u8).collect();
    for (from, to) in [(&a, &b), (&b, &a)] {
        from.send(&payload).unwrap();
        let mut received = [0; 2048];
        let length = to.recv(&mut received).unwrap();
        assert!(received[..length] == payload[..]);
    }
}

#[test]
fn an_echo_takes_the_delays_of_both_directions() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::from_millis(20)), ()).unwrap();
    let [a, b] = sockets(&emulator);
    let start = Instant::now();
    a.send(b"ping").unwrap();
    let mut buffer = [0; 16];
    let length = b.recv(&mut buffer).unwrap();
    let halfway = start.elapsed();
    b.send(&buffer[..length]).unwrap();
    a.recv(&mut buffer).unwrap();
    let there_and_back = start.elapsed();
    assert!(halfway >= Duration::from_millis(20), "{halfway:?}");
    assert!(there_and_back >= Duration::from_millis(40), "{there_and_back:?}");
}

#[test]
fn what_the_link_loses_does_not_arrive() {
    if !can_emulate() {
        return;
    }
    let pipe = PipeConfig { loss: 1.0, ..PipeConfig::default() };
    let emulator = Emulator::start(duplex(&pipe), ()).unwrap();
    let [a, b] = sockets(&emulator);
    for _ in 0..10 {
        a.send(b"lost").unwrap();
    }
    b.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let error = b.recv(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let record = emulator.stop().unwrap();
    assert_eq!(record.link.losses(Direction::Forward).total(), 10);
}

#[test]
fn only_the_link_and_the_loopback_device_exist() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::ZERO), ()).unwrap();
    for end in End::ALL {
        let names = devices(&read_at(&emulator, end, "/proc/thread-self/net/dev"));
        assert_eq!(names, ["lo", "lab"].map(str::to_owned).into());
    }
}

#[test]
fn the_only_route_leads_to_the_other_end() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::ZERO), ()).unwrap();
    for end in End::ALL {
        let table = read_at(&emulator, end, "/proc/thread-self/net/route");
        let rows: Vec<Vec<_>> =
            table.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
        let [row] = &rows[..] else { panic!("{table}") };
        let peer = u32::from_ne_bytes(end.peer().address().octets());
        // Device, destination, gateway, ... mask.
        assert_eq!(row[..3], ["lab", &format!("{peer:08X}"), "00000000"], "{table}");
        assert_eq!(row[7], "FFFFFFFF", "{table}");
    }
}

#[test]
fn other_networks_are_unreachable() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::ZERO), ()).unwrap();
    for end in End::ALL {
        let socket =
            emulator.run_at(end, || Ok(UdpSocket::bind(("0.0.0.0", 0)).unwrap())).unwrap();
        // Choosing a route sends nothing. 192.0.2.1 is an address for documentation.
        let error = socket.connect(("192.0.2.1", 9)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
    }
}

#[test]
fn loopback_works_inside() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::ZERO), ()).unwrap();
    let connect = || {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        Ok(TcpStream::connect(listener.local_addr().unwrap()).map(drop))
    };
    emulator.run_at(End::A, connect).unwrap().unwrap();
}

#[test]
fn ipv6_is_off() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::ZERO), ()).unwrap();
    let bound = emulator.run_at(End::A, || Ok(UdpSocket::bind(("::1", 0)))).unwrap();
    assert!(bound.is_err());
}

/// Tells of each packet and how long it has been on the link.
struct Watch(mpsc::Sender<(Direction, Duration)>);
impl Observer for Watch {
    fn sent(&mut self, direction: Direction, _: &Packet) {
        self.0.send((direction, Duration::ZERO)).unwrap();
    }

    fn arrived(&mut self, arrival: &Arrival) {
        let delay = arrival.at.since(arrival.packet.sent);
        self.0.send((arrival.direction, delay)).unwrap();
    }
}

#[test]
fn the_observer_sees_packets_leave_and_arrive_with_their_times() {
    if !can_emulate() {
        return;
    }
    let (tell, seen) = mpsc::channel();
    let path_delay = Duration::from_millis(5);
    let emulator = Emulator::start(delay(path_delay), Watch(tell)).unwrap();
    let [a, b] = sockets(&emulator);
    b.send(b"seen").unwrap();
    a.recv(&mut [0; 16]).unwrap();
    emulator.stop().unwrap();
    let seen: Vec<_> = seen.iter().collect();
    assert_eq!(seen, [(Direction::Reverse, Duration::ZERO), (Direction::Reverse, path_delay)]);
}

#[test]
fn deliveries_are_counted() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::ZERO), ()).unwrap();
    let [a, b] = sockets(&emulator);
    for _ in 0..3 {
        a.send(b"counted").unwrap();
        b.recv(&mut [0; 16]).unwrap();
    }
    let summary = emulator.stop().unwrap().punctuality.summary();
    assert_eq!((summary.delivered, summary.kernel_drops), (3, 0));
}

#[test]
fn nothing_holds_the_namespaces_when_the_emulator_is_dropped() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::ZERO), ()).unwrap();
    let namespaces = End::ALL.map(|end| namespace_of(&emulator, end));
    assert!(namespaces.iter().all(|namespace| is_in_use(namespace)));
    drop(emulator);
    assert!(!namespaces.iter().any(|namespace| is_in_use(namespace)));
}

#[test]
fn the_devices_are_gone_when_the_link_stops() {
    if !can_emulate() {
        return;
    }
    let emulator = Emulator::start(delay(Duration::ZERO), ()).unwrap();
    // The open file keeps the namespace for a look at it afterwards.
    let table = emulator
        .run_at(End::A, || Ok(fs::File::open("/proc/thread-self/net/dev").unwrap()))
        .unwrap();
    emulator.stop().unwrap();
    let table = std::io::read_to_string(table).unwrap();
    assert_eq!(devices(&table), ["lo".to_owned()].into());
}
