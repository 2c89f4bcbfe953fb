//! Applications that ask each of their paths for packets, as one with a socket for each does.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use common::*;
use quiche::{ConnectionId, RecvInfo};
use tacklib::Connection;

const MS: Duration = Duration::from_millis(1);
const LEN: usize = 100_000;
const UP: u64 = 2;
const DOWN: u64 = 3;

type Path = (Option<SocketAddr>, Option<SocketAddr>);

fn other_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 4011))
}

/// Two ends whose datagrams arrive within a millisecond, from and to the addresses that they were sent from and to.
struct Ends {
    client: Connection,
    server: Connection,
    received: (usize, usize),
}

impl Ends {
    /// After a handshake, and with a second path that both ends have validated and no data goes over.
    fn new() -> Self {
        let mut config = tack_config();
        config.set_active_connection_id_limit(4);
        let mut pair = Pair::new(tack_client(&mut config), tack_server(&mut config));
        pair.handshake();
        pair.server.new_scid(&ConnectionId::from_vec(vec![0x5f; 16]), 1, false).unwrap();
        pair.client.new_scid(&ConnectionId::from_vec(vec![0xc2; 16]), 1, false).unwrap();
        let mut ends = Self { client: pair.client, server: pair.server, received: (0, 0) };
        ends.run(100, &[(None, None)]);
        ends.client.probe_path(other_address(), server_address()).unwrap();
        ends.run(100, &[(None, None)]);
        let validated = ends.client.is_path_validated(other_address(), server_address());
        assert_eq!(validated, Ok(true));
        ends
    }

    /// For so many milliseconds; the client asks for packets of each of these paths in turn.
    fn run(&mut self, milliseconds: u32, paths: &[Path]) {
        for _ in 0..milliseconds {
            for path in paths {
                carry(&mut self.client, &mut self.server, *path);
            }
            advance(MS);
            carry(&mut self.server, &mut self.client, (None, None));
            self.received.0 += read(&mut self.server, UP);
            self.received.1 += read(&mut self.client, DOWN);
        }
    }
}

fn carry(from: &mut Connection, to: &mut Connection, path: Path) {
    if from.timeout_instant().is_some_and(|at| at <= Instant::now()) {
        from.on_timeout();
    }
    let mut datagram = [0; 1500];
    while let Ok((len, sent)) = from.send_on_path(&mut datagram, path.0, path.1) {
        let info = RecvInfo { from: sent.from, to: sent.to };
        to.recv(&mut datagram[..len], info).unwrap();
    }
}

fn read(end: &mut Connection, stream: u64) -> usize {
    let mut buffer = vec![0; 1 << 16];
    std::iter::from_fn(|| end.stream_recv(stream, &mut buffer).ok()).map(|(len, _)| len).sum()
}

/// What arrives at the server and at the client within a second, of [`LEN`] bytes each, while the client asks these
/// paths for packets. No stream ends: that alone would have quiche asked again.
fn both_ways(paths: &[Path]) -> (usize, usize) {
    let mut ends = Ends::new();
    assert_eq!(ends.client.stream_send(UP, &pattern(LEN), false), Ok(LEN));
    assert_eq!(ends.server.stream_send(DOWN, &pattern(LEN), false), Ok(LEN));
    ends.run(1000, paths);
    assert_eq!(ends.client.stats().spurious_lost, 0);
    ends.received
}

#[test]
fn a_path_that_has_nothing_to_send_holds_up_no_other() {
    let active = (Some(client_address()), Some(server_address()));
    let idle = (Some(other_address()), Some(server_address()));
    assert_eq!(both_ways(&[idle, active]), (LEN, LEN));
    assert_eq!(both_ways(&[active, idle]), (LEN, LEN));
}

#[test]
fn so_does_a_local_address_that_no_data_leaves_from() {
    let (active, idle) = ((Some(client_address()), None), (Some(other_address()), None));
    assert_eq!(both_ways(&[idle, active]), (LEN, LEN));
}

#[test]
fn a_path_that_nobody_knows_is_an_error_and_no_more() {
    let mut ends = Ends::new();
    assert_eq!(ends.client.stream_send(UP, &pattern(LEN), false), Ok(LEN));
    let (unknown, mut datagram) = (SocketAddr::from(([127, 0, 0, 3], 1)), [0; 1500]);
    let sent = ends.client.send_on_path(&mut datagram, Some(unknown), Some(server_address()));
    assert_eq!(sent, Err(quiche::Error::InvalidState));
    ends.run(1000, &[(None, None)]);
    assert_eq!(ends.received.0, LEN);
}

#[test]
fn a_path_is_probed_when_its_packets_are_asked_for() {
    let third = SocketAddr::from(([127, 0, 0, 3], 4012));
    let mut ends = Ends::new();
    for (end, byte) in [(&mut ends.server, 0x61), (&mut ends.client, 0xc4)] {
        end.new_scid(&ConnectionId::from_vec(vec![byte; 16]), 2, false).unwrap();
    }
    ends.run(100, &[(None, None)]);
    ends.client.probe_path(third, server_address()).unwrap();
    let of_third = (Some(third), Some(server_address()));
    ends.run(100, &[of_third, (Some(client_address()), Some(server_address()))]);
    assert_eq!(ends.client.is_path_validated(third, server_address()), Ok(true));
}
