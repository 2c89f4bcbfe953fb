//! DATAGRAMs of every size that may be written leave, and a reset frees what it discards.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

use std::ops::RangeInclusive;
use std::time::Duration;

use quiche::Shutdown;
use tack_attack::{ConnectionIndex, Network, Setup, Side, pipe};

const ONE_WAY: Duration = Duration::from_millis(10);

/// How much smaller than the largest the smallest is.
const SMALLER_BY: usize = 100;

fn connect(network: &mut Network) -> ConnectionIndex {
    let way = pipe(20.0, ONE_WAY, 1_000_000);
    let link = network.link(&way, &way);
    let setup = Setup {
        configure: Some(|config| config.enable_dgram(true, 4000, 4000)),
        ..Setup::tack()
    };
    let connection = network.connect(link, setup, setup);
    network.handshake();
    network.run_for(Duration::from_millis(200));
    connection
}

/// How many of `count` DATAGRAMs of each size arrive, and how many were sent.
fn delivered(count: usize, smaller_by: RangeInclusive<usize>) -> (usize, usize) {
    let mut network = Network::new(43);
    let connection = connect(&mut network);
    let (mut sent, mut arrived) = (0, 0);
    let mut buffer = [0; 1500];
    // A DATAGRAM that cannot leave would hold up those behind it.
    for smaller in smaller_by.rev() {
        for number in 0..count {
            let server = network.end_mut(connection, Side::Server).tack();
            let len = server.dgram_max_writable_len().unwrap() - smaller;
            let mut data = vec![0x5a; len];
            data[..8].copy_from_slice(&((number * 1000 + smaller) as u64).to_be_bytes());
            server.dgram_send(&data).unwrap();
            sent += 1;
            // Below the rate of the link, so that nothing waits for long.
            network.run_for(Duration::from_micros(700));
        }
        network.run_for(Duration::from_millis(100));
        let client = network.end_mut(connection, Side::Client).tack();
        while let Ok(len) = client.dgram_recv(&mut buffer) {
            assert!(len > 8);
            arrived += 1;
        }
    }
    println!("{arrived} of {sent} DATAGRAMs");
    (arrived, sent)
}

#[test]
fn datagrams_of_the_largest_writable_size_are_delivered() {
    let (arrived, sent) = delivered(2000, 0..=0);
    assert_eq!(arrived, sent);
}

#[test]
fn datagrams_of_each_smaller_size_are_delivered() {
    let (arrived, sent) = delivered(20, 0..=SMALLER_BY);
    assert_eq!(arrived, sent);
}

#[test]
#[ignore = "202,000 DATAGRAMs"]
fn two_thousand_datagrams_of_each_size_are_delivered() {
    let (arrived, sent) = delivered(2000, 0..=SMALLER_BY);
    assert_eq!(arrived, sent);
}

#[test]
fn a_reset_frees_its_unsent_bytes_at_once() {
    let mut network = Network::new(47);
    let connection = connect(&mut network);
    let server = network.end_mut(connection, Side::Server).tack();
    let (first, second) = (3, 7);
    server.stream_send(second, b"!", false).unwrap();
    let whole = server.stream_capacity(second).unwrap();
    let data = vec![0; 64 << 10];
    while server.stream_send(first, &data, false).is_ok() {}
    let left = server.stream_capacity(second).unwrap();
    assert!(left < whole / 10, "{left} of {whole} bytes are left");
    server.stream_shutdown(first, Shutdown::Write, 0).unwrap();
    let freed = server.stream_capacity(second).unwrap();
    println!("room for {whole} bytes, {left} with a full buffer, {freed} after a reset");
    assert!(freed >= whole * 9 / 10, "{freed} of {whole} bytes are free again");
}
