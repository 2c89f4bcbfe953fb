//! quiche does not look at the reserved bits of 1-RTT packets (RFC 9000 section 17.3.1;
//! cloudflare/quiche#2526).

use crate::harness::*;

#[test]
fn a_packet_with_reserved_bits_is_accepted() {
    let mut ends = Ends::established();
    let (mut keys, _) = ends.keys();
    let packet = ends.client_writes(2, b"x").remove(0);
    let forged = keys.with_frames(packet, &[1, 0, 0, 0], 0x18);
    let accepted =
        ends.deliver_to_server(forged).is_ok() && ends.server.local_error().is_none();
    assert_needed(accepted, "reserved_bits.rs");
}
