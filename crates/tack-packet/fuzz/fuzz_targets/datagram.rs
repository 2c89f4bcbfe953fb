//! Feeds arbitrary datagrams to the parser, and compares what it reads with what quiche does.

#![no_main]

#[path = "../check_datagram.rs"]
mod check_datagram;

use check_datagram::check_datagram;
use libfuzzer_sys::fuzz_target;
use tack_packet::{Invariants, LongHeader, LongPacketType, Packet, packets};

/// The length of connection ids in short headers, which the reader of one has to know.
const DCID_LEN: usize = 8;

fuzz_target!(|datagram: &[u8]| {
    check_datagram(datagram);
    compare(datagram);
    for packet in packets(datagram) {
        match packet {
            Packet::Long(packet) => compare(packet.bytes),
            Packet::Short(packet) => compare(packet),
        }
    }
});

/// quiche must read the same in the first packet. It reads no further than the token, so that
/// it accepts headers which end before their Length field does.
fn compare(packet: &[u8]) {
    let mut copy = packet.to_vec();
    let Ok(theirs) = quiche::Header::from_slice(&mut copy, DCID_LEN) else { return };
    let Some(invariants) = Invariants::parse(packet) else {
        assert_eq!(theirs.ty, quiche::Type::Short);
        return;
    };
    assert_eq!(theirs.version, invariants.version);
    assert_eq!(&theirs.dcid[..], invariants.dcid);
    assert_eq!(&theirs.scid[..], invariants.scid);
    let Some(ours) = LongHeader::parse(packet) else { return };
    assert_eq!(
        (ours.version, ours.dcid, ours.scid),
        (theirs.version, invariants.dcid, invariants.scid)
    );
    let expected = match ours.packet_type {
        LongPacketType::Initial => quiche::Type::Initial,
        LongPacketType::ZeroRtt => quiche::Type::ZeroRTT,
        LongPacketType::Handshake => quiche::Type::Handshake,
        LongPacketType::Retry => quiche::Type::Retry,
        LongPacketType::VersionNegotiation => quiche::Type::VersionNegotiation,
        // quiche reads the type bits of every version as those of version 1.
        LongPacketType::UnknownVersion => return,
    };
    if ours.version <= 1 {
        assert_eq!(theirs.ty, expected);
    }
    if ours.version == 1 && ours.packet_type == LongPacketType::Initial {
        assert_eq!(theirs.token.as_deref(), Some(ours.token));
    }
}
