//! What a packet costs in CPU time and memory does not grow with what is open or in flight.
//!
//! CPU time is that of the thread, and what is held against a bound is a ratio of medians of the
//! same build: neither the machine nor other load on it counts.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

use std::time::Duration;

use quiche::RecvInfo;
use rustix::time::{ClockId, clock_gettime};
use tack_attack::{
    Conduct, ConnectionIndex, Kind, Network, PipeConfig, Setup, Side, client_address, liar,
    pipe, server_address,
};
use tacklib::Profile;

/// A cost may grow by this factor where the state grows by a multiple of it.
const GROWTH: f64 = 3.0;

/// What this thread has cost so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn median(mut costs: Vec<Duration>) -> Duration {
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// A server, and a puppet as its client, on a fast link of this round trip.
fn connect(network: &mut Network, mbps: f64, rtt: Duration, window: u64) -> ConnectionIndex {
    let way = PipeConfig { buffer_bytes: u64::MAX, ..pipe(mbps, rtt / 2, 0) };
    let link = network.link(&way, &way);
    let setup = |kind| Setup {
        window,
        configure: Some(|config| config.set_initial_max_streams_uni(100_000)),
        ..Setup::new(kind)
    };
    let server = setup(Kind::Tack(Profile::Default));
    let connection = network.connect(link, setup(Kind::Puppet(Profile::Default)), server);
    network.handshake();
    connection
}

/// Gives the server a datagram and takes what it answers: the CPU time of both.
fn cost_of(network: &mut Network, connection: ConnectionIndex, datagram: Vec<u8>) -> Duration {
    try_cost_of(network, connection, datagram).unwrap()
}

/// The same, if the server takes the datagram.
fn try_cost_of(
    network: &mut Network,
    connection: ConnectionIndex,
    mut datagram: Vec<u8>,
) -> quiche::Result<Duration> {
    let server = network.end_mut(connection, Side::Server).tack();
    let info = RecvInfo { from: client_address(0), to: server_address() };
    let mut buffer = [0; 1500];
    let start = cpu_time();
    server.recv(&mut datagram, info)?;
    while server.send(&mut buffer).is_ok() {}
    Ok(cpu_time().saturating_sub(start))
}

/// A server with so many open streams, all of whose data has been acknowledged.
fn with_streams(network: &mut Network, streams: u64) -> ConnectionIndex {
    let connection = connect(network, 1000.0, Duration::from_millis(2), 64 << 20);
    let server = network.end_mut(connection, Side::Server).tack();
    for stream in 0..streams {
        server.stream_send(4 * stream + FIRST_STREAM, b"!", false).unwrap();
    }
    network.run_for(Duration::from_secs(1));
    network.end_mut(connection, Side::Client).puppet().let_loose(Conduct::Silent);
    connection
}

/// The first that is not the bulk stream of the server's application.
const FIRST_STREAM: u64 = 7;

/// Median cost of a packet with these frames, with so many open streams.
fn packet_cost(streams: u64, frames: &[u8]) -> Duration {
    let mut network = Network::new(67);
    let connection = with_streams(&mut network, streams);
    let costs = (0..301).map(|_| {
        let datagram = network.end_mut(connection, Side::Client).puppet().datagram(frames);
        cost_of(&mut network, connection, datagram)
    });
    let cost = median(costs.collect());
    println!("{streams} streams: a packet costs {cost:?}");
    cost
}

/// Median cost of a write, with so many open streams.
fn write_cost(streams: u64) -> Duration {
    let mut network = Network::new(67);
    let connection = with_streams(&mut network, streams);
    let costs = (0..301).map(|_| {
        let server = network.end_mut(connection, Side::Server).tack();
        let start = cpu_time();
        server.stream_send(FIRST_STREAM, b"!", false).unwrap();
        cpu_time().saturating_sub(start)
    });
    let cost = median(costs.collect());
    println!("{streams} streams: a write costs {cost:?}");
    cost
}

fn assert_no_dearer(few: Duration, many: Duration) {
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    assert!(ratio <= GROWTH, "{ratio:.1} times as much");
}

/// With a packet that asks for nothing: quiche's debug assertions walk over all streams where it
/// sends or is written to.
#[test]
fn open_streams_do_not_make_packets_dearer() {
    let padding = [0; 20];
    assert_no_dearer(packet_cost(100, &padding), packet_cost(4_000, &padding));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "quiche's debug assertions walk over all streams")]
fn open_streams_do_not_make_answers_and_writes_dearer() {
    assert_no_dearer(packet_cost(100, &liar::ping()), packet_cost(10_000, &liar::ping()));
    assert_no_dearer(write_cost(100), write_cost(10_000));
}

/// In flight, this is near the most that the layer allows.
const MANY_PACKETS: u64 = 18_000;

