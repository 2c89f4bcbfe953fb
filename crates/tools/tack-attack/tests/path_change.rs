//! What comes back from a path that was left tells nothing of the new one (RFC 9000 section 9.4).

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

use std::time::Duration;

use quiche::ConnectionId;
use tack_attack::{ConnectionIndex, LinkIndex, Network, Setup, Side, client_address, pipe};

const MBPS: f64 = 10.0;
const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_millis(100);

/// A download over a path of one round trip, and a link of another.
fn download(
    network: &mut Network,
    from: Duration,
    to: Duration,
) -> (ConnectionIndex, LinkIndex) {
    let way = |rtt: Duration| pipe(MBPS, rtt / 2, 60_000);
    let first = network.link(&way(from), &way(from));
    let second = network.link(&way(to), &way(to));
    let setup = Setup {
        configure: Some(|config| config.set_active_connection_id_limit(4)),
        ..Setup::tack()
    };
    let connection = network.connect(first, setup, setup);
    network.handshake();
    // A peer needs a new connection id on a new path.
    for id in 1..3 {
        let id = ConnectionId::from_vec(vec![id; tack_attack::CID_LEN]);
        network
            .end_mut(connection, Side::Client)
            .stack
            .quic_mut()
            .new_scid(&id, 1, false)
            .unwrap();
    }
    network.end_mut(connection, Side::Server).to_write = u64::MAX;
    network.run_for(Duration::from_millis(1500));
    (connection, second)
}

/// What the sender takes for the smallest round trip after its receiver has moved, and what came
/// through in the last second in Mbit/s.
fn moved(from: Duration, to: Duration) -> (Duration, f64) {
    let mut network = Network::new(41);
    let (connection, second) = download(&mut network, from, to);
    let before = network.end(connection, Side::Server).stack.stats().min_rtt.unwrap();
    assert!(before >= from && before < from * 5 / 4, "{before:?} on a path of {from:?}");
    network.move_client(connection, client_address(1), second);
    network.run_for(Duration::from_secs(2));
    let read = network.end(connection, Side::Client).read;
    network.run_for(Duration::from_secs(1));
    let goodput = (network.end(connection, Side::Client).read - read) as f64 * 8.0 / 1e6;
    let server = &network.end(connection, Side::Server).stack;
    let active = server.quic().path_stats().find(|path| path.active).unwrap();
    assert_eq!(active.peer_addr, client_address(1), "the server has not followed");
    let min_rtt = server.stats().min_rtt.unwrap();
    println!("from {from:?} to {to:?}: {min_rtt:?}, {goodput:.2} Mbit/s of {MBPS}");
    (min_rtt, goodput)
}

#[test]
fn the_round_trip_of_a_longer_path_is_learned_anew() {
    let (min_rtt, goodput) = moved(SHORT, LONG);
    assert!(min_rtt >= LONG && min_rtt < LONG * 5 / 4, "{min_rtt:?}");
    assert!(goodput >= 0.8 * MBPS, "{goodput} Mbit/s");
}

#[test]
fn the_round_trip_of_a_shorter_path_is_learned_anew() {
    let (min_rtt, goodput) = moved(LONG, SHORT);
    assert!(min_rtt >= SHORT && min_rtt < SHORT * 5 / 4, "{min_rtt:?}");
    assert!(goodput >= 0.8 * MBPS, "{goodput} Mbit/s");
}
