//! Packets to open and seal.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::time::Instant;

use tack_packet::{CipherSuite, ProtectionKeys, ShortHeader, TAG_LEN};

pub const DCID: [u8; 8] = *b"\x11\x22\x33\x44\x55\x66\x77\x88";

pub fn keys(suite: CipherSuite) -> ProtectionKeys {
    ProtectionKeys::new(suite, &secret(suite)).unwrap()
}

pub fn secret(suite: CipherSuite) -> Vec<u8> {
    (0..suite.secret_len() as u8).collect()
}

/// A packet of `generation`, with its own key phase bit and `reserved` in the reserved bits.
pub fn packet(
    sender: &ProtectionKeys,
    generation: u64,
    packet_number: u64,
    reserved: u8,
    payload: &[u8],
) -> Vec<u8> {
    let first_byte = 0x40 | reserved | ((generation % 2) as u8) << 2 | 1;
    seal(sender, generation, first_byte, packet_number, payload)
}

/// A packet whose first byte need not fit its generation.
pub fn seal(
    sender: &ProtectionKeys,
    generation: u64,
    first_byte: u8,
    packet_number: u64,
    payload: &[u8],
) -> Vec<u8> {
    let pn_len = usize::from(first_byte & 3) + 1;
    let header_len = 1 + DCID.len() + pn_len;
    let header = ShortHeader { first_byte, packet_number, pn_len, header_len };

    let mut buf = vec![first_byte];
    buf.extend(DCID);
    buf.extend(&packet_number.to_be_bytes()[8 - pn_len..]);
    buf.extend(payload);
    buf.extend([0; TAG_LEN]);
    let len = sender.seal(generation, &mut buf, &header, payload.len()).unwrap();
    assert_eq!(len, buf.len());
    buf
}

/// Some point in time; tests count from there and never look at the clock again.
#[allow(clippy::disallowed_methods, reason = "the only way to get an instant")]
pub fn epoch() -> Instant {
    Instant::now()
}
