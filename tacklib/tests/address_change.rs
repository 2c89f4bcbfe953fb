//! A server whose client's address changes validates the new path (RFC 9000 section 8.2), and loses
//! nothing over it.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use common::*;
use tacklib::{Config, Connection};

const ONE_WAY: Duration = Duration::from_millis(10);

/// Room for the largest TACK beside a full packet would leave less than the 1,200 bytes that a
/// challenge needs.
const PACKET: usize = 1350;

fn new_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 4011))
}

fn config() -> Config {
    let mut config = tack_config();
    config.set_max_send_udp_payload_size(PACKET);
    config.set_max_recv_udp_payload_size(PACKET);
    config.set_initial_max_data(1 << 30);
    config.set_initial_max_stream_data_uni(1 << 30);
    config.set_initial_max_streams_uni(1 << 20);
    config.set_active_connection_id_limit(4);
    // The timer of a path that has not been measured.
    config.set_initial_rtt(2 * ONE_WAY);
    config
}

/// A connection on which the server always has data to send, and the client a short stream every
/// millisecond, whose end asks for an acknowledgement at once.
struct Exchange {
    pair: Pair<Connection, Connection>,
    next_stream: u64,
    is_lossy: Rc<Cell<bool>>,
    /// Datagrams sent to the client.
    sent: Rc<Cell<usize>>,
}

impl Exchange {
    fn new() -> Self {
        let mut config = config();
        let (client, server) = (tack_client(&mut config), tack_server(&mut config));
        let mut pair = Pair::new(client, server).with_delay(ONE_WAY).with_rate(20);
        let (is_lossy, sent) = (Rc::<Cell<bool>>::default(), Rc::<Cell<usize>>::default());
        let (loses, counter) = (Rc::clone(&is_lossy), Rc::clone(&sent));
        pair.tamper_down(Box::new(move |datagram| {
            counter.set(counter.get() + 1);
            (!loses.get()).then_some(datagram)
        }));
        pair.handshake();
        for id in 1..3_u8 {
            let id = quiche::ConnectionId::from_vec(vec![0xc1 + id; 16]);
            pair.client.new_scid(&id, 1, false).unwrap();
        }
        let mut exchange = Self { pair, next_stream: 2, is_lossy, sent };
        exchange.run_for(Duration::from_millis(200));
        exchange
    }

    fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        self.run_until(|_| Instant::now() >= end);
    }

    fn run_until(&mut self, mut done: impl FnMut(&mut Pair<Connection, Connection>) -> bool) {
        let (data, mut buffer) = (pattern(1 << 16), vec![0; 1 << 16]);
        let (next_stream, mut next) = (&mut self.next_stream, Instant::now());
        self.pair.run_until(|pair| {
            if next <= Instant::now() {
                next = Instant::now() + Duration::from_millis(1);
                pair.client.write(*next_stream, b"?", true);
                *next_stream += 4;
            }
            while pair.server.write(3, &data, false) > 0 {}
            while pair.client.read(3, &mut buffer).is_ok() {}
            let asked: Vec<u64> = pair.server.readable().collect();
            for id in asked {
                while pair.server.read(id, &mut buffer).is_ok() {}
            }
            let errors = (pair.server.local_error(), pair.client.local_error());
            assert!(errors == (None, None), "{errors:?}");
            done(pair)
        });
    }
}

/// Whether the server knows that the client is where it says, and that full packets get there.
fn is_validated(server: &Connection) -> bool {
    server.is_path_validated(server_address(), new_address()) == Ok(true)
}

/// Where the server sends data to.
fn destination(server: &Connection) -> SocketAddr {
    server.path_stats().find(|path| path.active).unwrap().peer_addr
}

#[test]
fn a_challenge_beside_a_tack_is_large_enough_to_validate_the_path() {
    let mut exchange = Exchange::new();
    exchange.pair.rebind(new_address());
    exchange.sent.set(0);
    exchange.run_until(|pair| is_validated(&pair.server));
    // One round trip for the address, with what little may leave then, and one for its MTU, with
    // the 40 packets that the rate lets through, and what Startup sends ahead of it.
    assert!(exchange.sent.get() < 200, "{} datagrams sent", exchange.sent.get());
}

