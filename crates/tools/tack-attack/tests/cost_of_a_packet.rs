//! What a packet costs in CPU time does not grow with what is open or in flight.
//!
//! CPU time is that of the thread, and what is held against a bound is a ratio of medians of the
//! same build: neither the machine nor other load on it counts.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use quiche::Shutdown;
use tack_attack::{Conduct, ConnectionIndex, Network, Side, liar};

/// A cost may grow by this factor where the state grows by a multiple of it.
const GROWTH: f64 = 3.0;

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

/// The cost of a packet with so many TACKs of which so many have bubbles, where more packets are in flight than one TACK
/// is held against.
fn full_of_bubbles(tacks: usize, with_bubbles: usize) -> Duration {
    let costs = (0..5).map(|seed| {
        let mut network = Network::new(79 + seed);
        let rtt = Duration::from_millis(400);
        let connection = connect(&mut network, 100.0, rtt, 256 << 20);
        network.run_for(2 * rtt);
        let puppet = network.end_mut(connection, Side::Client).puppet();
        puppet.let_loose(Conduct::Honest(Duration::from_millis(10)));
        network.end_mut(connection, Side::Server).to_write = 20 << 20;
        network.run_while(Duration::from_secs(20), |network| {
            network.end(connection, Side::Server).in_flight() / 1350 < 2500
        });
        network.end_mut(connection, Side::Client).puppet().set_conduct(Conduct::Silent);
        network.run_for(rtt / 2);
        let now = network.instant();
        let puppet = network.end_mut(connection, Side::Client).puppet();
        let mut report = puppet.report(now);
        report.ranges.truncate(1);
        let newest = *report.ranges[0].end();
        report.ranges = vec![newest..=newest];
        let frames = (0..tacks).flat_map(|at| {
            report.sequence = 1_000_000 + at as u64;
            // The server's bulk data is on its first unidirectional stream.
            report.bubbles = if at < with_bubbles { vec![(3, 0..1)] } else { Vec::new() };
            report.tack()
        });
        let datagram = puppet.datagram(&frames.collect::<Vec<_>>());
        cost_of(&mut network, connection, datagram)
    });
    let cost = median(costs.collect());
    println!("{with_bubbles} of {tacks} TACKs with bubbles: {cost:?}");
    cost
}

#[test]
fn packets_are_held_against_the_bubbles_of_one_tack_and_no_more() {
    assert_no_dearer(full_of_bubbles(40, 1), full_of_bubbles(40, 40));
}

/// A server with a client that says what a test wants.
fn with_puppet(seed: u64) -> (Network, ConnectionIndex) {
    let mut network = Network::new(seed);
    let connection = connect(&mut network, 100.0, Duration::from_millis(2), 1 << 30);
    network.run_for(Duration::from_millis(100));
    let puppet = network.end_mut(connection, Side::Client).puppet();
    puppet.let_loose(Conduct::Silent);
    (network, connection)
}

/// What a packet with these frames costs the server.
fn say(network: &mut Network, connection: ConnectionIndex, frames: &[u8]) -> Duration {
    let datagram = network.end_mut(connection, Side::Client).puppet().datagram(frames);
    cost_of(network, connection, datagram)
}

/// What is read of a stream, and dropped of it.
fn read(network: &mut Network, connection: ConnectionIndex, stream: u64) {
    let server = network.end_mut(connection, Side::Server).tack();
    while server.stream_recv(stream, &mut [0; 2000]).is_ok() {}
}

#[test]
fn a_stream_that_is_reset_behind_its_end_again_and_again_is_filled_once() {
    const END: u64 = 250_000;
    let (mut network, connection) = with_puppet(83);
    // Nothing of it has come but the end.
    say(&mut network, connection, &liar::stream_end(6, END));
    say(&mut network, connection, &liar::reset_stream(6, END));
    let mut cost = |frames: &[u8]| {
        median((0..101).map(|_| say(&mut network, connection, frames)).collect())
    };
    let (ping, again) = (cost(&liar::ping()), cost(&liar::reset_stream(6, END)));
    println!("{ping:?}, and {again:?} with a reset");
    assert_no_dearer(ping, again);
}

