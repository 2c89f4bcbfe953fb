//! What a packet costs in CPU time does not grow with what is open or in flight.
//!
//! CPU time is that of the thread, and what is held against a bound is a ratio of medians of the
//! same build: neither the machine nor other load on it counts.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
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

#[test]
fn a_stream_that_is_reset_behind_its_end_again_and_again_is_filled_once() {
    const END: u64 = 250_000;
    let mut network = Network::new(83);
    let connection = connect(&mut network, 100.0, Duration::from_millis(2), 1 << 20);
    network.run_for(Duration::from_millis(100));
    let puppet = network.end_mut(connection, Side::Client).puppet();
    puppet.let_loose(Conduct::Silent);
    let mut cost = |frames: &[u8]| {
        let datagram = network.end_mut(connection, Side::Client).puppet().datagram(frames);
        cost_of(&mut network, connection, datagram)
    };
    // Nothing of it has come but the end.
    cost(&liar::stream_end(6, END));
    let first = cost(&liar::reset_stream(6, END));
    let again = median((0..21).map(|_| cost(&liar::reset_stream(6, END))).collect());
    println!("{first:?}, then {again:?}");
    assert!(10 * again < first, "as much as filling it: {again:?}, {first:?}");
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
