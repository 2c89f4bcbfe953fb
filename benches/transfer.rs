//! A transfer in memory: TACK beside plain quiche, in CPU time of both ends together.
//!
//! The rows of a group differ in nothing but the profile and in how many datagrams the receiver
//! is given before it may answer. Compare them with each other; the absolute figures are those
//! of a machine. `cpu-per-mib` measures the same in turns and prints the ratios.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a transfer that fails has no time")]
#![allow(missing_docs, reason = "criterion's macros write functions without any")]

use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{
    BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use tack_benches::{Setup, process_cpu_time};
use tacklib::Profile;

const BYTES: usize = 16 << 20;

/// Datagrams that an endpoint reads at a time.
const ENDPOINT_BATCH: usize = 32;

/// Criterion's measurement: CPU time instead of wall time, because a paced sender sleeps.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        process_cpu_time()
    }

    fn end(&self, start: Duration) -> Duration {
        process_cpu_time().saturating_sub(start)
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn transfer(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("transfer of 16 MiB, CPU time");
    group.sample_size(10).throughput(Throughput::Bytes(BYTES as u64));
    for (name, profile, batch) in [
        ("quiche", Profile::Off, ENDPOINT_BATCH),
        ("quiche, every 2nd packet acknowledged", Profile::Off, 2),
        ("tack", Profile::Default, ENDPOINT_BATCH),
        ("tack, every 2nd packet may be acknowledged", Profile::Default, 2),
    ] {
        let setup = Setup { profile, batch, delay: Duration::ZERO, loss: 0.0, seed: 1 };
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter_batched_ref(
                || setup.connect().unwrap(),
                |pair| pair.transfer(BYTES).unwrap(),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = transfer
}
criterion_main!(benches);
