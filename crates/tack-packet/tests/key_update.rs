//! Following the peer's key updates (RFC 9001 section 6).

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use common::{DCID, keys, packet, seal};
use tack_packet::{CipherSuite, Error, ProtectionKeys, ShortHeader, TAG_LEN};

const KEY_PHASE: u8 = 0x04;

#[test]
fn a_packet_of_the_next_generation_moves_the_receiver_on_in_every_suite() {
    for suite in CipherSuite::ALL {
        let mut pair = Pair::new(suite);
        for generation in 0..5 {
            for number in generation * 10..generation * 10 + 3 {
                assert_eq!(pair.deliver(generation, number), Ok(generation));
            }
            assert_eq!(pair.receiver.generation(), generation);
        }
    }
}

#[test]
fn each_direction_updates_on_its_own() {
    let mut there = Pair::new(CipherSuite::Aes128GcmSha256);
    let mut back = Pair::new(CipherSuite::Aes128GcmSha256);
    assert_eq!(there.deliver(1, 5), Ok(1));
    assert_eq!(back.deliver(0, 5), Ok(0));
    assert_eq!(back.deliver(1, 6), Ok(1));
    assert_eq!(there.deliver(2, 6), Ok(2));
    assert_eq!((there.receiver.generation(), back.receiver.generation()), (2, 1));
}

#[test]
fn packets_reordered_across_an_update_open_with_the_keys_they_were_sealed_with() {
    let mut pair = Pair::new(CipherSuite::Aes256GcmSha384);
    assert_eq!(pair.deliver(0, 10), Ok(0));
    assert_eq!(pair.deliver(1, 14), Ok(1));
    assert_eq!(pair.deliver(0, 11), Ok(0), "late, of the previous generation");
    assert_eq!(pair.deliver(1, 13), Ok(1), "late, but of the current generation");
    assert_eq!(pair.deliver(0, 12), Ok(0), "the last one before the update");
    assert_eq!(pair.receiver.generation(), 1);
    assert_eq!(pair.receiver.failed_opens(), 0);
}

#[test]
fn a_late_packet_of_the_previous_generation_can_be_sealed_again() {
    let mut pair = Pair::new(CipherSuite::ChaCha20Poly1305Sha256);
    pair.deliver(0, 1).unwrap();
    pair.deliver(1, 3).unwrap();

    let original = packet(&pair.sender_at(0), 0, 2, 0, b"late");
    let mut buf = original.clone();
    let opened = pair.receiver.open(&mut buf, DCID.len(), 4).unwrap();
    pair.receiver
        .seal(opened.generation, &mut buf, &opened.header, opened.payload.len())
        .unwrap();
    assert_eq!(buf, original);
}

#[test]
fn previous_current_and_next_seal_and_no_other_generation() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    let can_seal = |keys: &ProtectionKeys, generation| {
        let header =
            ShortHeader { first_byte: 0x41, packet_number: 9, pn_len: 2, header_len: 3 };
        let mut buf = [0; 3 + 4 + TAG_LEN];
        buf[..3].copy_from_slice(&[0x41, 0, 9]);
        keys.seal(generation, &mut buf, &header, 4)
    };
    let unknown = |generation, current| Err(Error::UnknownGeneration { generation, current });

    assert!(can_seal(&pair.receiver, 0).is_ok());
    assert!(can_seal(&pair.receiver, 1).is_ok());
    assert_eq!(can_seal(&pair.receiver, 2), unknown(2, 0));
    assert_eq!(can_seal(&pair.receiver, u64::MAX), unknown(u64::MAX, 0));

    pair.deliver(1, 1).unwrap();
    pair.deliver(2, 2).unwrap();
    assert_eq!(can_seal(&pair.receiver, 0), unknown(0, 2));
    assert!(can_seal(&pair.receiver, 1).is_ok());
    assert!(can_seal(&pair.receiver, 2).is_ok());
    assert!(can_seal(&pair.receiver, 3).is_ok());
    assert_eq!(can_seal(&pair.receiver, 4), unknown(4, 2));
}

