//! Streams that were refused because the send buffer was full, and are reported when they can be written to.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use quiche::Shutdown;
use tacklib::Connection;

const FULL: u64 = 2;

/// A client whose send buffer is full of what it has written to [`FULL`].
fn full() -> Pair<Connection, Connection> {
    let mut config = tack_config();
    config.set_initial_max_streams_uni(1 << 20);
    config.set_initial_max_data(1 << 30);
    config.set_initial_max_stream_data_uni(1 << 30);
    let mut pair = Pair::new(tack_client(&mut config), tack_server(&mut config))
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
        // It was not opened, and quiche has nothing to shut down.
        let _ = pair.client.stream_shutdown(id, Shutdown::Write, 0);
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
