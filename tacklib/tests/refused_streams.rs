//! Streams that were refused because the send buffer was full, and are reported when they can be written to.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use quiche::Shutdown;
use tacklib::{Config, Connection};

const FULL: u64 = 2;

/// A client whose send buffer is full of what it has written to [`FULL`].
fn full() -> Pair<Connection, Connection> {
    let mut config = tack_config();
    config.set_initial_max_streams_uni(1 << 20);
    full_towards(&mut config)
}

/// The same, with what the two let each other send but for the windows.
fn full_towards(config: &mut Config) -> Pair<Connection, Connection> {
    config.set_initial_max_data(1 << 30);
    config.set_initial_max_stream_data_uni(1 << 30);
    let mut pair = Pair::new(tack_client(config), tack_server(config))
        .with_delay(Duration::from_millis(10))
        .with_rate(50);
    pair.handshake();
    while pair.client.write(FULL, &vec![0; 1 << 16], false) > 0 {}
    pair
}

fn reported(client: &mut Connection) -> Vec<u64> {
    std::iter::from_fn(|| client.stream_writable_next()).take(20_000).collect()
}

#[test]
fn a_refused_stream_is_reported_when_there_is_room() {
    let mut pair = full();
    assert_eq!(pair.client.stream_send(6, b"?", true), Err(quiche::Error::Done));
    assert!(!reported(&mut pair.client).contains(&6));
    pair.run_for(Duration::from_millis(200));
    assert!(reported(&mut pair.client).contains(&6));
}

#[test]
fn streams_that_were_given_up_are_not_remembered_as_refused() {
    let mut pair = full();
    for id in (1..=10_000).map(|n| FULL + 4 * n) {
        assert_eq!(pair.client.stream_send(id, b"?", true), Err(quiche::Error::Done));
        pair.client.stream_shutdown(id, Shutdown::Write, 0).unwrap();
    }
    pair.client.stream_shutdown(FULL, Shutdown::Write, 0).unwrap();
    assert_eq!(reported(&mut pair.client).len(), 0);
}

/// As [`full`], and the server has stopped the stream, of which nothing else is left.
fn stopped() -> Pair<Connection, Connection> {
    let mut pair = full();
    pair.run_until(|pair| pair.server.stream_readable(FULL));
    pair.server.stream_shutdown(FULL, Shutdown::Read, 7).unwrap();
    pair.run_for(Duration::from_millis(100));
    pair
}

const STOPPED: quiche::Error = quiche::Error::StreamStopped(7);

#[test]
fn a_refused_stream_that_the_peer_stops_is_reported_and_says_so_when_it_is_written_to() {
    let mut pair = stopped();
    assert!(reported(&mut pair.client).contains(&FULL));
    assert_eq!(pair.client.stream_send(FULL, b"x", false), Err(STOPPED));
}

#[test]
fn nothing_but_a_write_takes_the_news_that_the_peer_has_stopped_a_stream() {
    let mut pair = stopped();
    pair.client.stream_priority(FULL, 3, true).unwrap();
    assert!(!pair.client.stream_delivered(FULL));
    // What the layer does behind an access that it does not see.
    let _: &mut quiche::Connection = &mut pair.client;
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.client.stream_stopped_next(), Some(FULL));
    assert_eq!(pair.client.stream_send(FULL, b"x", false), Err(STOPPED));
    assert_eq!(pair.client.stream_stopped_next(), None);
}

#[test]
fn a_stream_that_was_delivered_before_the_peer_stops_it_stays_delivered() {
    const WHOLE: u64 = 6;
    let mut pair = full();
    pair.client.stream_shutdown(FULL, Shutdown::Write, 0).unwrap();
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.client.stream_send(WHOLE, &[7; 5000], true), Ok(5000));
    // The acknowledgement of all of it comes before STOP_SENDING does.
    pair.run_until(|pair| pair.client.stream_delivered(WHOLE));
    pair.server.stream_shutdown(WHOLE, Shutdown::Read, 7).unwrap();
    pair.run_for(Duration::from_millis(100));
    assert!(pair.client.stream_delivered(WHOLE));
    assert_eq!(pair.client.stream_stopped_next(), None, "there is nothing left to stop");
}

#[test]
fn a_new_stream_that_is_refused_for_lack_of_room_is_open_as_with_quiche() {
    let mut pair = full();
    assert_eq!(pair.client.stream_send(6, b"?", true), Err(quiche::Error::Done));
    assert_eq!(pair.client.stream_capacity(6), Ok(0));
    assert_eq!(pair.client.stream_writable(6, 1), Ok(false));
}

#[test]
fn a_full_send_buffer_hides_no_other_error() {
    let mut config = tack_config();
    config.set_initial_max_streams_uni(1);
    let mut pair = full_towards(&mut config);
    assert_eq!(pair.client.stream_send(6, b"?", true), Err(quiche::Error::StreamLimit));
    pair.server.stream_send(3, b"a frame", false).unwrap();
    pair.run_until(|pair| pair.client.stream_readable(3));
    let refused = Err(quiche::Error::InvalidStreamState(3));
    assert_eq!(pair.client.stream_send(3, b"?", false), refused);
    pair.run_for(Duration::from_millis(500));
    assert_eq!(pair.client.stream_send(3, b"?", false), refused, "there is room");
    assert!(!reported(&mut pair.client).contains(&3));
}

#[test]
fn a_stream_is_reported_when_there_is_as_much_room_as_was_asked_for_and_not_before() {
    const ROOM: usize = 999;
    let mut config = tack_config();
    let mut tack = *config.tack();
    tack.send_buffer = 10_000;
    config.set_tack(tack);
    let mut pair = Pair::new(tack_client(&mut config), tack_server(&mut tack_config()))
        .with_delay(Duration::from_millis(20));
    pair.handshake();
    pair.client.stream_send(0, &[0; 9_000], false).unwrap();
    pair.client.stream_send(4, &[0; 1], false).unwrap();
    assert_eq!(pair.client.stream_capacity(4), Ok(ROOM));
    assert_eq!(pair.client.stream_writable(4, 5_000), Ok(false));
    assert_eq!(reported(&mut pair.client), [0]);
    pair.run_for(Duration::from_millis(200));
    assert_eq!(reported(&mut pair.client), [4]);
}
