//! Datagrams, and the long headers in them.

#[path = "../fuzz/check_datagram.rs"]
mod check_datagram;

use std::{fs, path::Path};

use check_datagram::check_datagram;
use proptest::prelude::*;
use tack_packet::{
    DatagramLayout, Invariants, LongHeader, LongPacket, LongPacketType, MAX_CID_LEN, Packet,
    packets,
};

const VERSION_1: [u8; 4] = [0, 0, 0, 1];
const VERSION_2: [u8; 4] = [0x6b, 0x33, 0x43, 0xcf];
const INITIAL: u8 = 0xc0;
const ZERO_RTT: u8 = 0xd0;
const HANDSHAKE: u8 = 0xe0;
const RETRY: u8 = 0xf0;
const SHORT: [u8; 5] = [0x41, 1, 2, 3, 4];
const DCID: &[u8] = &[0xd; 3];

/// A packet whose payload and, in an Initial, token are `payload_len` bytes long.
fn long_of(version: [u8; 4], first: u8, scid: &[u8], payload_len: u16) -> Vec<u8> {
    let mut packet = vec![first];
    packet.extend(version);
    packet.push(DCID.len() as u8);
    packet.extend(DCID);
    packet.push(scid.len() as u8);
    packet.extend(scid);
    let mut prefixed = (0x4000 | payload_len).to_be_bytes().to_vec();
    prefixed.resize(2 + usize::from(payload_len), 0xff);
    let initial = if version == VERSION_2 { ZERO_RTT } else { INITIAL };
    if first & 0xf0 == initial {
        packet.extend(&prefixed);
    }
    packet.extend(prefixed);
    packet
}

fn long(first: u8, payload_len: u16) -> Vec<u8> {
    long_of(VERSION_1, first, b"abc", payload_len)
}

fn types(datagram: &[u8]) -> Vec<Option<LongPacketType>> {
    packets(datagram)
        .map(|packet| match packet {
            Packet::Long(long) => Some(long.header.packet_type),
            Packet::Short(_) => None,
        })
        .collect()
}

#[test]
fn a_long_header_says_type_ids_token_and_length() {
    let mut packet = long(INITIAL, 300);
    let whole = packet.len();
    packet.extend(SHORT);
    let header = LongHeader::parse(&packet).unwrap();
    assert_eq!((header.packet_type, header.version), (LongPacketType::Initial, 1));
    assert_eq!((header.dcid, header.scid), (DCID, &b"abc"[..]));
    assert_eq!(header.token, [0xff; 300]);
    assert_eq!((header.pn_offset, header.payload_len), (whole - 300, 300));
    assert_eq!(header.packet_len(), whole);
}

#[test]
fn version_2_has_other_type_bits() {
    use LongPacketType::{Handshake, Initial, Retry, ZeroRtt};

    for (first, in_1, in_2) in [
        (INITIAL, Initial, Retry),
        (ZERO_RTT, ZeroRtt, Initial),
        (HANDSHAKE, Handshake, ZeroRtt),
        (RETRY, Retry, Handshake),
    ] {
        for (version, expected) in [(VERSION_1, in_1), (VERSION_2, in_2)] {
            let packet = long_of(version, first, b"abc", 20);
            assert_eq!(LongHeader::parse(&packet).unwrap().packet_type, expected);
        }
    }
}

