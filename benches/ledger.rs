//! The records of packet numbers: the receiver's of what arrived, the sender's of what is in
//! flight.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]
#![allow(missing_docs, reason = "criterion's macros write functions without any")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{
    BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_proto::frame::{Frame, Frames, Tack, TackFields, encode_tack};
use tack_proto::profiles::Profile;
use tack_proto::receiver::ReceivedPackets;
use tack_proto::sender::{Departure, Sender, SenderConfig};

const LOSS: f64 = 0.05;
const SEED: u64 = 1;

/// Packets on their way to the receiver's record.
const ARRIVALS: u64 = 10_000;

/// Packets in flight: 13.5 MB, or 540 Mbit/s at 200 ms.
const IN_FLIGHT: u64 = 10_000;
/// With four TACKs for each round trip, each acknowledges a quarter of them.
const PER_TACK: u64 = IN_FLIGHT / 4;
const RTT: Duration = Duration::from_millis(200);
const PACKET: usize = 1350;

/// The packet numbers below `end` that arrive.
fn arrivals(end: u64, loss: f64) -> Vec<u64> {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    (0..end).filter(|_| !random.random_bool(loss)).collect()
}

fn receiver(c: &mut Criterion) {
    let mut group = c.benchmark_group("received packets");
    for (name, loss) in [("in order", 0.0), ("5 % lost", LOSS)] {
        let numbers = arrivals(ARRIVALS, loss);
        group.throughput(Throughput::Elements(numbers.len() as u64));
        group.bench_function(BenchmarkId::new("insert", name), |b| {
            b.iter(|| {
                let mut received = ReceivedPackets::default();
                for &number in &numbers {
                    black_box(received.insert(number));
                }
                received
            });
        });
    }
    group.finish();
}

/// A sender in the middle of a long transfer: TACKs so far have told it of `acknowledged`, and
/// `IN_FLIGHT` packets have left since.
fn in_flight(start: Instant, acknowledged: &[u8]) -> Sender {
    let config = SenderConfig::new(Profile::DEFAULT, PACKET as u64, SEED);
    let mut sender = Sender::new(start, config, Some(RTT));
    for packet_number in 0..PER_TACK + IN_FLIGHT {
        let departure = Departure {
            packet_number,
            bytes: PACKET,
            ack_eliciting: true,
            path: None,
            is_probe: false,
            is_mtu_probe: false,
            update: None,
            has_timestamp: false,
        };
        sender.on_packet_sent(start, &departure);
    }
    sender.on_tack(start + RTT, &read(acknowledged));
    sender
}

/// The TACK of a receiver that has these numbers.
fn tack(sequence: u64, received: &ReceivedPackets) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = TackFields { sequence, ..TackFields::default() };
    let bubbles = std::iter::empty();
    encode_tack(&mut out, &fields, received.newest_first(), bubbles, usize::MAX).unwrap();
    out
}

fn read(tack: &[u8]) -> Tack<'_> {
    match Frames::new(tack).next().unwrap().unwrap().frame {
        Frame::Tack(tack) => tack,
        other => panic!("{other:?}"),
    }
}

/// What a TACK says when the receiver has `numbers`.
fn received(numbers: impl Iterator<Item = u64>) -> ReceivedPackets {
    let mut received = ReceivedPackets::default();
    for number in numbers {
        received.insert(number);
    }
    received
}

fn sender(c: &mut Criterion) {
    let mut group = c.benchmark_group("sent packets");
    group.throughput(Throughput::Elements(PER_TACK));
    for (name, loss) in [("nothing lost", 0.0), ("5 % lost", LOSS)] {
        let numbers = arrivals(2 * PER_TACK, loss);
        let before = received(numbers.iter().copied().filter(|&number| number < PER_TACK));
        let before = tack(0, &before);
        // A TACK repeats what the one before said, lest that was lost.
        let next = tack(1, &received(numbers.iter().copied()));
        let next = read(&next);
        let start = Instant::now();
        let now = start + RTT + RTT / 4;
        group.bench_function(BenchmarkId::new("on_tack, 10k in flight", name), |b| {
            b.iter_batched_ref(
                || in_flight(start, &before),
                |sender| sender.on_tack(now, &next),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, receiver, sender);
criterion_main!(benches);
