//! Early data (RFC 9001 section 4.6), over a round trip of 100 ms.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use quiche::{Error, Shutdown};
use tacklib::{Config, Connection};

const ONE_WAY: Duration = Duration::from_millis(50);
const SAME_KEY: &[u8; 48] = &[7; 48];
const STREAM: u64 = 0;
const MEGABYTE: usize = 1 << 20;

/// A resumed connection and its server, which has this key for session tickets now.
fn resumed(key: &[u8; 48]) -> Pair<Connection, Connection> {
    resumed_to(early_config(), key)
}

fn resumed_to(mut server: Config, key: &[u8; 48]) -> Pair<Connection, Connection> {
    let mut client = early_config();
    server.set_ticket_key(SAME_KEY).unwrap();
    let mut first = Pair::new(tack_client(&mut client), tack_server(&mut server));
    first.handshake();
    first.run_until(|pair| pair.client.session().is_some());
    let mut again = tack_client(&mut client);
    again.set_session(first.client.session().unwrap()).unwrap();
    server.set_ticket_key(key).unwrap();
    Pair::new(again, tack_server(&mut server)).with_delay(ONE_WAY)
}

fn early_config() -> Config {
    let mut config = tack_config();
    config.enable_early_data();
    config
}

/// Lets so many one-way delays pass, and a little more; what `turn` does is repeated meanwhile.
fn run(
    pair: &mut Pair<Connection, Connection>,
    since: Instant,
    delays: u32,
    mut turn: impl FnMut(&mut Pair<Connection, Connection>),
) {
    let end = since + ONE_WAY * delays + ONE_WAY / 2;
    pair.run_until(|pair| {
        turn(pair);
        Instant::now() >= end
    });
}

fn read_all(connection: &mut Connection) -> usize {
    let (mut buffer, mut all) = (vec![0; 65_536], 0);
    while let Ok((read, _)) = connection.stream_recv(STREAM, &mut buffer) {
        all += read;
    }
    all
}

#[test]
fn an_answer_to_early_data_grows_by_what_is_acknowledged_before_the_handshake_is_done() {
    let mut pair = resumed(SAME_KEY);
    let start = Instant::now();
    let (answer, mut written, mut received) = (pattern(MEGABYTE), 0, 0);
    assert_eq!(pair.client.write(STREAM, &[1; 8000], true), 8000, "a request");
    let mut arrived = Vec::new();
    // The third window arrives behind 6.
    for delays in [2, 5] {
        run(&mut pair, start, delays, |pair| {
            if read_all(&mut pair.server) > 0 || written > 0 {
                written += pair.server.write(STREAM, &answer[written..], true);
            }
            received += read_all(&mut pair.client);
        });
        arrived.push(received);
    }
    assert!(pair.client.is_resumed() && pair.server.is_tack());
    assert!((10_000..16_000).contains(&arrived[0]), "the initial window: {arrived:?}");
    // RFC 9002 section 7.3.1.
    let second = arrived[1] - arrived[0];
    assert!(second * 10 >= arrived[0] * 18, "TACK-7-15, {arrived:?}");
}

#[test]
fn early_data_counts_for_what_a_client_sends_after_the_handshake() {
    let mut pair = resumed(SAME_KEY);
    let start = Instant::now();
    let (data, mut written, mut received) = (pattern(MEGABYTE), 0, 0);
    let mut arrived = Vec::new();
    // The third window arrives behind 5.
    for delays in [1, 4] {
        run(&mut pair, start, delays, |pair| {
            if pair.client.is_in_early_data() || pair.client.is_established() {
                written += pair.client.write(STREAM, &data[written..], true);
            }
            received += read_all(&mut pair.server);
        });
        arrived.push(received);
    }
    assert!(pair.client.is_resumed() && pair.client.is_tack());
    assert!((10_000..16_000).contains(&arrived[0]), "the initial window: {arrived:?}");
    let second = arrived[1] - arrived[0];
    assert!(second * 10 >= arrived[0] * 18, "TACK-2-5, TACK-7-15, {arrived:?}");
    assert_eq!(pair.client.tack_stats().lost_packets, 0);
}

#[test]
fn early_data_that_the_server_refuses_does_not_count() {
    let mut pair = resumed(&[8; 48]);
    let (data, mut written, mut received) = (pattern(MEGABYTE), 0, 0);
    pair.run_until(|pair| {
        if pair.client.is_in_early_data() || pair.client.is_established() {
            written += pair.client.write(STREAM, &data[written..], true);
        }
        received += read_all(&mut pair.server);
        received == MEGABYTE
    });
    assert!(!pair.client.is_resumed());
    assert_eq!(
        pair.client.tack_stats().lost_packets,
        0,
        "refused early data is not in the record"
    );
}

// TACK-4.1-1
#[test]
fn early_data_that_is_read_with_the_end_of_the_handshake_does_not_count_as_lost() {
    let mut pair = resumed(SAME_KEY);
    let (start, ms) = (Instant::now(), Duration::from_millis(1));
    let until = |pair: &mut Pair<Connection, Connection>, at: u32| {
        pair.run_until(|_| Instant::now() >= start + at * ms);
    };
    assert_eq!(pair.client.write(STREAM, &[1; 2000], false), 2000);
    until(&mut pair, 97);
    assert!(pair.client.is_in_early_data());
    assert_eq!(pair.client.write(STREAM, &[1; 8000], false), 8000);
    until(&mut pair, 98);
    // The server reads what follows in one batch.
    pair.hold_up(true);
    until(&mut pair, 101);
    assert!(pair.client.is_established());
    pair.client.write(STREAM, &[1; 5000], false);
    until(&mut pair, 160);
    pair.hold_up(false);
    until(&mut pair, 600);
    assert!(pair.client.is_resumed() && pair.client.is_tack());
    assert_eq!(pair.client.tack_stats().lost_packets, 0);
    assert_eq!(pair.client.stats().stream_retrans_bytes, 0);
}

#[test]
fn streams_whose_reading_is_stopped_before_the_handshake_is_done_give_their_places_back() {
    const STREAMS: u64 = 4;
    let mut config = early_config();
    config.set_initial_max_streams_uni(STREAMS);
    let mut pair = resumed_to(config, SAME_KEY);
    let start = Instant::now();
    let ids = (0..STREAMS).map(|at| 2 + 4 * at);
    for stream_id in ids.clone() {
        assert_eq!(pair.client.write(stream_id, b"frame", false), 5);
    }
    run(&mut pair, start, 1, |_| {});
    assert!(!pair.server.is_established());
    for stream_id in ids.clone() {
        assert!(pair.server.stream_readable(stream_id));
        pair.server.stream_shutdown(stream_id, Shutdown::Read, 9).unwrap();
        assert!(!pair.server.stream_readable(stream_id));
        let again = pair.server.stream_shutdown(stream_id, Shutdown::Read, 9);
        assert_eq!(again, Err(Error::Done));
    }
    // What comes of them before the handshake is done is dropped as well.
    pair.run_until(|pair| pair.client.is_established());
    for stream_id in ids.clone() {
        pair.client.write(stream_id, b"more", false);
    }
    run(&mut pair, start, 8, |_| {});
    for stream_id in ids {
        assert_eq!(pair.client.stream_capacity(stream_id), Err(Error::StreamStopped(9)));
    }
    assert_eq!(pair.client.peer_streams_left_uni(), STREAMS);
    assert_eq!(pair.server.stats().stopped_stream_count_local, STREAMS);
}
