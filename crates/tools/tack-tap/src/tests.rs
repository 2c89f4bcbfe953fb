use std::{io::Write, iter};

use tack_packet::{ProtectionKeys, ShortHeader, TAG_LEN};
use tack_proto::{
    frame::{IackEvent, IackFields, TackFields, encode_iack, encode_tack},
    varint,
};

use super::*;
use Direction::{ToClient, ToServer};

const HANDSHAKE: u8 = 0xe0;
const RETRY: u8 = 0xf0;
const CLIENT_CID: &[u8] = b"client";
const SERVER_CID: &[u8] = b"the server";

const PING: &[u8] = &[0x01];
const ACK: &[u8] = &[0x02, 10, 0, 0, 3];
const TIMESTAMP: &[u8] = &[0x42, 0xf5, 7];
const IMMEDIATE_ACK: &[u8] = &[0x1f];
const ACK_FREQUENCY: &[u8] = &[0x40, 0xaf, 0, 1, 0x59, 0x88, 0];
const MAX_DATA: &[u8] = &[0x10, 0x40, 0x80];
const CLOSE: &[u8] = &[0x1c, 0, 0, 0];
const PADDING: &[u8] = &[0; 8];

#[test]
fn both_directions_are_opened_and_counted_apart() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    pair.send(ToServer, &[&stream(4, 0, 100)]);
    pair.send(ToClient, &[ACK]);
    pair.send(ToServer, &[&stream(4, 100, 50), &stream(8, 0, 7)]);

    let up = pair.tap.counters(ToServer);
    assert_eq!((up.packets, up.data_packets, up.stream_bytes), (2, 2, 157));
    assert_eq!((up.ack_packets, up.ack_frames), (0, 0));
    let down = pair.tap.counters(ToClient);
    assert_eq!((down.packets, down.data_packets, down.stream_bytes), (1, 0, 0));
    assert_eq!((down.ack_packets, down.ack_frames), (1, 1));
    assert_eq!((up.undecryptable, down.undecryptable), (0, 0));
}

#[test]
fn the_suite_is_found_from_the_first_packet_that_opens() {
    for suite in CipherSuite::ALL {
        let mut pair = Pair::new(suite);
        for _ in 0..3 {
            pair.send(ToServer, &[PING, PADDING]);
            pair.send(ToClient, &[PING, PADDING]);
        }
        for direction in [ToServer, ToClient] {
            let counters = pair.tap.counters(direction);
            assert_eq!((counters.packets, counters.undecryptable), (3, 0), "{suite:?}");
        }
    }
}

#[test]
fn a_packet_of_acknowledgements_carries_nothing_else_but_what_asks_whether_it_arrives() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    let mut ack_bytes = 0;
    for frames in [
        &[ACK, PADDING][..],
        &[&tack()],
        &[&iack(), TIMESTAMP],
        &[ACK, &tack()],
        &[ACK, PING],
        &[PING, IMMEDIATE_ACK, &tack()],
    ] {
        ack_bytes += pair.send(ToClient, frames) as u64;
    }
    for frames in [
        &[ACK, MAX_DATA][..],
        &[ACK, CLOSE],
        &[PING, IMMEDIATE_ACK, PADDING],
        &[TIMESTAMP, PADDING],
        &[&stream(0, 0, 9), ACK],
    ] {
        pair.send(ToClient, frames);
    }
    let counters = pair.tap.counters(ToClient);
    assert_eq!(counters.packets, 11);
    assert_eq!(counters.ack_packets, 6);
    assert_eq!(counters.ack_path_bytes, ack_bytes);
    assert_eq!(counters.ack_frames, 6);
    assert!(counters.bytes > counters.ack_path_bytes);
}

#[test]
fn every_kind_of_extension_frame_has_its_count() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    pair.send(ToServer, &[&tack(), &tack(), &iack(), TIMESTAMP, TIMESTAMP, TIMESTAMP]);
    pair.send(ToServer, &[ACK_FREQUENCY, IMMEDIATE_ACK, ACK_FREQUENCY, &iack(), &iack()]);
    let counters = pair.tap.counters(ToServer);
    assert_eq!(counters.tacks, 2);
    assert_eq!(counters.iacks, 3);
    assert_eq!(counters.timestamps, 3);
    assert_eq!(counters.ack_frequency, 2);
    assert_eq!(counters.immediate_acks, 1);
    assert_eq!(counters.malformed, 0);
}

