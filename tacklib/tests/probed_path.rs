//! A path that a client tries, and does not go over, changes nothing on the one that it uses (RFC 9000 section 9.1).

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use common::*;
use quiche::{ConnectionId, PathEvent, RecvInfo};
use tacklib::Connection;

const MS: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_micros(250);
const CLIENTS_STREAM: u64 = 2;
const SERVERS_STREAM: u64 = 3;

fn other_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 4011))
}

/// Datagrams on their way, with the time of their arrival.
type Way = VecDeque<(Instant, Vec<u8>, RecvInfo)>;

/// A connection between two paths, each with its one-way delay.
struct TwoPaths {
    client: Connection,
    server: Connection,
    up: Way,
    down: Way,
    delay: Duration,
    others_delay: Duration,
}

impl TwoPaths {
    fn new(delay: Duration, others_delay: Duration) -> Self {
        let mut config = tack_config();
        config.set_active_connection_id_limit(4);
        let (client, server) = (tack_client(&mut config), tack_server(&mut config));
        let mut pair = Pair::new(client, server).with_delay(delay);
        pair.handshake();
        pair.server.new_scid(&ConnectionId::from_vec(vec![0x5f; 16]), 1, false).unwrap();
        pair.client.new_scid(&ConnectionId::from_vec(vec![0xc2; 16]), 1, false).unwrap();
        let (client, server) = (pair.client, pair.server);
        let (up, down) = (Way::new(), Way::new());
        let mut paths = Self { client, server, up, down, delay, others_delay };
        paths.run(500 * MS);
        paths
    }

    fn deliver(way: &mut Way, to: &mut Connection) -> bool {
        let before = way.len();
        let now = Instant::now();
        way.retain_mut(|(at, datagram, info)| {
            let is_on_its_way = *at > now;
            if !is_on_its_way {
                // What quiche refuses is no matter of these tests.
                let _ = to.recv(datagram, *info);
            }
            is_on_its_way
        });
        way.len() < before
    }

    fn send(&mut self) -> bool {
        let mut has_sent = false;
        for (end, way) in [(&mut self.client, &mut self.up), (&mut self.server, &mut self.down)]
        {
            if end.timeout_instant().is_some_and(|at| at <= Instant::now()) {
                end.on_timeout();
            }
            let mut datagram = [0; 1500];
            while let Ok((len, info)) = end.send(&mut datagram) {
                has_sent = true;
                let is_other = info.from == other_address() || info.to == other_address();
                let delay = if is_other { self.others_delay } else { self.delay };
                let info = RecvInfo { from: info.from, to: info.to };
                way.push_back((Instant::now() + delay, datagram[..len].to_vec(), info));
            }
        }
        has_sent
    }

    fn turn(&mut self) {
        let mut buffer = vec![0; 1 << 16];
        while self.send()
            | Self::deliver(&mut self.up, &mut self.server)
            | Self::deliver(&mut self.down, &mut self.client)
        {
            while self.client.stream_recv(SERVERS_STREAM, &mut buffer).is_ok() {}
            while self.server.stream_recv(CLIENTS_STREAM, &mut buffer).is_ok() {}
        }
    }

    fn run(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn();
            advance(STEP);
        }
    }

    fn try_other_path(&mut self) {
        self.client.probe_path(other_address(), server_address()).unwrap();
    }

    fn servers_path(&self) -> SocketAddr {
        self.server.path_stats().find(|path| path.active).unwrap().peer_addr
    }
}

// TACK-2-6
#[test]
fn a_server_does_not_follow_a_client_that_tries_a_path_whatever_the_moment() {
    for moment in 0..24 {
        let mut paths = TwoPaths::new(10 * MS, 10 * MS);
        paths.server.stream_send(SERVERS_STREAM, &pattern(1_000_000), false).unwrap();
        paths.run(40 * MS + moment * STEP);
        // Something is to be acknowledged.
        while !TwoPaths::deliver(&mut paths.down, &mut paths.client) {
            paths.turn();
            advance(STEP);
        }
        paths.try_other_path();
        for _ in 0..400 {
            paths.turn();
            assert_eq!(paths.servers_path(), client_address(), "moment {moment}");
            advance(STEP);
        }
        while let Some(event) = paths.server.path_event_next() {
            assert!(!matches!(event, PathEvent::PeerMigrated(..)), "{event:?}");
        }
        assert_eq!(paths.client.is_path_validated(other_address(), server_address()), Ok(true));
    }
}

// TACK-2-6
#[test]
fn the_round_trip_of_a_path_that_is_tried_is_not_that_of_the_path_in_use() {
    let mut paths = TwoPaths::new(20 * MS, MS);
    paths.client.stream_send(CLIENTS_STREAM, &pattern(1_000_000), false).unwrap();
    paths.run(400 * MS);
    paths.try_other_path();
    paths.run(300 * MS);
    let min_rtt = paths.client.tack_stats().min_rtt.unwrap();
    assert!(min_rtt >= 40 * MS, "{min_rtt:?}");
}

// TACK-5.3-6
#[test]
fn a_path_that_was_left_and_is_shorter_makes_no_queue_of_the_new_one() {
    let mut paths = TwoPaths::new(5 * MS, 60 * MS);
    let _ = paths.server.stream_send(SERVERS_STREAM, &pattern(500_000), false);
    paths.run(100 * MS);
    paths.try_other_path();
    paths.run(400 * MS);
    paths.client.migrate(other_address(), server_address()).unwrap();
    for _ in 0..100 {
        let _ = paths.server.stream_send(SERVERS_STREAM, &pattern(20_000), false);
        let _ = paths.client.stream_send(CLIENTS_STREAM, &pattern(20_000), false);
        paths.run(10 * MS);
    }
    let queue = paths.client.tack_stats().queueing_delay.unwrap_or_default();
    assert!(queue < 10 * MS, "{queue:?}");
}
