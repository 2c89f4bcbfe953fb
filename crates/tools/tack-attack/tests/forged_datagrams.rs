//! Datagrams that nobody with keys has sent, copies of genuine ones, and genuine ones without
//! need: none of them lets more data leave than a probe for each probe timeout.

use std::net::SocketAddr;
use std::time::Duration;

use tack_attack::{
    Conduct, ConnectionIndex, Injection, LinkIndex, Network, PipeConfig, Setup, Side, Verdict,
    attacker_address, client_address, liar, pipe,
};

const ONE_WAY: Duration = Duration::from_millis(20);

/// UDP payload of a packet: what the default setup has.
const PAYLOAD: u64 = 1350;

const FORGED: usize = 10_000;

/// A probe timeout may pass between two looks, and two probes may have left already.
const ALLOWED: u64 = 4 * PAYLOAD;

/// A download over a link of `mbps` whose way up takes whatever there is.
fn download(network: &mut Network, client: Setup) -> (LinkIndex, ConnectionIndex) {
    let up = PipeConfig { rate_bps: None, ..pipe(1.0, ONE_WAY, u64::MAX) };
    let link = network.link(&pipe(20.0, ONE_WAY, 100_000), &up);
    let connection = network.connect(link, client, Setup::tack());
    network.handshake();
    network.end_mut(connection, Side::Server).to_write = u64::MAX;
    (link, connection)
}

/// What looks like a packet of the handshake.
fn long_header(first_byte: u8, version: u32, dcid: &[u8], len: usize) -> Vec<u8> {
    let mut datagram = vec![first_byte];
    datagram.extend_from_slice(&version.to_be_bytes());
    datagram.push(dcid.len() as u8);
    datagram.extend_from_slice(dcid);
    datagram.push(0);
    datagram.resize(datagram.len().max(len), 0x01);
    datagram.truncate(len);
    datagram
}

/// How much more is in flight after so many datagrams have come to the server at one moment.
fn added_by(forge: impl Fn(usize, &[u8]) -> Vec<u8>, source: SocketAddr) -> u64 {
    let mut network = Network::new(3);
    let (_, connection) = download(&mut network, Setup::tack());
    network.run_for(Duration::from_secs(1));
    let server = network.end(connection, Side::Server);
    let dcid = server.stack.quic().source_id().to_vec();
    let before = server.in_flight();
    for number in 0..FORGED {
        let bytes = forge(number, &dcid);
        let after = Duration::ZERO;
        network.inject(connection, Injection { after, recipient: Side::Server, source, bytes });
    }
    network.run_for(Duration::from_nanos(1));
    let server = network.end(connection, Side::Server);
    assert_eq!(server.closed_with(), None);
    let after = server.in_flight();
    println!("{before} bytes in flight before, {after} after {FORGED} datagrams");
    after.saturating_sub(before)
}

#[test]
fn forged_long_headers_add_no_packets() {
    // Initial, 0-RTT, Handshake, Retry, and a version that is negotiated.
    let kinds = [(0xc0, 1), (0xd0, 1), (0xe0, 1), (0xf0, 1), (0x80, 0)];
    for len in [25, 1200] {
        let forge = |number: usize, dcid: &[u8]| {
            let (first_byte, version) = kinds[number % kinds.len()];
            long_header(first_byte, version, dcid, len)
        };
        let added = added_by(forge, client_address(0));
        assert!(added <= ALLOWED, "{added} bytes after datagrams of {len} bytes");
    }
}

#[test]
fn forged_datagrams_of_any_kind_from_any_address_add_no_packets() {
    let forge = |number: usize, dcid: &[u8]| {
        let first_byte = (number % 256) as u8;
        let mut datagram = long_header(first_byte, 1, dcid, 21 + number % 200);
        if first_byte & 0x80 == 0 {
            // A short header has its connection id right behind the first byte.
            datagram.splice(1..6, []);
        }
        datagram
    };
    for source in [client_address(0), attacker_address()] {
        let added = added_by(forge, source);
        assert!(added <= ALLOWED, "{added} bytes");
    }
}