#[test]
fn path_validation_is_counted() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    let challenge = [&[0x1a][..], &[7; 8]].concat();
    let response = [&[0x1b][..], &[7; 8]].concat();
    pair.send(ToServer, &[PING, &challenge, &challenge, &response]);
    let counters = pair.tap.counters(ToServer);
    assert_eq!((counters.path_challenges, counters.path_responses), (2, 1));
}

#[test]
fn counters_of_connections_add_up() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    pair.send(ToServer, &[&stream(0, 0, 100), ACK, TIMESTAMP, IMMEDIATE_ACK, ACK_FREQUENCY]);
    let one = *pair.tap.counters(ToServer);
    let mut both = one;
    both += one;
    let (one, both) = (fields(&one), fields(&both));
    assert!(one.values().any(|value| *value > 0));
    assert!(one.iter().all(|(name, value)| both[name] == 2 * value), "{one:?} {both:?}");
}

/// The values by name, as a report has them.
fn fields(counters: &TapCounters) -> std::collections::BTreeMap<String, u64> {
    let text = format!("{counters:?}");
    let inside = text.trim_start_matches("TapCounters {").trim_end_matches('}');
    let field = |field: &str| {
        let (name, value) = field.split_once(": ").unwrap();
        (name.trim().to_owned(), value.trim().parse().unwrap())
    };
    inside.split(',').map(field).collect()
}

#[test]
fn retransmitted_bytes_are_those_sent_before_on_the_same_stream_and_way() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    pair.send(ToServer, &[&stream(0, 0, 1000)]);
    pair.send(ToServer, &[&stream(4, 0, 1000)]);
    pair.send(ToClient, &[&stream(0, 0, 1000)]);
    assert_eq!(pair.tap.counters(ToServer).retransmitted_stream_bytes, 0);
    pair.send(ToServer, &[&stream(0, 900, 200)]);
    pair.send(ToServer, &[&stream(4, 0, 10)]);
    let counters = pair.tap.counters(ToServer);
    assert_eq!(counters.retransmitted_stream_bytes, 110);
    assert_eq!(counters.stream_bytes, 2210);
    assert_eq!(pair.tap.counters(ToClient).retransmitted_stream_bytes, 0);
}

#[test]
fn opened_packets_are_shown_with_their_number_and_their_frames() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    let packets: Vec<_> =
        (0..2).map(|_| pair.seal(ToClient, &[IMMEDIATE_ACK, PADDING])).collect();
    let mut seen = Vec::new();
    for packet in packets {
        pair.tap.open(ToClient, &packet, |opened| {
            seen.push((opened.number, opened.key_updates, opened.payload.to_vec()));
        });
    }
    let frames = [IMMEDIATE_ACK, PADDING].concat();
    assert_eq!(seen, [(0, 0, frames.clone()), (1, 0, frames)]);
    assert_eq!(pair.tap.counters(ToClient).immediate_acks, 2, "they are counted as well");
}

#[test]
fn a_packet_coalesced_behind_handshake_packets_is_found() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    let packet = pair.seal(ToClient, &[PING, PADDING]);
    let datagram = [long(HANDSHAKE, SERVER_CID, 300), packet.clone()].concat();
    pair.tap.datagram(ToClient, &datagram);
    let counters = pair.tap.counters(ToClient);
    assert_eq!((counters.packets, counters.bytes), (1, packet.len() as u64));
}

#[test]
fn a_retry_says_nothing_of_the_connection_ids_to_come() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    pair.tap.datagram(ToServer, &long(RETRY, b"another length", 100));
    pair.send(ToClient, &[PING, PADDING]);
    assert_eq!(pair.tap.counters(ToClient).packets, 1);
}

#[test]
fn packet_numbers_are_restored_across_losses_and_reordering() {
    let mut pair = Pair::new(CipherSuite::ChaCha20Poly1305Sha256);
    let sealed: Vec<_> = (0..500).map(|_| pair.seal(ToServer, &[PING, PADDING])).collect();
    // One byte tells 128 numbers in either direction from the largest seen.
    for number in [120, 240, 360, 260, 420, 499] {
        pair.tap.datagram(ToServer, &sealed[number]);
    }
    let counters = pair.tap.counters(ToServer);
    assert_eq!((counters.packets, counters.undecryptable), (6, 0));
}

