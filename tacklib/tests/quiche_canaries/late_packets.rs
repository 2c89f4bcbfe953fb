//! quiche takes a packet that comes more than 127 numbers late for a duplicate.

use crate::harness::*;

#[test]
fn a_packet_that_comes_200_numbers_late_is_dropped() {
    let mut ends = Ends::established();
    let late = ends.client_writes(2, &[1]);
    for _ in 0..200 {
        for datagram in ends.client_writes(2, &[1]) {
            ends.deliver_to_server(datagram).unwrap();
        }
    }
    let before = ends.server.stats().recv;
    for datagram in late {
        ends.deliver_to_server(datagram).unwrap();
    }
    assert_needed(ends.server.stats().recv == before, "late_packets.rs");
}
