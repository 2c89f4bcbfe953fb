//! A peer that holds the keys and lies, and a network that forges.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use common::log::Log;
use common::*;
use tack_packet::{CipherSuite, ProtectionKeys, TAG_LEN};
use tack_proto::frame::{
    AckFrequency, IackEvent, IackFields, Rate, TackFields, Timing, encode_iack,
    encode_immediate_ack, encode_tack,
};
use tacklib::{Connection, Profile};

/// A pair that has exchanged some data, and the keys of the server.
fn pair(client: Profile) -> (Pair<Connection, Connection>, ProtectionKeys) {
    let (mut client, mut server) = (profile_config(client), tack_config());
    client.log_keys();
    let secrets = Log::default();
    let mut connection = tack_client(&mut client);
    connection.set_keylog(Box::new(secrets.clone()));
    // The application's key log is the test's, so this also shows that it works.
    let mut pair = Pair::new(connection, tack_server(&mut server));
    pair.handshake();
    transfer(&mut pair, 0, 100_000, false);
    pair.run_for(Duration::from_millis(80));
    let name = pair.client.as_mut().current_cipher().unwrap().name().to_owned();
    let suite = CipherSuite::from_name(&name).unwrap();
    (pair, ProtectionKeys::new(suite, &secrets.secret("SERVER_TRAFFIC_SECRET_0")).unwrap())
}

/// Has the next packet of the server say `frames` instead of what it said.
fn lie(frames: Vec<u8>) -> Option<(bool, u64)> {
    lie_to(Profile::Default, frames)
}

fn lie_to(client: Profile, frames: Vec<u8>) -> Option<(bool, u64)> {
    let (mut pair, mut keys) = pair(client);
    let mut frames = Some(frames);
    pair.tamper_down(Box::new(move |datagram| {
        let Some(frames) = frames.take() else { return Some(datagram) };
        let mut packet = datagram;
        let opened = keys.open(&mut packet, 16, 0).unwrap();
        packet.truncate(opened.payload.start);
        packet.extend_from_slice(&frames);
        packet.resize(packet.len() + TAG_LEN, 0);
        keys.seal(opened.generation, &mut packet, &opened.header, frames.len()).unwrap();
        Some(packet)
    }));
    // Anything that makes the server send.
    pair.client.write(4, b"more", true);
    pair.run_for(Duration::from_millis(150));
    pair.client.local_error().map(|error| (error.is_app, error.error_code))
}

/// RFC 9000 section 8.2.2 forbids a second answer. quiche answers both challenges in one packet.
#[test]
fn challenges_that_come_together_are_answered_once_each() {
    let (mut pair, mut keys) = pair(Profile::Default);
    let mut challenges = 1..=2;
    pair.tamper_down(Box::new(move |mut datagram| {
        let Some(data) = challenges.next() else { return Some(datagram) };
        let opened = keys.open(&mut datagram, 16, 0).unwrap();
        datagram.truncate(opened.payload.start);
        datagram.push(0x1a);
        datagram.extend_from_slice(&[data; 8]);
        datagram.resize(datagram.len() + TAG_LEN, 0);
        keys.seal(opened.generation, &mut datagram, &opened.header, 9).unwrap();
        Some(datagram)
    }));
    let long = Rc::new(Cell::new(0));
    let counted = Rc::clone(&long);
    pair.tamper_up(Box::new(move |datagram| {
        counted.set(counted.get() + u32::from(datagram.len() >= 1200));
        Some(datagram)
    }));
    // Two packets, which arrive before the client sends one.
    pair.server.write(5, &[0; 2000], true);
    pair.run_for(Duration::from_millis(150));
    pair.client.write(4, b"more", true);
    pair.run_for(Duration::from_millis(150));
    assert_eq!(pair.client.local_error(), None);
    assert_eq!(long.get(), 1, "packets that are as long as an answer has to be");
}

/// Has the next packets of the server say these frames, one each.
fn say(pair: &mut Pair<Connection, Connection>, mut keys: ProtectionKeys, says: &[&[u8]]) {
    let mut says: Vec<_> = says.iter().rev().map(|frames| frames.to_vec()).collect();
    pair.tamper_down(Box::new(move |mut datagram| {
        let Some(frames) = says.pop() else { return Some(datagram) };
        let opened = keys.open(&mut datagram, 16, 0).unwrap();
        datagram.truncate(opened.payload.start);
        datagram.extend_from_slice(&frames);
        datagram.resize(datagram.len() + TAG_LEN, 0);
        datagram[0] |= 0x18;
        keys.seal(opened.generation, &mut datagram, &opened.header, frames.len()).unwrap();
        Some(datagram)
    }));
}

