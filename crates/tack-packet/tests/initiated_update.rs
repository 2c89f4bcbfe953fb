//! Key updates between two ends whose stacks follow their peer's and initiate none.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::time::{Duration, Instant};

use common::{DCID, packet};
use proptest::prelude::*;
use tack_packet::{CipherSuite, Error, PacketProtection, ProtectionKeys};

const PTO: Duration = Duration::from_millis(100);
const ALMOST_THREE_PTOS: Duration = Duration::from_nanos(299_999_999);

#[test]
fn this_end_updates_the_keys_of_a_stack_that_cannot() {
    for suite in CipherSuite::ALL {
        let mut net = Net::confirmed(suite);
        net.exchange();
        net.a.update(net.now).unwrap();

        let first = net.a.send(b"first");
        assert_eq!((first.generation, first.is_translated), (1, true));
        assert_eq!(net.b.receive(&first), Ok(b"first".to_vec()));
        // The peer's stack has followed, and so does what it writes.
        let answer = net.b.send(b"answer");
        assert_eq!((answer.generation, answer.is_translated), (1, false));
        assert_eq!(net.a.receive(&answer), Ok(b"answer".to_vec()));
        let next = net.a.send(b"next");
        assert_eq!((next.generation, next.is_translated), (1, false));
        assert_eq!(net.b.receive(&next), Ok(b"next".to_vec()));
    }
}

#[test]
fn the_peers_update_is_followed_without_translation() {
    let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
    net.exchange();
    net.b.update(net.now).unwrap();
    let first = net.b.send(b"first");
    assert_eq!(net.a.receive(&first), Ok(b"first".to_vec()));
    let answer = net.a.send(b"answer");
    assert_eq!((answer.generation, answer.is_translated), (1, false));
    assert_eq!(net.a.protection.outgoing().wire_generation(), 1);
}

#[test]
fn both_ends_may_update_at_once() {
    let mut net = Net::confirmed(CipherSuite::Aes256GcmSha384);
    net.exchange();
    net.a.update(net.now).unwrap();
    net.b.update(net.now).unwrap();
    let (from_a, from_b) = (net.a.send(b"from a"), net.b.send(b"from b"));
    assert!(from_a.is_translated && from_b.is_translated);
    assert_eq!(net.b.receive(&from_a), Ok(b"from a".to_vec()));
    assert_eq!(net.a.receive(&from_b), Ok(b"from b".to_vec()));
    for end in [&mut net.a, &mut net.b] {
        let next = end.send(b"next");
        assert_eq!((next.generation, next.is_translated), (1, false));
    }
    net.exchange();
}

#[test]
fn packets_reordered_around_an_update_arrive_both_ways() {
    let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
    net.exchange();
    let late_from_b = [net.b.send(b"late 0"), net.b.send(b"late 1")];
    let late_from_a = [net.a.send(b"late 2"), net.a.send(b"late 3")];
    net.a.update(net.now).unwrap();
    let update = net.a.send(b"update");
    let after = net.a.send(b"after");
    assert_eq!((late_from_a[0].generation, update.generation), (0, 1));

    // The update overtakes what went before it, and is overtaken by what goes after it.
    assert_eq!(net.b.receive(&after), Ok(b"after".to_vec()));
    assert_eq!(net.b.receive(&late_from_a[1]), Ok(b"late 3".to_vec()));
    assert_eq!(net.b.receive(&update), Ok(b"update".to_vec()));
    assert_eq!(net.b.receive(&late_from_a[0]), Ok(b"late 2".to_vec()));
    let answer = net.b.send(b"answer");
    assert_eq!(net.a.receive(&late_from_b[1]), Ok(b"late 1".to_vec()));
    assert_eq!(net.a.receive(&answer), Ok(b"answer".to_vec()));
    assert_eq!(net.a.receive(&late_from_b[0]), Ok(b"late 0".to_vec()));
    assert_eq!(net.a.protection.incoming().failed_opens(), 0);
    assert_eq!(net.b.protection.incoming().failed_opens(), 0);
}

