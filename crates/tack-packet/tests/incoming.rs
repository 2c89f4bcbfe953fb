//! What becomes of the packets that the peer has sealed.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use common::{DCID, keys, packet, secret};
use proptest::prelude::*;
use tack_packet::{CipherSuite, Error, IncomingKeys, TAG_LEN};

fn incoming(suite: CipherSuite) -> IncomingKeys {
    IncomingKeys::new(suite, &secret(suite)).unwrap()
}

#[test]
fn a_packet_is_opened_with_the_mask_that_its_header_was_read_with() {
    for suite in CipherSuite::ALL {
        let mut incoming = incoming(suite);
        let sealed = packet(&keys(suite), 0, 77, 0x18, b"some frames");
        let header = incoming.read_header(&sealed, DCID.len(), 70).unwrap();
        assert_eq!((header.packet_number(), header.reserved_bits()), (77, 0x18));
        assert!(header.is_current());
        let mut scratch = vec![9; 2];
        let opened = incoming.open(&sealed, header, &mut scratch).unwrap();
        assert_eq!((&opened.header, opened.generation), (header.header(), 0));
        assert_eq!(scratch[opened.payload], *b"some frames");
    }
}

#[test]
fn the_first_bytes_can_be_read_without_opening_whatever_the_suite() {
    for suite in CipherSuite::ALL {
        let incoming = incoming(suite);
        for (number, payload) in [(7, &b"payload"[..]), (0x1_0007, &[0xab; 200])] {
            let sealed = packet(&keys(suite), 0, number, 0, payload);
            let header = incoming.read_header(&sealed, DCID.len(), number).unwrap();
            let bytes = incoming.first_bytes(&sealed, &header).unwrap();
            let known = if suite == CipherSuite::ChaCha20Poly1305Sha256 { 5 } else { 16 };
            assert_eq!(*bytes, payload[..known.min(payload.len())], "{suite:?}");
        }
    }
}

#[test]
fn the_first_bytes_of_another_generation_or_of_nothing_are_not_read() {
    let incoming = incoming(CipherSuite::Aes128GcmSha256);
    let sender = keys(CipherSuite::Aes128GcmSha256);
    let next = packet(&sender, 1, 7, 0, b"payload");
    let header = incoming.read_header(&next, DCID.len(), 7).unwrap();
    assert!(incoming.first_bytes(&next, &header).is_none());
    let current = packet(&sender, 0, 7, 0, b"payload");
    let header = incoming.read_header(&current, DCID.len(), 7).unwrap();
    let empty = &current[..header.header().header_len + TAG_LEN];
    assert!(incoming.first_bytes(empty, &header).is_none());
}

#[test]
fn a_header_opens_no_packet_but_its_own() {
    let mut incoming = incoming(CipherSuite::Aes128GcmSha256);
    let sender = keys(CipherSuite::Aes128GcmSha256);
    let one = packet(&sender, 0, 77, 0, b"some frames");
    let other = packet(&sender, 0, 78, 0, b"some frames");
    let header = incoming.read_header(&one, DCID.len(), 77).unwrap();
    let mut scratch = Vec::new();
    for wrong in [&other[..], &one[..12], &one[..5], &[]] {
        assert!(incoming.open(wrong, header, &mut scratch).is_err());
        assert!(scratch.is_empty());
    }
    assert!(incoming.open(&one, header, &mut scratch).is_ok());
}

#[test]
fn a_packet_of_another_generation_is_not_current() {
    let incoming = incoming(CipherSuite::Aes128GcmSha256);
    let next = packet(&keys(CipherSuite::Aes128GcmSha256), 1, 77, 0, b"some frames");
    assert!(!incoming.read_header(&next, DCID.len(), 77).unwrap().is_current());
}

#[test]
fn what_is_sealed_for_the_stack_opens_there_without_the_mark() {
    for suite in CipherSuite::ALL {
        let mut incoming = incoming(suite);
        let mut stack = keys(suite);
        for (number, clear_mark) in [(77, true), (78, false)] {
            let sealed = packet(&keys(suite), 0, number, 0x18, b"some frames");
            let header = incoming.read_header(&sealed, DCID.len(), 77).unwrap();
            let (mut scratch, mut out) = (Vec::new(), vec![3; 500]);
            let opened = incoming.open(&sealed, header, &mut scratch).unwrap();
            incoming.seal_for_stack(&opened, clear_mark, b"others", &mut out).unwrap();
            assert_eq!(out[1..9], DCID);
            let at_stack = stack.open(&mut out, DCID.len(), 77).unwrap();
            assert_eq!(at_stack.header.packet_number, number);
            assert_eq!(at_stack.header.reserved_bits(), if clear_mark { 0 } else { 0x18 });
            assert_eq!(out[at_stack.payload], *b"others");
        }
    }
}

