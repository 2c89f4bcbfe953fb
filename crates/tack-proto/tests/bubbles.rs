//! What bubbles are worth where acknowledgements get lost: sender and receiver of a stream
//! over a link in virtual time. Deterministic for a seed.

#![allow(clippy::unwrap_used)] // a simulation that goes wrong has failed

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_proto::ecn::EcnCodepoint;
use tack_proto::frame::{AckFrequency, Frame, Frames, Tack, encode_tack};
use tack_proto::profiles::Profile;
use tack_proto::receiver::{Received, Receiver, ReceiverConfig, ReceiverStats};
use tack_proto::sender::{
    AckOutcome, Departure, Frequency, Peer, Sender, SenderConfig, SenderStats,
};
use tack_proto::varint;

const MS: Duration = Duration::from_millis(1);
const ONE_WAY: Duration = Duration::from_millis(100);
const MAX_ACK_DELAY: Duration = Duration::from_millis(50);
/// Stream bytes and all bytes of a packet.
const DATA: u64 = 1200;
const PACKET: usize = 1250;
/// 50 Mbit/s.
const BYTES_PER_MS: f64 = 6250.0;

/// What gets lost.
#[derive(Clone, Copy)]
struct Losses {
    data: f64,
    acks: f64,
    /// All acknowledgements for so long at the end of every two seconds.
    outage: Duration,
    /// All bubbles, as a receiver that knows none would leave them out.
    bubbles: bool,
}

/// What a run showed.
#[derive(Debug)]
struct Outcome {
    sender: SenderStats,
    receiver: ReceiverStats,
    /// Packets sent again although their data had arrived.
    needless: u64,
    /// Bytes that the application could read.
    in_order: u64,
    longest_tack: usize,
    looked_into: u64,
}

/// A packet of the sender's.
struct Data {
    packet_number: u64,
    /// Where its chunk of the stream begins.
    offset: u64,
    update: Option<AckFrequency>,
    departure: Option<u64>,
}

struct Transfer {
    start: Instant,
    now: Instant,
    last_acknowledged: Instant,
    probes: u8,
    losses: Losses,
    random: Pcg64Mcg,
    sender: Sender,
    receiver: Receiver,
    /// Packets and acknowledgements on their way.
    data: VecDeque<(Instant, Data)>,
    acks: VecDeque<(Instant, Vec<u8>)>,
    busy_until: Instant,
    next_pn: u64,
    next_offset: u64,
    /// Chunks of the stream in flight, by packet number, and those to send again.
    in_flight: BTreeMap<u64, (Instant, u64)>,
    again: VecDeque<u64>,
    largest_acked: u64,
    /// Chunks that have arrived.
    arrived: Vec<bool>,
    outcome: Outcome,
}

impl Transfer {
    fn new(losses: Losses) -> Self {
        let now = epoch();
        let mut sender = SenderConfig::new(Profile::DEFAULT, PACKET as u64, 11);
        sender.frequency = Frequency {
            packets: 2,
            per_round_trip: 4.0,
            longest_interval: MAX_ACK_DELAY,
            shortest_interval: MS,
            short_path_interval: Duration::ZERO,
        };
        sender.peer = Some(Peer::Tack { min_ack_delay: MS, max_ack_delay: MAX_ACK_DELAY });
        sender.max_in_flight = 100_000_000;
        sender.is_server = true;
        let receiver = ReceiverConfig::new(MAX_ACK_DELAY);
        Self {
            start: now,
            now,
            last_acknowledged: now,
            probes: 0,
            losses,
            random: Pcg64Mcg::seed_from_u64(11),
            sender: Sender::new(now, sender, Some(2 * ONE_WAY)),
            receiver: Receiver::new(now, receiver),
            data: VecDeque::new(),
            acks: VecDeque::new(),
            busy_until: now,
            next_pn: 0,
            next_offset: 0,
            in_flight: BTreeMap::new(),
            again: VecDeque::new(),
            largest_acked: 0,
            arrived: Vec::new(),
            outcome: Outcome {
                sender: SenderStats::default(),
                receiver: ReceiverStats::default(),
                needless: 0,
                in_order: 0,
                longest_tack: 0,
                looked_into: 0,
            },
        }
    }