/// A sender that writes the end behind the data repeats the data with it if no acknowledgement comes.
#[test]
fn an_end_that_comes_with_data_that_was_read_is_told() {
    let (mut pair, keys) = pair(Profile::Default);
    // A byte of the server's stream 3, and the same with the end.
    say(&mut pair, keys, &[&[0x0e, 3, 0, 1, b'x'], &[0x0f, 3, 0, 1, b'x']]);
    let mut buffer = [0; 10];
    pair.server.send_ack_eliciting().unwrap();
    pair.run_until(|pair| pair.client.stream_recv(3, &mut buffer) == Ok((1, false)));
    pair.server.send_ack_eliciting().unwrap();
    pair.run_until(|pair| pair.client.stream_recv(3, &mut buffer) == Ok((0, true)));
}

/// Reads stream 3 from quiche itself for a while, until there is something.
fn read_from_quiche(
    pair: &mut Pair<Connection, Connection>,
    buffer: &mut [u8],
) -> quiche::Result<(usize, bool)> {
    let until = Instant::now() + Duration::from_millis(100);
    let mut read = Err(quiche::Error::Done);
    pair.run_until(|pair| {
        let quic: &mut quiche::Connection = &mut pair.client;
        read = quic.stream_recv(3, buffer);
        read.is_ok() || Instant::now() >= until
    });
    read
}

#[test]
fn data_that_came_behind_a_hole_is_not_taken_for_read_when_it_is_repeated_with_the_end() {
    let (mut pair, keys) = pair(Profile::Default);
    say(&mut pair, keys, &[&[0x0e, 3, 1, 1, b'y'], &[0x0f, 3, 0, 2, b'x', b'y']]);
    let mut buffer = [0; 10];
    pair.server.send_ack_eliciting().unwrap();
    assert!(read_from_quiche(&mut pair, &mut buffer).is_err());
    pair.server.send_ack_eliciting().unwrap();
    assert_eq!(read_from_quiche(&mut pair, &mut buffer), Ok((2, true)));
    assert_eq!(&buffer[..2], b"xy");
}

/// The layer does not know of a read before the connection sends something.
#[test]
fn an_end_that_comes_with_data_that_was_just_read_from_quiche_is_told() {
    let (mut pair, keys) = pair(Profile::Default);
    say(&mut pair, keys, &[&[0x0e, 3, 0, 1, b'x'], &[0x0f, 3, 0, 1, b'x']]);
    let mut buffer = [0; 10];
    pair.server.send_ack_eliciting().unwrap();
    pair.run_until(|pair| pair.client.stream_readable(3));
    pair.server.send_ack_eliciting().unwrap();
    let quic: &mut quiche::Connection = &mut pair.client;
    assert_eq!(quic.stream_recv(3, &mut buffer), Ok((1, false)));
    pair.step_down();
    let quic: &mut quiche::Connection = &mut pair.client;
    assert_eq!(quic.stream_recv(3, &mut buffer), Ok((0, true)));
}

const PROTOCOL_VIOLATION: Option<(bool, u64)> = Some((false, 0x0a));
const FRAME_ENCODING_ERROR: Option<(bool, u64)> = Some((false, 0x07));

/// A TACK with one bubble.
fn tack_missing(stream_id: u64, bytes: std::ops::Range<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = TackFields { sequence: 1000, ..TackFields::default() };
    let bubbles = [(stream_id, bytes)].into_iter();
    encode_tack(&mut out, &fields, [3..=3].into_iter(), bubbles, 1000).unwrap();
    out
}

fn tack(
    largest: u64,
    received_bytes: u64,
    timing: Option<Timing>,
    rate: Option<Rate>,
) -> Vec<u8> {
    let fields = TackFields {
        sequence: 1000,
        ack_delay_us: 0,
        received_bytes,
        timing,
        rate,
        ecn: None,
        arrivals: None,
        grease: false,
    };
    let mut out = Vec::new();
    encode_tack(&mut out, &fields, [largest..=largest].into_iter(), std::iter::empty(), 1000)
        .unwrap();
    out
}

#[test]
fn acknowledging_what_was_never_sent_closes_the_connection() {
    assert_eq!(lie(tack(1_000_000, 0, None, None)), PROTOCOL_VIOLATION);
    let mut iack = Vec::new();
    let fields = IackFields {
        event: IackEvent::Loss,
        received_bytes: 0,
        ack_delay_us: 0,
        ecn: None,
        grease: false,
    };
    encode_iack(&mut iack, &fields, [1_000_000..=1_000_001].into_iter(), 1000);
    assert_eq!(lie(iack), PROTOCOL_VIOLATION);
}

