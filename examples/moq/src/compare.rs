//! The same program over both transports, on the same link.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::backend::{Listener, Transport, connect};
use crate::publisher::{Source, new_origin, publish};
use crate::subscriber::{Received, subscribe};
use crate::wire::{Passed, Path, Wire};

/// What is compared.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct Comparison {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub path: Path,
    /// How long after it was made a frame is shown, ms: one that comes later stalls the player
    #[arg(long, default_value_t = 150.0)]
    pub playout: f64,
    /// What to compare
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tack,quinn,quinn-bbr")]
    pub transports: Vec<Transport>,
    /// Runs of each transport, with the seeds from --seed on
    #[arg(long, default_value_t = 1)]
    pub runs: u64,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub transport: &'static str,
    pub seed: u64,
    /// Frames that were made, and that have come.
    pub frames_made: u64,
    pub frames_received: u64,
    /// From the making of a frame until the subscriber has read it, ms.
    pub latency_p50_ms: f64,
    pub latency_p99_ms: f64,
    pub latency_max_ms: f64,
    /// Frames after their time of playing, and how many rows of such frames there were.
    pub late_frames: u64,
    pub stalls: u64,
    /// What passed the link.
    pub passed: Box<Passed>,
}

/// Runs the transports, one after the other.
pub async fn compare(comparison: &Comparison) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for run in 0..comparison.runs {
        for transport in &comparison.transports {
            let mut comparison = comparison.clone();
            comparison.path.seed += run;
            let context = || format!("{}, seed {}", transport.name(), comparison.path.seed);
            runs.push(run_over(*transport, &comparison).await.with_context(context)?);
        }
    }
    Ok(runs)
}

/// One run over a transport.
pub async fn run_over(transport: Transport, comparison: &Comparison) -> Result<Run> {
    let directory = tempfile::tempdir()?;
    let key_log = directory.path().join("keys.log");
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut listener = Listener::bind(transport, local, Some(&key_log))?;
    let wire = Wire::start(listener.local_addr(), &comparison.path, key_log)?;
    let (here, there) = (new_origin(), new_origin());
    let publishing = tokio::spawn(publish(here.clone(), comparison.source));
    let server = moq_net::Server::new().with_publisher(&here);
    let client = moq_net::Client::new().with_subscriber(there.clone());
    let connecting = connect(transport, wire.address(), &client);
    let (accepted, connected) = tokio::join!(listener.accept(&server), connecting);
    let (accepted, connected) = (accepted?, connected?);
    let received = subscribe(there.consume()).await?;
    drop(publishing.await??);
    drop((accepted, connected));
    let passed = Box::new(wire.stop()?);
    Ok(Run::of(transport, comparison, &received, passed))
}

/// The value that a share of the sorted ones does not exceed.
fn percentile(sorted: &[u64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).map_or(f64::NAN, |us| *us as f64 / 1e3)
}

impl Run {
    fn of(
        transport: Transport,
        comparison: &Comparison,
        received: &Received,
        passed: Box<Passed>,
    ) -> Self {
        let mut latencies: Vec<u64> =
            received.frames.iter().map(|frame| frame.latency_us).collect();
        let is_late = |us: &u64| *us as f64 / 1e3 > comparison.playout;
        let late: Vec<bool> = latencies.iter().map(is_late).collect();
        let begins = |at: &usize| late[*at] && (*at == 0 || !late[*at - 1]);
        let stalls = (0..late.len()).filter(begins).count() as u64;
        latencies.sort_unstable();
        Self {
            transport: transport.name(),
            seed: comparison.path.seed,
            frames_made: comparison.source.groups * comparison.source.frames,
            frames_received: latencies.len() as u64,
            latency_p50_ms: percentile(&latencies, 0.5),
            latency_p99_ms: percentile(&latencies, 0.99),
            latency_max_ms: percentile(&latencies, 1.0),
            late_frames: late.iter().filter(|late| **late).count() as u64,
            stalls,
            passed,
        }
    }
}

/// The runs as a table.
pub fn table(runs: &[Run]) -> String {
    let mut table = format!(
        "{:9} {:>4} {:>11} {:>7} {:>7} {:>7} {:>6} {:>6} {:>9} {:>8} {:>7}\n",
        "transport",
        "seed",
        "frames",
        "p50 ms",
        "p99 ms",
        "max ms",
        "late",
        "stalls",
        "data pkts",
        "ACK pkts",
        "resent"
    );
    for run in runs {
        let frames = format!("{}/{}", run.frames_received, run.frames_made);
        let down = &run.passed.to_subscriber;
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "{:9} {:>4} {frames:>11} {:>7.1} {:>7.1} {:>7.1} {:>6} {:>6} {:>9} {:>8} {:>7}",
            run.transport,
            run.seed,
            run.latency_p50_ms,
            run.latency_p99_ms,
            run.latency_max_ms,
            run.late_frames,
            run.stalls,
            down.data_packets,
            run.passed.to_publisher.ack_packets,
            down.retransmitted_stream_bytes,
        );
    }
    let late: u64 = runs.iter().map(|run| run.passed.late).sum();
    if late > 0 {
        let _ = writeln!(
            table,
            "{late} datagrams left the link more than 5 ms late: the machine is too busy."
        );
    }
    table
}
