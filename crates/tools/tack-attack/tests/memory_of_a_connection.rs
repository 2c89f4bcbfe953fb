//! How much memory a connection takes does not grow with what its peer sends. The process is measured, and nothing
//! else runs in it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use tack_attack::{Conduct, Network, Side, liar};

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// How much memory a server takes for so many packets of all kinds of a hostile peer and so many challenges
/// behind them, each of which it answers with a packet, or until it refuses one; the number of that.
fn memory_after(packets: u64, challenges: u64) -> (u64, Option<u64>) {
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
    for number in 0..packets + challenges {
        let puppet = network.end_mut(connection, Side::Client).puppet();
        // Each leaves a range of its own.
        puppet.skip(1);
        report.sequence = number + 1000;
        let scattered = number.wrapping_mul(7919) % (60 << 10);
        let frames = match number % 8 {
            _ if number >= packets => liar::path_challenge(number),
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
    println!("{packets} packets, refused {refused:?}: {} KiB more", grown >> 10);
    (grown, refused)
}

/// What a peer that acknowledges nothing is told (TACK-7-16).
const PROTOCOL_VIOLATION: u64 = 0x0a;

/// Of one connection, whatever its peer does. quiche keeps each packet that it sent, one that only
/// acknowledges too, until the peer acknowledges that or a later one.
const MOST_MEMORY: u64 = 64 << 20;

#[test]
fn memory_of_a_connection_is_bounded_whatever_its_peer_sends() {
    let (grown, refused) = memory_after(110_000, 110_000);
    assert!(grown <= MOST_MEMORY, "{} MiB", grown >> 20);
    assert!(refused.is_some(), "it has acknowledged nothing (TACK-7-16)");
}

#[test]
#[ignore = "ten million packets"]
fn memory_of_a_connection_is_bounded_after_ten_million_hostile_packets() {
    let (grown, _) = memory_after(10_000_000, 0);
    assert!(grown <= MOST_MEMORY, "{} MiB", grown >> 20);
}