/// The most that a packet costs while a stream of this length is filled that was reset and lacks all, or all but so many
/// pieces of a byte.
fn full_of_zeros(len: u64, pieces: u64) -> Duration {
    let most = (0..5).map(|seed| {
        let (mut network, connection) = with_puppet(89 + seed);
        // What comes lets as much of a stream be filled, and more.
        for _ in 0..2_000 {
            say(&mut network, connection, &[0; 1200]);
        }
        say(&mut network, connection, &liar::stream_end(6, len));
        for pieces in (0..pieces).collect::<Vec<_>>().chunks(150) {
            let frames = pieces.iter().flat_map(|at| liar::stream(6, 2 * at + 1, b"!"));
            say(&mut network, connection, &frames.collect::<Vec<_>>());
        }
        let mut most = say(&mut network, connection, &liar::reset_stream(6, len));
        for _ in 0..100 {
            read(&mut network, connection, 6);
            most = most.max(say(&mut network, connection, &[0; 1200]));
        }
        most
    });
    let cost = median(most.collect());
    println!("{len} bytes of a stream, {pieces} pieces of which have come: {cost:?}");
    cost
}

#[test]
fn long_streams_that_are_reset_behind_their_end_do_not_make_packets_dearer() {
    assert_no_dearer(full_of_zeros(10_000, 0), full_of_zeros(4_000_000, 0));
}

#[test]
fn streams_of_many_pieces_that_are_reset_behind_their_end_do_not_make_packets_dearer() {
    assert_no_dearer(full_of_zeros(100_000, 5_000), full_of_zeros(200_000, 50_000));
}

/// Median cost of a packet while so many streams wait that were reset.
fn beside_reset_streams(streams: u64, is_read: bool) -> Duration {
    let (mut network, connection) = with_puppet(97);
    let ids: Vec<u64> = (0..streams).map(|at| 4 * at + 6).collect();
    for ids in ids.chunks(100) {
        let ends = ids.iter().flat_map(|id| liar::stream_end(*id, 100_000));
        say(&mut network, connection, &ends.collect::<Vec<_>>());
        let resets = ids.iter().flat_map(|id| liar::reset_stream(*id, 100_000));
        say(&mut network, connection, &resets.collect::<Vec<_>>());
    }
    ids.iter().filter(|_| is_read).for_each(|id| read(&mut network, connection, *id));
    let costs = (0..301).map(|_| say(&mut network, connection, &[0; 40]));
    let cost = median(costs.collect());
    println!("{streams} streams, read {is_read}: a packet costs {cost:?}");
    cost
}

#[test]
fn streams_that_wait_to_be_filled_do_not_make_packets_dearer() {
    for is_read in [false, true] {
        assert_no_dearer(
            beside_reset_streams(100, is_read),
            beside_reset_streams(2_000, is_read),
        );
    }
}

/// Median cost of a packet beside so many streams that the server has done something with.
fn beside_streams(
    streams: u64,
    frames: &[u8],
    mut has: impl FnMut(&mut tacklib::Connection, u64),
) -> Duration {
    let (mut network, connection) = with_puppet(101);
    let ids: Vec<u64> = (0..streams).collect();
    for ids in ids.chunks(100) {
        let begins = ids.iter().flat_map(|at| liar::stream(4 * at + 6, 0, b"!"));
        say(&mut network, connection, &begins.collect::<Vec<_>>());
    }
    for at in ids {
        has(network.end_mut(connection, Side::Server).tack(), at);
    }
    let costs = (0..301).map(|_| say(&mut network, connection, frames));
    let cost = median(costs.collect());
    println!("{streams} streams: a packet costs {cost:?}");
    cost
}

#[test]
#[cfg_attr(debug_assertions, ignore = "quiche's debug assertions walk over all streams")]
fn streams_that_were_stopped_and_do_not_end_do_not_make_answers_dearer() {
    let cost = |streams| {
        beside_streams(streams, &liar::ping(), |server, at| {
            server.stream_shutdown(4 * at + 6, Shutdown::Read, 9).unwrap();
        })
    };
    assert_no_dearer(cost(100), cost(10_000));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "quiche's debug assertions walk over all streams")]
fn ends_that_wait_for_their_acknowledgement_do_not_make_answers_dearer() {
    let cost = |streams| {
        beside_streams(streams, &liar::ping(), |server, at| {
            let stream_id = 4 * at + FIRST_STREAM;
            server.stream_send(stream_id, b"!", false).unwrap();
            server.stream_send(stream_id, b"", true).unwrap();
        })
    };
    assert_no_dearer(cost(100), cost(10_000));
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
