//! Bulk data both ways on one connection over an asymmetric link.

use std::time::Duration;

use tack_attack::{Network, Setup, Side, pipe};
use tack_link::spec::MIN_DEFAULT_PIPE_BUFFER;

/// Rates in Mbit/s and round trip of a link.
#[derive(Clone, Copy)]
struct Path {
    up: f64,
    down: f64,
    rtt: Duration,
}

const MODEM: Path = Path { up: 0.5, down: 20.0, rtt: Duration::from_millis(40) };
const DSL: Path = Path { up: 5.0, down: 50.0, rtt: Duration::from_millis(20) };
const CABLE: Path = Path { up: 10.0, down: 100.0, rtt: Duration::from_millis(20) };

/// What came through, in Mbit/s, and how long a packet waited on the way up.
#[derive(Debug)]
struct Goodput {
    up: f64,
    down: f64,
    up_queue: Duration,
}

/// Start-up is not measured.
const WARM_UP: Duration = Duration::from_secs(3);

/// What a queue holds: a bandwidth-delay product, but no less than tack-link's default.
fn queue(mbps: f64, rtt: Duration) -> u64 {
    ((mbps * 1e6 / 8.0 * rtt.as_secs_f64()) as u64).max(MIN_DEFAULT_PIPE_BUFFER)
}

fn bulk(path: Path, client: Setup, server: Setup, span: Duration) -> Goodput {
    let mut network = Network::new(1);
    let way = |mbps| pipe(mbps, path.rtt / 2, queue(mbps, path.rtt));
    let link = network.link(&way(path.down), &way(path.up));
    let connection = network.connect(link, client, server);
    network.handshake();
    for side in Side::ALL {
        network.end_mut(connection, side).to_write = u64::MAX;
    }
    network.run_for(WARM_UP);
    let read = |network: &Network, side| network.end(connection, side).read;
    let (from, before) = (network.now(), Side::ALL.map(|side| read(&network, side)));
    network.run_for(span);
    let mbps = |side: Side, before| {
        let bytes = read(&network, side) - before;
        bytes as f64 * 8.0 / span.as_secs_f64() / 1e6
    };
    let goodput = Goodput {
        up: mbps(Side::Server, before[1]),
        down: mbps(Side::Client, before[0]),
        up_queue: network.queue(link, Side::Server).quantile(from, 0.95),
    };
    let kinds = (client.kind, server.kind);
    println!("{}/{} Mbit/s, {kinds:?}: {goodput:?}", path.up, path.down);
    goodput
}

/// Shares of the way up and of the way down that TACK reaches at both ends.
fn assert_tack_reaches(path: Path, up: f64, down: f64, span: Duration) {
    let goodput = bulk(path, Setup::tack(), Setup::tack(), span);
    assert!(goodput.down >= down * path.down, "down: {goodput:?}");
    assert!(goodput.up >= up * path.up, "up: {goodput:?}");
    // A queue of one bandwidth-delay product is a wait of one round trip.
    assert!(goodput.up_queue <= path.rtt, "queue: {goodput:?}");
}

#[test]
fn both_ways_of_a_cable_line_are_used() {
    assert_tack_reaches(CABLE, 0.90, 0.85, Duration::from_secs(1));
}

#[test]
fn both_ways_of_a_dsl_line_are_used() {
    assert_tack_reaches(DSL, 0.90, 0.85, Duration::from_secs(3));
}

#[test]
fn both_ways_of_a_very_asymmetric_line_are_used() {
    let span = Duration::from_secs(8);
    let goodput = bulk(MODEM, Setup::tack(), Setup::tack(), span);
    assert!(goodput.down >= 0.60 * MODEM.down, "down: {goodput:?}");
    assert!(goodput.up >= 0.80 * MODEM.up, "up: {goodput:?}");
}

#[test]
fn both_ways_of_lines_between_are_used() {
    let ms = Duration::from_millis;
    for path in [
        Path { up: 0.5, down: 10.0, rtt: ms(40) },
        Path { up: 1.0, down: 20.0, rtt: ms(40) },
        Path { up: 2.0, down: 50.0, rtt: ms(30) },
        Path { up: 5.0, down: 100.0, rtt: ms(20) },
    ] {
        let goodput = bulk(path, Setup::tack(), Setup::tack(), Duration::from_secs(4));
        assert!(goodput.down >= 0.80 * path.down, "down: {goodput:?}");
        assert!(goodput.up >= 0.80 * path.up, "up: {goodput:?}");
    }
}

/// TACK at one end only is plain QUIC on the wire, and must not be slower than that.
fn assert_no_slower_than_plain(path: Path, span: Duration) {
    let (tack, plain) = (Setup::tack(), Setup::plain());
    let sum = |goodput: &Goodput| goodput.up + goodput.down;
    let least = bulk(path, plain, plain, span);
    for (client, server) in [(tack, plain), (plain, tack)] {
        let goodput = bulk(path, client, server, span);
        assert!(sum(&goodput) >= sum(&least), "{goodput:?} is less than {least:?}");
    }
}

#[test]
fn a_cable_line_is_used_as_well_with_a_stock_peer_as_between_stock_peers() {
    assert_no_slower_than_plain(CABLE, Duration::from_secs(2));
}

#[test]
fn a_dsl_line_is_used_as_well_with_a_stock_peer_as_between_stock_peers() {
    assert_no_slower_than_plain(DSL, Duration::from_secs(3));
}

#[test]
fn a_very_asymmetric_line_is_used_as_well_with_a_stock_peer_as_between_stock_peers() {
    assert_no_slower_than_plain(MODEM, Duration::from_secs(8));
}