    fn run(mut self, time: Duration) -> Outcome {
        let end = self.now + time;
        while self.now < end {
            self.receive();
            self.acknowledge();
            self.hear();
            self.probe();
            self.transmit();
            self.now += MS;
        }
        let chunks = self.arrived.iter().take_while(|arrived| **arrived).count() as u64;
        Outcome {
            sender: self.sender.stats(),
            receiver: self.receiver.stats(),
            in_order: chunks * DATA,
            ..self.outcome
        }
    }

    /// RFC 9002 section 6.2.4: two packets where nothing has been acknowledged for long.
    fn probe(&mut self) {
        if self.now < self.last_acknowledged + 4 * ONE_WAY {
            return;
        }
        self.last_acknowledged = self.now;
        self.probes = 2;
        self.again.extend(self.in_flight.first_key_value().map(|(_, (_, offset))| offset));
    }

    fn transmit(&mut self) {
        while self.probes > 0 || self.sender.may_send(self.now, true) {
            self.probes = self.probes.saturating_sub(1);
            let offset = self.again.pop_front().unwrap_or_else(|| {
                self.next_offset += DATA;
                self.next_offset - DATA
            });
            let departure = self.sender.timestamp(self.now).map(|timestamp| timestamp.0);
            let update = self.sender.frequency_update();
            let pn = self.next_pn;
            self.next_pn += 1;
            if self.sender.wants_payloads() {
                self.outcome.looked_into += 1;
                self.sender.on_payload(pn, &payload(offset, update.as_ref()));
            }
            let leaving = Departure {
                packet_number: pn,
                bytes: PACKET,
                ack_eliciting: true,
                path: None,
                is_probe: false,
                is_mtu_probe: false,
                update,
                has_timestamp: false,
            };
            self.sender.on_packet_sent(self.now, &leaving);
            self.in_flight.insert(pn, (self.now, offset));
            let free = self.busy_until.max(self.now);
            if (free - self.now) > ONE_WAY {
                continue; // the buffer is full
            }
            self.busy_until = free + MS.mul_f64(PACKET as f64 / BYTES_PER_MS);
            if !self.chance(self.losses.data) {
                let at = self.busy_until + ONE_WAY;
                self.data
                    .push_back((at, Data { packet_number: pn, offset, update, departure }));
            }
        }
    }

    fn receive(&mut self) {
        while let Some((at, _)) = self.data.front()
            && *at <= self.now
        {
            let (_, packet) = self.data.pop_front().unwrap();
            let Data { packet_number, offset, update, departure } = packet;
            self.receiver.on_packet(
                self.now,
                Received {
                    packet_number,
                    bytes: PACKET,
                    ack_eliciting: true,
                    departure,
                    ends_stream: false,
                    ecn: EcnCodepoint::NotEct,
                },
            );
            let payload = payload(offset, None);
            let frame = Frames::new(&payload).next().unwrap().unwrap().frame;
            let Frame::Stream(stream) = frame else { panic!("{frame:?}") };
            self.receiver.on_stream(self.now, packet_number, &stream);
            if let Some(update) = update {
                self.receiver.on_frequency_update(&update);
            }
            let chunk = (offset / DATA) as usize;
            self.arrived.resize(self.arrived.len().max(chunk + 1), false);
            self.arrived[chunk] = true;
        }
    }

    fn acknowledge(&mut self) {
        while let Some(due) = self.receiver.due(self.now) {
            let mut frame = Vec::new();
            assert!(self.receiver.write(self.now, due, 1200, &mut frame));
            if let Frame::Tack(tack) = decode(&frame) {
                self.outcome.longest_tack = self.outcome.longest_tack.max(frame.len());
                if self.losses.bubbles {
                    frame = without_bubbles(&tack);
                }
            }
            let outage = self.in_outage();
            if !self.chance(self.losses.acks) && !outage {
                self.acks.push_back((self.now + ONE_WAY, frame));
            }
        }
    }