#[test]
fn too_few_frames_to_protect_the_header_are_not_sealed() {
    let mut incoming = incoming(CipherSuite::Aes128GcmSha256);
    let sealed = packet(&keys(CipherSuite::Aes128GcmSha256), 0, 77, 0, b"some frames");
    let header = incoming.read_header(&sealed, DCID.len(), 77).unwrap();
    let (mut scratch, mut out) = (Vec::new(), vec![3; 500]);
    let opened = incoming.open(&sealed, header, &mut scratch).unwrap();
    let error = incoming.seal_for_stack(&opened, true, &[1], &mut out).unwrap_err();
    let actual = 1 + DCID.len() + 2 + 1 + TAG_LEN;
    assert_eq!(error, Error::TooShort { needed: actual + 1, actual });
    assert!(out.is_empty());
}

#[test]
fn a_connection_id_that_is_too_long_is_refused() {
    let incoming = incoming(CipherSuite::Aes128GcmSha256);
    let error = incoming.read_header(&[0x40; 100], 21, 0).unwrap_err();
    assert_eq!(error, Error::ConnectionIdLength { actual: 21 });
    assert!(incoming.read_header(&[0x40; 100], 20, 0).is_ok());
}

#[test]
fn what_does_not_authenticate_is_counted_and_changes_nothing_else() {
    let mut incoming = incoming(CipherSuite::ChaCha20Poly1305Sha256);
    let mut forged = packet(&keys(CipherSuite::ChaCha20Poly1305Sha256), 1, 7, 0, b"frames");
    *forged.last_mut().unwrap() ^= 1;
    let mut scratch = Vec::new();
    for count in 1..=3 {
        let header = incoming.read_header(&forged, DCID.len(), 7).unwrap();
        let error = incoming.open(&forged, header, &mut scratch).unwrap_err();
        assert_eq!(error, Error::Authentication);
        assert_eq!((incoming.failed_opens(), incoming.generation()), (count, 0));
    }
    incoming.on_failed_open();
    assert_eq!(incoming.failed_opens(), 4);
    assert!(!incoming.integrity_limit_reached());
    assert_eq!(
        format!("{incoming:?}"),
        "IncomingKeys { suite: ChaCha20Poly1305Sha256, generation: 0, failed_opens: 4, .. }"
    );
}

proptest! {
    #[test]
    fn no_input_opens_by_chance_or_panics(
        suite in proptest::sample::select(&CipherSuite::ALL),
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        dcid_len in prop_oneof![0..30_usize, any::<usize>()],
        expected: u64,
    ) {
        let mut incoming = incoming(suite);
        let mut scratch = Vec::new();
        if let Ok(header) = incoming.read_header(&bytes, dcid_len, expected) {
            prop_assert!(incoming.open(&bytes, header, &mut scratch).is_err());
            prop_assert!(scratch.is_empty());
        }
        prop_assert_eq!(incoming.generation(), 0);
    }

    #[test]
    fn any_frames_can_be_sealed_for_the_stack(
        suite in proptest::sample::select(&CipherSuite::ALL),
        number in 0..1_u64 << 62,
        frames in proptest::collection::vec(any::<u8>(), 2..1500),
    ) {
        let mut incoming = incoming(suite);
        let sealed = packet(&keys(suite), 0, number, 0x18, b"some frames");
        let header = incoming.read_header(&sealed, DCID.len(), number).unwrap();
        let (mut scratch, mut out) = (Vec::new(), Vec::new());
        let opened = incoming.open(&sealed, header, &mut scratch).unwrap();
        incoming.seal_for_stack(&opened, true, &frames, &mut out).unwrap();
        let at_stack = keys(suite).open(&mut out, DCID.len(), number).unwrap();
        prop_assert_eq!(&out[at_stack.payload], &frames[..]);
    }
}