#[test]
fn a_forged_key_phase_bit_changes_nothing() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    pair.deliver(0, 1).unwrap();

    // Flipped on the wire: header protection is an exclusive or, so this flips the plain bit.
    let mut forged = packet(&pair.sender_at(0), 0, 2, 0, b"payload");
    forged[0] ^= KEY_PHASE;
    assert_eq!(pair.open(forged), Err(Error::Authentication));
    // Sealed with the current keys, announced as the next.
    let mislabelled = seal(&pair.sender_at(0), 0, 0x41 | KEY_PHASE, 3, b"payload");
    assert_eq!(pair.open(mislabelled), Err(Error::Authentication));

    assert_eq!(pair.receiver.generation(), 0);
    assert_eq!(pair.receiver.failed_opens(), 2);
    assert_eq!(pair.deliver(0, 4), Ok(0));
    assert_eq!(pair.deliver(1, 5), Ok(1));
}

#[test]
fn an_old_generation_under_new_packet_numbers_is_refused() {
    // RFC 9001 section 6.4: higher packet numbers never have older keys.
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    pair.deliver(0, 1).unwrap();
    pair.deliver(1, 14).unwrap();
    assert_eq!(pair.deliver(0, 15), Err(Error::Authentication));
    assert_eq!(pair.deliver(0, 14), Err(Error::Authentication));
    pair.deliver(1, 11).unwrap();
    assert_eq!(pair.deliver(0, 12), Err(Error::Authentication));
    assert_eq!(pair.receiver.generation(), 1);
    assert_eq!(pair.deliver(0, 10), Ok(0));
}

#[test]
fn a_replay_from_two_generations_ago_is_refused() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    let old = packet(&pair.sender_at(0), 0, 1, 0, b"payload");
    assert_eq!(pair.open(old.clone()), Ok(0));
    pair.deliver(1, 2).unwrap();
    pair.deliver(2, 3).unwrap();
    // Its phase bit is that of the current generation, whose keys do not open it.
    assert_eq!(pair.open(old), Err(Error::Authentication));
    assert_eq!(pair.receiver.generation(), 2);
}

#[test]
fn discarded_keys_open_nothing_and_the_next_update_still_works() {
    let mut pair = Pair::new(CipherSuite::Aes128GcmSha256);
    pair.deliver(0, 1).unwrap();
    pair.deliver(1, 10).unwrap();
    pair.receiver.discard_previous();
    assert_eq!(pair.deliver(0, 2), Err(Error::UnknownGeneration { generation: 0, current: 1 }));
    assert_eq!(pair.receiver.failed_opens(), 0, "nothing was tried");
    assert_eq!(pair.deliver(2, 11), Ok(2));
}

/// A receiver, and senders of whatever generation.
struct Pair {
    suite: CipherSuite,
    receiver: ProtectionKeys,
    largest: u64,
}

impl Pair {
    fn new(suite: CipherSuite) -> Self {
        Self { suite, receiver: keys(suite), largest: 0 }
    }

    /// Keys that have come to `generation` by opening packets of their own.
    fn sender_at(&self, generation: u64) -> ProtectionKeys {
        let mut sender = keys(self.suite);
        for next in 1..=generation {
            let mut own = packet(&sender, next, next, 0, b"step");
            sender.open(&mut own, DCID.len(), next).unwrap();
        }
        sender
    }

    /// Seals and opens a packet; the generation that opened it.
    fn deliver(&mut self, generation: u64, number: u64) -> Result<u64, Error> {
        self.open(packet(&self.sender_at(generation), generation, number, 0, b"payload"))
    }

    fn open(&mut self, mut packet: Vec<u8>) -> Result<u64, Error> {
        let opened = self.receiver.open(&mut packet, DCID.len(), self.largest + 1)?;
        assert_eq!(packet[opened.payload], *b"payload");
        self.largest = self.largest.max(opened.header.packet_number);
        Ok(opened.generation)
    }
}