#[test]
fn max_data_from_the_peer_adds_no_packets() {
    let mut network = Network::new(3);
    let puppet = Setup::puppet();
    let (_, connection) = download(&mut network, puppet);
    network.run_for(Duration::from_millis(200));
    let conduct = Conduct::Honest(Duration::from_millis(10));
    network.end_mut(connection, Side::Client).puppet().let_loose(conduct);
    network.run_for(Duration::from_millis(800));
    let puppet = network.end_mut(connection, Side::Client).puppet();
    for number in 0..FORGED {
        puppet.say(liar::max_data((64 << 20) + number as u64));
    }
    network.run_for(ONE_WAY.saturating_sub(Duration::from_nanos(1)));
    let before = network.end(connection, Side::Server).in_flight();
    network.run_for(Duration::from_nanos(2));
    let after = network.end(connection, Side::Server).in_flight();
    println!("{before} bytes in flight before, {after} after {FORGED} datagrams");
    assert_eq!(network.end(connection, Side::Server).closed_with(), None);
    assert!(before > 10 * PAYLOAD, "{before}: no download");
    assert!(after.saturating_sub(before) <= ALLOWED, "{before} in flight, then {after}");
}

/// The most that was in flight at the sender while the receiver's datagrams were copied, and how
/// many copies there were.
fn most_in_flight(copies: usize, source: SocketAddr) -> u64 {
    let mut network = Network::new(5);
    let (_, connection) = download(&mut network, Setup::tack());
    network.run_for(Duration::from_secs(1));
    network.end_mut(connection, Side::Server).most_in_flight = 0;
    network.tap(connection, move |sighting, injections| {
        if sighting.sender == Side::Client {
            let copy = Injection {
                after: ONE_WAY / 2,
                recipient: Side::Server,
                source,
                bytes: sighting.bytes.to_vec(),
            };
            injections.extend(std::iter::repeat_n(copy, copies));
        }
        Verdict::Pass
    });
    network.run_for(Duration::from_secs(2));
    let most = network.end(connection, Side::Server).most_in_flight;
    println!("{copies} copies from {source}: {most} bytes in flight at most");
    most
}

#[test]
fn copies_of_genuine_datagrams_that_come_first_add_no_packets() {
    let undisturbed = most_in_flight(0, client_address(0));
    // 50 TACKs a second.
    for source in [client_address(0), attacker_address()] {
        let raced = most_in_flight(100, source);
        assert!(raced <= undisturbed + ALLOWED, "{raced} instead of {undisturbed}");
    }
}

/// What an honest rival gets, in Mbit/s, while another connection's sender is attacked.
fn rival_goodput(attack: Attack) -> f64 {
    let mut network = Network::new(11);
    let kind = match attack {
        Attack::MaxData => Setup::puppet(),
        Attack::None | Attack::LongHeaders => Setup::tack(),
    };
    let (link, victim) = download(&mut network, kind);
    let rival = network.connect(link, Setup::tack(), Setup::tack());
    network.handshake();
    network.end_mut(rival, Side::Server).to_write = u64::MAX;
    // As long as it takes to share the link.
    network.run_for(Duration::from_secs(3));
    if attack == Attack::MaxData {
        let conduct = Conduct::Honest(Duration::from_millis(10));
        network.end_mut(victim, Side::Client).puppet().let_loose(conduct);
    }
    let before = network.end(rival, Side::Client).read;
    let dcid = network.end(victim, Side::Server).stack.quic().source_id().to_vec();
    for number in 0..FORGED {
        match attack {
            Attack::None => {}
            Attack::LongHeaders => network.inject(
                victim,
                Injection {
                    after: Duration::ZERO,
                    recipient: Side::Server,
                    source: client_address(0),
                    bytes: long_header(0xc0, 1, &dcid, 25),
                },
            ),
            Attack::MaxData => {
                let puppet = network.end_mut(victim, Side::Client).puppet();
                puppet.say(liar::max_data((64 << 20) + number as u64));
            }
        }
        network.run_for(Duration::from_micros(200));
    }
    let seconds = FORGED as f64 * 200e-6;
    let bytes = network.end(rival, Side::Client).read - before;
    let goodput = bytes as f64 * 8.0 / seconds / 1e6;
    println!("{attack:?}: the rival gets {goodput:.2} Mbit/s of 20");
    goodput
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    None,
    LongHeaders,
    MaxData,
}

#[test]
fn an_honest_rival_keeps_its_half() {
    let undisturbed = rival_goodput(Attack::None);
    // Packets of a peer with keys are acknowledged, and 5,000 of them a second take some Mbit/s.
    for (attack, share) in [(Attack::LongHeaders, 0.9), (Attack::MaxData, 0.6)] {
        let goodput = rival_goodput(attack);
        assert!(
            goodput >= share * undisturbed,
            "{goodput} of {undisturbed} Mbit/s: {attack:?}"
        );
    }
}
