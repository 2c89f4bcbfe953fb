//! What an application that already uses quiche relies on.

mod common;

use std::time::Duration;

use common::*;
use quiche::h3::{self, NameValue};

/// An HTTP/3 request over a pair of connections, by deref coercion.
#[test]
#[allow(clippy::too_many_lines)] // the steps of one scene
fn an_http3_request_is_answered() {
    const BODY: usize = 3 << 20;
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(5));
    pair.handshake();
    assert!(pair.client.is_tack());
    let config = h3::Config::new().unwrap();
    let mut h3_client = h3::Connection::with_transport(&mut pair.client, &config).unwrap();
    let mut h3_server = h3::Connection::with_transport(&mut pair.server, &config).unwrap();
    let request = [
        h3::Header::new(b":method", b"GET"),
        h3::Header::new(b":scheme", b"https"),
        h3::Header::new(b":authority", b"localhost"),
        h3::Header::new(b":path", b"/video"),
    ];
    h3_client.send_request(&mut pair.client, &request, true).unwrap();
    let data = pattern(BODY);
    let (mut answering, mut sent) = (None, 0);
    let (mut status, mut received, mut finished) = (None, Vec::new(), false);
    let mut buffer = vec![0; 65536];
    pair.run_until(|pair| {
        loop {
            match h3_server.poll(&mut pair.server) {
                Ok((stream, h3::Event::Headers { .. })) => {
                    let response = [h3::Header::new(b":status", b"200")];
                    h3_server
                        .send_response(&mut pair.server, stream, &response, false)
                        .unwrap();
                    answering = Some(stream);
                }
                Ok(_) => {}
                Err(h3::Error::Done) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        if let Some(stream) = answering {
            while sent < BODY {
                match h3_server.send_body(&mut pair.server, stream, &data[sent..], true) {
                    Ok(written) => sent += written,
                    Err(h3::Error::Done) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        loop {
            match h3_client.poll(&mut pair.client) {
                Ok((_, h3::Event::Headers { list, .. })) => {
                    let found = list.iter().find(|header| header.name() == b":status");
                    status = found.map(|header| header.value().to_vec());
                }
                Ok((stream, h3::Event::Data)) => {
                    while let Ok(read) =
                        h3_client.recv_body(&mut pair.client, stream, &mut buffer)
                    {
                        received.extend_from_slice(&buffer[..read]);
                    }
                }
                Ok((_, h3::Event::Finished)) => finished = true,
                Ok(_) => {}
                Err(h3::Error::Done) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        finished
    });
    assert_eq!(status.as_deref(), Some(&b"200"[..]));
    assert!(received == data);
    // The application had the quiche connection in its hands with each poll, and
    // still did not get an acknowledgement for each.
    let stats = pair.client.tack_stats();
    let packets = stats.delayed_acks_instead * 2;
    let acknowledgements = stats.tacks_sent + stats.iacks_sent;
    assert!(packets > 2000, "{packets}");
    assert!(acknowledgements * 5 < packets, "{acknowledgements} for {packets} packets");
}

#[test]
fn a_small_receive_window_does_not_stall_behind_held_acknowledgements() {
    let (mut client, mut server) = (tack_config(), tack_config());
    client.set_initial_max_data(100_000);
    client.set_initial_max_stream_data_bidi_local(60_000);
    client.set_max_stream_window(60_000);
    client.set_max_connection_window(100_000);
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(20));
    pair.handshake();
    let start = std::time::Instant::now();
    transfer(&mut pair, 0, 600_000, true);
    // At least ten windows, each a round trip of 40 ms. Held back by a TACK
    // interval of 10 ms and a fallback of 50 ms the updates would take longer,
    // and the connection would send an acknowledgement for each of them.
    assert!(start.elapsed() >= Duration::from_millis(360));
    assert!(pair.client.tack_stats().tacks_sent < 400);
}

#[test]
fn an_application_is_told_to_wait_when_the_send_buffer_is_full() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut tack = *client.tack();
    tack.send_buffer = 300_000;
    client.set_tack(tack);
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(10));
    pair.handshake();
    let data = pattern(1_000_000);
    let mut written = 0;
    loop {
        match pair.client.stream_send(0, &data[written..], false) {
            Ok(sent) => written += sent,
            Err(quiche::Error::Done) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(written, 300_000);
    assert_eq!(pair.client.stream_capacity(0), Ok(0));
    assert_eq!(pair.client.stream_writable_next(), None);
    // Room comes back, and the stream is reported, as data leaves.
    pair.run_until(|pair| pair.client.stream_writable_next() == Some(0));
    assert!(pair.client.stream_capacity(0).unwrap() > 0);
}

/// A connection, established, whose client has a send buffer of `limit` bytes.
fn with_send_buffer(limit: usize) -> Pair<tacklib::Connection, tacklib::Connection> {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut tack = *client.tack();
    tack.send_buffer = limit;
    client.set_tack(tack);
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(10));
    pair.handshake();
    pair
}

#[test]
fn a_stream_is_reported_only_when_it_can_take_what_it_was_refused() {
    const LIMIT: usize = 300_000;
    let mut pair = with_send_buffer(LIMIT);
    assert_eq!(pair.client.stream_send(0, &pattern(LIMIT - 2), false), Ok(LIMIT - 2));
    while pair.client.stream_writable_next().is_some() {}
    assert_eq!(pair.client.stream_writable(0, 3), Ok(false));
    // An application that writes as long as streams are reported comes to an end.
    assert_eq!(pair.client.stream_writable_next(), None);
    pair.run_until(|pair| pair.client.stream_writable_next() == Some(0));
    assert!(pair.client.stream_capacity(0).unwrap() >= 3);
}

#[test]
fn a_body_that_no_frame_fits_for_is_not_reported_until_one_does() {
    const LIMIT: usize = 300_000;
    for room in 1..=3 {
        let mut pair = with_send_buffer(LIMIT);
        let config = tacklib::h3::Config::new().unwrap();
        let client = &mut pair.client;
        let mut http = tacklib::h3::Connection::with_transport(client, &config).unwrap();
        let request = [h3::Header::new(b":method", b"PUT")];
        let stream = http.send_request(client, &request, false).unwrap();
        let filled = client.stream_capacity(stream).unwrap() - room;
        assert_eq!(client.stream_send(stream, &pattern(filled), false), Ok(filled));
        // As applications do, which would write here for ever.
        let mut written = 0;
        for turn in 0.. {
            assert!(turn < 10, "reported again and again with room for {room} bytes");
            if let Ok(more) = http.send_body(client, stream, &pattern(1000), false) {
                written += more;
            }
            if client.stream_writable_next() != Some(stream) {
                break;
            }
        }
        assert!(written < 2, "{written}");
        pair.run_until(|pair| pair.client.stream_writable_next() == Some(stream));
        assert!(http.send_body(&mut pair.client, stream, &pattern(1000), false).is_ok());
    }
}

#[test]
fn the_send_buffer_frees_exactly_what_has_left() {
    const LIMIT: usize = 50_000;
    const WRITTEN: usize = 40_000;
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut tack = *client.tack();
    tack.send_buffer = LIMIT;
    client.set_tack(tack);
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    assert_eq!(pair.client.stream_send(2, &pattern(WRITTEN), false), Ok(WRITTEN));
    // Nothing gets lost or waits: what has left is what has arrived.
    let mut seen = Vec::new();
    pair.run_until(|pair| {
        let arrived = pair.server.stream_readable_len(2, usize::MAX);
        seen.push((arrived, pair.client.stream_capacity(2).unwrap()));
        arrived == WRITTEN
    });
    let partly = seen.iter().filter(|(arrived, _)| (1..WRITTEN).contains(arrived)).count();
    assert!(partly > 5, "{seen:?}");
    for (arrived, capacity) in seen {
        assert_eq!(capacity, LIMIT - (WRITTEN - arrived));
    }
}

#[test]
fn datagrams_and_data_share_the_pacer() {
    let (mut client, mut server) = (tack_config(), tack_config());
    for config in [&mut client, &mut server] {
        config.enable_dgram(true, 1000, 1000);
    }
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server))
        .with_delay(Duration::from_millis(5));
    pair.handshake();
    for number in 0..100u8 {
        pair.client.dgram_send(&[number; 500]).unwrap();
    }
    let mut received = Vec::new();
    let mut buffer = [0; 1500];
    pair.run_until(|pair| {
        while let Ok(len) = pair.server.dgram_recv(&mut buffer) {
            assert_eq!(len, 500);
            received.push(buffer[0]);
        }
        received.len() == 100
    });
    assert_eq!(received, (0..100).collect::<Vec<u8>>());
}

#[test]
fn closing_is_not_held_back() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    transfer(&mut pair, 0, 1 << 20, false);
    pair.client.close(true, 42, b"enough").unwrap();
    pair.run_until(|pair| pair.server.is_draining());
    let error = pair.server.peer_error().unwrap();
    assert_eq!((error.is_app, error.error_code, &error.reason[..]), (true, 42, &b"enough"[..]));
    pair.run_until(|pair| pair.client.is_closed() && pair.server.is_closed());
}

#[test]
fn a_close_is_told_however_long_its_reason_is_and_whatever_its_code() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    pair.client.close(true, u64::MAX, &[b'x'; 5000]).unwrap();
    pair.run_until(|pair| pair.server.is_draining());
    let error = pair.server.peer_error().unwrap();
    assert_eq!((error.error_code, error.reason.len()), ((1 << 62) - 1, 1000));
    pair.run_until(|pair| pair.client.is_closed() && pair.server.is_closed());
}

