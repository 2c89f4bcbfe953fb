//! Acknowledgements that the sender asks for at once.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use tacklib::Connection;

const STREAM: u64 = 4;

/// A pair whose client has been through Startup: the server acknowledges rarely,
/// and a lone packet after `max_ack_delay`.
fn pair() -> Pair<Connection, Connection> {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(2))
        .with_rate(40);
    pair.handshake();
    transfer(&mut pair, 0, 4 << 20, false);
    assert!(pair.client.tack_stats().frequency_updates_sent > 0);
    pair.run_for(Duration::from_millis(120));
    pair
}

#[test]
fn the_last_packet_before_a_pause_is_acknowledged_at_once() {
    let mut pair = pair();
    let (client, server) = (pair.client.tack_stats(), pair.server.tack_stats());
    pair.client.write(STREAM, &[0; 300], false);
    pair.run_until(|pair| pair.server.tack_stats().iacks_sent > server.iacks_sent);
    assert_eq!(pair.client.tack_stats().immediate_acks_sent, client.immediate_acks_sent + 1);
    pair.run_until(|pair| pair.client.tack_stats().bytes_in_flight == 0);
    assert_eq!(pair.server.tack_stats().tacks_sent, server.tacks_sent, "no TACK besides");
}

#[test]
fn the_end_of_a_stream_needs_no_asking() {
    let mut pair = pair();
    let before = pair.client.tack_stats();
    pair.client.write(STREAM, &[0; 300], true);
    pair.run_until(|pair| pair.client.tack_stats().bytes_in_flight == 0);
    assert_eq!(pair.client.tack_stats().immediate_acks_sent, before.immediate_acks_sent);
}

#[test]
fn probes_for_a_lost_tail_ask_again() {
    let mut pair = pair();
    let before = pair.client.tack_stats();
    let lose = Rc::new(Cell::new(true));
    let losing = Rc::clone(&lose);
    pair.tamper_up(Box::new(move |datagram| (!losing.get()).then_some(datagram)));
    pair.client.write(STREAM, &[7; 300], false);
    // The packet itself, and the first probe.
    pair.run_until(|pair| {
        pair.client.tack_stats().immediate_acks_sent >= before.immediate_acks_sent + 2
    });
    lose.set(false);
    let (read, fin) = {
        let mut result = Err(quiche::Error::Done);
        pair.run_until(|pair| {
            result = pair.server.read(STREAM, &mut [0; 1000]);
            result.is_ok()
        });
        result.unwrap()
    };
    assert_eq!((read, fin), (300, false));
    pair.run_until(|pair| pair.client.tack_stats().bytes_in_flight == 0);
}

#[test]
fn a_probe_is_answered_with_all_that_lost_acknowledgements_said() {
    let mut pair = pair();
    let lose = Rc::new(Cell::new(true));
    let loses = Rc::clone(&lose);
    pair.tamper_down(losing(move |_| loses.get()));
    // Some holes, and four acknowledgements and more that are lost with them.
    pair.tamper_up(losing(|packet| packet % 9 == 0 && packet <= 300));
    let before = pair.server.tack_stats();
    let data = pattern(200_000);
    let mut written = 0;
    pair.run_until(|pair| {
        written += pair.client.write(STREAM, &data[written..], false);
        pair.server.tack_stats().tacks_sent >= before.tacks_sent + 4
    });
    lose.set(false);
    let mut received = Vec::new();
    pair.run_until(|pair| {
        if written < data.len() {
            written += pair.client.write(STREAM, &data[written..], false);
        }
        let mut buffer = [0; 8192];
        while let Ok((read, _)) = pair.server.read(STREAM, &mut buffer) {
            received.extend_from_slice(&buffer[..read]);
        }
        received.len() == data.len() && pair.client.tack_stats().bytes_in_flight == 0
    });
    assert!(received == data);
}
