//! Packet protection: what a packet costs that passes, and one that is opened and sealed again, for
//! each cipher suite.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]
#![allow(missing_docs, reason = "criterion's macros write functions without any")]

use std::hint::black_box;

use criterion::{
    BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use tack_packet::{
    CipherSuite, IncomingKeys, OutgoingKeys, ProtectionKeys, ShortHeader, TAG_LEN,
};

/// A connection id as servers choose it.
const DCID_LEN: usize = 8;

/// A packet number in two bytes, as it is for most of a connection.
const PN_LEN: usize = 2;
const PACKET_NUMBER: u64 = 0x1234;

const HEADER_LEN: usize = 1 + DCID_LEN + PN_LEN;

/// An acknowledgement and a full packet, bytes.
const SIZES: [usize; 2] = [60, 1350];

fn secret(suite: CipherSuite) -> Vec<u8> {
    vec![7; suite.secret_len()]
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

/// What a stack writes.
fn sealed(suite: CipherSuite, size: usize) -> Vec<u8> {
    let keys = ProtectionKeys::new(suite, &secret(suite)).unwrap();
    let mut packet = plain(size);
    let sealed = keys.seal(0, &mut packet, &header(), size - HEADER_LEN - TAG_LEN);
    assert_eq!(sealed, Ok(size));
    packet
}

/// A measurement takes more packets than one set of keys may seal.
fn renew(keys: &mut OutgoingKeys) {
    if keys.confidentiality_limit_reached() {
        *keys = OutgoingKeys::new(keys.suite(), &secret(keys.suite())).unwrap();
    }
}

/// Packets from the stack to the wire.
fn outgoing(c: &mut Criterion) {
    for suite in CipherSuite::ALL {
        let mut group = c.benchmark_group(format!("packet/out/{suite:?}"));
        let mut keys = OutgoingKeys::new(suite, &secret(suite)).unwrap();
        for size in SIZES {
            let sealed = sealed(suite, size);
            let frames = plain(size)[HEADER_LEN..size - TAG_LEN].to_vec();
            let mut scratch = Vec::new();

            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::new("pass", size), |b| {
                let mut buf = sealed.clone();
                b.iter(|| {
                    let buf = black_box(&mut buf);
                    renew(&mut keys);
                    let written = keys.take(buf, size, DCID_LEN, PACKET_NUMBER).unwrap();
                    black_box(written.first_bytes());
                    written.pass().unwrap()
                });
            });
            group.bench_function(BenchmarkId::new("seal_again", size), |b| {
                b.iter_batched_ref(
                    || sealed.clone(),
                    |buf| {
                        renew(&mut keys);
                        let written = keys.take(buf, size, DCID_LEN, PACKET_NUMBER).unwrap();
                        written.open(&mut scratch).unwrap().seal(&frames, true).unwrap()
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
}

/// Packets from the wire to the stack.
fn incoming(c: &mut Criterion) {
    for suite in CipherSuite::ALL {
        let mut group = c.benchmark_group(format!("packet/in/{suite:?}"));
        let mut keys = IncomingKeys::new(suite, &secret(suite)).unwrap();
        for size in SIZES {
            let sealed = sealed(suite, size);
            let (mut scratch, mut out) = (Vec::new(), Vec::new());
            let read = |keys: &IncomingKeys| {
                keys.read_header(black_box(&sealed), DCID_LEN, PACKET_NUMBER).unwrap()
            };

            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::new("read_header", size), |b| {
                b.iter(|| read(&keys));
            });
            group.bench_function(BenchmarkId::new("open", size), |b| {
                b.iter(|| {
                    let header = read(&keys);
                    keys.open(&sealed, header, &mut scratch).unwrap()
                });
            });
            let header = read(&keys);
            let opened = keys.open(&sealed, header, &mut scratch).unwrap();
            group.bench_function(BenchmarkId::new("seal_for_stack", size), |b| {
                b.iter(|| keys.seal_for_stack(&opened, true, &scratch, &mut out).unwrap());
            });
        }
    }
}

criterion_group!(benches, outgoing, incoming);
criterion_main!(benches);