    fn hear(&mut self) {
        while let Some((at, _)) = self.acks.front()
            && *at <= self.now
        {
            let (_, frame) = self.acks.pop_front().unwrap();
            self.last_acknowledged = self.now;
            let outcome = match decode(&frame) {
                Frame::Tack(tack) => {
                    self.sender.check_tack(self.now, &tack).unwrap();
                    if self.sender.is_left_to_long_tack(&tack) {
                        self.sender.on_left_tack(tack.sequence);
                        continue;
                    }
                    let expected = self.sender.newly_acknowledged(&tack);
                    let outcome = self.sender.on_tack(self.now, &tack);
                    assert_eq!(outcome.acked, expected);
                    outcome
                }
                Frame::Iack(iack) => {
                    self.sender.check_iack(self.now, &iack).unwrap();
                    let expected = self.sender.newly_acknowledged_by_iack(&iack);
                    let outcome = self.sender.on_iack(self.now, &iack);
                    assert_eq!(outcome.acked, expected);
                    outcome
                }
                other => panic!("{other:?}"),
            };
            self.detect_losses(&outcome);
        }
    }

    /// What a QUIC stack does with an acknowledgement, RFC 9002 section 6.1.
    fn detect_losses(&mut self, outcome: &AckOutcome) {
        for pn in outcome.acked.iter().cloned().flatten() {
            self.in_flight.remove(&pn);
            self.largest_acked = self.largest_acked.max(pn);
        }
        if outcome.acked.is_empty() {
            return;
        }
        let patience = 2 * ONE_WAY * 9 / 8 + ONE_WAY;
        let lost: Vec<_> = self
            .in_flight
            .range(..self.largest_acked)
            .filter(|(pn, (sent, _))| {
                **pn + 3 <= self.largest_acked || *sent + patience <= self.now
            })
            .map(|(pn, (_, offset))| (*pn, *offset))
            .collect();
        for (pn, offset) in lost {
            self.in_flight.remove(&pn);
            self.again.push_back(offset);
            let chunk = (offset / DATA) as usize;
            self.outcome.needless += u64::from(self.arrived.get(chunk) == Some(&true));
        }
    }

    fn in_outage(&self) -> bool {
        let within = (self.now - self.start).as_millis() % 2000;
        within + self.losses.outage.as_millis() >= 2000
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }
}

#[allow(clippy::disallowed_methods)] // an arbitrary instant to count from
fn epoch() -> Instant {
    Instant::now()
}

fn decode(bytes: &[u8]) -> Frame<'_> {
    Frames::new(bytes).next().unwrap().unwrap().frame
}

/// The frames of a packet with one chunk of stream 0.
fn payload(offset: u64, update: Option<&AckFrequency>) -> Vec<u8> {
    let mut out = Vec::with_capacity(PACKET);
    if let Some(update) = update {
        update.encode(&mut out);
    }
    out.push(0x0e); // STREAM with offset and length
    for value in [0, offset, DATA] {
        varint::put(&mut out, value);
    }
    out.resize(out.len() + DATA as usize, 0xda);
    out
}

fn without_bubbles(tack: &Tack<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let none = std::iter::empty();
    encode_tack(&mut out, &tack.fields(), tack.ranges.iter(), none, usize::MAX).unwrap();
    out
}

fn transfer(losses: Losses) -> Outcome {
    let outcome = Transfer::new(losses).run(Duration::from_secs(60));
    println!("{outcome:?}");
    outcome
}

#[test]
fn bubbles_save_needless_retransmissions_where_the_ack_path_fails_at_times() {
    let losses = Losses { data: 0.02, acks: 0.3, outage: 500 * MS, bubbles: false };
    let with = transfer(losses);
    let without = transfer(Losses { bubbles: true, ..losses });
    assert!(without.needless > 1000, "{without:?}");
    assert!(with.needless * 3 < without.needless * 2, "{with:?} {without:?}");
    assert!(with.in_order > without.in_order, "{with:?} {without:?}");
    let unknown = without.needless - with.needless;
    assert!(with.sender.by_bubbles > unknown / 2, "{with:?}");
}

#[test]
fn where_no_acknowledgement_gets_lost_tacks_stay_short_and_packets_closed() {
    let losses = Losses { data: 0.05, acks: 0.0, outage: Duration::ZERO, bubbles: false };
    let clean = transfer(losses);
    assert!(clean.sender.lost_packets > 500, "{clean:?}");
    assert_eq!((clean.receiver.bubbles, clean.looked_into), (0, 0));
    let lossy = transfer(Losses { acks: 0.5, ..losses });
    assert!(lossy.receiver.bubbles > 1000 && lossy.looked_into > 1000, "{lossy:?}");
    assert!(lossy.longest_tack > clean.longest_tack);
}
