//! Opening and sealing within one generation, and what damaged input does.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use common::{DCID, keys, packet, seal};
use proptest::prelude::*;
use tack_packet::{CipherSuite, Error, ShortHeader, TAG_LEN};

#[test]
fn a_sealed_packet_opens_and_seals_to_the_same_bytes_again() {
    for suite in CipherSuite::ALL {
        let mut keys = keys(suite);
        for pn_len in 1..=4 {
            let first_byte = 0x40 | (pn_len as u8 - 1);
            let original = seal(&keys, 0, first_byte, 0x1234_5678_9abc, b"some frames");
            let mut buf = original.clone();
            let opened = keys.open(&mut buf, DCID.len(), 0x1234_5678_9aba).unwrap();
            assert_eq!(
                opened.header,
                ShortHeader {
                    first_byte,
                    packet_number: 0x1234_5678_9abc,
                    pn_len,
                    header_len: 9 + pn_len,
                }
            );
            assert_eq!(buf[opened.payload.clone()], *b"some frames");
            keys.seal(0, &mut buf, &opened.header, opened.payload.len()).unwrap();
            assert_eq!(buf, original);
        }
    }
}

#[test]
fn peek_reads_what_open_authenticates() {
    let mut keys = keys(CipherSuite::Aes128GcmSha256);
    let mut buf = packet(&keys, 0, 77, 0x10, b"payload");
    let before = buf.clone();
    let peeked = keys.peek(&buf, DCID.len(), 70).unwrap();
    assert_eq!(buf, before);
    assert_eq!(keys.open(&mut buf, DCID.len(), 70).unwrap().header, peeked);
}

#[test]
fn reserved_bits_come_through_and_are_authenticated() {
    let mut keys = keys(CipherSuite::Aes128GcmSha256);
    for reserved in [0, 0x08, 0x10, 0x18] {
        let sealed = packet(&keys, 0, 1, reserved, b"payload");
        let opened = keys.open(&mut sealed.clone(), DCID.len(), 1).unwrap();
        assert_eq!(opened.header.reserved_bits(), reserved);

        let mut forged = sealed;
        forged[0] ^= 0x08;
        assert_eq!(keys.open(&mut forged, DCID.len(), 1).unwrap_err(), Error::Authentication);
    }
}

#[test]
fn bytes_of_the_connection_id_are_authenticated() {
    let mut keys = keys(CipherSuite::ChaCha20Poly1305Sha256);
    let mut forged = packet(&keys, 0, 1, 0, b"payload");
    forged[3] ^= 1;
    assert_eq!(keys.open(&mut forged, DCID.len(), 1).unwrap_err(), Error::Authentication);
}

#[test]
fn a_packet_too_short_for_the_sample_is_refused_untouched() {
    let mut keys = keys(CipherSuite::Aes128GcmSha256);
    let whole = packet(&keys, 0, 1, 0, b"pl"); // two bytes of number and two of payload
    let needed = 1 + DCID.len() + 4 + TAG_LEN;
    assert_eq!(whole.len(), needed);
    assert!(keys.open(&mut whole.clone(), DCID.len(), 1).is_ok());
    for actual in 0..needed {
        let mut short = whole[..actual].to_vec();
        assert_eq!(
            keys.open(&mut short, DCID.len(), 1).unwrap_err(),
            Error::TooShort { needed, actual }
        );
        assert_eq!(short, whole[..actual]);
    }
    assert_eq!(keys.failed_opens(), 0);
}

#[test]
fn a_long_header_is_not_mistaken_for_a_packet() {
    let mut keys = keys(CipherSuite::Aes128GcmSha256);
    let mut initial = vec![0xc3; 1200];
    assert_eq!(keys.open(&mut initial, 8, 0).unwrap_err(), Error::LongHeader);
    assert_eq!(keys.peek(&initial, 8, 0), Err(Error::LongHeader));
}

