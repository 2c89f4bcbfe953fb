// What must hold of every datagram; for the fuzz target, and for the test that replays its corpus.

use tack_packet::{
    DatagramLayout, Invariants, LongHeader, LongPacket, MAX_CID_LEN, Packet, packets,
};

/// Panics if what is read of the datagram contradicts itself.
pub fn check_datagram(datagram: &[u8]) {
    let layout = DatagramLayout::parse(datagram);
    let mut at = 0;
    let mut short = None;
    for packet in packets(datagram) {
        assert_eq!(short, None, "a packet with a short header is the last");
        match packet {
            Packet::Short(bytes) => {
                assert_eq!(bytes, &datagram[at..]);
                assert!(bytes[0] & 0x80 == 0);
                short = Some(at);
            }
            Packet::Long(packet) => {
                check_long(&packet, &datagram[at..]);
                at += packet.bytes.len();
            }
        }
    }
    assert!(at <= datagram.len());
    assert_eq!(layout.one_rtt, short);
    assert!(layout.one_rtt.is_none_or(|at| at < datagram.len()));
    assert_eq!(layout.has_long, datagram.first().is_some_and(|first| first & 0x80 != 0));
    if let Some(dcid) = layout.initial_dcid {
        assert!(datagram[dcid].len() <= MAX_CID_LEN);
    }
}

fn check_long(packet: &LongPacket<'_>, rest: &[u8]) {
    let LongPacket { header, bytes } = packet;
    assert_eq!(*bytes, &rest[..header.packet_len()]);
    assert!(bytes[0] & 0x80 != 0);
    assert!(header.pn_offset + header.payload_len == bytes.len());
    assert!(header.packet_type.is_protected() || bytes.len() == rest.len());
    // The packet alone reads as it does in front of others.
    assert_eq!(LongHeader::parse(bytes), Some(*header));
    let invariants =
        Invariants { version: header.version, dcid: header.dcid, scid: header.scid };
    assert_eq!(Invariants::parse(bytes), Some(invariants));
}
