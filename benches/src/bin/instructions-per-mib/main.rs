//! Instructions for each MiB delivered, plain quiche beside TACK.
//!
//! Callgrind counts them, so the figures are the same from run to run and from machine to
//! machine, up to what code the CPU that valgrind shows selects.

#![forbid(unsafe_code)]

mod arm;
mod callgrind;
mod gate;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Parser;
use serde::{Deserialize, Serialize};
use tack_benches::{Course, Side as End, Transport};
use tacklib::Profile;

use self::arm::{Arm, Kind};
use self::gate::Gate;

/// Instructions of a transfer in memory, plain quiche beside TACK; needs valgrind.
#[derive(Parser, Serialize)]
struct Parameters {
    /// What is measured.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "streams")]
    arm: Vec<Arm>,
    /// Size of a transfer, MiB.
    #[arg(long, default_value_t = 32)]
    mib: usize,
    /// Size of a transfer before it that is not counted, MiB.
    #[arg(long, default_value_t = 0)]
    warm_up_mib: usize,
    /// Datagrams that the receiver reads before it may answer.
    #[arg(long, value_delimiter = ',', default_value = "1,4,14,32,400")]
    batch: Vec<usize>,
    /// The bottleneck, Mbit/s.
    #[arg(long, default_value_t = 200)]
    mbps: u64,
    /// Round trip without queue, milliseconds.
    #[arg(long, default_value_t = 40)]
    rtt_ms: u64,
    /// What waits in front of the bottleneck at most, bandwidth-delay products. So deep that
    /// nothing gets lost, and nobody's figures are those of recovering from it.
    #[arg(long, default_value_t = 32)]
    queue_bdp: u64,
    /// Measure what this file has limits for, and fail if TACK needs more than they allow;
    /// without FILE, benches/instructions-limits.toml.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = gate::LIMITS,
          conflicts_with_all = ["arm", "mib", "warm_up_mib", "batch", "json"])]
    #[serde(skip)]
    gate: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
    /// Keep callgrind's files in this directory, for callgrind_annotate.
    #[arg(long)]
    #[serde(skip)]
    keep: Option<PathBuf>,
    /// Run one transfer and print what came of it, without valgrind.
    #[arg(long)]
    #[serde(skip)]
    only: Option<Kind>,
}

/// What the counted process says of its run.
#[derive(Clone, Deserialize, Serialize)]
struct Run {
    virtual_ms: u64,
    data_packets: u64,
    dropped: u64,
    datagrams_per_batch: f64,
    ack_packets: u64,
    /// What the CPU shows of what selects AES code; valgrind's is not the machine's.
    cpu: Vec<String>,
}

#[derive(Serialize)]
struct Side {
    instructions_per_mib: u64,
    #[serde(flatten)]
    run: Run,
}

#[derive(Serialize)]
struct Row {
    arm: Arm,
    batch: usize,
    plain: Side,
    tack: Side,
    /// TACK's instructions over plain quiche's.
    ratio: f64,
    /// What plain quiche would have if it cost no more than where it acknowledges least, over what
    /// it has: nothing that only makes acknowledgements fewer gets below that.
    bound: f64,
    /// The ratio over that of streams with the same batch, where both were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_streams: Option<f64>,
}

#[derive(Serialize)]
struct Report<'a> {
    tacklib: &'static str,
    quiche: Option<&'static str>,
    parameters: &'a Parameters,
    rows: Vec<Row>,
}

