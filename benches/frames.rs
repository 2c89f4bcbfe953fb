//! Reading and writing frames: the walk through a data packet, and TACKs of few and many ranges.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]
#![allow(missing_docs, reason = "criterion's macros write functions without any")]

use std::hint::black_box;
use std::ops::RangeInclusive;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tack_proto::frame::{Frame, Frames, Rate, TackFields, Timestamp, Timing, encode_tack};
use tack_proto::varint;

/// Payload of a full packet, bytes.
const PAYLOAD: usize = 1310;

/// No loss, some, and what a TACK holds at most.
const RANGES: [usize; 3] = [1, 50, 400];

/// A payload of a STREAM frame, behind a TIMESTAMP if it heads a burst.
fn data_packet(timestamp: bool) -> Vec<u8> {
    const STREAM_WITH_OFFSET: u64 = 0x0c;
    let mut payload = Vec::new();
    if timestamp {
        Timestamp(12_345_678).encode(&mut payload);
    }
    for field in [STREAM_WITH_OFFSET, 4, 10_000_000] {
        varint::put(&mut payload, field);
    }
    payload.resize(PAYLOAD, 0xa5);
    payload
}

/// Ranges of 19 packets each with one missing between them, highest first.
fn ranges(count: usize) -> impl Iterator<Item = RangeInclusive<u64>> + Clone {
    (0..count as u64).map(|n| {
        let end = 1_000_000 - 20 * n;
        end - 18..=end
    })
}

fn fields() -> TackFields {
    TackFields {
        sequence: 1000,
        ack_delay_us: 250,
        received_bytes: 1 << 30,
        timing: Some(Timing { departure: 12_345_678, hold_us: 2_500 }),
        rate: Some(Rate { delivery_rate: 25_000_000, loss_rate: 3277 }),
        ecn: None,
        arrivals: None,
        grease: false,
    }
}

fn tack(out: &mut Vec<u8>, count: usize) {
    out.clear();
    let encoded =
        encode_tack(out, &fields(), ranges(count), std::iter::empty(), PAYLOAD).unwrap();
    assert_eq!(encoded.ranges, count, "all of them have to fit");
}

fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("frames");
    for (name, timestamp) in [("stream", false), ("timestamp and stream", true)] {
        let payload = data_packet(timestamp);
        group.bench_function(BenchmarkId::new("decode data packet", name), |b| {
            b.iter(|| {
                for frame in Frames::new(black_box(&payload)) {
                    black_box(frame.unwrap());
                }
            });
        });
    }
    for count in RANGES {
        let mut out = Vec::with_capacity(2 * PAYLOAD);
        group.bench_function(BenchmarkId::new("encode TACK", count), |b| {
            b.iter(|| tack(&mut out, black_box(count)));
        });
        tack(&mut out, count);
        group.bench_function(BenchmarkId::new("decode TACK", count), |b| {
            b.iter(|| {
                let located = Frames::new(black_box(&out)).next().unwrap().unwrap();
                let Frame::Tack(tack) = located.frame else { unreachable!() };
                // Decoding checks the ranges; reading them is the second walk.
                for range in &tack.ranges {
                    black_box(range);
                }
            });
        });
    }
}

criterion_group!(benches, frames);
criterion_main!(benches);
