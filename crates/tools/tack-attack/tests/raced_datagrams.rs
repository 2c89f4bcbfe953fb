//! An attacker without keys copies each datagram of the server, and delivers the copy from
//! another address before the genuine one arrives.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot be set up has failed

use std::time::Duration;

use tack_attack::{Injection, Network, Setup, Side, Verdict, attacker_address, pipe};

const ONE_WAY: Duration = Duration::from_millis(10);

/// UDP payload of a packet.
const PAYLOAD: usize = 1200;

/// How long an upload of so many bytes takes through a queue of so many.
fn upload(bytes: u64, queue: u64, raced: bool) -> Option<Duration> {
    let mut network = Network::new(7);
    let way = pipe(100.0, ONE_WAY, queue);
    let link = network.link(&way, &way);
    let setup = Setup { payload: PAYLOAD, ..Setup::tack() };
    let connection = network.connect(link, setup, setup);
    network.handshake();
    network.run_for(2 * ONE_WAY);
    if raced {
        network.tap(connection, |sighting, injections| {
            if sighting.sender == Side::Server {
                injections.push(Injection {
                    after: ONE_WAY / 2,
                    recipient: Side::Client,
                    source: attacker_address(),
                    bytes: sighting.bytes.to_vec(),
                });
            }
            Verdict::Pass
        });
    }
    network.end_mut(connection, Side::Client).to_write = bytes;
    let time = network.run_while(Duration::from_secs(10), |network| {
        network.end(connection, Side::Server).read < bytes
    });
    let read = network.end(connection, Side::Server).read;
    println!("raced {raced}: {time:?}, {read} of {bytes} bytes");
    time
}

fn assert_not_held_up(bytes: u64, queue: u64) {
    let undisturbed = upload(bytes, queue, false).unwrap();
    let raced = upload(bytes, queue, true).expect("the upload has stopped");
    let ratio = raced.as_secs_f64() / undisturbed.as_secs_f64();
    assert!(ratio <= 1.1, "{raced:?} beside a racer, {undisturbed:?} without");
}

/// quiche takes nothing for lost of which it hears no acknowledgement.
#[test]
fn an_upload_with_losses_takes_as_long_beside_a_racer_as_without() {
    assert_not_held_up(6 << 20, 100_000);
}

/// quiche has at most 20,000 packets in flight, and this is more.
#[test]
#[ignore = "moves 26 MB twice"]
fn an_upload_without_losses_takes_as_long_beside_a_racer_as_without() {
    assert_not_held_up(22_000 * PAYLOAD as u64, 4_000_000);
}

/// quiche decrypts what comes from an address that it has no path left for, and drops it then: the packet has not
/// arrived, and its number may not be acknowledged.
#[test]
fn what_is_dropped_for_want_of_a_path_is_sent_again() {
    const BYTES: u64 = 1 << 20;
    let mut network = Network::new(7);
    let way = pipe(100.0, ONE_WAY, 100_000);
    let link = network.link(&way, &way);
    let setup = Setup { payload: PAYLOAD, ..Setup::tack() };
    let connection = network.connect(link, setup, setup);
    network.handshake();
    network.run_for(2 * ONE_WAY);
    let mut seen = 0_u16;
    network.tap(connection, move |sighting, injections| {
        let is_data = sighting.sender == Side::Client && sighting.bytes.len() > PAYLOAD / 2;
        // One datagram in twenty does not come to the server but from addresses of the attacker's, each from another.
        if !is_data || seen >= 40 * 20 {
            return Verdict::Pass;
        }
        seen += 1;
        if !seen.is_multiple_of(20) {
            return Verdict::Pass;
        }
        let mut source = attacker_address();
        source.set_port(source.port() + seen / 20);
        injections.push(Injection {
            after: ONE_WAY,
            recipient: Side::Server,
            source,
            bytes: sighting.bytes.to_vec(),
        });
        Verdict::Drop
    });
    network.end_mut(connection, Side::Client).to_write = BYTES;
    let time = network.run_while(Duration::from_secs(30), |network| {
        network.end(connection, Side::Server).read < BYTES
    });
    let read = network.end(connection, Side::Server).read;
    assert!(time.is_some(), "{read} of {BYTES} bytes");
}