#[test]
fn sealing_needs_room_a_consistent_header_and_four_bytes_to_sample() {
    let keys = keys(CipherSuite::Aes128GcmSha256);
    let header = ShortHeader { first_byte: 0x40, packet_number: 9, pn_len: 1, header_len: 2 };
    let with_payload = |payload: usize| {
        let mut buf = vec![0; 2 + payload + TAG_LEN];
        buf[..2].copy_from_slice(&[0x40, 9]);
        buf
    };
    assert_eq!(keys.seal(0, &mut with_payload(3), &header, 3), Ok(21));
    let mut short = with_payload(2);
    assert_eq!(
        keys.seal(0, &mut short, &header, 2),
        Err(Error::TooShort { needed: 21, actual: 20 })
    );
    assert_eq!(short, with_payload(2), "untouched");
    assert_eq!(
        keys.seal(0, &mut with_payload(3), &header, 4),
        Err(Error::BufferTooSmall { needed: 22, actual: 21 })
    );
    assert!(matches!(
        keys.seal(0, &mut with_payload(3), &header, usize::MAX),
        Err(Error::BufferTooSmall { .. })
    ));
    for wrong in [
        ShortHeader { packet_number: 8, ..header },
        ShortHeader { pn_len: 2, ..header },
        ShortHeader { pn_len: 0, ..header },
        ShortHeader { pn_len: usize::MAX, ..header },
        ShortHeader { header_len: 0, ..header },
        ShortHeader { header_len: 1, ..header },
    ] {
        let mut buf = with_payload(3);
        assert_eq!(keys.seal(0, &mut buf, &wrong, 3), Err(Error::HeaderMismatch), "{wrong:?}");
        assert_eq!(buf, with_payload(3));
    }
    let mut long = with_payload(3);
    long[0] = 0xc0;
    assert_eq!(keys.seal(0, &mut long, &header, 3), Err(Error::HeaderMismatch));
}

#[test]
fn failures_are_counted_against_the_integrity_limit() {
    let mut keys = keys(CipherSuite::ChaCha20Poly1305Sha256);
    let mut forged = packet(&keys, 0, 1, 0, b"payload");
    *forged.last_mut().unwrap() ^= 1;
    for count in 1..=3 {
        keys.open(&mut forged.clone(), DCID.len(), 1).unwrap_err();
        assert_eq!(keys.failed_opens(), count);
    }
    assert!(!keys.integrity_limit_reached());
    keys.open(&mut packet(&keys, 0, 1, 0, b"payload"), DCID.len(), 1).unwrap();
    assert_eq!(keys.failed_opens(), 3);
}

#[test]
fn debug_output_shows_no_secret() {
    let shown = format!("{:?}", keys(CipherSuite::Aes128GcmSha256));
    assert_eq!(
        shown,
        "ProtectionKeys { suite: Aes128GcmSha256, generation: 0, failed_opens: 0, .. }"
    );
}

fn any_suite() -> impl Strategy<Value = CipherSuite> {
    proptest::sample::select(&CipherSuite::ALL)
}

proptest! {
    #[test]
    fn no_input_opens_by_chance_or_panics(
        suite in any_suite(),
        mut bytes in proptest::collection::vec(any::<u8>(), 0..100),
        dcid_len in prop_oneof![0..64_usize, any::<usize>()],
        expected: u64,
    ) {
        let mut keys = keys(suite);
        let _ = keys.peek(&bytes, dcid_len, expected);
        prop_assert!(keys.open(&mut bytes, dcid_len, expected).is_err());
        prop_assert_eq!(keys.generation(), 0);
    }

    #[test]
    fn a_packet_with_any_bit_flipped_does_not_open(
        suite in any_suite(),
        number in 0..1_u64 << 20,
        payload in proptest::collection::vec(any::<u8>(), 2..60),
        at: proptest::sample::Index,
        bit in 0..8,
    ) {
        let mut keys = keys(suite);
        let mut sealed = packet(&keys, 0, number, 0, &payload);
        let at = at.index(sealed.len());
        sealed[at] ^= 1_u8 << bit;
        prop_assert!(keys.open(&mut sealed, DCID.len(), number).is_err());
    }

    #[test]
    fn what_is_sealed_opens(
        suite in any_suite(),
        number in 0..1_u64 << 62,
        late in 0..1_u64 << 15,
        payload in proptest::collection::vec(any::<u8>(), 2..1500),
    ) {
        let mut keys = keys(suite);
        let mut sealed = packet(&keys, 0, number, 0, &payload);
        let expected = number.saturating_sub(late);
        let opened = keys.open(&mut sealed, DCID.len(), expected).unwrap();
        prop_assert_eq!(opened.header.packet_number, number);
        prop_assert_eq!(&sealed[opened.payload], &payload[..]);
    }

    #[test]
    fn sealing_never_panics(
        generation: u64,
        mut buf in proptest::collection::vec(any::<u8>(), 0..64),
        first_byte: u8,
        packet_number: u64,
        pn_len in prop_oneof![0..9_usize, any::<usize>()],
        header_len in prop_oneof![0..64_usize, any::<usize>()],
        payload_len in prop_oneof![0..64_usize, any::<usize>()],
    ) {
        let header = ShortHeader { first_byte, packet_number, pn_len, header_len };
        let keys = keys(CipherSuite::Aes128GcmSha256);
        let _ = keys.seal(generation, &mut buf, &header, payload_len);
    }
}
