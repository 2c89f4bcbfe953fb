//! A sender that waits for room gets it as soon as there is some: window updates
//! never wait with an acknowledgement, and a lost one is sent again.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::time::Duration;

use common::*;
use quiche::RecvInfo;
use tacklib::Connection;

const STREAM: u64 = 0;
const WINDOW: u64 = 50_000;

/// Which window stops the sender.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Stream,
    Connection,
}

/// A server with a small window that is full: everything in it has arrived and
/// is acknowledged, and the client has more to send.
fn blocked<C: End>(client: C, limit: Limit) -> Pair<C, Connection> {
    let mut config = tack_config();
    match limit {
        Limit::Stream => config.set_initial_max_stream_data_bidi_remote(WINDOW),
        Limit::Connection => config.set_initial_max_data(WINDOW),
    }
    let mut pair =
        Pair::new(client, tack_server(&mut config)).with_delay(Duration::from_millis(5));
    pair.handshake();
    let data = pattern(WINDOW as usize + 20_000);
    let mut written = 0;
    pair.run_until(|pair| {
        written += pair.client.write(STREAM, &data[written..], false);
        written >= WINDOW as usize
    });
    // Longer than the last acknowledgement may be held. A stock client says that
    // it is blocked, which changes nothing while nothing is read.
    pair.run_for(Duration::from_millis(150));
    assert_eq!(pair.client.write(STREAM, &data[written..], false), 0);
    assert!(pair.server.transmit(&mut [0; 1500]).is_none(), "nothing is left to say");
    pair
}

fn read_all(server: &mut dyn End) {
    let mut buffer = [0; 8192];
    while server.read(STREAM, &mut buffer).is_ok() {}
}

fn assert_reopens_at_once<C: End>(pair: &mut Pair<C, Connection>) {
    let mut buffer = [0; 1500];
    let (len, _) = pair.server.transmit(&mut buffer).unwrap();
    let info = RecvInfo { from: server_address(), to: client_address() };
    pair.client.receive(&mut buffer[..len], info);
    assert!(pair.client.write(STREAM, &[0; 1000], false) > 0, "the first packet reopens it");
}

#[test]
fn the_first_packet_after_a_read_reopens_the_window() {
    for limit in [Limit::Stream, Limit::Connection] {
        let mut pair = blocked(tack_client(&mut tack_config()), limit);
        read_all(&mut pair.server);
        assert_reopens_at_once(&mut pair);
        let mut pair = blocked(stock_client(&mut stock_config()), limit);
        read_all(&mut pair.server);
        assert_reopens_at_once(&mut pair);
    }
}

#[test]
fn so_it_does_when_the_application_reads_from_the_connection_inside() {
    for limit in [Limit::Stream, Limit::Connection] {
        let mut pair = blocked(tack_client(&mut tack_config()), limit);
        let inside: &mut quiche::Connection = &mut pair.server;
        read_all(inside);
        assert_reopens_at_once(&mut pair);
    }
}

#[test]
fn an_update_that_is_lost_is_sent_again() {
    for limit in [Limit::Stream, Limit::Connection] {
        let mut pair = blocked(tack_client(&mut tack_config()), limit);
        read_all(&mut pair.server);
        let mut left = 3;
        pair.tamper_down(Box::new(move |datagram| {
            left -= i32::from(left > 0);
            (left == 0).then_some(datagram)
        }));
        let mut writes = 0;
        pair.run_until(|pair| {
            writes += pair.client.write(STREAM, &[0; 1000], false);
            writes > 0
        });
        assert!(pair.packets().1 > 2, "{limit:?}");
    }
}

#[test]
fn a_client_that_has_used_all_streams_gets_new_ones_once_the_answers_are_acknowledged() {
    const STREAMS: u64 = 4;
    let mut config = tack_config();
    config.set_initial_max_streams_bidi(STREAMS);
    let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(&mut config))
        .with_delay(Duration::from_millis(5));
    pair.handshake();
    for index in 0..STREAMS {
        assert_eq!(pair.client.write(4 * index, b"question", true), 8);
    }
    assert_eq!(pair.client.peer_streams_left_bidi(), 0);
    let (mut answered, mut read) = (0, 0);
    let mut buffer = [0; 64];
    pair.run_until(|pair| {
        while answered < STREAMS && pair.server.read(4 * answered, &mut buffer).is_ok() {
            pair.server.write(4 * answered, b"answer", true);
            answered += 1;
        }
        while read < STREAMS && pair.client.read(4 * read, &mut buffer).is_ok() {
            read += 1;
        }
        read == STREAMS
    });
    // Neither end has anything else to send.
    pair.run_until(|pair| pair.client.peer_streams_left_bidi() > 0);
}

