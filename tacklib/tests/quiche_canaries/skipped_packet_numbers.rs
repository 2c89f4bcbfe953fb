//! quiche skips a packet number (RFC 9000 section 21.4) after as many packets as its window holds: with the
//! window of the inert controller next to never.

use crate::harness::*;

const PACKETS: u64 = 150;

fn skips(window: usize) -> bool {
    let mut client = config();
    client.set_cc_algorithm(quiche::CongestionControlAlgorithm::Bbr2Gcongestion);
    client.set_initial_congestion_window_packets(window);
    client.enable_pacing(false);
    let mut ends = Ends::established_with(&mut client, &mut config());
    let (mut keys, _) = ends.keys();
    let mut numbers = Vec::new();
    for _ in 0..PACKETS {
        for datagram in ends.client_writes(2, &[1]) {
            numbers.push(keys.open(&datagram).unwrap().0.packet_number);
            ends.deliver_to_server(datagram).unwrap();
        }
        for (datagram, _) in sent(&mut ends.server) {
            ends.deliver_to_client(datagram).unwrap();
        }
    }
    numbers.windows(2).any(|pair| pair[1] > pair[0] + 1)
}

#[test]
fn a_wide_window_means_no_skipped_numbers() {
    assert!(skips(10), "a narrow one means some");
    assert_needed(!skips(20_000), "skipped_packet_numbers.rs");
}
