//! The records of packet numbers: the receiver's of what arrived, the sender's of what is in
//! flight.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]
#![allow(missing_docs, reason = "criterion's macros write functions without any")]

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use criterion::{
    BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_proto::receiver::Ledger;
use tack_proto::sender::SentLedger;

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
    let mut group = c.benchmark_group("receiver ledger");
    for (name, loss) in [("in order", 0.0), ("5 % lost", LOSS)] {
        let numbers = arrivals(ARRIVALS, loss);
        group.throughput(Throughput::Elements(numbers.len() as u64));
        group.bench_function(BenchmarkId::new("insert", name), |b| {
            b.iter(|| {
                let mut ledger = Ledger::default();
                for &number in &numbers {
                    black_box(ledger.insert(number));
                }
                ledger
            });
        });
    }
    group.finish();
}

/// A sender in the middle of a long transfer: TACKs so far have told it of `acknowledged`, and
/// `IN_FLIGHT` packets have left since.
fn in_flight(start: Instant, acknowledged: &Ledger) -> SentLedger {
    let mut sent = SentLedger::new(start, true);
    for number in 0..PER_TACK + IN_FLIGHT {
        sent.on_sent(start, number, PACKET, true);
    }
    sent.on_ack(start + RTT, acknowledged.newest_first(), &[], RTT).unwrap();
    sent
}

/// What a TACK says when the receiver has `numbers`.
fn received(numbers: impl Iterator<Item = u64>) -> Ledger {
    let mut ledger = Ledger::default();
    for number in numbers {
        ledger.insert(number);
    }
    ledger
}

fn sender(c: &mut Criterion) {
    let mut group = c.benchmark_group("sent ledger");
    group.throughput(Throughput::Elements(PER_TACK));
    for (name, loss) in [("nothing lost", 0.0), ("5 % lost", LOSS)] {
        let numbers = arrivals(2 * PER_TACK, loss);
        let before = received(numbers.iter().copied().filter(|&number| number < PER_TACK));
        // A TACK repeats what the one before said, lest that was lost.
        let ranges: Vec<RangeInclusive<u64>> =
            received(numbers.iter().copied()).newest_first().collect();
        let start = Instant::now();
        let now = start + RTT + RTT / 4;
        group.bench_function(BenchmarkId::new("on_ack, 10k in flight", name), |b| {
            b.iter_batched_ref(
                || in_flight(start, &before),
                |sent| sent.on_ack(now, ranges.iter().cloned(), &[], RTT).unwrap(),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, receiver, sender);
criterion_main!(benches);
