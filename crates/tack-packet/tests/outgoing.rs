//! What becomes of the packets that a stack has sealed.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use common::{DCID, keys, packet, secret};
use proptest::prelude::*;
use tack_packet::{CipherSuite, Error, OutgoingKeys, ProtectionKeys, TAG_LEN};

const HEADER_LEN: usize = 1 + DCID.len() + 2;
/// What the buffers here hold behind a packet: none of it is the packet's.
const UNTOUCHED: u8 = 0xee;

#[test]
fn a_packet_that_passes_leaves_as_it_was_sealed() {
    for suite in CipherSuite::ALL {
        let mut rig = Rig::new(suite);
        let (mut buf, len) = rig.write(7, b"\x08stream data", 100);
        let before = buf.clone();
        let departed = rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap().pass().unwrap();
        assert_eq!((departed.packet_number, departed.len, departed.generation), (7, len, 0));
        assert_eq!(buf, before);
    }
}

#[test]
fn the_first_bytes_of_the_payload_are_read_without_opening() {
    for suite in CipherSuite::ALL {
        let mut rig = Rig::new(suite);
        for first in [0x01, 0x0a, 0x30] {
            let (mut buf, len) = rig.write(9, &[first, 2, 3, 4, 5, 6], 0);
            let written = rig.outgoing.take(&mut buf, len, DCID.len(), 9).unwrap();
            let bytes = written.first_bytes().unwrap();
            // ring tells five bytes of a block of ChaCha20.
            let known = if suite == CipherSuite::ChaCha20Poly1305Sha256 { 5 } else { 6 };
            assert_eq!(*bytes, [first, 2, 3, 4, 5, 6][..known], "{suite:?}");
            assert_eq!(written.header().packet_number, 9);
            assert_eq!(written.packet_len(), len);
            written.discard();
        }
    }
}

#[test]
fn a_packet_without_payload_has_no_first_bytes() {
    let mut rig = Rig::new(CipherSuite::Aes128GcmSha256);
    // Four bytes of packet number leave no need for a payload.
    let mut buf = common::seal(&rig.stack, 0, 0x43, 5, b"");
    let len = buf.len();
    let written = rig.outgoing.take(&mut buf, len, DCID.len(), 5).unwrap();
    assert!(written.first_bytes().is_none());
    written.discard();
}

#[test]
fn a_copy_can_be_read_of_a_packet_that_passes() {
    let mut rig = Rig::new(CipherSuite::ChaCha20Poly1305Sha256);
    let (mut buf, len) = rig.write(7, b"some frames", 0);
    let before = buf.clone();
    let mut scratch = vec![1; 3];
    let written = rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap();
    let payload = written.decrypt_copy(&mut scratch).unwrap();
    assert_eq!(scratch[payload], *b"some frames");
    let _ = written.pass().unwrap();
    assert_eq!(buf, before);
}

#[test]
fn an_opened_packet_may_still_leave_as_it_was_sealed() {
    let mut rig = Rig::new(CipherSuite::Aes256GcmSha384);
    let (mut buf, len) = rig.write(7, b"some frames", 10);
    let before = buf.clone();
    let mut scratch = Vec::new();
    let opened =
        rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap().open(&mut scratch).unwrap();
    assert_eq!(opened.payload(), b"some frames");
    assert_eq!(opened.pass().unwrap().len, len);
    assert_eq!(buf, before);
}

#[test]
fn other_frames_are_sealed_under_the_same_number() {
    for suite in CipherSuite::ALL {
        for (frames, mark) in [(&b"short"[..], false), (&[0x42; 90], true)] {
            let mut rig = Rig::new(suite);
            let (mut buf, len) = rig.write(0x1234, b"the frames of the stack", 100);
            let mut scratch = Vec::new();
            let written = rig.outgoing.take(&mut buf, len, DCID.len(), 0x1230).unwrap();
            let opened = written.open(&mut scratch).unwrap();
            assert_eq!(opened.payload(), b"the frames of the stack");
            assert_eq!(opened.max_payload_len(), len + 100 - HEADER_LEN - TAG_LEN);
            let departed = opened.seal(frames, mark).unwrap();
            assert_eq!(departed.len, HEADER_LEN + frames.len() + TAG_LEN);

            let peers = rig.peer.open(&mut buf[..departed.len], DCID.len(), 0x1230).unwrap();
            assert_eq!(peers.header.packet_number, 0x1234);
            assert_eq!(peers.header.reserved_bits(), if mark { 0x18 } else { 0 });
            assert_eq!(buf[peers.payload], *frames);
        }
    }
}

