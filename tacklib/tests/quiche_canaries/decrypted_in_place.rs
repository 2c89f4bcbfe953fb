//! quiche decrypts in the caller's buffer; of a packet that does not authenticate it leaves zeros there,
//! and one that it drops unopened stays as it was.

use quiche::RecvInfo;

use crate::common::*;
use crate::harness::*;

/// Where the payload of a packet with a number of one byte begins.
const PAYLOAD: usize = 1 + CID_LEN + 1;

/// The payload of a packet before quiche gets it and after.
fn around_recv(change: impl FnOnce(&mut Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    let mut ends = Ends::established();
    let mut packet = ends.client_writes(2, &[0x61; 40]).remove(0);
    change(&mut packet);
    let before = packet[PAYLOAD..].to_vec();
    let info = RecvInfo { from: ends.client_at, to: server_address() };
    ends.server.recv(&mut packet, info).unwrap();
    (before, packet[PAYLOAD..].to_vec())
}

#[test]
fn a_genuine_packet_is_plaintext_afterwards() {
    let (_, after) = around_recv(|_| {});
    assert!(
        after.windows(40).any(|bytes| bytes == [0x61; 40]),
        "decrypted_in_place.rs relies on it"
    );
}

#[test]
fn a_packet_that_does_not_authenticate_is_zeros_afterwards() {
    let (before, after) = around_recv(|packet| *packet.last_mut().unwrap() ^= 1);
    assert_ne!(before[..8], [0; 8]);
    assert_eq!(after[..8], [0; 8], "decrypted_in_place.rs relies on it");
}

#[test]
fn a_packet_for_another_connection_stays_as_it_was() {
    let (before, after) = around_recv(|packet| packet.truncate(PAYLOAD + 2));
    assert_eq!(after, before, "decrypted_in_place.rs relies on it");
}