#[test]
fn every_packet_of_a_datagram_is_found() {
    let datagram =
        [long(INITIAL, 300), long(ZERO_RTT, 20), long(HANDSHAKE, 70), SHORT.to_vec()].concat();
    let found: Vec<_> = packets(&datagram).collect();
    let [Packet::Long(initial), Packet::Long(_), Packet::Long(handshake), short] = found[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!(initial.bytes, long(INITIAL, 300));
    assert_eq!(handshake.bytes, long(HANDSHAKE, 70));
    assert_eq!(short, Packet::Short(&SHORT));

    let layout = DatagramLayout::parse(&datagram);
    assert_eq!(layout.one_rtt, Some(datagram.len() - SHORT.len()));
    assert!(layout.has_long && layout.has_handshake && layout.zero_rtt.is_some());
    assert!(!layout.is_version_negotiation);
    assert_eq!(&datagram[layout.initial_dcid.unwrap()], DCID);
}

#[test]
fn a_short_header_packet_is_the_whole_datagram() {
    assert_eq!(types(&SHORT), [None]);
    let layout = DatagramLayout::parse(&SHORT);
    assert_eq!(layout.one_rtt, Some(0));
    assert!(!layout.has_long && layout.initial_dcid.is_none());
}

#[test]
fn the_connection_id_of_the_first_initial_is_the_one_that_counts() {
    let mut second = long(INITIAL, 20);
    second[6] = 0xaa;
    let datagram = [long(HANDSHAKE, 20), long(INITIAL, 20), second].concat();
    let at = long(HANDSHAKE, 20).len() + 6;
    assert_eq!(DatagramLayout::parse(&datagram).initial_dcid, Some(at..at + DCID.len()));
}

#[test]
fn retry_version_negotiation_and_unknown_versions_take_the_rest_of_the_datagram() {
    use LongPacketType::{Retry, UnknownVersion, VersionNegotiation};

    for (packet, expected) in [
        (long(RETRY, 20), Retry),
        (long_of([0; 4], INITIAL, b"abc", 20), VersionNegotiation),
        (long_of([0x1a, 0x2a, 0x3a, 0x4a], HANDSHAKE, b"abc", 20), UnknownVersion),
    ] {
        let datagram = [packet, SHORT.to_vec()].concat();
        let found: Vec<_> = packets(&datagram).collect();
        let [Packet::Long(LongPacket { header, bytes })] = found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((header.packet_type, bytes), (expected, &datagram[..]));
        assert!(!header.packet_type.is_protected());
        let layout = DatagramLayout::parse(&datagram);
        assert!(layout.has_long && layout.one_rtt.is_none() && layout.initial_dcid.is_none());
        assert!(!layout.has_handshake && layout.zero_rtt.is_none());
        assert_eq!(layout.is_version_negotiation, expected == VersionNegotiation);
    }
}

#[test]
fn zeros_that_fill_a_datagram_are_no_packet() {
    let mut datagram = [long(HANDSHAKE, 20), vec![0; 100]].concat();
    assert_eq!(types(&datagram), [Some(LongPacketType::Handshake)]);
    assert_eq!(DatagramLayout::parse(&datagram).one_rtt, None);
    // One byte that is not zero makes it a packet, as it does for quiche.
    *datagram.last_mut().unwrap() = 1;
    assert_eq!(DatagramLayout::parse(&datagram).one_rtt, Some(datagram.len() - 100));
}

#[test]
fn the_fixed_bit_is_not_looked_at() {
    const FIXED_BIT: u8 = 0x40;

    let mut short = SHORT;
    short[0] &= !FIXED_BIT;
    let greased = long(HANDSHAKE & !FIXED_BIT, 20);
    assert_eq!(types(&short), [None]);
    let datagram = [&greased[..], &short].concat();
    assert_eq!(types(&datagram), [Some(LongPacketType::Handshake), None]);
}

#[test]
fn a_packet_cut_short_ends_the_datagram_wherever_it_is_cut() {
    let whole = long(INITIAL, 20);
    for len in 0..whole.len() {
        assert_eq!(types(&whole[..len]), []);
        let layout = DatagramLayout::parse(&whole[..len]);
        let mut unread = DatagramLayout::default();
        unread.has_long = len > 0;
        assert_eq!(layout, unread);
    }
}

#[test]
fn connection_ids_of_known_versions_have_twenty_bytes_at_most() {
    for (version, is_known) in [(VERSION_1, true), (VERSION_2, true), ([9; 4], false)] {
        for len in [MAX_CID_LEN, MAX_CID_LEN + 1, 255] {
            let packet = long_of(version, HANDSHAKE, &vec![7; len], 20);
            let is_read = LongHeader::parse(&packet).is_some();
            assert_eq!(is_read, !is_known || len <= MAX_CID_LEN);
            assert_eq!(Invariants::parse(&packet).unwrap().scid, vec![7; len]);
        }
    }
}

#[test]
fn the_invariants_are_read_of_any_version_and_of_whatever_follows() {
    let datagram = [0x80, 0x1a, 0x2a, 0x3a, 0x4a, 3, 1, 2, 3, 2, 8, 9];
    let expected = Invariants { version: 0x1a2a_3a4a, dcid: &[1, 2, 3], scid: &[8, 9] };
    assert_eq!(Invariants::parse(&datagram), Some(expected));
    for len in 0..datagram.len() {
        assert_eq!(Invariants::parse(&datagram[..len]), None, "{len} bytes");
    }
    assert_eq!(Invariants::parse(&SHORT), None);
}

#[test]
fn a_length_is_read_in_each_of_its_sizes() {
    for prefix in [&[5_u8][..], &[0x40, 5], &[0x80, 0, 0, 5], &[0xc0, 0, 0, 0, 0, 0, 0, 5]] {
        let mut packet = vec![HANDSHAKE, 0, 0, 0, 1, 0, 0];
        packet.extend(prefix);
        packet.extend([9; 7]);
        let header = LongHeader::parse(&packet).unwrap();
        assert_eq!((header.pn_offset, header.payload_len), (7 + prefix.len(), 5));
    }
    let endless = [HANDSHAKE, 0, 0, 0, 1, 0, 0, 0xff, 255, 255, 255, 255, 255, 255, 255, 9];
    assert_eq!(LongHeader::parse(&endless), None);
}

#[test]
fn every_datagram_of_the_fuzzing_corpus_can_be_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/datagram");
    let mut replayed = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check_datagram(&fs::read(&path).unwrap());
        replayed += 1;
    }
    assert!(replayed >= 16, "only {replayed} inputs found");
}

proptest! {
    #[test]
    fn any_datagram_can_be_looked_at(
        datagram in proptest::collection::vec(any::<u8>(), 0..1600),
    ) {
        check_datagram(&datagram);
    }

    #[test]
    fn packets_that_look_like_some_can_be_looked_at(
        parts in proptest::collection::vec((0x80..=0xff_u8, 0..60_u16, 0..4_usize), 0..5),
        rest in proptest::collection::vec(any::<u8>(), 0..30),
    ) {
        let versions = [VERSION_1, VERSION_2, [0; 4], [9; 4]];
        let mut datagram: Vec<u8> = parts
            .iter()
            .flat_map(|&(first, len, version)| long_of(versions[version], first, b"abc", len))
            .collect();
        datagram.extend(rest);
        check_datagram(&datagram);
    }
}