fn main() -> Result<ExitCode> {
    let parameters = Parameters::parse();
    ensure!(parameters.mib > 0 && parameters.mbps > 0, "nothing to measure");
    if let Some(kind) = parameters.only {
        println!("{}", serde_json::to_string(&run(&parameters, kind)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &parameters.gate {
        let gate = Gate::read(path)?;
        return pass_gate(&gate, parameters);
    }
    let report = measure(&parameters)?;
    if parameters.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_table(&report);
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(parameters: &Parameters) -> Result<Report<'_>> {
    let mut rows = Vec::new();
    for &arm in &parameters.arm {
        let row = |&batch: &usize| row(parameters, arm, batch);
        let mut of_arm: Vec<_> = parameters.batch.iter().map(row).collect::<Result<_>>()?;
        let least = of_arm.iter().map(|row| row.plain.instructions_per_mib).min();
        for row in &mut of_arm {
            row.bound =
                least.unwrap_or_default() as f64 / row.plain.instructions_per_mib as f64;
        }
        rows.append(&mut of_arm);
    }
    let of_streams: Vec<_> = rows
        .iter()
        .filter(|row| row.arm == Arm::Streams)
        .map(|row| (row.batch, row.ratio))
        .collect();
    for row in rows.iter_mut().filter(|row| row.arm == Arm::Http3) {
        let streams = of_streams.iter().find(|(batch, _)| *batch == row.batch);
        row.over_streams = streams.map(|(_, ratio)| row.ratio / ratio);
    }
    let quiche = tack_benches::quiche_version();
    Ok(Report { tacklib: env!("CARGO_PKG_VERSION"), quiche, parameters, rows })
}

fn row(parameters: &Parameters, arm: Arm, batch: usize) -> Result<Row> {
    let plain = callgrind::count(parameters, arm, batch, Kind::Plain)?;
    let tack = callgrind::count(parameters, arm, batch, Kind::Tack)?;
    let ratio = tack.instructions_per_mib as f64 / plain.instructions_per_mib as f64;
    Ok(Row { arm, batch, plain, tack, ratio, bound: 1.0, over_streams: None })
}

/// Measures what there are limits for and holds it against them.
fn pass_gate(gate: &Gate, parameters: Parameters) -> Result<ExitCode> {
    let parameters = Parameters { mib: gate.mib, warm_up_mib: gate.mib, ..parameters };
    let mut holds = true;
    for limit in &gate.limits {
        let ratio = row(&parameters, limit.arm, limit.batch)?.ratio;
        let (line, within) = limit.judge(ratio);
        println!("{line}");
        holds &= within;
    }
    if holds {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "TACK takes more instructions for each MiB than its limits allow, as a share of plain \
         quiche's. See where they go: instructions-per-mib --keep DIR, then callgrind_annotate."
    );
    Ok(ExitCode::FAILURE)
}

/// One transfer, in the process that is counted.
fn run(parameters: &Parameters, kind: Kind) -> Result<Run> {
    let &[batch] = &parameters.batch[..] else { bail!("--only wants one --batch") };
    let &[arm] = &parameters.arm[..] else { bail!("--only wants one --arm") };
    let rate = parameters.mbps * 1_000_000;
    let path = Course {
        client: Profile::Off,
        server: Profile::Off,
        sender: End::Client,
        transport: Transport::Stream,
        batch,
        rate,
        delay: Duration::from_millis(parameters.rtt_ms) / 2,
        queue: parameters.queue_bdp * rate / 8 * parameters.rtt_ms / 1000,
    };
    let mut runner = arm.course(kind, path).connect(1)?;
    if parameters.warm_up_mib > 0 {
        runner.warm_up(parameters.warm_up_mib << 20)?;
    }
    let finish = runner.counted_transfer(parameters.mib << 20)?;
    Ok(Run {
        virtual_ms: finish.elapsed.as_millis() as u64,
        data_packets: finish.data_packets,
        dropped: finish.dropped,
        datagrams_per_batch: (finish.data_packets - finish.dropped) as f64
            / finish.batches.max(1) as f64,
        ack_packets: finish.ack_packets,
        cpu: cpu_features(),
    })
}

#[cfg(target_arch = "x86_64")]
fn cpu_features() -> Vec<String> {
    use std::arch::is_x86_feature_detected as has;

    let features = [
        ("aes", has!("aes")),
        ("pclmulqdq", has!("pclmulqdq")),
        ("avx2", has!("avx2")),
        ("vaes", has!("vaes")),
        ("avx512f", has!("avx512f")),
    ];
    features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_features() -> Vec<String> {
    vec![std::env::consts::ARCH.to_owned()]
}

fn print_table(report: &Report<'_>) {
    let Parameters { mib, mbps, rtt_ms, .. } = report.parameters;
    println!(
        "{mib} MiB over {mbps} Mbit/s, RTT {rtt_ms} ms; tacklib {}, quiche {}",
        report.tacklib,
        report.quiche.unwrap_or("unknown")
    );
    if let Some(row) = report.rows.first() {
        println!("CPU as valgrind shows it: {}", row.tack.run.cpu.join(" "));
    }
    println!(
        "{:<16}{:>6}  {:<8}{:>18}{:>8}{:>8}{:>10}{:>8}{:>10}{:>9}",
        "arm",
        "batch",
        "",
        "instructions/MiB",
        "ratio",
        "bound",
        "packets",
        "acks",
        "per batch",
        "dropped"
    );
    for row in &report.rows {
        let bound = format!("{:.3}", row.bound);
        let sides = [("quiche", &row.plain, 1.0, ""), ("tack", &row.tack, row.ratio, &*bound)];
        for (name, side, ratio, bound) in sides {
            println!(
                "{:<16}{:>6}  {:<8}{:>18}{:>8.3}{:>8}{:>10}{:>8}{:>10.1}{:>9}",
                row.arm.name(),
                row.batch,
                name,
                side.instructions_per_mib,
                ratio,
                bound,
                side.run.data_packets,
                side.run.ack_packets,
                side.run.datagrams_per_batch,
                side.run.dropped
            );
        }
    }
    for row in &report.rows {
        if let Some(over) = row.over_streams {
            println!("http3, batch {}: {over:.3} of the ratio of streams", row.batch);
        }
    }
    println!(
        "bound: plain quiche where it acknowledges least, over plain quiche here; fewer\n\
         acknowledgements save no more than that."
    );
}