#[test]
fn a_client_that_has_used_all_streams_gets_new_ones_once_the_server_has_read_them_or_their_resets()
 {
    const STREAMS: u64 = 8;
    for is_reset in [false, true] {
        let mut config = tack_config();
        config.set_initial_max_streams_uni(STREAMS);
        let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(&mut config))
            .with_delay(Duration::from_millis(5));
        pair.handshake();
        let stream = |index: u64| 4 * index + 2;
        for index in 0..STREAMS {
            assert_eq!(pair.client.write(stream(index), b"a frame", !is_reset), 7);
            if is_reset {
                pair.client.stream_shutdown(stream(index), quiche::Shutdown::Write, 7).unwrap();
            }
        }
        // All of it has come and is acknowledged before any of it is read.
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.client.peer_streams_left_uni(), 0);
        let mut buffer = [0; 64];
        for index in 0..STREAMS {
            let read = pair.server.stream_recv(stream(index), &mut buffer);
            assert_eq!(read.is_err(), is_reset);
        }
        pair.run_until(|pair| pair.client.peer_streams_left_uni() > 0);
    }
}

/// A peer that has opened all streams that it may, and whose data is acknowledged, sends nothing more: no
/// acknowledgement is due that MAX_STREAMS could leave with.
#[test]
fn streams_that_are_read_to_their_end_let_a_quiet_peer_open_others() {
    const STREAMS: u64 = 6;
    const FIRST_UNI: u64 = 2;
    let mut config = tack_config();
    config.set_initial_max_streams_uni(STREAMS);
    let client = tack_client(&mut tack_config());
    let mut pair = Pair::new(client, tack_server(&mut config));
    pair.handshake();
    let mut buffer = [0; 100];
    let mut id = FIRST_UNI;
    // All that it may, half of them, and all again.
    for count in [STREAMS, STREAMS / 2, STREAMS] {
        assert_eq!(pair.client.quic().peer_streams_left_uni(), STREAMS);
        let ids: Vec<u64> = (0..count).map(|n| id + 4 * n).collect();
        id += 4 * count;
        for id in &ids {
            assert_eq!(pair.client.write(*id, b"data", true), 4);
        }
        pair.run_for(Duration::from_millis(150));
        for id in &ids {
            assert_eq!(pair.server.read(*id, &mut buffer), Ok((4, true)));
        }
        pair.run_for(Duration::from_millis(150));
    }
}

/// Requests of a quiet client, which has used up its streams; all of it has come.
fn asked() -> Pair<Connection, Connection> {
    let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(&mut tack_config()))
        .with_delay(Duration::from_millis(5));
    pair.handshake();
    for index in 0..REQUESTS {
        assert_eq!(pair.client.write(4 * index, b"question", true), 8);
    }
    pair.run_for(Duration::from_millis(500));
    assert_eq!(pair.client.peer_streams_left_bidi(), 0);
    pair
}

/// What the tests' configurations let a peer open of each kind.
const REQUESTS: u64 = 100;

fn read_requests(server: &mut Connection) {
    let mut buffer = [0; 64];
    for index in 0..REQUESTS {
        assert_eq!(server.read(4 * index, &mut buffer), Ok((8, true)));
    }
}

#[test]
fn streams_that_are_read_in_the_order_in_which_they_were_opened_let_a_quiet_peer_open_others() {
    let stream = |index: u64| 4 * index + 2;
    for ends in [true, false] {
        let mut pair =
            Pair::new(tack_client(&mut tack_config()), tack_server(&mut tack_config()))
                .with_delay(Duration::from_millis(5));
        pair.handshake();
        for index in 0..REQUESTS {
            // Those of which the server reads nothing may end or not.
            assert_eq!(pair.client.write(stream(index), b"a frame", ends || index < 40), 7);
        }
        pair.run_for(Duration::from_millis(500));
        assert_eq!(pair.client.peer_streams_left_uni(), 0);
        let mut buffer = [0; 64];
        for index in 0..40 {
            assert_eq!(pair.server.read(stream(index), &mut buffer), Ok((7, true)));
        }
        pair.run_for(Duration::from_millis(100));
        assert_eq!(pair.client.peer_streams_left_uni(), 40, "of streams that end: {ends}");
    }
}