#[test]
fn a_shorter_packet_leaves_nothing_of_the_longer_one_behind_it() {
    let mut rig = Rig::new(CipherSuite::Aes128GcmSha256);
    let (mut buf, len) = rig.write(7, &[0x08; 300], 20);
    let mut scratch = Vec::new();
    let written = rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap();
    let departed = written.open(&mut scratch).unwrap().seal(b"short", false).unwrap();
    assert!(departed.len < len);
    assert!(buf[departed.len..len].iter().all(|&byte| byte == 0));
    assert_eq!(buf[len..], [UNTOUCHED; 20]);
}

#[test]
fn a_packet_that_is_dropped_is_wiped() {
    let mut rig = Rig::new(CipherSuite::Aes128GcmSha256);
    let mut scratch = Vec::new();
    for step in 0..4 {
        let (mut buf, len) = rig.write(7, b"some frames", 20);
        let written = rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap();
        match step {
            0 => drop(written),
            1 => written.discard(),
            2 => drop(written.open(&mut scratch).unwrap()),
            _ => written.open(&mut scratch).unwrap().discard(),
        }
        assert_wiped(&buf, len);
    }
    assert_eq!(rig.outgoing.sealed(), 0);
}

#[test]
fn every_error_wipes_the_packet() {
    let suite = CipherSuite::Aes128GcmSha256;
    let mut scratch = Vec::new();

    // To take it: a long header, no room for the sample, an impossible connection id.
    let mut rig = Rig::new(suite);
    let (mut buf, len) = rig.write(7, b"some frames", 20);
    buf[0] |= 0x80;
    assert_eq!(rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap_err(), Error::LongHeader);
    assert_wiped(&buf, len);
    let (mut buf, len) = rig.write(7, b"some frames", 20);
    let error = rig.outgoing.take(&mut buf, len - 20, DCID.len(), 7).unwrap_err();
    assert!(matches!(error, Error::TooShort { .. }));
    assert!(buf[..len - 20].iter().all(|&byte| byte == 0));
    let (mut buf, len) = rig.write(7, b"some frames", 20);
    let error = rig.outgoing.take(&mut buf, len, 21, 7).unwrap_err();
    assert_eq!(error, Error::ConnectionIdLength { actual: 21 });
    assert_wiped(&buf, len);
    // More bytes than there are.
    let (mut buf, len) = rig.write(7, b"some frames", 0);
    let error = rig.outgoing.take(&mut buf, len + 1, DCID.len(), 7).unwrap_err();
    assert_eq!(error, Error::BufferTooSmall { needed: len + 1, actual: len });
    assert_wiped(&buf, len);
    // A key phase of no keys.
    let (mut buf, len) = rig.write(7, b"some frames", 20);
    buf[0] ^= 0x04;
    let error = rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap_err();
    assert_eq!(error, Error::Authentication);
    assert_wiped(&buf, len);

    // To open it.
    let (mut buf, len) = rig.write(7, b"some frames", 20);
    buf[len - 1] ^= 1;
    let written = rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap();
    assert_eq!(written.open(&mut scratch).unwrap_err(), Error::Authentication);
    assert!(scratch.is_empty());
    assert_wiped(&buf, len);

    // To seal it: too much, too little.
    for (frames, error) in [
        (&[0x42; 12][..], Error::BufferTooSmall { needed: 39, actual: 38 }),
        (&[0x42], Error::TooShort { needed: 29, actual: 28 }),
    ] {
        let (mut buf, len) = rig.write(7, b"some frames", 0);
        assert_eq!(len, 38);
        let written = rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap();
        let opened = written.open(&mut scratch).unwrap();
        assert_eq!(opened.seal(frames, false).unwrap_err(), error);
        assert_wiped(&buf, len);
    }
    assert_eq!(rig.outgoing.sealed(), 0);
}

