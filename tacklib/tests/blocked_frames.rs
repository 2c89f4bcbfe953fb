//! Frames that tell the peer what it holds up (RFC 9000 section 4.1 and 4.6) leave a connection that has nothing else to
//! send.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use tacklib::Connection;

const STREAM: u64 = 0;
const WINDOW: usize = 50_000;
const STREAMS: u64 = 2;

/// A client that has sent all that it may on one stream and in all, and has no further stream; nothing is left to say.
fn quiet() -> Pair<Connection, Connection> {
    let (mut client, mut server) = (tack_config(), tack_config());
    client.set_enable_send_streams_blocked(true);
    server.set_initial_max_stream_data_bidi_remote(WINDOW as u64);
    server.set_initial_max_data(WINDOW as u64 + 1000);
    server.set_initial_max_streams_bidi(STREAMS);
    server.set_initial_max_streams_uni(STREAMS);
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(5));
    pair.handshake();
    for index in 0..STREAMS {
        assert_eq!(pair.client.write(4 * index, b"a", false), 1);
        assert_eq!(pair.client.write(4 * index + 2, b"a", false), 1);
    }
    assert_eq!(pair.client.write(STREAM, &vec![0; 2 * WINDOW], false), WINDOW - 1);
    pair.run_for(Duration::from_millis(500));
    pair
}

#[test]
fn streams_blocked_leaves_when_a_stream_is_refused() {
    let mut pair = quiet();
    for kind in [0, 2] {
        let refused = pair.client.stream_send(4 * STREAMS + kind, b"more", false);
        assert_eq!(refused, Err(quiche::Error::StreamLimit));
        pair.run_for(Duration::from_millis(50));
        let stats = pair.server.stats();
        assert_eq!(stats.streams_blocked_bidi_recv_count, 1);
        assert_eq!(stats.streams_blocked_uni_recv_count, kind / 2);
    }
}

#[test]
fn what_blocks_a_stream_is_told_when_it_is_asked_for_room() {
    let mut pair = quiet();
    assert_eq!(pair.client.stream_writable(STREAM, 1), Ok(false));
    pair.run_for(Duration::from_millis(50));
    let stats = pair.server.stats();
    assert_eq!((stats.stream_data_blocked_recv_count, stats.data_blocked_recv_count), (1, 0));
    assert_eq!(pair.client.stream_writable(4, 2 * WINDOW), Ok(false));
    pair.run_for(Duration::from_millis(50));
    assert_eq!(pair.server.stats().data_blocked_recv_count, 1);
}
