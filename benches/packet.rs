//! Packet protection: reading a header, opening and sealing, for each cipher suite.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]
#![allow(missing_docs, reason = "criterion's macros write functions without any")]

use std::hint::black_box;

use criterion::{
    BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use tack_packet::{CipherSuite, ProtectionKeys, ShortHeader, TAG_LEN};

/// A connection id as servers choose it.
const DCID_LEN: usize = 8;

/// A packet number in two bytes, as it is for most of a connection.
const PN_LEN: usize = 2;
const PACKET_NUMBER: u64 = 0x1234;

const HEADER_LEN: usize = 1 + DCID_LEN + PN_LEN;

/// An acknowledgement and a full packet, bytes.
const SIZES: [usize; 2] = [60, 1350];

fn keys(suite: CipherSuite) -> ProtectionKeys {
    ProtectionKeys::new(suite, &vec![7; suite.secret_len()]).unwrap()
}

fn header() -> ShortHeader {
    ShortHeader {
        first_byte: 0x40 | (PN_LEN as u8 - 1),
        packet_number: PACKET_NUMBER,
        pn_len: PN_LEN,
        header_len: HEADER_LEN,
    }
}

/// A packet that is not protected yet.
fn plain(size: usize) -> Vec<u8> {
    let mut packet = vec![0xa5; size];
    packet[0] = header().first_byte;
    packet[HEADER_LEN - PN_LEN..HEADER_LEN]
        .copy_from_slice(&PACKET_NUMBER.to_be_bytes()[8 - PN_LEN..]);
    packet
}

fn packet(c: &mut Criterion) {
    for suite in CipherSuite::ALL {
        let mut group = c.benchmark_group(format!("packet/{suite:?}"));
        let mut keys = keys(suite);
        for size in SIZES {
            let payload_len = size - HEADER_LEN - TAG_LEN;
            let plain = plain(size);
            let mut sealed = plain.clone();
            assert_eq!(keys.seal(0, &mut sealed, &header(), payload_len), Ok(size));

            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::new("peek", size), |b| {
                b.iter(|| keys.peek(black_box(&sealed), DCID_LEN, PACKET_NUMBER).unwrap());
            });
            group.bench_function(BenchmarkId::new("open", size), |b| {
                b.iter_batched_ref(
                    || sealed.clone(),
                    |packet| keys.open(packet, DCID_LEN, PACKET_NUMBER).unwrap(),
                    BatchSize::SmallInput,
                );
            });
            group.bench_function(BenchmarkId::new("seal", size), |b| {
                b.iter_batched_ref(
                    || plain.clone(),
                    |packet| keys.seal(0, packet, &header(), payload_len).unwrap(),
                    BatchSize::SmallInput,
                );
            });
        }
    }
}

criterion_group!(benches, packet);
criterion_main!(benches);