#[test]
fn requests_that_the_server_resets_let_a_quiet_client_open_others() {
    for reads_first in [true, false] {
        let mut pair = asked();
        if reads_first {
            read_requests(&mut pair.server);
        }
        for index in 0..REQUESTS {
            pair.server.stream_shutdown(4 * index, quiche::Shutdown::Write, 7).unwrap();
        }
        if !reads_first {
            read_requests(&mut pair.server);
        }
        pair.run_for(Duration::from_millis(500));
        assert_eq!(pair.client.peer_streams_left_bidi(), REQUESTS, "{reads_first}");
    }
}

/// How a server learns that the client has stopped a stream.
type Learn = fn(&mut Connection, u64);

#[test]
fn requests_that_a_quiet_client_cancels_let_it_open_others_once_the_server_knows() {
    const STOPPED: quiche::Error = quiche::Error::StreamStopped(7);
    let ways: [(&str, Learn); 4] = [
        ("stream_send", |server, id| {
            assert_eq!(server.stream_send(id, b"answer", true), Err(STOPPED));
        }),
        ("stream_send of nothing", |server, id| {
            assert_eq!(server.stream_send(id, b"", true), Err(STOPPED));
        }),
        ("stream_capacity", |server, id| assert_eq!(server.stream_capacity(id), Err(STOPPED))),
        ("stream_writable", |server, id| {
            assert_eq!(server.stream_writable(id, 1), Err(STOPPED));
        }),
    ];
    for (way, learn) in ways {
        let mut pair = asked();
        read_requests(&mut pair.server);
        for index in 0..REQUESTS {
            pair.client.stream_shutdown(4 * index, quiche::Shutdown::Read, 7).unwrap();
        }
        pair.run_for(Duration::from_millis(500));
        for index in 0..REQUESTS {
            learn(&mut pair.server, 4 * index);
        }
        pair.run_for(Duration::from_millis(500));
        assert_eq!(pair.client.peer_streams_left_bidi(), REQUESTS, "{way}");
    }
}

#[test]
fn requests_that_are_stopped_when_they_were_reported_as_writable_let_the_client_open_others() {
    let mut pair = asked();
    read_requests(&mut pair.server);
    // quiche forgets such streams as soon as its resets are acknowledged.
    while pair.server.stream_writable_next().is_some() {}
    for index in 0..REQUESTS {
        pair.client.stream_shutdown(4 * index, quiche::Shutdown::Read, 7).unwrap();
    }
    pair.run_until(|pair| {
        while pair.server.stream_writable_next().is_some() {}
        pair.client.peer_streams_left_bidi() > 0
    });
}

#[test]
fn the_window_of_a_stream_beside_a_thousand_open_ones_reopens() {
    const STREAMS: u64 = 1100;
    let mut config = tack_config();
    config.set_initial_max_streams_bidi(2 * STREAMS);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    let mut pair = Pair::new(tack_client(&mut tack_config()), tack_server(&mut config))
        .with_delay(Duration::from_millis(5));
    pair.handshake();
    let mut buffer = vec![0; 65_536];
    for index in 0..STREAMS {
        assert_eq!(pair.client.write(4 * index, &[1; 8], false), 8);
    }
    pair.run_for(Duration::from_millis(300));
    for index in 0..STREAMS {
        assert_eq!(pair.server.read(4 * index, &mut buffer), Ok((8, false)));
    }
    let last = 4 * STREAMS;
    assert_eq!(pair.client.write(last, &vec![0; 2 * WINDOW as usize], false), WINDOW as usize);
    pair.run_for(Duration::from_millis(300));
    while pair.server.read(last, &mut buffer).is_ok() {}
    pair.run_for(Duration::from_millis(100));
    assert!(pair.client.write(last, &[0; 1000], false) > 0);
}
