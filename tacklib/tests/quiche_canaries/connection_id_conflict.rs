//! quiche answers two connection ids of one sequence number with FRAME_ENCODING_ERROR, where RFC 9000 section
//! 19.15 has PROTOCOL_VIOLATION (cloudflare/quiche#2630).

use crate::harness::*;

const FRAME_ENCODING_ERROR: u64 = 0x07;

fn new_connection_id(cid: [u8; CID_LEN]) -> Vec<u8> {
    let mut frame = vec![0x18, 1, 0, CID_LEN as u8];
    frame.extend_from_slice(&cid);
    frame.extend_from_slice(&[9; 16]);
    frame
}

#[test]
fn two_ids_of_one_number_are_an_encoding_error() {
    let mut ends = Ends::established();
    let frames = [new_connection_id([1; CID_LEN]), new_connection_id([2; CID_LEN])].concat();
    assert!(ends.inject(&frames).is_err());
    let code = ends.server.local_error().unwrap().error_code;
    assert_needed(code == FRAME_ENCODING_ERROR, "connection_id_conflict.rs");
}
