//! quiche's `recv` returns the same for a packet that it accepts and one that it drops; only its counters
//! tell.

use crate::harness::*;

#[test]
fn a_damaged_packet_looks_accepted() {
    let mut ends = Ends::established();
    let mut packet = ends.client_writes(2, b"x").remove(0);
    *packet.last_mut().unwrap() ^= 1;
    let (len, before) = (packet.len(), ends.server.stats().recv);
    let result = ends.deliver_to_server(packet);
    assert_eq!(ends.server.stats().recv, before, "it was dropped");
    assert_needed(result == Ok(len), "quiche_counters.rs");
}