#[test]
fn streams_are_stopped_and_reset_with_any_code() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    pair.client.stream_send(0, b"?", false).unwrap();
    pair.run_until(|pair| pair.server.stream_readable(0));
    for direction in [quiche::Shutdown::Read, quiche::Shutdown::Write] {
        pair.client.stream_shutdown(0, direction, u64::MAX).unwrap();
    }
    let mut buffer = [0; 10];
    let mut told = quiche::Error::Done;
    pair.run_until(|pair| {
        let read = pair.server.stream_recv(0, &mut buffer);
        told = read.err().unwrap_or(told);
        told != quiche::Error::Done
    });
    assert_eq!(told, quiche::Error::StreamReset((1 << 62) - 1));
}

#[test]
fn streams_that_wait_for_room_are_reported_in_turn() {
    let mut pair = with_send_buffer(20_000);
    let data = pattern(1 << 20);
    let fill = |client: &mut tacklib::Connection, id| {
        while client.stream_send(id, &data, false).is_ok_and(|sent| sent > 0) {}
    };
    for id in [2, 6, 10] {
        fill(&mut pair.client, id);
    }
    let (mut reported, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    pair.run_until(|pair| {
        while let Some(id) = pair.client.stream_unblocked_next() {
            reported.push(id);
            fill(&mut pair.client, id);
        }
        for id in [2, 6, 10] {
            while pair.server.stream_recv(id, &mut buffer).is_ok() {}
        }
        reported.len() >= 30
    });
    for id in [2, 6, 10] {
        let turns = reported.iter().filter(|reported| **reported == id).count();
        assert!(turns >= 9, "{reported:?}");
    }
}