#[test]
fn a_challenge_is_answered_with_a_packet_of_full_length() {
    let mut exchange = Exchange::new();
    let longest = Rc::<Cell<usize>>::default();
    let seen = Rc::clone(&longest);
    exchange.pair.tamper_up(Box::new(move |datagram| {
        seen.set(seen.get().max(datagram.len()));
        Some(datagram)
    }));
    exchange.run_for(Duration::from_millis(50));
    assert!(longest.get() < 200, "{} bytes without a challenge", longest.get());
    exchange.pair.rebind(new_address());
    exchange.run_until(|pair| is_validated(&pair.server));
    assert_eq!(longest.get(), 1200);
}

#[test]
fn a_new_address_is_sent_three_times_what_came_from_there_and_no_more_until_it_is_proven() {
    let mut exchange = Exchange::new();
    exchange.pair.rebind(new_address());
    exchange.is_lossy.set(true);
    exchange.run_until(|pair| {
        let (received, sent) = pair.bytes(new_address());
        assert!(sent <= 3 * received, "{sent} bytes after {received}");
        sent > 1000 && destination(&pair.server) == client_address()
    });
}

#[test]
fn a_server_that_cannot_reach_the_new_address_for_a_while_goes_on_when_it_can() {
    let mut exchange = Exchange::new();
    exchange.pair.rebind(new_address());
    exchange.run_until(|pair| destination(&pair.server) == new_address());
    // quiche gives a path up when its timer expires, and goes back to the one before.
    exchange.is_lossy.set(true);
    exchange.run_until(|pair| destination(&pair.server) == client_address());
    exchange.is_lossy.set(false);
    // The client goes on from there, with more than one datagram before the server can challenge it.
    exchange.pair.hold_up(true);
    exchange.run_for(Duration::from_secs(2));
    exchange.pair.hold_up(false);
    exchange.run_until(|pair| is_validated(&pair.server));
    assert_eq!(destination(&exchange.pair.server), new_address());
    let sent = Rc::clone(&exchange.sent);
    sent.set(0);
    exchange.run_until(|_| sent.get() > 100);
}

#[test]
fn a_challenge_that_was_lost_on_a_path_since_left_does_not_hold_up_the_next_one() {
    let mut exchange = Exchange::new();
    let third = SocketAddr::from((Ipv4Addr::LOCALHOST, 4013));
    exchange.pair.rebind(new_address());
    exchange.is_lossy.set(true);
    exchange.run_for(Duration::from_millis(40));
    exchange.pair.rebind(third);
    exchange.run_for(Duration::from_millis(5));
    exchange.is_lossy.set(false);
    let sent = Rc::clone(&exchange.sent);
    sent.set(0);
    let start = Instant::now();
    exchange.run_until(|_| sent.get() > 100);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(destination(&exchange.pair.server), third);
}

/// Writes the next datagram once the pacer lets it leave; its length.
fn wait_for_packet(end: &mut Connection, datagram: &mut [u8]) -> usize {
    for _ in 0..1000 {
        match end.send(datagram) {
            Ok((len, _)) => return len,
            Err(error) => assert_eq!(error, quiche::Error::Done),
        }
        advance(Duration::from_millis(1));
    }
    panic!("nothing leaves");
}

#[test]
fn a_client_that_owes_a_tack_challenges_another_path_with_a_packet_of_full_length() {
    let mut config = config();
    let mut pair = Pair::new(tack_client(&mut config), tack_server(&mut config));
    pair.handshake();
    let id = quiche::ConnectionId::from_vec(vec![0x5f; 16]);
    pair.server.new_scid(&id, 1, false).unwrap();
    pair.client.new_scid(&quiche::ConnectionId::from_vec(vec![0xc2; 16]), 1, false).unwrap();
    transfer(&mut pair, 3, 100_000, true);
    // The end of a stream is to be acknowledged at once.
    pair.server.stream_send(7, b"!", true).unwrap();
    let mut datagram = vec![0; PACKET];
    let len = wait_for_packet(&mut pair.server, &mut datagram);
    let info = quiche::RecvInfo { from: server_address(), to: client_address() };
    pair.client.recv(&mut datagram[..len], info).unwrap();
    assert!(pair.client.readable().any(|id| id == 7));
    pair.client.probe_path(new_address(), server_address()).unwrap();
    let (len, info) = pair.client.send(&mut datagram).unwrap();
    assert_eq!(info.from, new_address());
    assert!(len >= 1200, "{len} bytes");
}