#[test]
fn the_stack_may_write_many_packets_before_it_follows() {
    let mut net = Net::confirmed(CipherSuite::ChaCha20Poly1305Sha256);
    net.exchange();
    net.a.update(net.now).unwrap();
    for _ in 0..50 {
        let sent = net.a.send(b"data");
        assert_eq!((sent.generation, sent.is_translated), (1, true));
        assert_eq!(net.b.receive(&sent), Ok(b"data".to_vec()));
    }
    assert_eq!(net.a.protection.outgoing().sealed(), 50);
}

#[test]
fn updates_follow_one_another_from_either_end() {
    let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
    net.exchange();
    for generation in 1..=6 {
        let (one, other) = if generation % 3 == 0 {
            (&mut net.b, &mut net.a)
        } else {
            (&mut net.a, &mut net.b)
        };
        one.update(net.now).unwrap();
        let sent = one.send(b"update");
        assert_eq!(sent.generation, generation);
        assert_eq!(other.receive(&sent), Ok(b"update".to_vec()));
        net.exchange();
        net.now += 3 * PTO;
    }
    assert_eq!(net.b.protection.incoming().generation(), 6);
}

#[test]
fn an_update_waits_for_confirmation_acknowledgement_answer_and_three_ptos() {
    let mut net = Net::new(CipherSuite::Aes128GcmSha256);
    let refused = Err(Error::UpdateNotAllowed);
    net.exchange();
    assert_eq!(net.a.update(net.now), refused, "the handshake is not confirmed");
    net.confirm();
    assert_eq!(net.a.update(net.now), Ok(()));
    assert_eq!(net.a.update(net.now), refused, "no packet of this generation was sent");
    let update = net.a.send(b"update");
    net.b.receive(&update).unwrap();
    let answer = net.b.send(b"answer");
    net.a.receive(&answer).unwrap();
    assert_eq!(net.a.update(net.now), refused, "the update is not acknowledged");
    net.exchange();
    net.now += ALMOST_THREE_PTOS;
    assert_eq!(net.a.update(net.now), refused, "it is three probe timeouts too soon");
    net.now += Duration::from_nanos(1);
    assert_eq!(net.a.update(net.now), Ok(()));
}

#[test]
fn an_update_waits_until_the_stack_has_followed_the_last_one() {
    let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
    net.exchange();
    net.a.update(net.now).unwrap();
    let update = net.a.send(b"update");
    net.b.receive(&update).unwrap();
    let answer = net.b.send(b"answer");
    net.a.receive(&answer).unwrap();
    net.a.acknowledge(net.now, &answer);
    net.now += 3 * PTO;
    assert_eq!(net.a.update(net.now), Err(Error::UpdateNotAllowed));
    assert!(!net.a.send(b"followed").is_translated);
    assert_eq!(net.a.update(net.now), Ok(()));
}

#[test]
fn an_acknowledgement_of_older_packets_does_not_allow_an_update() {
    let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
    net.exchange();
    let before = net.a.send(b"before").number;
    net.a.update(net.now).unwrap();
    let update = net.a.send(b"update");
    net.b.receive(&update).unwrap();
    let answer = net.b.send(b"answer");
    net.a.receive(&answer).unwrap();
    net.a.send(b"followed");
    let at = net.now + 10 * PTO;
    net.a.protection.on_acknowledged(net.now, PTO, before, 1).unwrap();
    assert!(!net.a.protection.can_update(at));
    net.a.protection.on_acknowledged(net.now, PTO, update.number, 1).unwrap();
    assert!(net.a.protection.can_update(at));
}

#[test]
fn an_acknowledgement_in_older_keys_than_the_packets_is_an_error_of_the_peer() {
    let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
    net.exchange();
    let before = net.a.send(b"before").number;
    net.a.update(net.now).unwrap();
    let update = net.a.send(b"update").number;
    let protection = &mut net.a.protection;
    assert_eq!(protection.on_acknowledged(net.now, PTO, before, 0), Ok(()));
    assert_eq!(protection.on_acknowledged(net.now, PTO, update, 0), Err(Error::KeyUpdate));
}

