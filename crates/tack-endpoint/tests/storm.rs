//! Garbage of every kind must neither stop the endpoint nor spoil a transfer.

#![allow(clippy::disallowed_methods, reason = "tests bound how long they may take")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]
#![allow(clippy::large_stack_arrays, reason = "buffers of the largest datagram")]
#![allow(missing_docs, reason = "nothing here is public")]

mod common;

use std::net::{SocketAddr, UdpSocket};

use common::{App, Certificate, Direction, Relay, XorShift, pattern, run_with};
use tack_endpoint::EndpointConfig;

const DATAGRAMS: usize = 10_000;

/// Transfers through a relay that sends, behind every real datagram, a truncated copy, a replay
/// or one with a bit flipped, while a stranger floods both sides with random bytes.
fn storm(config: EndpointConfig, replay_from_elsewhere: bool) {
    let (upload, download) = (pattern(1 << 20, 1), pattern(1 << 20, 2));
    let mut server = App::server(&Certificate::new(), config, download.clone());
    let mut client = App::client();
    let mut relay = Relay::new(server.local_addr());
    let handle = client.connect(relay.address(), upload.clone());

    let stranger = UdpSocket::bind(SocketAddr::from(common::LOCALHOST)).unwrap();
    let targets = [server.local_addr(), client.local_addr()];
    let mut random = XorShift(0x5eed);
    let mut sent = 0;
    run_with(
        &mut server,
        &mut client,
        || {
            for _ in 0..20.min(DATAGRAMS - sent) {
                sent += 1;
                let garbage = random_datagram(&mut random);
                let _ = stranger.send_to(&garbage, targets[sent % 2]);
            }
            let mut captured = Vec::new();
            relay.turn(|direction, datagram, more| {
                let mut copy = datagram.to_vec();
                match random.below(4) {
                    0 => copy.truncate(random.below(datagram.len())),
                    1 => {
                        let bit = random.below(copy.len() * 8);
                        copy[bit / 8] ^= 1 << (bit % 8);
                    }
                    _ => {}
                }
                if direction == Direction::ToServer && random.below(8) == 0 {
                    captured.push(copy.clone());
                }
                more.push(copy);
                true
            });
            if replay_from_elsewhere {
                for copy in captured {
                    let _ = stranger.send_to(&copy, targets[0]);
                }
            }
        },
        |_, client| client.is_done(handle) || client.closed.contains_key(&handle),
    );
    assert_eq!(client.closed.get(&handle), None);
    client.exchanges[&handle].assert_received(&download);
    server.exchanges[&server.only()].assert_received(&upload);

    // What is left of the flood finds a server that still works.
    for n in sent..DATAGRAMS {
        let _ = stranger.send_to(&random_datagram(&mut random), targets[0]);
        if n % 50 == 0 {
            server.turn(std::time::Duration::ZERO);
        }
    }
    let again = client.connect(targets[0], upload.clone());
    run_with(&mut server, &mut client, || (), |_, client| client.is_done(again));
    client.exchanges[&again].assert_received(&download);
}

/// 0 to 1500 random bytes; some begin like packets of version 1.
fn random_datagram(random: &mut XorShift) -> Vec<u8> {
    let len = random.below(1501);
    let mut datagram: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    if len > 6 && random.below(2) == 0 {
        datagram[0] |= 0xc0;
        datagram[1..5].copy_from_slice(&1u32.to_be_bytes());
        datagram[5] = random.below(21) as u8;
    }
    datagram
}

#[test]
fn a_transfer_completes_in_a_storm_of_garbage() {
    storm(EndpointConfig::default(), false);
}

#[test]
fn a_transfer_completes_in_a_storm_of_garbage_without_retry() {
    storm(common::endpoint_config(|config| config.retry = false), false);
}

#[test]
fn a_transfer_completes_while_its_packets_are_replayed_from_elsewhere() {
    storm(EndpointConfig::default(), true);
}
