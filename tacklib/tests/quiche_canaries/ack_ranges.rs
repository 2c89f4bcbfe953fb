//! quiche remembers 68 ranges of received packets, and acknowledges no more.

use tack_proto::frame::{Frame, Frames};

use crate::harness::*;

#[test]
fn a_receiver_of_every_second_packet_forgets_the_oldest() {
    let mut ends = Ends::established();
    let (_, mut keys) = ends.keys();
    for number in 0..200 {
        for datagram in ends.client_writes(2, &[1]) {
            if number % 2 == 0 {
                ends.deliver_to_server(datagram).unwrap();
            }
        }
    }
    let mut ranges = 0;
    for (datagram, _) in sent(&mut ends.server) {
        let (_, payload) = keys.open(&datagram).unwrap();
        for located in Frames::new(&payload) {
            if let Frame::Ack(ack) = located.unwrap().frame {
                ranges = ack.ranges.iter().count();
            }
        }
    }
    assert!(ranges > 1, "{ranges}");
    assert_needed(ranges <= 68, "received_packets.rs");
}