#[test]
fn debug_output_shows_no_secret() {
    let mut rig = Rig::new(CipherSuite::Aes128GcmSha256);
    assert_eq!(
        format!("{:?}", rig.outgoing),
        "OutgoingKeys { suite: Aes128GcmSha256, wire_generation: 0, wire_is_ahead: false, \
         sealed: 0, .. }"
    );
    let (mut buf, len) = rig.write(7, b"some frames", 0);
    let mut scratch = Vec::new();
    let written = rig.outgoing.take(&mut buf, len, DCID.len(), 7).unwrap();
    assert!(format!("{written:?}").ends_with("header_len: 11 }, .. }"));
    let opened = written.open(&mut scratch).unwrap();
    assert!(format!("{opened:?}").ends_with("header_len: 11 }, .. }"));
}

proptest! {
    #[test]
    fn what_is_sealed_again_opens_at_the_peer(
        suite in proptest::sample::select(&CipherSuite::ALL),
        number in 0..1_u64 << 62,
        payload in proptest::collection::vec(any::<u8>(), 2..600),
        frames in proptest::collection::vec(any::<u8>(), 2..700),
        mark: bool,
    ) {
        let mut rig = Rig::new(suite);
        let room = frames.len().saturating_sub(payload.len());
        let (mut buf, len) = rig.write(number, &payload, room);
        let mut scratch = Vec::new();
        let written = rig.outgoing.take(&mut buf, len, DCID.len(), number).unwrap();
        let departed = written.open(&mut scratch).unwrap().seal(&frames, mark).unwrap();
        let opened = rig.peer.open(&mut buf[..departed.len], DCID.len(), number).unwrap();
        prop_assert_eq!(&buf[opened.payload], &frames[..]);
    }

    #[test]
    fn no_input_can_be_taken_that_panics_or_stays_in_the_buffer(
        suite in proptest::sample::select(&CipherSuite::ALL),
        mut bytes in proptest::collection::vec(any::<u8>(), 0..100),
        len in 0..120_usize,
        dcid_len in prop_oneof![0..30_usize, any::<usize>()],
        expected: u64,
    ) {
        let mut rig = Rig::new(suite);
        let mut scratch = Vec::new();
        if let Ok(written) = rig.outgoing.take(&mut bytes, len, dcid_len, expected) {
            prop_assert!(written.open(&mut scratch).is_err());
        }
        let used = len.min(bytes.len());
        prop_assert!(bytes[..used].iter().all(|&byte| byte == 0));
    }
}

fn assert_wiped(buf: &[u8], len: usize) {
    assert!(buf[..len].iter().all(|&byte| byte == 0), "{buf:?}");
    assert!(buf[len..].iter().all(|&byte| byte == UNTOUCHED), "{buf:?}");
}

/// A stack, what stands between it and the wire, and the peer.
struct Rig {
    stack: ProtectionKeys,
    outgoing: OutgoingKeys,
    peer: ProtectionKeys,
}

impl Rig {
    fn new(suite: CipherSuite) -> Self {
        let outgoing = OutgoingKeys::new(suite, &secret(suite)).unwrap();
        Self { stack: keys(suite), outgoing, peer: keys(suite) }
    }

    /// A packet of the stack's, in a buffer with so much room behind it.
    fn write(&self, number: u64, payload: &[u8], room: usize) -> (Vec<u8>, usize) {
        let mut buf = packet(&self.stack, 0, number, 0, payload);
        let len = buf.len();
        buf.resize(len + room, UNTOUCHED);
        (buf, len)
    }
}