#[test]
fn a_peer_that_updates_before_the_stack_is_confirmed_is_translated_for_it() {
    let mut net = Net::new(CipherSuite::Aes128GcmSha256);
    net.b.confirm();
    net.exchange();
    let late = net.b.send(b"late");
    net.b.update(net.now).unwrap();

    let update = net.b.send(b"update");
    assert_eq!(net.a.receive(&update), Ok(b"update".to_vec()));
    assert!(!net.a.stack.has_followed());
    // The peer expects an answer in its new keys, and gets it.
    let answer = net.a.send(b"answer");
    assert_eq!((answer.generation, answer.is_translated), (1, true));
    assert_eq!(net.b.receive(&answer), Ok(b"answer".to_vec()));
    assert_eq!(net.a.receive(&late), Ok(b"late".to_vec()));
    // The keys of the stack are kept for as long as it needs them.
    for _ in 0..2 {
        net.a.protection.discard_previous(net.now, PTO);
        net.now += 10 * PTO;
    }
    net.exchange();
    assert!(!net.a.stack.has_followed());

    // Once it is confirmed the stack follows with the next packet, and needs no help any more.
    net.a.confirm();
    net.exchange();
    assert!(net.a.stack.has_followed());
    assert!(!net.a.send(b"by itself").is_translated);
    net.exchange();
}

#[test]
fn a_second_update_before_the_stack_is_confirmed_is_refused() {
    let mut net = Net::new(CipherSuite::Aes128GcmSha256);
    net.b.confirm();
    net.exchange();
    net.b.update(net.now).unwrap();
    let update = net.b.send(b"update");
    net.a.receive(&update).unwrap();
    net.exchange();
    net.now += 3 * PTO;
    net.b.update(net.now).unwrap();
    let second = net.b.send(b"second");
    let error = Error::UnknownGeneration { generation: 2, current: 1 };
    assert_eq!(net.a.receive(&second), Err(error));
    assert_eq!(net.a.protection.incoming().generation(), 1);
}

#[test]
fn previous_keys_are_kept_for_three_ptos() {
    let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
    net.exchange();
    let late = [net.b.send(b"late 0"), net.b.send(b"late 1")];
    net.b.update(net.now).unwrap();
    let update = net.b.send(b"update");
    net.a.receive(&update).unwrap();

    net.a.protection.discard_previous(net.now, PTO);
    net.now += ALMOST_THREE_PTOS;
    net.a.protection.discard_previous(net.now, PTO);
    assert_eq!(net.a.receive(&late[0]), Ok(b"late 0".to_vec()));
    net.now += Duration::from_nanos(1);
    net.a.protection.discard_previous(net.now, PTO);
    let error = Error::UnknownGeneration { generation: 0, current: 1 };
    assert_eq!(net.a.receive(&late[1]), Err(error));
    assert_eq!(net.a.protection.incoming().failed_opens(), 0, "nothing was tried");
}

#[test]
fn the_time_for_previous_keys_begins_anew_with_each_update() {
    let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
    net.exchange();
    net.b.update(net.now).unwrap();
    net.exchange();
    net.a.protection.discard_previous(net.now, PTO);
    net.now += 3 * PTO; // nobody asks: the keys of generation 0 are still there
    let late = net.b.send(b"late");
    net.b.update(net.now).unwrap();
    let update = net.b.send(b"update");
    assert_eq!(update.generation, 2);
    net.a.receive(&update).unwrap();
    net.a.protection.discard_previous(net.now, PTO);
    net.a.protection.discard_previous(net.now, PTO);
    assert_eq!(net.a.receive(&late), Ok(b"late".to_vec()));
}

#[test]
fn a_forged_update_moves_neither_end() {
    let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
    net.exchange();
    let mut forged = net.b.send(b"data");
    forged.bytes[0] ^= 0x04;
    assert_eq!(net.a.receive(&forged), Err(Error::Authentication));
    assert_eq!(net.a.protection.incoming().generation(), 0);
    assert!(!net.a.send(b"data").is_translated);
    net.exchange();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// This end sends.
    Send(bool),
    /// This end gets one of the packets that are under way to it, or loses it.
    Arrive { at_a: bool, which: usize, lost: bool },
    /// This end updates if it may.
    Update(bool),
    /// Time passes.
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Send),
        6 => (any::<bool>(), 0..4_usize, prop::bool::weighted(0.1))
            .prop_map(|(at_a, which, lost)| Step::Arrive { at_a, which, lost }),
        1 => any::<bool>().prop_map(Step::Update),
        1 => (1..300_u32).prop_map(Step::Wait),
    ]
}