/// Passes all but thirty per cent of the datagrams while it `is_lossy`, and counts them.
fn lossy(
    is_lossy: &Rc<Cell<bool>>,
    count: &Rc<Cell<usize>>,
    seed: u64,
) -> impl FnMut(Vec<u8>) -> Option<Vec<u8>> + use<> {
    let (is_lossy, count, mut state) = (Rc::clone(is_lossy), Rc::clone(count), seed);
    move |datagram| {
        count.set(count.get() + 1);
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let is_lost = is_lossy.get() && state % 100 < 30;
        (!is_lost).then_some(datagram)
    }
}

/// A PATH_RESPONSE may be lost though its challenge has arrived, and is not sent again (RFC 9000 section 13.3).
#[test]
fn an_address_whose_answer_was_lost_is_asked_again_and_not_answered_packet_by_packet() {
    for seed in 1..=8 {
        let mut config = config();
        config.set_active_connection_id_limit(16);
        let (client, server) = (tack_client(&mut config), tack_server(&mut config));
        let mut pair = Pair::new(client, server).with_delay(2 * ONE_WAY).with_rate(50);
        let (is_lossy, up, down) =
            (Rc::<Cell<bool>>::default(), Rc::<Cell<usize>>::default(), Rc::default());
        pair.tamper_up(Box::new(lossy(&is_lossy, &up, 104_729 * seed)));
        pair.tamper_down(Box::new(lossy(&is_lossy, &down, 7919 * seed)));
        pair.handshake();
        let (data, mut buffer) = (pattern(1 << 16), vec![0; 1 << 16]);
        let mut upload = |pair: &mut Pair<Connection, Connection>, ms| {
            let end = Instant::now() + Duration::from_millis(ms);
            pair.run_until(|pair| {
                while pair.client.write(2, &data, false) > 0 {}
                while pair.server.read(2, &mut buffer).is_ok() {}
                Instant::now() >= end
            });
        };
        upload(&mut pair, 1000);
        is_lossy.set(true);
        for port in 5000..5008 {
            pair.rebind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            upload(&mut pair, 40);
        }
        upload(&mut pair, 400);
        is_lossy.set(false);
        upload(&mut pair, 1000);
        let (up_before, down_before) = (up.get(), down.get());
        upload(&mut pair, 1000);
        let (up, down) = (up.get() - up_before, down.get() - down_before);
        assert!(up > 3000 && down < up / 20, "{down} datagrams for {up}, seed {seed}");
    }
}

#[test]
fn another_port_is_answered_where_connection_ids_differ_in_length() {
    for cid_len in [1, 8, 20] {
        let mut config = config();
        let mut pair = Pair::new(tack_client(&mut config), tack_server(&mut config));
        pair.handshake();
        assert_ne!(cid_len, pair.server.destination_id().len());
        let id = vec![0xc2; cid_len];
        pair.client.new_scid(&quiche::ConnectionId::from_ref(&id), 1, false).unwrap();
        let of_server = quiche::ConnectionId::from_vec(vec![0x5f; 16]);
        pair.server.new_scid(&of_server, 1, false).unwrap();
        transfer(&mut pair, 3, 100_000, true);
        // All is acknowledged, and the client's next packet does nothing but probe.
        let settled = Instant::now() + Duration::from_millis(200);
        pair.run_until(|_| Instant::now() >= settled);
        let mut other_port = client_address();
        other_port.set_port(other_port.port() + 1);
        pair.client.probe_path(other_port, server_address()).unwrap();
        let mut datagram = vec![0; PACKET];
        let (len, info) = pair.client.send(&mut datagram).unwrap();
        assert_eq!(info.from, other_port);
        let info = quiche::RecvInfo { from: other_port, to: server_address() };
        pair.server.recv(&mut datagram[..len], info).unwrap();
        assert_eq!(destination(&pair.server), client_address(), "it has not moved");
        let mut answers = 0;
        while let Ok((len, info)) = pair.server.send(&mut datagram) {
            assert!(len > 1 + cid_len);
            answers += u32::from(info.to == other_port && datagram[1..=cid_len] == id);
        }
        assert!(answers > 0, "ids of {cid_len} bytes: no packet leaves");
    }
}