#[test]
fn a_departure_in_the_future_closes_the_connection() {
    let timing = Timing { departure: 1 << 50, hold_us: 0 };
    assert_eq!(lie(tack(3, 0, Some(timing), None)), PROTOCOL_VIOLATION);
}

#[test]
fn receiving_more_than_was_sent_closes_the_connection() {
    assert_eq!(lie(tack(3, 1 << 40, None, None)), PROTOCOL_VIOLATION);
}

#[test]
fn missing_what_was_never_sent_closes_the_connection() {
    // The client has sent 100,000 bytes of stream 0, and less than 200,000 in all.
    assert_eq!(lie(tack_missing(0, 50_000..50_001)), None);
    assert_eq!(lie(tack_missing(0, 50_000..200_000)), PROTOCOL_VIOLATION);
    assert_eq!(lie(tack_missing(0, 0..(1 << 62) - 1)), PROTOCOL_VIOLATION);
    assert_eq!(lie(tack_missing(8, 300_000..300_001)), PROTOCOL_VIOLATION);
}

#[test]
fn missing_bytes_of_a_stream_that_only_the_peer_sends_on_closes_the_connection() {
    assert_eq!(lie(tack_missing(3, 0..1)), PROTOCOL_VIOLATION);
    assert_eq!(lie(tack_missing(2, 0..1)), None, "the client could have sent on it");
}

#[test]
fn an_absurd_rate_is_not_believed() {
    let rate = Rate { delivery_rate: (1 << 62) - 1, loss_rate: 0 };
    assert_eq!(lie(tack(3, 0, None, Some(rate))), None);
}

fn ack_frequency(requested_max_ack_delay_us: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    AckFrequency {
        sequence: 50,
        ack_eliciting_threshold: 1,
        requested_max_ack_delay_us,
        reordering_threshold: 1,
    }
    .encode(&mut frame);
    frame
}

#[test]
fn a_delay_outside_the_drafts_bounds_closes_the_connection() {
    // TACK-7-11
    assert_eq!(lie(ack_frequency(999)), PROTOCOL_VIOLATION, "our min_ack_delay is 1 ms");
    assert_eq!(lie(ack_frequency(16_384_000)), PROTOCOL_VIOLATION, "2^14 ms");
    assert_eq!(lie(ack_frequency(1_000)), None);
    assert_eq!(lie(ack_frequency(16_383_999)), None);
}

#[test]
fn frequency_frames_that_were_not_invited_close_the_connection() {
    // TACK-7-10
    // A frame of an unknown type, RFC 9000 section 12.4.
    let mut immediate_ack = vec![0; 3];
    encode_immediate_ack(&mut immediate_ack);
    for frames in [ack_frequency(1_000), immediate_ack] {
        assert_eq!(lie_to(Profile::Off, frames.clone()), FRAME_ENCODING_ERROR);
        assert_eq!(lie(frames), None, "and where they were, they do not");
    }
}

#[test]
fn a_frame_that_cannot_be_read_closes_the_connection() {
    let mut frame = tack(3, 0, None, None);
    frame.truncate(frame.len() - 1);
    assert_eq!(lie(frame), FRAME_ENCODING_ERROR);
}

#[test]
fn a_packet_without_frames_closes_the_connection() {
    // Four bytes of padding are frames; header protection needs as many.
    assert_eq!(lie(vec![0; 4]), None);
    assert_eq!(lie(vec![0x40, 0x3f, 0, 0]), PROTOCOL_VIOLATION, "a type not in shortest form");
}

#[test]
fn tampered_truncated_and_replayed_datagrams_are_dropped() {
    let (mut client, mut server) = (tack_config(), tack_config());
    let mut pair = Pair::new(tack_client(&mut client), tack_server(&mut server));
    pair.handshake();
    let mut count = 0u32;
    let mut kept: Option<Vec<u8>> = None;
    let disturb = move |mut datagram: Vec<u8>| {
        count += 1;
        match count % 20 {
            3 => {
                let at = (count as usize * 7) % datagram.len();
                datagram[at] ^= 1 << (count % 8);
            }
            7 => datagram.truncate(datagram.len() * 2 / 3),
            11 => kept = Some(datagram.clone()),
            // A replay takes the place of what was sent.
            13 => return kept.clone().or(Some(datagram)),
            17 => return None,
            _ => {}
        }
        Some(datagram)
    };
    pair.tamper_up(Box::new(disturb.clone()));
    pair.tamper_down(Box::new(disturb));
    transfer(&mut pair, 0, 1 << 20, false);
    transfer(&mut pair, 4, 1 << 20, true);
    assert!(pair.client.local_error().is_none() && pair.server.local_error().is_none());
}