proptest! {
    /// What arrives in less than three probe timeouts opens, and carries what was sent, whatever
    /// is updated, lost or reordered.
    #[test]
    fn ends_that_update_at_random_understand_each_other(
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut net = Net::confirmed(CipherSuite::Aes128GcmSha256);
        net.exchange();
        let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
        for step in steps {
            let now = net.now;
            // What is as late as that is lost.
            for under_way in [&mut to_a, &mut to_b] {
                under_way.retain(|&(sent, _): &(Instant, Sent)| now < sent + PTO);
            }
            match step {
                Step::Send(true) => to_b.push((now, net.a.send(b"from a"))),
                Step::Send(false) => to_a.push((now, net.b.send(b"from b"))),
                Step::Arrive { at_a, which, lost } => {
                    let (end, under_way, expected) = if at_a {
                        (&mut net.a, &mut to_a, b"from b")
                    } else {
                        (&mut net.b, &mut to_b, b"from a")
                    };
                    if under_way.is_empty() {
                        continue;
                    }
                    let (_, sent) = under_way.remove(which % under_way.len());
                    if !lost {
                        prop_assert_eq!(end.receive(&sent), Ok(expected.to_vec()));
                        end.acknowledge(now, &sent);
                    }
                }
                Step::Update(at_a) => {
                    let end = if at_a { &mut net.a } else { &mut net.b };
                    let _ = end.update(now);
                }
                Step::Wait(ms) => net.now += Duration::from_millis(ms.into()),
            }
            for end in [&mut net.a, &mut net.b] {
                end.protection.discard_previous(net.now, PTO);
            }
        }
        let generations = [&net.a, &net.b].map(|end| end.protection.outgoing().wire_generation());
        prop_assert!(generations[0].abs_diff(generations[1]) <= 1);
        net.exchange();
        net.exchange();
        prop_assert_eq!(net.a.protection.incoming().failed_opens(), 0);
        prop_assert_eq!(net.b.protection.incoming().failed_opens(), 0);
    }
}

/// A packet on the wire.
#[derive(Clone, Debug)]
struct Sent {
    number: u64,
    generation: u64,
    /// It left in another generation than the stack's.
    is_translated: bool,
    bytes: Vec<u8>,
    /// The largest packet number that it acknowledges.
    acknowledges: Option<u64>,
}

/// A stack that follows its peer's key updates and initiates none, as quiche does.
struct Stack {
    incoming: ProtectionKeys,
    outgoing: ProtectionKeys,
    is_confirmed: bool,
    next_number: u64,
}

impl Stack {
    fn has_followed(&self) -> bool {
        self.incoming.generation() > 0
    }

    /// Writes a packet in the generation that it receives in.
    fn write(&mut self, payload: &[u8]) -> Vec<u8> {
        let generation = self.incoming.generation();
        while self.outgoing.generation() < generation {
            let next = self.outgoing.generation() + 1;
            let number = 1000 * next; // as long as the keys get on, any number does
            let mut step = packet(&self.outgoing, next, number, 0, b"step");
            self.outgoing.open(&mut step, DCID.len(), number).unwrap();
        }
        self.next_number += 1;
        packet(&self.outgoing, generation, self.next_number - 1, 0, payload)
    }

    fn read(&mut self, packet: &[u8], expected: u64) -> Result<Vec<u8>, Error> {
        let phase = self.incoming.peek(packet, DCID.len(), expected)?.key_phase();
        if !self.is_confirmed && phase {
            return Err(Error::Authentication);
        }
        let mut copy = packet.to_vec();
        let opened = self.incoming.open(&mut copy, DCID.len(), expected)?;
        assert_eq!(opened.header.reserved_bits(), 0);
        Ok(copy[opened.payload].to_vec())
    }
}

/// A stack, and what stands between it and the wire.
struct End {
    stack: Stack,
    protection: PacketProtection,
    largest_received: Option<u64>,
}

