//! `tack-lab soak`: random links by the thousand.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::experiments::Progress;
use crate::output;
use crate::pool;
use crate::report::Table;
use crate::soak::{self, Comparison, Quantiles, Summary};
use crate::versions::Versions;

/// Sends the same data over random links with TACK and with its rivals, in virtual time.
///
/// A seed decides the link, which is drawn on logarithmic scales: rate from 0.1 to 1,000 Mbit/s,
/// round trip from 1 to 800 ms, queue from 0.1 to 10 bandwidth-delay products, loss up to 20 %, loss
/// of acknowledgements up to 50 %, jitter, reordering, blackouts. A link that loses at most 1 % of
/// the data and 10 % of the acknowledgements is clean.
///
/// The exit code is 0 if every byte arrived as it was sent and no transfer stalled, TACK got at least 0.7 of the best rival
/// on every clean link, and the median share of the clean links was at least 0.95.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How many links
    #[arg(long, default_value_t = 2000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: u64,
    /// Seed of the first link
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    first: u64,
    /// Directory for the result, soak.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    summary: &'a Summary,
    first_seed: u64,
    seeds: u64,
    versions: Versions,
    runs: &'a [Comparison],
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let seeds: Vec<_> = (0..args.seeds).map(|at| args.first.wrapping_add(at)).collect();
    let progress = Progress::new("soak");
    progress.expect(seeds.len());
    let runs = pool::run_all(&seeds, |&seed| {
        let comparison = soak::compare(seed);
        progress.advance();
        comparison
    });
    progress.finish();
    let summary = Summary::new(&runs);
    let report = Report {
        summary: &summary,
        first_seed: args.first,
        seeds: args.seeds,
        versions: Versions::of_this_build(),
        runs: &runs,
    };
    if let Some(dir) = &args.out {
        let path = dir.join("soak.json");
        let wrong = || format!("--out {}", path.display());
        fs::create_dir_all(dir).with_context(wrong)?;
        fs::write(&path, serde_json::to_vec_pretty(&report)?).with_context(wrong)?;
    }
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&text(&summary, &runs))?;
    }
    Ok(if summary.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(summary: &Summary, runs: &[Comparison]) -> String {
    let mut parts = Vec::new();
    if let [run] = runs {
        parts.push(stacks(run).to_string());
        parts.push(how_to_trace(run));
    } else {
        let worst = summary.worst.iter();
        let worst = worst.filter_map(|seed| runs.iter().find(|run| run.seed == *seed));
        parts
            .push(links("The clean links on which TACK is furthest behind", worst).to_string());
        parts.push(quantiles(summary).to_string());
    }
    if !summary.rival_faults.is_empty() {
        parts.push(format!("Rivals that failed:\n  {}", summary.rival_faults.join("\n  ")));
    }
    if summary.passed {
        parts.push("All targets are met.".to_owned());
    } else {
        parts.push(format!("MISSED:\n  {}", summary.missed.join("\n  ")));
    }
    parts.join("\n\n")
}

/// A row for each link, with what repeats it.
fn links<'a>(title: &str, runs: impl Iterator<Item = &'a Comparison>) -> Table {
    let mut table = Table::new(title)
        .number("ratio", "of the best rival", "", 3)
        .text("best_rival", "best rival")
        .number("share", "of the link", "", 3)
        .number("goodput_mbps", "goodput", "Mbit/s", 3)
        .number("rate_mbps", "rate", "Mbit/s", 3)
        .number("rtt_ms", "RTT", "ms", 2)
        .number("queue_bdp", "queue", "BDP", 2)
        .number("loss_percent", "loss", "%", 2)
        .number("ack_loss_percent", "ACK loss", "%", 2)
        .number("jitter_ms", "jitter", "ms", 1)
        .text("reorder", "reordering")
        .number("blackouts", "blackouts", "", 0)
        .text("command", "to repeat it");
    for run in runs {
        let link = &run.link;
        let reorder = link
            .reorder
            .map_or("-".to_owned(), |(share, ms)| format!("{:.1} % by {ms} ms", share * 100.0));
        table.row([
            run.ratio.into(),
            run.best_rival.into(),
            run.tack.link_share.into(),
            run.tack.goodput_mbps.into(),
            link.rate_mbps.into(),
            link.rtt_ms.into(),
            link.queue_bdp.into(),
            (link.loss * 100.0).into(),
            (link.ack_loss * 100.0).into(),
            link.jitter_ms.into(),
            reorder.into(),
            link.blackouts.len().into(),
            format!("tack-lab soak --seeds 1 --first {}", run.seed).into(),
        ]);
    }
    table
}

/// A row for each stack.
fn stacks(run: &Comparison) -> Table {
    let title = format!("{} bytes over the link of seed {}", run.link.bytes, run.seed);
    let mut table = Table::new(title)
        .text("stack", "stack")
        .number("goodput_mbps", "goodput", "Mbit/s", 3)
        .number("link_share", "of the link", "", 3)
        .number("completion_s", "complete after", "s", 3)
        .number("silence_s", "longest silence", "s", 2)
        .number("needless", "needless packets", "", 0)
        .number("queue_p95_ms", "queueing p95", "ms", 1)
        .text("fault", "fault");
    for transfer in [&run.tack].into_iter().chain(&run.rivals) {
        table.row([
            transfer.stack.into(),
            transfer.goodput_mbps.into(),
            transfer.link_share.into(),
            transfer.completion_s.into(),
            transfer.silence_s.into(),
            transfer.needless.into(),
            transfer.queue_p95_ms.into(),
            transfer.failure().into(),
        ]);
    }
    table
}

/// The link as a file, and the command that sends TACK's packets over it again.
fn how_to_trace(run: &Comparison) -> String {
    let link = &run.link;
    format!(
        "{}\nWith this in a file link.toml, the same packets again, with a trace:\n  tack-lab \
         transfer --link link.toml --loss-data {:?} --loss-ack {:?} --bytes {} --seconds 3600 \
         --seed {} --trace packets",
        link.toml(),
        link.loss,
        link.ack_loss,
        link.bytes,
        run.seed
    )
}

fn quantiles(summary: &Summary) -> Table {
    let mut table = Table::new("TACK over all links")
        .text("what", "")
        .number("seeds", "links", "", 0)
        .number("least", "least", "", 3)
        .number("p1", "1 %", "", 3)
        .number("p10", "10 %", "", 3)
        .number("median", "median", "", 3)
        .number("p90", "90 %", "", 3);
    for (what, quantiles) in [
        ("of the best rival, clean", summary.clean_ratio),
        ("of the best rival, all", summary.ratio),
        ("of the link in long transfers, clean", summary.clean_share),
        ("of the link in long transfers, all", summary.share),
    ] {
        let Some(Quantiles { seeds, least, p1, p10, median, p90 }) = quantiles else {
            continue;
        };
        let values = [least, p1, p10, median, p90].map(Into::into);
        table.row([what.into(), seeds.into()].into_iter().chain(values));
    }
    table
}