#[test]
fn packets_before_the_key_and_those_that_do_not_open_are_undecryptable() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    let packet = pair.seal(ToServer, &[PING, PADDING]);
    let mut keyless = Tap::new(KeyLog::new());
    keyless.datagram(ToServer, &packet);
    assert_eq!(keyless.counters(ToServer).undecryptable, 1);

    let mut forged = packet.clone();
    forged[20] ^= 1;
    pair.tap.datagram(ToServer, &forged);
    pair.tap.datagram(ToServer, &packet[..12]);
    pair.tap.datagram(ToServer, &packet);
    let counters = pair.tap.counters(ToServer);
    assert_eq!((counters.undecryptable, counters.packets), (2, 1));
}

#[test]
fn frames_before_one_that_cannot_be_read_are_counted() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    pair.send(ToServer, &[ACK, &[0x3f], ACK]);
    let counters = pair.tap.counters(ToServer);
    assert_eq!((counters.malformed, counters.ack_frames, counters.packets), (1, 1, 1));
    assert_eq!(counters.ack_packets, 0, "it may ask for anything else");
}

/// A tap that has seen the handshake, and both senders.
struct Pair {
    tap: Tap,
    client: ProtectionKeys,
    server: ProtectionKeys,
    next_number: u64,
}

impl Pair {
    fn new(suite: CipherSuite) -> Self {
        let secret = |byte| vec![byte; suite.secret_len()];
        let hex = |byte: u8| format!("{byte:02x}").repeat(suite.secret_len());
        let mut key_log = KeyLog::new();
        writeln!(key_log, "CLIENT_TRAFFIC_SECRET_0 00 {}", hex(0xc1)).unwrap();
        writeln!(key_log, "SERVER_TRAFFIC_SECRET_0 00 {}", hex(0x5e)).unwrap();

        let mut tap = Tap::new(key_log);
        tap.datagram(ToServer, &long(HANDSHAKE, CLIENT_CID, 100));
        tap.datagram(ToClient, &long(HANDSHAKE, SERVER_CID, 100));
        Self {
            tap,
            client: ProtectionKeys::new(suite, &secret(0xc1)).unwrap(),
            server: ProtectionKeys::new(suite, &secret(0x5e)).unwrap(),
            next_number: 0,
        }
    }

    /// Shows a packet to the tap; returns its length.
    fn send(&mut self, direction: Direction, frames: &[&[u8]]) -> usize {
        let packet = self.seal(direction, frames);
        self.tap.datagram(direction, &packet);
        packet.len()
    }

    fn seal(&mut self, direction: Direction, frames: &[&[u8]]) -> Vec<u8> {
        let (keys, dcid) = match direction {
            ToServer => (&self.client, SERVER_CID),
            ToClient => (&self.server, CLIENT_CID),
        };
        let packet_number = self.next_number;
        self.next_number += 1;
        // Numbers are sent in one byte, so that the tap must restore the rest.
        let header = ShortHeader {
            first_byte: 0x40,
            packet_number,
            pn_len: 1,
            header_len: 1 + dcid.len() + 1,
        };
        let payload = frames.concat();
        let mut packet = [&[0x40], dcid, &[packet_number as u8], &payload].concat();
        packet.extend([0; TAG_LEN]);
        keys.seal(0, &mut packet, &header, payload.len()).unwrap();
        packet
    }
}

/// A packet with a long header, other than an Initial.
fn long(first: u8, scid: &[u8], payload_len: u16) -> Vec<u8> {
    let mut packet = vec![first, 0, 0, 0, 1, 3, 0xd, 0xd, 0xd, scid.len() as u8];
    packet.extend(scid);
    packet.extend((0x4000 | payload_len).to_be_bytes());
    packet.resize(packet.len() + usize::from(payload_len), 0xff);
    packet
}

fn stream(id: u64, offset: u64, len: u64) -> Vec<u8> {
    let mut frame = vec![0x0e]; // with offset and length
    for value in [id, offset, len] {
        varint::put(&mut frame, value);
    }
    frame.resize(frame.len() + len as usize, b'x');
    frame
}

fn tack() -> Vec<u8> {
    let mut frame = Vec::new();
    let ranges = [8..=10, 0..=5].into_iter();
    encode_tack(&mut frame, &TackFields::default(), ranges, iter::empty(), 100).unwrap();
    frame
}

fn iack() -> Vec<u8> {
    let mut frame = Vec::new();
    let ranges = [8..=10, 0..=5].into_iter();
    let fields = IackFields {
        event: IackEvent::Loss,
        received_bytes: 1200,
        ack_delay_us: 0,
        ecn: None,
        grease: false,
    };
    assert_eq!(encode_iack(&mut frame, &fields, ranges, 100), 2);
    frame
}
