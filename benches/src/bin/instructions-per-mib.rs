//! Instructions of both ends together for each MiB delivered, plain quiche beside TACK.
//!
//! Callgrind counts them, so the figures are the same from run to run and from machine to
//! machine, up to what code the CPU that valgrind shows selects.

#![forbid(unsafe_code)]

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use serde::{Deserialize, Serialize};
use tack_benches::Course;
use tacklib::Profile;

/// Instructions of a transfer in memory, plain quiche beside TACK; needs valgrind.
#[derive(Parser, Serialize)]
struct Parameters {
    /// Size of a transfer, MiB.
    #[arg(long, default_value_t = 32)]
    mib: usize,
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
    /// Fail if TACK needs more instructions than this share of plain quiche's.
    #[arg(long)]
    #[serde(skip)]
    at_most: Option<f64>,
    /// Print JSON instead of a table.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
    /// Keep callgrind's files in this directory, for callgrind_annotate.
    #[arg(long)]
    #[serde(skip)]
    keep: Option<std::path::PathBuf>,
    /// Run one transfer and print what came of it, without valgrind.
    #[arg(long)]
    #[serde(skip)]
    only: Option<Kind>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Plain,
    Tack,
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
    batch: usize,
    plain: Side,
    tack: Side,
    /// TACK's instructions over plain quiche's.
    ratio: f64,
    /// What plain quiche would have if it cost no more than where it acknowledges least, over what
    /// it has: nothing that only makes acknowledgements fewer gets below that.
    bound: f64,
}

#[derive(Serialize)]
struct Report<'a> {
    tacklib: &'static str,
    quiche: Option<&'static str>,
    parameters: &'a Parameters,
    rows: Vec<Row>,
}

fn main() -> Result<()> {
    let parameters = Parameters::parse();
    ensure!(parameters.mib > 0 && parameters.mbps > 0, "nothing to measure");
    if let Some(kind) = parameters.only {
        println!("{}", serde_json::to_string(&run(&parameters, kind)?)?);
        return Ok(());
    }
    let row = |&batch: &usize| -> Result<Row> {
        let plain = count(&parameters, batch, Kind::Plain)?;
        let tack = count(&parameters, batch, Kind::Tack)?;
        let ratio = tack.instructions_per_mib as f64 / plain.instructions_per_mib as f64;
        Ok(Row { batch, plain, tack, ratio, bound: 1.0 })
    };
    let mut rows: Vec<_> = parameters.batch.iter().map(row).collect::<Result<_>>()?;
    let least = rows.iter().map(|row| row.plain.instructions_per_mib).min().unwrap_or_default();
    for row in &mut rows {
        row.bound = least as f64 / row.plain.instructions_per_mib as f64;
    }
    let report = Report {
        tacklib: env!("CARGO_PKG_VERSION"),
        quiche: tack_benches::quiche_version(),
        rows,
        parameters: &parameters,
    };
    if parameters.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_table(&report);
    }
    let worst = report.rows.iter().map(|row| row.ratio).fold(0.0, f64::max);
    if let Some(at_most) = parameters.at_most.filter(|at_most| worst > *at_most) {
        bail!("TACK needs {worst:.3} of plain quiche's instructions, more than {at_most}");
    }
    Ok(())
}

/// One transfer, in the process that is counted.
fn run(parameters: &Parameters, kind: Kind) -> Result<Run> {
    let &[batch] = &parameters.batch[..] else { bail!("--only wants one --batch") };
    let rate = parameters.mbps * 1_000_000;
    let course = Course {
        profile: if kind == Kind::Tack { Profile::Default } else { Profile::Off },
        batch,
        rate,
        delay: Duration::from_millis(parameters.rtt_ms) / 2,
        queue: parameters.queue_bdp * rate / 8 * parameters.rtt_ms / 1000,
    };
    let finish = course.connect(1)?.counted_transfer(parameters.mib << 20)?;
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

/// Runs this program under callgrind, which counts inside `counted_transfer` alone.
fn count(parameters: &Parameters, batch: usize, kind: Kind) -> Result<Side> {
    let name = if kind == Kind::Tack { "tack" } else { "plain" };
    let directory = parameters.keep.clone().unwrap_or_else(env::temp_dir);
    fs::create_dir_all(&directory)
        .with_context(|| format!("{} could not be made", directory.display()))?;
    let file = directory.join(format!("callgrind.{}.{name}.{batch}", std::process::id()));
    let mut option = std::ffi::OsString::from("--callgrind-out-file=");
    option.push(&file);
    let output = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--collect-atstart=no"])
        .arg("--toggle-collect=*counted_transfer*")
        .arg(option)
        .arg(env::current_exe()?)
        .args(["--only", name])
        .args(["--mib", &parameters.mib.to_string(), "--batch", &batch.to_string()])
        .args(["--mbps", &parameters.mbps.to_string()])
        .args(["--rtt-ms", &parameters.rtt_ms.to_string()])
        .args(["--queue-bdp", &parameters.queue_bdp.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("valgrind could not be run; install it (Debian: apt-get install valgrind)")?;
    ensure!(output.status.success(), "the transfer under valgrind failed: {}", output.status);
    let run: Run = serde_json::from_slice(&output.stdout)
        .context("the transfer under valgrind printed something else than its report")?;
    let counted = fs::read_to_string(&file)
        .with_context(|| format!("callgrind has left no {}", file.display()))?;
    if parameters.keep.is_none() {
        let _ = fs::remove_file(&file);
    }
    let total = total(&counted).context("callgrind's file has no total")?;
    ensure!(total > 0, "callgrind has counted nothing: was the program stripped?");
    Ok(Side { instructions_per_mib: total / parameters.mib as u64, run })
}

/// The sum of a callgrind file.
fn total(counted: &str) -> Option<u64> {
    counted.lines().rev().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
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
    vec![env::consts::ARCH.to_owned()]
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
        "{:>6}  {:<8}{:>18}{:>8}{:>8}{:>10}{:>8}{:>10}{:>9}",
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
                "{:>6}  {:<8}{:>18}{:>8.3}{:>8}{:>10}{:>8}{:>10.1}{:>9}",
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
    println!(
        "bound: plain quiche where it acknowledges least, over plain quiche here; fewer\n\
         acknowledgements save no more than that."
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_the_end_of_callgrinds_file() {
        let file = "version: 1\nevents: Ir\nfn=(1) main\n1 5\n\ntotals: 1234\n";
        assert_eq!(total(file), Some(1234));
        assert_eq!(total("summary: 1\n"), None);
    }
}