impl End {
    fn new(suite: CipherSuite, incoming: &[u8], outgoing: &[u8]) -> Self {
        let keys = |secret| ProtectionKeys::new(suite, secret).unwrap();
        let stack = Stack {
            incoming: keys(incoming),
            outgoing: keys(outgoing),
            is_confirmed: false,
            next_number: 0,
        };
        let protection = PacketProtection::new(suite, incoming, outgoing).unwrap();
        Self { stack, protection, largest_received: None }
    }

    fn confirm(&mut self) {
        self.stack.is_confirmed = true;
        self.protection.on_handshake_confirmed();
    }

    fn update(&mut self, now: Instant) -> Result<(), Error> {
        let can = self.protection.can_update(now);
        let updated = self.protection.initiate_update(now);
        assert_eq!(updated.is_ok(), can);
        updated
    }

    fn send(&mut self, payload: &[u8]) -> Sent {
        let mut buf = self.stack.write(payload);
        let (len, number) = (buf.len(), self.stack.next_number - 1);
        let acknowledges = self.largest_received;
        let mut scratch = Vec::new();
        let written = self.protection.take(&mut buf, len, DCID.len(), number).unwrap();
        let is_translated = !written.can_pass();
        // Every second packet is opened and sealed again though it need not be.
        let departed = if is_translated || number % 2 == 1 {
            let opened = written.open(&mut scratch).unwrap();
            assert_eq!(opened.payload(), payload);
            opened.seal(payload, true).unwrap()
        } else {
            written.pass().unwrap()
        };
        assert_eq!(departed.packet_number, number);
        let generation = departed.generation;
        Sent { number, generation, is_translated, bytes: buf, acknowledges }
    }

    /// What the stack reads in the packet, if it accepts it.
    fn receive(&mut self, sent: &Sent) -> Result<Vec<u8>, Error> {
        let expected = self.largest_received.map_or(0, |largest| largest + 1);
        let header = self.protection.read_header(&sent.bytes, DCID.len(), expected)?;
        assert_eq!(header.packet_number(), sent.number);
        let payload = if header.is_current() && header.reserved_bits() == 0 {
            self.stack.read(&sent.bytes, expected)?
        } else {
            let (mut scratch, mut out) = (Vec::new(), Vec::new());
            let opened = self.protection.open(&sent.bytes, header, &mut scratch)?;
            assert_eq!(opened.generation, sent.generation);
            if header.reserved_bits() == 0 && !self.protection.needs_translation(&opened) {
                out.extend_from_slice(&sent.bytes);
            } else {
                self.protection.seal_for_stack(&opened, true, &scratch, &mut out).unwrap();
            }
            self.stack.read(&out, expected)?
        };
        self.largest_received = self.largest_received.max(Some(sent.number));
        Ok(payload)
    }

    /// Takes the acknowledgement in a packet that has arrived.
    fn acknowledge(&mut self, now: Instant, sent: &Sent) {
        if let Some(largest) = sent.acknowledges {
            self.protection.on_acknowledged(now, PTO, largest, sent.generation).unwrap();
        }
    }
}

/// Two ends, and the time.
struct Net {
    a: End,
    b: End,
    now: Instant,
}

impl Net {
    fn new(suite: CipherSuite) -> Self {
        let secrets = [0xa1, 0xb2].map(|byte| vec![byte; suite.secret_len()]);
        Self {
            a: End::new(suite, &secrets[1], &secrets[0]),
            b: End::new(suite, &secrets[0], &secrets[1]),
            now: common::epoch(),
        }
    }

    fn confirmed(suite: CipherSuite) -> Self {
        let mut net = Self::new(suite);
        net.confirm();
        net
    }

    fn confirm(&mut self) {
        self.a.confirm();
        self.b.confirm();
    }

    /// Each end sends two packets, which arrive and acknowledge those of the other.
    fn exchange(&mut self) {
        for _ in 0..2 {
            let sent = self.a.send(b"there");
            assert_eq!(self.b.receive(&sent), Ok(b"there".to_vec()));
            self.b.acknowledge(self.now, &sent);
            let sent = self.b.send(b"back");
            assert_eq!(self.a.receive(&sent), Ok(b"back".to_vec()));
            self.a.acknowledge(self.now, &sent);
        }
    }
}
