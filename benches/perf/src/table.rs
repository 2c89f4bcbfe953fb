//! A run as a table.

use crate::options::Mode;
use crate::report::{EndReport, Report};

pub fn print(report: &Report<'_>) {
    let work = &report.parameters.work;
    println!(
        "{}: {} bytes down, {} up in {:.3} s; {:.1} Mbit/s ({:.1} down, {:.1} up)",
        work.mode.name(),
        report.bytes.down,
        report.bytes.up,
        report.wall_seconds,
        report.goodput_mbit_s,
        report.down_mbit_s,
        report.up_mbit_s
    );
    println!(
        "{:<8}{:>34}{:>9}{:>9}{:>9}{:>9}{:>7}{:>9}{:>9}",
        "", "", "CPU ms", "ns/byte", "packets", "acks", "lost", "RTT us", "min us"
    );
    row("client", &report.client);
    row("server", &report.server);
    if let Some(latency) = report.latency_us.filter(|_| work.mode == Mode::Requests) {
        println!(
            "latency of {} requests, us: min {:.0}, p50 {:.0}, p90 {:.0}, p99 {:.0}, p99.9 {:.0}, \
             max {:.0}",
            latency.count,
            latency.min,
            latency.p50,
            latency.p90,
            latency.p99,
            latency.p999,
            latency.max
        );
    }
}

fn row(name: &str, end: &EndReport) {
    println!(
        "{name:<8}{:>34}{:>9.1}{:>9.2}{:>9}{:>9}{:>7}{:>9}{:>9}",
        library(end),
        end.cpu_ns as f64 / 1e6,
        end.cpu_ns_per_byte,
        or_dash(end.packets_sent),
        or_dash(end.ack_packets_sent),
        or_dash(end.packets_lost),
        or_dash(end.rtt.smoothed_us.map(f64::round)),
        or_dash(end.rtt.min_us.map(f64::round))
    );
}

/// The library with its version, and the profile if it has any.
fn library(end: &EndReport) -> String {
    let version = end.versions.get(&end.library).map_or("", String::as_str);
    let profile = end.profile.as_ref().map_or(String::new(), |profile| format!(" ({profile})"));
    format!("{} {version}{profile}", end.library)
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