/// Median cost of a packet full of IACKs behind so long a path, and how many packets had been in
/// flight when they were acknowledged.
fn full_of_iacks(mbps: f64, rtt: Duration, bytes: u64) -> (Duration, u64) {
    let mut network = Network::new(71);
    let connection = connect(&mut network, mbps, rtt, 256 << 20);
    network.run_for(2 * rtt);
    let puppet = network.end_mut(connection, Side::Client).puppet();
    puppet.let_loose(Conduct::Honest(Duration::from_millis(10)));
    network.end_mut(connection, Side::Server).to_write = bytes;
    network.run_while(Duration::from_secs(20), |network| {
        let server = network.end(connection, Side::Server);
        server.sent.1 < bytes && server.in_flight() / 1350 < MANY_PACKETS
    });
    // What is in flight now is acknowledged at once, and nothing is sent behind it.
    network.end_mut(connection, Side::Client).puppet().set_conduct(Conduct::Silent);
    network.run_for(rtt / 2);
    network.end_mut(connection, Side::Server).to_write = 0;
    let settled = network.end(connection, Side::Server).in_flight() / 1350;
    let now = network.instant();
    let puppet = network.end_mut(connection, Side::Client).puppet();
    let mut report = puppet.report(now);
    report.sequence = 1_000_000;
    puppet.say(report.tack());
    network.run_for(rtt / 2 + Duration::from_millis(1));
    let iack = report.iack();
    let frames = iack.repeat(1200 / iack.len());
    let costs = (0..101).map(|_| {
        let datagram = network.end_mut(connection, Side::Client).puppet().datagram(&frames);
        cost_of(&mut network, connection, datagram)
    });
    let cost = median(costs.collect());
    println!("{settled} packets: {cost:?} for {} IACKs", frames.len() / iack.len());
    (cost, settled)
}

#[test]
fn packets_in_flight_do_not_make_acknowledgements_dearer() {
    let (few, fewer) = full_of_iacks(100.0, Duration::from_millis(20), 2 << 20);
    let (many, more) = full_of_iacks(100.0, Duration::from_millis(400), 10 << 20);
    assert!(more >= 8 * fewer, "{more} and {fewer} packets");
    assert_no_dearer(few, many);
}

/// No packet may cost more: for a release build on an idle machine.
const MOST: Duration = Duration::from_micros(100);

#[test]
#[ignore = "an absolute time, and 20 MB in flight: for a release build on an idle machine"]
fn no_packet_costs_more_than_100_microseconds() {
    let (ping, write) = (packet_cost(10_000, &liar::ping()), write_cost(10_000));
    let (iacks, settled) = full_of_iacks(1000.0, Duration::from_millis(400), 160 << 20);
    assert!(settled > 15_000, "{settled} packets");
    for cost in [ping, write, iacks] {
        assert!(cost <= MOST, "{cost:?}");
    }
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// How much memory a server takes for so many packets of a hostile peer, or until it refuses one; the
/// number of that.
fn memory_after(packets: u64) -> (u64, Option<u64>) {
    let mut network = Network::new(73);
    // What flow control lets a peer store is not the layer's affair.
    let connection = connect(&mut network, 100.0, Duration::from_millis(2), 1 << 20);
    network.end_mut(connection, Side::Server).to_write = 30_000;
    network.run_for(Duration::from_millis(200));
    let now = network.instant();
    let puppet = network.end_mut(connection, Side::Client).puppet();
    puppet.let_loose(Conduct::Silent);
    let mut report = puppet.report(now);
    let mut refused = None;
    let before = resident();
    for number in 0..packets {
        let puppet = network.end_mut(connection, Side::Client).puppet();
        // Each leaves a range of its own.
        puppet.skip(1);
        report.sequence = number + 1000;
        let scattered = number.wrapping_mul(7919) % (60 << 10);
        let frames = match number % 8 {
            0 => liar::ping(),
            1 => liar::stream(6, scattered, b"!"),
            // Streams up to the limit, with a hole in front.
            2 => liar::stream(10 + 4 * (number / 8 % 100), 1, b"!"),
            3 => liar::path_challenge(number),
            4 => report.tack(),
            5 => liar::ack_frequency(number),
            6 => report.iack(),
            _ => liar::max_data(number),
        };
        let datagram = puppet.datagram(&frames);
        if let Err(error) = try_cost_of(&mut network, connection, datagram) {
            println!("refused packet {number}: {error}");
            let server = network.end(connection, Side::Server);
            assert_eq!(server.closed_with(), Some(PROTOCOL_VIOLATION));
            refused = Some(number);
            break;
        }
        if number % 100 == 0 {
            network.run_for(Duration::from_millis(1));
        }
    }
    let grown = resident().saturating_sub(before);
    println!("{packets} packets: {} KiB more", grown >> 10);
    (grown, refused)
}

/// What a peer that acknowledges nothing is told (TACK-7-16).
const PROTOCOL_VIOLATION: u64 = 0x0a;

/// Of one connection, whatever its peer does. quiche keeps each packet that it sent, one that only
/// acknowledges too, until the peer acknowledges that or a later one.
const MOST_MEMORY: u64 = 64 << 20;

#[test]
fn memory_of_a_connection_is_bounded_whatever_its_peer_sends() {
    let (grown, refused) = memory_after(110_000);
    assert!(grown <= MOST_MEMORY, "{} MiB", grown >> 20);
    assert!(refused.is_some(), "it has acknowledged nothing (TACK-7-16)");
}

#[test]
#[ignore = "ten million packets"]
fn memory_of_a_connection_is_bounded_after_ten_million_hostile_packets() {
    let (grown, _) = memory_after(10_000_000);
    assert!(grown <= MOST_MEMORY, "{} MiB", grown >> 20);
}
