//! quiche pads datagrams with zero bytes behind the last packet, and not with PADDING frames in it (RFC 9000
//! section 14.1): other stacks have taken them for a stateless reset.

use crate::harness::*;

#[test]
fn zeros_follow_the_last_packet_of_a_datagram() {
    let mut ends = Ends::new(&mut config(), &mut config());
    let mut padded = false;
    for _ in 0..3 {
        for (datagram, _) in sent(&mut ends.client) {
            padded |= ends_with_zeros(&datagram);
            ends.deliver_to_server(datagram).unwrap();
        }
        for (datagram, _) in sent(&mut ends.server) {
            padded |= ends_with_zeros(&datagram);
            ends.deliver_to_client(datagram).unwrap();
        }
    }
    assert_needed(padded, "zero_padding.rs");
}

/// Whether zeros follow the long-header packets of a datagram: no packet begins with one.
fn ends_with_zeros(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Some(packet) = crate::handshake_reserved_bits::LongPacket::read(rest) {
        rest = &rest[packet.end..];
    }
    rest.len() > 20 && rest.iter().all(|byte| *byte == 0)
}
