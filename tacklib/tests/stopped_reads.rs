//! Streams that this end stops reading, and those that the peer stops.

#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod common;

use std::time::Duration;

use common::*;
use quiche::{Error, Shutdown};
use tacklib::Connection;

/// Streams that may be open at once.
const OPEN: u64 = 4;

const CONNECTION_WINDOW: u64 = 50_000;

fn pair() -> Pair<Connection, Connection> {
    let mut config = tack_config();
    config.set_initial_max_streams_uni(OPEN);
    config.set_initial_max_streams_bidi(OPEN);
    config.set_initial_max_data(CONNECTION_WINDOW);
    let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(&mut config))
        .with_delay(Duration::from_millis(5));
    pair.handshake();
    pair
}

#[test]
fn as_many_are_opened_in_their_place() {
    let mut pair = pair();
    let mut opened = 0;
    for round in 0..5 {
        assert!(pair.client.peer_streams_left_uni() > 0, "round {round}");
        while pair.client.peer_streams_left_uni() > 0 {
            assert_eq!(pair.client.write(2 + 4 * opened, b"frame", false), 5);
            opened += 1;
        }
        pair.run_for(Duration::from_millis(50));
        while let Some(stream_id) = pair.server.stream_readable_next() {
            pair.server.stream_shutdown(stream_id, Shutdown::Read, 7).unwrap();
            assert_eq!(pair.server.stream_recv(stream_id, &mut [0; 10]), Err(Error::Done));
            let again = pair.server.stream_shutdown(stream_id, Shutdown::Read, 7);
            assert_eq!(again, Err(Error::Done));
        }
        pair.run_for(Duration::from_millis(100));
    }
    assert_eq!(pair.server.stats().stopped_stream_count_local, opened);
}

#[test]
fn those_that_were_answered_before_give_their_place_back_too() {
    let mut pair = pair();
    for n in 0..OPEN {
        assert_eq!(pair.client.write(4 * n, b"request", false), 7);
    }
    pair.run_for(Duration::from_millis(50));
    for n in 0..OPEN {
        pair.server.write(4 * n, b"answer", true);
    }
    pair.run_for(Duration::from_millis(100));
    for n in 0..OPEN {
        assert_eq!(pair.client.read(4 * n, &mut [0; 100]), Ok((6, true)));
        pair.server.stream_shutdown(4 * n, Shutdown::Read, 7).unwrap();
    }
    pair.run_for(Duration::from_millis(100));
    assert!(pair.client.peer_streams_left_bidi() > 0);
}

#[test]
fn the_peer_is_told_where_the_request_to_stop_is_lost() {
    let mut pair = pair();
    pair.client.write(2, b"frame", false);
    pair.run_for(Duration::from_millis(50));
    let mut lost = 0;
    pair.tamper_down(Box::new(move |datagram| {
        lost += 1;
        (lost > 2).then_some(datagram)
    }));
    pair.server.stream_shutdown(2, Shutdown::Read, 7).unwrap();
    pair.run_until(|pair| pair.client.stream_capacity(2) == Err(Error::StreamStopped(7)));
}

#[test]
fn what_comes_of_them_frees_the_windows() {
    let mut pair = pair();
    let mut id = 2;
    // More than the window of the connection, in streams that lack their first packet when they are stopped.
    for _ in 0..15 {
        let mut lost = false;
        pair.tamper_up(Box::new(move |datagram| {
            let passes = lost || datagram.len() < 1000;
            lost |= !passes;
            passes.then_some(datagram)
        }));
        assert_eq!(pair.client.write(id, &[1; 5000], true), 5000, "stream {id}");
        pair.run_for(Duration::from_millis(8));
        pair.server.stream_shutdown(id, Shutdown::Read, 7).unwrap();
        pair.run_for(Duration::from_millis(300));
        id += 4;
    }
    pair.tamper_up(Box::new(Some));
    transfer(&mut pair, id, 3 * CONNECTION_WINDOW as usize, false);
}

/// The client's streams that the server has stopped, which quiche has forgotten since.
fn stopped_by_the_server() -> Pair<Connection, Connection> {
    let mut pair = pair();
    for id in [2, 6] {
        pair.client.write(id, b"frame", false);
    }
    // The application knows that they can be written to.
    while pair.client.stream_writable_next().is_some() {}
    pair.run_for(Duration::from_millis(50));
    for id in [2, 6] {
        pair.server.stream_shutdown(id, Shutdown::Read, 7).unwrap();
    }
    pair.run_for(Duration::from_millis(200));
    pair
}

#[test]
fn writing_to_a_stream_that_was_stopped_tells_so_however_late() {
    let mut pair = stopped_by_the_server();
    assert_eq!(pair.client.stream_send(2, b"more", false), Err(Error::StreamStopped(7)));
    assert_eq!(pair.client.stream_send(2, b"", true), Err(Error::StreamStopped(7)));
    assert_eq!(pair.client.stream_capacity(6), Err(Error::StreamStopped(7)));
    assert_eq!(pair.client.stream_writable(6, 1), Err(Error::StreamStopped(7)));
}

#[test]
fn streams_that_were_stopped_are_named_as_writable() {
    let mut pair = stopped_by_the_server();
    let mut named = Vec::new();
    while let Some(id) = pair.client.stream_writable_next() {
        named.push(id);
    }
    named.sort_unstable();
    named.dedup();
    assert_eq!(named, [2, 6]);
}

#[test]
fn many_of_them_are_told_in_few_packets() {
    const STREAMS: u64 = 100;
    let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(&mut tack_config()));
    pair.handshake();
    for n in 0..STREAMS {
        pair.client.write(2 + 4 * n, b"frame", false);
    }
    pair.run_for(Duration::from_millis(50));
    let (_, before) = pair.packets();
    for n in 0..STREAMS {
        pair.server.stream_shutdown(2 + 4 * n, Shutdown::Read, 7).unwrap();
    }
    pair.run_until(|pair| {
        (0..STREAMS).all(|n| pair.client.stream_capacity(2 + 4 * n).is_err())
    });
    let packets = pair.packets().1 - before;
    assert!(packets < 10, "{packets} packets for {STREAMS} streams");
}
