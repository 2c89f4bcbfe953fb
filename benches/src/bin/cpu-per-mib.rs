//! CPU time of a transfer, both ends together: plain quiche beside TACK.
//!
//! The kinds of connection take turns (A B C D, A B C D, ...), so that what else happens on the
//! machine meets all of them alike. Medians are printed, and the ratio to plain quiche.

#![forbid(unsafe_code)]

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use serde::Serialize;
use tack_benches::{Outcome, Setup, quiche_version};
use tacklib::Profile;

/// What is compared; the first is what the others are held against.
const KINDS: [Kind; 4] = [
    Kind { name: "quiche, batches of 32", profile: Profile::Off, batch: 32 },
    Kind { name: "quiche, batches of 2", profile: Profile::Off, batch: 2 },
    Kind { name: "tack, batches of 32", profile: Profile::Default, batch: 32 },
    Kind { name: "tack, batches of 2", profile: Profile::Default, batch: 2 },
];

/// A kind of connection, and how many datagrams the receiver is given before it may answer.
struct Kind {
    name: &'static str,
    profile: Profile,
    batch: usize,
}

/// CPU time of a transfer in memory, plain quiche beside TACK.
#[derive(Parser, Serialize)]
struct Parameters {
    /// Size of a transfer, MiB.
    #[arg(long, default_value_t = 16)]
    mib: usize,
    /// Transfers of each kind.
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Round trip, milliseconds.
    #[arg(long, default_value_t = 0)]
    rtt_ms: u64,
    /// Share of data packets that get lost, 0 to 1.
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Decides which packets get lost.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure only the kinds whose name contains this, to profile one of them.
    #[arg(long, default_value = "")]
    only: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    tacklib: &'static str,
    quiche: Option<&'static str>,
    parameters: &'a Parameters,
    rows: Vec<Row>,
}

/// Medians of one kind of connection.
#[derive(Serialize)]
struct Row {
    kind: &'static str,
    cpu_ns_per_byte: f64,
    cpu_ms_per_mib: f64,
    /// CPU time over that of the first row.
    ratio: f64,
    wall_ms: f64,
    data_packets: u64,
    ack_packets: u64,
    acks_per_1000_packets: f64,
}

fn main() -> Result<()> {
    let parameters = Parameters::parse();
    ensure!(parameters.mib > 0 && parameters.runs > 0, "nothing to measure");
    ensure!((0.0..1.0).contains(&parameters.loss), "the loss is a share from 0 to below 1");
    let kinds: Vec<&Kind> =
        KINDS.iter().filter(|kind| kind.name.contains(&parameters.only)).collect();
    ensure!(!kinds.is_empty(), "no kind of connection is named so");
    let outcomes = measure(&parameters, &kinds)?;
    let report = Report {
        tacklib: env!("CARGO_PKG_VERSION"),
        quiche: quiche_version(),
        rows: rows(&kinds, &outcomes, parameters.mib << 20),
        parameters: &parameters,
    };
    if parameters.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_table(&report);
    }
    Ok(())
}

/// The outcomes of each kind.
fn measure(parameters: &Parameters, kinds: &[&Kind]) -> Result<Vec<Vec<Outcome>>> {
    let mut outcomes = vec![Vec::new(); kinds.len()];
    // The first turn warms caches and the allocator up and is not counted.
    for turn in 0..=parameters.runs {
        for (kind, outcomes) in kinds.iter().zip(&mut outcomes) {
            let setup = Setup {
                profile: kind.profile,
                batch: kind.batch,
                delay: Duration::from_millis(parameters.rtt_ms) / 2,
                loss: parameters.loss,
                seed: parameters.seed.wrapping_add(turn as u64),
            };
            let outcome = setup.connect()?.transfer(parameters.mib << 20)?;
            if turn > 0 {
                outcomes.push(outcome);
            }
        }
    }
    Ok(outcomes)
}

fn rows(kinds: &[&Kind], outcomes: &[Vec<Outcome>], bytes: usize) -> Vec<Row> {
    let cpu_ns = |of: &[Outcome]| median(of, |outcome| outcome.cpu.as_nanos() as u64) as f64;
    let base = cpu_ns(&outcomes[0]);
    let row = |(kind, outcomes): (&&Kind, &Vec<Outcome>)| {
        let cpu = cpu_ns(outcomes);
        let data_packets = median(outcomes, |outcome| outcome.data_packets);
        let ack_packets = median(outcomes, |outcome| outcome.ack_packets);
        Row {
            kind: kind.name,
            cpu_ns_per_byte: cpu / bytes as f64,
            cpu_ms_per_mib: cpu / 1e6 / (bytes as f64 / f64::from(1 << 20)),
            ratio: cpu / base,
            wall_ms: median(outcomes, |outcome| outcome.wall.as_micros() as u64) as f64 / 1e3,
            data_packets,
            ack_packets,
            acks_per_1000_packets: ack_packets as f64 * 1e3 / data_packets as f64,
        }
    };
    kinds.iter().zip(outcomes).map(row).collect()
}

fn median(outcomes: &[Outcome], value: impl Fn(&Outcome) -> u64) -> u64 {
    let mut values: Vec<u64> = outcomes.iter().map(value).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

fn print_table(report: &Report<'_>) {
    let Parameters { mib, runs, rtt_ms, loss, seed, .. } = report.parameters;
    println!(
        "{mib} MiB, RTT {rtt_ms} ms, loss {loss}, seed {seed}; medians of {runs}; tacklib {}, \
         quiche {}",
        report.tacklib,
        report.quiche.unwrap_or("unknown")
    );
    println!(
        "{:<26}{:>8}{:>8}{:>7}{:>9}{:>9}{:>8}{:>8}",
        "", "ns/byte", "ms/MiB", "ratio", "wall ms", "packets", "acks", "per 1000"
    );
    for row in &report.rows {
        println!(
            "{:<26}{:>8.2}{:>8.2}{:>7.2}{:>9.0}{:>9}{:>8}{:>8.0}",
            row.kind,
            row.cpu_ns_per_byte,
            row.cpu_ms_per_mib,
            row.ratio,
            row.wall_ms,
            row.data_packets,
            row.ack_packets,
            row.acks_per_1000_packets
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_medians_and_the_ratio_to_the_first() {
        let outcomes = [1, 2, 3, 4].map(|factor| {
            let outcome = |ms: u64| Outcome {
                cpu: factor * Duration::from_millis(ms),
                wall: Duration::from_millis(1),
                data_packets: 1000,
                ack_packets: 50,
            };
            vec![outcome(9), outcome(2), outcome(1)]
        });
        let rows = rows(&KINDS.each_ref(), &outcomes, 1 << 20);
        assert_eq!(rows[0].cpu_ms_per_mib.to_bits(), 2.0f64.to_bits());
        assert_eq!(rows[2].ratio.to_bits(), 3.0f64.to_bits());
        assert_eq!(rows[3].acks_per_1000_packets.to_bits(), 50.0f64.to_bits());
    }
}
